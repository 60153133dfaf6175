# SPDX-License-Identifier: Apache-2.0
"""Rows of a study as a picture of a table."""

from __future__ import annotations

import math
import textwrap
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure

from plots.figures import _studies as studies
from plots.figures._studies import title_of, value_text
from plots.figures._tables import Column, Row, draw_table, fitting
from plots.load import Result
from plots.words import many

_MOST_ROWS = 60
# A letter of a heading over the width that a table gives to one of a text and to a digit.
_BOLD_LETTERS, _BOLD_DIGITS = 1.28, 1.1


def _columns(figure: dict[str, Any], rows: list[studies.Row]) -> list[tuple[str, str]]:
    """Keys with their headings; all keys of the rows if the figure names none."""
    wanted = figure.get("columns")
    if not wanted:
        keys = dict.fromkeys(key for row in rows for key in row)
        several = len({row[studies.STUDY] for row in rows}) > 1
        wanted = [key for key in keys if key != studies.STUDY or several]
    return [
        (one, title_of(one)) if isinstance(one, str) else (one["key"], one["title"])
        for one in wanted
    ]


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    rows = studies.rows_of(result, figure)
    columns = _columns(figure, rows)
    table = [Row([value_text(row.get(key)) for key, _ in columns]) for row in rows[:_MOST_ROWS]]
    fitted = fitting([heading for _, heading in columns], table)
    return draw_table([_roomy(column) for column in fitted], table)


def _roomy(column: Column) -> Column:
    """With its heading's lines broken here, and wide enough for them: bold letters are wider."""
    lines = textwrap.wrap(column.heading, column.letters)
    longest = max(len(line) for line in lines)
    width = math.ceil(longest * (_BOLD_DIGITS if column.right else _BOLD_LETTERS))
    return replace(column, heading="\n".join(lines), letters=max(column.letters, width))


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    left_out = len(studies.rows_of(result, figure)) - _MOST_ROWS
    note = [f"{many(left_out, 'more row')} in the result file."] if left_out > 0 else []
    return [*studies.sentences_of(result, figure), *note]
