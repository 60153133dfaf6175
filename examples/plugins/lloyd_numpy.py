# SPDX-License-Identifier: Apache-2.0
"""A plugin in Python: kmeans-bench verify --plugin lloyd_numpy.py (docs/plugins.md)."""

from __future__ import annotations

import contract  # of the suite: implementations/python/contract.py

TRAITS = {
    "summary": "Lloyd's algorithm by NumPy's matrix product",
    "precisions": ["f64"],
    "distance": "expanded",
    "requires": ["numpy"],
    "memory_bytes": {"n*k*scalar": 1, "n": 16},
}


class LloydNumpy(contract.Variant):
    def setup(self, points, k, threads):
        self.points = points

    def reset(self, centroids):
        self.centroids = centroids

    def step(self, iterations):
        import numpy as np

        for _ in range(iterations):
            norms = (self.centroids**2).sum(axis=1)
            self.labels = (norms - 2 * self.points @ self.centroids.T).argmin(axis=1)
            counts = np.bincount(self.labels, minlength=len(self.centroids))
            sums = np.zeros_like(self.centroids)
            np.add.at(sums, self.labels, self.points)
            used = counts > 0  # an empty cluster keeps its centroid
            self.centroids[used] = sums[used] / counts[used, None]

    def fetch(self):
        return self.centroids, self.labels
