# SPDX-License-Identifier: Apache-2.0
"""Shared by the kinds that write a value into each field of a grid: speed-ups, winners."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from plots import style
from plots.load import Cell, Interval
from plots.metrics import is_unsure
from plots.select import UNSTEADY
from plots.words import TIMES, compact, digits

_GAP_PAPER = {"facecolor": style.GAP["facecolor"], "edgecolor": "none", "pad": 0.8}
_WORST_FIRST = ("wrong", "error", UNSTEADY, "skipped")
_SHADES = 256
_LARGEST_SHADE = 1000.0  # a factor beyond it gets no darker
UNSURE = "~"  # before a ratio of two times whose intervals overlap


@dataclass(frozen=True)
class Field:
    """A filled field and its text; without a colour a gap: hatched, its text being a word. Hatching
    over the colour shows what was left out of the field."""

    text: str
    color: style.Color | None = None
    bold: bool = False
    hatch: str | None = None


def gap(cells: Sequence[Cell]) -> Field:
    """The field of cells none of which has a value; the worst of them gives the word."""
    statuses = {UNSTEADY if cell.unsteady else cell.status for cell in cells}
    return Field(next((s for s in _WORST_FIRST if s in statuses), "no value"))


def draw_fields(
    ax: Axes,
    columns: Sequence[str],
    rows: Sequence[str],
    fields: Mapping[tuple[int, int], Field],
    size: float = style.TINY,
) -> None:
    """`fields` by row and column, rows from the top; places without one stay blank."""
    for (row, column), field in fields.items():
        filled = field.color is not None
        face = {"facecolor": field.color, "edgecolor": "none"} if filled else style.GAP
        box = (column - 0.48, row - 0.47)
        ax.add_patch(Rectangle(box, 0.96, 0.94, linewidth=0.0, zorder=1, **face))
        paper = None if filled else _GAP_PAPER
        if field.color is not None and field.hatch:
            lines = {"facecolor": "none", "edgecolor": style.ink(field.color), "hatch": field.hatch}
            ax.add_patch(Rectangle(box, 0.96, 0.94, linewidth=0.0, zorder=1.5, **lines))
            paper = {"facecolor": field.color, "edgecolor": "none", "pad": 1.2}
        ax.text(
            column,
            row,
            field.text,
            ha="center",
            va="center",
            fontsize=size,
            fontweight="bold" if field.bold else "normal",
            color=style.ink(field.color) if field.color is not None else style.GREY,
            bbox=paper,
            linespacing=1.15,
            zorder=2,
        )
    ax.set_xlim(-0.5, len(columns) - 0.5)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xticks(range(len(columns)), columns)
    ax.set_yticks(range(len(rows)), rows)
    ax.tick_params(length=0)
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)


def ratio_text(ratio: Interval) -> str:
    """The factor, short enough for a field, with a mark where it may as well be 1."""
    if ratio.mid == 1.0:
        return f"1{TIMES}"
    unsure = UNSURE if is_unsure(ratio) else ""
    value = ratio.mid
    short = compact(round(value, -2)) if value >= 9_999.5 else digits(value, 2)
    if 99.5 <= value < 999.5:
        short = f"{value:.0f}"
    return unsure + short + TIMES


def ratio_field(ratio: Interval, largest: float, bold: bool = False) -> Field:
    return Field(ratio_text(ratio), style.warmth(ratio.mid, largest), bold)


def largest_factor(ratios: Sequence[Interval]) -> float:
    """Where the colours of speed-ups end: the largest factor up or down that is shown."""
    factors = [max(r.mid, 1 / r.mid) for r in ratios]
    return min(max(factors, default=2.0), _LARGEST_SHADE)


def ratio_scale(fig: Figure, axes: Sequence[Axes], largest: float) -> None:
    """The colours of speed-ups as a bar next to the panels."""
    largest = max(largest, 1.5)
    ratios = np.geomspace(1 / largest, largest, _SHADES)
    colors = ListedColormap([style.warmth(float(r), largest) for r in ratios])
    image = axes[0].scatter(
        [], [], c=[], cmap=colors, norm=LogNorm(1 / largest, largest)
    )  # draws nothing, but carries the scale
    bar = fig.colorbar(image, ax=list(axes), fraction=0.03, pad=0.015, aspect=28, shrink=0.9)
    steps = [1, 2, 5, 10, 20, 50, 100]
    if largest > 20:
        steps = [1, 3, 10, 30, 100, 300, 1000]
    places = [s for s in steps if s <= largest * 1.001]
    ticks = [1 / s for s in reversed(places[1:])] + [float(s) for s in places]
    bar.set_ticks(ticks, labels=[f"{compact(t)}{TIMES}" if t >= 1 else _below(t) for t in ticks])
    bar.minorticks_off()
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=2)


def _below(ratio: float) -> str:
    return f"1/{round(1 / ratio)}"


def gap_patch() -> Patch:
    return Patch(label="no time (see the notes)", linewidth=0.0, **style.GAP)


def hatch_patch(hatch: str, label: str) -> Patch:
    return Patch(label=label, linewidth=0.0, facecolor="none", edgecolor=style.BLACK, hatch=hatch)


def wrap_name(name: str, width: int) -> list[str]:
    """A name of parts joined by underscores, over as few lines of `width` letters as its parts
    allow."""
    parts = name.split("_")
    pieces = [part + "_" for part in parts[:-1]] + parts[-1:]
    lines = [""]
    for piece in pieces:
        if lines[-1] and len(lines[-1]) + len(piece) > width:
            lines.append("")
        lines[-1] += piece
    return lines


def near_square(count: int, widest: int) -> int:
    """How many panels stand side by side."""
    return min(widest, max(1, math.ceil(math.sqrt(count))))
