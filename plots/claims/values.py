# SPDX-License-Identifier: Apache-2.0
"""The values that a test is about: of cells, traces, studies and ceilings, each with its place, and
why others are missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from plots import metrics
from plots.claims.wording import (
    FOLLOWERS,
    NOUNS,
    as_list,
    stages_text,
    values_text,
    where,
    where_text,
)
from plots.load import Cell, Interval, Result, exactly
from plots.metrics import FEWEST_SAMPLES
from plots.published import UNRECORDED
from plots.select import UNSTEADY, label_of, name_text
from plots.words import count, listed, many

_NEED_A_STAGE = ("stage_seconds", "stage_share", "stage_speedup", "share_of_fma")
_TAKE_A_STAGE = ("gflops", "gbytes_per_second", "share_of_bandwidth", "call_share")
_AXES = ("n", "d", "k", "threads", "ranks", "gpus", "iterations", "dataset")


@dataclass(frozen=True)
class Value:
    """One number or word that a test looks at, and where it was found."""

    place: dict[str, Any]  # n, d, k ...
    number: Interval | None
    word: Any = None  # of a status or a finding that is not a number
    few: tuple[str, ...] = ()  # what of it was measured once, so that it decides nothing

    @property
    def known(self) -> Interval:
        if self.number is None:
            raise ValueError("this value is not a number")
        return self.number

    @property
    def found(self) -> float:
        return self.known.mid

    @property
    def plain(self) -> Any:
        return self.word if self.number is None else self.number.mid


@dataclass
class Sample:
    """All values of a test, and why others are missing."""

    values: list[Value] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # a reason for each place without a value
    absent: str = ""  # why there is nothing at all
    outside: str = ""  # what the test asks for and this run did not try
    noun: str = "shape"
    span: str = ""  # between which ends a growth was taken

    @property
    def reasons(self) -> str:
        """Why values are missing; the same reason once."""
        return listed(list(dict.fromkeys(self.missing)), limit=2)

    @property
    def gaps(self) -> str:
        text = ""
        if self.missing:
            text += f"; {many(len(self.missing), self.noun)} without a value ({self.reasons})"
        if self.outside:
            text += f"; not part of this run: {self.outside}"
        return text


def gather(result: Result, test: dict[str, Any]) -> Sample:
    quantity = test["quantity"]
    if quantity == "finding":
        return _finding(result, test)
    if quantity == "row":
        return _rows(result, test)
    if quantity == "ceiling":
        return _ceiling(result, test)
    if quantity.startswith("trace_") or (quantity == "status" and "trace" in test):
        return _of_traces(result, test)
    if quantity not in (*_OF_CELL, *_OF_PAIR, "status"):
        return Sample(absent=f"this version knows no quantity {quantity}")
    if quantity in _NEED_A_STAGE and "stage" not in test:
        return Sample(absent=f"{quantity} needs a stage")
    if "stage" in test and quantity not in (*_NEED_A_STAGE, *_TAKE_A_STAGE):
        return Sample(absent=f"{quantity} is not known of a single stage")
    return _of_cells(result, test)


def lines_of(values: Sequence[Value], axis: str) -> list[list[Value]]:
    """The values that differ in nothing but the axis, in its order; single ones are left out."""
    groups: dict[tuple, list[Value]] = {}
    for value in values:
        key = tuple((k, v) for k, v in value.place.items() if k not in (axis, *FOLLOWERS))
        groups.setdefault(key, []).append(value)
    return [sorted(line, key=lambda v: v.place[axis]) for line in groups.values() if len(line) > 1]


def few_text(sample: Sample) -> str:
    """'one sample of cpu_b f32 at k = 4 000, 20 000': what was measured once, and where."""
    places: dict[str, list[dict[str, Any]]] = {}
    for value in sample.values:
        for what in value.few:
            places.setdefault(what, []).append(value.place)
    everywhere = [value.place for value in sample.values]
    texts = []
    for what, found in places.items():
        if len(everywhere) == 1 or sample.noun == "trace":  # those have their names
            texts.append(what)
        elif len(found) == len(everywhere):
            texts.append(f"{what} at all {many(len(everywhere), sample.noun)}")
        else:
            texts.append(f"{what} at {where(found, everywhere, sample.noun)}")
    return listed(texts, 3)


# --- Cells -----------------------------------------------------------------------------------


def _of_cells(result: Result, test: dict[str, Any]) -> Sample:
    own_name = name_text(test["variant"])
    own = metrics.named(result.cells, test["variant"])
    if not own:
        return Sample(absent=f"no cell of {own_name} in this run")
    cells = _where(own, test)
    if not cells:
        return Sample(absent=f"no cell of {own_name} with {where_text(test)} in this run")
    sample = Sample(outside=_untried(own, test))
    if test["quantity"] == "status":
        for cell in cells:
            if cell.status == "skipped" and test.get("equals") != "skipped":
                reason = cell.reason or "no reason given"
                sample.missing.append(f"{own_name} skipped: {reason}")
            else:
                sample.values.append(Value(_place(cell), None, cell.status))
        return sample
    baselines = metrics.named(result.cells, test["baseline"]) if "baseline" in test else []
    for cell in cells:
        counted = test["quantity"] == "executed_iterations" and cell.status == "ok"  # exact
        if cell.seconds is None and not counted:
            sample.missing.append(_why(cell))
            continue
        if cell.executed_iterations is None:
            sample.missing.append(f"{own_name}: {UNRECORDED}")
            continue
        few = _few(cell, test)
        if test["quantity"] in _OF_CELL:
            found = _OF_CELL[test["quantity"]](result, cell, test)
        else:
            base = _partner(cell, baselines)
            if base is None or base.seconds is None:
                place = "at this shape" if baselines else "in this run"
                absent = f"no cell of {name_text(test.get('baseline', '?'))} {place}"
                sample.missing.append(_why(base) if base else absent)
                continue
            if base.executed_iterations is None:
                sample.missing.append(f"{name_text(test['baseline'])}: {UNRECORDED}")
                continue
            few += _few(base, test)
            found = _OF_PAIR[test["quantity"]](base, cell, test)
        if isinstance(found, str):
            sample.missing.append(f"{own_name}: {found}")
        else:
            sample.values.append(Value(_place(cell), found, few=few))
    return sample


def _partner(cell: Cell, baselines: Sequence[Cell]) -> Cell | None:
    """The baseline at the same shape; the same number of iterations and data set if there are."""
    same = [c for c in baselines if c.shape == cell.shape]
    for alike in (
        lambda c: (
            (c.iterations, c.data.get("dataset")) == (cell.iterations, cell.data.get("dataset"))
        ),
        lambda c: c.iterations == cell.iterations,
    ):
        same = [c for c in same if alike(c)] or same
    timed = [c for c in same if c.seconds is not None]
    return next(iter(timed or same), None)


def _few(cell: Cell, test: dict[str, Any]) -> tuple[str, ...]:
    """What of the cell was measured once; counts are exact."""
    own = label_of(cell)
    if test["quantity"] == "executed_iterations":
        return ()
    call = test["quantity"] in _OF_CALL
    setup = test["quantity"] == "setup_seconds"
    stages = [one for one in as_list(test.get("stage", [])) if one != metrics.SETUP]
    few = []
    if (setup or call) and (cell.data.get("processes") or 0) < FEWEST_SAMPLES:
        few.append(f"one set-up of {own}")
    if (call or not (setup or stages)) and cell.sample_count < FEWEST_SAMPLES:
        few.append(f"one sample of {own}")
    if stages and len(metrics.stage_profiles(cell)) < FEWEST_SAMPLES:
        few.append(f"stages of {own} from one process")
    return tuple(few)


def _where(cells: Sequence[Cell], test: dict[str, Any]) -> list[Cell]:
    chosen = list(cells)
    for key, wanted in (test.get("where") or {}).items():
        chosen = [c for c in chosen if getattr(c, key, c.data.get(key)) in as_list(wanted)]
    return chosen


def _untried(cells: Sequence[Cell], test: dict[str, Any]) -> str:
    """Values that the test names and no cell of the variant has."""
    gaps = []
    for key, wanted in (test.get("where") or {}).items():
        tried = {getattr(c, key, c.data.get(key)) for c in cells}
        never = [v for v in as_list(wanted) if v not in tried]
        if never:
            gaps.append(f"{key} = {values_text(never)}")
    return ", ".join(gaps)


def _place(cell: Cell) -> dict[str, Any]:
    return {axis: getattr(cell, axis, cell.data.get(axis)) for axis in _AXES}


def _why(cell: Cell) -> str:
    """An unsteady cell decides nothing, and its reason begins with that word."""
    reason = "; ".join(cell.unsteady) or cell.reason or "no reason given"
    status = UNSTEADY if cell.unsteady else cell.status
    return f"{label_of(cell)} {status}: {reason.rstrip('.')}"


Found = Interval | str  # or why there is none


def _or(found: Interval | None, otherwise: str) -> Found:
    return otherwise if found is None else found


def _noun(test: dict[str, Any]) -> str:
    return f"no {NOUNS[test['quantity']][0]} is known of it"


def _seconds(result: Result, cell: Cell, test: dict[str, Any]) -> Found:
    return _or(cell.seconds, _noun(test))


def _stage_seconds(result: Result, cell: Cell, test: dict[str, Any]) -> Found:
    """Per iteration, or with `over` as a multiple of a limit of the machine."""
    found = metrics.stage_seconds(cell, test["stage"])
    if found is None:
        return _no_stage(test)
    if "over" not in test:
        return found
    limit = metrics.ceiling_at(result, test["over"])
    return found.times(1 / limit) if limit else f"the limit {test['over']} was not measured"


def _no_stage(test: dict[str, Any]) -> str:
    stages = [one for one in as_list(test["stage"]) if one != metrics.SETUP]
    return f"no time of the {stages_text(stages)} is known of it"


def _total(result: Result, cell: Cell, test: dict[str, Any]) -> Found:
    steps = _steps(cell, test.get("iterations"))
    if isinstance(steps, str):
        return steps
    return _or(cell.seconds and cell.seconds.times(steps), _noun(test))


def _steps(cell: Cell, wanted: int | None) -> int | str:
    """As many iterations as the test asks for, or else those that ran; or why there are none."""
    executed = cell.executed_iterations or cell.iterations
    if cell.stopped_early and wanted not in (None, executed):
        return f"stopped after {count(executed)} of {many(cell.iterations, 'iteration')}"
    return wanted or executed


def _call(cell: Cell, wanted: int | None) -> Found:
    """Setup and the iterations."""
    steps = _steps(cell, wanted)
    if isinstance(steps, str):
        return steps
    return _or(metrics.whole_call(cell, steps), _no_setup(cell))


def _no_setup(cell: Cell) -> str:
    return metrics.NO_CALL if cell.backend == "python" else "no setup time is known of it"


def _call_seconds(result: Result, cell: Cell, test: dict[str, Any]) -> Found:
    return _call(cell, test.get("iterations"))


def _call_share(result: Result, cell: Cell, test: dict[str, Any]) -> Found:
    steps = _steps(cell, test.get("iterations"))
    if isinstance(steps, str):
        return steps
    if metrics.call_setup_seconds(cell) is None:
        return _no_setup(cell)
    found = metrics.call_share(cell, test.get("stage", metrics.SETUP), steps)
    return _no_stage(test) if found is None else found


def _executed(result: Result, cell: Cell, test: dict[str, Any]) -> Found:
    return exactly(cell.executed_iterations or cell.iterations)


def _setup(result: Result, cell: Cell, test: dict[str, Any]) -> Found:
    found = cell.data.get("setup_seconds")
    return _noun(test) if found is None else exactly(found)


def _gflops(result: Result, cell: Cell, test: dict[str, Any]) -> Found:
    if "stage" in test:
        return _stage_rate(cell, test, "operations")
    return _or(metrics.scaled_rate(cell, cell.data.get("gflops")), _noun(test))


def _gbytes(result: Result, cell: Cell, test: dict[str, Any]) -> Found:
    if "stage" in test:
        return _stage_rate(cell, test, "bytes_as_written")
    rates = cell.data.get("gbytes_per_second") or {}
    return _or(metrics.scaled_rate(cell, rates.get("as_written")), _noun(test))


def _stage_rate(cell: Cell, test: dict[str, Any], work: str) -> Found:
    stages = test["stage"]
    if metrics.stage_seconds(cell, stages) is None:
        return _no_stage(test)
    found = metrics.stage_rate(cell, stages, work)
    return _or(found, f"no work of the {stages_text(stages)} is known of it")


def _limit(result: Result, cell: Cell, test: dict[str, Any]) -> Found:
    share = cell.share_of_limit
    return _or(metrics.scaled_rate(cell, share), _noun(test))


def _bandwidth(result: Result, cell: Cell, test: dict[str, Any]) -> Found:
    rate = _gbytes(result, cell, test)
    return _of_ceiling(cell, test, rate, metrics.bandwidth_ceiling)


def _multiply_add(result: Result, cell: Cell, test: dict[str, Any]) -> Found:
    rate = _gflops(result, cell, test)
    return _of_ceiling(cell, test, rate, metrics.multiply_add_ceiling)


def _of_ceiling(
    cell: Cell,
    test: dict[str, Any],
    rate: Found,
    ceiling: Callable[[Cell, bool], float | None],
) -> Found:
    """The rate's share of what was measured of the place where it was reached."""
    if isinstance(rate, str):
        return rate
    on_gpu = metrics.stage_on_gpu(cell, test["stage"]) if "stage" in test else cell.on_gpu
    limit = None if on_gpu is None else ceiling(cell, on_gpu)
    return rate.times(1 / limit) if limit else "the limit of its rate was not measured"


def _stage_share(result: Result, cell: Cell, test: dict[str, Any]) -> Found:
    return _or(metrics.stage_share(cell, test["stage"]), _no_stage(test))


# Of one cell with a time.
_OF_CELL: dict[str, Callable[[Result, Cell, dict[str, Any]], Found]] = {
    "seconds_per_iteration": _seconds,
    "total_seconds": _total,
    "setup_seconds": _setup,
    "executed_iterations": _executed,
    "gflops": _gflops,
    "gbytes_per_second": _gbytes,
    "share_of_limit": _limit,
    "share_of_bandwidth": _bandwidth,
    "share_of_fma": _multiply_add,
    "stage_seconds": _stage_seconds,
    "stage_share": _stage_share,
    "call_seconds": _call_seconds,
    "call_share": _call_share,
}
_OF_CALL = ("call_seconds", "call_speedup", "call_share")


def _speedup(base: Cell, cell: Cell, test: dict[str, Any]) -> Found:
    return _or(metrics.speedup(base, cell), _noun(test))


def _stage_speedup(base: Cell, cell: Cell, test: dict[str, Any]) -> Found:
    found = metrics.stage_speedup(base, cell, test["stage"])
    return _or(found, f"no time of the {stages_text(test['stage'])} is known of both")


def _call_speedup(base: Cell, cell: Cell, test: dict[str, Any]) -> Found:
    """Each of as many iterations as asked of it: programs may stop at different ones."""
    own = _call(cell, test.get("iterations"))
    other = _call(base, test.get("baseline_iterations", test.get("iterations")))
    if isinstance(own, str):
        return own
    return f"its baseline: {other}" if isinstance(other, str) else _or(other.over(own), _noun(test))


def _extra(base: Cell, cell: Cell, test: dict[str, Any]) -> Found:
    slow, fast = cell.seconds, base.seconds
    if slow is None or fast is None:
        return _noun(test)
    extra = Interval(
        slow.mid - fast.mid,
        slow.low - fast.high,
        slow.high - fast.low,
        slow.confident and fast.confident,
    )
    return extra.times(test.get("iterations", 1))


# Of two cells with a time: baseline, cell.
_OF_PAIR: dict[str, Callable[[Cell, Cell, dict[str, Any]], Found]] = {
    "speedup": _speedup,
    "stage_speedup": _stage_speedup,
    "call_speedup": _call_speedup,
    "extra_seconds": _extra,
}


# --- Traces ----------------------------------------------------------------------------------


def _of_traces(result: Result, test: dict[str, Any]) -> Sample:
    names = as_list(test["trace"])
    bases = as_list(test["baseline_trace"]) if "baseline_trace" in test else []
    if bases and len(bases) not in (1, len(names)):
        return Sample(absent=f"{len(names)} traces, but {len(bases)} to compare them with")
    sample = Sample(noun="trace")
    for place, own_name in enumerate(names):
        trace = _trace(result, own_name)
        if trace is None:
            sample.missing.append(f"no trace {own_name} in this run")
            continue
        at = {key: trace.get(key) for key in ("n", "d", "k")} | {"trace": own_name}
        if test["quantity"] == "status":
            sample.values.append(Value(at, None, trace["status"]))
            continue
        if trace["status"] != "ok":
            sample.missing.append(_why_trace(trace))
            continue
        if test["quantity"] == "trace_iterations":
            sample.values.append(Value(at, exactly(len(trace.get("iterations") or []))))
            continue
        number, few = metrics.trace_seconds(trace), _few_runs(trace)
        if number is not None and test["quantity"] == "trace_speedup":
            wanted = bases[place if len(bases) > 1 else 0] if bases else None
            base = _trace(result, wanted)
            if base is None or base["status"] != "ok":
                missing = f"no trace {wanted} in this run"
                sample.missing.append(_why_trace(base) if base else missing)
                continue
            slow = metrics.trace_seconds(base)
            number, few = slow and slow.over(number), few + _few_runs(base)
        if number is None:
            sample.missing.append(f"trace {own_name} holds no time")
        else:
            sample.values.append(Value(at, number, few=few))
    return sample


def _trace(result: Result, wanted: str | None) -> dict[str, Any] | None:
    return next((t for t in result.traces if t["name"] == wanted), None)


def _few_runs(trace: dict[str, Any]) -> tuple[str, ...]:
    enough = len(metrics.trace_runs(trace)) >= FEWEST_SAMPLES
    return () if enough else (f"one run of {trace['name']}",)


def _why_trace(trace: dict[str, Any]) -> str:
    reason = (trace.get("reason") or "no reason given").rstrip(".")
    return f"trace {trace['name']} is {trace['status']}: {reason}"


# --- Studies and ceilings --------------------------------------------------------------------


def _study(result: Result, test: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The study that a test names, or why it cannot be used."""
    for study in result.studies:
        if study["name"] == test["study"]:
            if study["status"] in ("ok", "wrong"):
                return study, ""
            reason = (study.get("reason") or "no reason given").rstrip(".")
            return {}, f"study {test['study']} {study['status']}: {reason}"
    return {}, f"no study {test['study']} in this run"


def _finding(result: Result, test: dict[str, Any]) -> Sample:
    study, absent = _study(result, test)
    if absent:
        return Sample(absent=absent)
    value = (study.get("findings") or {}).get(test["finding"])
    if value is None:
        return Sample(absent=f"study {test['study']} found no {test['finding'].replace('_', ' ')}")
    return Sample([_scalar({}, value)], noun="study")


def _rows(result: Result, test: dict[str, Any]) -> Sample:
    study, absent = _study(result, test)
    if absent:
        return Sample(absent=absent)
    wanted = test.get("row") or {}
    rows = [
        row
        for row in study.get("rows") or []
        if all(row.get(key) in as_list(value) for key, value in wanted.items())
    ]
    for key, values in (test.get("where") or {}).items():
        rows = [row for row in rows if row.get(key) in as_list(values)]
    fixed = ", ".join(f"{key} = {values_text(as_list(value))}" for key, value in wanted.items())
    if not rows:
        return Sample(absent=f"study {test['study']} has no row with {fixed}")
    # What distinguishes the rows: shapes, and whatever the test names.
    keys = [*("n", "d", "k"), *wanted]
    sample = Sample(noun="row")
    for row in rows:
        place = {key: row[key] for key in keys if key in row}
        value = row.get(test["value"])
        if value is None:
            sample.missing.append(f"a row of {test['study']} has no {test['value']}")
        else:
            sample.values.append(_scalar(place, value))
    return sample


def _scalar(place: dict[str, Any], value: Any) -> Value:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return Value(place, exactly(float(value)) if number else None, None if number else value)


def _ceiling(result: Result, test: dict[str, Any]) -> Sample:
    """A limit of the machine, itself the best of several rounds, or the ratio of two."""
    found = []
    for key in ("ceiling", "over"):
        if key in test:
            value = metrics.ceiling_at(result, test[key])
            if not value:
                return Sample(absent=f"the limit {test[key]} was not measured in this run")
            found.append(value)
    return Sample([Value({}, exactly(found[0] / (found[1:] or [1])[0]))], noun="limit")
