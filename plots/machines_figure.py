# SPDX-License-Identifier: Apache-2.0
"""How many times as fast the second machine is, shape by shape, next to what the limits of the
two would give."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from plots import style
from plots.compare_figures import ratio_tick, ratio_ticks
from plots.machines import KINDS, Pair, Shared
from plots.render import Drawing
from plots.select import NothingToDraw
from plots.words import TIMES, digits, listed, many, percent, rounded_count, span

WIDTH = 4.6  # inches: it stays readable on a phone
MOST_ROWS = 40  # of one kind; beyond, every so many of them, by their ratio
_ROW, _HEAD, _FOOT = 0.15, 0.34, 0.72  # inches
_BAND = "#ececec"
KINDS_IN_TEXT = {"memory": "points are read from memory", "products": "products bind"}
# Colour, marker and whether it is filled; the marker points to where the second machine lies.
_MARKS = {
    "faster": (style.COMPARED["faster"][0], ">", True),
    "slower": (style.COMPARED["slower"][0], "<", True),
    "equal": (style.GREY, "o", True),
    "undecided": (style.COMPARED["unclear"][0], "D", False),
}


def draw_shapes(pair: Pair, effect: float, on_gpu: bool) -> Drawing:
    """A row per shape, in panels by what binds."""
    name = "shapes" if on_gpu else "shapes-cpu"
    where = "GPU" if on_gpu else "processor"
    about = {
        "id": name,
        "title": f"{pair.second['name']} against {pair.first['name']}, shape by shape ({where})",
        "kind": "machines",
    }
    try:
        style.apply()
        return Drawing(about, *_draw(pair, effect, on_gpu))
    except NothingToDraw as reason:
        return Drawing(about, None, [], str(reason))


def _draw(pair: Pair, effect: float, on_gpu: bool) -> tuple[Figure, list[str]]:
    cells = [cell for cell in pair.shapes if cell.on_gpu == on_gpu]
    if not cells:
        raise NothingToDraw("the two share no cell with a time")
    panels = [(kind, [c for c in cells if c.kind == kind]) for kind in KINDS]
    panels = [(kind, sorted(own, key=lambda c: c.speedup.mid)) for kind, own in panels if own]
    shown = [(kind, _spread(own)) for kind, own in panels]
    heights = [len(own) * _ROW + _HEAD for _, own in shown]
    figure = Figure(figsize=(WIDTH, sum(heights) + _FOOT), layout="constrained")
    grid = figure.add_gridspec(len(shown), 1, height_ratios=heights)
    drawn = [cell for _, own in shown for cell in own]
    far = _far(drawn, effect)
    for place, (kind, own) in enumerate(shown):
        ax = figure.add_subplot(grid[place])
        _panel(ax, own, effect, far)
        ax.set_title(KINDS[kind], loc="left", fontsize=style.SMALL, fontweight="bold", pad=3)
    figure.supxlabel(f"times as fast as {pair.first['name']}", fontsize=style.SMALL)
    figure.legend(
        handles=_handles(drawn, effect),
        loc="outside upper left",
        ncols=2,
        fontsize=style.TINY,
        frameon=False,
    )
    left_out = len(cells) - len(drawn)
    return figure, _caption(pair, drawn, left_out)


def _spread(cells: Sequence[Shared]) -> list[Shared]:
    """Not more than fit, the first and the last among them."""
    if len(cells) <= MOST_ROWS:
        return list(cells)
    step = (len(cells) - 1) / (MOST_ROWS - 1)
    return [cells[round(place * step)] for place in range(MOST_ROWS)]


def _far(cells: Sequence[Shared], effect: float) -> float:
    """Both ends of the axis: as far as the farther mark; a far longer interval runs off."""
    marks = [cell.speedup.mid for cell in cells]
    marks += [c.possible for c in cells if c.possible and c.kind in KINDS_IN_TEXT]
    ends = [end for cell in cells for end in (cell.speedup.low, cell.speedup.high)]
    most = max(max(mark, 1 / mark) for mark in marks)
    farthest = max(max(end, 1 / end) for end in ends)
    return max(min(farthest, most**2), most, (1 + effect) ** 1.6) ** 1.08


def _name(cell: Shared) -> str:
    """The shape, and which variant on what."""
    n, d, k = (rounded_count(value) for value in (cell.n, cell.d, cell.k))
    several = f" {TIMES}{cell.gpus} GPUs" if cell.gpus > 1 else ""
    return f"{n} {TIMES} {d}, k = {k}  {cell.variant}{several}"


def _panel(ax: Axes, cells: Sequence[Shared], effect: float, far: float) -> None:
    ax.axvspan(1 / (1 + effect), 1 + effect, color=_BAND, linewidth=0, zorder=0)
    ax.axvline(1, color=style.BASELINE, linewidth=1.0, zorder=1)
    for row, cell in enumerate(cells):
        color, marker, filled = _MARKS[cell.verdict]
        ends = [min(max(end, 1 / far), far) for end in (cell.speedup.low, cell.speedup.high)]
        if cell.speedup.confident:
            ax.plot(ends, [row, row], color=color, linewidth=1.1, zorder=2, solid_capstyle="butt")
        if cell.possible and 1 / far < cell.possible < far:
            ax.plot([cell.possible], [row], "|", color=style.BLACK, markersize=6.5, zorder=3)
        ax.plot(
            [cell.speedup.mid],
            [row],
            marker=marker,
            markersize=4.2,
            color=color,
            markerfacecolor=color if filled else "white",
            linestyle="none",
            zorder=4,
        )
    ax.set_ylim(len(cells) - 0.4, -0.6)
    ax.set_yticks(range(len(cells)), [_name(cell) for cell in cells])
    ax.tick_params(axis="y", length=0, labelsize=style.TINY)
    ax.tick_params(axis="x", labelsize=style.TINY)
    ax.grid(axis="y", visible=False)
    ax.set_xscale("log")
    ax.set_xlim(1 / far, far)
    ax.xaxis.set_major_locator(FixedLocator(ratio_ticks(far)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: ratio_tick(value)))


def _handles(cells: Sequence[Shared], effect: float) -> list[Line2D | Patch]:
    handles: list[Line2D | Patch] = []
    for verdict, (color, marker, filled) in _MARKS.items():
        number = sum(cell.verdict == verdict for cell in cells)
        if number:
            handles.append(
                style.handle(
                    f"{verdict} ({number})",
                    color=color,
                    marker=marker,
                    markersize=4.2,
                    markerfacecolor=color if filled else "white",
                    linewidth=1.1,
                )
            )
    if any(cell.possible for cell in cells):
        handles.append(
            style.handle(
                "what the limits of the two would give",
                color=style.BLACK,
                marker="|",
                linestyle="none",
                markersize=6.5,
            )
        )
    handles.append(Patch(color=_BAND, label=f"within {percent(effect)}"))
    return handles


def _caption(pair: Pair, cells: Sequence[Shared], left_out: int) -> list[str]:
    levels = sorted({cell.confidence for cell in cells if cell.confidence})
    notes = [
        "Each shape by the fastest variant that both machines have, an exact one where there is "
        f"one; right of 1 is "
        f"{pair.second['name']} faster."
    ]
    if levels:
        names = [percent(level) for level in levels]
        numbers = span([number for cell in cells for number in cell.processes])
        notes.append(
            f"Lines: the interval of the ratio ({listed(names)}), from {numbers} processes a side."
        )
    if left_out:
        notes.append(f"{many(left_out, 'shape')} between those that are drawn stand in the table.")
    by_limits = []
    for kind in ("memory", "products"):
        possible = [cell.possible for cell in cells if cell.possible and cell.kind == kind]
        if possible:
            middle = statistics.median(possible)
            by_limits.append(f"{digits(middle)}{TIMES} where {KINDS_IN_TEXT[kind]}")
    if by_limits:
        notes.append(f"By its limits {pair.second['name']} is {listed(by_limits)}.")
    return notes
