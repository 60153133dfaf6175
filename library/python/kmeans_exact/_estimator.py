# SPDX-License-Identifier: Apache-2.0
"""An estimator for scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    _check_sample_weight,
    assert_all_finite,
    check_is_fitted,
    validate_data,
)

from . import LloydResult, Points, _checks, _engine, _gpu

_SEEDINGS = {"ward": Points.ward_start, "k-means++": Points.kmeans_plusplus}
#: Runs with n_init="auto", as scikit-learn's: of several, where one start may be far from good.
_AUTO_RUNS = 10


class KMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """k-means by the exact Lloyd step, in float32, with the parameters of scikit-learn's.

    From columns that are far from 0 for their range, its middle is subtracted first, where float32
    or the exact step needs that; a RoundingWarning says where it is not enough. X may be in the
    memory of a GPU, as for `Points`; attributes and answers are NumPy arrays all the same.

    Parameters
    ----------
    n_clusters : int, default=8
    init : {"ward", "k-means++", "random"}, array or callable, default="ward"
        "ward": `ward_start`, which ends lower and sooner than scikit-learn's default. "k-means++":
        `kmeans_plusplus`, one draw a seed, quicker and worse. "random": the rows that
        scikit-learn would choose. An array has the shape (n_clusters, n_features); a callable
        returns one, given a copy of X in float32 (less what is subtracted), n_clusters and
        random_state.
    n_init : int or "auto", default="auto"
        Runs with different seeds, of which the one with the lowest inertia is kept; an array as
        ``init`` is run once. "auto": 10 of "random" and of a callable, else 1.
    max_iter : int, default=300
        A run ends earlier once no label changes.
    tol : float or None, default=1e-4
        A run also ends once the squares by which the centroids move add up to no more than this
        share of the mean variance of the columns. With ``sample_weight`` that is the weighted one;
        scikit-learn's is not. None: only when no label changes.
    verbose : int, default=0
        Above 0, a few lines are printed about each run.
    random_state : int, RandomState instance or None, default=None
        An int is the seed of the first run, as in the suite's ``ward:SEED`` and
        ``kmeans++:SEED``.
    copy_x : bool, default=True
        Of no effect: X is never written to.
    algorithm : {"lloyd", "elkan"}, default="lloyd"
        Of no effect: answers are the same, and the quickest way to them is chosen.
    n_threads : int, default=0
        0: all that this process may use (OMP_NUM_THREADS, threadpoolctl).
    device : {"cpu", "gpu", "any"}, default="cpu"
        "any": the GPU where there is one that takes the problem.
    metric : {"euclidean", "cosine"}, default="euclidean"
        "cosine": spherical k-means. Rows and centroids are scaled to length one, and distances
        and ``inertia_`` are those between them.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
        float32 numbers, as float32 where X was that, else as float64, plus what was
        subtracted. A cluster that loses all its points keeps its centroid; scikit-learn moves it.
    labels_ : array of shape (n_samples,), int32
        Those of ``cluster_centers_``.
    inertia_ : float
        Sum of the squared distances of the rows from their centroids, times weights.
    n_iter_ : int
        Iterations that the kept run made.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features_in_,)
        Only where X had names of columns.

    Examples
    --------
    >>> import numpy as np
    >>> from kmeans_exact import KMeans
    >>> x = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> model = KMeans(n_clusters=2, random_state=0).fit(x)
    >>> model.labels_
    array([1, 1, 1, 0, 0, 0], dtype=int32)
    >>> model.predict([[0, 0], [12, 3]])
    array([1, 0], dtype=int32)
    >>> model.cluster_centers_
    array([[10.,  2.],
           [ 1.,  2.]])
    """

    _origin: np.ndarray | None = None  # subtracted from X

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "ward",
        n_init: Any = "auto",
        max_iter: int = 300,
        tol: float | None = 1e-4,
        verbose: int = 0,
        random_state: Any = None,
        copy_x: bool = True,
        algorithm: str = "lloyd",
        n_threads: int = 0,
        device: str = "cpu",
        metric: str = "euclidean",
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state
        self.copy_x = copy_x
        self.algorithm = algorithm
        self.n_threads = n_threads
        self.device = device
        self.metric = metric

    def fit(self, X: Any, y: object = None, sample_weight: Any = None) -> KMeans:
        """Cluster the rows of X, array-like of shape (n_samples, n_features); y is ignored.

        ``sample_weight``, array-like of shape (n_samples,), counts a row so many times, also in
        the choice of the first centroids; integers give the bits of repeated rows (but the last
        of ``inertia_``), if k of them differ and the exact step accepts both. It is for X in the
        host's memory.
        """
        with self._unchanged_by_failure():
            table, dtype = self._table(X, reset=True)
            k = self._check_parameters(len(table))
            how = _checks.run(self.max_iter, "labels", self.tol, "returned", name="max_iter")
            weights = _weights(sample_weight, table)
            rows, origin = self._near(table, weights)
            points = self._points(rows)
            best = None
            for centroids in self._starts(rows, points, k, weights, origin):
                if self.verbose:
                    print("Initialization complete")
                run, settled = points._lloyd(centroids, how, weights)
                inertia = points.inertia(run.centroids, run.labels, weights=weights)
                if self.verbose:
                    self._tell(run, settled, inertia)
                if best is None or inertia < best[0]:
                    best = (inertia, run)
            self.inertia_, run = best
            self.labels_ = run.labels
            self._found, self._origin = run.centroids, origin
            self.cluster_centers_ = _back(run.centroids, origin).astype(dtype, copy=False)
            self.n_iter_ = run.iterations
            found = _engine.clusters_with_points(run.labels, k)
            if found < k:
                warnings.warn(
                    f"Number of distinct clusters ({found}) found smaller than n_clusters ({k}). "
                    "Possibly due to duplicate points in X.",
                    ConvergenceWarning,
                    stacklevel=2,
                )
        return self

    def fit_predict(self, X: Any, y: object = None, sample_weight: Any = None) -> np.ndarray:
        """The labels of `fit`."""
        return self.fit(X, sample_weight=sample_weight).labels_

    def fit_transform(self, X: Any, y: object = None, sample_weight: Any = None) -> np.ndarray:
        """As `fit`, then `transform` of the same rows."""
        return self.fit(X, sample_weight=sample_weight).transform(X)

    def predict(self, X: Any) -> np.ndarray:
        """The nearest centroid of each row, (n_samples,) int32: the lowest index on a tie."""
        check_is_fitted(self)
        rows, centroids, _ = self._rows(X)
        return self._points(rows).nearest(centroids)

    def transform(self, X: Any) -> np.ndarray:
        """Distances from all centroids of each row, as `predict` rounds it to float32.

        (n_samples, n_clusters), of float32 in float32, else in float64. `predict` is where the
        squared distances are lowest in float64.
        """
        check_is_fitted(self)
        rows, centroids, dtype = self._rows(X)
        return self._points(rows).distances(centroids, dtype=dtype)

    def score(self, X: Any, y: object = None, sample_weight: Any = None) -> float:
        """The inertia of X, negated: the higher, the better."""
        check_is_fitted(self)
        rows, centroids, _ = self._rows(X)
        weights = _weights(sample_weight, rows)
        return -self._points(rows).inertia(centroids, weights=weights)

    @property
    def _n_features_out(self) -> int:
        """For get_feature_names_out()."""
        return len(self.cluster_centers_)

    @contextmanager
    def _unchanged_by_failure(self) -> Iterator[None]:
        """All attributes are of one fit: an error or Ctrl-C leaves those of the one before."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _table(self, X: Any, *, reset: bool = False) -> tuple[np.ndarray | _gpu.Rows, type]:
        """And the type for answers. By scikit-learn's checks among the library's."""
        if _gpu.is_on_gpu(X):
            rows = _gpu.rows("X", X)
            _check_feature_names(self, rows, reset=reset)
            _check_n_features(self, rows, reset=reset)
            return rows, np.float32

        def validate(given: object) -> np.ndarray:
            # The engine looks for NaN and infinity where the points are, with all threads.
            is_left = isinstance(given, np.ndarray) and given.dtype == np.float32
            return validate_data(
                self, given, dtype="numeric", order="C", reset=reset, ensure_all_finite=not is_left
            )

        table = _checks.table("X", X, validate)
        return table, np.float32 if table.dtype == np.float32 else np.float64

    def _near(
        self, table: np.ndarray | _gpu.Rows, weights: np.ndarray | None
    ) -> tuple[np.ndarray | _gpu.Rows, np.ndarray | None]:
        """What `fit` computes with, and what is subtracted for it."""
        if isinstance(table, _gpu.Rows):
            return table, None
        if self.metric == "cosine":  # directions are from the origin
            return _checks.rows("X", table), None
        return _checks.rows_near("X", table, weights)

    def _rows(self, X: Any) -> tuple[np.ndarray | _gpu.Rows, np.ndarray, type]:
        """What is computed with after `fit`, the centroids, and the type for answers."""
        table, dtype = self._table(X)
        centroids = self._centroids()
        if self._origin is None and isinstance(table, _gpu.Rows):
            return table, centroids, dtype
        moved = _less("X", _on_host(table), self._origin)
        return _checks.rows("X", moved, others=centroids), centroids, dtype

    def _points(self, X: np.ndarray | _gpu.Rows) -> Points:
        threads = _checks.threads("n_threads", self.n_threads)
        try:
            return Points(X, threads=threads, device=self.device, metric=self.metric)
        except ValueError:
            if isinstance(X, np.ndarray):  # NaN and infinity in scikit-learn's words
                assert_all_finite(X, estimator_name=type(self).__name__, input_name="X")
            raise

    def _centroids(self) -> np.ndarray:
        centers, origin = self.cluster_centers_, self._origin
        # Those that `fit` found, unless they have been replaced.
        if origin is not None and isinstance(centers, np.ndarray):
            found = _back(self._found, origin).astype(centers.dtype, copy=False)
            if np.array_equal(found, centers):
                return self._found
        return _checks.rows("cluster_centers_", _less("cluster_centers_", centers, origin))

    def _check_parameters(self, n: int) -> int:
        """Those that `fit` alone has. Returns the number of clusters."""
        k = _checks.whole("n_clusters", self.n_clusters, 1)
        if n < k:
            raise ValueError(f"n_samples={n} should be >= n_clusters={k}.")
        _checks.one_of("algorithm", self.algorithm, ("lloyd", "elkan"))
        if self.algorithm == "elkan" and k == 1:
            warnings.warn(
                "algorithm='elkan' doesn't make sense for a single cluster. Using 'lloyd' instead.",
                RuntimeWarning,
                stacklevel=3,
            )
        if not isinstance(self.copy_x, (bool, np.bool_)):
            raise _checks.InvalidArgument(
                f"kmeans_exact: copy_x is {self.copy_x!r:.60}; it must be True or False"
            )
        if not isinstance(self.verbose, (bool, np.bool_)):
            _checks.whole("verbose", self.verbose, 0)
        return k

    def _starts(
        self,
        X: np.ndarray | _gpu.Rows,
        points: Points,
        k: int,
        weights: np.ndarray | None,
        origin: np.ndarray | None,
    ) -> Iterator[np.ndarray]:
        """The first centroids of each run."""
        if callable(self.init):
            make = self._called(_on_host(X), k)
        elif not (isinstance(self.init, str) or self.init is None):
            yield from self._given(X, k, origin)
            return
        elif isinstance(self.init, str) and self.init == "random":
            rows = _on_host(X)
            random = self._random()
            shares = np.ones(len(X)) if weights is None else weights
            shares = shares / shares.sum()

            def make(run: int) -> np.ndarray:
                return rows[random.choice(len(rows), size=k, replace=False, p=shares)]

        elif self.init in _SEEDINGS:
            seed = self._seeds()
            seeding = _SEEDINGS[self.init]

            def make(run: int) -> np.ndarray:
                return seeding(points, k, seed(run), weights=weights)

        else:
            raise _checks.InvalidArgument(
                "kmeans_exact: init must be 'ward', 'k-means++', 'random', an array or a "
                f"callable, not {self.init!r:.60}"
            )
        auto = 1 if isinstance(self.init, str) and self.init in _SEEDINGS else _AUTO_RUNS
        self._n_init = self._runs(auto)
        for run in range(self._n_init):
            yield make(run)

    def _runs(self, auto: int) -> int:
        if isinstance(self.n_init, str) and self.n_init == "auto":
            return auto
        return _checks.whole("n_init", self.n_init, 1, hint=", or 'auto'")

    def _given(
        self, X: np.ndarray | _gpu.Rows, k: int, origin: np.ndarray | None
    ) -> Iterator[np.ndarray]:
        runs = self._runs(auto=1)
        others = X if isinstance(X, np.ndarray) else None
        init = _checks.first_centroids("init", _less("init", self.init, origin), others)
        _check_shape(init, k, X.shape[1])
        if runs != 1:
            warnings.warn(
                "Explicit initial center position passed: performing only one init in "
                f"{type(self).__name__} instead of n_init={runs}.",
                RuntimeWarning,
                stacklevel=4,
            )
        self._n_init = 1
        yield init

    def _called(self, X: np.ndarray, k: int) -> Callable[[int], np.ndarray]:
        random = self._random()

        def make(run: int) -> np.ndarray:
            shown = X.copy()  # which may be written to, as scikit-learn's
            init = _checks.first_centroids("init", self.init(shown, k, random_state=random), X)
            _check_shape(init, k, X.shape[1])
            return init

        return make

    def _seeds(self) -> Callable[[int], int]:
        """Of run 0, 1 and so on."""
        if isinstance(self.random_state, Integral):
            first = _checks.seed("random_state", self.random_state)
            return lambda run: (first + run) % 2**64
        random = self._random()
        return lambda run: int(random.randint(2**31))

    def _random(self) -> np.random.RandomState:
        try:
            return check_random_state(self.random_state)
        except ValueError as error:
            raise ValueError(f"kmeans_exact: random_state: {error}") from error

    def _tell(self, run: LloydResult, settled: bool, inertia: float) -> None:
        """As scikit-learn does of the last iteration."""
        last = run.iterations - 1
        print(f"Iteration {last}, inertia {inertia}.")
        if settled:
            print(f"Converged at iteration {last}: strict convergence.")
        elif run.converged:
            print(f"Converged at iteration {last}: center shift is within tolerance {self.tol}.")


def _less(name: str, given: Any, origin: np.ndarray | None) -> Any:
    """What is computed with, of rows or centroids of the user's."""
    return given if origin is None else _checks.rows_from(name, given, origin)


def _back(centroids: np.ndarray, origin: np.ndarray | None) -> np.ndarray:
    return centroids if origin is None else centroids + origin


def _on_host(X: np.ndarray | _gpu.Rows) -> np.ndarray:
    return _gpu.host_rows(X) if isinstance(X, _gpu.Rows) else X


def _weights(sample_weight: Any, X: np.ndarray | _gpu.Rows) -> np.ndarray | None:
    if sample_weight is None:
        return None
    if not isinstance(sample_weight, Real):
        sample_weight = _checks.array_of_numbers("sample_weight", sample_weight)
    if isinstance(X, _gpu.Rows):
        weights: Any = _checks.weights("sample_weight", sample_weight, len(X))
    else:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    for row in np.flatnonzero(~((weights >= 0) & np.isfinite(weights)))[:1]:
        raise ValueError(
            f"kmeans_exact: sample_weight[{row}] is {weights[row]:.9g}; each must be finite and "
            "at least 0"
        )
    return weights


def _check_shape(init: np.ndarray, k: int, d: int) -> None:
    what = ""
    if init.shape[0] != k:
        what = f"the number of clusters {k}"
    elif init.shape[1] != d:
        what = f"the number of features of the data {d}"
    if what:
        raise ValueError(
            f"kmeans_exact: init: The shape of the initial centers {init.shape} does not match "
            f"{what}; it must be {k} x {d}"
        )
