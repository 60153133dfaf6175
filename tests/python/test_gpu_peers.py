# SPDX-License-Identifier: Apache-2.0
"""The adapters of GPU libraries around stand-ins in NumPy: what the contract asks of an adapter,
whatever the library does to the arrays that it is given. On a machine with a GPU test_worker.py has
the same variants with the libraries themselves.
"""

from __future__ import annotations

import pathlib
import sys

import pytest

np = pytest.importorskip("numpy")

import stand_ins  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "implementations" / "python"
sys.path.insert(0, str(FOLDER))

import worker  # noqa: E402


def make(name: str, precision: str, points: np.ndarray, k: int):
    """A variant after setup, its tensors on the CPU."""
    variant = worker.variant_class(worker.load_module(FOLDER / f"{name}.py"))()
    variant.device = "cpu"
    variant.precision = precision
    variant.setup(points, k, 1)
    return variant


def lloyd(points: np.ndarray, centroids: np.ndarray, iterations: int):
    """The centroids before the last iteration, those after it, and its labels."""
    after = np.array(centroids, dtype=np.float64)
    for _ in range(iterations):
        before = after
        labels = stand_ins.nearest(points, before)
        after = stand_ins.means(points, labels, before)
    return before, after, labels


def integers(n: int, d: int) -> np.ndarray:
    return np.random.RandomState(4).randint(0, 64, size=(n, d)).astype(np.float32)


def separated(n: int, d: int, k: int) -> np.ndarray:
    """Points of integer coordinates around k centres that are far apart."""
    return integers(n, d) % 16 + (np.arange(n, dtype=np.float32) % k)[:, None] * 64


@pytest.fixture
def flashlib_calls(monkeypatch) -> list[str]:
    calls: list[str] = []
    stand_ins.install(monkeypatch, stand_ins.flashlib(cutedsl=True, calls=calls))
    return calls


@pytest.mark.usefixtures("flashlib_calls")
@pytest.mark.parametrize("precision", ["tf32", "f16"])
@pytest.mark.parametrize("iterations", [1, 2, 5, 6])
def test_flashlib_runs_every_iteration_from_the_given_centroids(precision, iterations):
    # Centroids in half precision would change labels where two are nearly as near.
    points = integers(300, 3) if precision == "tf32" else separated(300, 3, 6)
    start = points[:6].copy()
    given = points.copy()
    variant = make("python_flashlib", precision, given, 6)
    variant.reset(start)
    executed = variant.step(iterations)
    centroids, labels = variant.fetch()
    _, expected, expected_labels = lloyd(points, points[:6], iterations)
    assert executed == (iterations if precision == "tf32" else None)
    assert np.abs(centroids - expected).max() <= 1e-4
    assert np.array_equal(labels, expected_labels)
    assert labels.dtype == np.int32
    # It writes over the first centroids that it is given; neither these nor the points are its own.
    assert np.array_equal(start, points[:6])
    assert np.array_equal(given, points)


@pytest.mark.usefixtures("flashlib_calls")
@pytest.mark.parametrize("precision", ["tf32", "f16"])
def test_flashlib_steps_add_up_and_reset_forgets(precision):
    points = integers(300, 3)
    variant = make("python_flashlib", precision, points, 6)
    variant.reset(points[:6])
    variant.step(5)
    whole = [array.copy() for array in variant.fetch()]
    variant.reset(points[50:56])
    variant.step(3)
    variant.reset(points[:6])
    for part in (2, 1, 2):
        variant.step(part)
    parts = variant.fetch()
    assert all(np.array_equal(a, b) for a, b in zip(whole, parts, strict=True))


@pytest.mark.parametrize(
    ("cutedsl", "d", "used"),
    [(True, 16, "CuteDSL"), (False, 16, "Triton"), (True, 3, "Triton")],
)
def test_flashlib_says_which_backend_assigned(monkeypatch, cutedsl, d, used):
    calls: list[str] = []
    stand_ins.install(monkeypatch, stand_ins.flashlib(cutedsl=cutedsl, calls=calls))
    points = integers(64, d)
    variant = make("python_flashlib", "f16", points, 8)
    variant.reset(points[:8])
    variant.step(2)
    assert set(calls) == {used}
    assert variant.library_info()["assignment of flashlib"] == used


@pytest.fixture
def cuvs(monkeypatch) -> None:
    stand_ins.install(monkeypatch, stand_ins.cuvs())


@pytest.mark.usefixtures("cuvs")
@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("iterations", [1, 2, 5])
def test_cuvs_labels_belong_to_the_returned_centroids(precision, iterations):
    points = integers(300, 3).astype("float64" if precision == "f64" else "float32")
    start = points[:6].copy()
    given = points.copy()
    variant = make("python_cuvs", precision, given, 6)
    variant.reset(start)
    assert variant.step(iterations) == iterations
    centroids, labels = variant.fetch()
    before, expected, _ = lloyd(points, points[:6], iterations)
    assert np.abs(centroids - expected).max() <= 1e-4
    assert np.array_equal(labels, stand_ins.nearest(points, centroids))
    assert not np.array_equal(labels, stand_ins.nearest(points, before))
    assert np.array_equal(start, points[:6])
    assert np.array_equal(given, points)


@pytest.mark.usefixtures("cuvs")
def test_cuvs_tells_how_many_iterations_it_ran():
    points = np.array([[0], [2], [10], [12]], dtype=np.float32)
    variant = make("python_cuvs", "f32", points, 2)
    variant.reset(np.array([[1], [11]], dtype=np.float32))
    assert variant.step(50) == 1  # nothing moves
    variant.reset(np.array([[2], [10]], dtype=np.float32))
    assert variant.step(50) == 2
    assert variant.fetch()[0].ravel().tolist() == [1, 11]


@pytest.mark.usefixtures("cuvs")
def test_cuvs_without_a_result_is_an_error():
    points = np.array([[0], [2], [10], [12]], dtype=np.float32)
    variant = make("python_cuvs", "f32", points, 2)
    points[0] = np.inf
    variant.reset(np.array([[2], [10]], dtype=np.float32))
    with pytest.raises(RuntimeError, match="no finite inertia"):
        variant.step(3)


@pytest.mark.parametrize("name", ["python_flashlib", "python_cuvs"])
def test_a_peer_that_is_not_installed_is_left_out_with_the_reason(monkeypatch, name):
    monkeypatch.setattr(worker, "versions_of", lambda names: dict.fromkeys(names))
    description = worker.describe_variant(FOLDER / f"{name}.py")
    assert description["traits"]["gpu"]
    own = {"python_flashlib": "flashlib", "python_cuvs": "cuvs-cu13"}[name]
    assert own in description["reason"]
    assert "make setup-gpu" in description["reason"]
