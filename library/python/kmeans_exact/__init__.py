# SPDX-License-Identifier: Apache-2.0
"""Lloyd's algorithm for k-means, exact and fast: the engines that kmeans-bench measures.

Labels and centroids have the same bits on every machine and with every number of threads. Points
are n rows of d coordinates, centroids k rows, both used as float32. ``python -m kmeans_exact``
prints what is installed.

>>> import numpy as np
>>> import kmeans_exact
>>> x = np.array([[0, 0], [0, 2], [9, 0], [9, 2]], dtype=np.float32)
>>> kmeans_exact.lloyd(x, kmeans_exact.ward_start(x, 2, seed=1)).centroids
array([[9., 1.],
       [0., 1.]], dtype=float32)
"""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from . import _checks, _engine, _gpu
from ._checks import RoundingWarning

if TYPE_CHECKING:
    from ._estimator import KMeans

__all__ = [
    "BatchResult",
    "KMeans",
    "LloydResult",
    "Points",
    "RoundingWarning",
    "distances",
    "inertia",
    "instructions",
    "kmeans_plusplus",
    "lloyd",
    "lloyd_batch",
    "nearest",
    "problem_with_gpu",
    "release_memory",
    "unit_rows",
    "ward_start",
    "ward_start_batch",
]
if importlib.util.find_spec("sklearn") is None:
    __all__.remove("KMeans")
__version__ = _engine.version()
_COSINE = _checks.metric("cosine")


def instructions() -> str:
    """What is used here: "native", or a level of x86-64, as "x86-64-v3"."""
    return _engine.instructions()


def problem_with_gpu() -> str:
    """Why `lloyd` can use no GPU here; empty: it can. The first call looks for one."""
    return _engine.problem_with_gpu()


def release_memory() -> None:
    """Gives back the memory that calls keep: at most 128 MiB of the host's, and GPUs'."""
    _engine.release_memory()


class LloydResult(NamedTuple):
    """What `lloyd` returns."""

    #: k x d float32: where the last iteration led.
    centroids: NDArray[np.float32]
    #: n int32, of the last iteration: by the centroids that it started from, unless ``labels_of``
    #: says otherwise.
    labels: NDArray[np.int32]
    #: Iterations that were run.
    iterations: int
    #: With ``stop="labels"``: the last iteration changed no label or, with ``tol``, moved the
    #: centroids by no more.
    converged: bool


class BatchResult(NamedTuple):
    """What `lloyd_batch` returns, of B problems."""

    #: B x k x d float32: as of `LloydResult`, like the others.
    centroids: NDArray[np.float32]
    #: B x n int32.
    labels: NDArray[np.int32]
    #: B int64.
    iterations: NDArray[np.int64]
    #: B truth values.
    converged: NDArray[np.bool_]


class Points:
    """Points that many runs are made on: from several seeds, with several k, from where one ended.

    They are checked once, and what engines make of them is kept from run to run. Methods give
    the answers of the functions of their names, which have arguments and errors explained. One
    call at a time is at work; others wait.

    Parameters
    ----------
    x : n x d
        Used in place where it is float32 in C order; then it must stay as it is. Or in the memory
        of a GPU, as an array of CuPy, PyTorch, JAX or Numba (DLPack, CUDA array interface):
        float32, float16 or bfloat16 in C order, and all is done there whatever ``device`` says.
    threads : int
        0: all that this process may use (OMP_NUM_THREADS, threadpoolctl); at most 4096.
    device : "cpu", "gpu" or "any"
        "any": the GPU where there is one that takes the problem.
    metric : "euclidean" or "cosine"
        "cosine": all rows and centroids are scaled to length one, as `unit_rows` does, and new
        centroids are the directions of sums. With a copy of x.
    """

    def __init__(
        self,
        x: ArrayLike,
        *,
        threads: int = 0,
        device: str = "cpu",
        metric: str = "euclidean",
    ) -> None:
        self._metric = _checks.metric(metric)
        most, where = _checks.threads("threads", threads), _checks.device(device)
        rows = _checks.points("x", x)
        self._rows: NDArray[np.float32] | _gpu.Rows
        if isinstance(rows, _gpu.Rows):
            if self._metric == _COSINE:
                rows = _gpu.unit_rows(rows)
            self._rows = rows
            self._points = _engine.points_on_gpu(
                rows.address, rows.shape[0], rows.shape[1], rows.numbers, rows.stream, most
            )
        else:
            self._rows = self._scaled(rows, most)
            self._points = _engine.points(self._rows, most, where)

    def lloyd(
        self,
        init: ArrayLike,
        *,
        iterations: int = 300,
        stop: str | None = "labels",
        tol: float | None = None,
        labels_of: str = "starting",
        weights: ArrayLike | None = None,
        answers: str = "host",
    ) -> LloydResult:
        """As the function `lloyd`."""
        how = _checks.run(iterations, stop, tol, labels_of)
        on_gpu = _checks.stay_on_gpu(answers, isinstance(self._rows, _gpu.Rows))
        return self._lloyd(init, how, self._weights(weights), on_gpu)[0]

    def _lloyd(
        self,
        init: ArrayLike,
        how: tuple[int, int, float, int],
        weights: NDArray[np.float64] | None,
        on_gpu: bool = False,
    ) -> tuple[LloydResult, bool]:
        """And whether the last iteration changed no label."""
        centroids = self._centroids("init", init)
        if on_gpu:
            *answer, settled, near = _engine.lloyd_on_gpu(
                self._points, centroids, *how, weights, self._metric
            )
        else:
            *answer, settled, near = _engine.lloyd(
                self._points, centroids, *how, weights, self._metric
            )
        return LloydResult(*answer, converged=settled or near), settled

    def nearest(self, centroids: ArrayLike) -> NDArray[np.int32]:
        """As the function `nearest`."""
        return _engine.nearest(self._points, self._centroids("centroids", centroids))

    def distances(
        self, centroids: ArrayLike, *, dtype: DTypeLike = np.float64
    ) -> NDArray[np.floating[Any]]:
        """As the function `distances`."""
        rows = self._centroids("centroids", centroids)
        if _checks.wants_float32(dtype):
            return _engine.distances_float32(self._points, rows)
        return _engine.distances_float64(self._points, rows)

    def inertia(
        self,
        centroids: ArrayLike,
        labels: ArrayLike | None = None,
        *,
        weights: ArrayLike | None = None,
    ) -> float:
        """As the function `inertia`."""
        rows = self._centroids("centroids", centroids)
        if labels is None:
            whose = _engine.nearest(self._points, rows)
        else:
            whose = _checks.labels("labels", labels, len(self._rows))
        return _engine.inertia(self._points, rows, whose, self._weights(weights))

    def ward_start(
        self, k: int, seed: int = 0, *, weights: ArrayLike | None = None
    ) -> NDArray[np.float32]:
        """As the function `ward_start`."""
        return self._scaled(_engine.seed_ward(self._points, *self._seeding(k, seed, weights)))

    def kmeans_plusplus(
        self, k: int, seed: int = 0, *, weights: ArrayLike | None = None
    ) -> NDArray[np.float32]:
        """As the function `kmeans_plusplus`."""
        return _engine.seed_plus_plus(self._points, *self._seeding(k, seed, weights))

    @property
    def engines(self) -> int:
        """How many engines have been set up so far: for runs with one k, one."""
        return _engine.engines(self._points)

    def _centroids(self, name: str, given: ArrayLike) -> NDArray[np.float32]:
        others = None if self._metric == _COSINE else _on_host(self._rows)
        centroids = _checks.first_centroids(name, given, others)
        _checks.same_columns(name, centroids, "x", self._rows)
        return self._scaled(centroids)

    def _scaled(self, rows: NDArray[np.float32], threads: int = 1) -> NDArray[np.float32]:
        return _engine.unit_rows(rows, threads) if self._metric == _COSINE else rows

    def _weights(self, given: ArrayLike | None) -> NDArray[np.float64] | None:
        return _checks.weights("weights", given, len(self._rows))

    def _seeding(self, k: int, seed: int, weights: ArrayLike | None) -> tuple:
        clusters = _checks.clusters("k", k, len(self._rows))
        return clusters, _checks.seed("seed", seed), self._weights(weights)


def lloyd(
    x: ArrayLike,
    init: ArrayLike,
    *,
    iterations: int = 300,
    stop: str | None = "labels",
    tol: float | None = None,
    labels_of: str = "starting",
    weights: ArrayLike | None = None,
    threads: int = 0,
    device: str = "cpu",
    metric: str = "euclidean",
    answers: str = "host",
) -> LloydResult:
    """Lloyd iterations from first centroids. No argument is changed.

    Parameters
    ----------
    x : n x d
        Points, in any layout; bool counts as 0 and 1. Without a copy where they are float32 in C
        order. A RoundingWarning says where float32 loses what rows differ in. `Points` says what
        may be in the memory of a GPU.
    init : k x d, k from 1 to n
    iterations : int
        At most; with ``stop=None`` exactly.
    stop : "labels" or None
        "labels": also after an iteration that changed no label.
    tol : float or None
        As scikit-learn's: also after one in which the squares by which the centroids moved add up
        to no more than this share of the mean variance of the columns (here by ``weights``).
    labels_of : "starting" or "returned"
        Whose labels: those of the centroids that the last iteration started from, or of those
        that are returned, as `nearest` gives them.
    weights : n numbers of at least 0, or None
        Count a row so many times: integers give the bits of repeated rows, where both are accepted.
    threads : int
        0: all that this process may use (OMP_NUM_THREADS, threadpoolctl); at most 4096.
    device : "cpu", "gpu" or "any"
        "any": the GPU where there is one that takes the problem.
    metric : "euclidean" or "cosine"
        "cosine": spherical k-means, as `Points` explains.
    answers : "host" or "gpu"
        "gpu", of points in the memory of a GPU: centroids and labels stay there, as objects that
        ``from_dlpack`` of CuPy, PyTorch or JAX takes.

    Raises
    ------
    ValueError
        NaN or infinity, with its place; points that the exact step refuses; another shape.
    TypeError
        What is no dense table of real numbers, or of another kind than an argument has to be.
    RuntimeError
        With "gpu": why there is none.
    MemoryError
        With what is needed, and what is free.
    """
    points, centroids = _tables(x, "init", init)
    _checks.run(iterations, stop, tol, labels_of)
    return Points(points, threads=threads, device=device, metric=metric).lloyd(
        centroids,
        iterations=iterations,
        stop=stop,
        tol=tol,
        labels_of=labels_of,
        weights=weights,
        answers=answers,
    )


def lloyd_batch(
    x: ArrayLike,
    init: ArrayLike,
    *,
    iterations: int = 300,
    stop: str | None = "labels",
    tol: float | None = None,
    labels_of: str = "starting",
    threads: int = 0,
    device: str = "cpu",
    metric: str = "euclidean",
    answers: str = "host",
) -> BatchResult:
    """`lloyd` on each of many problems of one shape, with the bits that it gives alone.

    ``x`` is B x n x d, ``init`` B x k x d. Where problems are small and many, as codebooks of a
    product quantiser, this is much quicker than call by call, since a thread, or a multiprocessor
    of a GPU, has one for itself. Both may be in the memory of a GPU. The other arguments are as
    for `lloyd`, which says what is raised; errors name the problem.
    """
    points, shape = _checks.problem_points("x", x)
    given = _checks.problems("init", init)
    for axis, what in ((0, "problems"), (2, "columns")):
        if given.shape[axis] != shape[axis]:
            raise ValueError(f"kmeans_exact: x has {shape[axis]} {what}, init {given.shape[axis]}")
    how = _checks.run(iterations, stop, tol, labels_of)
    most, by = _checks.threads("threads", threads), _checks.metric(metric)
    where = _checks.device(device)
    stays = _checks.stay_on_gpu(answers, isinstance(points, _gpu.Rows))
    if isinstance(points, _gpu.Rows):
        rows = _gpu.unit_rows(points) if by == _COSINE else points
        place = (rows.address, shape[1], rows.numbers, rows.stream)
        return BatchResult(*_engine.lloyd_batch_on_gpu(*place, given, *how, by, most, stays))
    points = _unit_problems(points, by, most)
    return BatchResult(*_engine.lloyd_batch(points, given, *how, by, most, where))


def ward_start_batch(
    x: ArrayLike, k: int, seed: int = 0, *, threads: int = 0, metric: str = "euclidean"
) -> NDArray[np.float32]:
    """`ward_start` of each of many problems, B x n x d: B x k x d, all by one seed, on the CPU."""
    points, shape = _checks.problem_points("x", x)
    clusters = _checks.clusters("k", k, shape[1])
    number = _checks.seed("seed", seed)
    most, by = _checks.threads("threads", threads), _checks.metric(metric)
    if isinstance(points, _gpu.Rows):
        rows = _gpu.unit_rows(points) if by == _COSINE else points
        place = (rows.address, *shape, rows.numbers, rows.stream)
        chosen = _engine.seed_ward_batch_on_gpu(*place, clusters, number, most)
        return _unit_problems(chosen, by, most)
    points = _unit_problems(points, by, most)
    return _unit_problems(_engine.seed_ward_batch(points, clusters, number, most), by, most)


def _unit_problems(stack: NDArray[np.float32], by: int, threads: int) -> NDArray[np.float32]:
    if by != _COSINE:
        return stack
    try:
        return _engine.unit_rows(stack.reshape(-1, stack.shape[2]), threads).reshape(stack.shape)
    except ValueError as error:
        for problem, point, column in np.argwhere(~np.isfinite(stack))[:1]:
            raise ValueError(
                f"kmeans_exact: problem {problem}: point {point}, coordinate {column} is "
                f"{stack[problem, point, column]}; all must be finite"
            ) from error
        raise


def unit_rows(x: ArrayLike, *, threads: int = 0) -> NDArray[np.float32]:
    """Rows scaled to length one, n x d: what ``metric="cosine"`` makes of points and centroids.

    A row that has length one but for float32's rounding stays as it is, as does one of zeros.
    Raises as `lloyd` does.

    >>> unit_rows([[3, 4], [0, 0]])
    array([[0.6, 0.8],
           [0. , 0. ]], dtype=float32)
    """
    return _engine.unit_rows(_checks.rows("x", x), _checks.threads("threads", threads))


def nearest(
    x: ArrayLike,
    centroids: ArrayLike,
    *,
    threads: int = 0,
    device: str = "cpu",
    metric: str = "euclidean",
) -> NDArray[np.int32]:
    """The nearest of k centroids to each of n rows, n int32: the lowest index on a tie.

    Exact, by the float64 distances of float32 rows, for all rows that are finite; a row's label
    does not depend on the others. k may exceed n. Raises as `lloyd` does.
    """
    points, given = _tables(x, "centroids", centroids)
    return Points(points, threads=threads, device=device, metric=metric).nearest(given)


def distances(
    x: ArrayLike,
    centroids: ArrayLike,
    *,
    dtype: DTypeLike = np.float64,
    threads: int = 0,
    metric: str = "euclidean",
) -> NDArray[np.floating[Any]]:
    """Distances of each of n rows from each of k centroids, n x k, of float32 rows.

    Square roots of the exact step's squared distances, in float64; with ``dtype`` float32 rounded
    to that. By "cosine", the roots of 2 - 2 cos, but for rounding. On the CPU. k may exceed n.
    Raises as `lloyd` does.
    """
    points, given = _tables(x, "centroids", centroids)
    return Points(points, threads=threads, metric=metric).distances(given, dtype=dtype)


def inertia(
    x: ArrayLike,
    centroids: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    threads: int = 0,
    device: str = "cpu",
    metric: str = "euclidean",
) -> float:
    """The sum of the squared distances of n rows from the centroids of their labels.

    Without ``labels``, n integers from 0 to k - 1, from the nearest ones; with ``weights``, n
    numbers of at least 0, each times its weight. In float64, added up in an order that does not
    depend on ``threads``. Raises as `lloyd` does.
    """
    points, given = _tables(x, "centroids", centroids)
    kept = Points(points, threads=threads, device=device, metric=metric)
    return kept.inertia(given, labels, weights=weights)


def ward_start(
    x: ArrayLike,
    k: int,
    seed: int = 0,
    *,
    weights: ArrayLike | None = None,
    threads: int = 0,
    metric: str = "euclidean",
) -> NDArray[np.float32]:
    """k x d first centroids that leave little to do, the default start of `KMeans`.

    k-means++ chooses some times k seeds; Ward's method merges their cells to k, whose means these
    are. The same on every machine: the suite's ``ward:SEED``. ``weights``, n numbers of at least
    0, count a row so many times. k is from 1 to n, ``seed`` an integer below 2**64. Raises as
    `lloyd` does.
    """
    return Points(x, threads=threads, metric=metric).ward_start(k, seed, weights=weights)


def kmeans_plusplus(
    x: ArrayLike,
    k: int,
    seed: int = 0,
    *,
    weights: ArrayLike | None = None,
    threads: int = 0,
    metric: str = "euclidean",
) -> NDArray[np.float32]:
    """k rows of x by k-means++, the same on every machine: the suite's ``kmeans++:SEED``.

    One draw a seed, as the algorithm was published; scikit-learn's function of this name draws
    2 + ln k candidates and keeps the best. Otherwise as `ward_start`.
    """
    return Points(x, threads=threads, metric=metric).kmeans_plusplus(k, seed, weights=weights)


def _tables(
    x: ArrayLike, name: str, centroids: ArrayLike
) -> tuple[NDArray[np.float32] | _gpu.Rows, NDArray[np.float32]]:
    """Both are looked at before a pass over the points is made.

    Rounding of points is judged by the centroids, but for `lloyd`, whose centroids move.
    """
    given = _checks.first_centroids(name, centroids, judged=False)
    points = _checks.points("x", x, None if name == "init" else given)
    _checks.same_columns(name, given, "x", points)
    return points, _checks.first_centroids(name, centroids, _on_host(points))


def _on_host(rows: NDArray[np.float32] | _gpu.Rows) -> NDArray[np.float32] | None:
    return None if isinstance(rows, _gpu.Rows) else rows


def __getattr__(name: str) -> object:
    """KMeans needs scikit-learn, which nothing else here does."""
    if name != "KMeans":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from ._estimator import KMeans
    except ImportError as error:
        if sys._getframe(1).f_code.co_name == "_handle_fromlist":  # from kmeans_exact import KMeans
            raise
        raise AttributeError(
            f"kmeans_exact: KMeans needs scikit-learn: {error}; pip install "
            "'kmeans-exact[estimator]'"
        ) from error
    return KMeans


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
