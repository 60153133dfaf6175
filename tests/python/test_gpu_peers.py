# SPDX-License-Identifier: Apache-2.0
"""The adapters of GPU libraries around stand-ins in NumPy: what the contract asks of an adapter,
whatever the library does to the arrays that it is given. On a machine with a GPU test_worker.py has
the same variants with the libraries themselves.
"""

from __future__ import annotations

import os
import pathlib
import sys

import pytest

np = pytest.importorskip("numpy")

import stand_ins  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "implementations" / "python"
sys.path.insert(0, str(FOLDER))

import estimator  # noqa: E402
import fit_server  # noqa: E402
import worker  # noqa: E402


def make(name: str, precision: str, points: np.ndarray, k: int, gpus: int = 1):
    """A variant after setup, its tensors on the CPU."""
    variant = worker.variant_class(worker.load_module(FOLDER / f"{name}.py"))()
    variant.device = "cpu"
    variant.gpus = gpus
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


def check_steps_add_up(variant, points) -> None:
    """Five iterations are two, one and two, whatever was before the reset."""
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


@pytest.mark.usefixtures("flashlib_calls")
def test_flashlib_by_cosine_labels_by_the_centroids_that_it_returns():
    module = worker.load_module(FOLDER / "fit_flashlib_cosine.py")
    own = fit_server.estimator_class(module, estimator.check_traits(module.TRAITS))()
    points = np.random.RandomState(2).normal(size=(200, 5)).astype(np.float32)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    given = points.copy()
    own.setup(given, 7, 1)
    fits = [own.fit(seed) for seed in (1, 2, 1)]
    for fit in fits:
        assert fit.centroids.shape == (7, 5)
        assert np.allclose(np.linalg.norm(fit.centroids, axis=1), 1)
        assert fit.labels.tolist() == (points @ fit.centroids.T).argmax(axis=1).tolist()
        assert fit.iterations == 100
    assert (fits[0].centroids == fits[2].centroids).all()
    assert (fits[0].centroids != fits[1].centroids).any()
    assert (given == points).all()


@pytest.mark.usefixtures("flashlib_calls")
@pytest.mark.parametrize("precision", ["tf32", "f16"])
def test_flashlib_steps_add_up_and_reset_forgets(precision):
    points = integers(300, 3)
    variant = make("python_flashlib", precision, points, 6)
    check_steps_add_up(variant, points)


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
def test_cuvs_reports_how_many_iterations_it_ran():
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


def gpus_with_cuvs(monkeypatch, visible: int, **traits: bool) -> stand_ins.Gpus:
    """So many GPUs, and a cuVS on them that shares points."""
    others = {name: value for name, value in os.environ.items() if name != "NCCL_NVLS_ENABLE"}
    monkeypatch.setattr(os, "environ", others)
    gpus = stand_ins.Gpus(visible, **traits)
    stand_ins.install(monkeypatch, stand_ins.cuvs_mg(gpus))
    return gpus


@pytest.mark.parametrize("gpus", [1, 2, 3])
@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("iterations", [1, 2, 5])
def test_cuvs_mg_labels_belong_to_the_returned_centroids(monkeypatch, gpus, precision, iterations):
    seen = gpus_with_cuvs(monkeypatch, 4)
    points = integers(301, 3).astype("float64" if precision == "f64" else "float32")
    start = points[:6].copy()
    given = points.copy()
    given.flags.writeable = False  # as the worker's
    variant = make("python_cuvs_mg", precision, given, 6, gpus)
    variant.reset(start)
    assert variant.step(iterations) == iterations
    centroids, labels = variant.fetch()
    before, expected, _ = lloyd(points, points[:6], iterations)
    assert np.abs(centroids - expected).max() <= 1e-4
    assert centroids.dtype == points.dtype
    assert np.array_equal(labels, stand_ins.nearest(points, centroids))
    assert not np.array_equal(labels, stand_ins.nearest(points, before))
    assert labels.dtype == np.int32
    assert np.array_equal(start, points[:6])
    assert np.array_equal(given, points)
    # The first GPUs, each by itself and then together in every fit.
    assert [len(share) for share in seen.shares] == [1] * (gpus if gpus > 1 else 0) + [gpus] * 2
    assert seen.worked_alone == set(range(gpus))
    assert {sum(share) for share in seen.shares} == {301}
    assert sorted(seen.pools) == list(range(gpus))
    assert variant.library_info() == {
        "GPUs of cuvs.cluster.mg": str(gpus),
        "points of cuvs.cluster.mg": "page-locked memory",
    }


def test_cuvs_mg_labels_points_in_blocks(monkeypatch):
    gpus = gpus_with_cuvs(monkeypatch, 2)
    points = integers(301, 3)
    variant = make("python_cuvs_mg", "f32", points, 6, 2)
    monkeypatch.setitem(variant.fetch.__globals__, "COORDINATES_AT_A_TIME", 3 * 64)
    variant.reset(points[:6])
    variant.step(2)
    centroids, labels = variant.fetch()
    assert np.array_equal(labels, stand_ins.nearest(points, centroids))
    assert gpus.labelled == [75, 75, 75, 76]
    gpus.labelled.clear()
    monkeypatch.setitem(variant.fetch.__globals__, "COORDINATES_AT_A_TIME", 1)
    assert np.array_equal(variant.fetch()[1], labels)
    assert min(gpus.labelled) >= 6  # never fewer than clusters


def test_cuvs_mg_reports_how_many_iterations_it_ran(monkeypatch):
    gpus_with_cuvs(monkeypatch, 2)
    points = np.array([[0], [2], [10], [12]], dtype=np.float32)
    variant = make("python_cuvs_mg", "f32", points, 2, 2)
    variant.reset(np.array([[1], [11]], dtype=np.float32))
    assert variant.step(50) == 1  # nothing moves
    variant.reset(np.array([[2], [10]], dtype=np.float32))
    assert variant.step(50) == 2
    assert variant.fetch()[0].ravel().tolist() == [1, 11]
    # A library that counts an iteration which it did not begin, and one that ran none.
    shared = sys.modules["cuvs.cluster.mg.kmeans"]
    fit = shared.fit
    monkeypatch.setattr(shared, "fit", lambda *a, **b: fit(*a, **b)._replace(n_iter=51))
    assert variant.step(50) == 50
    monkeypatch.setattr(shared, "fit", lambda *a, **b: fit(*a, **b)._replace(n_iter=0))
    with pytest.raises(RuntimeError, match="counts no iteration"):
        variant.step(50)


def test_cuvs_mg_steps_add_up_and_reset_forgets(monkeypatch):
    gpus_with_cuvs(monkeypatch, 2)
    points = integers(300, 3)
    variant = make("python_cuvs_mg", "f32", points, 6, 2)
    check_steps_add_up(variant, points)


def test_cuvs_mg_says_when_gpus_are_missing(monkeypatch):
    points = integers(30, 3)
    gpus_with_cuvs(monkeypatch, 1)
    with pytest.raises(RuntimeError, match="2 GPUs are to share the points, CUDA finds 1: "):
        make("python_cuvs_mg", "f32", points, 2, 2)
    gpus_with_cuvs(monkeypatch, 0)
    with pytest.raises(RuntimeError, match=r"CUDA finds none \(cudaErrorNoDevice\)"):
        make("python_cuvs_mg", "f32", points, 2, 1)


def test_cuvs_mg_goes_on_without_page_locked_memory(monkeypatch):
    gpus_with_cuvs(monkeypatch, 2, page_locks=False)
    points = integers(30, 3)
    variant = make("python_cuvs_mg", "f32", points, 2, 2)
    where = variant.library_info()["points of cuvs.cluster.mg"]
    assert where == "other memory, since page-locking failed (cudaErrorNotSupported)"


@pytest.mark.parametrize("chosen", [None, "1"])
def test_cuvs_mg_leaves_nvlink_multicast_off_unless_it_is_asked_for(monkeypatch, chosen):
    gpus_with_cuvs(monkeypatch, 2)
    if chosen is not None:
        os.environ["NCCL_NVLS_ENABLE"] = chosen
    make("python_cuvs_mg", "f32", integers(30, 3), 2, 2)
    assert os.environ["NCCL_NVLS_ENABLE"] == (chosen or "0")


@pytest.mark.parametrize(
    ("version", "runs"),
    [("26.6.0", False), ("25.10", False), ("26.8.1", True), ("26.10.0", True), ("27.2.0a3", True)],
)
def test_an_older_cuvs_has_no_several_gpus_and_the_reason_says_so(monkeypatch, version, runs):
    monkeypatch.setattr(worker, "versions_of", lambda names: dict.fromkeys(names, version))
    reason = worker.describe_variant(FOLDER / "python_cuvs_mg.py")["reason"]
    if runs:
        assert reason == ""
    else:
        assert f"has cuvs-cu13 {version}, older than 26.8; " in reason
        assert "cuvs-cu13 26.8 or newer has cuvs.cluster.mg" in reason
        assert "make setup-gpu" not in reason  # which brings the older one
    assert worker.describe_variant(FOLDER / "python_cuvs.py")["reason"] == ""


@pytest.mark.parametrize(("gpus", "threads"), [(1, 1), (2, 2), (4, 4)])
def test_the_worker_reports_a_variant_how_many_gpus_are_in_use(
    monkeypatch, tmp_path, gpus, threads
):
    file = tmp_path / "python_telling.py"
    file.write_text(
        "import contract\n"
        "TRAITS = {'summary': 'x', 'gpu': True, 'many_gpus': True}\n"
        "class Telling(contract.Variant):\n"
        "    def setup(self, points, k, threads):\n"
        "        raise RuntimeError(f'{self.gpus} GPUs, {threads} threads')\n"
        "    def reset(self, centroids): ...\n"
        "    def step(self, iterations): ...\n"
        "    def fetch(self): ...\n"
    )
    monkeypatch.setattr(os, "environ", os.environ.copy())
    points = tmp_path / "points.npy"
    np.save(points, integers(4, 2))
    request = {"command": "setup", "n": 4, "d": 2, "k": 1, "threads": 1, "precision": "f32"}
    request |= {"points_file": str(points), "gpus": gpus}
    exchange = os.memfd_create("exchange")
    os.truncate(exchange, 4096)
    answer = worker.Server(file, exchange, None).answer(request)
    os.close(exchange)
    assert answer["message"] == f"{gpus} GPUs, {threads} threads"
    assert os.environ["OMP_NUM_THREADS"] == str(threads)


@pytest.mark.parametrize("name", ["python_flashlib", "python_cuvs", "python_cuvs_mg"])
def test_a_peer_that_is_not_installed_is_left_out_with_the_reason(monkeypatch, name):
    monkeypatch.setattr(worker, "versions_of", lambda names: dict.fromkeys(names))
    description = worker.describe_variant(FOLDER / f"{name}.py")
    assert description["traits"]["gpu"]
    own = {"python_flashlib": "flashlib"}.get(name, "cuvs-cu13")
    assert f"lacks {own}" in description["reason"]
    remedy = "26.8 or newer has cuvs.cluster.mg" if name.endswith("mg") else "make setup-gpu"
    assert remedy in description["reason"]
