# SPDX-License-Identifier: Apache-2.0
"""Speed-up over a grid of two of n, d and k: a panel per variant and value of whatever else varies,
the factor in each field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from plots import captions
from plots.figures import _fields as fields
from plots.load import Cell, Interval, Result
from plots.metrics import baseline_of, named, speedup
from plots.select import (
    DIMENSIONS,
    NothingToDraw,
    Series,
    axes_of,
    cells_of,
    drawn_of,
    label_of,
    series_of,
    varying,
)
from plots.words import short_count

_FIELD = (0.5, 0.36)  # inches
_LETTER = 0.072  # inches of a title
_WIDEST = 12.5  # inches of panels side by side


def _wanted(result: Result, figure: dict[str, Any], cells: Sequence[Cell]) -> list[Cell]:
    """Those of the figure's variants, or of all but the baseline."""
    baseline = baseline_of(result, figure)
    if "of" not in figure:
        base = {c.key for c in named(result.cells, baseline)}
        return [c for c in cells if c.key not in base]
    entries = figure["of"] if isinstance(figure["of"], list) else [figure["of"]]
    keys = [c.key for entry in entries for c in named(cells, entry)]
    return sorted((c for c in cells if c.key in set(keys)), key=lambda c: keys.index(c.key))


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    baseline = baseline_of(result, figure)
    cells = _wanted(result, figure, drawn_of(result, figure))
    if not cells:
        raise NothingToDraw("no cell of this run is of the figure's variants")
    base = {c.shape: c for c in named(result.cells, baseline)}
    if not any(cell.ok for cell in base.values()):
        raise NothingToDraw("the baseline has no time in this run")

    def value(cell: Cell) -> Interval | None:
        return speedup(base[cell.shape], cell) if cell.shape in base else None

    x, y = axes_of(figure)
    panels = _panels(cells, x, y)
    largest = fields.largest_factor([v for c in cells if (v := value(c))])
    columns = sorted({getattr(c, x) for c in cells})
    rows = sorted({getattr(c, y) for c in cells}, reverse=True)
    longest = max(len(part) for line in panels for title, _ in line for part in title.split("\n"))
    width = max(_LETTER * longest + 0.35, _FIELD[0] * len(columns) + 0.45)
    per_row = len(panels[0]) if len(panels[0]) > 1 else 0
    flat = [panel for line in panels for panel in line]
    abreast = per_row or fields.near_square(len(flat), max(1, int(_WIDEST / width)))
    lines = -(-len(flat) // abreast)
    height = _FIELD[1] * len(rows) + (0.6 if len(panels[0]) == 1 else 0.76)
    fig = Figure(figsize=(max(width * abreast + 1.0, 4.6), height * lines), layout="constrained")
    axes = fig.subplots(lines, abreast, squeeze=False)
    for index, (ax, (title, chosen)) in enumerate(zip(axes.flat, flat, strict=False)):
        ax.set_title(title, loc="left", fontsize=8.5)
        fields.draw_fields(
            ax,
            [short_count(v) for v in columns],
            [short_count(v) for v in rows],
            {
                (rows.index(getattr(c, y)), columns.index(getattr(c, x))): (
                    fields.ratio_field(v, largest) if (v := value(c)) else fields.gap([c])
                )
                for c in chosen
            },
        )
        ax.set_xlabel(x)
        if index % abreast == 0:
            ax.set_ylabel(y)
    for ax in axes.flat[len(flat) :]:
        ax.set_visible(False)
    fields.ratio_scale(fig, list(axes.flat), largest)
    return fig


def _panels(cells: Sequence[Cell], x: str, y: str) -> list[list[tuple[str, Sequence[Cell]]]]:
    """A row per variant, a column per value of the other dimension, if it varies."""
    other = [name for name in DIMENSIONS if name not in (x, y) and name in varying(cells)]
    series: list[Series] = series_of(cells)
    if not other:
        return [[(one.label, one.cells)] for one in series]
    values = sorted({getattr(c, other[0]) for c in cells})
    return [
        [
            (
                f"{one.label}\n{other[0]} = {short_count(value)}",
                [c for c in one.cells if getattr(c, other[0]) == value],
            )
            for value in values
        ]
        for one in series
    ]


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    baseline = baseline_of(result, figure)
    cells = _wanted(result, figure, cells_of(result, figure))
    notes = captions.baseline_sentences(result, cells, baseline)
    base = {c.shape: c for c in named(result.cells, baseline)}
    ratios = [r for c in cells if c.shape in base and (r := speedup(base[c.shape], c))]
    notes.append(captions.unsure_sentence(ratios))
    faster = sum(r.mid > 1 for r in ratios)
    notes.append(f"Faster than the baseline in {faster} of {len(ratios)} fields.")
    missing = sorted(
        {
            label_of(base[c.shape])
            for c in cells
            if c.ok and c.shape in base and not base[c.shape].ok
        }
    )
    if missing:
        notes.append(f"Fields with the word 'no value': {missing[0]} has no time there.")
    notes += captions.setup_sentences(cells)
    return captions.caption(result, figure, cells, notes, shown=captions.INTERVAL)
