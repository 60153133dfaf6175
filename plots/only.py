# SPDX-License-Identifier: Apache-2.0
"""`python -m plots figures --only REGEX`: some figures of the results on file, by
"experiment/figure"."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from plots import words
from plots.load import Result

_SHOWN = 5


class OnlyError(Exception):
    """Not an expression, or found in nothing; says what there is."""


def pattern_of(text: str) -> re.Pattern[str]:
    """Raises OnlyError where it is not an expression."""
    try:
        return re.compile(text)
    except re.error as error:
        raise OnlyError(f"--only '{text}' is not a regular expression: {error}") from error


def names_of(results: Iterable[Result]) -> list[str]:
    """Of all figures, as experiment/figure."""
    return [f"{r.experiment}/{figure['id']}" for r in results for figure in r.figures]


def narrowed(results: Sequence[Result], only: re.Pattern[str]) -> list[Result]:
    """Those with a figure whose "experiment/figure" the expression is found in, without their
    others. As in `run --only`, either name is also searched alone, which ^ and $ are about."""
    found = []
    for result in results:
        chosen = [
            figure
            for figure in result.spec.get("figures", [])
            if any(
                only.search(name)
                for name in (result.experiment, figure["id"], f"{result.experiment}/{figure['id']}")
            )
        ]
        one = replace(result, spec=result.spec | {"figures": chosen})
        found += [one] if one.figures else []
    return found


def takes_none(text: str, names: Sequence[str]) -> str:
    """Why nothing is drawn, in a few lines."""
    known = list(dict.fromkeys(names))
    parts = [part for part in re.findall(r"[\w-]{2,}", text.lower()) if not part.isdigit()]
    score = {name: sum(len(part) for part in parts if part in name.lower()) for name in known}
    best = max(score.values(), default=0)
    near = [name for name in known if best and score[name] == best]
    closest = difflib.get_close_matches(text, near or known, n=_SHOWN, cutoff=0.3)
    near = list(dict.fromkeys([*closest, *near]))
    shown, heading = (near, "the nearest") if near else (known, "the first of them")
    lines = "".join(f"\n  {name}" for name in shown[:_SHOWN])
    experiments = ", ".join(sorted({name.partition("/")[0] for name in known}))
    return (
        f"--only '{text}' matches nothing: it was searched for in the names of "
        f"{words.many(len(known), 'figure')} on file, experiment/figure; {heading}:{lines}\n"
        f"experiments: {experiments}"
    )
