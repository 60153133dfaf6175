# SPDX-License-Identifier: Apache-2.0
"""Speed-up against a named baseline over n, d or k; over one or two values as bars, and of many
shapes as a table of fields, a row per variant and a column per shape. A source's own numbers are
lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.figure import Figure

from plots import captions, exactness, panels, style
from plots.figures import _fields as fields
from plots.figures._hbars import Line, draw_bars
from plots.load import Cell, Interval, Result
from plots.metrics import baseline_of, named, speedup
from plots.panels import Reference
from plots.select import (
    DIMENSIONS,
    NothingToDraw,
    Series,
    cells_of,
    drawn_of,
    facet_grid,
    require_a_time,
    series_of,
    short_shape,
)
from plots.words import factor

_MOST_BARS = 6  # shapes side by side as bars
Entry = dict[str, Any]  # a published number
_FIELD = (0.62, 0.27)  # inches


def _tick(value: float) -> str:
    return factor(value, ticks=True)


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    cells = drawn_of(result, figure)
    base = {c.shape: c for c in named(result.cells, baseline_of(result, figure))}
    if not any(cell.ok for cell in base.values()):
        raise NothingToDraw("the baseline has no time in this run")
    if others := [c for c in cells_of(result, figure) if base.get(c.shape) is not c]:
        require_a_time(others, "cells besides the baseline's")

    def value(cell: Cell) -> Interval | None:
        return speedup(base[cell.shape], cell) if cell.shape in base else None

    x = figure.get("x", "n")
    rows = facet_grid(cells, figure.get("facets", []), x)
    lengths = [len({getattr(c, x) for c in p.cells}) for row in rows for p in row if p]
    if _is_scattered(lengths):
        return _draw_fields(cells, value)
    published = _published(result, figure)
    if _as_bars(lengths):

        def lines(group: list[Cell]) -> list[Line]:
            own = [p for p in published if _applies(p, group)]
            look = {"color": style.PUBLISHED, "linewidth": 1.0, "linestyle": style.REFERENCE}
            base_look = {"color": style.BASELINE, "linewidth": 1.2, "linestyle": "-"}
            return [
                Line(1.0, "baseline", base_look),
                *(Line(p["value"], _name(p), look) for p in own),
            ]

        return draw_bars(result, cells, value, factor, _tick, lines, best_is_least=False)
    highlight = figure.get("highlight", [])
    fig, grid = panels.figure_grid(rows)
    ends = []
    drawn = []
    for panel_row, axes_row in zip(rows, grid, strict=True):
        for panel, ax in zip(panel_row, axes_row, strict=True):
            if panel is None or ax is None:
                continue
            panels.numeric_x(ax, x, [getattr(c, x) for c in panel.cells])
            ax.axhline(1.0, color=style.BASELINE, linewidth=1.2, zorder=1)
            shown, missing = panels.draw_lines(ax, result, panel.cells, x, value, highlight)
            ends = shown or ends
            own = [p for p in published if _applies(p, panel.cells)]
            drawn += [p for p in own if p not in drawn]
            panels.draw_references(ax, [_reference(p, panel.cells, x) for p in own])
            panels.log_y(ax, _tick)
            panels.gap_strip(ax, missing)
        if axes_row[0] is not None:
            axes_row[0].set_ylabel("speed-up")
    gaps = not all(value(c) for c in cells)
    references = [Reference(_name(p), p["value"]) for p in drawn]
    panels.finish_lines(fig, result, grid, cells, ends, gaps, x, references, highlight)
    return fig


def _published(result: Result, figure: dict[str, Any]) -> list[Entry]:
    """The speed-ups that the source prints and the figure names by their labels."""
    wanted = figure.get("reference", [])
    entries = result.spec.get("published") or []
    return [e for e in entries if e["label"] in wanted and e["quantity"] == "speedup"]


def _reference(entry: Entry, cells: Sequence[Cell], x: str) -> Reference:
    """Over the values of x that the number is about, if those are some of the panel's."""
    everywhere = sorted({getattr(c, x) for c in cells})
    places = sorted({getattr(c, x) for c in cells if _applies(entry, [c])})
    part = (places[0], places[-1]) if len(places) > 1 and places != everywhere else None
    return Reference(_name(entry), entry["value"], part)


def _applies(entry: Entry, cells: Sequence[Cell]) -> bool:
    """Is the number about any of these cells' shapes?"""
    shapes = entry.get("shapes") or {}
    admitted = {name: shapes.get(name) for name in DIMENSIONS}
    admitted |= {name: [entry[name]] for name in DIMENSIONS if name in entry}
    return any(
        all(not values or getattr(c, name) in values for name, values in admitted.items())
        for c in cells
    )


def _name(entry: Entry) -> str:
    kind = f" {entry['of']}" if entry.get("of") else ""
    return f"published{kind}: {factor(entry['value'], ticks=True)}"


def _as_bars(lengths: list[int]) -> bool:
    """Too few values of x for a line, and few enough shapes to stand side by side."""
    few = max(lengths) < panels.FEWEST_JOINED and sum(lengths) <= _MOST_BARS
    return few or max(lengths) == 1


def _is_scattered(lengths: list[int]) -> bool:
    """Many shapes that hardly ever share a line."""
    return len(lengths) > _MOST_BARS and 2 * lengths.count(1) > len(lengths)


def _draw_fields(cells: list[Cell], value: Callable[[Cell], Interval | None]) -> Figure:
    """Rows by their median, the best on top, with what is missing as the least; the best of each
    column is bold. Exact variants stand apart, above."""
    shapes = sorted({c.shape: c for c in cells}.values(), key=lambda c: c.n * c.d * c.k)
    columns = {c.shape: index for index, c in enumerate(shapes)}
    series = series_of(cells)
    mixed = exactness.is_mixed(cells)

    def middle(one: Series) -> float:
        found = sorted(v.mid if (v := value(c)) else 0.0 for c in one.cells)
        return -found[len(found) // 2]

    series.sort(key=lambda one: (mixed and not one.first.exact, middle(one)))
    ratios = {c.key: v for c in cells if (v := value(c))}
    best: dict[tuple, float] = {}
    for c in (c for c in cells if c.key in ratios):
        contest = (c.shape, mixed and c.exact)
        best[contest] = max(best.get(contest, 0.0), ratios[c.key].mid)
    largest = fields.largest_factor(list(ratios.values()))
    shown = {}
    for row, one in enumerate(series):
        for c in one.cells:
            ratio = ratios.get(c.key)
            shown[row, columns[c.shape]] = (
                fields.ratio_field(
                    ratio, largest, bold=ratio.mid == best[c.shape, mixed and c.exact]
                )
                if ratio
                else fields.gap([c])
            )
    fig = Figure(
        figsize=(
            _FIELD[0] * len(columns) + (4.5 if mixed else 3.1),
            _FIELD[1] * len(series) + 0.75,
        ),
        layout="constrained",
    )
    ax = fig.subplots()
    headings = [short_shape(c, "\n") for c in shapes]
    fields.draw_fields(ax, headings, [_row_name(one, mixed) for one in series], shown)
    if mixed:
        exact = sum(one.first.exact for one in series)
        ax.axhline(exact - 0.5, color=style.GREY, linewidth=1.0)
    ax.xaxis.tick_top()
    ax.tick_params(axis="x", labelsize=style.TINY)
    fields.ratio_scale(fig, [ax], largest)
    return fig


def _row_name(series: Series, mixed: bool) -> str:
    """Next to exact variants, with what the others' speed costs."""
    price = exactness.most_wrong_text(series.cells) if mixed else ""
    return f"{series.label} ({price})" if price else series.label


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    cells = cells_of(result, figure)
    baseline = baseline_of(result, figure)
    notes = captions.baseline_sentences(result, cells, baseline)
    drawn = drawn_of(result, figure)
    x = figure.get("x", "n")
    rows = facet_grid(drawn, figure.get("facets", []), x)
    notes += captions.highlight_sentences(figure, cells)
    notes += [
        f"{_name(p)[0].upper()}{_name(p)[1:]}, drawn as a line: {p['label']} ({p['where']}"
        + (f"; {p['note']}" if p.get("note") else "")
        + ")."
        for p in _published(result, figure)
        if _applies(p, cells)
    ]
    lengths = [len({getattr(c, x) for c in p.cells}) for r in rows for p in r if p]
    if max(lengths) < panels.FEWEST_JOINED and not _as_bars(lengths):
        notes.append("Marks are not joined where there are fewer than three to a line.")
    notes += captions.setup_sentences(cells)
    apart = _as_bars(lengths) or _is_scattered(lengths)
    notes += [exactness.SENTENCE] if apart and exactness.is_mixed(drawn) else []
    if not _is_scattered(lengths):
        return captions.caption(result, figure, cells, notes)
    base = {c.shape: c for c in named(result.cells, baseline)}
    ratios = [r for c in drawn if c.shape in base and (r := speedup(base[c.shape], c))]
    which = ", among the exact and among the others" if exactness.is_mixed(drawn) else ""
    notes.append(
        f"Bold: the fastest at a shape{which}. Rows by their median over the shapes, the best on "
        "top."
    )
    notes.append(captions.unsure_sentence(ratios))
    return captions.caption(result, figure, cells, notes, shown=captions.INTERVAL)
