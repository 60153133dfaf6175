#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole calls of kmeans_exact.lloyd on a GPU, from an array of the host to labels there.

    library/compare_on_gpu.py [--runs 5] [--iterations 20] [--json FILE]

Next to each time: what the points need on the link at the rate of page-locked memory, what the
iterations alone need (those after the first: a run of one more less a run of one, on kept points),
and FlashLib from the same array and start, where it is installed. Then the same from points in the
GPU's memory to answers there. Goals: 1.3 (link + iterations) + 1 ms, and there 1.3 iterations +
0.5 ms. Takes the installed package, or that of the build folder on
PYTHONPATH (build/library/python). PyTorch measures the link.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import kmeans_exact
import numpy as np
import torch

SHAPES = [
    (100_000, 2, 5),
    (500_000, 3, 10),
    (500_000, 3, 1_000),
    (1_048_576, 32, 256),
    (1_000_000, 100, 4),
    (500_000, 200, 128),
    (1_048_576, 128, 1_024),
    (1_048_576, 128, 8_192),
    (4_000_000, 64, 512),
]


def median_seconds(call: Callable[[], object], runs: int) -> tuple[float, float]:
    """Of the later calls; and of the first."""
    seconds = []
    for _ in range(runs + 1):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[1:]), seconds[0]


def link_rate() -> float:
    """Bytes per second from page-locked memory to the GPU."""
    host = torch.empty(1 << 28, dtype=torch.uint8, pin_memory=True)
    device = torch.empty_like(host, device="cuda")

    def copy() -> None:
        device.copy_(host, non_blocking=True)
        torch.cuda.synchronize()

    return host.numel() / median_seconds(copy, 7)[0]


def flashlib_calls(
    points: np.ndarray, init: np.ndarray, iterations: int
) -> tuple[Callable[[], object], Callable[[], object]]:
    """From the host to the host; and on the GPU."""
    from flashlib.primitives import kmeans

    def run(rows: torch.Tensor, start: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        labels, centroids, _ = kmeans.flash_kmeans(
            rows, len(init), max_iters=iterations, tol=0.0, init_centroids=start, backend="triton"
        )
        return labels, centroids

    def from_host() -> object:
        labels, centroids = run(torch.from_numpy(points).cuda()[None], _on_gpu(init)[None])
        return labels.cpu().numpy(), centroids.cpu().numpy()

    rows, start = _on_gpu(points)[None], _on_gpu(init)[None]

    def there() -> object:
        answer = run(rows, start)
        torch.cuda.synchronize()
        return answer

    return from_host, there


def _on_gpu(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(array).cuda()


def _columns(row: dict) -> list[tuple[float | None, int]]:
    """Seconds, and how wide they are shown."""
    keys = ("first", "call", "link", "iterate", "goal", "flashlib", "there", "goal_there")
    return [(row.get(key), 8 if "flashlib" in key else 7) for key in (*keys, "flashlib_there")]


def _milliseconds(column: tuple[float | None, int]) -> str:
    seconds, width = column
    return f"{'-':>{width}}" if seconds is None else f"{1e3 * seconds:{width}.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description="kmeans_exact's calls on a GPU")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rate = link_rate()
    has_flashlib = importlib.util.find_spec("flashlib") is not None
    print(
        f"{options.iterations} iterations, median of {options.runs} later calls, ms; "
        f"{torch.cuda.get_device_name()}, link {rate / 1e9:.1f} GB/s"
    )
    print(
        f"{'n':>9} {'d':>4} {'k':>6} {'first':>7} {'call':>7} {'link':>7} {'iterate':>7} "
        f"{'goal':>7} {'FlashLib':>8} "
        f"{'there':>7} {'goal t.':>7} {'Flash t.':>8}"
    )
    rows = []
    for n, d, k in SHAPES:
        points = np.random.default_rng(1).standard_normal((n, d), dtype=np.float32)
        init = points[:k].copy()

        def ours(points=points, init=init) -> object:
            return kmeans_exact.lloyd(
                points, init, iterations=options.iterations, stop=None, device="gpu"
            )

        call, first = median_seconds(ours, options.runs)
        kept = kmeans_exact.Points(points, device="gpu")

        def run(iterations: int, kept=kept, init=init) -> float:
            return median_seconds(
                lambda: kept.lloyd(init, iterations=iterations, stop=None), options.runs
            )[0]

        once = run(options.iterations)
        link, iterate = points.nbytes / rate, run(options.iterations + 1) - run(1)
        del kept, run
        row = {
            "n": n, "d": d, "k": k, "first": first, "call": call, "link": link,
            "iterate": iterate, "goal": 1.3 * (link + iterate) + 1e-3, "kept": once,
        }  # fmt: skip
        rows_there, init_there = _on_gpu(points), _on_gpu(init)

        def ours_there(rows_there=rows_there, init_there=init_there) -> object:
            return kmeans_exact.lloyd(
                rows_there, init_there, iterations=options.iterations, stop=None, answers="gpu"
            )

        row["there"] = median_seconds(ours_there, options.runs)[0]
        row["goal_there"] = 1.3 * iterate + 0.5e-3
        del rows_there, init_there
        if has_flashlib:
            calls = flashlib_calls(points, init, options.iterations)
            row["flashlib"], row["flashlib_there"] = (
                median_seconds(one, options.runs)[0] for one in calls
            )
            del calls
        rows.append(row)
        print(f"{n:9} {d:4} {k:6} " + " ".join(map(_milliseconds, _columns(row))), flush=True)
    for ours_key, theirs_key in (("call", "flashlib"), ("there", "flashlib_there")):
        if not has_flashlib:
            break
        ratios = [row[theirs_key] / row[ours_key] for row in rows]
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"{theirs_key} / {ours_key}: geometric mean {mean:.2f}, least {min(ratios):.2f}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
