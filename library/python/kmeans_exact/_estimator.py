# SPDX-License-Identifier: Apache-2.0
"""An estimator for scikit-learn."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from . import Points, _checks, nearest

_STARTS = {"ward": Points.ward_start, "k-means++": Points.kmeans_plusplus}


class KMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """k-means by the exact Lloyd step, in float32.

    A RoundingWarning says where that loses what rows differ in.

    Parameters
    ----------
    n_clusters : int, default=8
    init : "ward", "k-means++" or array of shape (n_clusters, n_features), default="ward"
        "ward": `ward_start`, which ends lower and sooner than scikit-learn's default. "k-means++":
        `kmeans_plusplus`, one draw a seed, quicker and worse.
    n_init : int, default=1
        Runs with different seeds, of which the one with the lowest inertia is kept; an array as
        ``init`` is run once.
    max_iter : int, default=300
        A run ends earlier once no label changes.
    tol : float or None, default=None
        A run also ends once the centroids move by no more, as scikit-learn's ``tol``.
    random_state : int, RandomState instance or None, default=None
        An int is the seed of the first run, as in the suite's ``ward:SEED`` and
        ``kmeans++:SEED``.
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
        Fewer than ``max_iter``, or the labels may not have settled.
    n_features_in_ : int
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "ward",
        n_init: int = 1,
        max_iter: int = 300,
        tol: float | None = None,
        random_state: Any = None,
        n_threads: int = 0,
        device: str = "cpu",
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_threads = n_threads
        self.device = device

    def fit(self, X: Any, y: object = None) -> KMeans:
        """Cluster the rows of X."""
        X = self._rows(X, reset=True)
        k = _checks.whole("n_clusters", self.n_clusters, 1)
        if X.shape[0] < k:
            raise ValueError(f"n_samples={X.shape[0]} should be >= n_clusters={k}.")
        threads = _checks.threads("n_threads", self.n_threads)
        iterations = _checks.iterations("max_iter", self.max_iter)
        points = Points(X, threads=threads, device=self.device)
        best = None
        for start in self._starts(X, k):
            init = start if isinstance(start, np.ndarray) else _STARTS[self.init](points, k, start)
            run = points.lloyd(init, iterations=iterations, tol=self.tol, labels_of="returned")
            inertia = _inertia(X, run.centroids, run.labels)
            if best is None or inertia < best[0]:
                best = (inertia, run)
        self.inertia_, run = best
        self.labels_ = run.labels
        self.cluster_centers_ = run.centroids
        self.n_iter_ = run.iterations
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The nearest centroid of each row: the lowest index on a tie."""
        check_is_fitted(self)
        return self._nearest(self._rows(X))

    def transform(self, X: Any) -> np.ndarray:
        """Distances from all centroids of each row, as `predict` rounds it to float32.

        Of float32 they are float32, else float64: then `predict` is where they are lowest.
        """
        check_is_fitted(self)
        dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64
        distances = cdist(self._rows(X), self.cluster_centers_)
        return distances.astype(dtype, copy=False)

    def score(self, X: Any, y: object = None) -> float:
        """The inertia of X, negated: the higher, the better."""
        check_is_fitted(self)
        X = self._rows(X)
        return -_inertia(X, self.cluster_centers_, self._nearest(X))

    @property
    def _n_features_out(self) -> int:
        """For get_feature_names_out()."""
        return len(self.cluster_centers_)

    def _rows(self, X: Any, *, reset: bool = False) -> np.ndarray:
        """scikit-learn's own checks, between those of the library."""

        def validate(given: object) -> np.ndarray:
            return validate_data(self, given, dtype="numeric", order="C", reset=reset)

        return _checks.rows("X", X, validate)

    def _nearest(self, X: np.ndarray) -> np.ndarray:
        threads = _checks.threads("n_threads", self.n_threads)
        return nearest(X, self.cluster_centers_, threads=threads, device=self.device)

    def _starts(self, X: np.ndarray, k: int) -> list[np.ndarray] | list[int]:
        """The first centroids, or the seeds of several."""
        hint = "; scikit-learn's 'auto' would be 1" if isinstance(self.n_init, str) else ""
        runs = _checks.whole("n_init", self.n_init, 1, hint=hint)
        if isinstance(self.init, str) or self.init is None:
            if self.init not in _STARTS:
                raise ValueError(
                    f"kmeans_exact: init must be 'ward', 'k-means++' or an array, not {self.init!r}"
                )
        else:
            init = _checks.first_centroids("init", self.init)
            if init.shape != (k, X.shape[1]):
                raise ValueError(
                    f"kmeans_exact: init is {init.shape[0]} x {init.shape[1]}; with n_clusters={k} "
                    f"and {X.shape[1]} features it must be {k} x {X.shape[1]}"
                )
            return [init]
        if isinstance(self.random_state, Integral):
            first = _checks.seed("random_state", self.random_state)
            return [(first + run) % 2**64 for run in range(runs)]
        try:
            random = check_random_state(self.random_state)
        except ValueError as error:
            raise ValueError(f"kmeans_exact: random_state: {error}") from error
        return [int(random.randint(2**31)) for _ in range(runs)]


def _inertia(X: np.ndarray, centroids: np.ndarray, labels: np.ndarray) -> float:
    """Sum of squared distances, in float64, a block of rows at a time."""
    total = 0.0
    for begin in range(0, len(X), 4096):
        rows = slice(begin, begin + 4096)
        differences = X[rows].astype(np.float64) - centroids[labels[rows]]
        total += float(np.einsum("ij,ij->", differences, differences))
    return total
