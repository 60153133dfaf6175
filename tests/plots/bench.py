# SPDX-License-Identifier: Apache-2.0
"""Results of a few cells whose numbers a test sets, and the verdict of a claim on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import synthetic
from synthetic import Json

from plots.claims import Verdict, verdict_of
from plots.load import Result, load_result
from plots.words import TIMES

FASTER = {"quantity": "speedup", "variant": "openmp_b", "baseline": "cpu_a"}
GRID = [(n, d, k) for n in (100, 1000) for d in (2, 20) for k in (2, 8, 32)]


def make_cell(
    variant: str,
    shape: tuple[int, int, int],
    seconds: float,
    spread: float = 0.01,
    **changes: Any,
) -> Json:
    cell = synthetic.cell("small", variant, "f32", shape, 10)
    synthetic.retime(cell, seconds, spread)
    if "stages" in changes:
        cell["stage_samples_seconds_per_iteration"] = synthetic.stage_samples(changes["stages"])
    cell |= changes
    synthetic.agree(cell)
    return cell


def make_single(variant: str, shape: tuple[int, int, int], seconds: float) -> Json:
    """A cell with a single sample, as a long one may have."""
    cell = make_cell(variant, shape, seconds)
    synthetic.resample(cell, [[seconds]])
    return cell


class Bench:
    """Result files made of the test's own cells."""

    def __init__(self, folder: Path, experiment: Json) -> None:
        self.folder, self.experiment = folder, experiment

    def result(self, cells: list[Json], **changes: Any) -> Result:
        data = synthetic.result(self.experiment, cells=cells, planned_cells=len(cells))
        studies = changes.pop("studies", ())
        result = load_result(synthetic.write(self.folder, data | changes))
        if studies:  # as result files of this version hold them
            object.__setattr__(result, "studies", tuple(studies))
        return result

    def ratios(self, ratios: dict[tuple[int, int, int], float], spread: float = 0.01) -> Result:
        """A run in which cpu_a takes a second everywhere and openmp_b is `ratio` times as fast."""
        cells = [make_cell("cpu_a", shape, 1.0, spread) for shape in ratios]
        cells += [make_cell("openmp_b", shape, 1.0 / r, spread) for shape, r in ratios.items()]
        return self.result(cells)


def judge(result: Result, *tests: Json, **claim: Any) -> Verdict:
    record = {"id": "it", "statement": "It is so.", "where": "p. 1", "why": "Because.", **claim}
    verdict = verdict_of(result, record | {"tests": list(tests)})
    return replace(verdict, measured=verdict.measured.replace(TIMES, "x"))


def make_trace(name: str, steps: int, seconds: float, **changes: Any) -> Json:
    wanted = {"name": name, "variant": "cpu_a", "n": 100, "d": 2, "k": 3, "iterations": steps}
    trace = synthetic.trace(wanted, {}, "random:1")
    whole = steps * seconds
    runs = [[0.98 * whole, whole], [whole, 1.02 * whole]]
    return trace | {"seconds_per_iteration": seconds, "runs_seconds": runs} | changes


def make_staged(**changes: Any) -> Json:
    """Three processes; 2 G operations and 4 GB in half a second at the median."""
    samples = {"assign": [0.4, 0.5, 0.8], "update": [0.1, 0.3, 0.2]}
    work = {"assign": {"operations": 2e9, "bytes_as_written": 4e9, "gpu": False}}
    changes = {"stage_samples_seconds_per_iteration": samples, "stage_work": work} | changes
    cell = make_cell("cpu_a", GRID[0], 1.0)
    cell |= {"stages": {"assign": 0.5, "update": 0.2}} | changes
    synthetic.agree(cell)
    return cell
