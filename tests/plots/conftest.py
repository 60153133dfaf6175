# SPDX-License-Identifier: Apache-2.0
"""One small experiment, shared by the tests."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def small_experiment() -> dict[str, Any]:
    """Every kind of figure on two variants and four shapes."""
    return {
        "name": "small",
        "title": "A small sweep",
        "description": "For tests.",
        "data": {"generator": "blobs", "seed": 1, "k": "sweep"},
        "init": "random:1",
        "variants": ["cpu_a", "openmp_b", {"variant": "cpu_a", "precision": "f64"}],
        "baseline": {"variant": "cpu_a", "precision": "f32"},
        "scales": {
            "quick": {"sweep": {"n": [100, 1000], "d": [2], "k": [2, 5]}, "iterations": 10},
            "paper": {"sweep": {"n": [100, 1000], "d": [2], "k": [2, 5]}, "iterations": 10},
        },
        "traces": [
            {
                "name": "run",
                "variant": "cpu_a",
                "precision": "f64",
                "n": 100,
                "d": 2,
                "k": 3,
                "iterations": 5,
                "keep_points": 40,
                "keep_centroids": True,
                "expected": {"inertia": [5.0, 4.0, 3.5, 3.2, 3.1], "relative_tolerance": 1e-9},
            }
        ],
        "published": [
            {
                "label": "theirs",
                "variant": "cpu_a",
                "precision": "f32",
                "n": 100,
                "d": 2,
                "k": 2,
                "quantity": "total_seconds",
                "value": 2.5,
                "iterations": 300,
                "machine": "an old machine",
                "where": "table 1",
            },
            {
                "label": "their GPU",
                "quantity": "speedup",
                "value": 14,
                "machine": "an old GPU",
                "where": "figure 2",
            },
            {
                "label": "their inertia",
                "variant": "cpu_a",
                "precision": "f64",
                "quantity": "inertia",
                "value": 5.0,
                "iteration": 1,
                "machine": "an old machine",
                "where": "listing",
            },
        ],
        "figures": [
            {"id": "time", "kind": "time", "x": "n", "facets": ["k"], "title": "Time"},
            {"id": "one-panel", "kind": "time", "x": "n", "where": {"k": [2]}, "title": "Time"},
            {"id": "bars", "kind": "bars", "where": {"n": [100], "k": [2]}, "title": "Bars"},
            {"id": "speedup", "kind": "speedup", "x": "n", "title": "Speed-up"},
            {"id": "gflops", "kind": "gflops", "x": "k", "facets": ["n"], "title": "GFLOP/s"},
            {"id": "gbytes", "kind": "gbytes", "x": "k", "facets": ["n"], "title": "GB/s"},
            {"id": "stages", "kind": "stages", "x": "k", "facets": ["n"], "title": "Stages"},
            {"id": "table", "kind": "table", "title": "Published"},
            {"id": "convergence", "kind": "convergence", "title": "Convergence"},
            {"id": "scatter", "kind": "scatter", "trace": "run", "title": "Points"},
        ],
    }
