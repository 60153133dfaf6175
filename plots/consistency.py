# SPDX-License-Identifier: Apache-2.0
"""What a result file says twice must agree: its samples and their statistics, a cell and its key,
complete and the number of cells. harness/record/result_file.cpp refuses the same; here each problem
names its cell."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator
from typing import Any

from plots import work
from plots.steady import headline_median, median_rank

_TOLERANCE = 1e-6  # of numbers that are formed from one another
# A profiling pass adds marks and waits to each iteration, and may be disturbed as any other part:
# a step of a microsecond by a thousand times itself. Yet its stages are not a hundred times as long
# as the slowest whole step, and a tenth of a second.
_STAGES_OVER_STEP = 100.0
_LONGEST_DISTURBANCE = 0.1  # s


def problem(data: dict[str, Any]) -> str | None:
    """The first contradiction of a file that keeps to its schema, with the cell's key."""
    planned, found = data["planned_cells"], len(data["cells"])
    if data["complete"] and found != planned:
        return f"says complete, but holds {found} of {planned} planned cells"
    for cell in data["cells"]:
        for text in _of_cell(cell):
            return f"cell {cell['key']}: {text}"
    for trace in data["traces"]:
        for text in _of_trace(trace):
            return f"trace {trace['name']}: {text}"
    return None


def _of_cell(cell: dict[str, Any]) -> Iterator[str]:
    key = (
        f"{cell['variant']}/{cell['precision']}/{cell['dataset']}/k{cell['k']}"
        f"/T{cell['iterations']}/t{cell['threads']}"
    )
    key += "".join(f"/{name[0]}{cell[name]}" for name in ("ranks", "gpus") if name in cell)
    if cell["key"] != key:
        yield f"the key does not fit the cell's own fields, which make {key}"
    if cell["status"] == "ok":
        yield from _of_times(cell)
        yield from _of_interval(cell)
        yield from _of_stages(cell)
        yield from _of_whole_call(cell)


def _apart(one: float, other: float) -> bool:
    return not math.isclose(one, other, rel_tol=_TOLERANCE)


def _of_times(cell: dict[str, Any]) -> Iterator[str]:
    times = cell["seconds_per_iteration"]
    processes = cell["samples_seconds_per_iteration"]
    samples = [x for process in processes for x in process]
    median = headline_median(processes)
    if _apart(times["median"], median):
        yield f"median {times['median']:g} is not that of the samples, {median:g}"
    for name, expected in (
        ("min", min(samples)),
        ("max", max(samples)),
        ("mean", statistics.fmean(samples)),
    ):
        if _apart(times[name], expected):
            yield f"{name} {times[name]:g} is not that of the samples, {expected:g}"
    for names in (("min", "p25", "p75", "max"), ("min", "ci95_low", "median", "ci95_high", "max")):
        known = [(name, times[name]) for name in names if times[name] is not None]
        for (low, a), (high, b) in itertools.pairwise(known):
            if a > b * (1 + _TOLERANCE):
                yield f"{low} {a:g} is above {high} {b:g}"
    if cell.get("processes") not in (None, len(processes)):
        yield f"{cell['processes']} processes, but samples of {len(processes)}"
    size = 8 if cell["precision"] == "f64" else 4
    for name, stated, done in (
        ("gflops", cell["gflops"], work.OPERATIONS),
        ("gflops_2nkd", cell["gflops_2nkd"], work.MULTIPLY_ADDS),
        (
            "compulsory gbytes_per_second",
            cell["gbytes_per_second"]["compulsory"],
            work.compulsory(size),
        ),
    ):
        rate = work.of(done, cell["n"], cell["d"], cell["k"]) / times["median"] / 1e9
        if stated is not None and _apart(stated, rate):
            yield f"{name} {stated:g}, but the median gives {rate:g}"


def _of_interval(cell: dict[str, Any]) -> Iterator[str]:
    """The interval is that of order statistics; later versions widen it to hold the median."""
    times = cell["seconds_per_iteration"]
    samples = sorted(x for process in cell["samples_seconds_per_iteration"] for x in process)
    rank = median_rank(len(samples))
    for name, at in (("ci95_low", rank - 1), ("ci95_high", -rank)):
        stated = times[name]
        if stated is None:
            continue
        if not rank:
            yield f"{name} {stated:g}, but {len(samples)} samples bound no median"
        elif _apart(stated, samples[at]) and _apart(stated, times["median"]):
            yield f"{name} {stated:g} is not that of the samples, {samples[at]:g}"


def _of_stages(cell: dict[str, Any]) -> Iterator[str]:
    slowest = cell["seconds_per_iteration"]["max"]
    whole = sum((cell.get("stages") or {}).values())
    if whole > _STAGES_OVER_STEP * slowest + _LONGEST_DISTURBANCE:
        yield f"its stages take {whole:g} s, the slowest whole step {slowest:g} s"


def _of_whole_call(cell: dict[str, Any]) -> Iterator[str]:
    setup, median = cell["setup_seconds"], cell["seconds_per_iteration"]["median"]
    if setup is None:
        return
    for steps, value in cell["whole_call_seconds"].items():
        own = setup + int(steps) * median
        if value is not None and _apart(value, own):
            yield f"a call of {steps} iterations of {value:g} s; setup and median give {own:g} s"


def _of_trace(trace: dict[str, Any]) -> Iterator[str]:
    runs = [x for process in trace.get("runs_seconds") or [] for x in process]
    stated = trace["seconds_per_iteration"]
    if not runs or not trace["iterations"]:
        return
    expected = statistics.median(runs) / len(trace["iterations"])
    if stated is None or _apart(stated, expected):
        yield f"{stated} s per iteration, but its runs give {expected:g} s"
