# SPDX-License-Identifier: Apache-2.0
"""Shared by the kinds that show variants as horizontal bars, one panel per shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from plots import style
from plots.load import Cell, Interval, Result
from plots.select import series_of, shape_title
from plots.words import TIMES

LOG_FROM = 25.0  # largest over smallest beyond which bars from zero would hide the small ones


@dataclass(frozen=True)
class Line:
    """A vertical line with its name, e.g. a limit or the baseline."""

    place: float
    name: str


def by_shape(cells: Sequence[Cell]) -> list[list[Cell]]:
    shapes: dict[tuple[int, int, int], list[Cell]] = {}
    for cell in cells:
        shapes.setdefault(cell.shape, []).append(cell)
    return list(shapes.values())


def draw_bars(
    result: Result,
    cells: Sequence[Cell],
    value: Callable[[Cell], Interval | None],
    text: Callable[[float], str],
    tick: Callable[[float], str],
    line: Callable[[list[Cell]], Line | None],
    *,
    best_is_least: bool,
) -> Figure:
    """Best on top; cells without a value at the foot, marked."""
    groups = by_shape(cells)
    columns = 1 if len(groups) == 1 else 2
    height = -(-len(groups) // columns)
    bars = max(len(group) for group in groups)
    fig = Figure(
        figsize=(7.6 if columns == 1 else 10.4, height * (0.25 * bars + 0.8) + 0.2),
        layout="constrained",
    )
    axes = fig.subplots(height, columns, squeeze=False).ravel()
    for ax, group in zip(axes, groups, strict=False):
        known = sorted(
            ((c, v) for c in group if (v := value(c)) is not None),
            key=lambda pair: pair[1].mid if best_is_least else -pair[1].mid,
        )
        missing = [c for c in group if value(c) is None]
        _draw_group(ax, result, known, missing, (text, tick), line(group))
    for ax in axes[len(groups) :]:
        ax.set_visible(False)
    return fig


def _draw_group(
    ax: Axes,
    result: Result,
    known: Sequence[tuple[Cell, Interval]],
    missing: Sequence[Cell],
    texts: tuple[Callable[[float], str], Callable[[float], str]],
    line: Line | None,
) -> None:
    text, tick = texts
    mids = [v.mid for _, v in known] or [1.0]
    places = mids + ([line.place] if line else [])
    logarithmic = max(mids) / min(mids) > LOG_FROM
    low = min(places) / 2 if logarithmic else 0.0
    for row, (cell, v) in enumerate(known):
        look = style.look_of(result, cell)
        error = [[max(0.0, v.mid - v.low)], [max(0.0, v.high - v.mid)]]
        if logarithmic:  # a bar's length would mean nothing here, so a mark on a thread
            ax.plot([low, v.mid], [row, row], color=style.LIGHT_GREY, linewidth=1.0, zorder=1)
            ax.errorbar(
                v.mid,
                row,
                xerr=error,
                color=look.color,
                marker=look.marker,
                markersize=6,
                markerfacecolor="white" if look.hollow else look.color,
            )
        else:
            ax.barh(
                row,
                v.mid,
                height=0.68,
                color=look.color,
                edgecolor="white",
                linewidth=0.0,
                hatch="////" if look.hollow else None,
            )
            ax.errorbar(v.mid, row, xerr=error, color=style.BLACK, linestyle="none")
        ax.annotate(
            text(v.mid),
            (v.high, row),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=style.SMALL,
        )
    for row, cell in enumerate(missing, start=len(known)):
        ax.annotate(
            f"{TIMES} {cell.status if not cell.ok else 'no value'}",
            (0, row),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            color=style.GREY,
            fontsize=style.SMALL,
        )
    if line:
        ax.axvline(line.place, color=style.CEILING, linestyle="--", linewidth=1.0, zorder=2.5)
        ax.annotate(
            line.name,
            (line.place, 1),
            xycoords=("data", "axes fraction"),
            xytext=(2, 2),
            textcoords="offset points",
            fontsize=style.SMALL,
        )
    cells = [c for c, _ in known] + list(missing)
    labels = {s.cells[0].key: s.label for s in series_of(cells)}
    ax.set_yticks(range(len(cells)), [labels[c.key] for c in cells])
    ax.set_ylim(len(cells) - 0.4, -0.6)
    ax.grid(axis="y", visible=False)
    ax.set_title(shape_title(cells[0]), loc="left", pad=15 if line else 6, fontweight="bold")
    if logarithmic:
        ax.set_xscale("log")
        ax.set_xlim(low, max(places) * (max(places) / low) ** 0.16)
        ax.xaxis.set_major_locator(LogLocator(numticks=7))
        ax.xaxis.set_minor_locator(NullLocator())
    else:
        ax.set_xlim(0, max(places) * 1.2)
        ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: tick(x) if x else "0"))
