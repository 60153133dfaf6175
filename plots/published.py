# SPDX-License-Identifier: Apache-2.0
"""The numbers that a source prints, each with what this run measured for the same question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plots.load import Cell, Result
from plots.metrics import named, speedup
from plots.words import NONE, TIMES, count, digits, factor, seconds

PER_ITERATION = ("inertia", "loss")


@dataclass(frozen=True)
class Comparison:
    """A printed number beside ours; `measured` is None where this run has no counterpart."""

    entry: dict[str, Any]
    measured: float | None
    remark: str  # how ours was formed, or why it is absent

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
            return NONE
        return quantity_text(self.entry["quantity"], self.measured)


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
    return [_compare(result, entry) for entry in result.spec.get("published", [])]


def _compare(result: Result, entry: dict[str, Any]) -> Comparison:
    if "variant" not in entry:
        return Comparison(entry, None, "no counterpart in this suite yet")
    quantity = entry["quantity"]
    if quantity in PER_ITERATION:
        return _compare_trace(result, entry)
    cells = [
        c
        for c in named(result.cells, {k: entry[k] for k in ("variant", "precision") if k in entry})
        if all(entry.get(name, getattr(c, name)) == getattr(c, name) for name in ("n", "d", "k"))
    ]
    if not cells:
        return Comparison(entry, None, "not part of this run")
    if len(cells) > 1:
        return Comparison(entry, None, "a statement about several shapes; see the figures")
    cell = cells[0]
    if cell.seconds is None:
        return Comparison(entry, None, f"{cell.status}: {cell.reason or 'no reason given'}")
    return _compare_cell(result, entry, cell)


def _compare_cell(result: Result, entry: dict[str, Any], cell: Cell) -> Comparison:
    quantity = entry["quantity"]
    median = cell.seconds.mid if cell.seconds else 0.0
    if quantity == "seconds_per_iteration":
        return Comparison(entry, median, f"median over T = {cell.iterations}")
    if quantity == "total_seconds":
        total = entry.get("iterations", cell.iterations)
        return Comparison(
            entry, median * total, f"{total} times the median iteration of T = {cell.iterations}"
        )
    if quantity == "gflops":
        return Comparison(entry, cell.data.get("gflops"), "operation model over the median")
    if quantity == "gbytes_per_second":
        rates = cell.data.get("gbytes_per_second") or {}
        return Comparison(entry, rates.get("as_written"), "traffic as written over the median")
    if quantity == "speedup" and result.spec.get("baseline"):
        base = [c for c in named(result.cells, result.spec["baseline"]) if c.shape == cell.shape]
        ratio = speedup(base[0], cell) if base else None
        if ratio:
            return Comparison(entry, ratio.mid, f"against {base[0].variant} of this run")
    return Comparison(entry, None, "not measured in this form")


def _compare_trace(result: Result, entry: dict[str, Any]) -> Comparison:
    for trace in result.traces:
        fits = trace["variant"] == entry["variant"] and all(
            entry.get(name, trace[name]) == trace[name] for name in ("precision", "n", "d", "k")
        )
        for step in trace.get("iterations") or [] if fits else []:
            if step["iteration"] == entry.get("iteration"):
                return Comparison(entry, step.get(entry["quantity"]), f"trace {trace['name']}")
    return Comparison(entry, None, "no trace of this run has this iteration")
