# SPDX-License-Identifier: Apache-2.0
"""faiss: its Clustering over a flat L2 index, from given centroids.

Idea:      the centroids form an index that every point searches for its nearest entry
Parallel:  search over blocks of points (OpenMP, BLAS); in the update each thread owns a range of
           centroids and reads all points
Memory:    blocks of the distance matrix, 12 bytes per point
Numerics:  expanded square in float32; sums over the points in order; an empty cluster takes
           half of another
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import contract

if TYPE_CHECKING:
    import numpy as np

TRAITS = {
    "summary": "faiss.Kmeans on the CPU",
    "source": "faiss",
    "precisions": ["f32"],
    "parallel": True,
    "distance": "expanded",
    "labels_of": "returned",
    "empty_clusters": "relocate",
    "timing_note": "objective and imbalance in every iteration, a random permutation per run; the "
    "assignment to the returned centroids is not timed",
    "requires": ["faiss-cpu", "numpy", "threadpoolctl"],
    "memory_bytes": {"n": 32, "1": 64e6},
    "limits": [
        {
            "terms": {"k": 1, "n": -1},
            "at_most": -1,
            "reason": "faiss returns the points themselves when there are as many clusters",
        },
        {
            "terms": {"n": 1},
            "at_most": 2**31 - 1,
            "reason": "faiss counts training points in 32-bit integers",
        },
    ],
}


class PythonFaiss(contract.Variant):
    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        import faiss

        self._faiss = faiss
        self._points = points
        self._k = k
        self._settings = {}
        if hasattr(faiss.ClusteringParameters(), "early_stop_threshold"):
            # At 0, the default, it stops when the objective is what it was an iteration ago; below
            # 0, outside of what is documented, nothing satisfies it and all iterations are run.
            self._settings["early_stop_threshold"] = -1
        faiss.omp_set_num_threads(threads)

    def reset(self, centroids: np.ndarray) -> None:
        self._centroids = centroids

    def step(self, iterations: int) -> int:
        n, d = self._points.shape
        kmeans = self._faiss.Kmeans(
            d,
            self._k,
            niter=iterations,
            nredo=1,
            min_points_per_centroid=1,
            max_points_per_centroid=n,  # no sample: all points are used
            check_input_data_for_NaNs=False,
            **self._settings,
        )
        kmeans.train(self._points, init_centroids=self._centroids)
        self._centroids = kmeans.centroids
        return len(kmeans.iteration_stats)

    def fetch(self) -> tuple[np.ndarray, np.ndarray]:
        index = self._faiss.IndexFlatL2(self._points.shape[1])
        index.add(self._centroids)
        return self._centroids, index.search(self._points, 1)[1].ravel()
