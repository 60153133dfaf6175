# SPDX-License-Identifier: Apache-2.0
"""Two keys of a study's rows against each other, what a way costs and what it is worth: a mark for
each row, bars from the least to the largest, a panel per study."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from plots import panels, style
from plots.figures import _studies as studies
from plots.figures._studies import Row, is_number, title_of, value_text, values_of
from plots.load import Result
from plots.select import NothingToDraw
from plots.words import MINUS, TIMES, compact, compact_seconds, short_count, wrapped

_COLUMNS = 4
_LEGEND_LETTERS = 26
# Of the largest value shown over the least: nothing looks far apart that is not.
_LEAST_SPAN = 1.05
_FEW = 4.0  # below which ticks are not powers
_FEW_DECADES = 100.0  # below which powers of ten are too few ticks on their own


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    rows = studies.rows_of(result, figure)
    x, y = figure["x"], figure["y"]
    if not any(is_number(row.get(x)) and is_number(row.get(y)) for row in rows):
        raise NothingToDraw(f"no row of the study has numbers for {x} and {y}")
    series = figure.get("series")
    looks = _looks(rows, series)
    plan = [(s, [r for r in rows if r[studies.STUDY] == s["name"]]) for s in _drawn(result, figure)]
    plan = [(study, own) for study, own in plan if own]
    width = min(len(plan), _COLUMNS)
    lines = -(-len(plan) // width)
    single = len(plan) == 1
    fig = Figure(
        figsize=(
            (5.6 if single else 2.6 * width) + panels.LEGEND_WIDTH,
            3.5 if single else 2.4 * lines + 0.2,
        ),
        layout="constrained",
    )
    axes = fig.subplots(lines, width, squeeze=False)
    missing = False
    for index, (ax, (study, own)) in enumerate(zip(axes.flat, plan, strict=False)):
        ax.set_title(_title(study, single), loc="left")
        missing = _draw_panel(ax, figure, own, series, looks) or missing
        if index % width == 0:
            ax.set_ylabel(figure.get("y_title") or title_of(y))
        if index + width >= len(plan):
            ax.set_xlabel(figure.get("x_title") or title_of(x))
    for ax in axes.flat[len(plan) :]:
        ax.set_visible(False)
    handles = [
        style.handle(_label(name, rows, figure, series), linestyle="none", **look)
        for name, look in looks.items()
    ]
    if missing:
        handles.append(panels.gap_handle())
        handles[-1].set_label("no value")
    panels.side_legend(fig, handles)
    return fig


def _drawn(result: Result, figure: dict[str, Any]) -> list[studies.Study]:
    return [study for study in studies.studies_of(result, figure) if study["status"] == "ok"]


def _title(study: studies.Study, single: bool) -> str:
    if not study.get("n"):
        return study["name"]
    size = f"{short_count(study['n'])} {TIMES} {study['d']}, k = {short_count(study['k'])}"
    return f"{study['name']}, {size}" if single else f"{study['name']}\n{size}"


def _looks(rows: Sequence[Row], series: str | None) -> dict[Any, dict[str, Any]]:
    """Of each value of the series: its own colour and marker, hollow for what a library did."""
    looks = {}
    for index, value in enumerate(values_of(rows, series) if series else [None]):
        foreign = any(row.get("library") for row in rows if series and row.get(series) == value)
        color = style.category(index)
        looks[value] = {
            "color": color,
            "marker": style.category_marker(index),
            "markersize": 5.5,
            "markerfacecolor": "white" if foreign else color,
            "markeredgewidth": 1.4,
        }
    return looks


def _label(name: Any, rows: Sequence[Row], figure: dict[str, Any], series: str | None) -> str:
    own = [row for row in rows if series is None or row.get(series) == name]
    text = value_text(name) if series else title_of(figure["y"])
    if not any(is_number(row.get(key)) for row in own for key in (figure["x"], figure["y"])):
        text += " (left out)"
    return wrapped(text, _LEGEND_LETTERS)


def _draw_panel(
    ax: Axes,
    figure: dict[str, Any],
    rows: Sequence[Row],
    series: str | None,
    looks: dict[Any, dict[str, Any]],
) -> bool:
    """Is a mark missing that has a place on the x axis?"""
    x, y, log = figure["x"], figure["y"], figure.get("log", [])
    placed = [row for row in rows if is_number(row.get(x)) and ("x" not in log or row[x] > 0)]
    gaps: list[tuple[float, style.Color]] = []
    zeros: list[tuple[list[float], dict[str, Any]]] = []
    extents: list[float] = []
    for row in placed:
        look = looks[row.get(series) if series else None]
        if not is_number(row.get(y)):
            gaps.append((row[x], look["color"]))
        elif "y" in log and row[y] <= 0:
            zeros.append(([row[x]], look))
        else:
            ax.errorbar(
                row[x],
                row[y],
                xerr=_bar(row, x, "x" in log),
                yerr=_bar(row, y, "y" in log),
                linestyle="none",
                elinewidth=1.0,
                capsize=0,
                ecolor=(look["color"], 0.6),
                zorder=3,
                **look,
            )
            extents += [row[y], *(row[y] + end for end in _reach(row, y, "y" in log))]
    # What leaves work outside its clock pushes no other off the front.
    front = [row for row in placed if row.get("front") and not row.get("outside")]
    _draw_front(ax, [row for row in front if is_number(row.get(y))], x, y)
    if "x" in log and placed:
        ax.set_xscale("log")
        ends = [row[x] + end for row in placed for end in _reach(row, x, True)]
        low, high = min(ends) / 1.6, max(ends) * 1.6
        ax.set_xlim(low, high)
        ax.xaxis.set_major_locator(FixedLocator(_log_ticks(low, high)))
        ax.xaxis.set_minor_locator(NullLocator())
    unit = compact_seconds if x.split("_")[0] == "seconds" else _tick
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: unit(value)))
    _finish_y(ax, extents, "y" in log)
    panels.zero_strip(ax, zeros)
    panels.gap_strip(ax, gaps, "none")
    return bool(gaps)


def _log_ticks(low: float, high: float) -> list[float]:
    """Two to four round numbers where the range has so many: names of times are long."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks: list[float] = []
    for leading in ((1,), (1, 3), (1, 2, 5))[high < _FEW_DECADES * low :]:
        numbers = (float(f"{first}e{decade}") for decade in decades for first in leading)
        ticks = [number for number in numbers if low <= number <= high]
        if len(ticks) > 1:
            break
    return ticks[:: -(-len(ticks) // 4) or 1]


def _draw_front(ax: Axes, rows: Sequence[Row], x: str, y: str) -> None:
    """Steps through the rows that no other is as good as in both and better in one."""
    front = sorted((row[x], row[y]) for row in rows)
    if len(front) > 1:
        ax.step(*zip(*front, strict=True), where="post", color="#9a9a9a", linewidth=1.0, zorder=1)


def _reach(row: Row, key: str, logarithmic: bool) -> tuple[float, float]:
    """From the value to the least and the largest of those that it is the median of, if the row has
    them; what a logarithmic axis cannot show is no bar."""
    low, high = row.get(f"{key}_min"), row.get(f"{key}_max")
    low = low if is_number(low) and (low > 0 or not logarithmic) else row[key]
    high = high if is_number(high) else row[key]
    return min(0.0, low - row[key]), max(0.0, high - row[key])


def _bar(row: Row, key: str, logarithmic: bool) -> list[list[float]]:
    low, high = _reach(row, key, logarithmic)
    return [[-low], [high]]


def _tick(value: float) -> str:
    value = float(round(value, 12))
    return (MINUS if value < 0 else "") + compact(abs(value))


def _finish_y(ax: Axes, extents: Sequence[float], logarithmic: bool) -> None:
    formatter = FuncFormatter(lambda value, _: _tick(value))
    if not logarithmic or not extents:
        ax.margins(y=0.1)
        whole = all(float(value).is_integer() for value in extents)
        ax.yaxis.set_major_locator(MaxNLocator(5, integer=whole))
        ax.yaxis.set_major_formatter(formatter)
        return
    low, high = min(extents), max(extents)
    high = max(high, low * _LEAST_SPAN)
    margin = (high / low) ** 0.08
    ax.set_yscale("log")
    ax.set_ylim(low / margin, high * margin)
    if high / low < _FEW:
        ticks = [t for t in MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(low, high) if t > 0]
        ax.yaxis.set_major_locator(FixedLocator(ticks))
    else:
        decades = math.log10(high / low)
        ax.yaxis.set_major_locator(
            LogLocator(subs=(1, 2, 5) if decades < 2.3 else (1,), numticks=7)
        )
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(formatter)


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    rows = studies.rows_of(result, figure)
    notes = []
    if any(f"{key}_min" in row for row in rows for key in (figure["x"], figure["y"])):
        notes.append("Marks are medians, bars go from the least to the largest.")
    if any(row.get("library") for row in rows):
        notes.append("Hollow marks are libraries.")
    if any(row.get("front") for row in rows):
        notes.append("The line joins the front: no other is as good in both and better in one.")
    return studies.sentences_of(result, figure, notes, problems=False)
