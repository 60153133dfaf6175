# SPDX-License-Identifier: Apache-2.0
"""Small multiples: a grid of axes, a legend beside it, marks for what has no value."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from plots import style
from plots.load import Cell, Interval, Result
from plots.select import Panel, Series, series_of
from plots.words import compact, digits, short_count

Value = Callable[[Cell], Interval | None]

PANEL_WIDTH, PANEL_HEIGHT = 2.75, 2.35  # inches
LEGEND_WIDTH = 2.35
GAP_STEP = 0.045  # of the panel's height, between marks that fall on the same x


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


def log_y(ax: Axes, unit: Callable[[float], str] = compact) -> None:
    """A logarithmic axis with plain numbers; labels between the decades if there are few."""
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    decades = high / low if low > 0 else 10
    subs = (1, 2, 5) if decades < 200 else (1,)
    ax.yaxis.set_major_locator(LogLocator(base=10, subs=subs, numticks=12))
    ax.yaxis.set_minor_locator(NullLocator())  # small ticks took a third of the time to draw
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: unit(value)))


def draw_lines(
    ax: Axes, result: Result, cells: Sequence[Cell], x: str, value: Value
) -> list[tuple[Series, float]]:
    """One line per series over x with error bars. A cell without a value breaks its line and leaves
    a cross at the foot of the panel. Returns each series with its last value."""
    ends: list[tuple[Series, float]] = []
    gaps_at: dict[int, int] = {}
    for series in series_of(cells):
        look = style.look_of(result, series.first)
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
            linestyle=look.line,
            elinewidth=1.0,
            **look.marks,
            zorder=3,
        )
        for place, v in zip(places, values, strict=True):
            if v is None:
                mark_gap(ax, place, gaps_at.get(place, 0), look)
                gaps_at[place] = gaps_at.get(place, 0) + 1
        known = [v.mid for v in values if v]
        if known:
            ends.append((series, known[-1]))
    return ends


def mark_gap(ax: Axes, place: float, already: int, look: style.Look) -> None:
    """A cross at the foot of the panel: measured was wanted, nothing came."""
    ax.plot(
        [place],
        [0.035 + GAP_STEP * already],
        transform=ax.get_xaxis_transform(),
        marker="x",
        markersize=5,
        markeredgewidth=1.4,
        color=look.color,
        linestyle="none",
        clip_on=False,
        zorder=4,
    )


def draw_ceilings(ax: Axes, ceilings: Sequence[tuple[str, float]]) -> None:
    """Measured limits as horizontal lines, each named on the line."""
    dashes = ["--", ":", "-.", (0, (6, 1.5)), (0, (3, 1, 1, 1, 1, 1))]
    for index, (_, height) in enumerate(ceilings):
        ax.axhline(
            height, color=style.CEILING, linewidth=1.0, linestyle=dashes[index % 5], zorder=2
        )


def ceiling_handles(ceilings: Sequence[tuple[str, float]], unit: str) -> list[Line2D]:
    dashes = ["--", ":", "-.", (0, (6, 1.5)), (0, (3, 1, 1, 1, 1, 1))]
    return [
        Line2D(
            [],
            [],
            color=style.CEILING,
            linewidth=1.0,
            linestyle=dashes[index % 5],
            label=f"{name}: {digits(height)} {unit}",
        )
        for index, (name, height) in enumerate(ceilings)
    ]


def series_handles(result: Result, series: Sequence[Series]) -> list[Line2D]:
    """Legend entries that look like the lines."""
    handles = []
    for one in series:
        look = style.look_of(result, one.first)
        handles.append(
            Line2D(
                [],
                [],
                linestyle=look.line,
                label=one.label,
                **look.marks,
            )
        )
    return handles


def gap_handle() -> Line2D:
    return Line2D(
        [],
        [],
        color=style.GREY,
        marker="x",
        linestyle="none",
        markeredgewidth=1.4,
        label="no time (see the notes)",
    )


def label_ends(ax: Axes, result: Result, ends: Sequence[tuple[Series, float]]) -> None:
    """Names the lines where they end; labels that would overlap move apart, led by a thin line.
    Call it when the axis has its final range."""
    to_axes = ax.transData + ax.transAxes.inverted()
    x = ax.get_xlim()[1]
    wanted = sorted((float(to_axes.transform((x, end))[1]), s.label, s) for s, end in ends)
    places = spread([y for y, _, _ in wanted], 0.058)
    for (y, label, series), place in zip(wanted, places, strict=True):
        look = style.look_of(result, series.first)
        ax.plot(
            [1.005, 1.035, 1.05],
            [y, place, place],
            transform=ax.transAxes,
            clip_on=False,
            color=look.color,
            linewidth=0.9,
        )
        ax.plot(
            [1.065],
            [place],
            transform=ax.transAxes,
            clip_on=False,
            markersize=5,
            **look.marks,
        )
        ax.text(1.085, place, label, transform=ax.transAxes, va="center", fontsize=style.SMALL)


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
) -> None:
    """Names the series: at the ends of the lines of a single panel, else in one legend."""
    if len(grid) == len(grid[0]) == 1 and grid[0][0] is not None:
        label_ends(grid[0][0], result, ends)
        if gaps:
            _label_gaps(grid[0][0])
        return
    extra = [gap_handle()] if gaps else []
    side_legend(fig, [*series_handles(result, ordered_series(cells, ends)), *extra])


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


def ordered_series(cells: Sequence[Cell], ends: Sequence[tuple[Series, float]]) -> list[Series]:
    """Series in the order in which their lines end, top to bottom, as a reader's eye meets them;
    those without any value come last."""
    height = {series.label: end for series, end in ends}
    return sorted(series_of(cells), key=lambda s: -height.get(s.label, float("-inf")))


def side_legend(fig: Figure, handles: Sequence[Line2D]) -> None:
    """One legend for all panels, outside on the right."""
    fig.legend(
        handles=list(handles),
        loc="outside right upper",
        handlelength=3.2,
        labelspacing=0.55,
        borderaxespad=0.3,
    )
