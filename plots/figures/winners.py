# SPDX-License-Identifier: Apache-2.0
"""Which variant is fastest where: name, time and lead over the second in each field of a grid of
two of n, d and k, coloured by family; a panel per value of the third."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from plots import captions, style
from plots.figures import _fields as fields
from plots.figures._hbars import by_shape
from plots.load import Cell, Result
from plots.metrics import named, speedup
from plots.select import (
    UNSTEADY,
    NothingToDraw,
    axes_of,
    cells_of,
    drawn_of,
    facet_grid,
    label_of,
    series_of,
    short_shape,
    status_of,
    varying,
)
from plots.words import listed, many, seconds, short_count

_FIELD = (1.2, 0.5)  # inches
_LETTERS = 19
_WIDEST = 11.0  # inches of panels side by side


def _among(result: Result, figure: dict[str, Any], cells: list[Cell]) -> list[Cell]:
    """The cells of the variants or backends that the figure names; all of them otherwise."""
    if "among" not in figure:
        return cells
    keys: set[str] = set()
    for entry in figure["among"]:
        own = [c for c in cells if c.backend == entry]
        keys |= {c.key for c in own or named(cells, entry)}
    return [c for c in cells if c.key in keys]


def _ranked(cells: Sequence[Cell]) -> list[Cell]:
    timed = [c for c in cells if c.seconds is not None]
    return sorted(timed, key=lambda c: c.seconds.mid if c.seconds else 0.0)


NOT_MEASURED = "not measured"


def _left_out(here: Sequence[Cell], contenders: Sequence[str]) -> dict[str, list[str]]:
    """The contenders that a field was judged without, by what became of them."""
    found: dict[str, list[str]] = {}
    for cell in here:
        if not cell.ok:
            found.setdefault(status_of(cell), []).append(label_of(cell))
    there = {label_of(cell) for cell in here}
    absent = [label for label in contenders if label not in there]
    return found | ({NOT_MEASURED: absent} if absent else {})


def _hatch(left_out: Iterable[str]) -> str | None:
    """Of a field with a winner: who is wrong there could not have won, all others might have."""
    kinds = {status.startswith("wrong") for status in left_out}
    if False in kinds:
        return style.LEFT_OUT
    return style.LEFT_OUT_WRONG if kinds else None


def _contenders(cells: Sequence[Cell]) -> list[str]:
    return list(dict.fromkeys(label_of(cell) for cell in cells))


def _legend_of(hatch: str, cells: Sequence[Cell]) -> str:
    if hatch == style.LEFT_OUT_WRONG:
        return "another is wrong there"
    kinds: dict[str, None] = {}
    contenders = _contenders(cells)
    for here in by_shape(cells):
        if _ranked(here):
            kinds |= dict.fromkeys(k for k in _left_out(here, contenders) if k[:5] != "wrong")
    words = [kind for kind in (UNSTEADY, NOT_MEASURED, "skipped", "error") if kind in kinds]
    return "left out there:\n" + ", ".join(words)


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    cells = _among(result, figure, drawn_of(result, figure))
    if not any(c.ok for c in cells):
        raise NothingToDraw("no variant of this figure has a time in this run")
    x, y = axes_of(figure)
    labels = _labels(cells)
    panels = [p for line in facet_grid(cells, _others(cells, x, y), x, y) for p in line if p]
    columns = sorted({getattr(c, x) for c in cells})
    rows = sorted({getattr(c, y) for c in cells}, reverse=True)
    width = _FIELD[0] * len(columns) + 0.6
    abreast = fields.near_square(len(panels), max(1, int(_WIDEST / width)))
    lines = -(-len(panels) // abreast)
    height = _FIELD[1] * len(rows) + 0.65
    fig = Figure(
        figsize=(max(width * abreast, 3.4) + 1.75, max(height * lines, 1.9)), layout="constrained"
    )
    axes = fig.subplots(lines, abreast, squeeze=False)
    families: dict[str, None] = {}
    contenders = _contenders(cells)
    gaps = False
    hatches: dict[str, None] = {}
    for index, (ax, panel) in enumerate(zip(axes.flat, panels, strict=False)):
        ax.set_title(panel.title, loc="left")
        shown = {}
        for row, high in enumerate(rows):
            for column, wide in enumerate(columns):
                here = [c for c in panel.cells if (getattr(c, y), getattr(c, x)) == (high, wide)]
                if not here:
                    continue
                ranked = _ranked(here)
                if not ranked:
                    shown[row, column], gaps = fields.gap(here), True
                    continue
                family = style.family_of(result, ranked[0].backend, ranked[0].variant)
                families[family] = None
                text = _text(ranked, labels)
                hatch = _hatch(_left_out(here, contenders))
                if hatch:
                    hatches[hatch] = None
                color = style.backend_color(family)
                shown[row, column] = fields.Field(text, color, hatch=hatch)
        fields.draw_fields(
            ax, [short_count(v) for v in columns], [short_count(v) for v in rows], shown
        )
        ax.set_xlabel(x)
        if index % abreast == 0:
            ax.set_ylabel(y)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    handles = [
        Patch(facecolor=style.backend_color(family), label=family) for family in sorted(families)
    ]
    handles += [fields.hatch_patch(hatch, _legend_of(hatch, cells)) for hatch in sorted(hatches)]
    handles += [fields.gap_patch()] * gaps
    fig.legend(handles=handles, loc="outside right upper")
    return fig


def _others(cells: Sequence[Cell], x: str, y: str) -> list[str]:
    return [name for name in varying(cells) if name not in (x, y)]


def _labels(cells: Sequence[Cell]) -> dict[str, tuple[str, str]]:
    """Variant, and what else distinguishes a series, by key of the cell."""
    return {
        cell.key: (cell.variant, series.label.removeprefix(cell.variant).strip())
        for series in series_of(cells)
        for cell in series.cells
    }


def _text(ranked: Sequence[Cell], labels: dict[str, tuple[str, str]]) -> str:
    variant, rest = labels[ranked[0].key]
    name = fields.wrap_name(variant, _LETTERS)
    time = seconds(ranked[0].seconds.mid if ranked[0].seconds else None)
    lead = speedup(ranked[1], ranked[0]) if len(ranked) > 1 else None
    return "\n".join([*name, f"{rest}: {time}, {fields.ratio_text(lead) if lead else 'alone'}"])


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    cells = _among(result, figure, cells_of(result, figure))
    ranked = [order for group in by_shape(cells) if (order := _ranked(group))]
    labels = {c.key: s.label for s in series_of(cells) for c in s.cells}
    wins = Counter(labels[order[0].key] for order in ranked)
    leads = [r for order in ranked if len(order) > 1 and (r := speedup(order[1], order[0]))]
    notes = ["Each field: the fastest variant, its time per iteration, its lead over the second."]
    drawn = _among(result, figure, drawn_of(result, figure))  # without those skipped everywhere
    compared = sorted({c.variant for c in drawn})
    notes.append(f"Fastest of the {len(compared)} variants compared: {listed(compared, limit=99)}.")
    notes.append(captions.unsure_sentence(leads))
    found = [f"{name} {number}" for name, number in wins.most_common()]
    notes.append(f"Fastest in so many of {many(len(ranked), 'field')}: {listed(found, limit=12)}.")
    largest = max(
        (
            (r.mid, order[0])
            for order in ranked
            if len(order) > 1 and (r := speedup(order[1], order[0]))
        ),
        default=None,
        key=lambda pair: pair[0],
    )
    if largest:
        notes.append(
            f"The largest lead: {labels[largest[1].key]}, {largest[0]:.2g} times at "
            f"{short_shape(largest[1])}."
        )
    notes += _left_out_sentences(drawn)
    notes += captions.setup_sentences(cells)
    return captions.caption(result, figure, cells, notes, shown=captions.INTERVAL)


def _left_out_sentences(cells: Sequence[Cell]) -> list[str]:
    """The hatched fields, and who was left out of them for what."""
    contenders = _contenders(cells)
    found: dict[tuple[str, tuple[str, ...]], list[Cell]] = {}
    for here in by_shape(cells):
        if _ranked(here):
            for status, names in _left_out(here, contenders).items():
                found.setdefault((status, tuple(names)), []).append(here[0])
    if not found:
        return []
    parts = [
        f"{listed(list(names), limit=40)} ({status}) at "
        f"{listed([short_shape(c) for c in places], limit=6)}"
        for (status, names), places in found.items()
    ]
    return [f"Hatched: the fastest of those that are steady, without {'; without '.join(parts)}."]
