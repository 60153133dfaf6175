#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole calls of kmeans_exact next to scikit-learn's, in turns: same points, threads and seeds.

    library/compare_with_sklearn.py [--parts fits ...] [--sets digits ...] [--seeds 5] [--turns 1]
        [--threads N] [--json FILE]

fits: both estimators at their defaults, to convergence, on ten sets of points. iterations: from the
same rows, a few iterations. small: fits of few points. memory: the most that a fit has resident.

Times are medians over the seeds, of the quickest of each seed's turns. Inertias are computed here,
in float64, from the centroids and labels returned.
Takes the installed package, or that of the build folder on PYTHONPATH (build/library/python).
GloVe needs the package of requirements-data.txt; without it the set is left out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

PARTS = ("fits", "iterations", "small", "memory")
LIBRARIES = ("kmeans_exact", "sklearn")
#: n, d, k, iterations
FROM_ROWS = [
    (200_000, 32, 64, 2),
    (500_000, 3, 10, 10),
    (200_000, 32, 64, 10),
    (100_000, 128, 256, 10),
    (300_000, 8, 40, 10),
    (50_000, 64, 1000, 10),
]
SMALL = [(100, 2, 3), (1_000, 2, 8), (1_000, 32, 10), (5_000, 8, 20), (9_000, 16, 50)]
MEMORY = [(4_000_000, 3, 10), (1_000_000, 16, 40), (500_000, 64, 64)]
PAUSE = 0.1  # seconds: threads of the call before may still wait for work

Answer = tuple[np.ndarray, np.ndarray, int]  # centroids, labels, iterations


def mixture(
    centres: np.ndarray, n: int, *, shares: np.ndarray | None = None, sigma: float = 1
) -> np.ndarray:
    """n points about these centres."""
    random = np.random.default_rng(1)
    points = centres[random.choice(len(centres), size=n, p=shares)]
    return points + sigma * random.normal(size=points.shape)


def uniform(k: int, d: int, low: float, high: float) -> np.ndarray:
    return np.random.default_rng(2).uniform(low, high, (k, d))


def imbalanced() -> np.ndarray:
    """Each cluster half the size of the one before, the last two the same."""
    shares = 0.5 ** np.minimum(np.arange(1, 13), 11)
    return mixture(uniform(12, 16, -100, 100), 100_000, shares=shares)


def embedding() -> np.ndarray:
    """Clusters at two scales, of variances 1, 1/2, 1/3, ... in directions of their own."""
    random = np.random.default_rng(3)
    parents = random.normal(size=(10, 64))
    centres = parents[random.integers(10, size=100)] + random.normal(size=(100, 64)) / 2
    rotation, _ = np.linalg.qr(random.normal(size=(64, 64)))
    points = mixture(centres, 50_000, sigma=0.5)
    return points / np.sqrt(np.arange(1, 65)) @ rotation


def photograph() -> np.ndarray:
    from sklearn.datasets import load_sample_image

    return load_sample_image("china.jpg").reshape(-1, 3)


def digits() -> np.ndarray:
    from sklearn.datasets import load_digits

    return load_digits().data


def words() -> np.ndarray:
    """The vectors of the 100 000 most frequent words of GloVe."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "datasets"))
    import read_from_package

    try:
        return read_from_package.glove()[:100_000]
    except read_from_package.Absent as error:
        raise ModuleNotFoundError(str(error)) from error


def clusters() -> np.ndarray:
    return mixture(uniform(64, 32, -10, 10), 100_000)


#: k, and what makes the points.
SETS: dict[str, tuple[int, Callable[[], np.ndarray]]] = {
    "clusters": (64, clusters),
    "k-below-clusters": (40, clusters),
    "k-above-clusters": (100, clusters),
    "apart": (200, lambda: mixture(uniform(200, 8, 0, 20_000), 60_000, sigma=10)),
    "imbalanced": (16, imbalanced),
    "photograph": (64, photograph),
    "words": (100, words),
    "digits": (40, digits),
    "normal": (256, lambda: np.random.default_rng(1).normal(size=(50_000, 16))),
    "embedding": (100, embedding),
}


def inertia(points: np.ndarray, answer: Answer) -> float:
    centroids, labels, _ = answer
    total = 0.0
    for begin in range(0, len(points), 65536):
        part = slice(begin, begin + 65536)
        total += np.square(points[part] - centroids[labels[part]].astype(np.float64)).sum()
    return total


def fit(library: str, points: np.ndarray, k: int, threads: int, **options: object) -> Answer:
    """By this library's estimator."""
    if library == "sklearn":
        from sklearn.cluster import KMeans
        from threadpoolctl import threadpool_limits

        with threadpool_limits(threads):
            model = KMeans(k, **{"n_init": 1} | options).fit(points)
    else:
        from kmeans_exact import KMeans

        model = KMeans(k, n_threads=threads, **options).fit(points)
    return model.cluster_centers_, model.labels_, model.n_iter_


def timed(call: Callable[[], Answer]) -> tuple[float, Answer]:
    time.sleep(PAUSE)
    begin = time.perf_counter()
    answer = call()
    return time.perf_counter() - begin, answer


def in_turns(calls: dict[str, Callable[[int], Answer]], seeds: int, turns: int) -> dict[str, list]:
    """Seconds and answers of each, for seeds 1, 2, ...; who begins changes."""
    seen: dict[str, list] = {name: [] for name in calls}
    for seed in range(1, seeds + 1):
        of_seed: dict[str, list] = {name: [] for name in calls}
        for turn in range(turns):
            for name in list(calls)[:: 1 if (seed + turn) % 2 else -1]:
                of_seed[name].append(timed(lambda name=name, seed=seed: calls[name](seed)))
        for name, several in of_seed.items():
            seen[name].append(min(several, key=lambda one: one[0]))
    return seen


def row_of(name: str, points: np.ndarray, k: int, seen: dict[str, list]) -> dict:
    row: dict = {"name": name, "n": len(points), "d": points.shape[1], "k": k}
    for library, runs in seen.items():
        row[library] = {
            "seconds": [seconds for seconds, _ in runs],
            "inertia": [inertia(points, answer) for _, answer in runs],
            "iterations": [int(answer[2]) for _, answer in runs],
        }

    def middle(library: str, what: str) -> float:
        return statistics.median(row[library][what])

    row["ratio"] = middle("sklearn", "seconds") / middle("kmeans_exact", "seconds")
    row["inertia_ratio"] = middle("kmeans_exact", "inertia") / middle("sklearn", "inertia")
    both = [f"{middle(x, 'seconds') * 1e3:10.2f}{middle(x, 'iterations'):5g}" for x in LIBRARIES]
    print(
        f"{name:18}{row['n']:8}{row['d']:4}{k:5}{both[0]}{both[1]}"
        f"{row['ratio']:7.2f}{row['inertia_ratio']:9.4f}",
        flush=True,
    )
    return row


def heading(what: str) -> None:
    print(f"\n{what}")
    print(
        f"{'':18}{'n':>8}{'d':>4}{'k':>5}{'ours, ms':>10}{'iter':>5}{'sklearn':>10}{'iter':>5}"
        f"{'ratio':>7}{'inertia':>9}"
    )


def summary(rows: list[dict]) -> None:
    ratios = [row["ratio"] for row in rows]
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    least = min(rows, key=lambda row: row["ratio"])
    most = max(row["inertia_ratio"] for row in rows)
    print(
        f"geometric mean {mean:.2f} times, least {least['ratio']:.2f} ({least['name']}); "
        f"highest inertia ratio {most:.4f}"
    )


def estimators(points: np.ndarray, k: int, threads: int) -> dict[str, Callable[[int], Answer]]:
    def of(library: str) -> Callable[[int], Answer]:
        return lambda seed: fit(library, points, k, threads, random_state=seed)

    return {library: of(library) for library in LIBRARIES}


def fits(options: argparse.Namespace) -> list[dict]:
    heading("Fits to convergence, defaults")
    rows = []
    for name in options.sets:
        k, make = SETS[name]
        try:
            points = np.ascontiguousarray(make(), dtype=np.float32)
        except ModuleNotFoundError as error:
            print(f"{name} is left out: {error}")
            continue
        calls = estimators(points, k, options.threads)
        rows.append(row_of(name, points, k, in_turns(calls, options.seeds, options.turns)))
    summary(rows)
    return rows


def blobs(n: int, d: int, k: int) -> np.ndarray:
    """A mixture of k clusters that overlap."""
    return mixture(uniform(k, d, -1.75, 1.75), n).astype(np.float32)


def small(options: argparse.Namespace) -> list[dict]:
    heading("Fits of few points, defaults")
    rows = []
    for n, d, k in SMALL:
        points = blobs(n, d, k)
        calls = estimators(points, k, options.threads)
        rows.append(row_of("", points, k, in_turns(calls, 5 * options.seeds, options.turns)))
    summary(rows)
    return rows


def iterations(options: argparse.Namespace) -> list[dict]:
    heading("From the same rows, so many iterations")
    rows = []
    for n, d, k, most in FROM_ROWS:
        points = blobs(n, d, k)
        start = {"init": points[:k].copy(), "max_iter": most, "tol": 0}

        def of(library: str, points=points, k=k, start=start) -> Callable[[int], Answer]:
            return lambda _: fit(library, points, k, options.threads, **start)

        calls = {library: of(library) for library in LIBRARIES}
        rows.append(row_of("", points, k, in_turns(calls, options.seeds, options.turns)))
    summary(rows)
    return rows


def _field(name: str) -> int:
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name)) * 1024


def print_peak(library: str, n: int, d: int, k: int, threads: int) -> None:
    """Of a fit in this process, the points included, over the points."""
    fit(library, blobs(1000, 2, 3), 3, threads)  # imports
    points = np.empty((n, d), dtype=np.float32)
    for begin in range(0, n, 10_000):
        points[begin : begin + 10_000] = blobs(min(10_000, n - begin), d, k)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the highest is that of now
    before = _field("VmRSS")
    fit(library, points, k, threads, random_state=1, max_iter=20)
    print(1 + (_field("VmHWM") - before) / points.nbytes)


def memory(options: argparse.Namespace) -> list[dict]:
    print("\nHost memory at the peak of a fit, over the points, themselves included")
    rows = []
    for shape in MEMORY:
        row: dict = dict(zip("ndk", shape, strict=True))
        for library in LIBRARIES:
            words = [library, *map(str, (*shape, options.threads))]
            command = [sys.executable, __file__, "--peak", *words]
            run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            row[library] = float(run.stdout)
        rows.append(row)
        sizes = f"{row['n']:8}{row['d']:4}{row['k']:5}"
        print(f"{'':18}{sizes}{row['kmeans_exact']:10.2f}{row['sklearn']:15.2f}", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="kmeans_exact next to scikit-learn")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--peak", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="sklearn")  # that it has not converged
    if options.peak:
        library, *sizes = options.peak
        print_peak(library, *map(int, sizes))
        return
    import kmeans_exact
    import sklearn

    print(
        f"{options.threads} threads, {options.seeds} seeds, {options.turns} turns; "
        f"scikit-learn {sklearn.__version__}, "
        f"kmeans_exact {kmeans_exact.__version__} ({kmeans_exact.instructions()})"
    )
    for library in LIBRARIES:
        fit(library, blobs(1000, 2, 3), 3, options.threads)  # starts the threads
    does = {"fits": fits, "iterations": iterations, "small": small, "memory": memory}
    rows = {part: does[part](options) for part in options.parts}
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
