# SPDX-License-Identifier: Apache-2.0
"""Rows of studies as lines: a key of the rows over another, a line per value of a third, a panel
per value of others."""

from __future__ import annotations

import itertools
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
from plots.words import MINUS, compact, short_count

_DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (5, 1.5, 1, 1.5)))
_MOST_TICKS = 9


def _keys(figure: dict[str, Any]) -> list[str]:
    y = figure["y"]
    return [y] if isinstance(y, str) else list(y)


def _plan(
    figure: dict[str, Any], rows: Sequence[Row]
) -> tuple[list[tuple[str, list[Row], list[str]]], str | None]:
    """Panels (title, rows, keys of y) and the key of the series. Several keys of y share a panel if
    they are the only series; otherwise each has panels of its own."""
    keys = _keys(figure)
    series = figure.get("series")
    if series is None and len(values_of(rows, studies.STUDY)) > 1:
        series = studies.STUDY
    wanted = list(figure.get("facets", []))
    if studies.STUDY not in (series, *wanted):  # no line joins different problems
        wanted.append(studies.STUDY)
    facets = [f for f in wanted if len(values_of(rows, f)) > 1]
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(f) for f in facets), []).append(row)
    if all(all(is_number(v) for v in key) for key in groups):
        groups = dict(sorted(groups.items()))
    plan = []
    for key, group in groups.items():
        title = ", ".join(
            value_text(v) if f == studies.STUDY else f"{title_of(f)} = {value_text(v)}"
            for f, v in zip(facets, key, strict=True)
        )
        if series is None or len(keys) == 1:
            plan.append((title, group, keys))
        else:
            plan += [(", ".join(t for t in (title, title_of(y)) if t), group, [y]) for y in keys]
    return plan, series


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    rows = studies.rows_of(result, figure)
    keys, x = _keys(figure), figure["x"]
    if not any(is_number(row.get(y)) for row in rows for y in keys):
        raise NothingToDraw(f"no row of the study has a number for {' or '.join(keys)}")
    plan, series = _plan(figure, rows)
    names = _names(rows, keys, series)
    width = len(plan) if len(plan) <= 3 else 2 if len(plan) == 4 else 3
    lines = -(-len(plan) // width)
    single = len(plan) == 1
    fig = Figure(
        figsize=(
            (5.6 if single else 3.0 * width) + panels.LEGEND_WIDTH * (len(names) > 1),
            3.5 if single else 2.6 * lines,
        ),
        layout="constrained",
    )
    axes = fig.subplots(lines, width, squeeze=False)
    missing = False
    places = values_of(rows, x)
    for index, (ax, (title, group, own)) in enumerate(zip(axes.flat, plan, strict=False)):
        ax.set_title(title, loc="left")
        numeric = all(is_number(v) for v in places)
        gaps: list[tuple[float, style.Color]] = []
        zeros: list[tuple[list[float], dict[str, Any]]] = []
        for y in own:
            for name, chosen in _series(group, series, y):
                absent, at_zero = _draw_line(
                    ax, figure, places if not numeric else None, chosen, y, names[name]
                )
                gaps += [(place, names[name]["color"]) for place in absent]
                if at_zero:
                    zeros.append((at_zero, names[name]))
        _finish_x(ax, figure, places, numeric)
        _finish_y(ax, figure)
        panels.zero_strip(ax, zeros)
        panels.gap_strip(ax, gaps, "none")
        missing = missing or bool(gaps)
        ax.set_xlabel(figure.get("x_title") or title_of(x))
        titled = len(own) < len(keys)  # then the panel's title names the quantity
        if index % width == 0:
            own_name = title_of(own[0]) if len(own) == 1 and not titled else ""
            ax.set_ylabel(figure.get("y_title") or own_name)
    for ax in axes.flat[len(plan) :]:
        ax.set_visible(False)
    handles = []
    if len(names) > 1:
        handles = [
            style.handle(label, **look)
            for label, look in ((_label(rows, series, n), look) for n, look in names.items())
        ]
    if missing:
        handles.append(panels.gap_handle())
        handles[-1].set_label("no value")
    if handles:
        panels.side_legend(fig, handles)
    return fig


def _names(rows: Sequence[Row], keys: Sequence[str], series: str | None) -> dict[Any, dict]:
    """The look of each line, by its series' value or key of y."""
    values = values_of(rows, series) if series else list(keys)
    return {
        value: {
            "color": style.category(index),
            "marker": style.category_marker(index),
            "linestyle": _DASHES[index % len(_DASHES)],
            "markersize": 4.5,
        }
        for index, value in enumerate(values)
    }


def _label(rows: Sequence[Row], series: str | None, name: Any) -> str:
    if series is None:
        return title_of(str(name))
    numbers = all(is_number(v) for v in values_of(rows, series))
    return f"{title_of(series)} = {value_text(name)}" if numbers else value_text(name)


def _series(rows: Sequence[Row], series: str | None, y: str) -> list[tuple[Any, list[Row]]]:
    if series is None:
        return [(y, list(rows))]
    groups = [(v, [r for r in rows if r.get(series) == v]) for v in values_of(rows, series)]
    return [(value, group) for value, group in groups if group]


def _draw_line(
    ax: Axes,
    figure: dict[str, Any],
    named_places: list[Any] | None,
    rows: Sequence[Row],
    y: str,
    look: dict[str, Any],
) -> tuple[list[float], list[float]]:
    """A row without a number breaks the line, and so does a 0 on a logarithmic axis: returns the
    places of both, for marks of their own."""
    x = figure["x"]
    points = [
        (named_places.index(r.get(x)) if named_places is not None else r[x], r.get(y))
        for r in rows
        if named_places is not None or is_number(r.get(x))
    ]
    points.sort(key=lambda point: point[0])
    logarithmic = "y" in figure.get("log", [])
    heights, absent, zeros = [], [], []
    for place, value in points:
        drawable = (
            value is not None
            and is_number(value)
            and math.isfinite(value)
            and (value > 0 or not logarithmic)
        )
        heights.append(value if drawable else math.nan)
        if not drawable:
            (zeros if is_number(value) and value <= 0 else absent).append(place)
    places = [place for place, _ in points]
    single = len(set(places)) == len(places)  # else the points of one place are of other problems
    ax.plot(places, heights, zorder=3, **(look if single else look | {"linestyle": "none"}))
    return absent, zeros


def _finish_x(ax: Axes, figure: dict[str, Any], places: Sequence[Any], numeric: bool) -> None:
    if not numeric:
        ax.set_xticks(range(len(places)), [value_text(p) for p in places])
        ax.set_xlim(-0.4, len(places) - 0.6)
        if sum(len(str(p)) for p in places) > 34:
            ax.tick_params(axis="x", rotation=30)
            for label in ax.get_xticklabels():
                label.set_ha("right")
        return
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: _short(v)))
    if "x" in figure.get("log", []) and min(places) > 0:
        ax.set_xscale("log")
        margin = (places[-1] / places[0]) ** 0.06 if len(places) > 1 else 2
        ax.set_xlim(places[0] / margin, places[-1] * margin)
        ax.xaxis.set_minor_locator(NullLocator())
        if len(places) <= _MOST_TICKS:
            ax.xaxis.set_major_locator(FixedLocator(places))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: _short(v)))
    elif len(places) <= _MOST_TICKS and _apart(places):
        ax.xaxis.set_major_locator(FixedLocator(places))


def _apart(places: Sequence[float]) -> bool:
    """Do ticks at all places leave room for their labels?"""
    gaps = [b - a for a, b in itertools.pairwise(places)]
    return not gaps or min(gaps) >= 0.09 * (places[-1] - places[0])


def _short(value: float) -> str:
    return short_count(int(value)) if float(value).is_integer() and value >= 0 else compact(value)


def _tick(value: float) -> str:
    return (MINUS if value < 0 else "") + compact(abs(value))


def _finish_y(ax: Axes, figure: dict[str, Any]) -> None:
    if "y" in figure.get("log", []):
        ax.set_yscale("log")
        low, high = ax.get_ylim()
        ax.yaxis.set_major_locator(
            LogLocator(subs=(1, 2, 5) if low > 0 and high / low < 200 else (1,), numticks=9)
        )
        ax.yaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: compact(v)))
    else:
        ax.yaxis.set_major_locator(MaxNLocator(6))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: _tick(float(round(v, 12)))))


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    return studies.sentences_of(result, figure)
