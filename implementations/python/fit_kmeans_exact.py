# SPDX-License-Identifier: Apache-2.0
"""This suite's library: its estimator, at its defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

import _kmeans_exact
import estimator

if TYPE_CHECKING:
    import numpy as np

TRAITS = _kmeans_exact.TRAITS | {
    "summary": "kmeans_exact.KMeans(n_clusters=k, random_state=seed).fit(X)",
    "defaults": "one start by Ward's method on 3k seeds of k-means++; at most 300 iterations, "
    "until no label changes, or until the squares by which centroids move add up to at most 1e-4 "
    "of the mean variance of the columns",
    "stops": "tolerance",
    "takes_starts": True,
    "takes_problems": "kmeans_exact.lloyd_batch(parts, "
    "kmeans_exact.ward_start_batch(parts, k, seed), tol=1e-4, labels_of='returned')",
    "seeding": "kmeans_exact.ward_start(X, k, seed)",
}


class KmeansExact(_kmeans_exact.Estimator):
    metric = "euclidean"

    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        self._library = self.library()
        self._kmeans = self._library.KMeans  # imports scikit-learn
        self._points, self._k, self._threads = points, k, threads

    def fit(self, seed: int) -> estimator.Fitted:
        if self.problems > 1:
            return self._batch(seed)
        starts = {"n_init": self.starts} if self.starts else {}
        model = self._kmeans(
            n_clusters=self._k,
            random_state=seed,
            n_threads=self._threads,
            device=self.device,
            metric=self.metric,
            **starts,
        ).fit(self._points)
        return estimator.Fitted(
            centroids=model.cluster_centers_,
            labels=model.labels_,
            iterations=model.n_iter_,
            converged=model.n_iter_ < model.max_iter,
            objective=model.inertia_,
        )

    def _batch(self, seed: int) -> estimator.Fitted:
        points = self.parts(self._points)
        start = self._library.ward_start_batch(points, self._k, seed, threads=self._threads)
        run = self._library.lloyd_batch(
            points, start, tol=1e-4, labels_of="returned", threads=self._threads
        )
        return estimator.Fitted(
            centroids=run.centroids,
            labels=run.labels,
            iterations=int(run.iterations.max()),
            converged=bool(run.converged.all()),
        )

    def seeding(self, seed: int) -> None:
        library = self._library
        points = library.Points(
            self._points, threads=self._threads, device=self.device, metric=self.metric
        )
        points.ward_start(self._k, seed)

    def fit_from(self, centroids: np.ndarray, iterations: int) -> estimator.Fitted:
        run = self._library.lloyd(
            self._points,
            centroids,
            iterations=iterations,
            stop=None,
            labels_of="returned",
            threads=self._threads,
            device=self.device,
            metric=self.metric,
        )
        return estimator.Fitted(run.centroids, run.labels, run.iterations)
