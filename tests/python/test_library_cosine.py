# SPDX-License-Identifier: Apache-2.0
"""Spherical k-means against its definition (docs/exact-step.md) in Python's integers and floats."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.support import available_here, kmeans_bench, needs_program

VARIANTS = "reference openmp_exact openmp_int8 openmp_hamerly openmp_yinyang openmp_elkan"
VARIANTS += " openmp_exponion openmp_tree openmp_best"
SHAPES = [(1, 2), (2, 5), (3, 12), (8, 9), (17, 20), (64, 33)]


def _need_gpu(package) -> None:
    if package.problem_with_gpu():
        pytest.skip(package.problem_with_gpu())


def _sum_of_squares(values: list[float]) -> float:
    total = 0.0
    for value in values:
        total += value * value
    return total


def _direction(values: list[float]) -> list[np.float32] | None:
    squares = _sum_of_squares(values)
    if squares == 0:
        return None
    length = math.sqrt(squares)
    return [np.float32(value / length) for value in values]


def _unit(row: np.ndarray) -> np.ndarray:
    values = [float(value) for value in row]
    squares = _sum_of_squares(values)
    if squares == 0 or abs(squares - 1) <= 2.0**-22:
        return row.copy()
    return np.array(_direction(values), dtype=np.float32)


def _units(rows: np.ndarray) -> np.ndarray:
    return np.array([_unit(row) for row in rows], dtype=np.float32)


def _labels(rows: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """All n x k distances, one coordinate after the other."""
    total = np.zeros((len(rows), len(centroids)))
    for t in range(rows.shape[1]):
        difference = rows[:, None, t].astype(float) - centroids[None, :, t].astype(float)
        total += difference * difference
    return total.argmin(axis=1)  # the first of equals


def _exponent(n: int, largest: np.float32) -> int:
    """The largest s with n * largest * 2^s <= 2^62."""
    room = Fraction(2**62) / (n * Fraction(float(largest)))
    s = math.floor(math.log2(room)) + 1
    while Fraction(2) ** s > room:
        s -= 1
    return s


def _step(
    rows: np.ndarray, centroids: np.ndarray, weights: list[int], direction=_direction
) -> tuple[np.ndarray, np.ndarray]:
    """One step of the definition: labels and new centroids, of integer weights."""
    labels = _labels(rows, centroids)
    counting = [i for i, weight in enumerate(weights) if weight > 0]
    largest = np.abs(rows[counting]).max()
    scale = Fraction(2) ** (_exponent(sum(weights), largest) if largest > 0 else 0)
    new = centroids.copy()
    for j in range(len(centroids)):
        members = [i for i in counting if labels[i] == j]
        # round() of a Fraction: to the nearest, ties to even. float() of an integer likewise.
        sums = [
            sum(weights[i] * round(Fraction(float(rows[i, t])) * scale) for i in members)
            for t in range(rows.shape[1])
        ]
        found = direction([float(total) for total in sums])
        if found is not None:  # else the cluster is empty, or its rows cancel out
            new[j] = found
    return labels, new


def _run(
    x: np.ndarray, init: np.ndarray, iterations: int, weights: list[int] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    rows, centroids = _units(x), _units(init)
    for _ in range(iterations):
        labels, centroids = _step(rows, centroids, weights or [1] * len(rows))
    return labels, centroids


def _points(d: int, n: int = 300) -> np.ndarray:
    """Rows about some centres, of lengths over many magnitudes; some about an axis, so that a sum's
    direction leaves their box; opposite ones, equal ones, and zeros."""
    random = np.random.default_rng(d)
    centres = random.normal(size=(7, d))
    x = centres[random.integers(7, size=n)] + 0.4 * random.normal(size=(n, d))
    x[:40] = np.eye(d)[0] + 0.5 * random.normal(size=(40, d))
    x *= np.exp(random.normal(size=(n, 1)) * 8)
    x[50:60] = -x[60:70]
    x[70:90] = x[90]
    x[100:103] = 0
    return x.astype(np.float32)


def test_rows_of_length_one(package) -> None:
    for d in (1, 2, 3, 16, 100):
        x = _points(d)
        unit = package.unit_rows(x)
        assert unit.tobytes() == _units(x).tobytes()
        assert unit.tobytes() == package.unit_rows(x, threads=1).tobytes()
        assert package.unit_rows(unit).tobytes() == unit.tobytes()  # twice is once
        assert not unit[100:103].any()
        lengths = np.linalg.norm(unit.astype(float), axis=1)
        assert np.delete(np.abs(lengths - 1) < 2**-23, slice(100, 103)).all()
    extreme = np.array([[3e38, -3e38], [1e-45, 0], [-1e-45, 1e-45]], dtype=np.float32)
    assert package.unit_rows(extreme).tobytes() == _units(extreme).tobytes()
    with pytest.raises(ValueError, match="row 1, coordinate 0 is nan"):
        package.unit_rows([[1, 2], [np.nan, 1]])


@pytest.mark.parametrize(("d", "k"), SHAPES)
def test_a_run_has_the_bits_of_the_definition(package, d: int, k: int) -> None:
    x = _points(d)
    init = x[np.random.default_rng(k).choice(len(x), k, replace=False)]
    weights = np.random.default_rng(d).integers(0, 4, size=len(x))
    for iterations in (1, 2, 6):
        for given in (None, weights):
            listed = None if given is None else given.tolist()
            labels, centroids = _run(x, init, iterations, listed)
            for threads in (1, 2):
                run = package.lloyd(
                    x, init, iterations=iterations, stop=None, weights=given, threads=threads,
                    metric="cosine",
                )  # fmt: skip
                assert run.centroids.tobytes() == centroids.tobytes()
                assert (run.labels == labels).all()


def test_the_points_of_these_tests_show_a_wrong_rule() -> None:
    """Else the tests above would pass with it."""
    x = _points(17)
    rows, ones = _units(x), [1] * len(x)
    right = _step(rows, _units(x[:20]), ones)[1]
    wrong = {
        "float32 sums": lambda values: _direction([float(np.float32(v)) for v in values]),
        "a float32 length": lambda values: (
            [np.float32(v / np.float32(math.sqrt(_sum_of_squares(values) or 1))) for v in values]
            if any(values)
            else None
        ),
    }
    for name, direction in wrong.items():
        assert (_step(rows, _units(x[:20]), ones, direction)[1] != right).any(), name
    exact = x.astype(float) / np.linalg.norm(x.astype(float), axis=1, keepdims=True).clip(1e-300)
    assert np.abs(exact - rows).max() < 2**-24


#: Sums of which one quotient is half way between two float32 numbers, so that a wrong rounding on
#: the way shows: of squares that are added in another order or by fused multiply-adds, or of a
#: product with the length's reciprocal.
TELLING_SUMS = {
    "order": [2, 2, 9, 57, 2197, 83186550, 56684187],
    "fused": [5, 195, 22670, 1606443895, 1037972451],
    "reciprocal": [1, 5, 16, 106482, 8403224113, 11103780255],
}


def _fused(values: list[float]) -> float:
    total = 0.0
    for value in values:
        total = float(Fraction(total) + Fraction(value) * Fraction(value))
    return total


def test_the_telling_sums_tell() -> None:
    ways = {
        "order": lambda v: [x / math.sqrt(_sum_of_squares(v[::-1])) for x in v],
        "fused": lambda v: [x / math.sqrt(_fused(v)) for x in v],
        "reciprocal": lambda v: [x * (1 / math.sqrt(_sum_of_squares(v))) for x in v],
    }
    for name, sums in TELLING_SUMS.items():
        values = [float(total) for total in sums]
        assert list(np.float32(ways[name](values))) != _direction(values), name


def _of_sums(sums: list[int]) -> tuple[np.ndarray, np.ndarray, bytes]:
    """Rows along the axes with weights that add up to these sums, and the centroid of all."""
    right = np.array(_direction([float(total) for total in sums]), dtype=np.float32)
    return np.eye(len(sums), dtype=np.float32), np.array(sums, dtype=float), right.tobytes()


@pytest.mark.parametrize("name", TELLING_SUMS)
def test_a_direction_is_rounded_as_the_definition_says(package, name: str) -> None:
    x, weights, right = _of_sums(TELLING_SUMS[name])
    run = package.lloyd(x, x[:1], iterations=1, stop=None, weights=weights, metric="cosine")
    assert run.centroids.tobytes() == right


@needs_program
@pytest.mark.parametrize("name", TELLING_SUMS)
def test_every_variant_rounds_a_direction_so(tmp_path: Path, name: str) -> None:
    x, weights, right = _of_sums(TELLING_SUMS[name])
    np.save(tmp_path / "w.npy", weights)
    for variant in set(VARIANTS.split()) - {"openmp_tree"}:  # which takes no weights
        words = ("--weights", tmp_path / "w.npy", "--init", "first", "--iterations", 1)
        run = _fit(tmp_path, x, 1, "--variant", variant, *words)
        assert run["centroids"].tobytes() == right, variant


def test_what_cancels_out_keeps_its_centroid(package) -> None:
    x = np.array([[1, 2], [-1, -2], [0, 0], [5, 0]], dtype=np.float32)
    init = np.array([[-2, 1], [1, 0]], dtype=np.float32)
    run = package.lloyd(x, init, iterations=3, stop=None, metric="cosine")
    labels, centroids = _run(x, init, 3)
    assert (run.labels == labels).all()
    assert run.centroids.tobytes() == centroids.tobytes()
    zeros = np.zeros((5, 3), dtype=np.float32)
    run = package.lloyd(zeros, [[0, 3, 4], [1, 0, 0]], metric="cosine")
    assert run.centroids.tolist() == package.unit_rows([[0, 3, 4], [1, 0, 0]]).tolist()


def test_labels_have_the_largest_cosine(package) -> None:
    random = np.random.default_rng(3)
    x, centroids = random.normal(size=(500, 12)) * 1e3, random.normal(size=(9, 12)) * 1e-3
    cosines = x @ centroids.T
    cosines /= np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(centroids, axis=1)
    assert (package.nearest(x, centroids, metric="cosine") == cosines.argmax(axis=1)).all()
    distances = package.distances(x, centroids, metric="cosine")
    assert distances == pytest.approx(np.sqrt(2 - 2 * cosines), abs=1e-6)
    assert package.inertia(x, centroids, metric="cosine") == pytest.approx(
        (2 - 2 * cosines.max(axis=1)).sum(), rel=1e-6
    )


def test_points_of_the_engine_change_from_one_metric_to_the_other(package) -> None:
    from kmeans_exact import _engine

    unit = package.unit_rows(_points(6))
    weights = np.arange(len(unit), dtype=np.float64) % 3
    for w in (None, weights):
        kept = _engine.points(unit, 0, 0)
        for metric in (0, 1, 0, 1, 1, 0):
            alone = _engine.points(unit, 0, 0)
            one, other = (
                _engine.lloyd(points, unit[:9], 6, 0, 0.0, 0, w, metric) for points in (kept, alone)
            )
            assert one[0].tobytes() == other[0].tobytes(), metric
            assert (one[1] == other[1]).all()
    with pytest.raises(ValueError, match="point 0 is not of length one, as cosine wants it"):
        _engine.lloyd(_engine.points(2 * unit, 0, 0), unit[:9], 6, 0, 0.0, 0, None, 1)


def test_kept_points_by_cosine_give_what_single_calls_do(package) -> None:
    x = _points(6)
    unit = package.unit_rows(x)
    kept = package.Points(x, metric="cosine")
    for k in (3, 8):
        init = kept.ward_start(k, 2)
        assert init.tobytes() == package.ward_start(x, k, 2, metric="cosine").tobytes()
        assert init.tobytes() == package.unit_rows(package.ward_start(unit, k, 2)).tobytes()
        seeds = kept.kmeans_plusplus(k, 2)
        assert seeds.tobytes() == package.kmeans_plusplus(unit, k, 2).tobytes()
        for way in ({}, {"tol": 1e-3}, {"labels_of": "returned", "iterations": 4}):
            run = kept.lloyd(seeds, **way)
            alone = package.lloyd(x, seeds, metric="cosine", **way)
            assert run.centroids.tobytes() == alone.centroids.tobytes()
            assert (run.labels == alone.labels).all()
            assert run.iterations == alone.iterations
        assert (run.labels == kept.nearest(run.centroids)).all()
        # From where a run ended, another goes on as one.
        first = kept.lloyd(seeds, iterations=2, stop=None)
        rest = kept.lloyd(first.centroids, iterations=3, stop=None)
        whole = kept.lloyd(seeds, iterations=5, stop=None)
        assert rest.centroids.tobytes() == whole.centroids.tobytes()


def test_a_batch_has_the_bits_of_single_calls(package) -> None:
    stack = _points(5).reshape(6, 50, 5)
    starts = package.ward_start_batch(stack, 4, 1, metric="cosine")
    run = package.lloyd_batch(stack, starts, metric="cosine")
    for b, x in enumerate(stack):
        assert starts[b].tobytes() == package.ward_start(x, 4, 1, metric="cosine").tobytes()
        alone = package.lloyd(x, starts[b], metric="cosine")
        assert run.centroids[b].tobytes() == alone.centroids.tobytes()
        assert (run.labels[b] == alone.labels).all()


def test_the_estimator(package) -> None:
    pytest.importorskip("sklearn")
    x = _points(9)
    weights = np.random.default_rng(1).integers(1, 4, size=len(x))
    for init in ("ward", "k-means++", "random", x[:6]):
        model = package.KMeans(6, init=init, random_state=1, metric="cosine")
        model.fit(x, sample_weight=weights)
        scaled = package.KMeans(6, init=init, random_state=1, metric="cosine")
        scaled.fit(x * np.float32(4), sample_weight=weights)
        assert (model.labels_ == model.predict(x)).all()
        assert (model.labels_ == model.transform(x.astype(float)).argmin(axis=1)).all()
        assert np.linalg.norm(model.cluster_centers_, axis=1) == pytest.approx(1, abs=1e-6)
        assert model.score(x, sample_weight=weights) == -model.inertia_
        assert (model.labels_ == scaled.labels_).all()
        assert model.cluster_centers_.tobytes() == scaled.cluster_centers_.tobytes()


def test_a_gpu_has_the_bits_of_the_cpu(package) -> None:
    _need_gpu(package)
    for d, k in [*SHAPES, (5, 900), (300, 20)]:
        x = _points(d, 4000)
        weights = np.random.default_rng(d).uniform(size=len(x)) * (np.arange(len(x)) % 3)
        kept = package.Points(x, device="gpu", metric="cosine")
        for way in ({}, {"iterations": 5, "stop": None}, {"tol": 1e-3, "labels_of": "returned"}):
            for how in (way, {"weights": weights, **way}):
                right = package.lloyd(x, x[:k], metric="cosine", **how)
                run = kept.lloyd(x[:k], **how)
                assert run.centroids.tobytes() == right.centroids.tobytes(), (d, k, way)
                assert run.labels.tobytes() == right.labels.tobytes()
                assert (run.iterations, run.converged) == (right.iterations, right.converged)
        centroids = package.ward_start(x, k, metric="cosine")
        assert kept.ward_start(k).tobytes() == centroids.tobytes()
        right = package.nearest(x, centroids, metric="cosine")
        assert kept.nearest(centroids).tobytes() == right.tobytes()
        assert kept.inertia(centroids) == package.inertia(x, centroids, metric="cosine")


@pytest.mark.parametrize("name", TELLING_SUMS)
def test_a_gpu_rounds_a_direction_as_the_definition_says(package, name: str) -> None:
    _need_gpu(package)
    x, weights, right = _of_sums(TELLING_SUMS[name])
    how = {"weights": weights, "metric": "cosine", "device": "gpu"}
    assert package.lloyd(x, x[:1], iterations=1, stop=None, **how).centroids.tobytes() == right


def test_what_is_refused(package) -> None:
    x = _points(3)
    with pytest.raises(ValueError, match="metric must be 'euclidean' or 'cosine', not 'manhattan'"):
        package.lloyd(x, x[:3], metric="manhattan")
    ways = [package.lloyd(x, x[:3], metric="cosine", device=device) for device in ("cpu", "any")]
    assert ways[0].centroids.tobytes() == ways[1].centroids.tobytes()


# ---- the program


def _fit(folder: Path, x: np.ndarray, k: int, *options: object) -> dict:
    np.save(folder / "x.npy", x)
    words = ["fit", folder / "x.npy", "-k", k, "--metric", "cosine", "--quiet", *options]
    kmeans_bench(*words, "--out", folder / "out")
    return {
        **json.loads((folder / "out" / "summary.json").read_text(encoding="utf-8")),
        "labels": np.load(folder / "out" / "labels.npy"),
        "centroids": np.load(folder / "out" / "centroids.npy"),
    }


@needs_program
@pytest.mark.parametrize("variant", [*VARIANTS.split(), "cuda_best"])
def test_every_variant_has_the_bits_of_the_definition(
    package, tmp_path: Path, variant: str
) -> None:
    if variant == "cuda_best":
        _need_gpu(package)
    for d, k in SHAPES:
        if variant == "openmp_tree" and d > 8:
            continue
        x = _points(d)
        np.save(tmp_path / "init.npy", x[5 : 5 + k])
        labels, centroids = _run(x, x[5 : 5 + k], 5)
        words = ("--init", tmp_path / "init.npy", "--iterations", 5, "--variant", variant)
        run = _fit(tmp_path, x, k, *words)
        assert run["metric"] == "cosine"
        assert run["centroids"].tobytes() == centroids.tobytes(), (d, k)
        assert (run["labels"] == labels).all(), (d, k)


@needs_program
def test_every_variant_has_the_bits_of_the_reference_on_more_points(tmp_path: Path) -> None:
    on_gpu = available_here("cuda_best", "nccl_exact")
    for d, k in ((2, 40), (5, 100), (32, 64)):
        x = _points(d, 4000)
        ways = [("--iterations", 12), ("--tol", "1e-4"), ("--stop", "labels")]
        for way in ways:
            right = _fit(tmp_path, x, k, "--variant", "reference", *way)
            for variant in [*VARIANTS.split()[1:], *on_gpu]:
                if variant == "openmp_tree" and d > 8:
                    continue
                run = _fit(tmp_path, x, k, "--variant", variant, *way)
                assert run["centroids"].tobytes() == right["centroids"].tobytes(), variant
                assert (run["labels"] == right["labels"]).all(), variant
                assert run["iterations"] == right["iterations"], variant


@needs_program
def test_the_program_refuses_what_takes_no_cosine(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", _points(3))
    words = ("fit", tmp_path / "x.npy", "-k", 3, "--metric", "cosine", "--variant")
    said = kmeans_bench(*words, "cpu_naive", status=2).stderr
    assert "--metric cosine: cpu_naive " in said
    assert "openmp_best" in said
    kmeans_bench("fit", tmp_path / "x.npy", "-k", 3, "--metric", "manhattan", status=2)
