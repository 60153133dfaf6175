# SPDX-License-Identifier: Apache-2.0
"""Small multiples: a grid of axes, a legend next to it, marks for what has no value."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from plots import style
from plots.load import Cell, Interval, Result
from plots.select import Panel, Series, series_of
from plots.words import compact, digits, short_count

Value = Callable[[Cell], Interval | None]
Gaps = Sequence[tuple[float, style.Color]]  # places without a value, each in its series' colour

PANEL_WIDTH, PANEL_HEIGHT = 2.75, 2.35  # inches
LEGEND_WIDTH = 2.35
GAP_LABEL = "no time"
_CROSS: dict[str, Any] = {"marker": "x", "markersize": 5.0, "markeredgewidth": 1.4}
FEWEST_JOINED = 3  # places; a line over fewer would show crossings that nobody measured
_HIGHLIGHT = {"linewidth": 2.4, "markersize": 7.0, "zorder": 4}
_BACKGROUND = {"linewidth": 0.9, "markersize": 3.5, "zorder": 2.5}
_ZERO_ROW, _ZERO_MARGIN = 0.05, 0.035  # of the height of what is above the strip
_LINE = 1.2  # of the height of its letters


@dataclass(frozen=True)
class Ceiling:
    """A measured limit that a panel shows as a horizontal line."""

    name: str
    rate: float
    on_gpu: bool
    kind: str  # as plots.style knows it

    @property
    def look(self) -> dict[str, Any]:
        return style.limit(self.on_gpu, self.kind)


@dataclass(frozen=True)
class Reference:
    """A number of a source that a panel shows as a horizontal line, over the places that it is
    about or over all."""

    name: str
    value: float
    places: tuple[float, float] | None = None


def figure_grid(
    rows: Sequence[Sequence[Panel | None]], *, legend: bool = True, height: float = PANEL_HEIGHT
) -> tuple[Figure, list[list[Axes | None]]]:
    """Axes for a grid of panels; places without a panel stay empty. One panel gets more room."""
    height_count, width_count = len(rows), len(rows[0])
    single = height_count == width_count == 1
    width = 5.6 if single else PANEL_WIDTH * width_count
    fig = Figure(
        figsize=(
            width + (LEGEND_WIDTH if legend else 0) + 0.3,
            (3.6 if single and height == PANEL_HEIGHT else height * height_count) + 0.5,
        ),
        layout="constrained",
    )
    axes = fig.subplots(height_count, width_count, squeeze=False, sharey=False)
    grid: list[list[Axes | None]] = []
    for panel_row, axes_row in zip(rows, axes, strict=True):
        line: list[Axes | None] = []
        for panel, ax in zip(panel_row, axes_row, strict=True):
            if panel is None:
                ax.set_visible(False)
                line.append(None)
                continue
            ax.set_title(panel.title, loc="left")
            line.append(ax)
        grid.append(line)
    return fig, grid


def numeric_x(ax: Axes, name: str, values: Sequence[int]) -> None:
    """A logarithmic axis that names exactly the measured values."""
    places = sorted(set(values))
    ax.set_xscale("log")
    if len(places) == 1:
        ax.set_xlim(places[0] / 2, places[0] * 2)
    else:
        margin = (places[-1] / places[0]) ** 0.07
        ax.set_xlim(places[0] / margin, places[-1] * margin)
    ax.xaxis.set_major_locator(FixedLocator(places))
    ax.xaxis.set_minor_locator(FixedLocator([]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_count(round(value))))
    ax.set_xlabel(name)


#: A range that is no wider is that of one value and its rounding.
_ROUNDING = 1e-9


def log_y(ax: Axes, unit: Callable[[float], str] = compact) -> None:
    """A logarithmic axis with plain numbers; labels between the decades if there are few."""
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    if low > 0 and high < low * (1 + _ROUNDING):
        low, high = low / math.sqrt(10), high * math.sqrt(10)
        ax.set_ylim(low, high)
    decades = high / low if low > 0 else 10
    subs = (1, 2, 5) if decades < 200 else (1,)
    ax.yaxis.set_major_locator(LogLocator(base=10, subs=subs, numticks=12))
    ax.yaxis.set_minor_locator(NullLocator())  # small ticks took a third of the time to draw
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: unit(value)))


def joined(cells: Sequence[Cell], x: str) -> bool:
    """Do the cells of a panel lie at enough places for lines between them?"""
    return len({getattr(c, x) for c in cells}) >= FEWEST_JOINED


def draw_lines(
    ax: Axes,
    result: Result,
    cells: Sequence[Cell],
    x: str,
    value: Value,
    highlight: Sequence[str] = (),
) -> tuple[list[tuple[Series, float]], Gaps]:
    """One line per series over x with error bars, marks alone where x has fewer than three values.
    A cell without a value breaks its line. The variants in `highlight` stand out. Returns each
    series with its last value, and the gaps, for gap_strip."""
    ends: list[tuple[Series, float]] = []
    gaps: list[tuple[float, style.Color]] = []
    lines = joined(cells, x)
    for series in series_of(cells, x):
        look = style.look_of(result, series.first)
        weight: dict[str, Any] = {"zorder": 3}
        if highlight:
            weight = _HIGHLIGHT if series.first.variant in highlight else _BACKGROUND
        points = sorted(series.cells, key=lambda c: getattr(c, x))
        values = [value(c) for c in points]
        places = [getattr(c, x) for c in points]
        nan = float("nan")
        mids = [v.mid if v else nan for v in values]
        ax.errorbar(
            places,
            mids,
            yerr=[
                [max(0.0, v.mid - v.low) if v else nan for v in values],
                [max(0.0, v.high - v.mid) if v else nan for v in values],
            ],
            linestyle=look.line if lines else "none",
            elinewidth=1.0,
            **look.marks | weight,
        )
        gaps += [(p, look.color) for p, v in zip(places, values, strict=True) if v is None]
        known = [v.mid for v in values if v]
        if known:
            ends.append((series, known[-1]))
    return ends, gaps


def draw_ceilings(ax: Axes, ceilings: Sequence[Ceiling]) -> None:
    """Measured limits as horizontal lines, each named in the legend."""
    for ceiling in ceilings:
        ax.axhline(ceiling.rate, zorder=2, **ceiling.look)


def ceiling_handles(ceilings: Sequence[Ceiling], unit: str) -> list[Line2D]:
    return [style.handle(f"{one.name}: {digits(one.rate)} {unit}", **one.look) for one in ceilings]


def draw_references(ax: Axes, references: Sequence[Reference]) -> None:
    look = {"color": style.PUBLISHED, "linewidth": 1.0, "linestyle": style.REFERENCE, "zorder": 2}
    for one in references:
        if one.places is None:
            ax.axhline(one.value, **look)
        else:
            ax.plot(one.places, [one.value] * 2, **look)


def reference_handles(references: Sequence[Reference]) -> list[Line2D]:
    look = {"color": style.PUBLISHED, "linewidth": 1.0, "linestyle": style.REFERENCE}
    return [style.handle(one.name, **look) for one in references]


def series_handles(
    result: Result, series: Sequence[Series], lines: bool = True, highlight: Sequence[str] = ()
) -> list[Line2D]:
    """Legend entries that look like the lines."""
    handles = []
    for one in series:
        look = style.look_of(result, one.first)
        line = Line2D([], [], linestyle=look.line if lines else "none", label=one.label)
        line.set(**look.marks)
        if highlight:
            line.set_linewidth(
                (_HIGHLIGHT if one.first.variant in highlight else _BACKGROUND)["linewidth"]
            )
        handles.append(line)
    return handles


def gap_handle() -> Line2D:
    look = {"color": style.GREY, "marker": "x", "linestyle": "none", "markeredgewidth": 1.4}
    return style.handle("no time (see the notes)", **look)


def label_ends(
    ax: Axes,
    result: Result,
    ends: Sequence[tuple[Series, float]],
    references: Sequence[Reference] = (),
    highlight: Sequence[str] = (),
) -> None:
    """Names the lines where they end; labels that would overlap move apart, led by a thin line.
    Call it when the axis has its final range."""
    to_axes = ax.transData + ax.transAxes.inverted()
    x = ax.get_xlim()[1]
    named: list[tuple[float, str, Series | None]] = [(end, s.label, s) for s, end in ends]
    named += [(one.value, one.name, None) for one in references]
    wanted = sorted(
        ((float(to_axes.transform((x, end))[1]), label, s) for end, label, s in named),
        key=lambda entry: entry[:2],
    )
    places = spread([y for y, _, _ in wanted], 0.058)
    for (y, label, series), place in zip(wanted, places, strict=True):
        look = style.look_of(result, series.first) if series else None
        ax.plot(
            [1.005, 1.035, 1.05],
            [y, place, place],
            transform=ax.transAxes,
            clip_on=False,
            color=look.color if look else style.PUBLISHED,
            linewidth=0.9,
        )
        if look:
            ax.plot(
                [1.065],
                [place],
                transform=ax.transAxes,
                clip_on=False,
                markersize=5,
                **look.marks,
            )
        bold = series is not None and series.first.variant in highlight
        ax.text(
            1.085 if look else 1.06,
            place,
            label,
            transform=ax.transAxes,
            va="center",
            fontsize=style.SMALL,
            fontweight="bold" if bold else "normal",
        )


def spread(wanted: Sequence[float], step: float) -> list[float]:
    """Places in [0, 1] for labels, at least `step` apart where there is room, each near the place
    wanted for it; `wanted` rises."""
    step = min(step, 1.0 / max(len(wanted), 1))
    places: list[float] = []
    for place in wanted:
        places.append(max(place, places[-1] + step) if places else place)
    ceiling = 1.0
    for index in range(len(places) - 1, -1, -1):  # push back below the top edge
        places[index] = min(places[index], ceiling)
        ceiling = places[index] - step
    return places


def finish_lines(
    fig: Figure,
    result: Result,
    grid: Sequence[Sequence[Axes | None]],
    cells: Sequence[Cell],
    ends: Sequence[tuple[Series, float]],
    gaps: bool,
    x: str,
    references: Sequence[Reference] = (),
    highlight: Sequence[str] = (),
) -> None:
    """Names the series: at the ends of the lines of a single panel, else in one legend."""
    if len(grid) == len(grid[0]) == 1 and grid[0][0] is not None:
        label_ends(grid[0][0], result, ends, references, highlight)
        if gaps:
            _label_gaps(grid[0][0])
        return
    handles = series_handles(
        result, ordered_series(cells, ends, x), joined(cells, x), highlight
    ) + reference_handles(references)
    side_legend(fig, handles + [gap_handle()] * gaps)


def _label_gaps(ax: Axes) -> None:
    """What a cross means, below the axis, where no name of a line can be."""
    ax.plot(
        [1.065],
        [-0.055],
        transform=ax.transAxes,
        clip_on=False,
        color=style.GREY,
        marker="x",
        markersize=5,
        markeredgewidth=1.4,
    )
    ax.text(
        1.085,
        -0.055,
        "no time (see the notes)",
        transform=ax.transAxes,
        va="center",
        fontsize=style.SMALL,
    )


def ordered_series(
    cells: Sequence[Cell], ends: Sequence[tuple[Series, float]], x: str
) -> list[Series]:
    """Series in the order in which their lines end, top to bottom, as a reader's eye meets them;
    those without any value come last."""
    height = {series.label: end for series, end in ends}
    return sorted(series_of(cells, x), key=lambda s: -height.get(s.label, float("-inf")))


def side_legend(fig: Figure, handles: Sequence[Line2D]) -> None:
    """One legend for all panels, outside on the right."""
    fig.legend(
        handles=list(handles),
        loc="outside right upper",
        handlelength=3.2,
        labelspacing=0.55,
        borderaxespad=0.3,
    )


def zero_strip(
    ax: Axes, rows: Sequence[tuple[Sequence[float], dict[str, Any]]], label: str = "0"
) -> None:
    """Below a logarithmic axis, apart from it, what has no place on it: a row of marks per series
    that has any (places, and a look with colour and marker)."""
    for (places, look), height in zip(rows, _strip(ax, len(rows), label), strict=True):
        ax.plot(
            places,
            [height] * len(places),
            linestyle="none",
            color=look["color"],
            clip_on=False,
            zorder=4,
            **style.ZERO | {"marker": look.get("marker", style.ZERO["marker"])},
        )


def gap_strip(ax: Axes, gaps: Gaps, label: str = GAP_LABEL) -> None:
    """Below an axis, apart from it, a cross for each value that was wanted and did not come: at the
    foot of a panel it would read as the least."""
    rows: list[list[tuple[float, style.Color]]] = []
    already: dict[float, int] = {}
    for place, color in gaps:
        row = already.get(place, 0)
        already[place] = row + 1
        if row == len(rows):
            rows.append([])
        rows[row].append((place, color))
    for marks, height in zip(rows, _strip(ax, len(rows), label), strict=True):
        for place, color in marks:
            ax.plot(
                [place], [height], linestyle="none", color=color, clip_on=False, zorder=4, **_CROSS
            )


def _strip(ax: Axes, rows: int, label: str) -> list[float]:
    """Makes room below an axis for so many rows of marks, from the top, and returns their heights.
    Call it when the axis has its final range; a second strip goes below the first."""
    if not rows:
        return []
    logarithmic = ax.get_yscale() == "log"
    low, high = ax.get_ylim()
    bottom, top = (math.log10(low), math.log10(high)) if logarithmic else (low, high)
    locator, named = ax.yaxis.get_major_locator(), ax.yaxis.get_major_formatter()
    ticks = [v for v in locator.tick_values(low, high) if _within(v, low, high, logarithmic)]
    # In the middle of the strip, the label keeps a line's distance from that of the lowest tick.
    line = min(_LINE * style.SMALL / _points_high(ax), 0.4)
    lowest = min(math.log10(v) if logarithmic else v for v in ticks) if ticks else top
    needed = (line - (lowest - bottom) / (top - bottom)) / (0.5 - line)
    depth = (top - bottom) * max(_ZERO_ROW * rows + _ZERO_MARGIN, needed)

    def height(share: float) -> float:
        """Of the strip, from its top."""
        place = bottom - share * depth
        return 10**place if logarithmic else place

    ax.set_ylim(height(1.0), high)
    middle = height(0.5)
    ax.yaxis.set_major_locator(FixedLocator([middle, *ticks]))
    ax.yaxis.set_major_formatter(
        FuncFormatter(lambda value, place: label if value == middle else named(value, place))
    )
    ax.axhspan(height(1.0), low, color=style.ZERO_STRIP, linewidth=0, zorder=0.9)
    ax.hlines(
        low, 0, 1, transform=ax.get_yaxis_transform(), color=style.GREY, linewidth=0.8, zorder=2
    )
    step = 1.0 / (rows + _ZERO_MARGIN / _ZERO_ROW)
    return [height(step * (index + 0.5 + _ZERO_MARGIN / _ZERO_ROW / 2)) for index in range(rows)]


def _points_high(ax: Axes) -> float:
    """As the panel is before its figure is laid out."""
    return float(ax.get_window_extent().height * 72 / ax.figure.dpi)


def _within(value: float, low: float, high: float, logarithmic: bool) -> bool:
    if logarithmic:
        return low * 0.999 <= value <= high * 1.001
    slack = 0.001 * (high - low)
    return low - slack <= value <= high + slack
