# SPDX-License-Identifier: Apache-2.0
"""Shared by the kinds that show rates under measured ceilings: one row of panels per measure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.figure import Figure

from plots import panels
from plots.load import Cell, Interval, Result
from plots.metrics import scaled_rate
from plots.select import Panel, drawn_of, facet_grid

Measure = tuple[str, Callable[[Cell], float | None]]  # axis label, rate of a cell


def draw_rates(
    result: Result,
    figure: dict[str, Any],
    measures: Sequence[Measure],
    ceilings: Sequence[tuple[str, float]],
    unit: str,
) -> Figure:
    """Panels of each measure below one another, ceilings drawn in all."""
    cells = drawn_of(result, figure)
    x = figure.get("x", "n")
    facets = facet_grid(cells, figure.get("facets", []), x)
    rows = [row for _ in measures for row in facets]
    fig, grid = panels.figure_grid(rows)
    ends = []
    missing = False
    for index, (panel_row, axes_row) in enumerate(zip(rows, grid, strict=True)):
        label, rate = measures[index // len(facets)]

        def value(cell: Cell, rate: Callable[[Cell], float | None] = rate) -> Interval | None:
            return scaled_rate(cell, rate(cell))

        for panel, ax in zip(panel_row, axes_row, strict=True):
            if panel is None or ax is None:
                continue
            shown = _shown(panel, rate)
            missing = missing or any(not c.ok for c in shown)
            panels.numeric_x(ax, x, [getattr(c, x) for c in panel.cells])
            ends = panels.draw_lines(ax, result, shown, x, value) or ends
            panels.draw_ceilings(ax, ceilings)
            panels.log_y(ax)
        if axes_row[0] is not None:
            axes_row[0].set_ylabel(label)
    handles = panels.ceiling_handles(ceilings, unit)
    handles += panels.series_handles(result, panels.ordered_series(cells, ends))
    if missing:
        handles.append(panels.gap_handle())
    panels.side_legend(fig, handles)
    return fig


def _shown(panel: Panel, rate: Callable[[Cell], float | None]) -> list[Cell]:
    """Variants that state no traffic of their own are no gaps: they are simply not drawn."""
    stated = {c.variant for c in panel.cells if rate(c) is not None}
    return [c for c in panel.cells if c.variant in stated or not c.ok]
