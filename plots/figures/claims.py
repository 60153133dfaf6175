# SPDX-License-Identifier: Apache-2.0
"""The statements of a source as a picture of a table: what this run measured, and whether each of
them holds here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from plots import captions, style
from plots.figures._tables import Column, Row, draw_table
from plots.load import Result
from plots.select import NothingToDraw
from plots.words import NONE, many

_COLUMNS = (
    Column("where", 20),
    Column("here", 26),
    Column("measured", 48),
)


def _verdicts(result: Result) -> Sequence[Any]:
    from plots.claims import verdicts  # late: the module reads figures' selections itself

    found = verdicts(result)
    if not found:
        raise NothingToDraw("the experiment tests no statement of a source at this scale")
    return found


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    from plots.claims import UNTESTED
    from plots.standing import untested_text

    found = _verdicts(result)
    ours = all(one.ours for one in found)
    rows = []
    for one in found:
        if one.kind == UNTESTED:
            continue
        color = style.VERDICTS.get(one.kind, style.GREY)
        texts = [
            one.claim["statement"],
            one.claim.get("where", NONE) + ("; our question" if one.ours and not ours else ""),
            f"{one.sign} {one.verdict}",
            one.measured or NONE,
        ]
        why = one.claim.get("why", "")
        rows.append(Row(texts, why, (None, None, color, None)))
    untested = untested_text(found)
    if untested:
        rows.append(Row(["", "", "", ""], f"{untested}."))
    return draw_table((Column("we ask" if ours else "the source says", 44), *_COLUMNS), rows)


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    from plots.claims import WORDS

    found = _verdicts(result)
    kinds, own = [one.kind for one in found], sum(one.ours for one in found)
    counts = [f"{word}: {kinds.count(k)}" for k, word in WORDS.items() if kinds.count(k)]
    what = many(len(found), "claim" if own < len(found) else "question")
    some = f", {own} of them our own questions" if 0 < own < len(found) else ""
    about = "; the statements are ours in wording, the source's in content"
    return [
        *captions.opening(result, figure),
        f"{what}{some}; {', '.join(counts)}.",
        f"Times are medians{about if own < len(found) else ''}.",
        *captions.closing(result),
    ]
