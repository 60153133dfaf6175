# SPDX-License-Identifier: Apache-2.0
"""A comparison of two machines made up by hand: what `kmeans-bench compare --machines --json`
would write."""

from __future__ import annotations

from typing import Any

from synthetic import Json


def machine(label: str, gpu: str, gbytes: float) -> Json:
    return {
        "label": label,
        "name": gpu.removeprefix("NVIDIA "),
        "machine": label,
        "cpu": "Synthetic Processor",
        "threads": 2,
        "gpu": gpu,
        "gpus": 1,
        "limits": {
            "file": "e",
            "gpu": {
                "read_gbytes_per_second": gbytes,
                "fma_gflops": {"f32": 60_000.0},
                "gemm_gflops": {"int8": 1_400_000.0},
                "launch_seconds": 3e-6,
            },
            "cpu": None,
        },
        "files": [
            {
                "experiment": "e",
                "scale": "quick",
                "complete": True,
                "git_commit": "0123456789abcdef",
                "git_dirty": False,
                "schema_version": 2,
                "started": "2026-01-01T00:00:00Z",
            }
        ],
    }


def cell(n: int, speedup: float, kind: str = "memory", **changes: Any) -> Json:
    """The fastest exact cell of its shape, its interval 2 % wide on either side."""
    seconds = n * 1e-9
    limits = [{"seconds": s, "binds": "bandwidth", "from_cache": False} for s in (2e-4, 1e-4)]
    verdict = "faster" if speedup > 1.05 else "slower" if speedup < 0.95 else "equal"
    base = {
        "experiment": "e",
        "key": f"cuda_a/f32/gaussian-{n}x8/k4/T5/t1",
        "variant": "cuda_a",
        "backend": "cuda",
        "precision": "f32",
        "dataset": f"gaussian-{n}x8",
        "n": n,
        "d": 8,
        "k": 4,
        "iterations": 5,
        "threads": [1, 1],
        "gpus": 1,
        "exact": True,
        "unsteady": False,
        "changed": False,
        "fastest": True,
        "kind": kind,
        "seconds": [seconds * speedup, seconds],
        "processes": [3, 3],
        "limits": limits,
        "verdict": verdict,
        "speedup": speedup,
        "speedup_low": speedup / 1.02,
        "speedup_high": speedup * 1.02,
        "confidence": 0.9,
    }
    return base | changes


def group(kind: str, cells: list[Json]) -> Json:
    ratios = [one["speedup"] for one in cells]
    return {
        "gpu": cells[0]["gpus"] > 0,
        "kind": kind,
        "where": f"where {kind} binds",
        "shapes": len(cells),
        "faster": sum(one["verdict"] == "faster" for one in cells),
        "slower": sum(one["verdict"] == "slower" for one in cells),
        "equal": sum(one["verdict"] == "equal" for one in cells),
        "smallest": min(ratios),
        "largest": max(ratios),
        "verdict": "faster",
        "speedup": sorted(ratios)[len(ratios) // 2],
        "speedup_low": min(ratios),
        "speedup_high": max(ratios),
        "confidence": 0.95,
    }


def machines(cells: list[Json], **changes: Any) -> Json:
    fastest = [one for one in cells if one["fastest"]]
    kinds = dict.fromkeys((one["gpus"] > 0, one["kind"]) for one in fastest)
    groups = [
        group(kind, [one for one in fastest if (one["gpus"] > 0, one["kind"]) == (gpu, kind)])
        for gpu, kind in kinds
    ]
    pair = {
        "first": machine("results/a", "NVIDIA One", 2000.0),
        "second": machine("results/b", "NVIDIA Two", 4000.0),
        "sentences": ["The Two, against the One, is 1.50 times as fast.", "All answers agree."],
        "differing_commits": [[], []],
        "answers": {"exact_cells": len(cells), "agree": True, "disagreements": []},
        "counts": {"timed": len(cells), "untimed": 0, "first_alone": 3, "second_alone": 4},
        "groups": groups,
        "cells": cells,
        "notes": [],
        "left_out": [],
        "differences": ["machine: a on One, b on Two"],
    }
    return {
        "machines_version": 1,
        "settings": {"effect": 0.05, "confidence": 0.95},
        "pairs": [pair | changes],
    }
