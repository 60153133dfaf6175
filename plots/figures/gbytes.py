# SPDX-License-Identifier: Apache-2.0
"""GB/s over n, d or k, compulsory and as written, under the measured bandwidths."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from plots import captions
from plots.figures._rates import draw_rates
from plots.load import Result
from plots.metrics import ceilings, gpu_ceilings
from plots.select import cells_of


def _of(kind: str):
    return lambda cell: (cell.data.get("gbytes_per_second") or {}).get(kind)


_MEASURES = (
    ("GB/s, compulsory", _of("compulsory")),
    ("GB/s, as written", _of("as_written")),
)


def _limits(result: Result, figure: dict[str, Any]) -> list[tuple[str, float]]:
    used = {c.on_gpu for c in cells_of(result, figure) if c.ok}
    limits, gpu = ceilings(result), gpu_ceilings(result)
    found = []
    if False in used:
        found += [
            ("read from memory", limits.get("read_gbytes_per_second")),
            ("copy in memory", limits.get("copy_gbytes_per_second")),
            ("read from cache", limits.get("read_gbytes_per_second_cache")),
        ]
    if True in used:
        found += [
            ("GPU, read from memory", gpu.get("read_gbytes_per_second")),
            ("GPU, read from L2", gpu.get("read_gbytes_per_second_l2")),
        ]
    return [(name, height) for name, height in found if height]


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    stated = any(_MEASURES[1][1](cell) is not None for cell in cells_of(result, figure))
    measures = _MEASURES if stated else _MEASURES[:1]
    return draw_rates(result, figure, measures, _limits(result, figure), "GB/s")


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    notes = [
        "Bytes are modelled, time and ceilings measured: compulsory counts each point and label "
        "once, as written counts what the variant's loops move.",
    ]
    if not _limits(result, figure):
        notes.append("The machine's bandwidths were not measured.")
    return captions.caption(result, figure, cells_of(result, figure), notes)
