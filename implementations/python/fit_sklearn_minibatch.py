# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's MiniBatchKMeans."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import estimator

if TYPE_CHECKING:
    import numpy as np

TRAITS = {
    "summary": "MiniBatchKMeans(n_clusters=k, random_state=seed).fit(X)",
    "defaults": "batches of 1 024 points; of one start by greedy k-means++ on 3 072 points (3k, if "
    "that is more); at most 100 times through the points, until 10 batches brought nothing; labels "
    "of the last centroids",
    "source": "scikit-learn",
    "distance": "expanded",
    "takes_starts": True,
    "requires": ["scikit-learn", "numpy", "scipy", "threadpoolctl"],
}


class SklearnMiniBatch(estimator.Estimator):
    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        from sklearn.cluster import MiniBatchKMeans

        warnings.filterwarnings("ignore", category=UserWarning, module="sklearn")
        self._kmeans, self._points, self._k = MiniBatchKMeans, points, k

    def fit(self, seed: int) -> estimator.Fitted:
        starts = {"n_init": self.starts} if self.starts else {}
        model = self._kmeans(n_clusters=self._k, random_state=seed, **starts).fit(self._points)
        return estimator.Fitted(
            centroids=model.cluster_centers_,
            labels=model.labels_,
            iterations=model.n_iter_,
            objective=model.inertia_,
        )
