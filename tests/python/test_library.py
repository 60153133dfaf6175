# SPDX-License-Identifier: Apache-2.0
"""The library kmeans_exact: the installed copy in a project of its own, and the Python package.

The package is that of the build folder; the same modules are in the wheel.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support import MPI_ENVIRONMENT, ROOT, captured, find_program

PROGRAM = find_program()
BUILD = PROGRAM.parent if PROGRAM else ROOT / "build"


def _points(n: int = 3000, d: int = 9, clusters: int = 12) -> np.ndarray:
    random = np.random.default_rng(7)
    centres = random.uniform(-3, 3, (clusters, d))
    return (centres[random.integers(clusters, size=n)] + random.normal(size=(n, d))).astype("<f4")


@pytest.fixture
def fit(tmp_path: Path) -> Callable[..., dict]:
    """`kmeans-bench fit` by the definition of a right answer."""
    if PROGRAM is None:  # asked to skip
        pytest.skip("KMEANS_BENCH names no program")

    def run(points: np.ndarray, k: int, init: str, *options: str) -> dict:
        np.save(tmp_path / "points.npy", points)
        words = ["fit", tmp_path / "points.npy", "-k", k, "--variant", "reference", "--init", init]
        words += [*options, "--out", tmp_path / "fit"]
        subprocess.run([PROGRAM, *map(str, words)], check=True, capture_output=True)
        return {
            **json.loads((tmp_path / "fit" / "summary.json").read_text()),
            "labels": np.load(tmp_path / "fit" / "labels.npy"),
            "centroids": np.load(tmp_path / "fit" / "centroids.npy"),
        }

    return run


def test_the_module_of_python_exports_nothing_that_another_library_could_replace() -> None:
    modules = list((BUILD / "library" / "python" / "kmeans_exact").glob("_engine*.so"))
    if not modules:
        pytest.skip("this build has no Python package (see the first lines of its configuration)")
    for module in modules:
        said = captured(["nm", "-D", "--defined-only", module], check=True)
        assert [line.split()[-1] for line in said.stdout.splitlines()] == ["PyInit__engine"]


def test_an_installed_copy_in_a_project_of_its_own(fit, tmp_path: Path) -> None:
    if not (BUILD / "library" / "libkmeans_exact.a").is_file():
        pytest.skip("this build has no library (see the first lines of its configuration)")

    def run(*words: object) -> str:
        outcome = captured([*map(str, words)])
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr
        return outcome.stdout

    prefix, project = tmp_path / "installed", tmp_path / "project"
    run("cmake", "--install", BUILD, "--prefix", prefix, "--component", "library")
    # Only the public names can be seen.
    (archive,) = prefix.rglob("libkmeans_exact.a")
    listed = run("nm", "-C", "--defined-only", "-g", archive).splitlines()
    names = {name for line in listed for name in re.findall(r" [TW] ([^(\[]+)", line)}
    functions = ["distances", "inertia", "lloyd", "nearest", "seed_plus_plus", "seed_ward"]
    members = [*functions, "Points", "~Points", "operator=", "engines"]
    others = [
        "lloyd_batch",
        "seed_ward_batch",
        "instructions",
        "gpu_part",
        "problem_with_gpu",
        "unit_rows",
        "release_memory",
        "allocate_on_gpu",
        "free_on_gpu",
        "gpu_of",
        "copy_to_or_from_gpu",
        "version",
        "whole_weights",
    ]
    expected = {f"kmeans_exact::{name}" for name in functions + others}
    expected |= {f"kmeans_exact::Points::{name}" for name in members}
    assert names == expected

    release = "-DCMAKE_BUILD_TYPE=Release"
    found = f"-DCMAKE_PREFIX_PATH={prefix}"
    run("cmake", "-S", ROOT / "examples" / "library", "-B", project, release, found)
    run("cmake", "--build", project)
    points = _points()
    points.tofile(tmp_path / "points.f32")
    said = run(project / "cluster", tmp_path / "points.f32", *points.shape, 12, tmp_path / "labels")
    np.save(tmp_path / "points.npy", points)  # whose header is not a coordinate
    words = [project / "cluster", tmp_path / "points.npy", *points.shape, 12, tmp_path / "labels"]
    refused = captured([*map(str, words)])
    assert refused.returncode == 2
    assert "N x D x 4 bytes" in refused.stderr
    right = fit(points, 12, "ward:1")

    def check(said: str) -> None:
        assert f": {right['iterations']} iterations, converged" in said
        assert (np.fromfile(tmp_path / "labels", "<i4") == right["labels"]).all()
        (tmp_path / "labels").unlink()

    check(said)
    if (project / "best_of_ranks").is_file():
        _check_best_of_ranks(fit, points, project / "best_of_ranks", tmp_path)
    if not shutil.which("pkg-config"):
        return
    environment = {**os.environ, "PKG_CONFIG_PATH": str(next(prefix.rglob("pkgconfig")))}
    flags = captured(["pkg-config", "--cflags", "--libs", "kmeans_exact"], env=environment).stdout
    source, program = ROOT / "examples" / "library" / "cluster.cpp", tmp_path / "cluster"
    run("g++", "-std=c++20", source, "-o", program, *flags.split())
    check(run(program, tmp_path / "points.f32", *points.shape, 12, tmp_path / "labels"))


def _check_best_of_ranks(fit, points: np.ndarray, program: Path, folder: Path) -> None:
    words = [
        "mpirun",
        "-n",
        "3",
        program,
        folder / "points.f32",
        *points.shape,
        12,
        folder / "best",
    ]
    outcome = captured([*map(str, words)], env={**os.environ, **MPI_ENVIRONMENT})
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    fits = [fit(points, 12, f"ward:{seed}") for seed in (1, 2, 3)]
    best = min(fits, key=lambda one: one["inertia"])
    assert (np.fromfile(folder / "best", "<i4") == best["labels"]).all()


@pytest.mark.parametrize(("d", "k"), [(2, 5), (9, 12), (40, 130)])
def test_the_package_returns_the_bits_of_the_suite(package, fit, d: int, k: int) -> None:
    points = _points(d=d)
    right = fit(points, k, "kmeans++:3", "--iterations", "6")
    init = package.kmeans_plusplus(points, k, 3)
    before = points.copy(), init.copy()
    for threads in (1, 2):
        run = package.lloyd(points, init, iterations=6, stop=None, threads=threads)
        assert run.iterations == 6
        assert run.labels.dtype == np.int32
        assert run.centroids.tobytes() == right["centroids"].tobytes()
        assert run.labels.tobytes() == right["labels"].tobytes()
    assert all((now == then).all() for now, then in zip((points, init), before, strict=True))


def test_it_stops_when_no_label_changes(package, fit) -> None:
    points = _points()
    right = fit(points, 12, "first", "--stop", "labels", "--iterations", "300")
    run = package.lloyd(points, points[:12])
    assert (run.iterations, run.converged) == (right["iterations"], True)
    assert run.centroids.tobytes() == right["centroids"].tobytes()
    assert not package.lloyd(points, points[:12], iterations=2).converged


def _mean_variance(points: np.ndarray) -> float:
    """By the definition: rows in blocks of 4096, one column after the other."""
    rows = points.astype(np.float64)

    def mean(values: np.ndarray) -> np.ndarray:
        total = np.zeros(values.shape[1])
        for begin in range(0, len(values), 4096):
            part = np.zeros(values.shape[1])
            for row in values[begin : begin + 4096]:
                part += row
            total += part
        return total / len(values)

    total = 0.0
    for variance in mean((rows - mean(rows)) ** 2):
        total += variance
    return total / rows.shape[1]


def _shift(before: np.ndarray, after: np.ndarray) -> float:
    total = 0.0
    for one, other in zip(before.astype(np.float64), after.astype(np.float64), strict=True):
        squares = 0.0
        for difference in one - other:
            squares += difference * difference
        total += squares
    return total


def test_it_stops_within_a_tolerance_of_the_mean_variance(package) -> None:
    points = _points(9000)
    scale = _mean_variance(points)
    settled = package.lloyd(points, points[:12])
    at = settled.iterations // 2
    before, after = (
        package.lloyd(points, points[:12], iterations=i, stop=None) for i in (at, at + 1)
    )
    tol = _shift(before.centroids, after.centroids) / scale
    while tol * scale < _shift(before.centroids, after.centroids):
        tol = np.nextafter(tol, 1)
    for threads in (1, 2, 3):
        run = package.lloyd(points, points[:12], tol=tol, threads=threads)
        assert (run.iterations, run.converged) == (at + 1, True)
        assert run.centroids.tobytes() == after.centroids.tobytes()
        assert run.labels.tobytes() == after.labels.tobytes()
        # The next lower number is not reached there.
        less = float(np.nextafter(tol, 0))
        while less * scale >= _shift(before.centroids, after.centroids):
            less = float(np.nextafter(less, 0))
        assert package.lloyd(points, points[:12], tol=less, threads=threads).iterations > at + 1
    # With 0 it stops where nothing moves, which no label that changes can bring about.
    assert package.lloyd(points, points[:12], tol=0.0).iterations == settled.iterations
    for wrong in (-1e-9, np.nan, np.inf):
        with pytest.raises(ValueError, match=r"tol is .*; it must be a number, at least 0"):
            package.lloyd(points, points[:12], tol=wrong)
    with pytest.raises(TypeError, match="tol is True"):
        package.lloyd(points, points[:12], tol=True)
    with pytest.raises(ValueError, match="tol stops iterations, and stop is None"):
        package.lloyd(points, points[:12], tol=1e-4, stop=None)


def test_fit_has_the_same_tolerance(package, fit) -> None:
    points = _points(9000)
    for tol in (1e-1, 1e-2, 1e-3, 0.0):
        right = fit(points, 12, "first", "--tol", str(tol))
        run = package.lloyd(points, points[:12], tol=tol)
        assert run.iterations == right["iterations"]
        assert run.centroids.tobytes() == right["centroids"].tobytes()
        assert run.labels.tobytes() == right["labels"].tobytes()


def test_it_stops_where_scikit_learn_does(package) -> None:
    cluster = pytest.importorskip("sklearn.cluster")
    points = _points(5000, 6, 9)
    for tol in (1e-2, 1e-3, 1e-4):
        theirs = cluster.KMeans(9, init=points[:9], n_init=1, tol=tol, algorithm="lloyd").fit(
            points
        )
        model = package.KMeans(9, init=points[:9], tol=tol).fit(points)
        assert model.n_iter_ == theirs.n_iter_
        assert (model.labels_ == theirs.labels_).all()
        assert np.allclose(model.cluster_centers_, theirs.cluster_centers_, atol=1e-4)


def test_labels_are_those_of_the_returned_centroids_where_asked(package) -> None:
    for points in (_points(), _points(d=2), _points(20000, 40, 30)):
        for iterations, stop, tol in ((1, None, None), (4, None, None), (300, "labels", 1e-3)):
            how = {"iterations": iterations, "stop": stop, "tol": tol}
            plain = package.lloyd(points, points[:12], **how)
            run = package.lloyd(points, points[:12], labels_of="returned", **how)
            assert run.centroids.tobytes() == plain.centroids.tobytes()
            assert run.iterations == plain.iterations
            assert (run.labels == package.nearest(points, run.centroids)).all()
            assert (run.labels != plain.labels).any()
        settled = package.lloyd(points, points[:12], labels_of="returned")
        assert (settled.labels == package.lloyd(points, points[:12]).labels).all()
    with pytest.raises(ValueError, match="labels_of must be 'starting' or 'returned', not 'both'"):
        package.lloyd(points, points[:12], labels_of="both")


@pytest.mark.parametrize("d", [2, 7, 9, 40])
def test_kept_points_give_the_bits_of_single_calls(package, d: int) -> None:
    points = _points(20000, d)
    kept = package.Points(points, threads=2)
    assert kept.engines == 0
    for seed in range(3):
        init = kept.ward_start(12, seed)
        assert init.tobytes() == package.ward_start(points, 12, seed).tobytes()
        run, single = kept.lloyd(init), package.lloyd(points, init)
        assert run.centroids.tobytes() == single.centroids.tobytes()
        assert run.labels.tobytes() == single.labels.tobytes()
        assert run[2:] == single[2:]
        again = kept.lloyd(run.centroids)  # from where that ended
        assert again.centroids.tobytes() == run.centroids.tobytes()
        assert (kept.nearest(init) == package.nearest(points, init)).all()
    assert kept.engines == 1
    for k in (5, 130, 1):
        init = kept.kmeans_plusplus(k, 1)
        assert init.tobytes() == package.kmeans_plusplus(points, k, 1).tobytes()
        run, single = (
            where.lloyd(*given, iterations=9, stop=None)
            for where, given in ((kept, (init,)), (package, (points, init)))
        )
        assert run.centroids.tobytes() == single.centroids.tobytes()
        assert run.labels.tobytes() == single.labels.tobytes()
    # An engine is set up for the iterations of the first run, and again where later runs differ.
    init = points[:40]
    for iterations in (1, 1, 1, 300, 5, 5, 60):
        run = kept.lloyd(init, iterations=iterations, stop=None)
        single = package.lloyd(points, init, iterations=iterations, stop=None)
        assert run.centroids.tobytes() == single.centroids.tobytes()
        assert run.labels.tobytes() == single.labels.tobytes()
        weighted = kept.lloyd(init, iterations=iterations, weights=np.full(len(points), 2.0))
        assert weighted.labels.tobytes() == kept.lloyd(init, iterations=iterations).labels.tobytes()
    with pytest.raises(ValueError, match=r"x has \d+ columns, init 1"):
        kept.lloyd(points[:3, :1])


def test_what_the_exact_step_cannot_answer_is_refused(package) -> None:
    points = _points(100, 2, 3)
    init = points[:3]
    for value, name in ((np.nan, "nan"), (np.inf, "inf")):
        spoilt = points.astype(float)
        spoilt[41, 1] = value
        with pytest.raises(ValueError, match=f"point 41, coordinate 1 is {name}"):
            package.lloyd(spoilt, init)
        with pytest.raises(ValueError, match="point 41"):
            package.kmeans_plusplus(spoilt, 3)
    spoilt = init.copy()
    spoilt[2, 0] = np.nan
    with pytest.raises(ValueError, match="centroid 2, coordinate 0 is nan"):
        package.lloyd(points, spoilt)
    outlier = points.copy()
    outlier[5, 0] = 1e30
    with pytest.raises(ValueError, match="cannot resolve these points"):
        package.lloyd(outlier, init)
    with pytest.raises(ValueError, match="x has 2 columns, init 1"):
        package.lloyd(points, init[:, :1])
    with pytest.raises(
        ValueError, match="k is 101; it must be from 1 to 100; there are 100 points"
    ):
        package.kmeans_plusplus(points, 101)
    with pytest.raises(ValueError, match="iterations is 0; it must be from 1"):
        package.lloyd(points, init, iterations=0)


def test_a_gpu_gives_the_bits_of_the_cpu_or_says_why_it_cannot(package) -> None:
    points = _points()
    init = points[:12]
    by_cpu = package.lloyd(points, init)
    on_either = package.lloyd(points, init, device="any")
    assert on_either.centroids.tobytes() == by_cpu.centroids.tobytes()
    assert on_either.labels.tobytes() == by_cpu.labels.tobytes()
    problem = package.problem_with_gpu()
    if problem:
        with pytest.raises(RuntimeError, match="no GPU can be used: "):
            package.lloyd(points, init, device="gpu")
    else:
        by_gpu = package.lloyd(points, init, device="gpu")
        assert by_gpu.centroids.tobytes() == by_cpu.centroids.tobytes()
        assert by_gpu.labels.tobytes() == by_cpu.labels.tobytes()
        assert (by_gpu.iterations, by_gpu.converged) == (by_cpu.iterations, by_cpu.converged)
    with pytest.raises(ValueError, match="device must be 'cpu', 'gpu' or 'any', not 'cuda'"):
        package.lloyd(points, init, device="cuda")


def test_the_library_for_gpus_holds_every_family_that_cuda_best_may_choose(package) -> None:
    """One that it lacks would be an error in setup, which only a GPU would show."""
    library = Path(package.__file__).parent / "libkmeans_exact_gpu.so"
    if PROGRAM is None or not library.is_file():
        pytest.skip("this build has no library for GPUs")
    source = (ROOT / "implementations/cuda/cuda_best.cpp").read_text()
    families = re.findall(r'"(cuda_\w+)"', source.partition("all_families()")[2].partition("}")[0])
    listing = subprocess.run([PROGRAM, "list", "--json"], capture_output=True, check=True)
    summaries = {v["name"]: v["summary"] for v in json.loads(listing.stdout)["variants"]}
    assert len(families) == 7
    held = library.read_bytes()
    assert [name for name in families if summaries[name].encode() not in held] == []


def _problem_with_gpu(folder: Path, **variables: str) -> str:
    script = "import kmeans_exact; print(kmeans_exact.problem_with_gpu())"
    return captured(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(folder), **variables},
        check=True,
    ).stdout


def test_a_package_without_its_part_for_gpus_says_why(package, tmp_path: Path) -> None:
    folder, part = Path(package.__file__).parent, "libkmeans_exact_gpu.so"
    shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns(part))
    reasons = ["CUDA was switched off", "no CUDA compiler that works was found", "there was no GPU"]
    reason = rf"no part for GPUs: ({'|'.join(reasons)}) when this was configured"
    if (folder / part).is_file():  # it was built, and is lost
        reason = rf"was not loaded: .*{part}: cannot open shared object file"
    assert re.search(reason, _problem_with_gpu(tmp_path))


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("nowhere.so", r"was not loaded: nowhere\.so: .*KMEANS_EXACT_GPU may say"),
        ("libm.so.6", r"libkmeans_exact_gpu\.so is of another version than \d+\.\d+\.\d+"),
    ],
)
def test_a_library_for_gpus_that_does_not_fit_is_refused(package, file: str, reason: str) -> None:
    folder = Path(package.__file__).parent.parent
    assert re.search(reason, _problem_with_gpu(folder, KMEANS_EXACT_GPU=file))


@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_estimator_passes_scikit_learns_checks(package, k: int) -> None:
    estimator_checks = pytest.importorskip("sklearn.utils.estimator_checks")
    estimator_checks.check_estimator(package.KMeans(n_clusters=k, random_state=0, n_threads=1))


def test_the_estimator_gives_labels_of_its_centroids(package) -> None:
    points = _points()
    model = package.KMeans(12, random_state=4, max_iter=3).fit(points)
    assert (model.predict(points) == model.labels_).all()
    seeded = package.lloyd(points, package.ward_start(points, 12, 4), iterations=3)
    assert model.cluster_centers_.tobytes() == seeded.centroids.tobytes()
    assert (model.predict(points[:5]) == model.labels_[:5]).all()  # fewer points than clusters
    several = package.KMeans(12, random_state=4, n_init=4).fit(points)
    assert several.inertia_ <= package.KMeans(12, random_state=4).fit(points).inertia_
