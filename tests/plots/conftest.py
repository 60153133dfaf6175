# SPDX-License-Identifier: Apache-2.0
"""One small experiment, and one browser, shared by the tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import browser
import pytest

from tests.support import told_to_skip


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--renew-images",
        action="store_true",
        help="write the reference pictures of tests/plots/test_images.py anew",
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Browser]:
    """A page of a browser of the module's own; without one the test fails, unless told to skip."""
    program = browser.find()
    if program is None:
        missing = "no Chromium here: tools/setup.sh browser installs it where apt has it"
        if told_to_skip("browser"):
            pytest.skip(missing)
        pytest.fail(f"{missing}; KMEANS_BENCH_SKIP=browser leaves these tests out")
    with browser.Browser(program, tmp_path_factory.mktemp("browser") / "profile") as driver:
        yield driver


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
            },
            *(
                {
                    "name": f"end-{variant[-1]}-{n}",
                    "variant": variant,
                    "n": n,
                    "d": 2,
                    "k": 3,
                    "iterations": 40,
                    "stop": "labels",
                }
                for variant in ("cpu_a", "openmp_b")
                for n in (100, 1000)
            ),
        ],
        "studies": [
            {
                "name": "spacing",
                "study": "made_up",
                "n": 100,
                "d": 2,
                "k": 3,
                "parameters": {"lengths": [1, 10]},
            },
            {"name": "other-spacing", "study": "made_up"},
        ],
        "claims": [
            {
                "id": "faster",
                "statement": "Threads are faster than one thread, by a factor of at least two.",
                "where": "section 3",
                "tests": [
                    {
                        "quantity": "speedup",
                        "variant": "openmp_b",
                        "baseline": {"variant": "cpu_a", "precision": "f32"},
                        "at_least": 2,
                    }
                ],
                "why": "A thread costs microseconds, and the smallest problem is over before.",
            },
            {
                "id": "lost",
                "statement": "A float sum loses next to nothing.",
                "where": "listing",
                "tests": [
                    {
                        "quantity": "finding",
                        "study": "spacing",
                        "finding": "relative_error",
                        "at_most": 1e-6,
                    }
                ],
                "why": "Its spacing is the fault.",
            },
            {
                "id": "absent",
                "statement": "A GPU is fastest.",
                "where": "abstract",
                "tests": [
                    {
                        "quantity": "speedup",
                        "variant": "cuda_z",
                        "baseline": {"variant": "cpu_a", "precision": "f32"},
                        "at_least": 1,
                    }
                ],
                "why": "There is none here.",
            },
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
                "iterations": 10,
                "machine": "an old machine",
                "where": "table 1",
                "group": "Table 1",
                "why": "Theirs counts the start of the program.",
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
            {"id": "table-1", "kind": "table", "group": "Table 1", "title": "Table 1"},
            {"id": "roofline", "kind": "roofline", "title": "Roofline"},
            {"id": "heatmap", "kind": "heatmap", "x": "k", "y": "n", "title": "Where it pays"},
            {"id": "winners", "kind": "winners", "x": "k", "y": "n", "title": "Fastest"},
            {
                "id": "ladder",
                "kind": "ladder",
                "steps": [
                    {"variant": "cpu_a", "precision": "f64", "text": "two plain loops"},
                    {"variant": "cpu_a", "precision": "f32", "text": "half the bytes"},
                    {"variant": "openmp_b", "text": "all threads, and a second line of text"},
                ],
                "where": {"n": [100], "k": [2]},
                "title": "Step by step",
            },
            {
                "id": "lines",
                "kind": "lines",
                "study": ["spacing", "other-spacing"],
                "x": "length",
                "y": ["error", "labels_changed"],
                "series": "arithmetic",
                "log": ["x", "y"],
                "title": "What a sum loses",
            },
            {
                "id": "rows",
                "kind": "rows",
                "study": "spacing",
                "columns": ["arithmetic", "length", {"key": "error", "title": "relative error"}],
                "where": {"arithmetic": ["float", "pairwise", "double"]},
                "title": "The same as a table",
            },
            {
                "id": "trace-time",
                "kind": "trace-time",
                "x": "n",
                "traces": ["end-.*"],
                "title": "Seconds until the end",
            },
            {"id": "scaling", "kind": "scaling", "show": "strong", "title": "Strong scaling"},
            {"id": "whole-call", "kind": "whole-call", "title": "A whole call"},
            {"id": "claims", "kind": "claims", "title": "What the source says"},
        ],
    }
