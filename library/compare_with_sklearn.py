#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole calls of kmeans_exact.lloyd next to scikit-learn's fit: same points, start and iterations.

    library/compare_with_sklearn.py [--runs 3] [--iterations 10] [--threads N] [--json FILE]

Takes the installed package, or that of the build folder on PYTHONPATH (build/library/python).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import kmeans_exact
import numpy as np
import sklearn
import threadpoolctl
from sklearn.cluster import KMeans

SHAPES = [
    (500_000, 3, 10),
    (200_000, 32, 64),
    (100_000, 128, 256),
    (300_000, 8, 40),
    (50_000, 64, 1000),
]


def blobs(n: int, d: int, k: int) -> np.ndarray:
    """A mixture of k overlapping clusters."""
    random = np.random.default_rng(1)
    centres = random.uniform(-1.75, 1.75, (k, d))
    points = centres[random.integers(k, size=n)] + random.normal(size=(n, d))
    return points.astype(np.float32)


def timed(call: Callable[[], int]) -> tuple[float, int]:
    """Seconds, and the iterations that the call ran."""
    begin = time.perf_counter()
    iterations = call()
    return time.perf_counter() - begin, iterations


def main() -> None:
    parser = argparse.ArgumentParser(description="kmeans_exact next to scikit-learn")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="sklearn")  # that it has not converged
    print(
        f"at most {options.iterations} iterations, {options.threads} threads, "
        f"median of {options.runs} runs in turns; scikit-learn {sklearn.__version__}, "
        f"kmeans_exact {kmeans_exact.__version__} ({kmeans_exact.instructions()})"
    )
    rows = []
    for n, d, k in SHAPES:
        points = blobs(n, d, k)
        init = points[:k].copy()

        def exact(iterations: int, points=points, init=init) -> int:
            return kmeans_exact.lloyd(
                points, init, iterations=iterations, stop=None, threads=options.threads
            ).iterations

        def peer(points=points, init=init, k=k) -> int:
            model = KMeans(
                k, init=init, n_init=1, max_iter=options.iterations, tol=0, algorithm="lloyd"
            )
            return model.fit(points).n_iter_

        times: dict[str, list[float]] = {"exact": [], "sklearn": []}
        with threadpoolctl.threadpool_limits(options.threads):
            for _ in range(options.runs):
                # It stops where no label changes; then ours runs no more either.
                seconds, iterations = timed(peer)
                times["sklearn"].append(seconds)
                times["exact"].append(timed(partial(exact, iterations))[0])
        ours, theirs = statistics.median(times["exact"]), statistics.median(times["sklearn"])
        row = {"n": n, "d": d, "k": k, "iterations": iterations}
        rows.append({**row, "seconds": times, "ratio": theirs / ours})
        print(
            f"n = {n:7}, d = {d:3}, k = {k:4}, {iterations} iterations: kmeans_exact {ours:.3f} s, "
            f"scikit-learn {theirs:.3f} s, {theirs / ours:.1f} times",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
