# SPDX-License-Identifier: Apache-2.0
"""This suite's library on a GPU: its estimator."""

from __future__ import annotations

import fit_kmeans_exact

TRAITS = fit_kmeans_exact.TRAITS | {
    "summary": "kmeans_exact.KMeans(n_clusters=k, random_state=seed, device='gpu').fit(X)",
    "defaults": "as on the CPU: " + fit_kmeans_exact.TRAITS["defaults"],
    "gpu": True,
    "takes_problems": "",
}


class KmeansExactGpu(fit_kmeans_exact.KmeansExact):
    device = "gpu"
