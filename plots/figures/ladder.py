# SPDX-License-Identifier: Apache-2.0
"""From naive to best: a rung per step, with its time and the factor that the step gains; steps on
the CPU above, on the GPU below."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from plots import captions, style
from plots.figures._hbars import by_shape
from plots.load import Cell, Result
from plots.metrics import named, speedup
from plots.select import NothingToDraw, cells_of, drawn_of, label_of, shape_title, status_of
from plots.words import compact_seconds, factor, seconds

_RUNG, _AROUND = 0.44, 1.0  # inches
_LETTERS = 40
_COLUMNS = ((58, "time"), (112, "this step"), (166, "so far"))  # points from the panel's right edge
_CPU, _GPU = "CPU", "GPU"


@dataclass(frozen=True)
class Rung:
    text: str
    cell: Cell
    part: str  # CPU or GPU


def _picked(figure: dict[str, Any], cells: Sequence[Cell]) -> list[tuple[str, Cell]]:
    """What was added and the cell of it, for every step that has one."""
    found = []
    for step in figure.get("steps") or []:
        wanted = {k: step[k] for k in ("variant", "precision", "threads") if k in step}
        own = named(cells, wanted)
        if own:
            found.append((step["text"], own[0]))
    return found


def _rungs(picked: Sequence[tuple[str, Cell]]) -> list[Rung]:
    """A cell without a time does not say where it would have run: it stays with its neighbour."""
    known = [cell.on_gpu if cell.ok else None for _, cell in picked]
    rungs = []
    last = next((k for k in known if k is not None), False)
    for (text, cell), on_gpu in zip(picked, known, strict=True):
        last = last if on_gpu is None else on_gpu
        rungs.append(Rung(text, cell, _GPU if last else _CPU))
    return rungs


def _groups(cells: Sequence[Cell], figure: dict[str, Any]) -> list[list[Rung]]:
    """The rungs of each shape; steps that were skipped wherever the figure looks are left out."""
    groups = [_picked(figure, group) for group in by_shape(cells)]
    tried = {label_of(c) for group in groups for _, c in group if c.status != "skipped"}
    return [
        rungs
        for group in groups
        if (rungs := _rungs([(text, c) for text, c in group if label_of(c) in tried]))
        and any(rung.cell.ok for rung in rungs)
    ]


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    drawn_of(result, figure)  # says why, if nothing at all has a time
    groups = _groups(cells_of(result, figure), figure)
    if not groups:
        raise NothingToDraw("no step of this figure has a time in this run")
    heights = [_RUNG * _places(group)[1] + _AROUND for group in groups]
    fig = Figure(figsize=(9.6, sum(heights)), layout="constrained")
    axes = fig.subplots(len(groups), 1, squeeze=False, height_ratios=heights).ravel()
    for ax, rungs in zip(axes, groups, strict=True):
        _draw_group(ax, result, rungs)
    return fig


def _places(rungs: Sequence[Rung]) -> tuple[list[float], float]:
    """Heights of the rungs, with room for a heading above each part, and their sum."""
    mixed = len({rung.part for rung in rungs}) > 1
    places, y, part = [], 0.0, None
    for rung in rungs:
        if mixed and rung.part != part:
            y += 0.75
        part = rung.part
        places.append(y)
        y += 1.0
    return places, y


def _draw_group(ax: Axes, result: Result, rungs: Sequence[Rung]) -> None:
    places, total = _places(rungs)
    mids = [r.cell.seconds.mid for r in rungs if r.cell.seconds]
    low, high = min(mids) / 2.2, max(mids) * 1.5
    ax.set_xscale("log")
    ax.set_xlim(low, high)
    ax.set_ylim(total - 0.4, -0.9)
    first = last = None
    part = None
    mixed = len({rung.part for rung in rungs}) > 1
    for y, rung in zip(places, rungs, strict=True):
        cell, look = rung.cell, style.look_of(result, rung.cell)
        if mixed and rung.part != part:
            _left_of(ax, y - 0.85, rung.part, fontweight="bold")
            ax.axhline(y - 0.62, color=style.LIGHT_GREY, linewidth=0.8)
        part = rung.part
        name = "\n".join(textwrap.wrap(rung.text, _LETTERS)[:2])
        lines = name.count("\n") + 1
        _left_of(ax, y - 0.15, name)
        below = y + (0.2 if lines == 1 else 0.36)
        _left_of(ax, below, label_of(cell), color=style.GREY, fontsize=style.TINY)
        if cell.seconds is None:
            ax.axhspan(y - 0.26, y + 0.26, linewidth=0, zorder=0.5, **style.GAP)
            ax.text(
                0.5,
                y,
                status_of(cell),
                transform=ax.get_yaxis_transform(),
                ha="center",
                va="center",
                fontsize=style.SMALL,
                color=style.GREY,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )
            continue
        mid = cell.seconds.mid
        if last is not None:  # what this step gains
            y_last, before = last
            gained = before.seconds.mid > mid
            ax.plot(
                [before.seconds.mid] * 2 + [mid],
                [y_last, y, y],
                color=style.GREY if gained else style.VERDICTS["fails"],
                linewidth=1.1,
                linestyle="-" if gained else "--",
                zorder=1.5,
            )
        ax.plot([low, mid], [y, y], color=style.LIGHT_GREY, linewidth=1.2, zorder=1)
        ax.errorbar(
            mid,
            y,
            xerr=[
                [max(0.0, mid - cell.seconds.low)],
                [max(0.0, cell.seconds.high - mid)],
            ],
            markersize=8,
            zorder=3,
            **look.marks,
        )
        step = speedup(last[1], cell) if last else None
        so_far = speedup(first, cell) if first else None
        texts = (
            seconds(mid),
            factor(step.mid if step else None),
            factor(so_far.mid if so_far else None),
        )
        slower = step is not None and step.mid < 1
        for (x, heading), text in zip(_COLUMNS, texts, strict=True):
            warn = slower and heading == "this step"
            color = style.VERDICTS["fails"] if warn else style.BLACK
            weight = "bold" if heading == "this step" and step else "normal"
            _beside(ax, 1.0, x, y, text, color=color, fontweight=weight)
        first, last = first or cell, (y, cell)
    for x, heading in _COLUMNS:
        _beside(ax, 1.0, x, -0.75, heading, color=style.GREY)
    ax.set_yticks([])
    ax.grid(axis="y", visible=False)
    ax.spines["left"].set_visible(False)
    ax.set_title(shape_title(rungs[0].cell), loc="left", fontweight="bold")
    ax.set_xlabel("time per iteration")
    decades = high / low
    ax.xaxis.set_major_locator(
        LogLocator(
            subs=(1,) if decades > 300 else (1, 3) if decades > 20 else (1, 2, 5), numticks=9
        )
    )
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: compact_seconds(value)))


def _beside(ax: Axes, side: float, points: float, y: float, text: str, **how: Any) -> None:
    """A text that ends so many points from the left (side 0) or right (1) edge of the panel."""
    how = {"ha": "right", "va": "center", "fontsize": style.SMALL} | how
    ax.annotate(
        text,
        (side, y),
        xycoords=ax.get_yaxis_transform(),
        xytext=(points, 0),
        textcoords="offset points",
        annotation_clip=False,
        **how,
    )


def _left_of(ax: Axes, y: float, text: str, **how: Any) -> None:
    _beside(ax, 0.0, -7, y, text, **how)


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    cells = cells_of(result, figure)
    chosen = [c for group in by_shape(cells) for _, c in _picked(figure, group)]
    steps = figure.get("steps") or []
    notes = [
        "This step: the time of the step above it that has one, over its own. So far: the time of "
        "the first step over its own. Both are ratios of medians."
    ]
    for rungs in _groups(cells, figure):
        lost = _losses(rungs)
        if lost:
            where = f" at {shape_title(rungs[0].cell)}" if len(by_shape(cells)) > 1 else ""
            notes.append(f"Slower than the step above it{where}: {', '.join(lost)}.")
    known = {c.variant for c in chosen}
    absent = [s["variant"] for s in steps if s["variant"] not in known]
    if absent:
        notes.append(f"Not part of this run: {', '.join(dict.fromkeys(absent))}.")
    return captions.caption(result, figure, chosen, notes)


def _losses(rungs: Sequence[Rung]) -> list[str]:
    timed = [rung for rung in rungs if rung.cell.ok]
    pairs = itertools.pairwise(timed)
    return [
        later.text
        for before, later in pairs
        if (ratio := speedup(before.cell, later.cell)) and ratio.mid < 1
    ]
