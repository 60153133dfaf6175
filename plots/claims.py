# SPDX-License-Identifier: Apache-2.0
"""What a source claims, tested against what this run measured; docs/report.md has the rules."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from plots import metrics
from plots.load import Cell, Interval, Result
from plots.published import described
from plots.words import TIMES, count, digits, factor, listed, many, percent, seconds

HOLDS, FAILS, PARTLY, UNTESTED = "holds", "fails", "partly", "untested"
KINDS = (HOLDS, FAILS, PARTLY, UNTESTED)
# What a reader sees of a kind: a sign and a word, so that nothing rests on colour.
SIGNS = {HOLDS: "✓", FAILS: "✗", PARTLY: "◐", UNTESTED: "○"}
WORDS = {
    HOLDS: "holds",
    FAILS: "does not hold",
    PARTLY: "holds in part",
    UNTESTED: "not tested here",
}

# A claim is as good as its worst test: one that fails decides, one without data leaves it open.
_DECIDES = (FAILS, PARTLY, UNTESTED, HOLDS)
_AXES = ("n", "d", "k", "threads", "iterations", "dataset")
_FOLLOWERS = ("iterations", "dataset", "trace")  # mostly set by the shape
_BOUNDS = ("at_least", "at_most")
_OF: dict[str, Callable[[Iterable[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "smallest": min,
    "largest": max,
}


@dataclass(frozen=True)
class Verdict:
    """A claim and what became of it in this run."""

    claim: dict[str, Any]
    verdict: str  # "holds", "does not hold", "holds here only for ...", "not tested here: ..."
    kind: str  # one of KINDS
    measured: str  # the numbers found, and what was asked of them

    @property
    def sign(self) -> str:
        return SIGNS[self.kind]

    @property
    def detail(self) -> str:
        """What the sentence says beyond the kind's own words."""
        return self.verdict.removeprefix(WORDS[self.kind]).removeprefix(":").strip(" ,")


@dataclass(frozen=True)
class _Value:
    """One number or word that a test looks at, and where it was found."""

    place: dict[str, Any]  # n, d, k ...
    number: Interval | None
    word: Any = None  # of a status or a finding that is no number

    @property
    def found(self) -> float:
        if self.number is None:
            raise ValueError("this value is no number")
        return self.number.mid


@dataclass(frozen=True)
class _Outcome:
    """What became of one test."""

    kind: str
    verdict: str
    measured: str = ""


@dataclass
class _Sample:
    """All values of a test, and why others are missing."""

    values: list[_Value] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # a reason for each place without a value
    absent: str = ""  # why there is nothing at all
    outside: str = ""  # what the test asks for and this run did not try
    noun: str = "shape"


def verdicts(result: Result) -> list[Verdict]:
    """One verdict for every claim of the experiment's source, in its order."""
    return [verdict_of(result, claim) for claim in described(result, "claims")]


def tally(found: Iterable[Verdict]) -> dict[str, int]:
    """How many claims came out as what; every kind is a key."""
    kinds = [verdict.kind for verdict in found]
    return {kind: kinds.count(kind) for kind in KINDS}


def tally_text(counts: dict[str, int]) -> str:
    """'3 claims: 1 holds, 1 does not, 0 in part, 1 not tested here'."""
    total = sum(counts.values())
    return (
        f"{many(total, 'claim')}: {counts[HOLDS]} {'holds' if counts[HOLDS] == 1 else 'hold'}, "
        f"{counts[FAILS]} {'does' if counts[FAILS] == 1 else 'do'} not, "
        f"{counts[PARTLY]} in part, {counts[UNTESTED]} not tested here"
    )


def verdict_of(result: Result, claim: dict[str, Any]) -> Verdict:
    scales = claim.get("scales", [result.scale])
    if result.scale not in scales:
        outcome = _untested(f"the claim is about {listed(scales)} scale")
    elif not claim.get("tests"):
        outcome = _untested("no test of this suite can decide it")
    else:
        outcome = _all(
            [part for test in claim["tests"] for part in _outcomes(result, test)],
        )
    return Verdict(claim, outcome.verdict, outcome.kind, outcome.measured)


def _untested(why: str) -> _Outcome:
    return _Outcome(UNTESTED, f"not tested here: {why.rstrip('.')}")


def _all(outcomes: Sequence[_Outcome]) -> _Outcome:
    """All must hold; the words are those of the outcomes that decide."""
    kind = next(kind for kind in _DECIDES if any(o.kind == kind for o in outcomes))
    deciding = [o.verdict for o in outcomes if o.kind == kind]
    measured = "; ".join(dict.fromkeys(o.measured for o in outcomes if o.measured))
    if kind == HOLDS:
        near = next((text for text in deciding if text != "holds"), "holds")
        return _Outcome(HOLDS, near, measured)
    verdict = min(deciding, key=len) if kind == FAILS else deciding[0]
    others = list(dict.fromkeys(deciding[1:]))
    if kind in (PARTLY, UNTESTED):
        prefix = "holds here only for " if kind == PARTLY else "not tested here: "
        verdict = "; and ".join(
            [verdict, *(text.removeprefix(prefix) for text in others if text != verdict)]
        )
    return _Outcome(kind, verdict, measured)


def _outcomes(result: Result, test: dict[str, Any]) -> list[_Outcome]:
    """Of one test: its bounds, its direction, or both."""
    sample = _gather(result, test)
    if not sample.values:
        return [_untested(sample.absent or _reasons(sample) or "no value of this run fits")]
    found = []
    if "equals" in test:
        found.append(_equals(test, sample))
    if "at_least" in test or "at_most" in test:
        found.append(_bounds(test, sample))
    for word in ("rising", "falling"):
        if word in test:
            found.append(_direction(test, sample, word))
    return found or [_untested("the test says neither what is expected nor a bound")]


# --- Expectations ----------------------------------------------------------------------------


def _equals(test: dict[str, Any], sample: _Sample) -> _Outcome:
    wanted = test["equals"]
    met = [wanted in (_plain(value), _word(_plain(value))) for value in sample.values]
    texts = [_word(_plain(value)) for value in sample.values]
    counted = [
        text if len(texts) == 1 else f"{text} at {many(texts.count(text), sample.noun)}"
        for text in dict.fromkeys(texts)
    ]
    return _each(
        sample, met, f"{_subject(test)}: {listed(counted)} (claimed: {_word(wanted)})", near=[]
    )


def _plain(value: _Value) -> Any:
    return value.word if value.number is None else value.number.mid


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _number(value) if isinstance(value, int | float) else str(value)


def _bounds(test: dict[str, Any], sample: _Sample) -> _Outcome:
    numbers = [value.number for value in sample.values if value.number is not None]
    if len(numbers) < len(sample.values):
        return _untested(f"{_subject(test)} is no number: {_word(_plain(sample.values[0]))}")
    claimed = f" (claimed: {_bounds_text(test)})"
    of = test.get("of", "each")
    if of != "each":
        number = _aggregate(of, numbers)
        within = _straddles(test, number)
        text = f"{_subject(test)}: " + (
            _with_interval(test, number)
            if len(numbers) == 1
            else f"{of} {_with_interval(test, number)} of {_range(test, numbers)}"
            f" at {many(len(numbers), sample.noun)}"
        )
        kind = HOLDS if _inside(test, number.mid) else FAILS
        verdict = WORDS[kind] + (", within the interval" if within else "")
        return _Outcome(kind, verdict, text + claimed + _gaps(sample))
    text = f"{_subject(test)}: " + (
        _with_interval(test, numbers[0])
        if len(numbers) == 1
        else f"{_range(test, numbers)}, median "
        f"{_unit(test, statistics.median(n.mid for n in numbers))}"
        f" at {many(len(numbers), sample.noun)}"
    )
    met = [_inside(test, number.mid) for number in numbers]
    near = [_straddles(test, number) for number in numbers]
    return _each(sample, met, text + claimed, near)


def _each(sample: _Sample, met: list[bool], measured: str, near: list[bool]) -> _Outcome:
    """Every value must meet the expectation; `near` are those whose interval holds the bound."""
    close = sum(near)
    if close and len(met) > 1:
        measured += f"; at {close} of them the bound is within the interval"
    measured += _gaps(sample)
    if all(met):
        within = ", within the interval" if close == len(met) else ""
        return _Outcome(HOLDS, "holds" + within, measured)
    failing = [place for place, good in enumerate(met) if not good]
    in_doubt = bool(near) and all(near[place] for place in failing)
    if len(failing) == len(met):
        within = ", within the interval" if in_doubt else ""
        return _Outcome(FAILS, WORDS[FAILS] + within, measured)
    places = [value.place for value in sample.values]
    holding = [place for place, good in zip(places, met, strict=True) if good]
    verdict = f"holds here only for {where(holding, places, sample.noun)}"
    return _Outcome(
        PARTLY, verdict + ("; elsewhere within the interval" if in_doubt else ""), measured
    )


def _direction(test: dict[str, Any], sample: _Sample, word: str) -> _Outcome:
    """A line of values goes up if its end is above its start and no step goes down by more than the
    intervals allow; lines are the values that differ in nothing but the axis."""
    axis = test[word]
    if any(axis not in value.place or value.number is None for value in sample.values):
        return _untested(f"{_subject(test)} has no {axis}")
    if test.get("of", "each") != "each":
        steps: dict[Any, list[Interval]] = {}
        for value in sample.values:
            steps.setdefault(value.place[axis], []).append(_known(value))
        lines = [[_Value({axis: at}, _aggregate(test["of"], s)) for at, s in steps.items()]]
    else:
        groups: dict[tuple, list[_Value]] = {}
        for value in sample.values:
            key = tuple((k, v) for k, v in value.place.items() if k not in (axis, *_FOLLOWERS))
            groups.setdefault(key, []).append(value)
        lines = list(groups.values())
    lines = [sorted(line, key=lambda v: v.place[axis]) for line in lines if len(line) > 1]
    if not lines:
        return _untested(f"only one {axis} has a value")
    if any(a.place[axis] == b.place[axis] for line in lines for a, b in _pairs(line)):
        return _untested(f"several values at one {axis}")
    sign = 1 if word == "rising" else -1
    met = [_goes(line, sign) for line in lines]
    steps_back = [
        sum(1 for a, b in _pairs(line) if sign * (b.found - a.found) <= 0) for line in lines
    ]
    of = test.get("of", "each")
    text = f"{of} of the {_subject(test)}: " if of != "each" else f"{_subject(test)}: "
    if len(lines) == 1:
        first, last = lines[0][0], lines[0][-1]
        text += (
            f"{_from_to(_unit(test, first.found), _unit(test, last.found))} from {axis} = "
            f"{_place_value(first.place[axis])} to {_place_value(last.place[axis])}"
        )
    else:
        text += f"{word} with {axis} on {sum(met)} of {len(lines)} lines"
    if any(back for back, good in zip(steps_back, met, strict=True) if good):
        text += "; single steps back are within the interval"
    text += f" (claimed: {word} with {axis})"
    fixed = _Sample(
        [_Value({k: v for k, v in line[0].place.items() if k != axis}, None) for line in lines],
        sample.missing,
        outside=sample.outside,
        noun="line",
    )
    return _each(fixed, met, text, near=[])


def _known(value: _Value) -> Interval:
    if value.number is None:
        raise ValueError("this value is no number")
    return value.number


def _pairs(line: Sequence[_Value]) -> list[tuple[_Value, _Value]]:
    return list(itertools.pairwise(line))


def _goes(line: Sequence[_Value], sign: int) -> bool:
    def clearly_back(a: Interval, b: Interval) -> bool:
        return b.high < a.low if sign > 0 else b.low > a.high

    whole = sign * (line[-1].found - line[0].found) > 0
    return whole and not any(clearly_back(_known(a), _known(b)) for a, b in _pairs(line))


def _aggregate(of: str, numbers: Sequence[Interval]) -> Interval:
    """All four grow with every number, so the ends' aggregates bound the aggregate."""
    rule = _OF[of]
    return Interval(
        rule([n.mid for n in numbers]),
        rule([n.low for n in numbers]),
        rule([n.high for n in numbers]),
        all(n.confident for n in numbers),
    )


def _inside(test: dict[str, Any], value: float) -> bool:
    return test.get("at_least", value) <= value <= test.get("at_most", value)


def _straddles(test: dict[str, Any], number: Interval) -> bool:
    """Whether the verdict would change inside of the interval."""
    verdict = _inside(test, number.mid)
    return any(_inside(test, end) != verdict for end in (number.low, number.high))


# --- Values ----------------------------------------------------------------------------------


def _gather(result: Result, test: dict[str, Any]) -> _Sample:
    quantity = test["quantity"]
    if quantity == "finding":
        return _finding(result, test)
    if quantity == "row":
        return _rows(result, test)
    if quantity.startswith("trace_") or (quantity == "status" and "trace" in test):
        return _of_traces(result, test)
    if quantity not in (*_OF_CELL, *_OF_PAIR, "status"):
        return _Sample(absent=f"this version knows no quantity {quantity}")
    return _of_cells(result, test)


def _of_cells(result: Result, test: dict[str, Any]) -> _Sample:
    name = _name(test["variant"])
    own = metrics.named(result.cells, test["variant"])
    if not own:
        return _Sample(absent=f"no cell of {name} in this run")
    cells = _where(own, test)
    if not cells:
        return _Sample(absent=f"no cell of {name} with {_where_text(test)} in this run")
    sample = _Sample(outside=_untried(own, test))
    if test["quantity"] == "status":
        for cell in cells:
            if cell.status == "skipped" and test.get("equals") != "skipped":
                sample.missing.append(f"{name} skipped: {cell.reason or 'no reason given'}")
            else:
                sample.values.append(_Value(_place(cell), None, cell.status))
        return sample
    baselines = metrics.named(result.cells, test["baseline"]) if "baseline" in test else []
    for cell in cells:
        if cell.seconds is None:
            sample.missing.append(_why(cell))
            continue
        if test["quantity"] in _OF_CELL:
            number = _OF_CELL[test["quantity"]](result, cell, test)
            if number is None:
                sample.missing.append(f"{name}: no {_NOUNS[test['quantity']]} is known of it")
            else:
                sample.values.append(_Value(_place(cell), number))
            continue
        base = _partner(cell, baselines)
        if base is None or base.seconds is None:
            place = "at this shape" if baselines else "in this run"
            absent = f"no cell of {_name(test.get('baseline', '?'))} {place}"
            sample.missing.append(_why(base) if base else absent)
            continue
        number = _OF_PAIR[test["quantity"]](base, cell, test)
        if number is not None:
            sample.values.append(_Value(_place(cell), number))
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


def _where(cells: Sequence[Cell], test: dict[str, Any]) -> list[Cell]:
    chosen = list(cells)
    for key, wanted in (test.get("where") or {}).items():
        admitted = wanted if isinstance(wanted, list) else [wanted]
        chosen = [c for c in chosen if getattr(c, key, c.data.get(key)) in admitted]
    return chosen


def _where_text(test: dict[str, Any]) -> str:
    return ", ".join(
        f"{key} = {_values_text(wanted if isinstance(wanted, list) else [wanted])}"
        for key, wanted in (test.get("where") or {}).items()
    )


def _untried(cells: Sequence[Cell], test: dict[str, Any]) -> str:
    """Values that the test names and no cell of the variant has."""
    gaps = []
    for key, wanted in (test.get("where") or {}).items():
        tried = {getattr(c, key, c.data.get(key)) for c in cells}
        never = [v for v in (wanted if isinstance(wanted, list) else [wanted]) if v not in tried]
        if never:
            gaps.append(f"{key} = {_values_text(never)}")
    return ", ".join(gaps)


def _place(cell: Cell) -> dict[str, Any]:
    return {name: getattr(cell, name, cell.data.get(name)) for name in _AXES}


def _why(cell: Cell) -> str:
    reason = (cell.reason or "no reason given").rstrip(".")
    return f"{_label(cell.variant, cell.precision)} {cell.status}: {reason}"


def _seconds(cell: Cell, times: float = 1.0) -> Interval | None:
    own = cell.seconds
    return own and Interval(own.mid * times, own.low * times, own.high * times, own.confident)


def _rate(cell: Cell, rate: float | None) -> Interval | None:
    return metrics.scaled_rate(cell, rate)


def _stage_share(result: Result, cell: Cell, test: dict[str, Any]) -> Interval | None:
    stages = cell.data.get("stages") or {}
    total = sum(stages.values())
    if total <= 0:
        return None
    share = stages.get(test["stage"], 0.0) / total
    return Interval(share, share, share, False)


# Of one cell with a time: result, cell, test -> the quantity, or None if it is not known of it.
_OF_CELL: dict[str, Callable[[Result, Cell, dict[str, Any]], Interval | None]] = {
    "seconds_per_iteration": lambda result, cell, test: cell.seconds,
    "total_seconds": lambda result, cell, test: _seconds(
        cell, test.get("iterations", cell.iterations)
    ),
    "gflops": lambda result, cell, test: _rate(cell, cell.data.get("gflops")),
    "gbytes_per_second": lambda result, cell, test: _rate(
        cell, (cell.data.get("gbytes_per_second") or {}).get("as_written")
    ),
    "share_of_limit": lambda result, cell, test: _rate(cell, metrics.share_of_limit(result, cell)),
    "stage_share": _stage_share,
}


def _extra(base: Cell, cell: Cell, test: dict[str, Any]) -> Interval | None:
    slow, fast = cell.seconds, base.seconds
    if slow is None or fast is None:
        return None
    times = test.get("iterations", 1)
    return Interval(
        (slow.mid - fast.mid) * times,
        (slow.low - fast.high) * times,
        (slow.high - fast.low) * times,
        slow.confident and fast.confident,
    )


# Of two cells with a time: baseline, cell, test -> the quantity.
_OF_PAIR: dict[str, Callable[[Cell, Cell, dict[str, Any]], Interval | None]] = {
    "speedup": lambda base, cell, test: metrics.speedup(base, cell),
    "extra_seconds": _extra,
}


def _exactly(value: float) -> Interval:
    return Interval(value, value, value, False)


def _of_traces(result: Result, test: dict[str, Any]) -> _Sample:
    names = _list(test["trace"])
    bases = _list(test["baseline_trace"]) if "baseline_trace" in test else []
    if bases and len(bases) not in (1, len(names)):
        return _Sample(absent=f"{len(names)} traces, but {len(bases)} to compare them with")
    sample = _Sample(noun="trace")
    for place, name in enumerate(names):
        trace = next((t for t in result.traces if t["name"] == name), None)
        if trace is None:
            sample.missing.append(f"no trace {name} in this run")
            continue
        at = {key: trace.get(key) for key in ("n", "d", "k")} | {"trace": name}
        if test["quantity"] == "status":
            sample.values.append(_Value(at, None, trace["status"]))
            continue
        if trace["status"] != "ok":
            sample.missing.append(_why_trace(trace))
            continue
        number: float | None = len(trace.get("iterations") or [])
        if test["quantity"] != "trace_iterations":
            number = _trace_seconds(trace)
        if number is not None and test["quantity"] == "trace_speedup":
            wanted = bases[place if len(bases) > 1 else 0] if bases else None
            base = next((t for t in result.traces if t["name"] == wanted), None)
            if base is None or base["status"] != "ok":
                missing = f"no trace {wanted} in this run"
                sample.missing.append(_why_trace(base) if base else missing)
                continue
            slow = _trace_seconds(base)
            number = slow / number if slow and number else None
        if number is None:
            sample.missing.append(f"trace {name} holds no time")
        else:
            sample.values.append(_Value(at, _exactly(number)))
    return sample


def _why_trace(trace: dict[str, Any]) -> str:
    reason = (trace.get("reason") or "no reason given").rstrip(".")
    return f"trace {trace['name']} is {trace['status']}: {reason}"


def _trace_seconds(trace: dict[str, Any]) -> float | None:
    each = trace.get("seconds_per_iteration")
    steps = len(trace.get("iterations") or [])
    return each * steps if each and steps else None


def _study(result: Result, test: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The study that a test names, or why it cannot be used."""
    for study in getattr(result, "studies", ()):
        if study["name"] == test["study"]:
            if study["status"] in ("ok", "wrong"):
                return study, ""
            reason = (study.get("reason") or "no reason given").rstrip(".")
            return {}, f"study {test['study']} {study['status']}: {reason}"
    return {}, f"no study {test['study']} in this run"


def _finding(result: Result, test: dict[str, Any]) -> _Sample:
    study, absent = _study(result, test)
    if absent:
        return _Sample(absent=absent)
    value = (study.get("findings") or {}).get(test["finding"])
    if value is None:
        return _Sample(absent=f"study {test['study']} found no {test['finding']}")
    return _Sample([_scalar({}, value)], noun="study")


def _rows(result: Result, test: dict[str, Any]) -> _Sample:
    study, absent = _study(result, test)
    if absent:
        return _Sample(absent=absent)
    wanted = test.get("row") or {}
    rows = [
        row
        for row in study.get("rows") or []
        if all(row.get(key) in _list(value) for key, value in wanted.items())
    ]
    for key, values in (test.get("where") or {}).items():
        rows = [row for row in rows if row.get(key) in _list(values)]
    fixed = ", ".join(f"{key} = {_values_text(_list(value))}" for key, value in wanted.items())
    if not rows:
        return _Sample(absent=f"study {test['study']} has no row with {fixed}")
    # What tells the rows apart: shapes, and whatever the test names.
    keys = [*("n", "d", "k"), *wanted]
    sample = _Sample(noun="row")
    for row in rows:
        place = {key: row[key] for key in keys if key in row}
        value = row.get(test["value"])
        if value is None:
            sample.missing.append(f"a row of {test['study']} has no {test['value']}")
        else:
            sample.values.append(_scalar(place, value))
    return sample


def _scalar(place: dict[str, Any], value: Any) -> _Value:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return _Value(place, _exactly(float(value)) if number else None, None if number else value)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


# --- Words -----------------------------------------------------------------------------------

_NOUNS = {
    "speedup": "speed-up",
    "seconds_per_iteration": "time per iteration",
    "total_seconds": "time",
    "gflops": "rate",
    "gbytes_per_second": "traffic as written",
    "share_of_limit": "share of the limit",
    "extra_seconds": "extra time",
    "stage_share": "share of a stage",
    "status": "status",
    "trace_iterations": "iterations",
    "trace_seconds": "time",
    "trace_speedup": "speed-up",
}


def _label(variant: str, precision: str | None = None) -> str:
    return f"{variant} {precision}" if precision else variant


def _name(named: dict[str, Any] | str) -> str:
    return named if isinstance(named, str) else _label(named["variant"], named.get("precision"))


def _subject(test: dict[str, Any]) -> str:
    """What was measured: 'speed-up of A over B'."""
    quantity = test["quantity"]
    if quantity == "finding":
        return f"{test['finding'].replace('_', ' ')} ({test['study']})"
    if quantity == "row":
        fixed = ", ".join(
            f"{k} {_values_text(_list(v))}" for k, v in (test.get("row") or {}).items()
        )
        return f"{test['value'].replace('_', ' ')} ({test['study']}{': ' + fixed if fixed else ''})"
    noun = _NOUNS[quantity]
    if quantity == "stage_share":
        noun = f"share of the stage {test['stage']}"
    if quantity in ("total_seconds", "extra_seconds") and "iterations" in test:
        noun += f" for {many(test['iterations'], 'iteration')}"
    elif quantity == "extra_seconds":
        noun += " per iteration"
    if "trace" in test:
        names = [str(name) for name in _list(test["trace"])]
        bases = [str(name) for name in _list(test.get("baseline_trace", []))]
        return f"{noun} of {listed(names, 3)}" + (f" over {listed(bases, 3)}" if bases else "")
    text = f"{noun} of {_name(test['variant'])}"
    if "baseline" in test:
        link = "beyond" if quantity == "extra_seconds" else "over"
        text += f" {link} {_name(test['baseline'])}"
    return text


def _number(value: float) -> str:
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e9):
        return count(int(value))
    return digits(value)


def _unit(test: dict[str, Any], value: float, exact: bool = False) -> str:
    """`exact`: a number that someone wrote down, without the digits of a measured one."""
    quantity = test["quantity"]
    if quantity in ("speedup", "trace_speedup"):
        return f"{value:.6g}{TIMES}" if exact else factor(value)
    if quantity.endswith("seconds") or quantity == "seconds_per_iteration":
        if value == 0:
            return "0 s"
        return f"{value:.6g} s" if exact and abs(value) >= 0.01 else seconds(value)
    if quantity in ("share_of_limit", "stage_share"):
        return f"{100 * value:.6g} %" if exact else percent(value)
    if quantity == "gflops":
        return f"{value:.6g} GFLOP/s" if exact else f"{digits(value)} GFLOP/s"
    if quantity == "gbytes_per_second":
        return f"{value:.6g} GB/s" if exact else f"{digits(value)} GB/s"
    return f"{value:.6g}" if exact and abs(value) < 1e4 else _number(value)


def _with_interval(test: dict[str, Any], number: Interval) -> str:
    text = _unit(test, number.mid)
    if number.low == number.high:
        return text
    kind = "" if number.confident else ", smallest and largest"
    return f"{text} ({_unit(test, number.low)} to {_unit(test, number.high)}{kind})"


def _range(test: dict[str, Any], numbers: Sequence[Interval]) -> str:
    return _from_to(*(_unit(test, end(n.mid for n in numbers)) for end in (min, max)))


def _from_to(low: str, high: str) -> str:
    """'2 to 9 GB/s': the unit once where it is the same."""
    if low == high:
        return low
    unit = TIMES if high.endswith(TIMES) else " " + high.rpartition(" ")[2]
    return f"{low.removesuffix(unit) if ' ' in high or unit == TIMES else low} to {high}"


def _bounds_text(test: dict[str, Any]) -> str:
    low, high = (_unit(test, test[key], True) if key in test else None for key in _BOUNDS)
    if low is None:
        return f"at most {high}"
    return f"at least {low}" if high is None else _from_to(low, high)


def _reasons(sample: _Sample) -> str:
    """Why values are missing; the same reason once."""
    return listed(list(dict.fromkeys(sample.missing)), limit=2)


def _gaps(sample: _Sample) -> str:
    text = ""
    if sample.missing:
        text += f"; {many(len(sample.missing), sample.noun)} without a value ({_reasons(sample)})"
    if sample.outside:
        text += f"; not part of this run: {sample.outside}"
    return text


def _place_value(value: Any) -> str:
    return count(value) if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _values_text(values: Sequence[Any], of: Sequence[Any] = ()) -> str:
    """'2, 20' or, of three or more neighbours among `of`, '2 to 128'."""
    texts = [_place_value(value) for value in values]
    order = list(of)
    if len(texts) >= 3 and all(value in order for value in values):
        places = [order.index(value) for value in values]
        if places == list(range(places[0], places[0] + len(places))):
            return f"{texts[0]} to {texts[-1]}"
    return ", ".join(texts)


def where(chosen: list[dict[str, Any]], everywhere: list[dict[str, Any]], noun: str) -> str:
    """The chosen places of all, as shortly as can be: 'n = 50 000, 500 000' where that says all, or
    '31 of 84 shapes: d = 200; n = 500, k = 2; and 3 more'."""
    axes = {}
    for axis in dict.fromkeys(key for place in everywhere for key in place):
        values = list(dict.fromkeys(place.get(axis) for place in everywhere))
        if len(values) > 1:
            axes[axis] = sorted(values, key=lambda v: (isinstance(v, str), v is None, v))
    for axis in ("threads", *_FOLLOWERS):
        others = [name for name in axes if name != axis]
        if len({tuple(p.get(name) for name in others) for p in everywhere}) == len(everywhere):
            axes.pop(axis, None)

    def within(clause: dict[str, list[Any]], places: Iterable[dict]) -> list[dict]:
        return [p for p in places if all(p.get(axis) in v for axis, v in clause.items())]

    def text(clause: dict[str, list[Any]]) -> str:
        return ", ".join(
            f"{axis} = {_values_text(values, axes[axis])}" for axis, values in clause.items()
        )

    hull = {
        axis: [v for v in values if any(p.get(axis) == v for p in chosen)]
        for axis, values in axes.items()
    }
    hull = {axis: values for axis, values in hull.items() if len(values) < len(axes[axis])}
    if hull and len(within(hull, everywhere)) == len(chosen):
        return text(hull)
    left, clauses = list(chosen), []
    while left and len(clauses) < 3:
        candidates = []
        for axis, values in axes.items():
            for prefix in ({}, *({o: [v]} for o in axes if o != axis for v in axes[o])):
                whole = [
                    v
                    for v in values
                    if (inside := within(prefix | {axis: [v]}, everywhere))
                    and all(p in chosen for p in inside)
                ]
                if whole:
                    clause = {
                        a: (prefix | {axis: whole})[a] for a in axes if a in prefix or a == axis
                    }
                    candidates.append((len(within(clause, left)), -len(prefix), clause))
        best = max(candidates, key=lambda c: c[:2], default=None)
        if best is None or best[0] < 2:
            break
        clauses.append(text(best[2]))
        left = [p for p in left if p not in within(best[2], left)]
    if len(left) <= 2:
        clauses += [text({axis: [p.get(axis)] for axis in axes}) for p in left]
    else:
        clauses.append(f"{len(left)} more" if clauses else f"{len(left)} scattered ones")
    head = f"{len(chosen)} of {many(len(everywhere), noun)}"
    return f"{head}: {'; '.join(c for c in clauses if c)}" if any(clauses) else head
