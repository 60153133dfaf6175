# SPDX-License-Identifier: Apache-2.0
"""cuML on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import estimator

if TYPE_CHECKING:
    import numpy as np

TRAITS = {
    "summary": "cuml.cluster.KMeans(n_clusters=k, random_state=seed, output_type='numpy').fit(X)",
    "defaults": "one start by k-means||; at most 300 iterations, until centroids move by "
    "1e-4 or less",
    "source": "cuML",
    "distance": "expanded",
    "gpu": True,
    "takes_starts": True,
    "requires": ["cuml-cu13", "numpy"],
    "remedy": "cuml-cu13 needs an environment of its own, which KMEANS_BENCH_PYTHON names",
}


class Cuml(estimator.Estimator):
    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        from cuml.cluster import KMeans

        self._kmeans, self._points, self._k = KMeans, points, k

    def fit(self, seed: int) -> estimator.Fitted:
        starts = {"n_init": self.starts} if self.starts else {}
        model = self._kmeans(
            n_clusters=self._k, random_state=seed, output_type="numpy", **starts
        ).fit(self._points)
        return estimator.Fitted(
            centroids=model.cluster_centers_,
            labels=model.labels_,
            iterations=int(model.n_iter_),
            objective=float(model.inertia_),
        )
