# SPDX-License-Identifier: Apache-2.0
"""Figures of a comparison: the ratio of every cell with its interval, all ratios in order, and the
share of each machine's limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from plots import style
from plots.comparison import VERDICTS, WORDS, Comparison, Pair
from plots.load import Cell, Result
from plots.render import Drawing
from plots.select import NothingToDraw
from plots.words import MINUS, TIMES, count, digits, listed, many, percent, rounded_count

_ROW, _HEAD = 0.148, 0.42  # inches: a cell, and what stands around a panel
_COLUMN = 4.4  # inches
_ROWS_IN_COLUMN = 44  # about so many side by side before a further column
_MOST_COLUMNS = 3
MOST_ROWS = 400  # cells of a figure; beyond, those that stayed the same are left to the table
_STEPS = (1.01, 1.02, 1.05, 1.1, 1.2, 1.3, 1.5, 2, 3, 5, 10, 30, 100, 1000, 10_000)
_FACTORS_FROM = 1.5  # smaller changes are read in per cent
_BAND = "#ececec"


@dataclass(frozen=True)
class _Panel:
    title: str
    names: list[str]
    pairs: list[Pair]


def draw_all(
    comparison: Comparison, base: Sequence[Result] = (), new: Sequence[Result] = ()
) -> list[tuple[str, Drawing]]:
    """Every figure with the name of its file; of the results that were compared, those that are at
    hand."""
    style.apply()
    wanted: list[tuple[str, str, Callable[[], tuple[Figure, list[str]]]]] = [
        ("ordered", "All ratios in order", lambda: ordered(comparison)),
        *(
            (f"ratio-{name}", f"Ratio of times, {name}", lambda name=name: ratios(comparison, name))
            for name in comparison.experiments
        ),
        (
            "ceilings",
            "Share of the machine's limit, before and after",
            lambda: ceilings(comparison, base, new),
        ),
    ]
    return [(name, _drawing(name, title, make)) for name, title, make in wanted]


def _drawing(name: str, title: str, make: Callable[[], tuple[Figure, list[str]]]) -> Drawing:
    about = {"id": name, "title": title, "kind": "comparison"}
    try:
        picture, caption = make()
    except NothingToDraw as reason:
        return Drawing(about, None, [], str(reason))
    return Drawing(about, picture, caption)


# --- Ratio of each cell ----------------------------------------------------------------------


def ratios(comparison: Comparison, experiment: str) -> tuple[Figure, list[str]]:
    """A row per cell, its ratio with the interval; a panel per variant, or per shape where that
    makes fewer. Raises NothingToDraw."""
    own = [p for p in comparison.pairs if p.experiment == experiment]
    if not any(p.ratio for p in own):
        raise NothingToDraw("no cell of this experiment has a time on both sides")
    tried = {_series(p) for p in own if not p.base["status"] == p.new["status"] == "skipped"}
    skipped = list(dict.fromkeys(_series(p) for p in own if _series(p) not in tried))
    own = [p for p in own if _series(p) in tried]
    left_out = 0
    if len(own) > MOST_ROWS:
        kept = [p for p in own if p.verdict != "same"]
        left_out, own = len(own) - len(kept), kept
    if len(own) > MOST_ROWS:
        strongest = sorted(own, key=_strength, reverse=True)[:MOST_ROWS]
        chosen = {p.key for p in strongest}
        left_out, own = left_out + len(own) - MOST_ROWS, [p for p in own if p.key in chosen]
    if not own:
        raise NothingToDraw(f"all {left_out} cells stayed the same")
    panels = _panels(own)
    columns = _columns(panels)
    heights = [sum(len(p.pairs) * _ROW + _HEAD for p in column) for column in columns]
    handles = [*_handles(own), _band_handle(comparison)]
    in_a_row = 3 * len(columns)  # words that fit in the width
    legend = 0.1 + 0.2 * math.ceil(len(handles) / in_a_row)
    body = max(heights) + 0.45
    fig = Figure(figsize=(_COLUMN * len(columns), legend + body), layout="constrained")
    limits = _limits(comparison, own)
    outer = fig.add_gridspec(2, 1, height_ratios=(legend, body))
    _legend(fig.add_subplot(outer[0]), handles, in_a_row)
    grid = outer[1].subgridspec(1, len(columns))
    for place, column in enumerate(columns):
        rest = max(heights) - heights[place]
        ratios_of = [len(p.pairs) * _ROW + _HEAD for p in column] + ([rest] if rest > 0.2 else [])
        inner = grid[place].subgridspec(len(ratios_of), 1, height_ratios=ratios_of)
        for row, panel in enumerate(column):
            _draw_panel(fig.add_subplot(inner[row]), comparison, panel, limits)
    notes = [_how_to_read(comparison), *_sides(comparison), _samples(own)]
    if skipped:
        notes.append(f"Skipped on both sides: {listed(skipped, limit=40)}.")
    if left_out:
        notes.append(f"{many(left_out, 'cell')} left out here stand in the table.")
    return fig, notes


def _strength(pair: Pair) -> float:
    return abs(math.log(pair.ratio.mid)) if pair.ratio else math.inf


def _panels(pairs: Sequence[Pair]) -> list[_Panel]:
    variants = list(dict.fromkeys(_series(p) for p in pairs))
    vary = len({p.iterations for p in pairs}) > 1

    def problem(pair: Pair) -> str:
        return _problem(pair) + (f"  T={rounded_count(pair.iterations)}" if vary else "")

    shapes = list(dict.fromkeys(problem(p) for p in pairs))
    by_variant = len(variants) <= len(shapes)
    key, other = (_series, problem) if by_variant else (problem, _series)
    titles = variants if by_variant else shapes
    panels = []
    for title in titles:
        inside = [p for p in pairs if key(p) == title]
        inside.sort(key=lambda p: (p.shape, p.iterations) if by_variant else _series(p))
        panels.append(_Panel(title, [other(p) for p in inside], inside))
    return panels


def _series(pair: Pair) -> str:
    return f"{pair.label}" + (f" {TIMES}{pair.threads}" if pair.threads > 1 else "")


def _problem(pair: Pair) -> str:
    return "  ".join(f"{name}={rounded_count(getattr(pair, name))}" for name in ("n", "d", "k"))


def _columns(panels: Sequence[_Panel]) -> list[list[_Panel]]:
    """Panels in reading order, in columns as low as so many columns allow."""
    rows = [len(p.pairs) + _HEAD / _ROW for p in panels]
    wanted = min(_MOST_COLUMNS, len(panels), math.ceil(sum(rows) / _ROWS_IN_COLUMN))
    room = max(max(rows), sum(rows) / wanted)
    while len(columns := _filled(panels, rows, room)) > wanted:
        room += 1
    return columns


def _filled(panels: Sequence[_Panel], rows: Sequence[float], room: float) -> list[list[_Panel]]:
    columns: list[list[_Panel]] = [[]]
    used = 0.0
    for panel, height in zip(panels, rows, strict=True):
        if columns[-1] and used + height > room + 1e-9:
            columns.append([])
            used = 0.0
        columns[-1].append(panel)
        used += height
    return columns


def _limits(comparison: Comparison, pairs: Sequence[Pair]) -> tuple[float, float]:
    """Of the axis of ratios: both sides as far as the farther, the band of no change included. An
    interval that is far longer than the ratios are apart runs off the edge."""
    effect = comparison.settings["effect"]
    mids = [max(p.ratio.mid, 1 / p.ratio.mid) for p in pairs if p.ratio]
    ends = [max(p.ratio.high, 1 / p.ratio.low) for p in pairs if p.ratio]
    far = min(max(ends), max(mids) ** 2) if mids else 1.1
    far = max(far, (1 + effect) ** 1.6, 1.02) ** 1.08
    return 1 / far, far


def _ratio_axis(ax: Axes, limits: tuple[float, float], along: str) -> None:
    """Logarithmic, so that twice and half are equally far from 1."""
    axis = ax.xaxis if along == "x" else ax.yaxis
    (ax.set_xscale if along == "x" else ax.set_yscale)("log")
    (ax.set_xlim if along == "x" else ax.set_ylim)(*limits)
    axis.set_major_locator(FixedLocator(ratio_ticks(limits[1])))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: ratio_tick(value)))


def ratio_ticks(far: float) -> list[float]:
    """1, and up to two round steps to each side, of which the names do not meet."""
    ends = [s for s in _STEPS if s <= far**0.97] or [_STEPS[0]]
    parts = {s: math.log(s) / math.log(ends[-1]) for s in ends}
    between = sorted((abs(part - 0.5), s) for s, part in parts.items() if 0.33 < part < 0.67)
    above = sorted({ends[-1], *(s for _, s in between[:1])})
    below = [2 - s if s < _FACTORS_FROM else 1 / s for s in reversed(above)]
    return [*below, 1.0, *above]


def ratio_tick(value: float) -> str:
    """Small changes in per cent, larger ones as factors."""
    if abs(value - 1) < 1e-9:
        return "1" + TIMES
    if 1 / _FACTORS_FROM < value < _FACTORS_FROM:
        return f"{'+' if value > 1 else MINUS}{100 * abs(value - 1):.3g} %"
    return f"{value:g}{TIMES}" if value > 1 else f"1/{1 / value:g}"


def _draw_panel(
    ax: Axes, comparison: Comparison, panel: _Panel, limits: tuple[float, float]
) -> None:
    effect = comparison.settings["effect"]
    ax.axvspan(1 / (1 + effect), 1 + effect, color=_BAND, linewidth=0, zorder=0)
    ax.axvline(1, color=style.BASELINE, linewidth=1.0, zorder=1)
    for row, pair in enumerate(panel.pairs):
        if pair.ratio is None:
            ax.text(
                1,
                row,
                f"{TIMES} {_absent(pair)}",
                fontsize=style.TINY,
                color=style.GREY,
                ha="center",
                va="center",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
                zorder=2,
            )
        else:
            _draw_ratio(ax, pair, pair.ratio.mid, row, along="x", limits=limits)
        if pair.regression:
            ax.text(
                1.012,
                row,
                "!",
                transform=ax.get_yaxis_transform(),
                color=style.VERDICTS["fails"],
                fontweight="bold",
                fontsize=style.SMALL,
                va="center",
                clip_on=False,
            )
    ax.set_ylim(len(panel.pairs) - 0.4, -0.6)
    ax.set_yticks(range(len(panel.pairs)), panel.names)
    ax.tick_params(axis="y", length=0, labelsize=style.TINY)
    ax.tick_params(axis="x", labelsize=style.TINY)
    ax.grid(axis="y", visible=False)
    ax.set_title(panel.title, loc="left", fontsize=style.SMALL, fontweight="bold", pad=3)
    _ratio_axis(ax, limits, "x")


def _draw_ratio(
    ax: Axes,
    pair: Pair,
    ratio: float,
    place: float,
    *,
    along: str,
    limits: tuple[float, float],
    size: float = 4.5,
) -> None:
    """A mark with its interval along the axis of ratios; beyond the axis, at its end."""
    color, marker, filled = style.COMPARED[pair.verdict]
    if along == "y":
        marker = {">": "^", "<": "v"}.get(marker, marker)
    shown = min(max(ratio, limits[0]), limits[1])
    x, y = (shown, place) if along == "x" else (place, shown)
    if pair.ratio is not None and pair.ratio.confident:
        ends = [min(max(v, limits[0]), limits[1]) for v in (pair.ratio.low, pair.ratio.high)]
        line = (ends, [place, place]) if along == "x" else ([place, place], ends)
        ax.plot(*line, color=color, linewidth=1.0, zorder=2, solid_capstyle="butt")
    ax.plot(
        [x],
        [y],
        marker=marker,
        markersize=size,
        color=color,
        markerfacecolor=color if filled else "white",
        linestyle="none",
        zorder=3,
    )


def _absent(pair: Pair) -> str:
    """Why a pair has no ratio, in a word or two."""
    base, new = pair.base["status"], pair.new["status"]
    if base == new == "ok":
        return "not comparable"
    return base if base == new else f"{base}, now {new}"


def _handles(pairs: Sequence[Pair], along: str = "x") -> list[Line2D | Patch]:
    handles: list[Line2D | Patch] = []
    for verdict in VERDICTS:
        number = sum(p.verdict == verdict for p in pairs)
        if number == 0 or verdict not in style.COMPARED:
            continue
        color, marker, filled = style.COMPARED[verdict]
        marker = {">": "^", "<": "v"}.get(marker, marker) if along == "y" else marker
        handles.append(
            style.handle(
                f"{WORDS[verdict]} ({count(number)})",
                color=color,
                marker=marker,
                markersize=5,
                markerfacecolor=color if filled else "white",
                linewidth=1.0,
            )
        )
    return handles


def _legend(ax: Axes, handles: Sequence[Line2D | Patch], in_a_row: int) -> None:
    ax.set_axis_off()
    ax.legend(
        handles=handles,
        loc="upper left",
        ncols=in_a_row,
        columnspacing=1.3,
        handlelength=1.8,
        borderaxespad=0.0,
    )


def _band_handle(comparison: Comparison) -> Patch:
    return Patch(color=_BAND, label=f"less than {100 * comparison.settings['effect']:g} %")


def _how_to_read(comparison: Comparison) -> str:
    level = f"{100 * comparison.settings['confidence']:g}"
    return (
        f"Time of the new result over that of the base: right of 1 is slower. Bars: {level} % "
        "interval of the ratio; a mark without a bar has too few processes for one."
    )


def _sides(comparison: Comparison) -> list[str]:
    return [
        f"{name}: {side['label']}, {side['cpu']}{' + ' + side['gpu'] if side['gpu'] else ''}."
        for name, side in (("Base", comparison.base), ("New", comparison.new))
    ]


def _samples(pairs: Sequence[Pair]) -> str:
    def reach(numbers: list[int], one: str, many: str) -> str:
        low, high = min(numbers), max(numbers)
        if low == high:
            return f"{low} {one if low == 1 else many}"
        return f"{low} to {high} {many}"

    timed = [p for p in pairs if p.ratio]
    if not timed:
        return "No cell has a time on both sides."
    sides = [
        f"{reach([getattr(p, side)['samples'] for p in timed], 'sample', 'samples')} of "
        f"{reach([getattr(p, side)['processes'] for p in timed], 'process', 'processes')}"
        for side in ("base", "new")
    ]
    both = sides[0] + " on both sides" if sides[0] == sides[1] else " against ".join(sides)
    return f"Ratios of medians of {both}; the absolute times stand in the table."


# --- All ratios ------------------------------------------------------------------------------


def ordered(comparison: Comparison) -> tuple[Figure, list[str]]:
    """Every ratio, the smallest first. Raises NothingToDraw."""
    pairs = [p for p in comparison.pairs if p.ratio]
    if not pairs:
        raise NothingToDraw("no cell has a time on both sides")
    pairs.sort(key=lambda p: (p.ratio.mid if p.ratio else 0.0, p.key))
    fig = Figure(figsize=(8.6, 3.9), layout="constrained")
    ax = fig.subplots()
    limits = _limits(comparison, pairs)
    effect = comparison.settings["effect"]
    ax.axhspan(1 / (1 + effect), 1 + effect, color=_BAND, linewidth=0, zorder=0)
    ax.axhline(1, color=style.BASELINE, linewidth=1.0, zorder=1)
    size = 5.0 if len(pairs) <= 60 else 3.5 if len(pairs) <= 300 else 2.5
    for place, pair in enumerate(pairs, start=1):
        mid = pair.ratio.mid if pair.ratio else 1.0
        _draw_ratio(ax, pair, mid, place, along="y", limits=limits, size=size)
    ax.set_xlim(0, len(pairs) + 1)
    ax.grid(axis="x", visible=False)
    ax.set_xticks(place_ticks(len(pairs)))
    ax.set_xlabel("cells, by their ratio")
    ax.set_ylabel("time, new over base")
    _ratio_axis(ax, limits, "y")
    fig.legend(handles=[*_handles(pairs, "y"), _band_handle(comparison)], loc="outside right upper")
    notes = [_how_to_read(comparison).replace("right of 1", "above 1"), *_sides(comparison)]
    notes.append(_samples(pairs))
    if comparison.geometric_mean_ratio is not None:
        notes.append(
            f"Geometric mean of the {count(len(pairs))} ratios: "
            f"{digits(comparison.geometric_mean_ratio, 4)} (a summary: no cell has to be near it)."
        )
    return fig, notes


def place_ticks(number: int) -> list[int]:
    """Places from 1 to a number, as far apart from each other as round numbers are."""
    step = next(s for e in range(12) for s in (10**e, 2 * 10**e, 5 * 10**e) if number <= 8 * s)
    return list(range(step, number + 1, step))


# --- Share of the limits ---------------------------------------------------------------------


def _cells(results: Sequence[Result]) -> dict[tuple[str, str], tuple[Result, Cell]]:
    return {(r.experiment, cell.key): (r, cell) for r in results for cell in r.cells}


def ceilings(
    comparison: Comparison, base: Sequence[Result], new: Sequence[Result]
) -> tuple[Figure, list[str]]:
    """How near each side comes to what its machine can do. Raises NothingToDraw."""
    if not base or not new:
        raise NothingToDraw("the result files that were compared are not at hand")
    before, after = _cells(base), _cells(new)
    points: list[tuple[Result, Cell, float, float, Pair]] = []
    for pair in comparison.pairs:
        one = before.get((pair.experiment, pair.key))
        other = after.get((pair.experiment, pair.new_key))
        if one is None or other is None or pair.ratio is None:
            continue
        shares = one[1].share_of_limit, other[1].share_of_limit
        if shares[0] and shares[1]:
            points.append((*other, shares[0], shares[1], pair))
    if not points:
        raise NothingToDraw("no cell timed on both sides has a measured limit on both")
    series: dict[str, tuple[Result, Cell]] = {}
    for result, cell, *_ in points:
        series.setdefault(f"{cell.variant} {cell.precision}", (result, cell))
    height = max(4.8, 0.185 * len(series) + 0.6)
    fig = Figure(figsize=(min(height, 5.4) + 2.5, height), layout="constrained")
    ax = fig.subplots()
    values = [v for _, _, x, y, _ in points for v in (x, y)]
    low, high = min(values) / 1.4, max(max(values) * 1.4, 1.2)
    ax.plot([low, high], [low, high], color=style.BASELINE, linewidth=1.0, zorder=1)
    for line in (ax.axvline, ax.axhline):
        line(1.0, color=style.CEILING, linewidth=0.9, linestyle="--", zorder=1)
    for result, cell, x, y, _ in points:
        ax.plot([x], [y], linestyle="none", markersize=5, zorder=3, **_marks(result, cell))
    for axis, scale, limit in (
        (ax.xaxis, ax.set_xscale, ax.set_xlim),
        (ax.yaxis, ax.set_yscale, ax.set_ylim),
    ):
        scale("log")
        limit(low, high)
        axis.set_major_locator(FixedLocator(_decades(low, high)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: percent(value)))
    ax.set_box_aspect(1)
    ax.set_xlabel(f"base: {_short(comparison.base)}")
    ax.set_ylabel(f"new: {_short(comparison.new)}")
    handles = [
        style.handle(name, linestyle="none", **_marks(*owner))
        for name, owner in sorted(series.items())
    ]
    fig.legend(handles=handles, loc="outside right upper", labelspacing=0.35, handlelength=1.2)
    above = sum(y > x for _, _, x, y, _ in points)
    notes = [
        "Share of the least time that brute force needs on that machine, by its measured "
        "bandwidth, arithmetic and barriers; dashed: 100 %. Above the diagonal, the new result "
        f"comes nearer to its machine's limit: {above} of {many(len(points), 'cell')}.",
        *_sides(comparison),
    ]
    without = sum(p.ratio is not None for p in comparison.pairs) - len(points)
    if without:
        notes.append(f"{many(without, 'cell')} without a measured limit on both sides left out.")
    return fig, notes


def _marks(result: Result, cell: Cell) -> dict[str, Any]:
    return style.look_of(result, cell).marks


def _short(side: dict[str, Any]) -> str:
    name = side["gpu"] or side["cpu"]
    return listed([part for part in (side["label"], name) if part]).replace(" and ", ", ")


def _decades(low: float, high: float) -> list[float]:
    places = [10.0**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    if high / low < 30:
        places = [m * p for p in places for m in (1, 2, 5)]
    return [p for p in places if low <= p <= high]
