# SPDX-License-Identifier: Apache-2.0
"""The numbers that a source prints, each with what this run measured for the same question."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from plots.load import ROOT, Cell, Interval, Result, read_json
from plots.metrics import named, scaled_rate, speedup
from plots.words import NONE, TIMES, TO, count, digits, factor, many, seconds

PER_ITERATION = ("inertia", "loss")
EXPERIMENTS = ROOT / "experiments"


@cache
def _today(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def described(result: Result, key: str) -> list[dict[str, Any]]:
    """What the experiment says of its source ("claims", "published"): as experiments/ has it today,
    so that all machines answer the same questions, or else as the result file kept it."""
    today = _today(EXPERIMENTS / f"{result.experiment}.json")
    return today.get(key) or result.spec.get(key) or []


@dataclass(frozen=True)
class Comparison:
    """A printed number beside ours; `measured` is None where this run has no counterpart."""

    entry: dict[str, Any]
    measured: float | None
    remark: str  # how ours was formed, or why it is absent
    interval: Interval | None = None  # of `measured`
    text: str | None = None  # instead of one number: ours at several shapes

    @property
    def ratio(self) -> float | None:
        """Published over measured: above 1, ours is smaller."""
        value = self.entry["value"]
        return value / self.measured if self.measured else None

    @property
    def published_text(self) -> str:
        return quantity_text(self.entry["quantity"], self.entry["value"], exact=True)

    @property
    def measured_text(self) -> str:
        if self.measured is None:
            return self.text or NONE
        return quantity_text(self.entry["quantity"], self.measured)

    @property
    def interval_text(self) -> str:
        """The two ends, and whether they are less than a 95 % interval."""
        found = self.interval
        if found is None or found.low == found.high:
            return NONE
        low, high = (quantity_text(self.entry["quantity"], end) for end in (found.low, found.high))
        return f"{low} {TO} {high}" + ("" if found.confident else f" (min{TO}max)")


def quantity_text(quantity: str, value: float, exact: bool = False) -> str:
    if quantity in ("total_seconds", "seconds_per_iteration"):
        return f"{value:.10g} s" if exact else seconds(value)
    if quantity == "speedup":
        return f"{value:g}{TIMES}" if exact else factor(value)
    if quantity == "gbytes_per_second":
        return f"{value:g} GB/s" if exact else f"{digits(value)} GB/s"
    if quantity == "gflops":
        return f"{value:g} GFLOP/s" if exact else f"{digits(value)} GFLOP/s"
    if quantity == "iterations":
        return count(round(value))
    return f"{value:.17g}" if exact else f"{value:.10g}"


def shape_text(entry: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {count(entry[name])}" for name in ("n", "d", "k") if name in entry)


def comparisons(result: Result) -> list[Comparison]:
    return [_compare(result, entry) for entry in described(result, "published")]


def _compare(result: Result, entry: dict[str, Any]) -> Comparison:
    if "variant" not in entry:
        return Comparison(entry, None, "no counterpart in this suite yet")
    quantity = entry["quantity"]
    if quantity in PER_ITERATION:
        return _compare_trace(result, entry)
    if quantity == "iterations":
        return _compare_iterations(result, entry)
    cells = [
        c
        for c in named(result.cells, {k: entry[k] for k in ("variant", "precision") if k in entry})
        if all(entry.get(name, getattr(c, name)) == getattr(c, name) for name in ("n", "d", "k"))
    ]
    if not cells:
        return Comparison(entry, None, "not part of this run")
    if len(cells) > 1 and "iterations" in entry:  # the same problem, timed over several T
        same = [c for c in cells if c.iterations == entry["iterations"]]
        cells = same if len(same) == 1 else cells
    if len(cells) > 1:
        return _compare_several(result, entry, cells)
    cell = cells[0]
    if cell.seconds is None:
        return Comparison(entry, None, f"{cell.status}: {cell.reason or 'no reason given'}")
    return _compare_cell(result, entry, cell)


def _compare_several(result: Result, entry: dict[str, Any], cells: list[Cell]) -> Comparison:
    """A statement about many shapes has no one number here; the range is shown."""
    found = [_compare_cell(result, entry, cell) for cell in cells if cell.seconds is not None]
    values = [c.measured for c in found if c.measured is not None]
    if not values:
        return Comparison(entry, None, "a statement about several shapes, none of which has a time")
    low, high = (quantity_text(entry["quantity"], end) for end in (min(values), max(values)))
    return Comparison(
        entry,
        None,
        f"smallest to largest of {many(len(values), 'shape')}, {found[0].remark}",
        text=low if low == high else f"{low} {TO} {high}",
    )


def _times(interval: Interval, times: float) -> Interval:
    return Interval(
        interval.mid * times, interval.low * times, interval.high * times, interval.confident
    )


def _compare_cell(result: Result, entry: dict[str, Any], cell: Cell) -> Comparison:
    found, remark = _measure(result, entry, cell)
    if found is None:
        return Comparison(entry, None, remark)
    return Comparison(entry, found.mid, remark, found)


def _measure(result: Result, entry: dict[str, Any], cell: Cell) -> tuple[Interval | None, str]:
    """Our number for an entry at a cell with a time, and how it was formed."""
    quantity, own = entry["quantity"], cell.seconds
    if own is None:
        return None, "without a time"
    if quantity == "seconds_per_iteration":
        return own, f"median over T = {cell.iterations}"
    if quantity == "total_seconds":
        total = entry.get("iterations", cell.iterations)
        remark = f"{total} times the median iteration of T = {cell.iterations}"
        return _times(own, total), remark
    if quantity == "gflops":
        return scaled_rate(cell, cell.data.get("gflops")), "operation model over the median"
    if quantity == "gbytes_per_second":
        rates = cell.data.get("gbytes_per_second") or {}
        return scaled_rate(cell, rates.get("as_written")), "traffic as written over the median"
    baseline = entry.get("baseline") or result.spec.get("baseline")
    if quantity == "speedup" and baseline:
        base = [c for c in named(result.cells, baseline) if c.shape == cell.shape]
        base = [c for c in base if c.iterations == cell.iterations] or base
        if not base:
            return None, "the baseline is not part of this run"
        what = f"{base[0].variant} {base[0].precision}"
        if base[0].seconds is None:
            return None, f"the baseline {what} has no time here"
        return speedup(base[0], cell), f"against {what} of this run"
    return None, "not measured in this form"


def _compare_iterations(result: Result, entry: dict[str, Any]) -> Comparison:
    """Against a trace that ended by a rule; one that ran for a set number of iterations tells
    nothing."""
    for trace in result.traces:
        if trace.get("stop") and _fits(trace, entry):
            steps = len(trace.get("iterations") or [])
            return Comparison(entry, steps or None, f"trace {trace['name']}, until {trace['stop']}")
    return Comparison(entry, None, "no trace of this run stops by a rule")


def _fits(trace: dict[str, Any], entry: dict[str, Any]) -> bool:
    names = ("precision", "n", "d", "k")
    return trace["variant"] == entry["variant"] and all(
        entry.get(name, trace[name]) == trace[name] for name in names
    )


def _compare_trace(result: Result, entry: dict[str, Any]) -> Comparison:
    for trace in result.traces:
        for step in trace.get("iterations") or [] if _fits(trace, entry) else []:
            if step["iteration"] == entry.get("iteration"):
                return Comparison(entry, step.get(entry["quantity"]), f"trace {trace['name']}")
    return Comparison(entry, None, "no trace of this run has this iteration")
