# SPDX-License-Identifier: Apache-2.0
"""superkmeans on the CPU, and the search that gives labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import estimator

if TYPE_CHECKING:
    import numpy as np

TRAITS = {
    "summary": "km = SuperKMeans(k, d, seed=seed); c = km.train(X); km.assign(X, c)",
    "defaults": "at most 10 iterations from random rows, on a sample of 30 % of the points and at "
    "most 256 k of them; above 100 000 points in two levels, 3 and 5 iterations; ends where "
    "centroids move little; then every point is assigned",
    "source": "superkmeans",
    "distance": "expanded",
    "objective": "its sample of the points",
    "requires": ["superkmeans", "numpy", "threadpoolctl"],
    "remedy": "`.venv/bin/pip install superkmeans==0.2.0` brings it",
}


class Superkmeans(estimator.Estimator):
    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        from superkmeans import SuperKMeans

        self._kmeans, self._points, self._k, self._threads = SuperKMeans, points, k, threads

    def fit(self, seed: int) -> estimator.Fitted:
        kmeans = self._kmeans(self._k, self._points.shape[1], seed=seed, n_threads=self._threads)
        centroids = kmeans.train(self._points)
        labels = kmeans.assign(self._points, centroids)
        if kmeans.hierarchical_:
            return estimator.Fitted(centroids, labels)
        stats = kmeans.iteration_stats
        return estimator.Fitted(
            centroids, labels, iterations=len(stats), objective=float(stats[-1].objective)
        )
