# SPDX-License-Identifier: Apache-2.0
"""This suite's library on a GPU, where the points are kept from fit to fit."""

from __future__ import annotations

import fit_kmeans_exact_kept

TRAITS = fit_kmeans_exact_kept.TRAITS | {
    "outside": "points = kmeans_exact.Points(X, device='gpu'), which checks them and keeps what "
    "engines make of them from fit to fit",
    "gpu": True,
}


class KmeansExactGpuKept(fit_kmeans_exact_kept.KmeansExactKept):
    device = "gpu"
