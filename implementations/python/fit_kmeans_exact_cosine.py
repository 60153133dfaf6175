# SPDX-License-Identifier: Apache-2.0
"""This suite's library by cosine: of points of length one."""

from __future__ import annotations

import fit_kmeans_exact

TRAITS = fit_kmeans_exact.TRAITS | {
    "summary": "kmeans_exact.KMeans(n_clusters=k, random_state=seed, metric='cosine').fit(X)",
    "seeding": "kmeans_exact.ward_start(X, k, seed, metric='cosine')",
    "takes_problems": "",
}


class KmeansExactCosine(fit_kmeans_exact.KmeansExact):
    metric = "cosine"
