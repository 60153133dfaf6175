# SPDX-License-Identifier: Apache-2.0
"""Formulas over cells and ceilings; docs/metrics.md explains each."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from plots import work
from plots.load import Cell, Interval, Result, median_interval
from plots.select import NothingToDraw

SCALAR_BYTES = {"f64": 8}  # all other precisions read float32 points
WHOLE_CALLS = (1, 20, 300)  # iterations of the calls that files hold
# A value of fewer samples (of a trace: whole runs, of a stage: processes) decides no claim, since
# nothing says how far from it the next one would lie.
FEWEST_SAMPLES = 2


def scalar_bytes(precision: str) -> int:
    return SCALAR_BYTES.get(precision, 4)


def compulsory_bytes(cell: Cell) -> float:
    """Points read once, labels written once, centroids read and written once."""
    return float(work.of(work.compulsory(scalar_bytes(cell.precision)), *cell.shape))


def operations(cell: Cell) -> float:
    """The operation model of an iteration: nk(3d+2) + d(n+k)."""
    return float(work.of(work.OPERATIONS, *cell.shape))


def ceilings(result: Result) -> dict[str, Any]:
    return result.context.get("ceilings") or {}


def gpu_ceilings(result: Result) -> dict[str, Any]:
    """What the GPU was measured to do; empty where none was."""
    return ceilings(result).get("gpu") or {}


def gpu_l2_bytes(result: Result) -> int | None:
    """Size of the GPU's L2 cache: its bandwidth is measured on an array of half its size."""
    sizes = (gpu_ceilings(result).get("details") or {}).get("bytes") or {}
    return 2 * sizes["l2"] if sizes.get("l2") else None


def setup_seconds(cell: Cell) -> float | None:
    """Once a call, before its iterations; None where there is no time."""
    return cell.data.get("setup_seconds") if cell.ok else None


NO_CALL = (
    "a Python library's setup includes the interpreter's start and imports, which a program pays "
    "once and not in every call"
)


def call_setup_seconds(cell: Cell) -> float | None:
    """The setup of a whole call; None also of Python libraries (NO_CALL says why)."""
    return None if cell.backend == "python" else setup_seconds(cell)


def whole_call(cell: Cell, iterations: int) -> Interval | None:
    """Setup and so many iterations; the interval is that of the iterations alone."""
    setup, times = call_setup_seconds(cell), cell.seconds
    if setup is None or times is None:
        return None
    mid, low, high = (setup + iterations * end for end in (times.mid, times.low, times.high))
    return Interval(mid, low, high, times.confident)


def whole_call_seconds(cell: Cell, iterations: int) -> float | None:
    """Setup and so many iterations at the median."""
    call = whole_call(cell, iterations)
    return None if call is None else call.mid


def speedup(baseline: Cell, cell: Cell) -> Interval | None:
    """Ratio of medians; the interval is that of the two ends, so it is on the safe side."""
    base, own = baseline.seconds, cell.seconds
    return None if base is None or own is None else base.over(own)


def is_unsure(ratio: Interval) -> bool:
    """May a ratio of two times as well be 1? Not asked of a time over itself."""
    return ratio.low <= 1.0 <= ratio.high and ratio.low < ratio.high and ratio.mid != 1.0


def scaled_rate(cell: Cell, rate: float | None) -> Interval | None:
    """A rate at the median time, with the interval that the time's interval gives."""
    if rate is None or cell.seconds is None or min(cell.seconds.low, cell.seconds.high) <= 0:
        return None
    times = cell.seconds
    return Interval(
        rate, rate * times.mid / times.high, rate * times.mid / times.low, times.confident
    )


def ceiling_at(result: Result, path: str) -> float | None:
    """A ceiling by its place among them: "gpu.host_to_device_gbytes_per_second.pinned"."""
    found: Any = ceilings(result)
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    number = isinstance(found, int | float) and not isinstance(found, bool)
    return float(found) if number else None


# --- Of many values --------------------------------------------------------------------------

AGGREGATES: dict[str, Callable[[Iterable[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "smallest": min,
    "largest": max,
}


def aggregate(of: str, numbers: Sequence[Interval]) -> Interval:
    """All four grow with every number, so the ends' aggregates bound the aggregate."""
    rule = AGGREGATES[of]
    return Interval(
        rule([n.mid for n in numbers]),
        rule([n.low for n in numbers]),
        rule([n.high for n in numbers]),
        all(n.confident for n in numbers),
    )


# --- Stages of an iteration ------------------------------------------------------------------

Stages = str | Sequence[str]  # one, or several whose times and work are added


def _names(stages: Stages) -> list[str]:
    return [stages] if isinstance(stages, str) else list(stages)


def stage_profiles(cell: Cell) -> list[dict[str, float]]:
    """Seconds per iteration by stage, of each process; files of earlier versions have one alone.
    None of an unsteady cell: processes that disagree in the whole have no one time of a part."""
    if not cell.ok:
        return []
    found = cell.data.get("stage_samples_seconds_per_iteration") or {}
    if not found or len({len(samples) for samples in found.values()}) > 1:
        medians = cell.data.get("stages") or {}
        return [medians] if medians else []
    return [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]


def stage_seconds(cell: Cell, stages: Stages) -> Interval | None:
    """Per iteration; None where the variant marks none of them. Of several, those that it marks:
    variants name and divide their stages differently."""
    profiles = stage_profiles(cell)
    names = _names(stages)
    if not any(name in profile for profile in profiles for name in names):
        return None
    return median_interval([sum(p.get(name, 0.0) for name in names) for p in profiles])


def stage_share(cell: Cell, stages: Stages) -> Interval | None:
    """Of the sum of all stages, formed for each process; None where one of the stages is not
    marked, since nothing says what it took."""
    profiles = [p for p in stage_profiles(cell) if sum(p.values()) > 0]
    names = _names(stages)
    if not profiles or any(name not in profile for profile in profiles for name in names):
        return None
    return median_interval([sum(p[name] for name in names) / sum(p.values()) for p in profiles])


SETUP = "setup"  # named like a stage where parts of a whole call are asked for


def call_share(cell: Cell, parts: Stages, iterations: int) -> Interval | None:
    """What setup, stages, or both take of a whole call: a stage has its share of the iterations."""
    setup, times = call_setup_seconds(cell), cell.seconds
    stages = [name for name in _names(parts) if name != SETUP]
    share = stage_share(cell, stages) if stages else Interval(0.0, 0.0, 0.0, True)
    if setup is None or times is None or share is None:
        return None
    first = setup if SETUP in _names(parts) else 0.0

    def at(part: float, step: float) -> float:
        return (first + part * iterations * step) / (setup + iterations * step)

    ends = [at(x, t) for x in (share.low, share.high) for t in (times.low, times.high)]
    confident = share.confident and times.confident
    return Interval(at(share.mid, times.mid), min(ends), max(ends), confident)


def stage_speedup(baseline: Cell, cell: Cell, stages: Stages) -> Interval | None:
    base, own = stage_seconds(baseline, stages), stage_seconds(cell, stages)
    return None if base is None or own is None else base.over(own)


def _stage_work(cell: Cell, stages: Stages) -> list[dict[str, Any]] | None:
    """The declared work of the stages that the cell has; None if one of them declares none."""
    timed = {name for profile in stage_profiles(cell) for name in profile}
    declared = cell.data.get("stage_work") or {}
    wanted = [name for name in _names(stages) if name in timed or name in declared]
    if not wanted or any(name not in declared or name not in timed for name in wanted):
        return None
    return [declared[name] for name in wanted]


def stage_rate(cell: Cell, stages: Stages, work: str) -> Interval | None:
    """10^9 "operations" or "bytes_as_written" per second of the stages' own time."""
    declared, seconds = _stage_work(cell, stages), stage_seconds(cell, stages)
    if declared is None or seconds is None or min(seconds.low, seconds.mid) <= 0:
        return None
    amount = sum(stage[work] for stage in declared) / 1e9
    return Interval(
        amount / seconds.mid, amount / seconds.high, amount / seconds.low, seconds.confident
    )


def stage_on_gpu(cell: Cell, stages: Stages) -> bool | None:
    """Where the stages run; None if that is not declared, or not one place."""
    places = {bool(stage["gpu"]) for stage in _stage_work(cell, stages) or []}
    return places.pop() if len(places) == 1 else None


def bandwidth_ceiling(cell: Cell, on_gpu: bool) -> float | None:
    """Measured read bandwidth in GB/s of memory, or of the cache that the points fit into."""
    return cell.rates.get("gpu" if on_gpu else "cpu", [None, None])[0]


def multiply_add_ceiling(cell: Cell, on_gpu: bool) -> float | None:
    """Measured multiply-add rate in GFLOP/s of the cell's precision, without matrix units."""
    return cell.rates.get("gpu" if on_gpu else "cpu", [None, None])[1]


# --- Traces ----------------------------------------------------------------------------------


def trace_runs(trace: dict[str, Any]) -> list[float]:
    """Seconds of its whole runs: those that were timed again, warm, in all processes; otherwise the
    recorded one, which was cold. None of a trace that is not ok."""
    if trace.get("status") != "ok":
        return []
    runs = [seconds for process in trace.get("runs_seconds") or [] for seconds in process]
    each, steps = trace.get("seconds_per_iteration"), len(trace.get("iterations") or [])
    return runs or ([each * steps] if each and steps else [])


def trace_seconds(trace: dict[str, Any]) -> Interval | None:
    """Of a whole run."""
    runs = trace_runs(trace)
    return median_interval(runs) if runs else None


def baseline_of(result: Result, figure: dict[str, Any]) -> dict[str, Any] | str:
    """The figure's baseline, or else the experiment's; raises NothingToDraw."""
    baseline = figure.get("baseline") or result.spec.get("baseline")
    if not baseline:
        raise NothingToDraw("neither the figure nor the experiment names a baseline")
    return baseline


def named(cells: Iterable[Cell], name: dict[str, Any] | str) -> list[Cell]:
    """The cells of a variant as experiments name it: a name, or {variant, precision, threads,
    ranks, gpus}; without ranks or gpus, one."""
    wanted = {"variant": name} if isinstance(name, str) else name
    found = [
        c
        for c in cells
        if c.variant == wanted["variant"]
        and wanted.get("precision", c.precision) == c.precision
        and wanted.get("threads", c.threads) == c.threads
        and wanted.get("ranks", 1) == c.ranks
        and wanted.get("gpus", 1) == c.gpus
    ]
    if "precision" not in wanted and any(c.precision == "f32" for c in found):
        return [c for c in found if c.precision == "f32"]
    return found
