# SPDX-License-Identifier: Apache-2.0
"""Checks what the library is given: rows by one function, other arguments by their kinds."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from . import _gpu, _shapes

#: Rows that rounding is judged by, evenly spaced.
_SAMPLED = 4096
#: Columns that are judged at once, and numbers in them, so that this needs little memory.
_COLUMNS_AT_ONCE = 256
_NUMBERS_AT_ONCE = 2**20
#: Rounding by more than this share of a column's spread may change who is near whom.
_SHARE = 1 / 256
#: So does a column of whose different values more than this share become equal.
_MERGED = 1 / 8
#: Rounding to float32 moves a number by less than this share of it, or than its least number.
_ULP = 2.0**-23
#: float64 numbers that differ by no more than this share of the largest differ by rounding alone.
_NOISE = 2.0**-49
#: A column that is further from 0 than so many times its range is to lose its middle: four bits.
_FAR = 8
#: The exact step's quantum is at most this times n times the largest coordinate. It is to be no
#: more than this share of a column's range: of a typical difference, 2 ** -20 is refused.
_QUANTUM, _FINE = 2.0**-61, 2.0**-28
#: Of types of columns, of whatever package.
_DATES = ("date", "time", "duration")
_DEVICES = ("cpu", "gpu", "any")
_METRICS = ("euclidean", "cosine")
_LABELS_OF = ("starting", "returned")
_MAX_THREADS = 4096
_MOST = np.finfo(np.float32).max


class RoundingWarning(UserWarning):
    """Points are rounded to float32, which does not hold what they differ in."""


class InvalidArgument(ValueError, TypeError):
    """An argument of the wrong kind or value: both, as scikit-learn's InvalidParameterError is."""


# ---- rows


def points(name: str, given: object, others: np.ndarray | None = None) -> np.ndarray | _gpu.Rows:
    """As `rows`, or where they are on a GPU."""
    if isinstance(given, _gpu.Rows):
        return given
    return _gpu.rows(name, given) if _gpu.is_on_gpu(given) else rows(name, given, others)


Validate = Callable[[object], np.ndarray]


def rows(
    name: str, given: object, others: np.ndarray | None = None, *, judged: bool = True
) -> np.ndarray:
    """What was given as n x d float32, without a copy where it is that.

    NaN and infinity are left to the engine, which says where. What is in a GPU's memory is copied.
    Where distances from the rows ``others`` are all that is asked for, rounding that is far below
    what those differ in is no matter. Unless ``judged``, no rounding is.
    """
    if isinstance(given, np.ndarray) and _is_ready(given):
        return given
    if _gpu.is_on_gpu(given):
        return _gpu.host_rows(_gpu.rows(name, given))
    return _as_float32(name, table(name, given), others=others, judged=judged)


def rows_near(
    name: str, matrix: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """A table as `rows`, and None; or less the middle of its columns' ranges, and these, d float64.

    That is a function of ranges, the number of rows and whether float32 holds all of a column,
    where a row of weight w counts as w rows: so weights do what repeated rows do.
    """
    count: float = len(matrix)
    counted = None
    if weights is not None:
        total, positive = float(weights.sum()), int(np.count_nonzero(weights))
        whole = total <= 2**32 and (weights == np.floor(weights)).all()
        count = total if whole else positive
        counted = weights > 0 if 0 < positive < len(matrix) else None
    origin = _origin(matrix, counted, count)
    if origin is None and np.can_cast(matrix.dtype, np.float32):
        return _in_order(matrix, np.float32), None
    moved = matrix if origin is None else rows_from(name, matrix, origin)
    if counted is None:
        return _as_float32(name, moved), origin
    rounded = _in_float32(moved)
    # Rows that do not count need not fit.
    need_not = ~counted[:, np.newaxis] & np.isfinite(moved)
    np.clip(rounded, -_MOST, _MOST, out=rounded, where=need_not)
    _refuse_beyond(name, moved, rounded)
    _warn_of_rounding(name, moved[counted], rounded[counted])
    return rounded, origin


def _origin(matrix: np.ndarray, counted: np.ndarray | None, count: float) -> np.ndarray | None:
    """What is to be subtracted: of columns that are far from 0 for their range, the middle.

    Such a difference is exact in float64, and in float32 for float32 numbers. Only where float32
    does not hold the column, or where the exact step could not resolve another one next to it.
    """
    with np.errstate(invalid="ignore"):  # of NaN
        low, high = _ends(matrix, counted)
    if not max(-low.min(), high.max()) <= _MOST:  # or NaN
        return None
    largest, span = np.maximum(np.abs(low), np.abs(high)), high - low
    moved = (span > 0) & (largest > _FAR * span)
    if moved.any():
        moved[moved] = _are_rounded(matrix, counted, moved)
    left = np.where(moved, span / 2, largest)
    if count * _QUANTUM * left.max() > _FINE * span[span > 0].min(initial=np.inf):
        far = largest >= 2 * span
        if np.where(far, span / 2, largest).max() <= left.max() / 2:
            moved |= far
    if not moved.any():
        return None
    return np.where(moved, low / 2 + high / 2, 0).astype(np.float64)


def _blocks(matrix: np.ndarray, counted: np.ndarray | None) -> Iterable[np.ndarray]:
    """All rows that count, so many at once as a cache holds."""
    n, d = matrix.shape
    some = max(1, _NUMBERS_AT_ONCE // 8 // d)
    for begin in range(0, n, some):
        block = matrix[begin : begin + some]
        yield block if counted is None else block[counted[begin : begin + some]]


def _ends(matrix: np.ndarray, counted: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest number of each column."""
    d = matrix.shape[1]
    fold = max(1, 256 // d)  # rows of a few numbers are slow to go through
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    for block in _blocks(matrix, counted):
        most = len(block) // fold * fold
        for part in (block[:most].reshape(-1, fold * d), block[most:]):
            if len(part):
                least = part.min(axis=0).reshape(-1, d).min(axis=0)
                largest = part.max(axis=0).reshape(-1, d).max(axis=0)
                low = least if low is None else np.minimum(low, least)
                high = largest if high is None else np.maximum(high, largest)
    assert low is not None  # some row counts
    assert high is not None
    return low.astype(np.longdouble), high.astype(np.longdouble)


def _are_rounded(
    matrix: np.ndarray, counted: np.ndarray | None, columns: np.ndarray
) -> np.ndarray | bool:
    """Does float32 not hold all numbers of these columns?"""
    if np.can_cast(matrix.dtype, np.float32):
        return False
    found = np.zeros(np.count_nonzero(columns), bool)
    for block in _blocks(matrix, counted):
        before = block[:, columns].astype(_wide(matrix.dtype), copy=False)
        found |= (before.astype(np.float32) != before).any(axis=0)
        if found.all():
            break
    return found


def _in_float32(matrix: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return _in_order(matrix, np.float32)


def _wide(dtype: np.dtype) -> type:
    """Holds every int64 as well, where it is longer than float64, which is sorted much sooner."""
    return np.float64 if dtype == np.float64 or dtype.itemsize < 8 else np.longdouble


def rows_from(name: str, given: Any, origin: np.ndarray) -> Any:
    """Rows less an origin, n x d float64: to the last bit also of large integers. What is no table
    of d columns as it is, for those who refuse it."""
    if _gpu.is_on_gpu(given):
        given = _gpu.host_rows(_gpu.rows(name, given))
    matrix = array_of_numbers(name, given)
    if matrix.ndim != 2 or matrix.shape[1] != len(origin):
        return given
    with np.errstate(invalid="ignore"):  # of infinity, which the engine will refuse
        moved = matrix.astype(_wide(matrix.dtype), copy=False) - origin
        return moved.astype(np.float64, copy=False)


def table(name: str, given: object, validate: Validate | None = None) -> np.ndarray:
    """Rows of numbers of any type, once it is known that nothing would be dropped."""
    matrix = array_of_numbers(name, given)
    if validate is not None:
        matrix = validate(given)
    _shapes.table(name, matrix.shape)
    return matrix


def _is_ready(matrix: np.ndarray) -> bool:
    """Is there nothing to convert, and nothing to refuse?"""
    return (
        type(matrix) is np.ndarray
        and matrix.dtype == np.float32
        and matrix.ndim == 2
        and matrix.size > 0
        and matrix.flags.c_contiguous
        and matrix.flags.aligned
    )


def problem_points(name: str, given: object) -> tuple[np.ndarray | _gpu.Rows, tuple[int, int, int]]:
    """Tables of one shape, B x n x d, as `points` takes one; and the shape."""
    if _gpu.is_on_gpu(given):
        return _gpu.problems(name, given)
    stack = array_of_numbers(name, given)
    shape = _shapes.stack(name, stack.shape)
    return _as_float32(name, stack), shape


def problems(name: str, given: object) -> np.ndarray:
    """The same where the host can read them."""
    there, shape = problem_points(name, given)
    return _gpu.host_rows(there).reshape(shape) if isinstance(there, _gpu.Rows) else there


def array_of_numbers(name: str, given: object) -> np.ndarray:
    """Of any shape, once it is known that nothing would be dropped."""
    _refuse_kind(name, given)
    array = _array(name, given)
    if array is not given:
        _refuse_kind(name, array)
    if array.ndim == 0 and array.dtype == object:
        raise InvalidArgument(
            f"kmeans_exact: {name} is {given!r:.60}; a table of numbers is needed"
        )
    return _numbers(name, array) if array.dtype == object else array


def _refuse_kind(name: str, given: object) -> None:
    """What an array of numbers would drop without a word: masks, imaginary parts, units."""
    if _is_sparse(given):
        raise TypeError(
            f"kmeans_exact: {name} is sparse ({type(given).__name__}); dense rows are needed, as "
            f"{name}.toarray() has them"
        )
    _refuse_masks(name, given)
    for column, of in _types_of_columns(given):
        if str(of).lower().startswith(_DATES):
            raise InvalidArgument(
                f"kmeans_exact: column {column!r:.60} of {name} is of type {of}; real numbers are "
                "needed"
            )
    dtype = getattr(given, "dtype", None)
    kind = dtype.kind if isinstance(dtype, np.dtype) else ""
    if kind == "c":
        raise ValueError(
            f"kmeans_exact: {name} is {dtype}. Complex data not supported: real and imaginary "
            "parts may be columns of their own"
        )
    if kind in set("SUTMmV"):
        raise InvalidArgument(f"kmeans_exact: {name} is of dtype {dtype}; real numbers are needed")


def _refuse_masks(name: str, given: object) -> None:
    """Also in lists of lists."""
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise ValueError(
            f"kmeans_exact: {name} is masked in {np.ma.count_masked(given)} places; fill them "
            "(filled) or leave these rows out (numpy.ma.compress_rows)"
        )
    nested = (list, tuple, np.ma.MaskedArray)
    if isinstance(given, (list, tuple)) and any(
        issubclass(kind, nested) for kind in set(map(type, given))
    ):
        for part in given:
            _refuse_masks(name, part)


def _types_of_columns(given: object) -> Iterable[tuple[object, object]]:
    """Of a table of pandas, polars or Arrow."""
    for place in () if isinstance(given, np.ndarray) else ("dtypes", "schema"):
        types: Any = getattr(given, place, None)
        if hasattr(types, "items"):
            return types.items()
        if hasattr(types, "names") and hasattr(types, "types"):
            return zip(types.names, types.types, strict=True)
    return ()


def _is_sparse(given: object) -> bool:
    return hasattr(given, "nnz") and hasattr(given, "toarray")


def _array(name: str, given: object) -> np.ndarray:
    try:
        return np.asarray(given)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"kmeans_exact: {name} is no table of numbers with rows of one length: {error}"
        ) from error


def _numbers(name: str, objects: np.ndarray) -> np.ndarray:
    """Of Python's numbers; float() alone would read text and drop masks."""
    for kind in set(map(type, objects.flat)) - {float, int, bool}:
        other = (str, bytes, np.void, np.datetime64, np.timedelta64)
        is_complex = issubclass(kind, (complex, np.complexfloating, np.ndarray))
        if not issubclass(kind, other) and not is_complex and hasattr(kind, "__float__"):
            continue
        place = next(place for place, value in np.ndenumerate(objects) if type(value) is kind)
        raise InvalidArgument(
            f"kmeans_exact: {_at(name, place)} is {objects[place]!r:.60}: an argument must be no "
            "string or other object, but a number"
        )
    try:
        return objects.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise type(error)(
            f"kmeans_exact: {name} holds what is no float64 number: {error}"
        ) from error


def _at(name: str, place: Sequence[object]) -> str:
    """What is said of a place in a table, or in one of many."""
    problem, inside = place[:-2], place[-2:]
    return "".join(f"problem {at}: " for at in problem) + f"{name}[{', '.join(map(str, inside))}]"


def _as_float32(
    name: str, given: np.ndarray, *, others: np.ndarray | None = None, judged: bool = True
) -> np.ndarray:
    """Of a table of rows, or of many."""
    with np.errstate(over="ignore"):
        rounded = _in_order(given, np.float32)
    if not np.can_cast(given.dtype, np.float32):
        _refuse_beyond(name, given, rounded)
        if judged:
            _warn_of_rounding(name, given, rounded, others)
    return rounded


def _refuse_beyond(name: str, given: np.ndarray, rounded: np.ndarray) -> None:
    beyond = np.isinf(rounded)
    if beyond.any():
        beyond &= np.isfinite(given)
        for place in map(tuple, np.argwhere(beyond)[:1]):
            raise ValueError(
                f"kmeans_exact: {_at(name, place)} is {given[place]!s}, which float32 "
                "cannot hold (at most 3.4e38)"
            )


def _warn_of_rounding(
    name: str, given: np.ndarray, rounded: np.ndarray, others: np.ndarray | None = None
) -> None:
    several = given.ndim == 3
    tables = (given, rounded) if several else (given[np.newaxis], rounded[np.newaxis])
    lost = _lost(*tables, np.zeros(given.shape[-1]))
    if lost is not None and others is not None and others.shape[1] == given.shape[-1]:
        lost = _lost(*tables, _spreads(others))
    if lost is None:
        return
    problem, how = lost
    common = "all rows have in common (their mean)"
    if others is not None:
        common = "rows and centroids have in common (the mean of the rows), from both"
    warnings.warn(
        f"kmeans_exact: {f'problem {problem}: ' if several else ''}{name} is rounded from "
        f"{given.dtype} to float32, {how}; subtract what {common}, or rescale",
        RoundingWarning,
        stacklevel=_levels_to_the_caller(),
    )


def _spreads(rows: np.ndarray) -> np.ndarray:
    """By how much rows typically differ, of each column."""
    ordered = np.sort(rows[_sample(len(rows))].T.astype(np.float64), axis=-1)
    with np.errstate(invalid="ignore"):  # of infinity, which the engine will refuse
        distances = np.abs(ordered - ordered[:, ordered.shape[1] // 2, np.newaxis])
    return _typical(distances)[:, 0]


def _sample(n: int) -> np.ndarray | slice:
    return slice(None) if n <= _SAMPLED else np.linspace(0, n - 1, _SAMPLED).astype(int)


def _in_order(array: np.ndarray, dtype: type) -> np.ndarray:
    """As the engine reads it: in C order, aligned, of the processor's own byte order."""
    return np.require(array, dtype, ["C_CONTIGUOUS", "ALIGNED"])


def _lost(tables: np.ndarray, rounded: np.ndarray, spreads: np.ndarray) -> tuple[int, str] | None:
    """What rounding loses in which of B tables, B x n x d, by the first column that it does in.

    ``spreads``, d numbers: losses far below these are no matter.
    """
    count, n, d = tables.shape
    sample = _sample(n)
    numbers = min(n, _SAMPLED) * min(d, _COLUMNS_AT_ONCE)
    at_once = max(1, _NUMBERS_AT_ONCE // numbers)
    for table in range(0, count, at_once):
        for column in range(0, d, _COLUMNS_AT_ONCE):
            columns = slice(column, column + _COLUMNS_AT_ONCE)
            part = (slice(table, table + at_once), sample, columns)
            before = tables[part].astype(_wide(tables.dtype), copy=False)
            lost = _lost_in_part(before, rounded[part], column, spreads[columns])
            if lost is not None:
                return table + lost[0], lost[1]
    return None


def _lost_in_part(
    before: np.ndarray, rounded: np.ndarray, first: int, spreads: np.ndarray
) -> tuple[int, str] | None:
    """The same of some columns, from the first on, of some tables."""
    some = 1 + len(before) // 8
    parts = (slice(begin, begin + some) for begin in range(0, len(before), some))
    if not any((rounded[part] != before[part]).any() for part in parts):
        return None
    doubtful = _may_be_lost(rounded)
    if doubtful.any():
        with np.errstate(invalid="ignore"):  # as below
            doubtful &= (np.abs(rounded - before) > _SHARE * spreads).any(axis=1)
    table, column = np.nonzero(doubtful)
    if len(table) == 0:
        return None
    after = rounded[table, :, column].astype(before.dtype)
    lost = _lost_in(before[table, :, column], after, first + column)
    return None if lost is None else (int(table[lost[0]]), lost[1])


def _may_be_lost(rounded: np.ndarray) -> np.ndarray:
    """Of each column of tables, B x n x d: is `_lost_in` to look at it? This is much quicker."""
    values = np.array(rounded.transpose(0, 2, 1), order="C")
    values.sort(axis=-1)
    n = values.shape[-1]
    left = 1 + np.count_nonzero(values[..., 1:] != values[..., :-1], axis=-1)
    # Of the values, half are further from the middle than any that rounding may matter to: so is
    # the typical one.
    outside = ((n + 1) // 2 + 1) // 2 - 1
    low, middle, high = (values[..., at] for at in (outside, n // 2, n - 1 - outside))
    largest = np.maximum(np.abs(values[..., 0]), np.abs(values[..., -1]))
    with np.errstate(invalid="ignore", over="ignore"):  # of infinity, which the engine will refuse
        matters = np.float32(_ULP * (1 / _SHARE + 2)) * largest + np.float32(2.0**-140)
        far = (middle - low >= matters) & (high - middle >= matters)
    return ~far | (left < n * (1 - _MERGED))


def _lost_in(before: np.ndarray, after: np.ndarray, names: np.ndarray) -> tuple[int, str] | None:
    """The first of these columns, a row each, in which rows differ by little more than rounding."""
    ordered = np.sort(before, axis=-1)
    with np.errstate(invalid="ignore"):  # as above
        gaps = np.diff(ordered, axis=-1)
        moved = np.abs(after - before)
        # Outliers are judged by how far off they are.
        distances = np.abs(before - ordered[:, before.shape[1] // 2, np.newaxis])
    noise = _NOISE * np.abs(ordered[:, [0, -1]]).max(axis=-1, keepdims=True)
    if before.dtype != np.float64:
        noise = np.zeros_like(noise)  # integers are what they are
    different = 1 + np.count_nonzero(gaps > noise, axis=-1)
    ordered = np.sort(after, axis=-1)
    left = 1 + np.count_nonzero(ordered[:, 1:] != ordered[:, :-1], axis=-1)
    merged = left < different * (1 - _MERGED)
    spread = _typical(distances)
    much = (moved > _SHARE * np.maximum(distances, spread)) & (spread > noise)
    for at in np.flatnonzero(merged | much.any(axis=-1))[:1].tolist():
        if merged[at]:
            made = f"{left[at]} of {different[at]} different values"
            return at, f"which makes {made} in column {names[at]}"
        return at, (
            f"which moves column {names[at]} by up to {float(moved[at][much[at]].max()):.3g}, "
            f"where rows differ by about {float(spread[at, 0]):.3g}"
        )
    return None


def _typical(distances: np.ndarray) -> np.ndarray:
    """The median of those of each row that are not 0; 0 if all are."""
    n = distances.shape[1]
    zeros = n - np.count_nonzero(distances > 0, axis=-1, keepdims=True)
    middle = np.minimum(zeros + (n - zeros) // 2, n - 1)
    return np.take_along_axis(np.sort(distances, axis=-1), middle, axis=-1)


def _levels_to_the_caller() -> int:
    """For `warnings`: out of this package, and of those that call it in somebody's place."""
    package = str(Path(__file__).parent)
    frame, levels = sys._getframe(1), 1
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(package) or "sklearn" in frame.f_code.co_filename
    ):
        frame, levels = frame.f_back, levels + 1
    return levels


# ---- other arguments


def same_columns(name: str, matrix: np.ndarray, of: str, others: np.ndarray | _gpu.Rows) -> None:
    """Two tables of points of one space."""
    if matrix.shape[1] != others.shape[1]:
        raise ValueError(
            f"kmeans_exact: {of} has {others.shape[1]} columns, {name} {matrix.shape[1]}"
        )


def first_centroids(
    name: str, given: object, others: np.ndarray | None = None, *, judged: bool = True
) -> np.ndarray:
    """Rows, in whose place their number is easily given."""
    if isinstance(given, Integral):
        raise InvalidArgument(
            f"kmeans_exact: {name} is {given!r}; it must be the first centroids, a row for each "
            f"cluster, as kmeans_plusplus(x, {given!r}) returns"
        )
    return rows(name, given, others, judged=judged)


def whole(name: str, given: object, least: int, most: int | None = None, hint: str = "") -> int:
    """An integer of a range; neither truth values nor fractions are taken for one."""
    span = f"at least {least}" if most is None else f"from {least} to {most}"
    if isinstance(given, (bool, np.bool_)) or not isinstance(given, Integral):
        raise InvalidArgument(
            f"kmeans_exact: {name} is {given!r:.60}; it must be an integer, {span}{hint}"
        )
    if given < least or (most is not None and given > most):
        raise InvalidArgument(f"kmeans_exact: {name} is {given}; it must be {span}{hint}")
    return int(given)


def threads(name: str, given: object) -> int:
    """0 is allowed: the engine takes it as all."""
    return whole(name, given, 0, _MAX_THREADS, " (0: all that this process may use)")


def wants_float32(dtype: Any) -> bool:
    """Or float64: answers are of no other type."""
    kind = np.dtype(dtype)
    if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"kmeans_exact: dtype must be float32 or float64, not {kind}")
    return kind == np.dtype(np.float32)


def iterations(name: str, given: object) -> int:
    """At least one."""
    return whole(name, given, 1, 2**62)


def seed(name: str, given: object) -> int:
    """Of 64 bits, without a sign."""
    return whole(name, given, 0, 2**64 - 1)


def weights(name: str, given: object, n: int) -> np.ndarray | None:
    """One number a row, as float64, or None; whether any is negative is left to the engine."""
    if given is None:
        return None
    _refuse_kind(name, given)
    array = _array(name, given)
    if array.shape != (n,) or array.dtype.kind not in "iufb":
        raise ValueError(
            f"kmeans_exact: {name} is an array of {array.dtype}, of shape {array.shape}; it must "
            f"be {n} numbers, one for each row"
        )
    return _in_order(array, np.float64)


def clusters(name: str, given: object, n: int) -> int:
    """No more than there are points."""
    return whole(name, given, 1, n, f"; there are {n} points")


def one_of(name: str, given: object, names: tuple[str, ...]) -> int:
    """Which of several names."""
    if not isinstance(given, str) or given not in names:
        quoted = [repr(one) for one in names]
        listed = ", ".join(quoted[:-1]) + " or " + quoted[-1]
        raise InvalidArgument(f"kmeans_exact: {name} must be {listed}, not {given!r:.60}")
    return names.index(given)


def stay_on_gpu(answers: object, points_are_there: bool) -> bool:
    """Do answers stay in the memory of a GPU?"""
    stay = one_of("answers", answers, ("host", "gpu")) == 1
    if stay and not points_are_there:
        raise ValueError("kmeans_exact: answers='gpu' is for points in the memory of a GPU")
    return stay


def device(given: object) -> int:
    """As the engine counts them."""
    return one_of("device", given, _DEVICES)


def metric(given: object) -> int:
    """As the engine counts them."""
    return one_of("metric", given, _METRICS)


def labels(name: str, given: object, n: int) -> np.ndarray:
    """One integer a row; whether each is one of a cluster is left to the engine."""
    if _gpu.is_on_gpu(given):
        array = _gpu.host_labels(name, given)
    else:
        _refuse_kind(name, given)
        array = _array(name, given)
    if array.shape != (n,) or array.dtype.kind not in "iu":
        raise ValueError(
            f"kmeans_exact: {name} is an array of {array.dtype}, of shape {array.shape}; it must "
            f"be {n} integers, one for each row"
        )
    clipped = array if array.dtype == np.int32 else np.clip(array, -1, 2**31 - 1)
    return _in_order(clipped, np.int32)


def run(
    iterations_: object,
    stop: object,
    tol: object,
    labels_of: object,
    name: str = "iterations",
) -> tuple[int, int, float, int]:
    """When `lloyd` stops and which labels it returns, as numbers for the engine."""
    most = iterations(name, iterations_)
    if stop is not None and not (isinstance(stop, str) and stop == "labels"):
        raise ValueError(f"kmeans_exact: stop must be None or 'labels', not {stop!r:.60}")
    share = tolerance("tol", tol)
    if stop is None and share is not None:
        raise ValueError("kmeans_exact: tol stops iterations, and stop is None; leave one out")
    whose = one_of("labels_of", labels_of, _LABELS_OF)
    how = 0 if stop is None else 1 if share is None else 2
    return most, how, share or 0.0, whose


def tolerance(name: str, given: object) -> float | None:
    """A share of at least 0, or None."""
    if given is None:
        return None
    if isinstance(given, (bool, np.bool_)) or not isinstance(given, Real):
        raise InvalidArgument(
            f"kmeans_exact: {name} is {given!r:.60}; it must be a number, at least 0"
        )
    if not 0 <= given < np.inf:
        raise InvalidArgument(f"kmeans_exact: {name} is {given}; it must be a number, at least 0")
    return float(given)
