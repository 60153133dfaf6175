# SPDX-License-Identifier: Apache-2.0
"""Lloyd's algorithm for k-means, exact and fast: the engines that kmeans-bench measures.

Labels and centroids have the same bits on every machine and with every number of threads.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _checks
from ._checks import RoundingWarning

#: Rounds that a thread spins at a barrier before it sleeps, about 0.05 ms. GNU's OpenMP has 300000;
#: on cores that others use, too, these cost more than the work between two barriers.
_SPIN_COUNT = "2000"


def _load_engine() -> Any:
    """The extension module. OpenMP reads its variables when it is loaded, and never again."""
    ours = not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys()
    if ours:
        os.environ["GOMP_SPINCOUNT"] = _SPIN_COUNT
    try:
        return importlib.import_module("._engine", __name__)
    finally:
        if ours:
            del os.environ["GOMP_SPINCOUNT"]


_engine = _load_engine()

if TYPE_CHECKING:
    from ._estimator import KMeans

__all__ = [
    "KMeans",
    "LloydResult",
    "RoundingWarning",
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
    #: n int32, of the last iteration: by the centroids that it started from.
    labels: np.ndarray
    #: Iterations that were run.
    iterations: int
    #: With ``stop="labels"``: the last iteration changed no label.
    converged: bool


def lloyd(
    x: object,
    init: object,
    *,
    iterations: int = 300,
    stop: str | None = "labels",
    threads: int = 0,
    device: str = "cpu",
) -> LloydResult:
    """Lloyd iterations on n x d points from k x d initial centroids; neither is changed.

    ``stop`` is None for exactly so many iterations, or "labels" to stop once none changes. Both
    arrays are used as float32 (bool as 0 and 1), without a copy where they are that; a
    RoundingWarning says where that loses what rows differ in. ``threads`` 0 means all.
    ``device`` is "cpu", "gpu", or "any": the GPU where there is one that takes the problem. Raises
    ValueError for NaN, infinity, and points that the exact step refuses, TypeError for what is no
    dense table of real numbers, RuntimeError with the reason where "gpu" cannot be had, and
    MemoryError with what was needed.
    """
    points, centroids = _checks.rows("x", x), _checks.first_centroids("init", init)
    _checks.same_columns("init", centroids, "x", points)
    return LloydResult(
        *_engine.lloyd(
            points,
            centroids,
            _checks.iterations("iterations", iterations),
            _checks.stop(stop),
            _checks.threads("threads", threads),
            _checks.device(device),
        )
    )


def nearest(x: object, centroids: object, *, threads: int = 0, device: str = "cpu") -> np.ndarray:
    """The nearest centroid of each row of x, n int32: the lowest index on a tie.

    Exact, by the float64 distances of float32 rows, for all rows that are finite.
    """
    points = _checks.rows("x", x)
    given = _checks.first_centroids("centroids", centroids)
    _checks.same_columns("centroids", given, "x", points)
    return _engine.nearest(
        points, given, _checks.threads("threads", threads), _checks.device(device)
    )


def ward_start(
    x: object, k: int, seed: int = 0, *, weights: object = None, threads: int = 0
) -> np.ndarray:
    """k x d first centroids that leave little to do, the default start of `KMeans`.

    k-means++ chooses some times k seeds; Ward's method merges their cells to k, whose means these
    are. The same on every machine: the suite's ``ward:SEED``. ``weights``, n integers of at least
    0, count a row so many times. Raises as `lloyd` does.
    """
    return _engine.seed_ward(*_seeding(x, k, seed, weights, threads))


def kmeans_plusplus(
    x: object, k: int, seed: int = 0, *, weights: object = None, threads: int = 0
) -> np.ndarray:
    """k rows of x by k-means++, the same on every machine: the suite's ``kmeans++:SEED``.

    One draw a seed, as the algorithm was published; scikit-learn's function of this name draws
    2 + ln k candidates and keeps the best. Otherwise as `ward_start`.
    """
    return _engine.seed_plus_plus(*_seeding(x, k, seed, weights, threads))


def _seeding(x: object, k: int, seed: int, weights: object, threads: int) -> tuple:
    """Checked, as the engine takes it."""
    points = _checks.rows("x", x)
    return (
        points,
        _checks.clusters("k", k, len(points)),
        _checks.seed("seed", seed),
        _checks.weights("weights", weights, len(points)),
        _checks.threads("threads", threads),
    )


def __getattr__(name: str) -> object:
    """KMeans needs scikit-learn, which nothing else here does."""
    if name == "KMeans":
        from ._estimator import KMeans

        return KMeans
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
