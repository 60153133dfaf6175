# SPDX-License-Identifier: Apache-2.0
"""Shared by the kinds that are pictures of tables: wrapped texts between thin lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots import style
from plots.words import wrapped

_LINE = 0.155  # inches per line of text
_PAD = 0.13
_LETTER = 0.0615  # inches of an average letter of small text
_DIGIT = 0.0715
_BOLD = 0.0705  # inches of a bold letter
_BASELINE = 0.115  # of the first line, below the row's padding
_NARROWEST = 6.6  # inches, so that captions have room
_BETWEEN = 0.22  # inches between two columns
_MARGIN = 0.1


@dataclass(frozen=True)
class Column:
    heading: str
    letters: int  # width: longer texts are wrapped
    right: bool = False  # numbers


@dataclass(frozen=True)
class Row:
    texts: Sequence[str]
    note: str = ""  # a line below, over the whole width
    colors: Sequence[str | None] = ()  # of the texts; black where none is given


def fitting(headings: Sequence[str], rows: Sequence[Row], widest: int = 44) -> list[Column]:
    """Columns as wide as their texts; of numbers where every text begins with a digit or sign."""
    columns = []
    for index, heading in enumerate(headings):
        texts = [row.texts[index] for row in rows]
        longest = max(len(text) for text in texts)
        numbers = all(text[:1].isdigit() or text[:1] in "\u2212-\u2014~" for text in texts)
        letters = min(max(longest, max(len(word) for word in heading.split())), widest)
        columns.append(Column(heading, max(letters, 4), numbers))
    return columns


def draw_table(columns: Sequence[Column], rows: Sequence[Row]) -> Figure:
    widths = [column.letters * (_DIGIT if column.right else _LETTER) for column in columns]
    width = sum(widths) + _BETWEEN * (len(columns) - 1) + 2 * _MARGIN
    note_letters = int((width - 2 * _MARGIN) / _LETTER)
    heads = [_wrap(column.heading, column.letters) for column in columns]
    texts = [_wrap_row(row, columns) for row in rows]
    notes = [_wrap(row.note, note_letters) if row.note else "" for row in rows]
    head_height = _LINE * 1.12 * max(_lines(head) for head in heads) + _PAD
    heights = [
        max(_lines(text) for text in line) * _LINE + (_lines(note) * _LINE if note else 0) + _PAD
        for line, note in zip(texts, notes, strict=True)
    ]
    total = head_height + sum(heights) + 0.04
    paper = max(width, _NARROWEST)
    fig = Figure(figsize=(paper, total))
    ax = fig.add_axes((0, 0, 1, 1))
    ax.set_xlim(0, paper)
    ax.set_ylim(total, 0)
    ax.axis("off")
    places = []
    left = _MARGIN
    for column, own in zip(columns, widths, strict=True):
        places.append((left + own, "right") if column.right else (left, "left"))
        left += own + _BETWEEN
    for (x, side), head in zip(places, heads, strict=True):
        ax.text(x, head_height - _PAD / 2, head, ha=side, va="bottom", fontweight="bold")
    y = head_height
    for line, note, row, height in zip(texts, notes, rows, heights, strict=True):
        ax.plot([_MARGIN, width - _MARGIN], [y, y], color=style.LIGHT_GREY, linewidth=0.8, zorder=0)
        colors = list(row.colors) or [None] * len(line)
        for (x, side), text, color in zip(places, line, colors, strict=True):
            look = {"color": color or style.BLACK, "fontweight": "bold" if color else "normal"}
            _write(ax, x, y + _PAD / 2, text, ha=side, **look)
        if note:
            top = y + height - _PAD / 2 - _lines(note) * _LINE
            _write(ax, _MARGIN, top, note, color=style.GREY, fontstyle="italic")
        y += height
    return fig


def _write(ax: Axes, x: float, top: float, text: str, **look: Any) -> None:
    """Line by line, so that the first lines of a row stand on one line."""
    for index, line in enumerate(text.split("\n")):
        y = top + _BASELINE + index * _LINE
        ax.text(x, y, line, va="baseline", fontsize=style.SMALL, **look)


def _wrap_row(row: Row, columns: Sequence[Column]) -> list[str]:
    """Coloured texts are bold, so fewer of their letters fit."""
    colors = list(row.colors) or [None] * len(columns)
    return [
        _wrap(text, int(column.letters * _LETTER / _BOLD) if color else column.letters)
        for text, column, color in zip(row.texts, columns, colors, strict=True)
    ]


def _wrap(text: str, letters: int) -> str:
    """Long words are broken rather than drawn over the next column."""
    paragraphs = str(text).split("\n")
    return "\n".join(wrapped(part, max(letters, 4)) for part in paragraphs)


def _lines(text: str) -> int:
    return text.count("\n") + 1
