# SPDX-License-Identifier: Apache-2.0
"""Whole fits in figures, claims and the report, where they stand as studies do."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from plots import fits
from plots.figures import trade_off


def row(estimator: str, status: str = "ok", **changes: Any) -> dict[str, Any]:
    numbers = {
        "seconds": 2.0 if status == "ok" else None,
        "excess": 0.5 if status == "ok" else None,
        "front": status == "ok" or None,
    }
    return {
        "estimator": estimator,
        "status": status,
        "reason": None if status == "ok" else "why",
        "library": f"{estimator} 1.0",
        "exact": estimator == "ours",
        "outside": None,
        "seconds_to_near_best": None,
        "near_best": 1.0,
        **numbers,
        **changes,
    }


def call(estimator: str, seconds: float, inertia: float) -> dict[str, Any]:
    return {"estimator": estimator, "seconds": seconds, "inertia": inertia}


FIT: dict[str, Any] = {
    "name": "photograph-k16",
    "dataset": "photograph-1",
    "n": 100,
    "d": 3,
    "k": 16,
    "from": None,
    "iterations": None,
    "starts": None,
    "status": "wrong",
    "reason": "theirs: seed 1: labels",
    "best": {"inertia": 10.0, "estimator": "ours", "seed": 1},
    "rows": [row("ours"), row("theirs", "wrong")],
    "calls": [call("ours", 1.0, 20.0), call("ours", 3.0, 10.0)],
    "notes": ["a note"],
    "seconds": 4.0,
}


def test_a_wrong_library_takes_no_other_row_with_it() -> None:
    study = fits.as_study(FIT)
    assert (study["status"], study["reason"]) == ("ok", None)
    ours, theirs = study["rows"]
    assert (ours["seconds_min"], ours["seconds_max"]) == (1.0, 3.0)
    assert ours["inertia_over_best"] == 1.5
    assert (ours["inertia_over_best_min"], ours["inertia_over_best_max"]) == (1.0, 2.0)
    assert ours["library"] is None
    assert (theirs["library"], theirs["seconds"], theirs["seconds_min"]) == (
        "theirs 1.0",
        None,
        None,
    )


def test_where_nothing_is_right_the_fit_says_why() -> None:
    fit = copy.deepcopy(FIT) | {"rows": [row("theirs", "wrong")], "calls": [], "best": None}
    study = fits.as_study(fit)
    assert (study["status"], study["reason"]) == ("wrong", "theirs: seed 1: labels")


def test_an_inertia_of_nothing_is_equal_only_to_itself() -> None:
    fit = copy.deepcopy(FIT)
    fit["best"]["inertia"] = 0.0
    fit["calls"] = [call("ours", 1.0, 0.0), call("ours", 3.0, 5.0)]
    (ours, _) = fits.as_study(fit)["rows"]
    assert (ours["inertia_over_best_min"], ours["inertia_over_best_max"]) == (1.0, 1.0)


def test_who_is_first_is_said_and_by_how_much() -> None:
    fit = copy.deepcopy(FIT)
    fit["rows"] = [
        row("slow", seconds_to_near_best=0.5, over_quickest=10.0, outside=None),
        row("never", seconds_to_near_best=None, over_quickest=None, outside=None),
        row("kept", seconds_to_near_best=0.01, over_quickest=0.2, outside="points are kept"),
        row("ours", seconds_to_near_best=0.05, over_quickest=1.0, outside=None),
        row("theirs", "wrong", reason="seed 1: labels\nand more"),
        row("absent", "skipped"),
    ]
    assert fits.as_study(fit)["notes"] == [
        "ours is within 1 % of the best in 50.0 ms, slow in 10 times that; never: never.",
        "theirs is wrong: seed 1: labels.",
        "a note",
    ]


def test_the_time_to_near_the_best_has_an_interval() -> None:
    # Jeffreys' intervals of 10, 7 and 1 of 10: 0.783 to 1.000, 0.394 to 0.907, 0.011 to 0.381.
    for near, low, high in ((10, 2.0, 2.55), (7, 2.23, 5.09), (1, 5.25, 182)):
        assert fits.near_interval([2.0] * 10, near) == [
            pytest.approx(low, rel=0.02),
            pytest.approx(high, rel=0.1),
        ]
    assert fits.near_interval([2.0] * 5, 5) == [None, None]
    fit = copy.deepcopy(FIT)
    fit["calls"] = [call("ours", 1.0, 1.0), call("ours", 3.0, 1.0)] * 4
    fit["best"]["inertia"] = 1.0
    fit["rows"] = [row("ours", seconds_to_near_best=2.0, over_quickest=1.0, outside=None)]
    (sentence, *_) = fits.as_study(fit)["notes"]
    found = re.fullmatch(
        r"ours is within 1 % of the best in 2.00 s \((1\..*) s to ([23]\..*) s\)\.", sentence
    )
    assert found, sentence
    # The mean of eight calls of 1 or 3 s: 1.96 standard errors are 0.69 s; the share is 0.74 to 1.
    assert 1.2 < float(found[1]) < 1.6
    assert 2.5 < float(found[2]) < 3.4


@pytest.mark.parametrize("k", [16, [16, 32]])
def test_names_have_their_k(k: object) -> None:
    wanted = ["photograph-k16", "photograph-k32"][: 1 if k == 16 else 2]
    assert list(fits.names({"fits": [{"name": "photograph", "k": k}]})) == wanted


def test_the_front_is_a_line_through_its_rows_alone() -> None:
    class Axes:
        drawn: tuple[Any, ...] = ()

        def step(self, *points: Any, **_: Any) -> None:
            self.drawn = points

    axes = Axes()
    rows = [{"x": 3, "y": 1}, {"x": 1, "y": 2}]
    trade_off._draw_front(axes, rows, "x", "y")  # type: ignore[arg-type]
    assert axes.drawn == ((1, 3), (2, 1))


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.19, 0.64, [0.2, 0.5]),  # not 0.2, 0.3, 0.4, 0.5 and 0.6, which run into each other
        (0.05, 3, [0.1, 0.3, 1, 3]),
        (0.05, 30, [0.1, 1, 10]),
        (1e-6, 10, [1e-6, 1e-4, 1e-2, 1]),
        (5.1, 13.1, [10]),
    ],
)
def test_times_are_named_at_two_to_four_places(low: float, high: float, ticks: list[float]) -> None:
    assert trade_off._log_ticks(low, high) == ticks
