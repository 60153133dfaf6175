# SPDX-License-Identifier: Apache-2.0
"""scikit-learn-intelex (oneDAL): KMeans with the same arguments as scikit-learn's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import fit_sklearn_kmeans

if TYPE_CHECKING:
    import estimator

TRAITS = {
    "summary": "sklearnex.cluster.KMeans(n_clusters=k, random_state=seed).fit(X)",
    "defaults": "one start by oneDAL's k-means++; at most 300 iterations, until centroids move by "
    "at most 1e-4 of the mean variance of the columns",
    "source": "oneDAL",
    "distance": "expanded",
    "takes_init": True,
    "takes_starts": True,
    "requires": ["scikit-learn-intelex", "scikit-learn", "numpy", "threadpoolctl"],
    "requirements": "requirements-onedal.txt",
}


class Sklearnex(fit_sklearn_kmeans.SklearnKMeans):
    def _estimator(self) -> Any:
        from sklearnex.cluster import KMeans

        return KMeans

    def fit(self, seed: int) -> estimator.Fitted:
        return replace(super().fit(seed), converged=None)  # it does not say
