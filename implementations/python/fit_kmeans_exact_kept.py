# SPDX-License-Identifier: Apache-2.0
"""This suite's library where the points are kept from fit to fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import _kmeans_exact
import estimator

if TYPE_CHECKING:
    import numpy as np

TRAITS = _kmeans_exact.TRAITS | {
    "summary": "points.lloyd(points.ward_start(k, seed), labels_of='returned')",
    "defaults": "one start by Ward's method on 3k seeds of k-means++; at most 300 iterations, "
    "until no label changes",
    "outside": "points = kmeans_exact.Points(X), which checks them and keeps what engines make of "
    "them from fit to fit",
    "seeding": "points.ward_start(k, seed)",
}


class KmeansExactKept(_kmeans_exact.Estimator):
    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        self._points = self.library().Points(points, threads=threads, device=self.device)
        self._k = k

    def fit(self, seed: int) -> estimator.Fitted:
        run = self._points.lloyd(self._points.ward_start(self._k, seed), labels_of="returned")
        return estimator.Fitted(run.centroids, run.labels, run.iterations, run.converged)

    def seeding(self, seed: int) -> None:
        self._points.ward_start(self._k, seed)

    def fit_from(self, centroids: np.ndarray, iterations: int) -> estimator.Fitted:
        run = self._points.lloyd(centroids, iterations=iterations, stop=None, labels_of="returned")
        return estimator.Fitted(run.centroids, run.labels, run.iterations)
