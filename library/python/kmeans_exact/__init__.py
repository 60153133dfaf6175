# SPDX-License-Identifier: Apache-2.0
"""Lloyd's algorithm for k-means, exact and fast: the engines that kmeans-bench measures.

Labels and centroids have the same bits on every machine and with every number of threads.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _checks
from ._checks import RoundingWarning

_engine: Any = importlib.import_module("._engine", __name__)  # compiled, without types

if TYPE_CHECKING:
    from ._estimator import KMeans

__all__ = [
    "KMeans",
    "LloydResult",
    "Points",
    "RoundingWarning",
    "distances",
    "inertia",
    "instructions",
    "kmeans_plusplus",
    "lloyd",
    "nearest",
    "problem_with_gpu",
    "ward_start",
]
__version__ = _engine.version()

#: The instructions that are used here.
instructions = _engine.instructions
#: Why `lloyd` can use no GPU here; empty: it can.
problem_with_gpu = _engine.problem_with_gpu


class LloydResult(NamedTuple):
    """What `lloyd` returns."""

    #: k x d float32: where the last iteration led.
    centroids: np.ndarray
    #: n int32, of the last iteration: by the centroids that it started from, unless ``labels_of``
    #: says otherwise.
    labels: np.ndarray
    #: Iterations that were run.
    iterations: int
    #: With ``stop="labels"``: the last iteration changed no label or, with ``tol``, moved the
    #: centroids by no more.
    converged: bool


class Points:
    """Points that many runs are made on: from several seeds, with several k, from where one ended.

    They are checked once, and what engines make of them is kept from run to run. Answers are those
    of the functions of the same names, which have the arguments explained. ``x`` is used in place
    where it is float32 in C order, and must stay as it is.
    """

    def __init__(self, x: object, *, threads: int = 0, device: str = "cpu") -> None:
        self._rows = _checks.rows("x", x)
        self._points = _engine.points(
            self._rows, _checks.threads("threads", threads), _checks.device(device)
        )

    def lloyd(
        self,
        init: object,
        *,
        iterations: int = 300,
        stop: str | None = "labels",
        tol: float | None = None,
        labels_of: str = "starting",
        weights: object = None,
    ) -> LloydResult:
        """As the function `lloyd`."""
        how = _checks.run(iterations, stop, tol, labels_of)
        return self._lloyd(init, how, self._weights(weights))[0]

    def _lloyd(
        self, init: object, how: tuple, weights: np.ndarray | None
    ) -> tuple[LloydResult, bool]:
        """And whether the last iteration changed no label."""
        centroids = self._centroids("init", init)
        *answer, settled, near = _engine.lloyd(self._points, centroids, *how, weights)
        return LloydResult(*answer, converged=settled or near), settled

    def nearest(self, centroids: object) -> np.ndarray:
        """As the function `nearest`."""
        return _engine.nearest(self._points, self._centroids("centroids", centroids))

    def distances(self, centroids: object, *, dtype: object = np.float64) -> np.ndarray:
        """As the function `distances`."""
        by = (
            _engine.distances_float32 if _checks.wants_float32(dtype) else _engine.distances_float64
        )
        return by(self._points, self._centroids("centroids", centroids))

    def inertia(self, centroids: object, labels: object = None, *, weights: object = None) -> float:
        """As the function `inertia`."""
        rows = self._centroids("centroids", centroids)
        if labels is None:
            whose = _engine.nearest(self._points, rows)
        else:
            whose = _checks.labels("labels", labels, len(self._rows))
        return _engine.inertia(self._points, rows, whose, self._weights(weights))

    def ward_start(self, k: int, seed: int = 0, *, weights: object = None) -> np.ndarray:
        """As the function `ward_start`."""
        return _engine.seed_ward(self._points, *self._seeding(k, seed, weights))

    def kmeans_plusplus(self, k: int, seed: int = 0, *, weights: object = None) -> np.ndarray:
        """As the function `kmeans_plusplus`."""
        return _engine.seed_plus_plus(self._points, *self._seeding(k, seed, weights))

    @property
    def engines(self) -> int:
        """How many engines have been set up so far: for runs with one k, one."""
        return _engine.engines(self._points)

    def _centroids(self, name: str, given: object) -> np.ndarray:
        centroids = _checks.first_centroids(name, given)
        _checks.same_columns(name, centroids, "x", self._rows)
        return centroids

    def _weights(self, given: object) -> np.ndarray | None:
        return _checks.weights("weights", given, len(self._rows))

    def _seeding(self, k: int, seed: int, weights: object) -> tuple:
        clusters = _checks.clusters("k", k, len(self._rows))
        return clusters, _checks.seed("seed", seed), self._weights(weights)


def lloyd(
    x: object,
    init: object,
    *,
    iterations: int = 300,
    stop: str | None = "labels",
    tol: float | None = None,
    labels_of: str = "starting",
    weights: object = None,
    threads: int = 0,
    device: str = "cpu",
) -> LloydResult:
    """Lloyd iterations on n x d points from k x d initial centroids; neither is changed.

    ``stop`` is None for exactly so many iterations, or "labels" to stop once none changes; with
    ``tol``, as scikit-learn's, also once the squares by which the centroids move add up to no more
    than this share of the mean variance of the columns. ``labels_of`` "returned" gives labels of
    the centroids that are returned, as `nearest` does. ``weights``, n numbers of at least 0, count
    a row so many times: integers give the bits of repeated rows; on the CPU alone. Both arrays are
    used as float32 (bool as 0 and 1), without a copy where they are that; a RoundingWarning says
    where that loses what rows differ in. ``threads`` 0 means all. ``device`` is "cpu", "gpu", or
    "any": the GPU where there is one that takes the problem. Raises ValueError for NaN, infinity,
    and points that the exact step refuses, TypeError for what is no dense table of real numbers,
    RuntimeError with the reason where "gpu" cannot be had, and MemoryError with what was needed.
    """
    points, centroids = _checks.rows("x", x), _checks.first_centroids("init", init)
    _checks.same_columns("init", centroids, "x", points)
    _checks.run(iterations, stop, tol, labels_of)
    return Points(points, threads=threads, device=device).lloyd(
        centroids,
        iterations=iterations,
        stop=stop,
        tol=tol,
        labels_of=labels_of,
        weights=weights,
    )


def nearest(x: object, centroids: object, *, threads: int = 0, device: str = "cpu") -> np.ndarray:
    """The nearest centroid of each row of x, n int32: the lowest index on a tie.

    Exact, by the float64 distances of float32 rows, for all rows that are finite.
    """
    points = _checks.rows("x", x)
    given = _checks.first_centroids("centroids", centroids)
    _checks.same_columns("centroids", given, "x", points)
    return Points(points, threads=threads, device=device).nearest(given)


def distances(
    x: object, centroids: object, *, dtype: object = np.float64, threads: int = 0
) -> np.ndarray:
    """Distances of each row of x from each centroid, n x k, of float32 rows.

    Square roots of the exact step's squared distances, in float64; with ``dtype`` float32 rounded
    to that. On the CPU.
    """
    points = _checks.rows("x", x)
    given = _checks.first_centroids("centroids", centroids)
    _checks.same_columns("centroids", given, "x", points)
    return Points(points, threads=threads).distances(given, dtype=dtype)


def inertia(
    x: object,
    centroids: object,
    labels: object = None,
    *,
    weights: object = None,
    threads: int = 0,
    device: str = "cpu",
) -> float:
    """The sum of the squared distances of the rows of x from the centroids of their labels.

    Without ``labels``, n integers, from the nearest ones; with ``weights`` each times its weight.
    In float64, added up in an order that does not depend on ``threads``.
    """
    points = _checks.rows("x", x)
    given = _checks.first_centroids("centroids", centroids)
    _checks.same_columns("centroids", given, "x", points)
    return Points(points, threads=threads, device=device).inertia(given, labels, weights=weights)


def ward_start(
    x: object, k: int, seed: int = 0, *, weights: object = None, threads: int = 0
) -> np.ndarray:
    """k x d first centroids that leave little to do, the default start of `KMeans`.

    k-means++ chooses some times k seeds; Ward's method merges their cells to k, whose means these
    are. The same on every machine: the suite's ``ward:SEED``. ``weights``, n numbers of at least
    0, count a row so many times. Raises as `lloyd` does.
    """
    return Points(x, threads=threads).ward_start(k, seed, weights=weights)


def kmeans_plusplus(
    x: object, k: int, seed: int = 0, *, weights: object = None, threads: int = 0
) -> np.ndarray:
    """k rows of x by k-means++, the same on every machine: the suite's ``kmeans++:SEED``.

    One draw a seed, as the algorithm was published; scikit-learn's function of this name draws
    2 + ln k candidates and keeps the best. Otherwise as `ward_start`.
    """
    return Points(x, threads=threads).kmeans_plusplus(k, seed, weights=weights)


def __getattr__(name: str) -> object:
    """KMeans needs scikit-learn, which nothing else here does."""
    if name == "KMeans":
        from ._estimator import KMeans

        return KMeans
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
