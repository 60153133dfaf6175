# SPDX-License-Identifier: Apache-2.0
"""GFLOP/s over n, d or k: of iterations under the measured multiply-add and matrix-product rates,
or of one stage under the multiply-add rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from plots.figures._rates import Measure, ceilings_of, draw_rates, rate_caption
from plots.figures._stages import OPERATIONS
from plots.load import Cell, Result
from plots.metrics import ceilings, gpu_ceilings
from plots.panels import Ceiling

_ITERATION = (
    Measure("GFLOP/s, nk(3d+2) + d(n+k)", lambda cell: cell.data.get("gflops"), OPERATIONS),
    Measure("GFLOP/s, 2nkd", lambda cell: cell.data.get("gflops_2nkd"), OPERATIONS),
)
_STAGE = (Measure("GFLOP/s of the stage", lambda _: None, OPERATIONS),)


def _measures(figure: dict[str, Any]) -> tuple[Measure, ...]:
    return _ITERATION if figure.get("stage") is None else _STAGE


def _limits(
    result: Result, on_gpu: bool, cells: Sequence[Cell], stage: bool, _measure: Measure
) -> list[Ceiling]:
    """Arithmetic rates of where the cells run. A stage is held against multiply-adds alone: no
    matrix product can do it, and on a GPU those have units of their own."""
    limits = gpu_ceilings(result) if on_gpu else ceilings(result)
    fma, gemm = limits.get("fma_gflops") or {}, limits.get("gemm_gflops") or {}
    found = []
    for kind in sorted({"f64" if c.precision == "f64" else "f32" for c in cells}):
        if on_gpu:
            found.append((f"GPU, multiply-add {kind}", fma.get(kind), f"multiply-add {kind}"))
            continue
        own = [c for c in cells if (c.precision == "f64") == (kind == "f64")]
        if not stage or any(c.threads > 1 for c in own):
            rate = fma.get(f"{kind}_all_threads")
            found.append((f"multiply-add {kind}, all threads", rate, f"multiply-add {kind}"))
        if not stage or any(c.threads == 1 for c in own):
            rate = fma.get(f"{kind}_one_thread")
            found.append((f"multiply-add {kind}, one thread", rate, f"one thread {kind}"))
        if not stage:
            found.append((f"matrix product {kind}", gemm.get(kind), f"matrix product {kind}"))
    if on_gpu and not stage:
        for precision in sorted({c.precision for c in cells}):
            name = f"matrix product {precision}"
            found.append((f"GPU, {name}", gemm.get(precision), name))
    return [Ceiling(name, rate, on_gpu, kind) for name, rate, kind in found if rate]


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    return draw_rates(result, figure, _measures(figure), _limits, "GFLOP/s")


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    if figure.get("stage") is None:
        notes = [
            "Rates are modelled operations over measured time. Ceilings are measured and bound "
            "2nkd; the operation model counts about 1.5 + 1/d times as many for the same distances."
        ]
    else:
        notes = [
            "Rates are the stage's modelled operations over its measured time. The ceiling is "
            "measured with multiply-adds, which do two operations at once: code that subtracts, "
            "multiplies and adds apart cannot reach it."
        ]
    if not ceilings_of(result, figure, _measures(figure), _limits):
        notes.append("The machine's arithmetic ceilings were not measured.")
    return rate_caption(result, figure, notes)
