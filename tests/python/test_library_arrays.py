# SPDX-License-Identifier: Apache-2.0
"""Arrays in any layout give the bits of their contiguous copies; tables of other packages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

N, D, K = 400, 6, 9


def _unaligned(array: np.ndarray) -> np.ndarray:
    memory = np.empty(array.nbytes + 1, dtype="u1")
    view = memory[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    assert view.flags.aligned == (array.itemsize == 1)
    return view


def _strided(array: np.ndarray) -> np.ndarray:
    wide = np.full([2 * size for size in array.shape], 77, dtype=array.dtype)
    view = wide[tuple(slice(None, None, 2) for _ in array.shape)]
    view[...] = array
    return view


def _read_only(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def _field(array: np.ndarray) -> np.ndarray:
    """A field of records, whose rows are apart."""
    records = np.zeros(len(array), dtype=[("name", "S3"), ("row", array.dtype, array.shape[1:])])
    records["row"] = array
    return records["row"]


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "strided": _strided,
    "transposed": np.asfortranarray,
    "reversed": lambda array: np.flip(np.flip(array).copy()),
    "of another byte order": lambda array: array.astype(array.dtype.newbyteorder()),
    "unaligned": _unaligned,
    "unaligned and transposed": lambda array: _unaligned(array.T.copy()).T,
    "read-only": _read_only,
    "a field": _field,
    "a subclass": lambda array: array.view(type("Own", (np.ndarray,), {})),
}


def _numbers(dtype: str) -> dict[str, np.ndarray]:
    random = np.random.default_rng(2)
    return {
        "x": (random.normal(size=(N, D)) * 9 + 50).astype(dtype),
        "init": (random.normal(size=(K, D)) * 9 + 50).astype(dtype),
        "weights": random.integers(0, 9, size=N).astype(dtype),
        "labels": random.integers(0, K, size=N),
    }


def _answers(package, x, init, weights, labels) -> list[bytes]:
    run = package.lloyd(x, init, iterations=5, weights=weights)
    seeds = [package.ward_start(x, K, 1, weights=weights), package.kmeans_plusplus(x, K, 1)]
    found = [*run[:2], package.nearest(x, init), package.distances(x, init), *seeds]
    sums = [package.inertia(x, init, labels, weights=weights)]
    return [array.tobytes() for array in found] + sums


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u1"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_changes_no_bit(package, layout: str, dtype: str) -> None:
    numbers = {name: array.copy() for name, array in _numbers(dtype).items()}
    right = _answers(package, **numbers)
    for name, array in numbers.items():
        given = LAYOUTS[layout](array)
        before = given.tobytes()
        assert _answers(package, **{**numbers, name: given}) == right, name
        assert given.tobytes() == before


def test_memory_mapped_files(package, tmp_path: Path) -> None:
    numbers = _numbers("f4")
    right = _answers(package, **numbers)
    for order in ("C", "F"):
        np.save(tmp_path / "x.npy", np.asarray(numbers["x"], order=order))
        mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
        assert _answers(package, **{**numbers, "x": mapped}) == right
        pytest.importorskip("sklearn")
        model = package.KMeans(K, random_state=1).fit(mapped)
        same = package.KMeans(K, random_state=1).fit(numbers["x"])
        assert model.cluster_centers_.tobytes() == same.cluster_centers_.tobytes()


def test_rows_in_order_are_used_in_place(package) -> None:
    x = _numbers("f4")["x"]
    for given in (x, _read_only(x), x[5:200]):
        assert np.shares_memory(package.Points(given)._rows, given)
    for given in (x[:, :3], x[::2], x.astype("f8"), _unaligned(x)):
        assert not np.shares_memory(package.Points(given)._rows, given)


# ---- tables of other packages, where they are installed


def _pandas(x: np.ndarray) -> dict[str, object]:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(x, columns=list("abcdef"))
    return {
        "frame": frame,
        "mixed": frame.assign(b=frame["b"].astype("f8"), c=frame["c"].astype("Float32")),
        "nullable": frame.astype("Float64"),
    }


def _polars(x: np.ndarray) -> dict[str, object]:
    polars = pytest.importorskip("polars")
    return {"frame": polars.DataFrame({name: x[:, t] for t, name in enumerate("abcdef")})}


def _arrow(x: np.ndarray) -> dict[str, object]:
    arrow = pytest.importorskip("pyarrow")
    return {"table": arrow.table({name: x[:, t] for t, name in enumerate("abcdef")})}


class _Frame:
    """Of a package that is not installed."""

    def __init__(self, columns: dict) -> None:
        kinds = {"datetime": "Datetime(time_unit='us')", "timedelta": "Duration(time_unit='us')"}
        self.schema = {
            name: kinds.get(type(values[0]).__name__, "Float64") for name, values in columns.items()
        }

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return np.ones((2, len(self.schema)))


@pytest.mark.parametrize("value", [datetime(2020, 1, 1), timedelta(3)], ids=str)
@pytest.mark.parametrize("of", ["pandas", "polars", "pyarrow", "none"])
def test_dates_in_tables_are_refused_by_name(package, of: str, value: object) -> None:
    make = _Frame
    if of != "none":
        frames = pytest.importorskip(of)
        make = frames.table if of == "pyarrow" else frames.DataFrame
    table = make({"a": [1.0, 2.0], "b": [value] * 2})
    with pytest.raises(TypeError, match=r"column 'b' of x is of type .*; real numbers are needed"):
        package.unit_rows(table)
    assert package.unit_rows(make({"a": [3.0, 3.0]})).tolist() == [[1], [1]]


@pytest.mark.parametrize("tables", [_pandas, _polars, _arrow])
def test_tables_give_the_bits_of_their_numbers(package, tables) -> None:
    numbers = _numbers("f4")
    right = package.lloyd(numbers["x"], numbers["init"]).centroids.tobytes()
    pytest.importorskip("sklearn")
    for name, table in tables(numbers["x"]).items():
        assert package.lloyd(table, numbers["init"]).centroids.tobytes() == right, name
        model = package.KMeans(K, init=numbers["init"], tol=None).fit(table)
        assert model.cluster_centers_.astype("f4").tobytes() == right, name
        assert model.feature_names_in_.tolist() == list("abcdef")
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            assert (model.predict(numbers["x"]) == model.labels_).all()


@pytest.mark.parametrize("package_of_frames", ["pandas", "polars"])
def test_distances_come_back_in_frames_where_asked(package, package_of_frames: str) -> None:
    frames = pytest.importorskip(package_of_frames)
    pytest.importorskip("sklearn")
    x = _numbers("f4")["x"]
    model = package.KMeans(K, random_state=1).set_output(transform=package_of_frames)
    found = model.fit_transform(x)
    assert isinstance(found, frames.DataFrame)
    assert list(found.columns) == [f"kmeans{j}" for j in range(K)]
    assert (found.to_numpy() == package.distances(x, model.cluster_centers_, dtype="f4")).all()


@pytest.mark.parametrize(
    "columns", [{"a": ["1.5", "2"]}, {"a": [1.0, None]}, {"a": ["u", "v"]}], ids=str
)
def test_frames_of_what_is_no_number_are_refused(package, columns: dict) -> None:
    refused = (TypeError, ValueError)
    reason = "must be no string|coordinate 0 is nan|real numbers are needed"
    for name in ("pandas", "polars"):
        frames = pytest.importorskip(name)
        frame = frames.DataFrame({**columns, "b": [1.0, 2.0]})
        with pytest.raises(refused, match=reason):
            package.nearest(frame, [[0.0, 0.0]])
