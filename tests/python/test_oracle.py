# SPDX-License-Identifier: Apache-2.0
"""`fit` against an oracle of its own: exact rationals, none of the program's code.

Every variant that can run here takes part, those of a GPU where there is one. More fits than a test
may take: KMEANS_BENCH_ORACLE_FITS=2000; others: KMEANS_BENCH_ORACLE_SEED=7; of some variants alone,
those whose names match: KMEANS_BENCH_ORACLE_ONLY='cuda_(tensor|tree)'.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import PROGRAM, captured

FITS = int(os.environ.get("KMEANS_BENCH_ORACLE_FITS", "60"))
SEED = int(os.environ.get("KMEANS_BENCH_ORACLE_SEED", "0"))
ONLY = os.environ.get("KMEANS_BENCH_ORACLE_ONLY", "")
KINDS = 8
# Those that do not take every shape; all others must.
LIMITS = {
    "cpu_naive_2d": lambda d: d == 2,
    "cuda_hamerly": lambda d: _capability() == (9, 0),
    "cuda_int8": lambda d: _capability() == (9, 0),
    "cuda_onepass": lambda d: d <= 128,
    "cuda_resident": lambda d: d <= 32,
    "cuda_tensor": lambda d: _capability() == (9, 0),
    "cuda_tree": lambda d: d <= 8,
    "openmp_tree": lambda d: d <= 8,
}


@functools.cache
def _listing() -> dict[str, Any]:
    listing = subprocess.run([PROGRAM, "list", "--json"], capture_output=True, check=True)
    return json.loads(listing.stdout)


def _capability() -> tuple[int, int] | None:
    """Of the GPU that the program uses."""
    gpus = _listing()["gpus"]
    return tuple(map(int, gpus[0]["compute_capability"].split("."))) if gpus else None


def _variants() -> list[dict[str, Any]]:
    """Those that run here and promise what the oracle computes: one plain Lloyd step."""
    return [
        variant
        for variant in _listing()["variants"]
        if variant["available"]
        and re.search(ONLY, variant["name"])
        and not variant["wrong_because"]
        and variant["labels_of"] == "starting"
        and variant["empty_clusters"] == "keep"
        and set(variant["precisions"]) & {"f32", "f64"}
    ]


def _able(exact: bool, precision: str, d: int) -> list[dict[str, Any]]:
    return [
        variant
        for variant in _variants()
        if variant["exact"] == exact
        and precision in variant["precisions"]
        and LIMITS.get(variant["name"], lambda d: True)(d)
    ]


def _choose(rng: np.random.Generator, exact: bool, precision: str, d: int) -> dict[str, Any]:
    able = _able(exact, precision, d)
    return able[int(rng.integers(len(able)))]


def _wants_exact(case: int, d: int) -> bool | None:
    """Every third case, unless all that is asked for are of one kind; None: there is neither."""
    precision = ("f32", "f64")[case % 2]
    found = {exact: bool(_able(exact, "f32" if exact else precision, d)) for exact in (True, False)}
    if not any(found.values()):
        return None
    wanted = case % 3 == 0
    return wanted if found[wanted] else not wanted


def _exponent(n: int, largest: Fraction) -> int:
    """The largest s with n * largest * 2^s <= 2^62."""
    if largest == 0:
        return 0
    s = 0
    while n * largest * Fraction(2) ** s > Fraction(2) ** 62:
        s -= 1
    while n * largest * Fraction(2) ** (s + 1) <= Fraction(2) ** 62:
        s += 1
    return s


def _nearest(point: np.ndarray, centroids: np.ndarray) -> tuple[int, list[np.float64]]:
    """The lowest index of the least distance, float64 operation by operation."""
    distances = []
    for centroid in centroids:
        total = np.float64(0)
        for a, b in zip(point, centroid, strict=True):
            difference = np.float64(a) - np.float64(b)
            total = total + difference * difference
        distances.append(total)
    return distances.index(min(distances)), distances


def _step(points: np.ndarray, centroids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    n, d = points.shape
    scale = Fraction(2) ** _exponent(n, max(abs(Fraction(float(v))) for v in points.flat))
    labels = np.array([_nearest(point, centroids)[0] for point in points], dtype=np.int32)
    after = centroids.copy()
    for j in range(len(centroids)):
        mine = points[labels == j]
        for t in range(d) if len(mine) else ():
            total = sum(round(Fraction(float(v)) * scale) for v in mine[:, t])  # ties to even
            mean = np.float64(total) / np.float64(len(mine))
            after[j, t] = np.float32(mean * np.float64(float(1 / scale)))
    return labels, after


def _awkward(rng: np.random.Generator, kind: int) -> np.ndarray:
    n, d = int(rng.integers(1, 40)), int(rng.choice([1, 1, 2, 3, 5, 17]))
    if kind == 0:  # ties
        points = rng.integers(-3, 4, (n, d))
    elif kind == 1:  # duplicates
        points = rng.normal(size=(3, d))[rng.integers(0, 3, n)]
    elif kind == 2:
        points = rng.normal(size=(n, d)) + rng.choice([1e3, 1e6, -1e8])
    elif kind == 3:
        points = rng.normal(size=(n, d)) * rng.choice([1e-30, 1e-12, 1e12, 1e17])
    elif kind == 4:  # halves: rounding of means
        points = rng.integers(0, 9, (n, d)) / 2
    elif kind == 5:
        points = rng.normal(size=(n, d))
        points[rng.integers(0, n)] *= 1e4
    elif kind == 6:  # denormals of float32, some of them zero
        points = rng.integers(-40, 41, (n, d)) * 2.0**-149
    else:  # zeros of both signs next to a grid: ties of distances, one column constant
        points = rng.choice([-0.0, 0.0, 1.0, -1.0], (n, d))
        points[:, 0] = 1e6
    return np.ascontiguousarray(points, dtype=np.float32)


def _write_csv(path: Path, points: np.ndarray, labelled: bool) -> None:
    """Digits enough for every float64, as which they may be read; behind them perhaps a label."""
    with path.open("w", encoding="utf-8") as file:
        for i, row in enumerate(points):
            label = f",row {i}" if labelled else ""
            file.write(",".join(f"{float(x):.17g}" for x in row) + label + "\n")


def _fit(
    folder: Path, file: str, variant: str, precision: str, k: int, threads: int, iterations: int
):
    run = captured(
        [
            PROGRAM,
            "fit",
            str(folder / file),
            *(("--drop-last", "1") if file == "labelled.csv" else ()),
            "-k",
            str(k),
            "--variant",
            variant,
            "--precision",
            precision,
            "--init",
            str(folder / "init.npy"),
            "--threads",
            str(threads),
            "--iterations",
            str(iterations),
            "--out",
            str(folder / "out"),
            "--json",
        ],
        timeout=900,
    )
    assert run.returncode == 0, f"{variant}: {run.stderr}"
    summary = json.loads(run.stdout.splitlines()[-1])
    return (
        np.load(folder / "out" / "labels.npy"),
        np.load(folder / "out" / "centroids.npy"),
        summary,
    )


@pytest.mark.parametrize("seed", range(4))
def test_fits_agree_with_the_oracle(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng([SEED, seed] if SEED else seed)
    fitted = 0
    for case in range(max(1, FITS // 4)):
        points = _awkward(rng, case % KINDS)
        n = len(points)
        k = int(rng.choice([1, n, rng.integers(1, n + 1)]))
        start = points[rng.choice(n, k, replace=False)].copy()
        if case % 5 == 4:  # far away: empty clusters
            start[k // 2 :] = np.abs(points).max() * 3 + 1
        np.save(tmp_path / "points.npy", points)
        file = "points.npy"
        if case % 7 == 6:  # as text, with and without a column that is left out
            file = ("points.csv", "labelled.csv")[case // 7 % 2]
            _write_csv(tmp_path / file, points, file == "labelled.csv")
        np.save(tmp_path / "init.npy", start)
        threads = (1, 2, 3, 7)[case % 4]
        exact = _wants_exact(case, points.shape[1])
        if exact is None:
            continue
        fitted += 1
        if exact:  # bit for bit after several iterations
            iterations = int(rng.integers(1, 6))
            centroids, labels = start, np.zeros(n, np.int32)
            for _ in range(iterations):
                labels, centroids = _step(points, centroids)
            name = _choose(rng, True, "f32", points.shape[1])["name"]
            found = _fit(tmp_path, file, name, "f32", k, threads, iterations)
            assert np.array_equal(found[0], labels), (name, seed, case)
            assert found[1].tobytes() == centroids.tobytes(), (name, seed, case)
            continue
        precision = ("f32", "f64")[case % 2]
        variant = _choose(rng, False, precision, points.shape[1])
        name = variant["name"]
        found = _fit(tmp_path, file, name, precision, k, threads, 1)
        expanded = variant["distance"] == "expanded"
        _judge(points, start, found, expanded, precision, f"{seed}, {case}: {name} {precision}")
    assert fitted, f"no variant that runs here matches KMEANS_BENCH_ORACLE_ONLY={ONLY}"


def _judge(points, start, found, expanded: bool, precision: str, where: str) -> None:
    """Within the rounding of one step, by rationals: labels nearly nearest, means of own labels."""
    labels, centroids, _ = found
    d = points.shape[1]
    unit = 2.0**-24 if precision == "f32" else 2.0**-53
    for point, label in zip(points, labels, strict=True):
        best, distances = _nearest(point, start)
        if label == best:
            continue
        size = float(distances[label] + distances[best])
        if expanded:
            norms = [np.linalg.norm(np.float64(start[j])) for j in (label, best)]
            size = 2 * (np.linalg.norm(np.float64(point)) + max(norms)) ** 2
        tiny = 4 * d * (2.0**-126 if precision == "f32" else 2.0**-1022)
        assert float(distances[label] - distances[best]) <= 1.01 * (d + 8) * unit * size + tiny, (
            where
        )
    for j, centroid in enumerate(centroids):
        mine = points[labels == j]
        if not len(mine):
            assert np.array_equal(np.float32(centroid), start[j]), where
            continue
        for t in range(d):
            mean = sum(Fraction(float(v)) for v in mine[:, t]) / len(mine)
            size = float(sum(abs(Fraction(float(v))) for v in mine[:, t]) / len(mine))
            error = abs(float(Fraction(float(centroid[t])) - mean))
            assert error <= (2 * len(mine) + 14) * unit * size + 2.0**-126, where
