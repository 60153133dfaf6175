# SPDX-License-Identifier: Apache-2.0
"""The numbers that a source prints, each with what this run measured for the same question."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from plots import exactness
from plots.experiment import expanded
from plots.load import ROOT, Cell, Interval, Result, read_json
from plots.metrics import (
    FEWEST_SAMPLES,
    NO_CALL,
    aggregate,
    call_setup_seconds,
    named,
    scaled_rate,
    setup_seconds,
    speedup,
    stage_rate,
    trace_runs,
    trace_seconds,
    whole_call,
)
from plots.select import label_of, reason_of, status_of
from plots.words import NONE, TIMES, TO, count, digits, factor, many, seconds

PER_ITERATION = ("inertia", "loss")
EXPERIMENTS = ROOT / "experiments"
NOT_RUN = "not part of this run"
UNRECORDED = "how many iterations the library ran is not in this file"
_IN_SECONDS = ("total_seconds", "seconds_per_iteration")
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


@cache
def _today(path: Path) -> dict[str, Any]:
    return expanded(read_json(path)) if path.is_file() else {}


def described(result: Result, key: str) -> list[dict[str, Any]]:
    """What the experiment says of its source ("claims", "published"): as experiments/ has it today,
    so that all machines answer the same questions, or else as the result file kept it."""
    today = _today(EXPERIMENTS / f"{result.experiment}.json")
    return today.get(key) or result.spec.get(key) or []


@dataclass(frozen=True)
class Comparison:
    """A printed number next to ours; `measured` is None where this run has no counterpart."""

    entry: dict[str, Any]
    measured: float | None
    remark: str  # how ours was formed, or why it is absent
    interval: Interval | None = None  # of `measured`
    text: str | None = None  # instead of one number: ours at several shapes, or what ran
    once: bool = False  # ours rests on a single sample
    singles: int = 0  # of several shapes, those of which ours rests on a single sample
    lacking: int = 0  # of the shapes that the source's number is over, those without ours
    price: str = (
        ""  # of a time of a rounded variant where exact ones ran: its share of wrong labels
    )

    @property
    def prior(self) -> bool:
        """Measured by this project, but earlier and elsewhere; no source printed it."""
        return bool(self.entry.get("prior"))

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
        return self._beside(self.measured)

    @property
    def interval_text(self) -> str:
        """The two ends, and whether they are less than a 95 % interval."""
        found = self.interval
        if found is None or found.low == found.high:
            return "one sample" if self.once else NONE
        low, high = (self._beside(end) for end in (found.low, found.high))
        return f"{low} {TO} {high}" + ("" if found.confident else f" (min{TO}max)")

    def _beside(self, value: float) -> str:
        """In the unit of the published number."""
        return quantity_text(self.entry["quantity"], value, like=self.entry["value"])


def quantity_text(
    quantity: str, value: float, exact: bool = False, like: float | None = None
) -> str:
    """`exact`: a number that someone wrote down. Seconds are given in the unit that suits `like`,
    so that two next to each other can be compared at a glance."""
    if quantity in _IN_SECONDS:
        shown = value if like is None else like
        size, unit = next((u for u in _UNITS if abs(shown) >= u[0]), _UNITS[-1])
        if exact:
            return f"{value / size:.10g} {unit}"
        return seconds(value) if like is None else f"{digits(value / size)} {unit}"
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
    """'n = 100, d = 2, k = 5'; of several shapes what is taken of them and their values."""
    own = [f"{name} = {count(entry[name])}" for name in ("n", "d", "k") if name in entry]
    shapes = entry.get("shapes") or {}
    own += [f"{name} = {_values_text(values)}" for name, values in shapes.items()]
    return (f"{entry['of']} over " if "of" in entry and own else "") + ", ".join(own)


def _values_text(values: Sequence[Any]) -> str:
    """'2', '2 or 20'; of more the ends."""
    texts = [count(v) if isinstance(v, int) else str(v) for v in values]
    return " or ".join(texts) if len(texts) < 3 else f"{texts[0]} to {texts[-1]}"


@dataclass(frozen=True)
class Headings:
    """What a table calls the numbers that ours stand next to."""

    title: str
    label: str
    machine: str
    value: str
    ratio: str


_PUBLISHED = Headings(
    "Published next to measured", "published as", "published on", "published", "published / ours"
)
_PRIOR = Headings(
    "Prior measurements next to today's",
    "measured before as",
    "measured before on",
    "prior measurement",
    "prior / ours",
)
_BOTH = Headings(
    "Published and prior numbers next to measured",
    "published or measured before as",
    "there on",
    "published or prior measurement",
    "theirs / ours",
)
COMPARES_ALL = {
    False: "Published numbers come from the machines named next to them, some of them many years "
    "older: the ratio compares machines and code together.",
    True: "Prior measurements were made for this suite, earlier and on the machines named next to "
    "them; no source prints them and no result file here holds them.",
}


def headings(rows: Iterable[Comparison]) -> Headings:
    kinds = {row.prior for row in rows}
    return _BOTH if len(kinds) > 1 else _PRIOR if kinds == {True} else _PUBLISHED


def about(rows: Iterable[Comparison]) -> list[str]:
    """What has to be known before the numbers are compared with ours."""
    kinds = {row.prior for row in rows}
    return [COMPARES_ALL[prior] for prior in (False, True) if prior in kinds]


def label_text(row: Comparison, rows: Iterable[Comparison]) -> str:
    """The entry's label; a prior measurement among published numbers says what it is."""
    marked = row.prior and headings(rows) is _BOTH
    return row.entry["label"] + (" (prior measurement)" if marked else "")


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
    cells = _cells_of(result, entry)
    if quantity == "total_seconds":
        return _compare_total(result, entry, cells)
    if not cells:
        return Comparison(entry, None, NOT_RUN)
    if len(cells) > 1 and "iterations" in entry:  # the same problem, timed over several T
        same = [c for c in cells if c.iterations == entry["iterations"]]
        cells = same if len(same) == 1 else cells
    if "of" in entry:
        return _compare_aggregate(result, entry, cells)
    if len(cells) > 1:
        return _compare_several(result, entry, cells)
    cell = cells[0]
    if cell.seconds is None:
        return Comparison(entry, None, _why(cell))
    return _compare_cell(result, entry, cell)


def _cells_of(result: Result, entry: dict[str, Any]) -> list[Cell]:
    """Those of its variant at its shape or shapes."""
    wanted = {key: [entry[key]] for key in ("n", "d", "k") if key in entry}
    wanted |= entry.get("shapes") or {}
    name: dict[str, Any] = {
        key: entry[key] for key in ("variant", "precision", "threads") if key in entry
    }
    return [
        c
        for c in named(result.cells, name)
        if all(getattr(c, key, c.data.get(key)) in values for key, values in wanted.items())
    ]


def _why(cell: Cell) -> str:
    return f"{status_of(cell)}: {reason_of(cell) or 'no reason given'}"


def _compare_total(result: Result, entry: dict[str, Any], cells: list[Cell]) -> Comparison:
    """Of the iterations, and where the source's total is of a whole call, with our setup before."""
    found = _compare_iterated(result, entry, cells)
    if not entry.get("whole_call") or (found.measured is None and not found.text):
        return found
    known = [(c, setup) for c in cells if (setup := setup_seconds(c)) is not None]
    if not known:
        return Comparison(entry, None, "no setup time is known of it")
    cell, setup = known[0]
    about = _whole_text(setup, entry)
    if found.interval is None:
        text = f"{found.text}, after {about} of setup"
        return replace(found, remark=text, text=text)
    if call_setup_seconds(cell) is None:
        return replace(found, remark=f"{found.remark}; without setup ({about}): {NO_CALL}")
    whole = found.interval.plus(setup)
    return replace(
        found,
        measured=whole.mid,
        interval=whole,
        remark=f"setup ({about}) and {found.remark}",
        once=found.once or (cell.data.get("processes") or 0) < FEWEST_SAMPLES,
    )


def _compare_iterated(result: Result, entry: dict[str, Any], cells: list[Cell]) -> Comparison:
    """A cell or a trace that executed exactly as many iterations is a counterpart. So is a multiple
    of one iteration of a variant that always runs as many as it is asked for: they take the same.
    Of a library that may stop no more is known than what it ran."""
    wanted = entry.get("iterations")
    timed = [c for c in cells if c.seconds is not None]
    exact = [c for c in timed if c.executed_iterations and wanted in (None, c.executed_iterations)]
    if len(exact) == 1:
        return _whole_cell(entry, exact[0])
    runs = [t for t in result.traces if _is_program(t, entry)]
    for trace in runs:
        if len(trace["iterations"]) == wanted:
            samples, found = trace_runs(trace), trace_seconds(trace)
            remark = f"whole runs of trace {trace['name']}, until {trace['stop']}"
            return Comparison(
                entry,
                found.mid if found else None,
                remark,
                found,
                once=len(samples) < FEWEST_SAMPLES,
            )
    steady = [c for c in timed if not c.may_stop]
    if wanted and len(steady) == 1:
        return _scaled_cell(entry, steady[0], wanted)
    if not timed and not runs:
        return Comparison(entry, None, _why(cells[0]) if cells else NOT_RUN)
    if len(exact) > 1:
        return Comparison(entry, None, f"any of {len(exact)} cells of this run could be meant")
    if not runs and timed[0].executed_iterations is None:
        return Comparison(entry, None, UNRECORDED)
    if runs:
        text = _what_the_trace_ran(runs[0], wanted, entry)
    else:
        text = _what_ran(timed[0], wanted, entry)
    return Comparison(entry, None, text, text=text)


def _whole_text(found: float | None, entry: dict[str, Any]) -> str:
    """In the unit of the published total."""
    return NONE if found is None else quantity_text(entry["quantity"], found, like=entry["value"])


def _whole_cell(entry: dict[str, Any], cell: Cell) -> Comparison:
    steps = cell.executed_iterations or cell.iterations
    total = cell.seconds and cell.seconds.times(steps)
    remark = f"the {many(steps, 'iteration')} of this run, at the median of one"
    once = cell.sample_count < FEWEST_SAMPLES
    return Comparison(entry, total.mid if total else None, remark, total, once=once)


def _scaled_cell(entry: dict[str, Any], cell: Cell, wanted: int) -> Comparison:
    total = cell.seconds and cell.seconds.times(wanted)
    length = many(cell.iterations, "iteration")
    remark = f"{count(wanted)} times the median iteration of runs of {length}"
    once = cell.sample_count < FEWEST_SAMPLES
    return Comparison(entry, total.mid if total else None, remark, total, once=once)


def _is_program(trace: dict[str, Any], entry: dict[str, Any]) -> bool:
    """Does the trace end as a program would, and was it timed again as a whole?"""
    timed = trace["status"] == "ok" and trace.get("stop") and trace.get("runs_seconds")
    return bool(timed) and _fits(trace, entry)


def _what_the_trace_ran(trace: dict[str, Any], wanted: int | None, entry: dict[str, Any]) -> str:
    steps, found = len(trace["iterations"]), trace_seconds(trace)
    whole = _whole_text(found.mid if found else None, entry)
    return (
        f"trace {trace['name']} ended after {many(steps, 'iteration')}, not "
        f"{count(wanted or steps)}: {whole} in all"
    )


def _what_ran(cell: Cell, wanted: int | None, entry: dict[str, Any]) -> str:
    """'stopped after 184 of 300 iterations: 0.144 s for the whole fit'."""
    steps = cell.executed_iterations or cell.iterations
    whole = _whole_text(cell.seconds.mid * steps if cell.seconds else None, entry)
    if cell.stopped_early:
        asked = many(cell.iterations, "iteration")
        return f"stopped after {count(steps)} of {asked}: {whole} for the whole fit"
    return f"ran {many(steps, 'iteration')}, not {count(wanted or steps)}: {whole} in all"


def _compare_aggregate(result: Result, entry: dict[str, Any], cells: list[Cell]) -> Comparison:
    """One number of the source over many shapes next to the same number of ours."""
    found = [_compare_cell(result, entry, cell) for cell in cells if cell.seconds is not None]
    known = [c for c in found if c.interval is not None]
    if not known:
        why = found[0].remark if found else _why(cells[0])
        return Comparison(entry, None, f"none of {many(len(cells), 'shape')} has a value ({why})")
    number = aggregate(entry["of"], [c.interval for c in known if c.interval is not None])
    remark = f"{entry['of']} of {many(len(known), 'shape')}, {known[0].remark}"
    asked = math.prod(len(values) for values in (entry.get("shapes") or {}).values())
    lacking = max(asked, len(cells)) - len(known)
    if lacking:
        remark += f"; {many(lacking, 'shape')} asked for without a value here"
    singles = sum(c.once for c in known)
    if singles:
        remark += f"; {count(singles)} from a single sample"
    return Comparison(
        entry,
        number.mid,
        remark,
        number,
        once=singles == len(known),
        singles=singles,
        lacking=lacking,
    )


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


def _compare_cell(result: Result, entry: dict[str, Any], cell: Cell) -> Comparison:
    found, remark, cells = _measure(result, entry, cell)
    if found is None:
        return Comparison(entry, None, remark)
    once = any(c.sample_count < FEWEST_SAMPLES for c in cells)
    if any(c.executed_iterations is None for c in cells):
        remark += f"; {UNRECORDED}"
    return Comparison(
        entry, found.mid, remark, found, once=once, price=_price_of(result, entry, cell)
    )


def _price_of(result: Result, entry: dict[str, Any], cell: Cell) -> str:
    """Of a time that stands next to times of exact variants at the same shape."""
    at_shape = [c for c in result.cells if c.shape == cell.shape]
    timed = entry["quantity"] in _IN_SECONDS
    return exactness.wrong_text(cell) if timed and exactness.is_mixed(at_shape) else ""


def _measure(
    result: Result, entry: dict[str, Any], cell: Cell
) -> tuple[Interval | None, str, list[Cell]]:
    """Our number for an entry at a cell with a time, how it was formed, and of which cells."""
    quantity, own, stage = entry["quantity"], cell.seconds, entry.get("stage")
    if own is None:
        return None, "without a time", []
    if quantity == "seconds_per_iteration":
        steps = cell.executed_iterations
        ran = f"the {count(steps)} executed of T = " if steps and cell.stopped_early else "T = "
        return own, f"median over {ran}{cell.iterations}", [cell]
    if quantity in ("gflops", "gbytes_per_second"):
        return *_rate(cell, quantity, stage), [cell]
    baseline = entry.get("baseline") or result.spec.get("baseline")
    if quantity == "speedup" and baseline:
        base = [c for c in named(result.cells, baseline) if c.shape == cell.shape]
        base = [c for c in base if c.iterations == cell.iterations] or base
        if not base:
            return None, "the baseline is not part of this run", []
        what = label_of(base[0])
        if base[0].seconds is None:
            return None, f"the baseline {what} has no time here", []
        if entry.get("whole_call"):
            return *_of_calls(entry, base[0], cell), [base[0], cell]
        return speedup(base[0], cell), f"against {what} of this run", [base[0], cell]
    return None, "not measured in this form", []


def _of_calls(entry: dict[str, Any], base: Cell, cell: Cell) -> tuple[Interval | None, str]:
    """The ratio of two whole calls, each of as many iterations as the source's."""
    steps = entry["iterations"]
    others = entry.get("baseline_iterations", steps)
    if cell.stopped_early or base.stopped_early:
        return None, "a library that stopped before its last iteration has no such call"
    own, other = whole_call(cell, steps), whole_call(base, others)
    if own is None or other is None:
        python = "python" in (cell.backend, base.backend)
        return None, NO_CALL if python else "no setup time is known of both"
    what = f"{many(others, 'iteration')} of {label_of(base)}"
    return other.over(own), f"setup and {many(steps, 'iteration')}, against setup and {what}"


def _rate(cell: Cell, quantity: str, stage: str | None) -> tuple[Interval | None, str]:
    """Of an iteration, or of one of its stages over that stage's own time."""
    operations = quantity == "gflops"
    model = "operation model" if operations else "traffic as written"
    if stage is not None:
        found = stage_rate(cell, stage, "operations" if operations else "bytes_as_written")
        if found is None:
            return None, f"no time or no work of the stage {stage} is known"
        return found, f"{model} of the stage {stage} over its median time"
    rates = cell.data.get("gbytes_per_second") or {}
    rate = cell.data.get("gflops") if operations else rates.get("as_written")
    return scaled_rate(cell, rate), f"{model} over the median"


def _compare_iterations(result: Result, entry: dict[str, Any]) -> Comparison:
    """Executed iterations: of a trace that ended by a rule, or of a library that stops by its own.
    Whatever ran for a set number of iterations shows nothing."""
    for trace in result.traces:
        if trace.get("status") == "ok" and trace.get("stop") and _fits(trace, entry):
            steps = len(trace.get("iterations") or [])
            remark = f"executed by trace {trace['name']}, until {trace['stop']}"
            return Comparison(entry, steps or None, remark)
    for cell in _cells_of(result, entry):
        if cell.ok and cell.data.get("executed_iterations"):
            asked = many(cell.iterations, "iteration")
            remark = f"executed by the library, of {asked} that it was allowed"
            return Comparison(entry, cell.executed_iterations, remark)
    return Comparison(entry, None, "no trace of this run stops by a rule")


def _fits(trace: dict[str, Any], entry: dict[str, Any]) -> bool:
    names = ("precision", "n", "d", "k")
    return trace["variant"] == entry["variant"] and all(
        entry.get(name, trace[name]) == trace[name] for name in names
    )


def _compare_trace(result: Result, entry: dict[str, Any]) -> Comparison:
    for trace in result.traces:
        right = trace.get("status") == "ok" and _fits(trace, entry)
        for step in trace.get("iterations") or [] if right else []:
            if step["iteration"] == entry.get("iteration"):
                return Comparison(entry, step.get(entry["quantity"]), f"trace {trace['name']}")
    return Comparison(entry, None, "no trace of this run has this iteration")
