# SPDX-License-Identifier: Apache-2.0
"""faiss.Kmeans on a GPU, and the search that gives labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import estimator

if TYPE_CHECKING:
    import numpy as np

TRAITS = {
    "summary": "km = faiss.Kmeans(d, k, seed=seed, gpu=1); km.train(X); km.assign(X)",
    "defaults": "at most 25 iterations from k random rows, until the objective stays the same, on "
    "a sample of 256 k points where there are more; then every point is assigned",
    "source": "faiss",
    "distance": "expanded",
    "objective": "its sample of the points, by the centroids of the iteration before",
    "gpu": True,
    "takes_starts": True,
    "requires": ["faiss-gpu", "numpy"],
    "remedy": "faiss-gpu needs an environment without faiss-cpu, which KMEANS_BENCH_PYTHON names",
}


class FaissGpu(estimator.Estimator):
    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        import faiss

        if faiss.get_num_gpus() == 0:
            raise RuntimeError(f"faiss {faiss.__version__} finds no GPU that it can use")
        self._faiss, self._points, self._k = faiss, points, k

    def fit(self, seed: int) -> estimator.Fitted:
        starts = {"nredo": self.starts} if self.starts else {}
        kmeans = self._faiss.Kmeans(self._points.shape[1], self._k, seed=seed, gpu=1, **starts)
        kmeans.train(self._points)
        _, labels = kmeans.assign(self._points)
        return estimator.Fitted(
            centroids=kmeans.centroids,
            labels=labels,
            iterations=len(kmeans.iteration_stats),
            objective=float(kmeans.obj[-1]) if len(kmeans.obj) else None,
        )
