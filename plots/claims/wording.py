# SPDX-License-Identifier: Apache-2.0
"""How quantities, numbers and places are named in verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from plots.load import Interval
from plots.metrics import SETUP
from plots.select import name_text
from plots.words import TIMES, count, digits, factor, listed, many, percent, seconds

FOLLOWERS = ("iterations", "dataset", "trace")  # mostly set by the shape
GFLOPS, GBYTES, SECONDS, PERCENT = "GFLOP/s", "GB/s", "s", "%"
# Of each quantity: what it is called, and its unit.
NOUNS = {
    "speedup": ("speed-up", TIMES),
    "seconds_per_iteration": ("time per iteration", SECONDS),
    "total_seconds": ("time", SECONDS),
    "setup_seconds": ("setup time", SECONDS),
    "extra_seconds": ("extra time", SECONDS),
    "executed_iterations": ("executed iterations", ""),
    "gflops": ("rate", GFLOPS),
    "gbytes_per_second": ("traffic as written", GBYTES),
    "share_of_limit": ("share of the limit", PERCENT),
    "share_of_bandwidth": ("share of the read bandwidth", PERCENT),
    "share_of_fma": ("share of the multiply-add rate", PERCENT),
    "stage_seconds": ("time per iteration", SECONDS),
    "stage_share": ("share", PERCENT),
    "stage_speedup": ("speed-up", TIMES),
    "call_seconds": ("time with setup", SECONDS),
    "call_speedup": ("speed-up with setup", TIMES),
    "call_share": ("share", PERCENT),
    "ceiling": ("measured limit", ""),
    "status": ("status", ""),
    "trace_iterations": ("iterations", ""),
    "trace_seconds": ("time", SECONDS),
    "trace_speedup": ("speed-up", TIMES),
}
_OF_ITERATIONS = ("total_seconds", "extra_seconds", "call_seconds", "call_speedup", "call_share")
_DIRECTIONS = {("at_least", 1): "faster", ("at_most", 1): "slower"}  # of speed-ups
_MORE_OR_LESS = {("at_least", 0): "slower", ("at_most", 0): "faster"}  # of extra time


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def stages_text(stages: str | list[str]) -> str:
    """'stage label', 'stages upload and download'."""
    names = as_list(stages)
    return f"{'stage' if len(names) == 1 else 'stages'} {listed(names)}"


def subject(test: dict[str, Any]) -> str:
    """What was measured: 'speed-up of A over B'."""
    text = _plain_subject(test)
    return f"growth with {test['growth']} of the {text}" if "growth" in test else text


def _plain_subject(test: dict[str, Any]) -> str:
    quantity = test["quantity"]
    if quantity == "finding":
        return f"{test['finding'].replace('_', ' ')} ({test['study']})"
    if quantity == "row":
        fixed = ", ".join(
            f"{k} {values_text(as_list(v))}" for k, v in (test.get("row") or {}).items()
        )
        return f"{test['value'].replace('_', ' ')} ({test['study']}{': ' + fixed if fixed else ''})"
    noun = NOUNS[quantity][0]
    if quantity == "ceiling":
        over = f" over {_ceiling(test['over'])}" if "over" in test else ""
        return f"{noun} {_ceiling(test['ceiling'])}{over}"
    if quantity == "call_share":
        noun += f" of {_call_parts(test)} in a run with setup"
    elif quantity == "stage_share":
        noun += f" of the {stages_text(test['stage'])}"
    elif "stage" in test:
        noun += f" in the {stages_text(test['stage'])}"
    if quantity in _OF_ITERATIONS and "iterations" in test:
        noun += f" for {many(test['iterations'], 'iteration')}"
    elif quantity == "extra_seconds":
        noun += " per iteration"
    if "trace" in test:
        names = [str(one) for one in as_list(test["trace"])]
        bases = [str(one) for one in as_list(test.get("baseline_trace", []))]
        return f"{noun} of {listed(names, 3)}" + (f" over {listed(bases, 3)}" if bases else "")
    text = f"{noun} of {name_text(test['variant'])}"
    if "over" in test:
        text += f" over {_ceiling(test['over'])}"
    if "baseline" in test:
        link = "beyond" if quantity == "extra_seconds" else "over"
        if "baseline_iterations" in test:
            link += f" {many(test['baseline_iterations'], 'iteration')} of"
        text += f" {link} {name_text(test['baseline'])}"
    return text


def _call_parts(test: dict[str, Any]) -> str:
    """'setup', 'setup and the stages upload and download'."""
    parts = as_list(test.get("stage", SETUP))
    stages = [one for one in parts if one != SETUP]
    texts = [SETUP] if SETUP in parts else []
    return " and ".join(texts + ([f"the {stages_text(stages)}"] if stages else []))


def _ceiling(path: str) -> str:
    """'gpu.fma_gflops.f32' as 'gpu fma f32'; the unit stands behind the number."""
    for unit in ("_gbytes_per_second", "_gflops", "_seconds"):
        path = path.replace(unit, "")
    return path.replace(".", " ").replace("_", " ")


def _unit_of(test: dict[str, Any]) -> str:
    if "growth" in test or "over" in test:
        return TIMES
    path = test.get("ceiling", "")
    for part, unit in (("gbytes", GBYTES), ("gflops", GFLOPS), ("seconds", SECONDS)):
        if part in path:
            return unit
    return NOUNS.get(test["quantity"], ("", ""))[1]


def number(value: float) -> str:
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e9):
        return count(int(value))
    return digits(value)


def unit(test: dict[str, Any], value: float, exact: bool = False) -> str:
    """`exact`: a number that someone wrote down, without the digits of a measured one."""
    kind = _unit_of(test)
    if kind == TIMES:
        return f"{value:.6g}{TIMES}" if exact else factor(value)
    if kind == SECONDS:
        if value == 0:
            return "0 s"
        return f"{value:.6g} s" if exact and abs(value) >= 0.01 else seconds(value)
    if kind == PERCENT:
        return f"{100 * value:.6g} %" if exact else percent(value)
    if kind:
        return f"{value:.6g} {kind}" if exact else f"{digits(value)} {kind}"
    return f"{value:.6g}" if exact and abs(value) < 1e4 else number(value)


def with_interval(test: dict[str, Any], found: Interval) -> str:
    text = unit(test, found.mid)
    if found.low == found.high:
        return text
    kind = "" if found.confident else ", smallest and largest"
    return f"{text} ({unit(test, found.low)} to {unit(test, found.high)}{kind})"


def span(test: dict[str, Any], numbers: Sequence[Interval]) -> str:
    return from_to(*(unit(test, end(n.mid for n in numbers)) for end in (min, max)))


def from_to(low: str, high: str) -> str:
    """'2 to 9 GB/s': the unit once where it is the same."""
    if low == high:
        return low
    kind = TIMES if high.endswith(TIMES) else " " + high.rpartition(" ")[2]
    return f"{low.removesuffix(kind) if ' ' in high or kind == TIMES else low} to {high}"


def bounds_text(test: dict[str, Any]) -> str:
    keys = ("at_least", "at_most")
    low, high = (unit(test, test[key], True) if key in test else None for key in keys)
    if low is None:
        return f"at most {high}"
    return f"at least {low}" if high is None else from_to(low, high)


def bounds_phrase(test: dict[str, Any]) -> str:
    """The same in a sentence: 'faster' for a speed-up of at least 1."""
    given = [(key, test[key]) for key in ("at_least", "at_most") if key in test]
    words = _DIRECTIONS if "speedup" in test["quantity"] else {}
    words = _MORE_OR_LESS if test["quantity"] == "extra_seconds" else words
    if "growth" not in test and len(given) == 1:
        return words.get(given[0], bounds_text(test))
    return bounds_text(test)


def where_text(test: dict[str, Any]) -> str:
    return ", ".join(
        f"{key} = {values_text(as_list(wanted))}"
        for key, wanted in (test.get("where") or {}).items()
    )


def place_value(value: Any) -> str:
    return count(value) if isinstance(value, int) and not isinstance(value, bool) else str(value)


def values_text(values: Sequence[Any], of: Sequence[Any] = ()) -> str:
    """'2, 20' or, of three or more neighbours among `of`, '2 to 128'."""
    texts = [place_value(value) for value in values]
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
    for axis in ("threads", *FOLLOWERS):
        others = [name for name in axes if name != axis]
        if len({tuple(p.get(name) for name in others) for p in everywhere}) == len(everywhere):
            axes.pop(axis, None)

    def within(clause: dict[str, list[Any]], places: Iterable[dict]) -> list[dict]:
        return [p for p in places if all(p.get(axis) in v for axis, v in clause.items())]

    def text(clause: dict[str, list[Any]]) -> str:
        return ", ".join(
            f"{axis} = {values_text(values, axes[axis])}" for axis, values in clause.items()
        )

    hull = {
        axis: [v for v in values if any(p.get(axis) == v for p in chosen)]
        for axis, values in axes.items()
    }
    hull = {axis: values for axis, values in hull.items() if len(values) < len(axes[axis])}
    if hull and len(within(hull, everywhere)) == len(chosen):
        return text(hull)
    left, clauses = list(chosen), []
    # By numbers of places, since so many clauses are tried.
    at = {
        axis: {v: {i for i, p in enumerate(everywhere) if p.get(axis) == v} for v in values}
        for axis, values in axes.items()
    }
    every = set(range(len(everywhere)))
    wanted = {i for i, p in enumerate(everywhere) if p in chosen}
    while left and len(clauses) < 3:
        candidates = []
        for axis, values in axes.items():
            for prefix in ({}, *({o: [v]} for o in axes if o != axis for v in axes[o])):
                among = every.intersection(*(at[o][v] for o, (v,) in prefix.items()))
                whole = [v for v in values if (inside := among & at[axis][v]) and inside <= wanted]
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
