# SPDX-License-Identifier: Apache-2.0
"""Time per iteration of every variant at one shape; several shapes become several panels. The
machine's limit for the shape is drawn as a line."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from plots import captions
from plots.figures._hbars import Line, draw_bars
from plots.load import Cell, Result
from plots.metrics import limit_seconds
from plots.select import cells_of
from plots.words import compact_seconds, seconds


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    def line(group: list[Cell]) -> Line | None:
        found = [limit_seconds(result, c) for c in group if c.precision != "f64"]
        limit = min((limit[0] for limit in found if limit), default=None)
        return Line(limit, f"limit {seconds(limit)}") if limit else None

    return draw_bars(
        result,
        cells_of(result, figure),
        lambda c: c.seconds,
        seconds,
        compact_seconds,
        line,
        best_is_least=True,
    )


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    cells = cells_of(result, figure)
    notes = [
        "Time per iteration; hatched bars and hollow marks compute in another precision than f32."
    ]
    if any(limit_seconds(result, c) for c in cells):
        notes.append(
            "Limit: the larger of one pass over the points at the measured read bandwidth and "
            "2nkd operations at the measured multiply-add rate (f32, the most threads used)."
        )
    return captions.caption(result, figure, cells, notes)
