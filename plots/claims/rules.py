# SPDX-License-Identifier: Apache-2.0
"""What has to be so for a test to hold; docs/report.md explains each rule."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from plots.claims.outcomes import FAILS, HOLDS, PARTLY, TOO_FEW, Outcome, untested
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

    def in_doubt(self, found: Interval) -> bool:
        """Would the verdict be another one inside of the interval?"""
        verdict = self.admits(found.mid)
        return any(self.admits(end) != verdict for end in (found.low, found.high))


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
        found.append(Expectation(low, high, of, bounds_text(test), bounds_phrase(test)))
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
    met = [wanted in (value.plain, _word(value.plain)) for value in sample.values]
    texts = [_word(value.plain) for value in sample.values]
    counted = [
        text if len(texts) == 1 else f"{text} at {many(texts.count(text), sample.noun)}"
        for text in dict.fromkeys(texts)
    ]
    found = f"{subject(test)}: {listed(counted)}"
    says = Outcome(HOLDS, found=found, claimed=_word(wanted), phrase=_word(wanted))
    return _each(sample, met, says)


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
    met = [expected.admits(one.mid) for one in numbers]
    close = [expected.in_doubt(one) for one in numbers]
    return _each(sample, met, replace(says, found=f"{what}: {found}", phrase=phrase), close)


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
        AGGREGATES[expected.of]([end if v.few else v.found for v in sample.values])
        for end in (-math.inf, math.inf)
    )
    holds = expected.admits(least) and expected.admits(most)
    fails = most < expected.low or least > expected.high
    says = replace(says, found=f"{what}: {text}", notes=sample.gaps, phrase=expected.phrase)
    if not holds and not fails:
        return _too_few(says, sample)
    if fails and expected.magnitude:
        short = unit(test, found.mid)
        if len(numbers) > 1 and not expected.text.startswith("up to"):
            short = f"{expected.of} {short}"
        says = replace(says, phrase=f"{short}, not {expected.text}")
    notes = _undecided(sum(bool(v.few) for v in sample.values), sample.noun) + says.notes
    close = expected.in_doubt(found)
    return replace(says, kind=HOLDS if holds else FAILS, close=close, notes=notes)


def _each(
    sample: Sample,
    met: Sequence[bool],
    says: Outcome,
    close: Sequence[bool] = (),
    whole: Sample | None = None,
) -> Outcome:
    """Every value must meet the expectation; `close` are those whose interval holds the bound,
    `whole` is what the values were made of, if that is more."""
    counted = [i for i, value in enumerate(sample.values) if not value.few]
    failing = [i for i in counted if not met[i]]
    holding = [i for i in counted if met[i]]
    says = replace(says, notes=says.notes + sample.gaps)
    if not failing and len(counted) < len(sample.values):
        return _too_few(says, whole or sample)
    near = [i for i in counted if close and close[i]]
    notes = _undecided(len(sample.values) - len(counted), sample.noun) + says.notes
    if near and len(met) > 1:
        notes = f"; at {len(near)} of them the bound is within the interval" + notes
    says = replace(says, notes=notes)
    if not failing:
        return replace(says, kind=HOLDS, close=len(near) == len(counted))
    in_doubt = all(i in near for i in failing)
    if not holding:
        return replace(says, kind=FAILS, close=in_doubt)
    everywhere = [sample.values[i].place for i in counted]
    places = where([sample.values[i].place for i in holding], everywhere, sample.noun)
    return replace(says, kind=PARTLY, places=places, close=in_doubt)


def _too_few(says: Outcome, sample: Sample) -> Outcome:
    return replace(says, kind=TOO_FEW, detail=few_text(sample))


def _undecided(few: int, noun: str) -> str:
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
    """A line of values goes up if its end is above its start and no step goes down by more than the
    intervals allow."""
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
        found += f"{word} with {axis} on {goes.count(True)} of {len(lines)} lines"
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
    met = [bool(up) for up in goes]
    outcome = _each(fixed, met, replace(says, notes=notes), whole=sample)
    return replace(outcome, detail=detail) if outcome.kind in (FAILS, PARTLY) else outcome


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


def _goes(line: Sequence[Value], sign: int) -> bool | None:
    """None where values of a single sample decide; without them the others may do."""
    sure = [value for value in line if not value.few]
    if _step_back(sure, sign):
        return False
    ends_sure = not line[0].few and not line[-1].few
    if ends_sure and sign * (line[-1].found - line[0].found) <= 0:
        return False
    return True if len(sure) == len(line) else None


def _step_that_fails(
    test: dict[str, Any],
    lines: Sequence[Sequence[Value]],
    goes: Sequence[bool | None],
    sign: int,
    axis: str,
) -> tuple[str, str]:
    """'falls from k = 1 000 to 4 000 at n = 500 000', the clearest if there are several, and the
    numbers of that step."""
    failing = [line for line, up in zip(lines, goes, strict=True) if up is False]
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
