# SPDX-License-Identifier: Apache-2.0
"""Which cells a figure shows, and how they fall into series and panels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from plots.load import Cell, Result
from plots.words import TIMES, count, rounded_count

DIMENSIONS = ("n", "d", "k")
UNSTEADY = "unsteady"  # measured and right, but no one number speaks for it
THREADS = "threads"  # what a figure may go over besides
RANKS = "ranks"  # and this
GPUS = "gpus"  # or this


class NothingToDraw(Exception):
    """The figure's selection is empty; the text says why."""


def cells_of(result: Result, figure: dict[str, Any]) -> list[Cell]:
    """The figure's cells in the order of the experiment's variants; raises NothingToDraw."""
    cells = list(result.cells)
    for key, wanted in (figure.get("where") or {}).items():
        admitted = wanted if isinstance(wanted, list) else [wanted]
        cells = [c for c in cells if getattr(c, key, c.data.get(key)) in admitted]
    if not cells:
        raise NothingToDraw("no cell of this run is in the figure's selection")
    return cells


def drawn_of(result: Result, figure: dict[str, Any]) -> list[Cell]:
    """The cells that a picture shows: without variants that were skipped wherever the figure looks,
    e.g. for want of a GPU. The caption names those too. Raises NothingToDraw."""
    cells = cells_of(result, figure)
    require_a_time(cells)
    tried = {(c.variant, c.precision) for c in cells if c.status != "skipped"}
    return [c for c in cells if (c.variant, c.precision) in tried]


def require_a_time(cells: Sequence[Cell], what: str = "cells") -> None:
    """Raises NothingToDraw, with the reasons, where none of them has one."""
    if any(c.ok for c in cells):
        return
    statuses = [status_of(c) for c in cells]
    counts = [f"{statuses.count(s)} {s}" for s in dict.fromkeys(statuses)]
    reasons = list(dict.fromkeys(text for c in cells if (text := reason_of(c))))
    text = f"none of the {len(cells)} {what} has a time ({', '.join(counts)})"
    raise NothingToDraw(text + (f": {'; '.join(reasons[:2])}" if reasons else ""))


@dataclass(frozen=True)
class Series:
    """The cells of one variant at one precision and thread count."""

    label: str
    cells: tuple[Cell, ...]

    @property
    def first(self) -> Cell:
        return self.cells[0]


def series_of(cells: Iterable[Cell], x: str | None = None) -> list[Series]:
    """One series per variant, precision and, where a variant ran with several, numbers of threads
    of ranks and of GPUs, unless that is what the figure goes over."""
    groups: dict[tuple[str, str, int, int, int], list[Cell]] = {}
    for cell in cells:
        threads = 0 if x == THREADS else cell.threads
        ranks = 0 if x == RANKS else cell.ranks
        gpus = 0 if x == GPUS else cell.gpus
        groups.setdefault((cell.variant, cell.precision, threads, ranks, gpus), []).append(cell)
    counts: dict[tuple[str, str], set[int]] = {}
    for variant, precision, used, _, _ in groups:
        counts.setdefault((variant, precision), set()).add(used)

    def label(variant: str, precision: str, used: int, ranks: int, gpus: int) -> str:
        several = len(counts[(variant, precision)]) > 1
        text = f"{variant} {precision}" + (f" {TIMES}{used}" if several else "")
        text += f", {ranks} ranks" if ranks > 1 else ""
        return text + (f", {gpus} GPUs" if gpus > 1 else "")

    return [Series(label(*key), tuple(group)) for key, group in groups.items()]


def name_text(named: dict[str, Any] | str) -> str:
    """A variant as an experiment names it: 'cpu_b f64', with its threads if it has any."""
    if isinstance(named, str):
        return named
    words = [named[key] for key in ("variant", "precision") if key in named]
    return " ".join(words) + (f" {TIMES}{named['threads']}" if "threads" in named else "")


def label_of(cell: Cell) -> str:
    """With the number of threads where a file has the variant with several."""
    return f"{cell.variant} {cell.precision}" + (
        f" {TIMES}{cell.threads}" if cell.threads_vary else ""
    )


def status_of(cell: Cell) -> str:
    """The status as readers see it."""
    if cell.unsteady:
        return UNSTEADY
    return "wrong as expected" if cell.expected_wrong else cell.status


def reason_of(cell: Cell) -> str:
    """Why a cell has no time; for one that is kept although wrong, why that is."""
    if cell.unsteady:
        return "; ".join(text.rstrip(".") for text in cell.unsteady)
    reason = (cell.reason or "").rstrip(".")
    if cell.expected_wrong:
        kept = f"kept as printed: {cell.expected_wrong.rstrip('.')}"
        return f"{reason} ({kept})" if reason else kept
    return reason


def varying(cells: Iterable[Cell]) -> list[str]:
    """Dimensions with more than one value."""
    cells = list(cells)
    return [name for name in DIMENSIONS if len({getattr(c, name) for c in cells}) > 1]


def shape_title(cell: Cell, names: Iterable[str] = DIMENSIONS) -> str:
    return ", ".join(f"{name} = {count(getattr(cell, name))}" for name in names)


def short_shape(cell: Cell, between: str = ", ") -> str:
    """'n=500k, d=3, k=10', long numbers rounded."""
    return between.join(f"{name}={rounded_count(getattr(cell, name))}" for name in DIMENSIONS)


@dataclass(frozen=True)
class Panel:
    title: str
    cells: tuple[Cell, ...]


def axes_of(figure: dict[str, Any]) -> tuple[str, str]:
    """The two dimensions that a grid of fields goes over: k and n unless the figure says otherwise;
    raises NothingToDraw."""
    x, y = figure.get("x", "k"), figure.get("y", "n")
    if x == y or x not in DIMENSIONS or y not in DIMENSIONS:
        raise NothingToDraw(f"x and y are two of n, d and k, not {x!r} and {y!r}")
    return x, y


def facet_grid(
    cells: list[Cell], facets: list[str], x: str | None, y: str | None = None
) -> list[list[Panel | None]]:
    """Rows of panels. Whatever varies and is neither x (nor y, of fields) nor a facet becomes a
    facet too, so that no line ever joins different problems."""
    axes = (x, y)
    extra = [name for name in varying(cells) if name not in axes and name not in facets]
    names = [name for name in facets if name not in axes and name in varying(cells)] + extra

    def panel(chosen: list[Cell]) -> Panel | None:
        if not chosen:
            return None
        return Panel(shape_title(chosen[0], [n for n in DIMENSIONS if n in names]), tuple(chosen))

    def values(name: str) -> list[int]:
        return sorted({getattr(c, name) for c in cells})

    if not names:
        return [
            [Panel(shape_title(cells[0], [n for n in DIMENSIONS if n not in axes]), tuple(cells))]
        ]
    if len(names) == 2 and len(values(names[1])) <= 4:
        rows, columns = names
        return [
            [
                panel([c for c in cells if getattr(c, rows) == r and getattr(c, columns) == v])
                for v in values(columns)
            ]
            for r in values(rows)
        ]
    keys = sorted({tuple(getattr(c, name) for name in names) for c in cells})
    panels = [
        panel([c for c in cells if tuple(getattr(c, name) for name in names) == key])
        for key in keys
    ]
    width = len(panels) if len(panels) <= 4 else 3
    padded = panels + [None] * (-len(panels) % width)
    return [padded[i : i + width] for i in range(0, len(padded), width)]
