# SPDX-License-Identifier: Apache-2.0
"""faiss.Kmeans on the CPU, and the search that gives labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import estimator

if TYPE_CHECKING:
    import numpy as np

TRAITS = {
    "summary": "km = faiss.Kmeans(d, k, seed=seed); km.train(X); km.assign(X)",
    "defaults": "at most 25 iterations from k random rows, until the objective stays the same, on "
    "a sample of 256 k points where there are more; then every point is assigned",
    "source": "faiss",
    "distance": "expanded",
    "objective": "its sample of the points, by the centroids of the iteration before",
    "takes_init": True,
    "takes_starts": True,
    "takes_problems": "pq = faiss.ProductQuantizer(d, problems, 8); pq.cp.seed = seed; "
    "pq.train(X); pq.compute_codes(X)",
    "requires": ["faiss-cpu", "numpy", "threadpoolctl"],
}


class Faiss(estimator.Estimator):
    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        import faiss

        faiss.omp_set_num_threads(threads)
        self._faiss, self._points, self._k = faiss, points, k

    def _kmeans(self, **arguments: Any) -> Any:
        return self._faiss.Kmeans(self._points.shape[1], self._k, **arguments)

    def fit(self, seed: int) -> estimator.Fitted:
        if self.problems > 1:
            return self._product(seed)
        starts = {"nredo": self.starts} if self.starts else {}
        return self._fitted(self._kmeans(seed=seed, **starts), None)

    def _product(self, seed: int) -> estimator.Fitted:
        if self._k != 256:
            raise ValueError(f"k = {self._k}: its codes are bytes of 256 values")
        quantizer = self._faiss.ProductQuantizer(self._points.shape[1], self.problems, 8)
        quantizer.cp.seed = seed
        quantizer.train(self._points)
        centroids = self._faiss.vector_to_array(quantizer.centroids)
        codes = quantizer.compute_codes(self._points)
        return estimator.Fitted(
            centroids=centroids.reshape(self.problems, self._k, -1),
            labels=codes.T,
        )

    def fit_from(self, centroids: np.ndarray, iterations: int) -> estimator.Fitted:
        kmeans = self._kmeans(niter=iterations, max_points_per_centroid=len(self._points))
        return self._fitted(kmeans, centroids)

    def _fitted(self, kmeans: Any, init: np.ndarray | None) -> estimator.Fitted:
        kmeans.train(self._points, init_centroids=init)
        _, labels = kmeans.assign(self._points)
        return estimator.Fitted(
            centroids=kmeans.centroids,
            labels=labels,
            iterations=len(kmeans.iteration_stats),
            objective=float(kmeans.obj[-1]) if len(kmeans.obj) else None,
        )
