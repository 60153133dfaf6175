# SPDX-License-Identifier: Apache-2.0
"""Comparisons of synthetic results, as the program writes them."""

from __future__ import annotations

import contextlib
import json
import math
import random
from pathlib import Path

import synthetic
from synthetic import Json

from tests.support import kmeans_bench


def changed(results: list[Json], seed: int = 1) -> list[Json]:
    """The same results again, of another commit: most cells as before, some faster or slower by up
    to half."""
    rng = random.Random(seed)
    copies = json.loads(json.dumps(results))
    for result in copies:
        result["context"]["suite"]["git_commit"] = "89abcde" + "0" * 33
        for cell in result["cells"]:
            factor = rng.choice([1.0] * 6 + [0.7, 0.85, 1.12, 1.3]) * math.exp(rng.gauss(0, 0.008))
            if cell["seconds_per_iteration"]:
                samples = cell["samples_seconds_per_iteration"]
                synthetic.resample(cell, [[v * factor for v in s] for s in samples])
    return copies


def of_more_processes(results: list[Json]) -> list[Json]:
    """With enough of them for an interval of each ratio, except where each took one sample."""
    for cell in (cell for result in results for cell in result["cells"]):
        samples = cell["samples_seconds_per_iteration"]
        if samples and len(samples[0]) > 1:
            synthetic.resample(cell, 3 * samples)
    return results


def compare(folder: Path, base: list[Json], new: list[Json]) -> Path:
    """Two machines and their comparison, where `make compare` puts it."""
    for name, results in (("a", base), ("b", new)):
        for result in results:
            synthetic.write(folder / name, result)
    path = folder / "b" / "compare-a" / "comparison.json"
    path.parent.mkdir()
    with contextlib.chdir(folder):  # the sides are called as they are named here
        kmeans_bench("compare", "a", "b", "--geometric-mean", "--json", path)
    return path
