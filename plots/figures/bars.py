# SPDX-License-Identifier: Apache-2.0
"""Time per iteration of every variant at one shape; several shapes become several panels. The
limits of the processors used, for the shape, are drawn as lines."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from plots import captions, exactness, style
from plots.figures._hbars import Line, draw_bars
from plots.load import Cell, Result
from plots.select import cells_of, drawn_of
from plots.words import compact_seconds, seconds


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    cells = drawn_of(result, figure)
    mixed = len({c.on_gpu for c in cells if c.ok}) > 1

    def lines(group: list[Cell]) -> list[Line]:
        found = []
        for on_gpu, name in ((False, "CPU's limit"), (True, "GPU's limit")):
            # A cell without a time does not say where it would have run.
            own = [c for c in group if c.ok and c.on_gpu == on_gpu and c.precision != "f64"]
            limits = [c.limit[0] for c in own if c.limit]
            if limits:
                text = f"{name if mixed else 'limit'} {seconds(min(limits))}"
                found.append(Line(min(limits), text, style.limit(on_gpu, "limit")))
        return found

    return draw_bars(
        result,
        cells,
        lambda c: c.seconds,
        seconds,
        compact_seconds,
        lines,
        best_is_least=True,
    )


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    cells = cells_of(result, figure)
    notes = [
        "Time per iteration; hatched bars and marks that are not filled entirely compute in "
        "another precision than f32."
    ]
    if exactness.is_mixed(cells):
        notes.append(exactness.SENTENCE)
    limited = {c.on_gpu for c in cells if c.ok and c.limit}
    if False in limited:
        notes.append(
            ("CPU's limit" if True in limited else "Limit")
            + ": the larger of one pass over the points at the measured read bandwidth and "
            "2nkd operations at the measured multiply-add rate (f32, the most threads used)."
        )
    if True in limited:
        notes.append(
            "GPU's limit: the largest of one pass over the points at its measured read "
            "bandwidth, 2nkd operations at its fastest matrix product, whose operands are rounded, "
            "and one barrier over its grid."
        )
    return captions.caption(result, figure, cells, notes)
