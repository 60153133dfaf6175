# SPDX-License-Identifier: Apache-2.0
"""Share of an iteration's time in each stage, stacked to 100 %: a row of panels per variant, a
column per facet, a bar per value of x."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from plots import captions, style
from plots.figures._stages import STAGES, times_of
from plots.load import Cell, Result
from plots.select import NothingToDraw, cells_of, drawn_of, facet_grid, series_of, status_of
from plots.words import listed, seconds, short_count

_ORDER = tuple(STAGES)
_HATCHES = ("", "///", "...", "\\\\\\", "xx", "++", "--", "||")


def _marked(cells: list[Cell]) -> list[Cell]:
    return [c for c in cells if c.ok and sum(times_of(c).values()) > 0]


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    cells = drawn_of(result, figure)
    marked = _marked(cells)
    if not marked:
        raise NothingToDraw("no variant of this figure marks its stages")
    x = figure.get("x", "k")
    rows = series_of([c for c in cells if c.variant in {m.variant for m in marked}])
    columns = [p for row in facet_grid(cells, figure.get("facets", []), x) for p in row if p]
    names = sorted(
        dict.fromkeys(name for c in marked for name in times_of(c)),
        key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER),
    )
    if len(columns) == 1:  # variants side by side instead of one below the other
        width = min(len(rows), 4)
        fig, axes = _axes(-(-len(rows) // width), width)
        places = [(series, columns[0], ax) for series, ax in zip(rows, axes.flat, strict=False)]
        for ax in axes.flat[len(rows) :]:
            ax.set_visible(False)
        for series, _, ax in places:
            ax.set_title(series.label, loc="left")
    else:
        fig, axes = _axes(len(rows), len(columns))
        places = [
            (series, panel, ax)
            for series, line in zip(rows, axes, strict=True)
            for panel, ax in zip(columns, line, strict=True)
        ]
        for panel, ax in zip(columns, axes[0], strict=True):
            ax.set_title(panel.title, loc="left")
        for series, ax in zip(rows, axes[:, 0], strict=True):
            ax.set_ylabel(series.label.replace(" ", "\n"), rotation=0, ha="right", va="center")
    for series, panel, ax in places:
        chosen = sorted((c for c in series.cells if c in panel.cells), key=lambda c: getattr(c, x))
        for place, cell in enumerate(chosen):
            _draw_bar(ax, place, cell, names)
        ax.set_xticks(range(len(chosen)), [short_count(getattr(c, x)) for c in chosen])
        ax.set_xlim(-0.6, max(len(chosen), 1) - 0.4)
        ax.set_ylim(0, 1)
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        ax.grid(axis="x", visible=False)
    for ax in axes[-1]:
        ax.set_xlabel(x)
    handles = [Patch(edgecolor="white", label=name, **_look(name, names)) for name in names]
    fig.legend(handles=handles, loc="outside right upper")
    return fig


def _axes(height: int, width: int) -> tuple[Figure, np.ndarray]:
    fig = Figure(figsize=(max(2.3 * width + 1.9, 6.5), 1.3 * height + 0.7), layout="constrained")
    return fig, fig.subplots(height, width, squeeze=False, sharey=True)


def _look(name: str, names: list[str]) -> dict[str, Any]:
    """Colour and hatching of a stage; an unknown one gets what its place among the others gives."""
    index = STAGES.get(name, names.index(name))
    return {
        "facecolor": style.category(index),
        "hatch": _HATCHES[index % len(_HATCHES)],
    }


def _draw_bar(ax: Any, place: int, cell: Cell, names: list[str]) -> None:
    stages = times_of(cell)
    total = sum(stages.values())
    if not cell.ok or total <= 0:
        word = status_of(cell) if not cell.ok else "no stages"
        ax.bar(place, 1.0, width=0.82, linewidth=0.0, **style.GAP)
        ax.text(
            place,
            0.5,
            word,
            ha="center",
            va="center",
            rotation=90,
            color=style.GREY,
            fontsize=style.TINY,
            bbox={"facecolor": style.GAP["facecolor"], "edgecolor": "none", "pad": 0.8},
        )
        return
    foot = 0.0
    for name in names:
        part = stages.get(name, 0.0) / total
        ax.bar(
            place,
            part,
            bottom=foot,
            width=0.82,
            edgecolor="white",
            linewidth=0.5,
            **_look(name, names),
        )
        foot += part


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    cells = cells_of(result, figure)
    marked = _marked(cells)
    totals = [sum(times_of(c).values()) for c in marked]
    notes = [
        "Shares of the marked stages in a profiling pass of its own, apart from the headline times."
    ]
    if totals:
        notes.append(
            f"Sums of the stages: {seconds(min(totals))} to {seconds(max(totals))} per iteration."
        )
    unmarked = {c.variant for c in cells if c.ok} - {c.variant for c in marked}
    if unmarked:
        notes.append(f"Without stages: {listed(sorted(unmarked))}.")
    sentences = [*captions.opening(result, figure), *notes, *captions.missing_sentences(cells)]
    return [*sentences, *captions.not_run_sentences(result, figure), *captions.closing(result)]
