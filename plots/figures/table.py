# SPDX-License-Identifier: Apache-2.0
"""Published numbers beside measured ones, as a picture of a table."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from plots import captions
from plots.figures._tables import Column, Row, draw_table
from plots.load import Result
from plots.published import PER_ITERATION, Comparison, comparisons, shape_text
from plots.select import NothingToDraw
from plots.words import NONE, factor

_COLUMNS = (
    Column("published as", 32),
    Column("problem", 34),
    Column("published on", 28),
    Column("published", 13, right=True),
    Column("measured", 17, right=True),
    Column("published / ours", 16, right=True),
)


def _rows(result: Result, figure: dict[str, Any]) -> list[Comparison]:
    """Those of the figure's group; values per iteration are left to the convergence figures."""
    group = figure.get("group")
    return [
        c
        for c in comparisons(result)
        if c.entry["quantity"] not in PER_ITERATION and group in (None, c.entry.get("group"))
    ]


def _texts(row: Comparison) -> list[str]:
    ours = row.entry.get("variant")
    label = row.entry["label"] + (
        f" ({ours} {row.entry.get('precision', '')})".replace(" )", ")") if ours else ""
    )
    return [
        label,
        shape_text(row.entry) or NONE,
        row.entry["machine"],
        row.published_text,
        row.measured_text,
        factor(row.ratio),
    ]


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    rows = _rows(result, figure)
    if not rows:
        group = figure.get("group")
        raise NothingToDraw(
            f"the experiment quotes no published number of the group {group!r}"
            if group
            else "the experiment quotes no published number"
        )
    return draw_table(_COLUMNS, [Row(_texts(row), row.entry.get("why", "")) for row in rows])


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    rows = _rows(result, figure)
    sentences = [
        *captions.opening(result, figure),
        "Published on the machines named here, some of them many years older: the last column "
        "compares machines and code together.",
    ]
    absent = [row for row in rows if row.measured is None]
    sentences += [f"{row.entry['label']}: {row.remark.rstrip('.')}." for row in absent[:4]]
    if len(absent) > 4:
        sentences.append(f"{len(absent) - 4} more have no counterpart in this run.")
    return list(dict.fromkeys(sentences))
