# SPDX-License-Identifier: Apache-2.0
"""k-means++ as docs/seeding.md defines it, a second time, in Python's integers."""

from __future__ import annotations

import bisect
import itertools
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.support import ROOT, find_program

PROGRAM = find_program()
BUILD = PROGRAM.parent if PROGRAM else ROOT / "build"
MASK = 2**64 - 1
STEP = 0x9E3779B97F4A7C15


def mixed(word: int) -> int:
    """SplitMix64's finaliser."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def numbers(seed: int, *, halves_swapped: bool = False) -> Iterator[int]:
    """The 128-bit numbers of the darts."""
    key = mixed((mixed((seed + STEP) & MASK) + 103 * STEP) & MASK)
    for dart in itertools.count():
        high, low = (mixed((key + (index + 1) * STEP) & MASK) for index in (2 * dart, 2 * dart + 1))
        yield low << 64 | high if halves_swapped else high << 64 | low


def squared_distances(x: np.ndarray, c: np.ndarray) -> np.ndarray:
    """As the exact step adds them up."""
    total = np.zeros(len(x))
    for t in range(x.shape[1]):
        difference = x[:, t].astype(np.float64) - np.float64(c[t])
        total = total + difference * difference
    return total


def rows_of(
    x: np.ndarray, k: int, seed: int, weights: np.ndarray | None = None, planted: str = ""
) -> list[int]:
    """The seeds' rows; with an error, if one is named."""
    n = len(x)
    w = [1] * n if weights is None else [int(weight) for weight in weights]
    darts = numbers(seed, halves_swapped=planted == "halves swapped")
    if planted == "dart 1 left out":
        darts = itertools.chain([next(darts)], itertools.islice(darts, 1, None))
    order = list(range(n))
    if planted == "rows reversed":
        order.reverse()

    def thrown(bars: list[int]) -> tuple[int, int]:
        ends = list(itertools.accumulate(bars[i] for i in order))
        position = (next(darts) * ends[-1]) >> 128
        place = bisect.bisect_right(ends, position)
        return order[place], position - (ends[place - 1] if place else 0)

    rows = [thrown(w)[0]]
    stale = squared_distances(x, x[rows[0]])
    while len(rows) < k:
        largest = max(s for s, weight in zip(stale, w, strict=True) if weight)
        if largest == 0:
            unused = [i for i in range(n) if i not in rows]
            rows += sorted(unused, key=lambda i: w[i] == 0)[: k - len(rows)]
            break
        scale = 2.0 ** (62 - (sum(w) - 1).bit_length() - math.frexp(largest)[1])
        heights = [math.floor(s * scale) for s in stale]
        bars = [weight * height for weight, height in zip(w, heights, strict=True)]
        seeds, misses = len(rows), 0
        until = min(k, seeds + max(3 * seeds, 15))
        left = stale
        while len(rows) < until and misses < max(2 * seeds, 32):
            row, height = thrown(bars)
            if height % heights[row] < math.floor(left[row] * scale) or planted == "all hit":
                rows.append(row)
                left = np.minimum(left, squared_distances(x, x[row]))
            else:
                misses += 1
        stale = left
    return rows


def problems() -> Iterator[tuple[np.ndarray, int, int, np.ndarray | None]]:
    """Points, k, seed, weights."""
    random = np.random.default_rng(3)
    for number in range(48):
        n, d = int(random.integers(1, 400)), int(random.choice([1, 2, 3, 8, 17, 40]))
        x = random.normal(size=(n, d))
        if number % 6 == 1:
            x = np.round(x)  # ties, and fewer distinct points than k
        if number % 6 == 2:
            x += 1e4
        if number % 6 == 3:
            x[random.integers(n)] *= 1e6
        if number % 6 == 4:
            x = 0.01 * x + random.normal(size=(7, d))[random.integers(7, size=n)] * 100
        weights = random.integers(0, 5, size=n) if number % 3 == 0 else None
        if weights is not None:
            weights[0] += 1
        k = int(random.integers(1, min(n, 90) + 1))
        yield x.astype(np.float32), k, int(random.integers(2**63)), weights


def _package() -> object:
    """The package of the build folder, in this process."""
    folder = BUILD / "library" / "python"
    if not list(folder.glob("kmeans_exact/_engine*")):
        pytest.skip("this build has no Python package (see the first lines of its configuration)")
    sys.path.insert(0, str(folder))
    try:
        import kmeans_exact
    finally:
        sys.path.remove(str(folder))
    return kmeans_exact


def test_seeds_are_those_of_the_definition() -> None:
    package = _package()
    for x, k, seed, weights in problems():
        right = x[rows_of(x, k, seed, weights)]
        seeds = package.kmeans_plusplus(x, k, seed, weights=weights)
        assert np.array_equal(seeds, right), (x.shape, k, seed)


def ward_of(x: np.ndarray, k: int, seed: int, weights: np.ndarray | None = None) -> np.ndarray:
    """The start `ward:SEED`: the cheapest pair of cells is merged, again and again."""
    n, d = x.shape
    w = np.ones(n, dtype=np.int64) if weights is None else weights
    seeds = x[rows_of(x, min(n, 3 * k), seed, weights)]
    distances = np.stack([squared_distances(x, c) for c in seeds])
    nearest = distances.argmin(axis=0)
    largest = distances.min(axis=0)[w > 0].max()
    places = 61 - (int(w.sum()) - 1).bit_length() - math.frexp(math.sqrt(largest))[1]
    scale = 2.0**places if largest > 0 else 1.0
    cells = []  # weight, mean, numbers of the cells that it is made of
    for j, c in enumerate(seeds):
        members = np.flatnonzero((nearest == j) & (w > 0))
        if len(members):
            weight = int(w[members].sum())
            differences = x[members].astype(np.float64) - c.astype(np.float64)
            sums = [
                sum(
                    int(v) * int(u)
                    for v, u in zip(np.rint(column * scale), w[members], strict=True)
                )
                for column in differences.T
            ]
            mean = c.astype(np.float64) + np.array(sums, dtype=np.float64) / weight / scale
            cells.append((weight, mean, [len(cells)]))
    if len(cells) < k:
        return x[rows_of(x, k, seed, weights)]
    made = list(cells)
    while len(made) > k:
        a, b = min(itertools.combinations(range(len(made)), 2), key=lambda pair: cost(made, *pair))
        weight = made[a][0] + made[b][0]
        mean = (made[a][0] * made[a][1] + made[b][0] * made[b][1]) / weight
        made[a] = (weight, mean, sorted(made[a][2] + made[b][2]))
        del made[b]
    centroids = []
    for _, _, members in sorted(made, key=lambda cluster: cluster[2][0]):
        total, weight = np.zeros(d), 0.0
        for member in members:
            total = total + cells[member][0] * cells[member][1]
            weight += cells[member][0]
        centroids.append(total / weight)
    return np.array(centroids).astype(np.float32)


def cost(clusters: list, a: int, b: int) -> float:
    """Of merging two clusters."""
    (weight, mean, _), (its, other, _) = clusters[a], clusters[b]
    squared = 0.0
    for difference in mean - other:
        squared += difference * difference
    return weight * its / (weight + its) * squared


def test_the_default_start_is_that_of_its_definition() -> None:
    package = _package()
    random = np.random.default_rng(6)
    for number in range(12):
        n, d, k = int(random.integers(2, 160)), int(random.integers(1, 6)), 1 + number
        x = random.normal(size=(n, d)) + 7 * random.integers(0, 3, size=(n, 1))
        x = x.astype(np.float32)
        weights = random.integers(0, 9, size=n) if number % 2 else None
        start = package.ward_start(x, min(k, n), number, weights=weights)
        assert np.array_equal(start, ward_of(x, min(k, n), number, weights)), (n, d, k)


def test_the_estimator_begins_with_the_default_start() -> None:
    package = _package()
    x = np.random.default_rng(8).normal(size=(4000, 3)).astype(np.float32)
    fitted = package.KMeans(6, random_state=3).fit(x)
    run = package.lloyd(x, package.ward_start(x, 6, 3), tol=1e-4)
    assert np.array_equal(fitted.cluster_centers_, run.centroids)
    plain = package.KMeans(6, init="k-means++", random_state=3).fit(x)
    run = package.lloyd(x, package.kmeans_plusplus(x, 6, 3), tol=1e-4)
    assert np.array_equal(plain.cluster_centers_, run.centroids)
    with pytest.raises(ValueError, match="must be 'ward', 'k-means\\+\\+', 'random', an array"):
        package.KMeans(6, init="k-means").fit(x)


@pytest.mark.parametrize(
    "planted", ["halves swapped", "dart 1 left out", "rows reversed", "all hit"]
)
def test_planted_errors_are_found(planted: str) -> None:
    wrong = sum(
        rows_of(x, k, seed, weights, planted) != rows_of(x, k, seed, weights)
        for x, k, seed, weights in problems()
    )
    assert wrong >= 10


def test_threads_and_the_command_line_choose_the_same(tmp_path: Path) -> None:
    package = _package()
    if PROGRAM is None:
        pytest.skip("KMEANS_BENCH names no program")
    random = np.random.default_rng(4)
    x = random.normal(size=(30000, 6)).astype(np.float32)
    right = package.kmeans_plusplus(x, 300, 9)
    for threads in (1, 2, 7):
        assert np.array_equal(package.kmeans_plusplus(x, 300, 9, threads=threads), right)
    np.save(tmp_path / "points.npy", x)
    np.save(tmp_path / "wide.npy", x.astype(np.float64))
    for name, precision in (("points", "f32"), ("wide", "f64")):
        words = ["fit", tmp_path / f"{name}.npy", "-k", 300, "--init", "kmeans++:9"]
        words += ["--variant", "cpu_naive", "--precision", precision, "--iterations", 1]
        words += ["--out", tmp_path / precision, "--quiet"]
        subprocess.run([PROGRAM, *map(str, words)], check=True, capture_output=True)
    # One iteration from the same seeds leads to the same labels.
    labels = [np.load(tmp_path / precision / "labels.npy") for precision in ("f32", "f64")]
    nearest = package.nearest(x, right)
    assert np.array_equal(labels[1], nearest)
    assert np.mean(labels[0] != nearest) < 0.001  # cpu_naive rounds to float32


def test_a_row_without_weight_is_no_seed_while_others_are_left() -> None:
    package = _package()
    x = np.eye(3, dtype=np.float32)
    seeds = package.kmeans_plusplus(x, 2, weights=np.array([1, 0, 1]))
    assert sorted(map(tuple, seeds)) == [(0, 0, 1), (1, 0, 0)]
