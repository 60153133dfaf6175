# SPDX-License-Identifier: Apache-2.0
"""Many problems in one call: the bits of each alone, and errors that say which."""

from __future__ import annotations

import signal
import threading
import time
import warnings

import numpy as np
import pytest


def _problems(count: int, n: int, d: int) -> np.ndarray:
    random = np.random.default_rng(n)
    centres = 3 * random.integers(0, 5, size=(count, n, 1))
    return (random.normal(size=(count, n, d)) + centres).astype("f4")


@pytest.mark.parametrize(
    ("count", "n", "d", "k"), [(64, 256, 16, 32), (5, 900, 2, 7), (3, 4000, 40, 60), (1, 50, 3, 50)]
)
def test_each_problem_has_its_bits_alone(package, count: int, n: int, d: int, k: int) -> None:
    x = _problems(count, n, d)
    x[0] *= 1000  # a scale of its own
    init = package.ward_start_batch(x, k, 3, threads=2)
    assert all(
        own.tobytes() == package.ward_start(points, k, 3).tobytes()
        for own, points in zip(init, x, strict=True)
    )
    before = x.copy(), init.copy()
    for way in (
        {"iterations": 5, "stop": None},
        {},
        {"tol": 1e-3, "labels_of": "returned"},
    ):
        right = [package.lloyd(*one, **way) for one in zip(x, init, strict=True)]
        for threads in (0, 1, 2, 7):
            found = package.lloyd_batch(x, init, threads=threads, **way)
            assert found.centroids.tobytes() == b"".join(run.centroids.tobytes() for run in right)
            assert found.labels.tobytes() == b"".join(run.labels.tobytes() for run in right)
            assert found.iterations.tolist() == [run.iterations for run in right]
            assert found.converged.tolist() == [run.converged for run in right]
    assert all((now == then).all() for now, then in zip((x, init), before, strict=True))


@pytest.mark.parametrize(
    ("count", "n", "d", "k"),
    [
        (64, 1024, 16, 64),
        (300, 256, 16, 32),
        (5, 900, 2, 7),
        (3, 4000, 40, 60),  # which no multiprocessor holds
        (2, 3000, 12, 700),  # of which all of the GPU is for one
        (1, 50, 3, 50),
        (4, 90, 500, 3),
        (7, 1500, 1, 1),
    ],
)
def test_each_problem_has_its_bits_alone_on_a_gpu(
    package, count: int, n: int, d: int, k: int
) -> None:
    if package.problem_with_gpu():
        pytest.skip(package.problem_with_gpu())
    x = _problems(count, n, d)
    x[0] *= 1000  # a scale of its own
    x[-1, : n // 2] = x[-1, 0]  # many equal points, and centroids
    init = x[:, :k].copy()
    init[-1] = x[-1, n - k :]
    init[0, -1] *= 9  # a cluster without points
    for metric in ("euclidean", "cosine"):
        for way in (
            {"iterations": 5, "stop": None},
            {},
            {"tol": 1e-3, "labels_of": "returned"},
            {"iterations": 1, "labels_of": "returned"},
        ):
            right = package.lloyd_batch(x, init, metric=metric, **way)
            found = package.lloyd_batch(x, init, metric=metric, device="gpu", **way)
            for name in ("centroids", "labels", "iterations", "converged"):
                own, other = getattr(found, name), getattr(right, name)
                assert own.tobytes() == other.tobytes(), (metric, way, name)


def test_on_a_gpu_errors_name_the_problem_and_signals_end_it(package) -> None:
    if package.problem_with_gpu():
        pytest.skip(package.problem_with_gpu())
    x = _problems(40, 60, 3)
    spoilt = x.copy()
    spoilt[17, 5, 1] = np.nan
    with pytest.raises(ValueError, match="problem 17: point 5, coordinate 1 is nan"):
        package.lloyd_batch(spoilt, x[:, :4], device="gpu")
    spoilt[17] = x[17]
    spoilt[9, 2, 0] = 1e30
    with pytest.raises(ValueError, match="problem 9: the exact step cannot resolve these points"):
        package.lloyd_batch(spoilt, x[:, :4], device="any")

    def handler(*_unused: object) -> None:
        raise KeyError("from the handler")

    def go_on() -> None:
        for _ in range(100000):  # single calls are short
            package.lloyd_batch(x, x[:, :50], device="gpu")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyError, match="from the handler"):
            go_on()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_other_layouts_and_types_are_converted(package) -> None:
    x = _problems(6, 100, 4)
    right = package.lloyd_batch(x, x[:, :5]).centroids.tobytes()
    for given in (x.astype("f8"), np.asfortranarray(x), x[::-1].copy()[::-1], list(x)):
        assert package.lloyd_batch(given, np.asarray(given)[:, :5]).centroids.tobytes() == right


def test_what_is_wrong_is_said_with_the_problem(package) -> None:
    x = _problems(40, 60, 3)
    init = x[:, :4].copy()
    spoilt = x.copy()
    spoilt[17, 5, 1] = np.nan
    spoilt[31, 0, 0] = np.inf
    for threads in (1, 2):
        with pytest.raises(ValueError, match="problem 17: point 5, coordinate 1 is nan"):
            package.lloyd_batch(spoilt, init, threads=threads)
        with pytest.raises(ValueError, match="problem 17: point 5, coordinate 1 is nan"):
            package.ward_start_batch(spoilt, 4, threads=threads)
    spoilt = x.copy()
    spoilt[9, 2, 0] = 1e30
    with pytest.raises(ValueError, match="problem 9: the exact step cannot resolve these points"):
        package.lloyd_batch(spoilt, init)
    no_centroid = init.copy()
    no_centroid[3, 2, 1] = np.inf
    with pytest.raises(ValueError, match="problem 3: centroid 2, coordinate 1 is inf"):
        package.lloyd_batch(x, no_centroid)
    for given, reason in (
        ((x[0], init), "x must have 3 dimensions, a table of rows for each problem, not 2"),
        ((x, init[:39]), "x has 40 problems, init 39"),
        ((x, init[:, :, :2]), "x has 3 columns, init 2"),
        ((x[:0], init[:0]), "x is 0 x 60 x 3; at least one problem, row and column are needed"),
        ((x[:, :3], init), "k is 4; it must be from 1 to n = 3"),
        ((x.astype("c8"), init), "x is complex64"),
        ((x.astype(str), init), "x is of dtype <U"),
    ):
        with pytest.raises((TypeError, ValueError), match=reason):
            package.lloyd_batch(*given)
    with pytest.raises(ValueError, match="k is 61; it must be from 1 to 60"):
        package.ward_start_batch(x, 61)


def test_what_cannot_be_converted_is_said_with_the_problem(package) -> None:
    x = _problems(40, 60, 3).astype("f8")
    init = x[:, :4].copy()
    for wrong, reason in ((1e39, r"1e\+39, which float32 cannot hold"), ("1.5", r"'1\.5': an arg")):
        spoilt = x.astype(object if isinstance(wrong, str) else "f8")
        spoilt[2, 7, 1] = wrong
        with pytest.raises(
            (TypeError, ValueError), match=r"exact: problem 2: x\[7, 1\] is " + reason
        ):
            package.lloyd_batch(spoilt, init)
        with pytest.raises((TypeError, ValueError), match=r"problem 2: init\[7, 1\] is " + reason):
            package.lloyd_batch(x, spoilt)


def _warnings_of(package, call, *given: object) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*given)
    assert all(one.filename == __file__ for one in caught)
    assert {one.category for one in caught} <= {package.RoundingWarning}
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("n", [3, 40, 5000])
def test_rounding_is_judged_in_each_problem_as_it_is_alone(package, n: int) -> None:
    """However large the numbers of the others are."""
    random = np.random.default_rng(n)
    fair = random.normal(size=(n, 3)) * 1e6
    kinds = {
        "far off": 1e9 + random.normal(size=(n, 3)),
        "one column": fair + np.array([0, 1e12, 0]),
        "merged": 2.0**25 + np.arange(3.0 * n).reshape(n, 3),
        "whole": np.floor(fair),
        "equal": np.full((n, 3), 0.1),
        "few values": np.round(random.normal(size=(n, 3)), 1),
        "mostly zeros": fair * (random.uniform(size=(n, 3)) > 0.9),
        "outliers": np.where(np.arange(n)[:, None] == 1, 1e15, fair),
        "large": fair * 1e30,
    }
    warned = set()
    for name, points in kinds.items():
        alone = _warnings_of(package, package.ward_start, points, 2)
        for at in (0, 7, 8):
            x = np.stack([points if problem == at else fair for problem in range(9)])
            found = _warnings_of(package, package.ward_start_batch, x, 2)
            assert found == [one.replace("exact: x", f"exact: problem {at}: x") for one in alone]
            if name == "far off":
                assert found == _warnings_of(package, package.lloyd_batch, x, x[:, :2].astype("f4"))
        warned |= {name} if alone else set()
    assert {"far off", "one column", "merged"} <= warned
    assert not {"whole", "equal", "few values", "large"} & warned


@pytest.mark.parametrize("threads", [1, 2])
def test_a_signal_ends_it(package, threads: int) -> None:
    x = _problems(4000, 500, 8)
    init = x[:, :50].copy()

    def handler(*_unused: object) -> None:
        raise KeyError("from the handler")

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        begin = time.monotonic()
        threading.Timer(0.2, signal.raise_signal, [signal.SIGUSR1]).start()
        with pytest.raises(KeyError, match="from the handler"):
            package.lloyd_batch(x, init, iterations=100000, stop=None, threads=threads)
        assert time.monotonic() - begin < 30  # in place of hours
    finally:
        signal.signal(signal.SIGUSR1, before)
