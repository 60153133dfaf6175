# SPDX-License-Identifier: Apache-2.0
"""Seconds per iteration over n, d or k, one line per variant, both axes logarithmic."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from plots import captions, panels
from plots.load import Result
from plots.select import cells_of, drawn_of, facet_grid
from plots.words import compact_seconds


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    cells = drawn_of(result, figure)
    x = figure.get("x", "n")
    rows = facet_grid(cells, figure.get("facets", []), x)
    fig, grid = panels.figure_grid(rows)
    highlight = figure.get("highlight", [])
    ends = []
    for panel_row, axes_row in zip(rows, grid, strict=True):
        for panel, ax in zip(panel_row, axes_row, strict=True):
            if panel is None or ax is None:
                continue
            panels.numeric_x(ax, x, [getattr(c, x) for c in panel.cells])
            shown, missing = panels.draw_lines(
                ax, result, panel.cells, x, lambda c: c.seconds, highlight
            )
            ends = shown or ends
            panels.log_y(ax, compact_seconds)
            panels.gap_strip(ax, missing)
        if axes_row[0] is not None:
            axes_row[0].set_ylabel("time per iteration")
    gaps = not all(c.ok for c in cells)
    panels.finish_lines(fig, result, grid, cells, ends, gaps, x, highlight=highlight)
    return fig


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    cells = cells_of(result, figure)
    return captions.caption(result, figure, cells, captions.highlight_sentences(figure, cells))
