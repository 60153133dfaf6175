# SPDX-License-Identifier: Apache-2.0
"""Speed-up against a named baseline over n, d or k; as bars where there is nothing to go over."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from plots import captions, panels, style
from plots.figures._hbars import Line, draw_bars
from plots.load import Cell, Interval, Result
from plots.metrics import named, speedup
from plots.select import NothingToDraw, cells_of, drawn_of, facet_grid
from plots.words import factor


def _baseline(result: Result, figure: dict[str, Any]) -> dict[str, Any] | str:
    baseline = figure.get("baseline") or result.spec.get("baseline")
    if not baseline:
        raise NothingToDraw("neither the figure nor the experiment names a baseline")
    return baseline


def _tick(value: float) -> str:
    return factor(value, ticks=True)


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    cells = drawn_of(result, figure)
    base = {c.shape: c for c in named(result.cells, _baseline(result, figure))}
    if not any(cell.ok for cell in base.values()):
        raise NothingToDraw("the baseline has no time in this run")

    def value(cell: Cell) -> Interval | None:
        return speedup(base[cell.shape], cell) if cell.shape in base else None

    x = figure.get("x", "n")
    rows = facet_grid(cells, figure.get("facets", []), x)
    if all(len({getattr(c, x) for c in p.cells}) == 1 for row in rows for p in row if p):
        return draw_bars(
            result,
            cells,
            value,
            factor,
            _tick,
            lambda _: [Line(1.0, "baseline")],
            best_is_least=False,
        )
    fig, grid = panels.figure_grid(rows)
    ends = []
    for panel_row, axes_row in zip(rows, grid, strict=True):
        for panel, ax in zip(panel_row, axes_row, strict=True):
            if panel is None or ax is None:
                continue
            panels.numeric_x(ax, x, [getattr(c, x) for c in panel.cells])
            ax.axhline(1.0, color=style.BASELINE, linewidth=1.2, zorder=1)
            ends = panels.draw_lines(ax, result, panel.cells, x, value) or ends
            panels.log_y(ax, _tick)
        if axes_row[0] is not None:
            axes_row[0].set_ylabel("speed-up")
    panels.finish_lines(fig, result, grid, cells, ends, not all(value(c) for c in cells))
    return fig


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    cells = cells_of(result, figure)
    notes = captions.baseline_sentences(result, cells, _baseline(result, figure))
    return captions.caption(result, figure, cells, notes)
