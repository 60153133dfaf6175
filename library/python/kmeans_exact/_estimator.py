# SPDX-License-Identifier: Apache-2.0
"""An estimator for scikit-learn."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from . import LloydResult, kmeans_plusplus, lloyd


class KMeans(TransformerMixin, ClusterMixin, BaseEstimator):
    """k-means by the exact Lloyd step, in float32.

    Parameters
    ----------
    n_clusters : int, default=8
    init : "k-means++" or array of shape (n_clusters, n_features), default="k-means++"
    n_init : int, default=1
        Runs with different seeds, of which the one with the lowest inertia is kept; an array as
        ``init`` is run once.
    max_iter : int, default=300
        A run ends earlier once no label changes.
    random_state : int, RandomState instance or None, default=None
        An int is the seed of the suite's ``kmeans++:SEED`` for the first run.
    n_threads : int, default=0
        0: all that this process may use.
    device : "cpu", "gpu" or "any", default="cpu"
        "any": the GPU where there is one that takes the problem.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features), float32
    labels_ : array of shape (n_samples,), int32
        Those of ``cluster_centers_``.
    inertia_ : float
    n_iter_ : int
    n_features_in_ : int
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: int = 1,
        max_iter: int = 300,
        random_state: Any = None,
        n_threads: int = 0,
        device: str = "cpu",
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_threads = n_threads
        self.device = device

    def fit(self, X: Any, y: object = None) -> KMeans:
        """Cluster the rows of X."""
        X = validate_data(self, X, dtype=np.float32, order="C")
        if X.shape[0] < self.n_clusters:
            raise ValueError(f"n_samples={X.shape[0]} should be >= n_clusters={self.n_clusters}.")
        best = None
        for init in self._initial_centroids(X):
            run = self._lloyd(X, init, iterations=self.max_iter)
            labels = run.labels if run.converged else self._labels(X, run.centroids)
            inertia = _inertia(X, run.centroids, labels)
            if best is None or inertia < best[0]:
                best = (inertia, labels, run)
        self.inertia_, self.labels_, run = best
        self.cluster_centers_ = run.centroids
        self.n_iter_ = run.iterations
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The nearest centroid of each row: the lowest index on a tie."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float32, order="C", reset=False)
        return self._labels(X, self.cluster_centers_)

    def transform(self, X: Any) -> np.ndarray:
        """Distances of each row from all centroids, in the type of X."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        return euclidean_distances(X, self.cluster_centers_.astype(X.dtype))

    def _initial_centroids(self, X: np.ndarray) -> list[np.ndarray]:
        if not isinstance(self.init, str):
            return [np.asarray(self.init, dtype=np.float32)]
        if self.init != "k-means++":
            raise ValueError(f"init must be 'k-means++' or an array, not {self.init!r}")
        if isinstance(self.random_state, Integral):
            seeds = [int(self.random_state) + run for run in range(self.n_init)]
        else:
            random = check_random_state(self.random_state)
            seeds = [int(random.randint(2**31)) for _ in range(self.n_init)]
        return [kmeans_plusplus(X, self.n_clusters, seed) for seed in seeds]

    def _lloyd(self, X: np.ndarray, init: np.ndarray, **how: Any) -> LloydResult:
        return lloyd(X, init, threads=self.n_threads, device=self.device, **how)

    def _labels(self, X: np.ndarray, centroids: np.ndarray) -> np.ndarray:
        """Of one iteration more, whose centroids are dropped."""
        n, k = len(X), len(centroids)
        if n < k:  # the engine wants a point a cluster
            X = np.concatenate([X, np.repeat(X[:1], k - n, axis=0)])
        return self._lloyd(X, centroids, iterations=1, stop=None).labels[:n]


def _inertia(X: np.ndarray, centroids: np.ndarray, labels: np.ndarray) -> float:
    """Sum of squared distances, in float64, a block of rows at a time."""
    total = 0.0
    for begin in range(0, len(X), 4096):
        rows = slice(begin, begin + 4096)
        differences = X[rows].astype(np.float64) - centroids[labels[rows]]
        total += float(np.einsum("ij,ij->", differences, differences))
    return total
