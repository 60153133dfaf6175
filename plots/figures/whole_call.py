# SPDX-License-Identifier: Apache-2.0
"""Seconds of setup and T iterations over T: setup, once, and T iterations at the
median. Where two lines cross, another variant is the faster one for longer calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots import captions, panels, style
from plots.figures._hbars import by_shape
from plots.load import Cell, Result
from plots.metrics import NO_CALL, WHOLE_CALLS, call_setup_seconds, whole_call_seconds
from plots.select import NothingToDraw, cells_of, drawn_of, facet_grid, series_of, shape_title
from plots.words import compact_seconds, listed, seconds

_STEPS = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300)  # a sum of two terms bends on these axes
_MOST_SHAPES = 4  # of which the caption names the fastest


def _known(cells: Sequence[Cell]) -> list[Cell]:
    return [c for c in cells if whole_call_seconds(c, 1) is not None]


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    cells = [c for c in drawn_of(result, figure) if c.backend != "python"]
    if not _known(cells):
        raise NothingToDraw("no cell of this figure has a time and a setup time")
    rows = facet_grid(cells, figure.get("facets", []), None)
    fig, grid = panels.figure_grid(rows)
    for panel_row, axes_row in zip(rows, grid, strict=True):
        for panel, ax in zip(panel_row, axes_row, strict=True):
            if panel is not None and ax is not None:
                _draw_panel(ax, result, panel.cells)
        if axes_row[0] is not None:
            axes_row[0].set_ylabel("time of setup and T iterations")
    order = {c.variant + c.precision: whole_call_seconds(c, WHOLE_CALLS[-1]) for c in _known(cells)}
    series = [s for s in series_of(cells) if _known(s.cells)]
    series.sort(key=lambda s: -(order.get(s.first.variant + s.first.precision) or 0.0))
    handles = panels.series_handles(result, series)
    gap = [panels.gap_handle()] * (len(_known(cells)) < len(cells))
    panels.side_legend(fig, handles + gap)
    return fig


def _draw_panel(ax: Axes, result: Result, cells: Sequence[Cell]) -> None:
    panels.numeric_x(ax, "iterations, T", list(WHOLE_CALLS))
    gaps: list[tuple[float, style.Color]] = []
    for cell in cells:
        look, setup = style.look_of(result, cell), call_setup_seconds(cell)
        if cell.seconds is None or setup is None:
            gaps += [(steps, look.color) for steps in WHOLE_CALLS]
            continue
        times = cell.seconds
        line = [setup + steps * times.mid for steps in _STEPS]
        ax.plot(_STEPS, line, linestyle=look.line, color=look.color, zorder=3)
        ax.errorbar(
            WHOLE_CALLS,
            [setup + steps * times.mid for steps in WHOLE_CALLS],
            yerr=[
                [steps * max(0.0, times.mid - times.low) for steps in WHOLE_CALLS],
                [steps * max(0.0, times.high - times.mid) for steps in WHOLE_CALLS],
            ],
            linestyle="none",
            elinewidth=1.0,
            zorder=3.1,
            **look.marks,
        )
    panels.log_y(ax, compact_seconds)
    panels.gap_strip(ax, gaps)


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    cells = cells_of(result, figure)
    calls = listed([str(steps) for steps in WHOLE_CALLS])
    notes = [
        "Setup, which happens once, and T iterations at the median; "
        f"marks at T = {calls}, with the iterations' interval alone."
    ]
    if any(c.backend == "python" for c in cells):
        notes.append(f"Without Python libraries: {NO_CALL}.")
        cells = [c for c in cells if c.backend != "python"]
    groups = by_shape(_known(cells))
    most = max((cell.iterations for cell in _known(cells)), default=WHOLE_CALLS[-1])
    if most < WHOLE_CALLS[-1]:
        notes.append(
            f"Beyond the {most} iterations that were measured each is taken to be as long as "
            "these; what keeps bounds between iterations, or follows changes alone, takes less."
        )
    for here in groups[:_MOST_SHAPES]:
        best = [(steps, _fastest(here, steps)) for steps in WHOLE_CALLS]
        texts = [
            f"T = {steps} {label} ({seconds(whole_call_seconds(cell, steps))})"
            for steps, (label, cell) in best
        ]
        notes.append(f"Fastest at {shape_title(here[0])}: {listed(texts)}.")
    return captions.caption(result, figure, cells, notes)


def _fastest(cells: Sequence[Cell], steps: int) -> tuple[str, Cell]:
    labels = {c.key: s.label for s in series_of(cells) for c in s.cells}
    best = min(cells, key=lambda c: whole_call_seconds(c, steps) or 0.0)
    return labels[best.key], best
