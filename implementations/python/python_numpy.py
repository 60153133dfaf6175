# SPDX-License-Identifier: Apache-2.0
"""Broadcasting in NumPy, without a loop in Python.

Idea:      the points are repeated k times, so that one expression yields all n x k distances, and
           the update scatters every point into its cluster's slot of an n x k x d tensor
Parallel:  none; element-wise NumPy runs on one thread
Memory:    four n x d x k tensors pass through memory in each iteration
Numerics:  direct differences in the points' precision; sums over the points in order
Source:    goldsborough2017, with any d; its count of non-zero coordinates is a count of points
           here, and an empty cluster keeps its centroid
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import contract

if TYPE_CHECKING:
    import numpy as np

TRAITS = {
    "summary": "NumPy broadcasting over an n x d x k tensor",
    "source": "goldsborough2017",
    "precisions": ["f64", "f32"],
    "setup_note": "the points repeated for every centroid, n x d x k",
    "requires": ["numpy"],
    # The repeated points and, at the peak, the difference and its square; distances and markers.
    "memory_bytes": {"n*d*k*scalar": 3, "n*k*scalar": 1, "n*k": 1, "n": 24},
}


class PythonNumpy(contract.Variant):
    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        import numpy as np

        self._np = np
        self._points = points
        self._k = k
        self._repeated = np.stack([points] * k, axis=-1)  # n x d x k
        self._rows = np.arange(len(points))
        self._labels = np.zeros(len(points), dtype=np.int64)

    def reset(self, centroids: np.ndarray) -> None:
        self._means = centroids.T  # d x k

    def step(self, iterations: int) -> None:
        for _ in range(iterations):
            self._assign()
            self._update()

    def fetch(self) -> tuple[np.ndarray, np.ndarray]:
        return self._means.T, self._labels

    def _assign(self) -> None:
        np = self._np
        distances = np.sum(np.square(self._repeated - self._means), axis=1)  # n x k
        self._labels = np.argmin(distances, axis=-1)

    def _update(self) -> None:
        np = self._np
        n, d = self._points.shape
        members = np.zeros((n, self._k), dtype=bool)
        members[self._rows, self._labels] = True
        counts = members.sum(axis=0)  # k
        scattered = np.zeros((n, self._k, d), dtype=self._points.dtype)
        scattered[self._rows, self._labels] = self._points
        sums = scattered.sum(axis=0)  # k x d
        means = (sums.T / counts.clip(min=1)).astype(self._points.dtype)
        self._means = np.where(counts > 0, means, self._means)
