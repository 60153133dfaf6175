# SPDX-License-Identifier: Apache-2.0
"""This suite's library by cosine, on a GPU: of points of length one."""

from __future__ import annotations

import fit_kmeans_exact_cosine

TRAITS = fit_kmeans_exact_cosine.TRAITS | {
    "summary": "kmeans_exact.KMeans(n_clusters=k, random_state=seed, metric='cosine', "
    "device='gpu').fit(X)",
    "gpu": True,
}


class KmeansExactGpuCosine(fit_kmeans_exact_cosine.KmeansExactCosine):
    device = "gpu"
