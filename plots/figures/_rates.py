# SPDX-License-Identifier: Apache-2.0
"""Shared by the kinds that show rates under measured ceilings: a block of panels for each measure
on the CPU and on the GPU, so that no line stands under the limits of another processor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from plots import captions, panels
from plots.figures._stages import names_of
from plots.load import Cell, Interval, Result
from plots.metrics import scaled_rate, stage_on_gpu, stage_profiles, stage_rate
from plots.panels import Ceiling
from plots.select import NothingToDraw, Panel, cells_of, drawn_of, facet_grid
from plots.words import listed, span

_DECADES = 40.0  # least range of an axis, so that it has round numbers and rates their room
_HEADROOM = 1.2  # above the highest rate or ceiling, so that no marker is cut

Rate = Callable[[Cell], Interval | None]


@dataclass(frozen=True)
class Measure:
    """A rate of whole iterations or, with `stage`, of that stage alone."""

    label: str
    rate: Callable[[Cell], float | None]  # of a whole iteration
    quantity: str  # of a stage
    of_stages: bool = True  # has the measure a meaning for one stage?


Limits = Callable[[Result, bool, Sequence[Cell], bool, Measure], list[Ceiling]]


@dataclass(frozen=True)
class _Block:
    label: str
    rate: Rate
    cells: list[Cell]
    ceilings: list[Ceiling]


def _places(cells: Sequence[Cell], stage: str | None) -> dict[bool, list[Cell]]:
    """The cells by where they run, the CPU's first. One without a time does not say: it goes where
    its variant ran elsewhere, or else where all others did."""

    def place(cell: Cell) -> bool | None:
        if not cell.ok:
            return None
        return cell.on_gpu if stage is None else stage_on_gpu(cell, names_of(stage))

    known = {c.variant: p for c in cells if (p := place(c)) is not None}
    lonely = bool(known) and all(known.values())
    found: dict[bool, list[Cell]] = {}
    for cell in cells:
        where = place(cell)
        found.setdefault(known.get(cell.variant, lonely) if where is None else where, []).append(
            cell
        )
    return {where: found[where] for where in (False, True) if where in found}


def _blocks(
    result: Result, figure: dict[str, Any], measures: Sequence[Measure], limits: Limits
) -> list[_Block]:
    """Raises NothingToDraw where a stage is asked for and no cell states its work."""
    cells, stage = drawn_of(result, figure), figure.get("stage")
    blocks = []
    for measure in measures:
        if stage is not None and not measure.of_stages:
            continue

        def rate(cell: Cell, measure: Measure = measure) -> Interval | None:
            if stage is not None:
                return stage_rate(cell, names_of(stage), measure.quantity)
            return scaled_rate(cell, measure.rate(cell))

        places = _places(_stated(cells, rate), stage)
        for on_gpu, own in places.items():
            if not any(rate(c) for c in own):
                continue
            name = ("GPU: " if on_gpu else "CPU: ") if len(places) > 1 else ""
            timed = [c for c in own if c.ok]
            ceilings = limits(result, on_gpu, timed, stage is not None, measure)
            blocks.append(_Block(name + measure.label, rate, own, ceilings))
    if not blocks and stage is not None:
        raise NothingToDraw(f"no cell of this figure states the work of its stage '{stage}'")
    return blocks


def _stated(cells: Sequence[Cell], rate: Rate) -> list[Cell]:
    """Variants that state no traffic of their own are not gaps: they are simply not drawn."""
    stated = {c.variant for c in cells if rate(c) is not None}
    return [c for c in cells if c.variant in stated or not c.ok]


def draw_rates(
    result: Result,
    figure: dict[str, Any],
    measures: Sequence[Measure],
    limits: Limits,
    unit: str,
) -> Figure:
    """Panels of each block below one another, with the ceilings of where its cells run."""
    blocks = _blocks(result, figure, measures, limits)
    if not blocks:
        raise NothingToDraw("no cell of this figure has a rate")
    cells = drawn_of(result, figure)
    x = figure.get("x", "n")
    facets = facet_grid(cells, figure.get("facets", []), x)
    kept = [(block, _only(row, block.cells)) for block in blocks for row in facets]
    kept = [(block, row) for block, row in kept if any(row)]
    fig, grid = panels.figure_grid([row for _, row in kept])
    ends = []
    missing = False
    for (block, panel_row), axes_row in zip(kept, grid, strict=True):
        for panel, ax in zip(panel_row, axes_row, strict=True):
            if panel is None or ax is None:
                continue
            missing = missing or any(not c.ok for c in panel.cells)
            panels.numeric_x(ax, x, [getattr(c, x) for c in panel.cells])
            shown, absent = panels.draw_lines(ax, result, panel.cells, x, block.rate)
            ends = shown or ends
            panels.draw_ceilings(ax, block.ceilings)
            ax.set_yscale("log")
            low, high = ax.get_ylim()
            ax.set_ylim(min(low, high / _DECADES), high * _HEADROOM)
            panels.log_y(ax)
            panels.gap_strip(ax, absent)
        if axes_row[0] is not None:
            axes_row[0].set_ylabel(block.label)
    drawn = {c.key for block in blocks for c in block.cells}
    cells_drawn = [c for c in cells if c.key in drawn]
    ceilings = list(dict.fromkeys(c for block in blocks for c in block.ceilings))
    handles = panels.series_handles(
        result, panels.ordered_series(cells_drawn, ends, x), panels.joined(cells_drawn, x)
    )
    handles += panels.ceiling_handles(ceilings, unit)
    panels.side_legend(fig, handles + [panels.gap_handle()] * missing)
    return fig


def _only(row: Sequence[Panel | None], cells: Sequence[Cell]) -> list[Panel | None]:
    """The same panels with these cells alone; those without any are empty places."""
    keys = {c.key for c in cells}
    found = []
    for panel in row:
        own = tuple(c for c in panel.cells if c.key in keys) if panel else ()
        found.append(Panel(panel.title, own) if panel and own else None)
    return found


def ceilings_of(
    result: Result, figure: dict[str, Any], measures: Sequence[Measure], limits: Limits
) -> list[Ceiling]:
    """All that the figure draws."""
    blocks = _blocks(result, figure, measures, limits)
    return [ceiling for block in blocks for ceiling in block.ceilings]


def rate_caption(result: Result, figure: dict[str, Any], notes: Sequence[str]) -> list[str]:
    """As captions.caption, but of a stage's samples where the figure shows a stage."""
    cells, stage = cells_of(result, figure), figure.get("stage")
    if stage is None:
        return captions.caption(result, figure, cells, notes)
    stated = [c for c in cells if c.ok and stage_on_gpu(c, names_of(stage)) is not None]
    sizes = [len(stage_profiles(c)) for c in stated]
    number = span(sizes) if sizes else "0"
    sentences = [
        *captions.opening(result, figure),
        f"The stage '{stage}' alone, in the profiling pass: medians of {number} "
        f"{'process' if number == '1' else 'processes'}, bars: smallest and largest"
        + (", or from 6 on 95 % confidence interval" if max(sizes, default=0) >= 6 else "")
        + ".",
        *notes,
    ]
    silent = {c.variant for c in cells if c.ok} - {c.variant for c in stated}
    if silent:
        sentences.append(f"State no work of this stage: {listed(sorted(silent))}.")
    sentences += captions.missing_sentences(cells)
    return [*sentences, *captions.not_run_sentences(result, figure), *captions.closing(result)]
