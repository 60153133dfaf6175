# SPDX-License-Identifier: Apache-2.0
"""scikit-learn-intelex (oneDAL): KMeans with the same arguments as scikit-learn's."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import estimator

if TYPE_CHECKING:
    import numpy as np

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


class Sklearnex(estimator.Estimator):
    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        from sklearn.exceptions import ConvergenceWarning
        from sklearnex.cluster import KMeans

        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        self._kmeans, self._points, self._k = KMeans, points, k

    def fit(self, seed: int) -> estimator.Fitted:
        starts = {"n_init": self.starts} if self.starts else {}
        model = self._kmeans(n_clusters=self._k, random_state=seed, **starts).fit(self._points)
        return self._fitted(model)

    def fit_from(self, centroids: np.ndarray, iterations: int) -> estimator.Fitted:
        return self._fitted(
            self._kmeans(
                n_clusters=self._k, init=centroids, n_init=1, max_iter=iterations, tol=0
            ).fit(self._points)
        )

    @staticmethod
    def _fitted(model: object) -> estimator.Fitted:
        return estimator.Fitted(
            centroids=model.cluster_centers_,
            labels=model.labels_,
            iterations=model.n_iter_,
            objective=model.inertia_,
        )
