# SPDX-License-Identifier: Apache-2.0
"""Published numbers next to measured ones, as a picture of a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from plots import captions, exactness
from plots.figures._tables import Column, Row, draw_table
from plots.load import Result
from plots.published import (
    NOT_RUN,
    PER_ITERATION,
    UNRECORDED,
    Comparison,
    about,
    comparisons,
    headings,
    label_text,
    shape_text,
)
from plots.select import NothingToDraw, name_text
from plots.words import NONE, factor, many

_FEW = 4  # remarks that the caption repeats
_THOUSANDS = re.compile(r"(?<=\d) (?=\d)|(?<==) ")  # blanks at which no line breaks


def _columns(rows: Sequence[Comparison]) -> tuple[Column, ...]:
    words = headings(rows)
    return (
        Column(words.label, 32),
        Column("problem", 30),
        Column(words.machine, 26),
        Column(words.value, 13, right=True),
        Column("measured", 17, right=True),
        Column("95 % interval", 19, right=True),
        Column(words.ratio, 11, right=True),
    )


def _rows(result: Result, figure: dict[str, Any]) -> list[Comparison]:
    """Those of the figure's group; values per iteration are left to the convergence figures."""
    group = figure.get("group")
    return [
        c
        for c in comparisons(result)
        if c.entry["quantity"] not in PER_ITERATION and group in (None, c.entry.get("group"))
    ]


def _shown(result: Result, rows: Sequence[Comparison]) -> list[Comparison]:
    """All of them; of a partial file those that it has something on, if there are any."""
    known = [r for r in rows if r.measured is not None or r.text is not None or r.remark != NOT_RUN]
    return list(rows) if result.complete or not known else known


def _texts(row: Comparison, rows: Sequence[Comparison]) -> list[str]:
    ours = f" ({name_text(row.entry)})" if "variant" in row.entry else ""
    label = label_text(row, rows) + ours
    return [
        label,
        _THOUSANDS.sub("\N{NO-BREAK SPACE}", shape_text(row.entry)) or NONE,
        row.entry["machine"],
        row.published_text,
        f"{row.measured_text}\n{row.price}" if row.price else row.measured_text,
        row.interval_text,
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
    rows = _shown(result, rows)
    lines = [Row(_texts(row, rows), row.entry.get("why", "")) for row in rows]
    return draw_table(_columns(rows), lines)


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    every = _rows(result, figure)
    rows = _shown(result, every)
    sentences = [
        *captions.opening(result, figure),
        *about(rows),
        *_partly(rows),
    ]
    if any(row.price for row in rows):
        sentences.append(exactness.PRICE)
    if any(UNRECORDED in row.remark for row in rows if row.measured is not None):
        sentences.append(f"Times of libraries are over all T iterations: {UNRECORDED}.")
    absent = [row for row in rows if row.measured is None and row.text is None]
    sentences += [f"{row.entry['label']}: {row.remark.rstrip('.')}." for row in absent[:_FEW]]
    if len(absent) > _FEW:
        sentences.append(f"{len(absent) - _FEW} more have no counterpart in this run.")
    if len(every) > len(rows):
        left_out = many(len(every) - len(rows), "number")
        sentences.append(f"Left out: {left_out} without a counterpart in this file.")
    return list(dict.fromkeys([*sentences, *captions.closing(result)]))


def _partly(rows: Sequence[Comparison]) -> list[str]:
    """Numbers of ours that are over fewer shapes than those next to them, or rest on single
    samples."""
    return [f"{row.entry['label']}: {row.remark}." for row in rows if row.lacking or row.singles]
