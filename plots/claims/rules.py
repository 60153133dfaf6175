# SPDX-License-Identifier: Apache-2.0
"""What has to be so for a test to hold; docs/report.md explains each rule."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from plots.claims.outcomes import (
    FAILS,
    HOLDS,
    PARTLY,
    TOO_FEW,
    UNDECIDED,
    Outcome,
    untested,
)
from plots.claims.values import Sample, Value, few_text, gather, lines_of
from plots.claims.wording import (
    bounds_phrase,
    bounds_text,
    from_to,
    number,
    place_value,
    span,
    subject,
    unit,
    where,
    where_text,
    with_interval,
)
from plots.load import Interval, Result
from plots.metrics import AGGREGATES, aggregate
from plots.words import listed, many

# "About x", and the end of "up to x": as large as x but for this factor either way.
ABOUT = 1.25


@dataclass(frozen=True)
class Expectation:
    """The numbers that a test admits, of each value or of one number of them all."""

    low: float
    high: float
    of: str
    text: str  # "at least 4x"
    phrase: str  # the same in a sentence: "faster"
    magnitude: bool = False

    def admits(self, value: float) -> bool:
        return self.low <= value <= self.high

    def judge(self, low: float, high: float) -> str:
        """Of an interval: it holds or fails where the whole interval does."""
        if self.admits(low) and self.admits(high):
            return HOLDS
        return FAILS if high < self.low or low > self.high else UNDECIDED


def outcomes(result: Result, test: dict[str, Any]) -> list[Outcome]:
    """Of one test: its bounds, its magnitudes, its direction."""
    sample = gather(result, test)
    if not sample.values:
        return [untested(sample.absent or sample.reasons or "no value of this run fits")]
    found = [_equals(test, sample)] if "equals" in test else []
    found += [_direction(test, sample, word) for word in ("rising", "falling") if word in test]
    expected = _expectations(test)
    if expected and "growth" in test:
        sample = _growth(test, sample)
        if not sample.values:
            return [*found, untested(sample.reasons or sample.absent)]
    found += [_bounded(test, sample, one) for one in expected]
    found = found or [untested("the test says neither what is expected nor a bound")]
    return [replace(one, part=where_text(test)) for one in found]


# --- What is claimed -------------------------------------------------------------------------


def _expectations(test: dict[str, Any]) -> list[Expectation]:
    of = test.get("of", "each")
    found = []
    if "at_least" in test or "at_most" in test:
        low, high = test.get("at_least", -math.inf), test.get("at_most", math.inf)
        size = bool(test.get("magnitude"))
        found.append(Expectation(low, high, of, bounds_text(test), bounds_phrase(test), size))
    if "about" in test:
        found.append(_near(test["about"], of, f"about {unit(test, test['about'], True)}"))
    if "up_to" in test:
        found.append(_near(test["up_to"], "largest", f"up to {unit(test, test['up_to'], True)}"))
    return found


def _near(value: float, of: str, text: str) -> Expectation:
    return Expectation(value / ABOUT, value * ABOUT, of, text, text, magnitude=True)


# --- Bounds and magnitudes -------------------------------------------------------------------


def _equals(test: dict[str, Any], sample: Sample) -> Outcome:
    wanted = test["equals"]
    kinds = [
        HOLDS if wanted in (value.plain, _word(value.plain)) else FAILS for value in sample.values
    ]
    texts = [_word(value.plain) for value in sample.values]
    counted = [
        text if len(texts) == 1 else f"{text} at {many(texts.count(text), sample.noun)}"
        for text in dict.fromkeys(texts)
    ]
    found = f"{subject(test)}: {listed(counted)}"
    says = Outcome(HOLDS, found=found, claimed=_word(wanted), phrase=_word(wanted))
    return _each(sample, kinds, says)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, int | float) else str(value)


def _bounded(test: dict[str, Any], sample: Sample, expected: Expectation) -> Outcome:
    numbers = [value.number for value in sample.values if value.number is not None]
    if len(numbers) < len(sample.values):
        return untested(f"{subject(test)} is not a number: {_word(sample.values[0].plain)}")
    what = subject(test) + (f" {sample.span}" if sample.span else "")
    says = Outcome(HOLDS, claimed=expected.text, magnitude=expected.magnitude)
    if expected.of != "each":
        return _of_all(test, sample, expected, numbers, what, says)
    if len(numbers) == 1:
        short = unit(test, numbers[0].mid)
        found = with_interval(test, numbers[0])
    else:
        short = span(test, numbers)
        middle = unit(test, statistics.median(n.mid for n in numbers))
        found = f"{short}, median {middle} at {many(len(numbers), sample.noun)}"
    phrase = f"{short}, not {expected.text}" if expected.magnitude else expected.phrase
    kinds = [expected.judge(one.low, one.high) for one in numbers]
    says = replace(says, found=f"{what}: {found}", phrase=phrase)
    return _each(sample, kinds, says, _whether(test, expected.phrase, numbers))


def _whether(test: dict[str, Any], what: str, numbers: Sequence[Interval]) -> str:
    """'whether faster (0.602 to 1.38x)': what an interval leaves open."""
    if len(numbers) > 1:
        return f"whether {what}"
    ends = from_to(*(unit(test, end) for end in (numbers[0].low, numbers[0].high)))
    return f"whether {what} ({ends})"


def _of_all(
    test: dict[str, Any],
    sample: Sample,
    expected: Expectation,
    numbers: Sequence[Interval],
    what: str,
    says: Outcome,
) -> Outcome:
    """One number of all values. Those of a single sample may be anything: the verdict stands if it
    would be the same whatever they are."""
    found = aggregate(expected.of, numbers)
    text = with_interval(test, found)
    if len(numbers) > 1:
        text = f"{expected.of} {text} of {span(test, numbers)} at {many(len(numbers), sample.noun)}"
    least, most = (
        AGGREGATES[expected.of](ends)
        for ends in (
            [-math.inf if v.few else v.known.low for v in sample.values],
            [math.inf if v.few else v.known.high for v in sample.values],
        )
    )
    kind = expected.judge(least, most)
    says = replace(says, found=f"{what}: {text}", notes=sample.gaps, phrase=expected.phrase)
    if kind == UNDECIDED:
        if any(v.few for v in sample.values):
            return _too_few(says, sample)
        asked = expected.phrase
        if len(numbers) > 1 and not asked.startswith("up to"):
            asked = f"{expected.of} {asked}"
        return replace(says, kind=kind, detail=_whether(test, asked, [found]))
    if kind == FAILS and expected.magnitude:
        short = unit(test, found.mid)
        if len(numbers) > 1 and not expected.text.startswith("up to"):
            short = f"{expected.of} {short}"
        says = replace(says, phrase=f"{short}, not {expected.text}")
    notes = _left_open(sum(bool(v.few) for v in sample.values), sample.noun) + says.notes
    return replace(says, kind=kind, notes=notes)


def _each(
    sample: Sample,
    kinds: Sequence[str],
    says: Outcome,
    whether: str = "",
    whole: Sample | None = None,
) -> Outcome:
    """Every value must meet the expectation; `kinds` says of each whether it holds, fails or is
    undecided, `whether` what of those is undecided, `whole` is what the values were made of, if
    that is more."""
    counted = [i for i, value in enumerate(sample.values) if not value.few]
    holding, failing, near = (
        [i for i in counted if kinds[i] == kind] for kind in (HOLDS, FAILS, UNDECIDED)
    )
    says = replace(says, notes=says.notes + sample.gaps)
    if not failing and len(counted) < len(sample.values):
        return _too_few(says, whole or sample)
    notes = _left_open(len(sample.values) - len(counted), sample.noun) + says.notes
    if near and len(kinds) > 1:
        notes = f"; {len(near)} of them undecided, by their intervals" + notes
    says = replace(says, notes=notes)
    if not failing and not near:
        return replace(says, kind=HOLDS)
    if failing and not holding:
        return replace(says, kind=FAILS)
    everywhere = [sample.values[i].place for i in counted]

    def at(chosen: Sequence[int]) -> str:
        return where([sample.values[i].place for i in chosen], everywhere, sample.noun)

    if not failing:
        some = len(near) < len(counted)
        return replace(
            says, kind=UNDECIDED, detail=f"{whether} for {at(near)}" if some else whether
        )
    detail = f"undecided for {at(near)}" if near else ""
    return replace(says, kind=PARTLY, places=at(holding), detail=detail)


def _too_few(says: Outcome, sample: Sample) -> Outcome:
    return replace(says, kind=TOO_FEW, detail=few_text(sample))


def _left_open(few: int, noun: str) -> str:
    return f"; single samples leave {many(few, noun)} undecided" if few else ""


# --- Growth and direction --------------------------------------------------------------------


def _growth(test: dict[str, Any], sample: Sample) -> Sample:
    """The last value of each line over its first."""
    axis = test["growth"]
    if any(axis not in value.place or value.number is None for value in sample.values):
        return Sample(absent=f"there is no {axis} to grow with")
    grown = Sample(missing=list(sample.missing), outside=sample.outside, noun="line")
    ends = set()
    for line in lines_of(sample.values, axis):
        first, last = line[0], line[-1]
        ratio = last.known.over(first.known)
        if first.place[axis] == last.place[axis] or ratio is None:
            continue
        ends.add((first.place[axis], last.place[axis]))
        place = {key: value for key, value in first.place.items() if key != axis}
        few = tuple(dict.fromkeys(first.few + last.few))
        grown.values.append(Value(place, ratio, few=few))
    if not grown.values:
        grown.absent, grown.missing = f"only one {axis} has a value", []
    if len(ends) == 1:
        first_end, last_end = (place_value(end) for end in ends.pop())
        grown.span = f"from {axis} = {first_end} to {last_end}"
    return grown


def _direction(test: dict[str, Any], sample: Sample, word: str) -> Outcome:
    """A line of values goes up if its end is above its start and no step goes down, each by more
    than the intervals allow; without the former it is undecided."""
    axis = test[word]
    if any(axis not in value.place or value.number is None for value in sample.values):
        return untested(f"{subject(test)} has no {axis}")
    values = sample.values if test.get("of", "each") == "each" else _steps(test, sample, axis)
    lines = lines_of(values, axis)
    if not lines:
        return untested(f"only one {axis} has a value")
    if any(a.place[axis] == b.place[axis] for line in lines for a, b in itertools.pairwise(line)):
        return untested(f"several values at one {axis}")
    sign = 1 if word == "rising" else -1
    goes = [_goes(line, sign) for line in lines]
    of = test.get("of", "each")
    found = f"{of} of the {subject(test)}: " if of != "each" else f"{subject(test)}: "
    if len(lines) == 1:
        first, last = lines[0][0], lines[0][-1]
        found += (
            f"{from_to(unit(test, first.found), unit(test, last.found))} from {axis} = "
            f"{place_value(first.place[axis])} to {place_value(last.place[axis])}"
        )
    else:
        found += f"{word} with {axis} on {goes.count(HOLDS)} of {len(lines)} lines"
    fixed = Sample(
        [
            Value(
                {k: v for k, v in line[0].place.items() if k != axis},
                None,
                few=("single samples",) if up is None else (),
            )
            for line, up in zip(lines, goes, strict=True)
        ],
        sample.missing,
        outside=sample.outside,
        noun="line",
    )
    claimed = f"{word} with {axis}"
    says = Outcome(HOLDS, found=found, claimed=claimed, phrase=claimed)
    detail, notes = _step_that_fails(test, lines, goes, sign, axis)
    if not detail and any(_step_back(line, sign, clearly=False) for line in lines):
        notes = "; single steps back are within the interval"
    kinds = [up or UNDECIDED for up in goes]
    says = replace(says, notes=notes)
    outcome = _each(fixed, kinds, says, f"whether {claimed}", whole=sample)
    if outcome.kind not in (FAILS, PARTLY):
        return outcome
    return replace(outcome, detail="; ".join(filter(None, [detail, outcome.detail])))


def _steps(test: dict[str, Any], sample: Sample, axis: str) -> list[Value]:
    """A mean, median ... of all values at each place of the axis."""
    steps: dict[Any, list[Value]] = {}
    for value in sample.values:
        steps.setdefault(value.place[axis], []).append(value)
    return [
        Value(
            {axis: at},
            aggregate(test["of"], [value.known for value in step]),
            few=tuple(dict.fromkeys(few for value in step for few in value.few)),
        )
        for at, step in steps.items()
    ]


def _step_back(
    line: Sequence[Value], sign: int, clearly: bool = True
) -> tuple[Value, Value] | None:
    """The largest step in the other direction; `clearly`: of those whose intervals do not meet."""
    steps = [
        (a, b)
        for a, b in itertools.pairwise(line)
        if sign * (b.found - a.found) < 0
        and (not clearly or b.known.high < a.known.low or b.known.low > a.known.high)
    ]
    return max(steps, key=lambda step: _size(*step), default=None)


def _size(a: Value, b: Value) -> float:
    return abs(b.found - a.found) / max(abs(a.found), abs(b.found))


def _goes(line: Sequence[Value], sign: int) -> str | None:
    """HOLDS, FAILS or UNDECIDED; None where values of a single sample decide; without them the
    others may do."""
    sure = [value for value in line if not value.few]
    if _step_back(sure, sign):
        return FAILS
    low, high = (line[0].known, line[-1].known)[::sign]
    if not line[0].few and not line[-1].few and high.high <= low.low:
        return FAILS
    if len(sure) < len(line):
        return None
    return HOLDS if high.low > low.high else UNDECIDED


def _step_that_fails(
    test: dict[str, Any],
    lines: Sequence[Sequence[Value]],
    goes: Sequence[str | None],
    sign: int,
    axis: str,
) -> tuple[str, str]:
    """'falls from k = 1 000 to 4 000 at n = 500 000', the clearest if there are several, and the
    numbers of that step."""
    failing = [line for line, up in zip(lines, goes, strict=True) if up == FAILS]
    if not failing:
        return "", ""
    sure = [[value for value in line if not value.few] for line in failing]
    backs = [(step, line) for line in sure if (step := _step_back(line, sign))]
    verb, plain = ("falls", "rise") if sign > 0 else ("rises", "fall")
    if backs:
        (a, b), line = max(backs, key=lambda back: _size(*back[0]))
        text = f"{verb} from "
    else:
        line = sure[0]
        a, b = line[0], line[-1]
        text = f"does not {plain} from "
    text += f"{axis} = {place_value(a.place[axis])} to {place_value(b.place[axis])}"
    if len(lines) > 1:
        places = [{k: v for k, v in one[0].place.items() if k != axis} for one in lines]
        own = {k: v for k, v in line[0].place.items() if k != axis}
        text += f" at {where([own], places, 'line')}"
        more = len(failing) - 1
        text += f", and on {many(more, 'more line', 'more lines')} it fails" if more else ""
    numbers = from_to(unit(test, a.found), unit(test, b.found))
    return text, f"; that step: from {numbers}"
