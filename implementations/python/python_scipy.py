# SPDX-License-Identifier: Apache-2.0
"""SciPy's kmeans2 with given centroids and a fixed number of iterations.

Idea:      labels by scipy.cluster.vq.vq, then means over the labels, both in C
Parallel:  from d = 5 on the distances come from one matrix product, which BLAS may split
Memory:    from d = 5 on an n x k matrix of distances
Numerics:  below d = 5 direct differences, else the expanded square; sums in the points' precision
Source:    goldsborough2017, whose linked program times kmeans2; its text shows scipy.cluster.vq's
           kmeans, which iterates to a threshold
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import contract

if TYPE_CHECKING:
    import numpy as np

TRAITS = {
    "summary": "scipy.cluster.vq.kmeans2",
    "source": "goldsborough2017",
    "precisions": ["f64", "f32"],
    "parallel": True,
    "distance": "expanded",
    "timing_note": "a check of all points for finite numbers in every iteration",
    "requires": ["scipy", "numpy", "threadpoolctl"],
    "memory_bytes": {"n*k*scalar": 1, "n*scalar": 2, "n": 8},
    "limits": [
        {
            "terms": {"n*d": 1},
            "at_most": 2**31 - 1,
            "reason": "scipy.cluster.vq counts coordinates in 32-bit integers",
        }
    ],
}


class PythonScipy(contract.Variant):
    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        from scipy.cluster.vq import kmeans2

        self._kmeans2 = kmeans2
        self._points = points
        self._labels = None
        # An empty cluster keeps its centroid, which is the suite's rule and no news.
        warnings.filterwarnings("ignore", message="One of the clusters is empty")

    def reset(self, centroids: np.ndarray) -> None:
        self._centroids = centroids

    def step(self, iterations: int) -> None:
        self._centroids, self._labels = self._kmeans2(
            self._points, self._centroids, iter=iterations, minit="matrix", missing="warn"
        )

    def fetch(self) -> tuple[np.ndarray, np.ndarray]:
        return self._centroids, self._labels
