# SPDX-License-Identifier: Apache-2.0
"""Weights of points: integers as repeated rows, others by the definition in Python's integers."""

from __future__ import annotations

import json
import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.support import available_here, captured

SHAPES = [(1, 3), (2, 5), (3, 40), (7, 9), (9, 12), (16, 100), (40, 130), (64, 300)]
WAYS = [{"iterations": 7, "stop": None}, {}, {"tol": 1e-4}, {"labels_of": "returned", "tol": 1e-3}]


def _points(d: int, n: int = 4000) -> np.ndarray:
    random = np.random.default_rng(d)
    return (random.normal(size=(n, d)) + 3 * random.integers(0, 6, size=(n, 1))).astype("f4")


@pytest.mark.parametrize(("d", "k"), SHAPES)
def test_integers_give_the_bits_of_repeated_rows(package, d: int, k: int) -> None:
    x = _points(d)
    weights = np.random.default_rng(k).integers(0, 5, size=len(x))
    x[weights == 0] *= 1000  # which are in nobody's sum, and no reason to scale by
    repeated = np.repeat(x, weights, axis=0)
    kept = package.Points(x, threads=2)
    for start in ("kmeans_plusplus", "ward_start"):
        init = getattr(package, start)(x, k, 5, weights=weights)
        assert init.tobytes() == getattr(package, start)(repeated, k, 5).tobytes()
        for way in WAYS:
            right = package.lloyd(repeated, init, **way)
            for run in (
                package.lloyd(x, init, weights=weights, threads=1, **way),
                kept.lloyd(init, weights=weights.astype("f4"), **way),
            ):
                assert run.centroids.tobytes() == right.centroids.tobytes()
                assert (run.iterations, run.converged) == (right.iterations, right.converged)
                assert np.repeat(run.labels, weights).tobytes() == right.labels.tobytes()
            # Those of a run do not stay for the next one.
            plain, alone = kept.lloyd(init, **way), package.lloyd(x[weights > 0], init, **way)
            assert kept.lloyd(init, weights=weights > 0, **way).centroids.tobytes() == (
                alone.centroids.tobytes()
            )
            assert plain.centroids.tobytes() != right.centroids.tobytes()


def test_seeds_are_those_of_repeated_rows_if_k_of_them_differ(package) -> None:
    random = np.random.default_rng(4)
    for seed in range(200):
        x = random.normal(size=(9, 2)).astype("f4")[random.integers(0, 9, size=14)]
        weights = random.integers(0, 4, size=14)
        repeated = np.repeat(x, weights, axis=0)
        k = int(random.integers(1, 1 + len(np.unique(repeated, axis=0))))
        for start in (package.kmeans_plusplus, package.ward_start):
            own = start(x, k, seed, weights=weights)
            assert own.tobytes() == start(repeated, k, seed).tobytes()


def _whole(weights: np.ndarray) -> tuple[list[int], int]:
    """By docs/exact-step.md, in exact numbers: integers, and what the scale goes by."""
    counting = int((weights > 0).sum())
    exact = [Fraction(float(weight)) for weight in weights]
    if all(weight.denominator == 1 for weight in exact) and sum(exact) <= 2**53:
        total = int(sum(exact))
        return [int(weight) for weight in exact], total if total <= 2**32 else counting
    exponent = int(np.frexp(weights.max())[1])
    scale = Fraction(2) ** (53 - (counting - 1).bit_length() - exponent)
    return [max(1, round(weight * scale)) if weight else 0 for weight in exact], counting


def _means(
    x: np.ndarray, labels: np.ndarray, before: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    whole, rows = _whole(weights)
    most = Fraction(float(np.abs(x[weights > 0]).max()))
    s = 0
    while rows * most * Fraction(2) ** s > 2**62:
        s -= 1
    while rows * most * Fraction(2) ** (s + 1) <= 2**62:
        s += 1
    means = before.copy()
    for j in range(len(before)):
        members = [i for i in np.flatnonzero(labels == j) if whole[i]]
        count = sum(whole[i] for i in members)
        for t in range(x.shape[1] if count else 0):
            total = sum(
                whole[i] * round(Fraction(float(x[i, t])) * Fraction(2) ** s) for i in members
            )
            means[j, t] = np.float32(np.ldexp(float(total) / float(count), -s))
    return means


WEIGHTS = {
    "uniform": lambda random, n: random.uniform(size=n),
    "single": lambda random, n: random.uniform(0.1, 3, size=n).astype("f4"),
    "far apart": lambda random, n: np.exp(random.uniform(-60, 30, size=n)),
    "tiny": lambda random, n: random.uniform(size=n) * 1e-310,
    "with zeros": lambda random, n: random.uniform(size=n) * (random.uniform(size=n) < 0.4),
    "many rows": lambda random, n: random.integers(0, 2**40, size=n),
    "truth values": lambda random, n: random.uniform(size=n) < 0.7,
}


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize(("d", "k"), [(2, 5), (9, 12), (40, 33)])
def test_other_weights_by_their_definition(package, kind: str, d: int, k: int) -> None:
    random = np.random.default_rng(d)
    x = _points(d, 500)
    weights = WEIGHTS[kind](random, len(x))
    numbers = weights.astype("f8")
    centroids = x[:k]
    for _ in range(3):
        labels = package.nearest(x, centroids)
        right = _means(x, labels, centroids, numbers)
        for threads in (1, 2):
            run = package.lloyd(
                x, centroids, weights=weights, iterations=1, stop=None, threads=threads
            )
            assert (run.labels == labels).all()
            assert run.centroids.tobytes() == right.tobytes()
        centroids = right
    # So are seeds, which take the same integers.
    whole = np.array(_whole(numbers)[0])
    assert (
        package.ward_start(x, k, 3, weights=weights).tobytes()
        == package.ward_start(x, k, 3, weights=whole).tobytes()
    )
    if kind != "many rows":
        return
    halved = package.lloyd(x, x[:k], weights=numbers * 0.5)
    assert np.allclose(halved.centroids, package.lloyd(x, x[:k], weights=weights).centroids)


def test_means_are_within_their_bound(package) -> None:
    """delta / (1 - delta) of the largest distance, and what the exact step's own scale rounds."""
    random = np.random.default_rng(4)
    x = _points(5, 3000)
    for low in (1, 1e-3, 1e-9):
        weights = np.exp(random.uniform(np.log(low), 0, size=len(x)))
        init = x[:9]
        run = package.lloyd(x, init, weights=weights, iterations=1, stop=None)
        exponent = int(np.frexp(weights.max())[1])
        step = 2.0 ** (exponent + (len(x) - 1).bit_length() - 53)
        for j in range(9):
            own = run.labels == j
            mean = np.average(x[own].astype("f8"), axis=0, weights=weights[own])
            delta = step / 2 / weights[own].min()
            bound = delta / (1 - delta) * np.abs(x[own] - mean).max() + 2.0**-40
            # float32 centroids are rounded once more.
            assert (np.abs(run.centroids[j] - mean) <= bound + np.abs(mean) * 2.0**-24).all()


def test_weights_of_one_power_of_two_change_nothing(package) -> None:
    x = _points(9)
    weights = np.random.default_rng(1).uniform(size=len(x))
    one = package.lloyd(x, x[:12], weights=weights)
    for factor in (0.5, 2.0**40, 2.0**-300):
        run = package.lloyd(x, x[:12], weights=weights * factor)
        assert run.centroids.tobytes() == one.centroids.tobytes()
        assert run.labels.tobytes() == one.labels.tobytes()
    plain = package.lloyd(x, x[:12])
    assert package.lloyd(x, x[:12], weights=np.ones(len(x))).centroids.tobytes() == (
        plain.centroids.tobytes()
    )


def test_inertia_has_each_row_times_its_weight(package) -> None:
    x = _points(4, 300)
    weights = np.random.default_rng(1).uniform(size=300)
    labels = package.nearest(x, x[:5])
    squares = package.distances(x, x[:5])[np.arange(300), labels] ** 2
    found = package.inertia(x, x[:5], labels, weights=weights)
    assert found == pytest.approx((weights * squares).sum(), rel=1e-12)
    pytest.importorskip("sklearn")
    model = package.KMeans(5, init=x[:5], max_iter=1).fit(x, sample_weight=weights)
    assert model.score(x, sample_weight=weights) == -model.inertia_
    assert model.inertia_ == package.inertia(
        x, model.cluster_centers_, model.labels_, weights=weights
    )


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        ([1, 2], "it must be 3 numbers, one for each row"),
        ([[1], [2], [3]], "it must be 3 numbers, one for each row"),
        ([1, -2, 3], "weight 1 is -2; each must be finite and at least 0"),
        ([1, 2, np.nan], "weight 2 is nan; each must be finite"),
        ([1, np.inf, 3], "weight 1 is inf; each must be finite"),
        ([0, 0, 0], "all weights are 0"),
        (["1", "2", "3"], "it must be 3 numbers|real numbers are needed"),
        (np.array([1, 2, 3j]), "weights is complex128"),
        (np.ma.masked_equal([1, 2, 3], 2), "weights is masked in 1 places"),
    ],
)
def test_weights_are_checked(package, weights: object, reason: str) -> None:
    x = np.eye(3, dtype=np.float32)
    for call in (
        lambda: package.lloyd(x, x[:2], weights=weights),
        lambda: package.kmeans_plusplus(x, 2, weights=weights),
        lambda: package.ward_start(x, 2, weights=weights),
        lambda: package.inertia(x, x[:2], weights=weights),
    ):
        with pytest.raises((TypeError, ValueError), match=reason):
            call()


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        (np.ma.masked_equal([1, 2, 3], 2), "sample_weight is masked in 1 places"),
        ([1, np.ma.masked, 3], "sample_weight is masked in 1 places"),
        (["1", "2", "3"], "sample_weight is of dtype <U1; real numbers are needed"),
        (
            np.array([1, "2", 3], dtype=object),
            r"sample_weight\[1\] is '2': an argument must be no st",
        ),
        ([1, None, 3], r"sample_weight\[1\] is None"),
        (np.array([1, 2, 3j]), "sample_weight is complex128"),
        (1j, "sample_weight is complex128"),
        ("1", "sample_weight is of dtype <U1"),
        (np.array([1, 2, 3], dtype="m8[s]"), "sample_weight is of dtype timedelta64"),
        ([1, -2, 3], r"sample_weight\[1\] is -2; each must be finite and at least 0"),
        (-1, r"sample_weight\[0\] is -1; each must be finite"),
        ([1, np.nan, 3], "sample_weight contains NaN"),
        ([1, 2], r"sample_weight.shape == \(2,\)"),
    ],
)
def test_the_estimator_refuses_weights_by_its_name_for_them(
    package, weights: object, reason: str
) -> None:
    pytest.importorskip("sklearn")
    x = np.eye(3)
    fitted = package.KMeans(2).fit(x)
    for call in (package.KMeans(2).fit, package.KMeans(2, init=x[:2]).fit, fitted.score):
        with pytest.raises((TypeError, ValueError), match=reason):
            call(x, sample_weight=weights)


def test_the_estimator_takes_what_is_one_number_a_row(package) -> None:
    pytest.importorskip("sklearn")
    x = _points(3, 200)
    numbers = np.random.default_rng(1).integers(1, 5, size=200)
    right = package.KMeans(4, random_state=1).fit(x, sample_weight=numbers.astype("f8"))
    for given in (numbers, numbers.tolist(), numbers.astype(object), np.ma.array(numbers)):
        model = package.KMeans(4, random_state=1).fit(x, sample_weight=given)
        assert model.cluster_centers_.tobytes() == right.cluster_centers_.tobytes()
    plain = package.KMeans(4, random_state=1).fit(x)
    for one in (1, 1.0, np.int64(1), np.float32(1), True):
        model = package.KMeans(4, random_state=1).fit(x, sample_weight=one)
        assert model.cluster_centers_.tobytes() == plain.cluster_centers_.tobytes()


def test_masked_labels_are_refused(package) -> None:
    x = np.eye(3, dtype=np.float32)
    with pytest.raises(ValueError, match="labels is masked in 1 places"):
        package.inertia(x, x[:2], np.ma.masked_equal([0, 1, 0], 1))


@pytest.mark.parametrize(("d", "k"), [*SHAPES, (5, 3000), (300, 20)])
def test_a_gpu_gives_the_same_bits(package, d: int, k: int) -> None:
    if package.problem_with_gpu():
        pytest.skip(package.problem_with_gpu())
    x = _points(d)
    kept = package.Points(x, device="gpu")
    for kind in WEIGHTS.values():
        weights = kind(np.random.default_rng(k), len(x))
        for way in WAYS:
            right = package.lloyd(x, x[:k], weights=weights, **way)
            run = kept.lloyd(x[:k], weights=weights, **way)
            assert run.centroids.tobytes() == right.centroids.tobytes()
            assert run.labels.tobytes() == right.labels.tobytes()
            assert (run.iterations, run.converged) == (right.iterations, right.converged)


# ---- fit


@pytest.fixture
def fit(tmp_path: Path):
    """`kmeans-bench fit` with a file of weights, and what it wrote."""
    program = os.environ.get("KMEANS_BENCH")
    if not program:
        pytest.skip("KMEANS_BENCH names no program")

    def run(x: np.ndarray, weights: np.ndarray | None, *words: object, fails: bool = False):
        np.save(tmp_path / "x.npy", x)
        line = [program, "fit", tmp_path / "x.npy", *words, "--out", tmp_path / "out"]
        if weights is not None:
            np.save(tmp_path / "w.npy", weights)
            line += ["--weights", tmp_path / "w.npy"]
        done = captured([*map(str, line)])
        if fails:
            assert done.returncode == 2, done.stdout + done.stderr
            return done.stderr
        assert done.returncode == 0, done.stdout + done.stderr
        return {
            **json.loads((tmp_path / "out" / "summary.json").read_text()),
            "labels": np.load(tmp_path / "out" / "labels.npy"),
            "centroids": np.load(tmp_path / "out" / "centroids.npy"),
        }

    return run


def _on_gpu() -> list[str]:
    return available_here("cuda_best", "nccl_exact")


def test_every_variant_that_takes_weights_gives_the_bits_of_repeated_rows(fit) -> None:
    names = "reference openmp_exact openmp_int8 openmp_hamerly openmp_yinyang openmp_elkan"
    for variant in [*f"{names} openmp_exponion openmp_best".split(), *_on_gpu()]:
        for d, k in ((3, 7), (20, 40)):
            x = _points(d, 3000)
            weights = np.random.default_rng(k).integers(0, 4, size=len(x))
            x[weights == 0] *= 1000
            words = ("-k", k, "--variant", variant, "--tol", "1e-4")
            run = fit(x, weights, *words)
            right = fit(np.repeat(x, weights, axis=0), None, *words)
            assert run["centroids"].tobytes() == right["centroids"].tobytes(), variant
            assert (np.repeat(run["labels"], weights) == right["labels"]).all(), variant
            for key in ("iterations", "empty_clusters", "settled"):
                assert run[key] == right[key], (variant, key)
            assert run["inertia"] == pytest.approx(right["inertia"], rel=1e-12)


def test_every_variant_that_takes_weights_has_the_bits_of_the_reference(fit) -> None:
    for d, k in ((2, 9), (33, 20)):
        x = _points(d, 3000)
        weights = np.exp(np.random.default_rng(k).normal(size=len(x)) * 3)
        right = fit(x, weights, "-k", k, "--variant", "reference", "--iterations", 9)
        on_cpu = ["openmp_exact", "openmp_int8", "openmp_hamerly", "openmp_best"]
        for variant in [*on_cpu, *_on_gpu()]:
            run = fit(x, weights, "-k", k, "--variant", variant, "--iterations", 9)
            assert run["centroids"].tobytes() == right["centroids"].tobytes(), variant
            assert run["labels"].tobytes() == right["labels"].tobytes(), variant
            assert run["inertia"] == right["inertia"]


def test_fit_refuses_weights_that_it_cannot_take(fit) -> None:
    x = _points(3, 50)
    said = fit(x, np.ones(50), "-k", 3, "--variant", "cpu_naive", fails=True)
    assert "--weights: cpu_naive takes none; these do: " in said
    assert "openmp_best" in said
    said = fit(x, np.ones(49), "-k", 3, fails=True)
    assert "w.npy: has 49 x 1 numbers" in said
    said = fit(x, np.arange(50) - 3.0, "-k", 3, fails=True)
    assert "w.npy: weight 0 is -3" in said
