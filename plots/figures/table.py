# SPDX-License-Identifier: Apache-2.0
"""Published numbers beside measured ones, as a picture of a table."""

from __future__ import annotations

import textwrap
from typing import Any

from matplotlib.figure import Figure

from plots import captions, style
from plots.load import Result
from plots.published import PER_ITERATION, Comparison, comparisons, shape_text
from plots.select import NothingToDraw
from plots.words import NONE, factor

# Heading, place of the left edge or, for numbers, of the right edge (share of the width), wrapping.
_COLUMNS = (
    ("published as", 0.0, "left", 26),
    ("problem", 0.215, "left", 34),
    ("published on", 0.44, "left", 26),
    ("published", 0.755, "right", 20),
    ("measured", 0.865, "right", 20),
    ("published / ours", 1.0, "right", 20),
)
_LINE = 0.17  # inches per line of text


def _rows(result: Result) -> list[Comparison]:
    """Values per iteration are left to the convergence figures."""
    return [c for c in comparisons(result) if c.entry["quantity"] not in PER_ITERATION]


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
    rows = _rows(result)
    if not rows:
        raise NothingToDraw("the experiment quotes no published number")
    cells = [
        [textwrap.fill(text, column[3]) for text, column in zip(_texts(row), _COLUMNS, strict=True)]
        for row in rows
    ]
    heights = [max(text.count("\n") + 1 for text in line) * _LINE + 0.12 for line in cells]
    total = sum(heights) + 0.42
    fig = Figure(figsize=(10.6, total + 0.15))
    ax = fig.add_axes((0.01, 0.02, 0.98, 0.96))
    ax.set_xlim(0, 1)
    ax.set_ylim(total, 0)
    ax.axis("off")
    for heading, x, side, _ in _COLUMNS:
        ax.text(x, 0.2, heading, ha=side, va="center", fontweight="bold")
    y = 0.38
    for line, height in zip(cells, heights, strict=True):
        ax.axhline(y, color=style.LIGHT_GREY, linewidth=0.8)
        for text, (_, x, side, _) in zip(line, _COLUMNS, strict=True):
            ax.text(x, y + height / 2, text, ha=side, va="center", fontsize=style.SMALL)
        y += height
    return fig


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    rows = _rows(result)
    sentences = [figure["caption"]] if figure.get("caption") else []
    sentences += [
        captions.machine_sentence(result),
        "Published on the machines named here, some of them many years older: the last column "
        "compares machines and code together.",
    ]
    absent = [row for row in rows if row.measured is None]
    sentences += [f"{row.entry['label']}: {row.remark.rstrip('.')}." for row in absent[:4]]
    if len(absent) > 4:
        sentences.append(f"{len(absent) - 4} more have no counterpart in this run.")
    return list(dict.fromkeys(sentences))
