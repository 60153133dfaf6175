# SPDX-License-Identifier: Apache-2.0
"""Results of a test, and what is drawn of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import synthetic
from matplotlib.figure import Figure
from synthetic import Json

from plots.load import Cell, Result, load_result
from plots.render import Drawing


def loaded(folder: Path, data: Json) -> Result:
    return load_result(synthetic.write(folder, data))


Show = Callable[..., Drawing]


def gpu_experiment(small_experiment: Json) -> Json:
    names = [{"variant": "cuda_c", "precision": p} for p in ("f32", "tf32", "f16", "bf16")]
    ladder = next(f for f in small_experiment["figures"] if f["kind"] == "ladder")
    ladder["steps"].append({"variant": "cuda_c", "text": "a GPU"})
    return small_experiment | {"variants": ["cpu_a", "openmp_b", *names, "cuda_hybrid"]}


def figure_of(result: Result, kind: str, **changes: Any) -> Json:
    return next(f for f in result.figures if f["kind"] == kind) | changes


def texts_of(picture: Figure) -> list[str]:
    return [t.get_text() for ax in picture.axes for t in ax.texts if t.get_text()]


def cell_of(result: Result, variant: str, precision: str, n: int, k: int) -> Cell:
    return next(
        c for c in result.cells if (c.variant, c.precision, c.n, c.k) == (variant, precision, n, k)
    )


def points_of(picture: Figure) -> set[tuple[int, float]]:
    """Of lines with error bars."""
    return {
        (round(float(x)), round(float(y), 9))
        for ax in picture.axes
        for container in ax.containers
        for x, y in zip(*container.lines[0].get_data(), strict=True)
        if not math.isnan(y)
    }


def published_speedup(**changes: Any) -> Json:
    return {
        "label": "their mean",
        "variant": "openmp_b",
        "quantity": "speedup",
        "value": 51,
        "machine": "an old machine",
        "where": "figure 13",
        "note": "over values that are not printed",
    } | changes
