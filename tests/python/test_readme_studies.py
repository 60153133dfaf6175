# SPDX-License-Identifier: Apache-2.0
"""What README.md and docs/ say of whole fits and of seeds, on rows that are set by the test."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import readme_studies

MACHINE = {"cpu": {"model": "Abacus"}, "gpus": [], "id": "table"}
WITH_GPU = MACHINE | {"gpus": [{"name": "Loom"}]}


def _result(studies: list[dict[str, Any]], **context: Any) -> Any:
    return SimpleNamespace(
        experiment="trial",
        scale="quick",
        studies=studies,
        context={"machine": MACHINE, "threads": 2} | context,
        cells=[SimpleNamespace(data={"noted": []}, gpus=1)],
    )


def _row(estimator: str, seconds: float, over: float | None, **changes: Any) -> dict[str, Any]:
    row = {"estimator": estimator, "status": "ok", "outside": None, "library": f"{estimator} 1.0"}
    numbers = {"seconds": seconds, "excess": 0.02, "over_quickest": over}
    near = None if over is None else 0.01 * over
    return row | numbers | {"seconds_to_near_best": near} | changes


def _fit(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"study": "fit", "rows": list(rows)}


def _said(*fits: dict[str, Any], **context: Any) -> str:
    result = _result(list(fits), **{"machine": WITH_GPU} | context)
    return readme_studies.whole_fits(result, "own", "base", "Short.")


def test_who_is_first_how_often_and_by_how_much() -> None:
    text = _said(
        _fit(_row("own", 0.01, 1), _row("base", 1, 50), _row("lib", 0.02, 4)),
        _fit(_row("own", 0.02, 2), _row("base", 1, 80), _row("lib", 0.01, None)),
        _fit(_row("own", 0.01, None, status="wrong"), _row("base", 1, 7000)),
    )
    assert "at 1 of 2 [fits]" in text
    assert ": in 10.0 ms." in text
    assert "base on the CPU takes 40.0 to 50.0 times" in text
    assert "GPU libraries 4.00 times at 1 of 2; elsewhere" in text
    assert "shorter calls end 2.0 % above" in text
    assert "7" not in text


def test_a_fit_where_others_are_first_or_the_yardstick_failed_counts() -> None:
    failed = _row("base", 1, 9, status="error")
    text = _said(_fit(_row("own", 0.01, 2), failed, _row("lib", 0.005, 1)))
    assert "at 0 of 1 [fits]" in text
    assert "on the CPU" not in text
    assert "GPU libraries 0.500 times." in text


def test_what_leaves_work_outside_its_clock_is_nobody() -> None:
    kept = _row("lib", 0.001, 0.1, outside="the points lie there")
    text = _said(_fit(_row("own", 0.01, 1), _row("base", 1, 50), kept))
    assert "at all 1 [fits]" in text
    assert "GPU libraries" not in text
    assert "shorter" not in text


def test_what_was_asked_and_where() -> None:
    fits = (_fit(_row("own", 0.01, 1), _row("lib", 0.02, 4)), _fit())
    text = _said(*fits, machine=MACHINE)
    assert text.startswith("**Short.** On Abacus (table) with 2 threads, `own` is first")
    assert "of `trial` that it ran at quick scale: in 10.0 ms. Other libraries 4.00 times." in text
    assert "Loom (table), `own` is first" in _said(*fits)
    assert "that it ran at quick scale, from host memory to host memory: in" in _said(*fits)


@pytest.mark.parametrize(("start", "expected"), [("12:59", True), ("13:00", False)])
def test_fits_that_ran_side_by_side_say_so(start: str, expected: bool) -> None:
    parts = [
        {"started": start, "finished": "14:00"},
        {"started": "11:00", "finished": "13:00"},
    ]
    text = _said(_fit(_row("own", 0.01, 1), _row("base", 1, 50)), parts=parts)
    assert ("side by side" in text) == expected


def _seeds(gpu_seconds: float) -> str:
    def way(name: str, **changes: Any) -> dict[str, Any]:
        return {"way": name, "seconds": 0.5, "gpu_seconds": None} | changes

    on_gpu = {"gpu_seconds": gpu_seconds, "seconds_over_iteration": gpu_seconds / 1e-3}
    large = [way("kmeans++, GPU", **on_gpu), way("ward, GPU", gpu_seconds=0.25)]
    small = [
        way("kmeans++", seconds_over_greedy=0.01),
        way("ward", seconds_over_greedy=0.04, inertia_over_greedy=0.9),
        way("scikit-learn-greedy"),
        way("absent", seconds=None),
    ]
    few = [row | {"seconds_over_greedy": 1.0, "inertia_over_greedy": 1.1} for row in small]
    studies = [
        {"name": "large", "n": 10**6, "d": 250, "k": 1000, "rows": large},
        {"name": "small", "n": 1000, "d": 3, "k": 256, "rows": small},
        {"name": "few", "n": 1000, "d": 3, "k": 255, "rows": few},
    ]
    # A read of the large points takes 1 ms, as an iteration does.
    ceilings = {"gpu": {"read_gbytes_per_second": 1000.0}}
    return readme_studies.seeds(_result(studies, ceilings=ceilings))


def test_seeds_are_held_against_their_goal_and_greedy_ones() -> None:
    text = _seeds(0.018)
    assert "(1 000 000, 250, 1 000)" in text
    assert "18.0 ms on one GPU" in text
    assert "500 ms with their transfer" in text
    assert "take 18.0 ms: it is met" in text
    assert "`ward` takes 250 ms" in text
    assert "k-means++ is 100 times as fast" in text
    assert "`ward` 25.0 times" in text
    assert "0.900 to 1.10 times" in text
    assert "it is missed" in _seeds(0.0181)
