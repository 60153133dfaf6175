# SPDX-License-Identifier: Apache-2.0
"""GFLOP/s over n, d or k under the measured multiply-add and matrix-product rates."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from plots import captions
from plots.figures._rates import draw_rates
from plots.load import Result
from plots.metrics import ceilings, gpu_ceilings
from plots.select import cells_of

_MEASURES = (
    ("GFLOP/s, nk(3d+2) + d(n+k)", lambda cell: cell.data.get("gflops")),
    ("GFLOP/s, 2nkd", lambda cell: cell.data.get("gflops_2nkd")),
)


def _limits(result: Result, figure: dict[str, Any]) -> list[tuple[str, float]]:
    timed = [c for c in cells_of(result, figure) if c.ok]
    cells = [c for c in timed if not c.on_gpu]
    kinds = sorted({"f64" if c.precision == "f64" else "f32" for c in cells})
    fma = ceilings(result).get("fma_gflops") or {}
    gemm = ceilings(result).get("gemm_gflops") or {}
    found = []
    for kind in kinds:
        found += [
            (f"multiply-add {kind}, all threads", fma.get(f"{kind}_all_threads")),
            (f"multiply-add {kind}, one thread", fma.get(f"{kind}_one_thread")),
            (f"matrix product {kind}", gemm.get(kind)),
        ]
    on_gpu = {c.precision for c in timed if c.on_gpu}
    gpu_fma = gpu_ceilings(result).get("fma_gflops") or {}
    gpu_gemm = gpu_ceilings(result).get("gemm_gflops") or {}
    for kind in sorted({"f64" if precision == "f64" else "f32" for precision in on_gpu}):
        found.append((f"GPU, multiply-add {kind}", gpu_fma.get(kind)))
    for precision in sorted(on_gpu):
        found.append((f"GPU, matrix product {precision}", gpu_gemm.get(precision)))
    return [(name, height) for name, height in found if height]


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    return draw_rates(result, figure, _MEASURES, _limits(result, figure), "GFLOP/s")


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    notes = [
        "Rates are modelled operations over measured time. Ceilings are measured and bound 2nkd; "
        "the operation model counts about 1.5 + 1/d times as many for the same distances.",
    ]
    if not _limits(result, figure):
        notes.append("The machine's arithmetic ceilings were not measured.")
    return captions.caption(result, figure, cells_of(result, figure), notes)
