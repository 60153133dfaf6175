# SPDX-License-Identifier: Apache-2.0
"""Shared by the kinds that show variants as horizontal bars, one panel per shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from plots import exactness, style
from plots.load import Cell, Interval, Result
from plots.select import series_of, shape_title, status_of

LOG_FROM = 25.0  # largest over smallest beyond which bars from zero would hide the small ones
_LOG_FROM_LINE = 100.0  # the same for a line, which is thin and has a name
_FEW_DECADES = 30.0  # below, there are ticks between the powers of ten
_FEW_PANELS = 6  # more than these stand three side by side
_BAR, _AROUND, _LINE_NAME = 0.215, 0.75, 0.15  # inches
# To the right of the longest bar, for its value: a factor, of a logarithmic axis an exponent. More
# where a price stands next to the value.
_ROOM, _ROOM_PRICED = 1.2, 1.5
_ROOM_LOG, _ROOM_LOG_PRICED = 0.16, 0.4
_OVER_LINES = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}


@dataclass(frozen=True)
class Line:
    """A vertical line with its name, e.g. a limit or the baseline, and its look."""

    place: float
    name: str
    look: dict[str, Any]


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
    lines: Callable[[list[Cell]], list[Line]],
    *,
    best_is_least: bool,
) -> Figure:
    """Best on top; cells without a value at the foot, marked. Exact variants stand apart, and what
    others pay for their times next to these."""
    groups = by_shape(cells)
    columns = 1 if len(groups) == 1 else 2 if len(groups) <= _FEW_PANELS else 3
    rows = [groups[i : i + columns] for i in range(0, len(groups), columns)]
    heights = [
        _BAR * max(len(group) for group in row) + _AROUND + _LINE_NAME * _most(lines, row)
        for row in rows
    ]
    fig = Figure(
        figsize=((7.6, 10.4, 14.4)[columns - 1], sum(heights) + 0.2),
        layout="constrained",
    )
    grid = fig.subplots(len(rows), columns, squeeze=False, height_ratios=heights)
    axes = grid.ravel()
    logarithmic = any(_spreads(group, value, lines(group)) for group in groups)
    priced = exactness.is_mixed([c for c in cells if value(c) is not None])
    for ax, group in zip(axes, groups, strict=False):
        known = sorted(
            ((c, v) for c in group if (v := value(c)) is not None),
            key=lambda pair: (
                priced and not pair[0].exact,
                pair[1].mid if best_is_least else -pair[1].mid,
            ),
        )
        missing = [c for c in group if value(c) is None]
        _draw_group(ax, result, known, missing, (text, tick), lines(group), (logarithmic, priced))
        if exactness.is_mixed([c for c, _ in known]):
            exact = sum(c.exact for c, _ in known)
            ax.axhline(exact - 0.5, color=style.GREY, linewidth=0.8, zorder=0.8)
    for ax in axes[len(groups) :]:
        ax.set_visible(False)
    return fig


def _most(lines: Callable[[list[Cell]], list[Line]], groups: Sequence[list[Cell]]) -> int:
    return max(len(lines(group)) for group in groups)


def _spreads(
    group: Sequence[Cell], value: Callable[[Cell], Interval | None], lines: Sequence[Line]
) -> bool:
    """Would bars from zero hide the small ones, or all of them a line far below?"""
    mids = [v.mid for c in group if (v := value(c)) is not None]
    if not mids:
        return False
    lowest = min((line.place for line in lines), default=max(mids))
    return max(mids) / min(mids) > LOG_FROM or max(mids) / lowest > _LOG_FROM_LINE


def _draw_group(
    ax: Axes,
    result: Result,
    known: Sequence[tuple[Cell, Interval]],
    missing: Sequence[Cell],
    texts: tuple[Callable[[float], str], Callable[[float], str]],
    lines: Sequence[Line],
    scale: tuple[bool, bool],
) -> None:
    text, tick = texts
    logarithmic, priced = scale
    places = [v.mid for _, v in known] + [line.place for line in lines] or [1.0]
    low = min(places) / 2 if logarithmic else 0.0
    looks = [style.look_of(result, cell) for cell, _ in known]
    mids = [v.mid for _, v in known]
    errors = [
        [max(0.0, v.mid - v.low) for _, v in known],
        [max(0.0, v.high - v.mid) for _, v in known],
    ]
    if not logarithmic and known:
        ax.barh(
            range(len(known)),
            mids,
            height=0.68,
            color=[look.color for look in looks],
            edgecolor="white",
            linewidth=0.0,
            hatch=[look.hatch or "" for look in looks],
        )
        ax.errorbar(mids, range(len(known)), xerr=errors, color=style.BLACK, linestyle="none")
    for row, (cell, v) in enumerate(known):
        if logarithmic:  # a bar's length would mean nothing here, so a mark on a thread
            ax.plot([low, v.mid], [row, row], color=style.LIGHT_GREY, linewidth=1.0, zorder=1)
            error = [[side[row]] for side in errors]
            ax.errorbar(v.mid, row, xerr=error, markersize=6, **looks[row].marks)
        price = f", {exactness.wrong_text(cell)}" if priced and not cell.exact else ""
        ax.annotate(
            text(v.mid) + price,
            (v.high, row),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=style.SMALL,
            bbox=_OVER_LINES,
            zorder=2.8,
        )
    for row, cell in enumerate(missing, start=len(known)):
        # Over the whole width and in its middle: at an end it would read as the least or the most.
        ax.axhspan(row - 0.42, row + 0.42, linewidth=0, zorder=0.5, **style.GAP)
        ax.text(
            0.5,
            row,
            status_of(cell) if not cell.ok else "no value",
            transform=ax.get_yaxis_transform(),
            ha="center",
            va="center",
            color=style.GREY,
            fontsize=style.SMALL,
            bbox=_OVER_LINES,
            zorder=2.8,
        )
    # Names one above the other, since lines may be near each other, and towards the panel's middle.
    high = max(places)
    middle = (low * high) ** 0.5 if logarithmic else high / 2
    for above, line in enumerate(sorted(lines, key=lambda one: -one.place)):
        ax.axvline(line.place, zorder=2.5, **line.look)
        ax.annotate(
            line.name,
            (line.place, 1),
            xycoords=("data", "axes fraction"),
            xytext=(2 if line.place <= middle else -2, 2 + 11 * above),
            textcoords="offset points",
            fontsize=style.SMALL,
            ha="left" if line.place <= middle else "right",
        )
    cells = [c for c, _ in known] + list(missing)
    labels = {s.cells[0].key: s.label for s in series_of(cells)}
    ax.set_yticks(range(len(cells)), [labels[c.key] for c in cells])
    ax.set_ylim(len(cells) - 0.4, -0.6)
    ax.grid(axis="y", visible=False)
    pad = 6 + (11 * len(lines) if lines else 0)
    ax.set_title(shape_title(cells[0]), loc="left", pad=pad, fontweight="bold")
    if logarithmic:
        ax.set_xscale("log")
        end = max([*places, *(v.high for _, v in known)])
        ax.set_xlim(low, end * (end / low) ** (_ROOM_LOG_PRICED if priced else _ROOM_LOG))
        ax.xaxis.set_major_locator(
            LogLocator(subs=(1, 2, 5) if end / low < _FEW_DECADES else (1,), numticks=7)
        )
        ax.xaxis.set_minor_locator(NullLocator())
    else:
        room = _ROOM_PRICED if priced else _ROOM
        ax.set_xlim(0, max([*places, *(v.high for _, v in known)]) * room)
        ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: tick(x) if x else "0"))
