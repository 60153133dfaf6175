# SPDX-License-Identifier: Apache-2.0
"""GB/s over n, d or k under the measured bandwidths: of iterations, compulsory and as written, or
of one stage as written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.figure import Figure

from plots.figures._rates import Measure, ceilings_of, draw_rates, rate_caption
from plots.figures._stages import BYTES
from plots.load import Cell, Result
from plots.metrics import ceilings, gpu_ceilings
from plots.panels import Ceiling


def _of(kind: str) -> Callable[[Cell], Any]:
    return lambda cell: (cell.data.get("gbytes_per_second") or {}).get(kind)


_COMPULSORY = Measure("GB/s, compulsory", _of("compulsory"), BYTES, of_stages=False)
_MEASURES = (
    _COMPULSORY,
    Measure("GB/s, as written", _of("as_written"), BYTES),
)


def _limits(
    result: Result, on_gpu: bool, cells: Sequence[Cell], stage: bool, measure: Measure
) -> list[Ceiling]:
    """Bandwidths of where the cells run; a copy is not a limit of one stage, which mostly reads.
    What is sent to a GPU in every iteration is held against the link, once a point."""
    if on_gpu:
        limits = gpu_ceilings(result)
        found = [
            ("GPU, read from memory", limits.get("read_gbytes_per_second"), "memory"),
            ("GPU, read from L2", limits.get("read_gbytes_per_second_l2"), "cache"),
        ]
        streamed = [bool(c.data.get("streamed")) for c in cells]
        if measure is _COMPULSORY and any(streamed):
            sent = limits.get("host_to_device_gbytes_per_second") or {}
            link = ("page-locked memory to the GPU", sent.get("pinned"), "link")
            found = [link] if all(streamed) else [*found, link]
    else:
        limits = ceilings(result)
        found = [
            ("read from memory", limits.get("read_gbytes_per_second"), "memory"),
            ("copy in memory", None if stage else limits.get("copy_gbytes_per_second"), "copy"),
            ("read from cache", limits.get("read_gbytes_per_second_cache"), "cache"),
        ]
    return [Ceiling(name, rate, on_gpu, kind) for name, rate, kind in found if rate]


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    return draw_rates(result, figure, _MEASURES, _limits, "GB/s")


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    notes = ["Bytes are modelled, time and ceilings measured."]
    if figure.get("stage") is None:
        notes = [
            "Bytes are modelled, time and ceilings measured: compulsory counts each point and "
            "label once, as written counts what the variant's loops move."
        ]
    else:
        notes[0] += " Counted are the bytes that the stage's loops move as written."
    if not ceilings_of(result, figure, _MEASURES, _limits):
        notes.append("The machine's bandwidths were not measured.")
    return rate_caption(result, figure, notes)
