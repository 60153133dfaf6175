# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's KMeans."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import estimator

if TYPE_CHECKING:
    import numpy as np

TRAITS = {
    "summary": "KMeans(n_clusters=k, random_state=seed).fit(X)",
    "defaults": "one start by greedy k-means++ (2 + ln k candidates a seed); at most 300 "
    "iterations, until no label changes, or until the squares by which centroids move add up to at "
    "most 1e-4 of the mean variance of the columns",
    "source": "scikit-learn",
    "distance": "expanded",
    "centres": True,
    "takes_init": True,
    "takes_starts": True,
    "takes_problems": "[KMeans(n_clusters=k, random_state=seed).fit(part) for part in parts]",
    "seeding": "sklearn.cluster.kmeans_plusplus(X, k, random_state=seed)",
    "requires": ["scikit-learn", "numpy", "scipy", "threadpoolctl"],
}


class SklearnKMeans(estimator.Estimator):
    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        from sklearn.exceptions import ConvergenceWarning

        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        self._kmeans, self._points, self._k = self._estimator(), points, k

    def _estimator(self) -> Any:
        from sklearn.cluster import KMeans

        return KMeans

    def fit(self, seed: int) -> estimator.Fitted:
        if self.problems > 1:
            return estimator.side_by_side([self._fit(p, seed) for p in self.parts(self._points)])
        return self._fit(self._points, seed)

    def _fit(self, points: np.ndarray, seed: int) -> estimator.Fitted:
        starts = {"n_init": self.starts} if self.starts else {}
        model = self._kmeans(n_clusters=self._k, random_state=seed, **starts).fit(points)
        return self._fitted(model, converged=model.n_iter_ < model.max_iter)

    def seeding(self, seed: int) -> None:
        from sklearn.cluster import kmeans_plusplus

        kmeans_plusplus(self._points, self._k, random_state=seed)

    def fit_from(self, centroids: np.ndarray, iterations: int) -> estimator.Fitted:
        model = self._kmeans(
            n_clusters=self._k, init=centroids, n_init=1, max_iter=iterations, tol=0
        ).fit(self._points)
        return self._fitted(model, converged=None)

    @staticmethod
    def _fitted(model: Any, converged: bool | None) -> estimator.Fitted:
        return estimator.Fitted(
            centroids=model.cluster_centers_,
            labels=model.labels_,
            iterations=model.n_iter_,
            converged=converged,
            objective=model.inertia_,
        )
