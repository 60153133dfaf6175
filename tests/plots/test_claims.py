# SPDX-License-Identifier: Apache-2.0
"""Every quantity and every verdict, on numbers that are set by the test."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import synthetic
from synthetic import Json

from plots import claims, published
from plots.claims import (
    ABOUT,
    FAILS,
    HOLDS,
    PARTLY,
    TOO_FEW,
    UNDECIDED,
    UNTESTED,
    Verdict,
    verdict_of,
    verdicts,
    where,
)
from plots.load import Result, load_result
from plots.words import TIMES

GRID = [(n, d, k) for n in (100, 1000) for d in (2, 20) for k in (2, 8, 32)]


def _cell(
    variant: str,
    shape: tuple[int, int, int],
    seconds: float,
    spread: float = 0.01,
    **changes: Any,
) -> Json:
    cell = synthetic.cell("small", variant, "f32", shape, 10)
    synthetic.retime(cell, seconds, spread)
    if "stages" in changes:
        cell["stage_samples_seconds_per_iteration"] = synthetic.stage_samples(changes["stages"])
    cell |= changes
    synthetic.agree(cell)
    return cell


def _once(variant: str, shape: tuple[int, int, int], seconds: float) -> Json:
    """A cell with a single sample, as a long one may have."""
    cell = _cell(variant, shape, seconds)
    synthetic.resample(cell, [[seconds]])
    return cell


def _skipped(variant: str, shape: tuple[int, int, int], reason: str) -> Json:
    return synthetic.cell("small", variant, "f32", shape, 10, status="skipped", reason=reason)


class Bench:
    """Result files made of the test's own cells."""

    def __init__(self, folder: Path, experiment: Json) -> None:
        self.folder, self.experiment = folder, experiment

    def result(self, cells: list[Json], **changes: Any) -> Result:
        data = synthetic.result(self.experiment, cells=cells, planned_cells=len(cells))
        studies = changes.pop("studies", ())
        result = load_result(synthetic.write(self.folder, data | changes))
        if studies:  # as result files of this version hold them
            object.__setattr__(result, "studies", tuple(studies))
        return result

    def ratios(self, ratios: dict[tuple[int, int, int], float], spread: float = 0.01) -> Result:
        """A run in which cpu_a takes a second everywhere and openmp_b is `ratio` times as fast."""
        cells = [_cell("cpu_a", shape, 1.0, spread) for shape in ratios]
        cells += [_cell("openmp_b", shape, 1.0 / r, spread) for shape, r in ratios.items()]
        return self.result(cells)


@pytest.fixture
def bench(tmp_path: Path, small_experiment: Json) -> Bench:
    return Bench(tmp_path, small_experiment)


def _judge(result: Result, *tests: Json, **claim: Any) -> Verdict:
    record = {"id": "it", "statement": "It is so.", "where": "p. 1", "why": "Because.", **claim}
    verdict = verdict_of(result, record | {"tests": list(tests)})
    return replace(verdict, measured=verdict.measured.replace(TIMES, "x"))


FASTER = {"quantity": "speedup", "variant": "openmp_b", "baseline": "cpu_a"}


def test_each_shape_must_hold(bench: Bench) -> None:
    result = bench.ratios(dict.fromkeys(GRID, 5.0) | {GRID[0]: 12.0})
    verdict = _judge(result, FASTER | {"at_least": 4})
    assert (verdict.kind, verdict.verdict) == (HOLDS, "holds")
    assert verdict.measured == (
        "speed-up of openmp_b over cpu_a: 5.00 to 12.0x, median 5.00x at 12 shapes "
        "(claimed: at least 4x)"
    )
    assert _judge(result, FASTER | {"at_least": 13}).kind == FAILS
    assert _judge(result, FASTER | {"at_least": 13}).verdict == "does not hold"


def test_the_shapes_where_a_claim_holds_are_named(bench: Bench) -> None:
    result = bench.ratios({s: (9.0 if s[1] == 20 else 2.0) for s in GRID})
    verdict = _judge(result, FASTER | {"at_least": 4, "at_most": 43})
    assert (verdict.kind, verdict.verdict) == (PARTLY, "holds here only for d = 20")
    assert "claimed: 4 to 43x" in verdict.measured
    assert "2.00 to 9.00x, median 5.50x" in verdict.measured
    result = bench.ratios({s: (9.0 if s in GRID[:1] or s[1] == 20 else 2.0) for s in GRID})
    assert _judge(result, FASTER | {"at_least": 4}).verdict == (
        "holds here only for 7 of 12 shapes: d = 20; n = 100, d = 2, k = 2"
    )


@pytest.mark.parametrize(
    ("of", "bound", "kind"),
    [
        ("mean", 3.9, HOLDS),
        ("mean", 4.1, FAILS),
        ("median", 1.9, HOLDS),
        ("median", 2.1, FAILS),
        ("smallest", 0.9, HOLDS),
        ("smallest", 1.1, FAILS),
        ("largest", 8.8, HOLDS),
        ("largest", 9.2, FAILS),
    ],
)
def test_one_number_of_many_can_be_asked_for(
    bench: Bench, of: str, bound: float, kind: str
) -> None:
    result = bench.ratios(dict(zip(GRID[:3], (1.0, 2.0, 9.0), strict=True)))
    verdict = _judge(result, FASTER | {"at_least": bound, "of": of})
    assert verdict.kind == kind
    assert f"{of} {({'mean': '4', 'median': '2', 'smallest': '1', 'largest': '9'})[of]}" in (
        verdict.measured
    )


def _said(verdict: Verdict) -> tuple[str, str]:
    return verdict.kind, verdict.verdict.replace(TIMES, "x")


def test_a_bound_inside_of_the_interval_decides_nothing(bench: Bench) -> None:
    result = bench.ratios({GRID[0]: 4.1}, spread=0.05)
    for bound in (4, 4.2):  # on either side of the median
        verdict = _judge(result, FASTER | {"at_least": bound})
        assert verdict.sign == "±"
        assert _said(verdict) == (
            UNDECIDED,
            f"undecided: whether at least {bound}x (3.71 to 4.53x)",
        )
        assert "4.10x (3.71x to 4.53x)" in verdict.measured
    assert _judge(result, FASTER | {"at_least": 5}).verdict == "does not hold"
    assert _judge(result, FASTER | {"at_least": 3}).verdict == "holds"
    faster = _judge(bench.ratios({GRID[0]: 1.06}, spread=0.2), FASTER | {"at_least": 1})
    assert _said(faster) == (UNDECIDED, "undecided: whether faster (0.707 to 1.59x)")
    assert faster.detail.replace(TIMES, "x") == "whether faster (0.707 to 1.59x)"


@pytest.mark.parametrize(
    ("expected", "ratios"),
    [
        ({"at_least": 1}, (0.8, 1.0, 1.2)),
        ({"at_most": 1}, (1.2, 1.0, 0.8)),
        ({"at_least": 2, "at_most": 4}, (1.5, 4.0, 3.0)),
        ({"at_least": 2, "at_most": 4}, (5.0, 2.0, 3.0)),
        ({"about": 10}, (5.0, 8.0, 10.0)),
        ({"about": 10}, (15.0, 12.5, 9.0)),
        ({"up_to": 10}, (15.0, 12.5, 9.0)),
    ],
    ids=lambda value: str(value),
)
def test_an_interval_has_to_be_on_one_side(
    bench: Bench, expected: Json, ratios: tuple[float, float, float]
) -> None:
    """Of every key that bounds: outside, across the bound, inside; of one value and of many."""
    for ratio, kind in zip(ratios, (FAILS, UNDECIDED, HOLDS), strict=True):
        assert _judge(bench.ratios({GRID[0]: ratio}), FASTER | expected).kind == kind
        many = bench.ratios(dict.fromkeys(GRID[:3], ratio))
        assert _judge(many, FASTER | expected).kind == kind
        for of in ("mean", "median", "smallest", "largest"):
            if "up_to" not in expected:
                assert _judge(many, FASTER | expected | {"of": of}).kind == kind


def test_of_many_values_one_that_fails_decides_and_an_undecided_one_leaves_open(
    bench: Bench,
) -> None:
    def said(*ratios: float) -> tuple[str, str]:
        result = bench.ratios(dict(zip(GRID[:3], ratios, strict=True)), spread=0.05)
        verdict = _judge(result, FASTER | {"at_least": 4})
        undecided = sum(3.6 < ratio < 4.4 for ratio in ratios)
        told = f"; {undecided} of them undecided, by their intervals"
        assert (told in verdict.measured) == (undecided > 0)
        return _said(verdict)

    assert said(9.0, 4.1, 3.9) == (UNDECIDED, "undecided: whether at least 4x for k = 8, 32")
    assert said(4.1, 4.1, 3.9) == (UNDECIDED, "undecided: whether at least 4x")
    assert said(9.0, 4.1, 2.0) == (PARTLY, "holds here only for k = 2; undecided for k = 8")
    assert said(4.1, 4.1, 2.0) == (FAILS, "does not hold")  # nowhere does it surely hold
    mean = _judge(
        bench.ratios(dict(zip(GRID[:3], (3.0, 4.0, 5.0), strict=True)), spread=0.05),
        FASTER | {"at_least": 4, "of": "mean"},
    )
    assert _said(mean) == (UNDECIDED, "undecided: whether mean at least 4x (3.62 to 4.42x)")


def test_an_undecided_test_outweighs_one_that_holds_alone(bench: Bench) -> None:
    result = bench.ratios({GRID[0]: 4.1}, spread=0.05)
    open_, good = FASTER | {"at_least": 4}, FASTER | {"at_least": 1}
    missing = FASTER | {"variant": "cuda_z", "at_least": 1}
    assert _judge(result, good, open_).kind == UNDECIDED
    assert _judge(result, good, open_, missing).kind == UNTESTED
    assert _judge(result, open_, FASTER | {"at_least": 9}).kind == FAILS
    # Which way is known, how much is not; and neither is.
    about = _judge(result, good, FASTER | {"about": 5})
    assert _said(about) == (UNDECIDED, "undecided: whether about 5x (3.71 to 4.53x)")
    missed = _judge(result, open_, FASTER | {"about": 50})
    assert _said(missed) == (UNDECIDED, "undecided: whether at least 4x (3.71 to 4.53x)")
    assert _judge(result, good, open_, FASTER | {"about": 50}).kind == UNDECIDED


def test_smallest_and_largest_are_not_an_interval(bench: Bench) -> None:
    cells = [_cell("cpu_a", GRID[0], 1.0), _cell("openmp_b", GRID[0], 0.5)]
    cells[1]["seconds_per_iteration"] |= {"ci95_low": None, "ci95_high": None}
    assert "smallest and largest" in _judge(bench.result(cells), FASTER | {"at_least": 1}).measured


def test_without_cells_a_claim_is_not_tested(bench: Bench) -> None:
    result = bench.ratios({GRID[0]: 5.0})
    verdict = _judge(result, {"quantity": "gflops", "variant": "cuda_z", "at_least": 1})
    assert verdict.kind == UNTESTED
    assert verdict.verdict == "not tested here: no cell of cuda_z in this run"
    verdict = _judge(result, FASTER | {"at_least": 1, "where": {"n": [5], "k": [2, 3]}})
    assert verdict.verdict == (
        "not tested here: no cell of openmp_b with n = 5, k = 2, 3 in this run"
    )
    verdict = _judge(result, FASTER | {"baseline": "cpu_other", "at_least": 1})
    assert verdict.verdict == "not tested here: no cell of cpu_other in this run"


def test_a_skipped_variant_says_why(bench: Bench) -> None:
    cells = [_cell("cpu_a", s, 1.0) for s in GRID[:3]]
    cells += [_skipped("cuda_hybrid", s, "no CUDA device was found.") for s in GRID[:3]]
    verdict = _judge(bench.result(cells), FASTER | {"variant": "cuda_hybrid", "at_least": 1})
    assert verdict.verdict == ("not tested here: cuda_hybrid f32 skipped: no CUDA device was found")
    assert verdict.measured == ""


def test_gaps_are_told_beside_a_verdict(bench: Bench) -> None:
    cells = [_cell("cpu_a", s, 1.0) for s in GRID[:3]] + [_cell("openmp_b", GRID[0], 0.1)]
    cells += [_skipped("openmp_b", s, "too large") for s in GRID[1:3]]
    verdict = _judge(bench.result(cells), FASTER | {"at_least": 4, "where": {"n": [100, 7]}})
    assert verdict.kind == HOLDS
    assert "2 shapes without a value (openmp_b f32 skipped: too large)" in verdict.measured
    assert "not part of this run: n = 7" in verdict.measured


def test_times_totals_and_differences(bench: Bench) -> None:
    cells = [_cell("cpu_a", GRID[0], 0.5), _cell("openmp_b", GRID[0], 0.2)]
    result = bench.result(cells)
    per = {"quantity": "seconds_per_iteration", "variant": "cpu_a"}
    assert _judge(result, per | {"at_most": 0.6, "at_least": 0.4}).kind == HOLDS
    assert _judge(result, per | {"at_most": 0.4}).kind == FAILS
    total = {"quantity": "total_seconds", "variant": "cpu_a"}
    assert _judge(result, total | {"at_most": 5.1, "at_least": 4.9}).kind == HOLDS  # T = 10
    verdict = _judge(result, total | {"iterations": 300, "at_most": 152, "at_least": 148})
    assert verdict.kind == HOLDS
    assert "time for 300 iterations of cpu_a: 150 s" in verdict.measured
    extra = {"quantity": "extra_seconds", "variant": "cpu_a", "baseline": "openmp_b"}
    assert _judge(result, extra | {"at_least": 0.29, "at_most": 0.31}).kind == HOLDS
    verdict = _judge(result, extra | {"iterations": 10, "at_least": 2.9, "at_most": 3.1})
    assert verdict.kind == HOLDS
    # 10 (0.5 - 0.2), each within 1 %
    assert "3.00 s (2.93 s to 3.07 s)" in verdict.measured


CALL = {"quantity": "call_seconds", "variant": "cpu_a"}


def test_whole_calls_are_setup_and_iterations(bench: Bench) -> None:
    cells = [
        _cell("cpu_a", GRID[0], 0.5, setup_seconds=1.0),
        _cell("openmp_b", GRID[0], 0.1, setup_seconds=3.0),
    ]
    result = bench.result(cells)
    verdict = _judge(result, CALL | {"iterations": 20, "at_least": 10.9, "at_most": 11.1})
    assert verdict.kind == HOLDS
    # 1 + 20 iterations of 0.5 within 1 %; setup has no interval.
    assert verdict.measured == (
        "whole-call time for 20 iterations of cpu_a: 11.0 s (10.9 s to 11.1 s) "
        "(claimed: 10.9 to 11.1 s)"
    )
    own = _judge(result, CALL | {"at_least": 5.94, "at_most": 6.06})  # T = 10
    assert own.verdict == "holds"
    assert _judge(result, CALL | {"at_least": 5.99}).kind == UNDECIDED
    ratio = {"quantity": "call_speedup", "variant": "openmp_b", "baseline": "cpu_a"}
    # 11 over 5 at T = 20, 6 over 4 at T = 10, 1.5 over 3.1 at T = 1.
    verdict = _judge(result, ratio | {"iterations": 20, "at_least": 2.16, "at_most": 2.24})
    assert (
        "whole-call speed-up for 20 iterations of openmp_b over cpu_a: 2.20x (2.17x to 2.23x)"
        in (verdict.measured)
    )
    assert verdict.verdict == "holds"
    assert _judge(result, ratio | {"about": 1.5}).kind == HOLDS
    once = _judge(result, ratio | {"iterations": 1, "at_least": 1})
    assert (once.kind, once.verdict) == (FAILS, "does not hold")
    # 18 over 5.3: the baseline stops later.
    both = ratio | {"iterations": 23, "baseline_iterations": 34}
    verdict = _judge(result, both | {"at_least": 18 / 5.3 - 0.06, "at_most": 18 / 5.3 + 0.06})
    assert verdict.verdict == "holds"
    assert "for 23 iterations of openmp_b over 34 iterations of cpu_a: 3.40x" in verdict.measured


def test_shares_of_a_whole_call(bench: Bench) -> None:
    stages = {"assign": 0.3, "update": 0.1}
    changes: Json = {"setup_seconds": 5.0, "stages": stages}
    result = bench.result([_cell("cpu_a", GRID[0], 0.5, spread=1e-6, **changes)])
    share = {"quantity": "call_share", "variant": "cpu_a", "iterations": 20}

    def holds(test: Json, value: float) -> str:
        verdict = _judge(result, test | {"at_least": value - 1e-4, "at_most": value + 1e-4})
        assert verdict.kind == HOLDS
        return verdict.measured

    assert "share of setup in whole calls for 20 iterations of cpu_a: 33 %" in holds(share, 5 / 15)
    loose = bench.result([_cell("cpu_a", GRID[0], 0.5, **changes)])
    assert ": 33 % (33 % to 34 %)" in _judge(loose, share | {"at_most": 1}).measured
    result = bench.result([_cell("cpu_a", GRID[0], 0.5, spread=1e-6, **changes)])
    holds(share | {"iterations": 10}, 5 / 10)
    # A quarter of the iterations, whatever the sum of the stages.
    assert "share of the stage update in whole calls" in holds(
        share | {"stage": "update"}, 2.5 / 15
    )
    both = holds(share | {"stage": ["setup", "update"]}, 7.5 / 15)
    assert "share of setup and the stage update in whole calls" in both
    holds(share | {"stage": ["setup", "update", "assign"]}, 1.0)
    open_ = _judge(result, share | {"stage": ["setup", "upload"], "at_most": 1})
    assert open_.verdict == ("not tested here: cpu_a: no time of the stage upload is known of it")


def test_the_interval_of_a_share_of_a_call_holds_both_that_it_is_made_of(bench: Bench) -> None:
    changes: Json = {"setup_seconds": 1.0, "stages": {"assign": 0.75, "update": 0.25}}
    cell = _cell("cpu_a", GRID[0], 1.0, spread=0.5, **changes)
    samples = {"assign": [0.5, 0.75, 1.0], "update": [0.5, 0.25, 0.0]}
    cell["stage_samples_seconds_per_iteration"] = samples
    test = {"quantity": "call_share", "variant": "cpu_a", "iterations": 1, "at_most": 1}
    found = _judge(bench.result([cell]), test | {"stage": "assign"}).measured
    # 0.75 of 1 second of 2; from half of 0.5 of 1.5 to all of 1.5 of 2.5.
    assert "38 % (17 % to 60 %, smallest and largest)" in found
    found = _judge(bench.result([cell]), test | {"stage": "setup"}).measured
    assert "50 % (40 % to 67 %)" in found


def test_a_python_library_has_no_whole_call(bench: Bench) -> None:
    cells = [_cell("python_x", GRID[0], 0.5), _cell("openmp_b", GRID[0], 0.1)]
    for cell in cells:
        cell |= {"setup_seconds": 1.0, "executed_iterations": 10}
        synthetic.agree(cell)
    result = bench.result(cells)
    for test in (
        CALL | {"variant": "python_x"},
        CALL | {"variant": "python_x", "quantity": "call_share"},
        CALL | {"quantity": "call_speedup", "variant": "openmp_b", "baseline": "python_x"},
    ):
        verdict = _judge(result, test | {"at_least": 0})
        assert verdict.kind == UNTESTED
        assert "setup includes the interpreter's start and imports" in verdict.verdict
    setup = {"quantity": "setup_seconds", "variant": "python_x", "at_least": 1}
    assert _judge(result, setup).kind == HOLDS


def test_whole_calls_without_setup_or_of_one_process_decide_nothing(bench: Bench) -> None:
    bare = bench.result([_cell("cpu_a", GRID[0], 0.5, setup_seconds=None)])
    unknown = "not tested here: cpu_a: no setup time is known of it"
    assert _judge(bare, CALL | {"at_most": 9}).verdict == unknown
    assert _judge(bare, CALL | {"quantity": "call_share", "at_most": 9}).verdict == unknown
    cells = [_cell("cpu_a", GRID[0], 0.5), _cell("openmp_b", GRID[0], 0.1)]
    synthetic.resample(cells[0], [[0.5, 0.5, 0.5]])
    assert _judge(bench.result(cells), CALL | {"at_most": 9}).verdict == (
        "not enough samples: one set-up of cpu_a f32"
    )
    ratio = {"quantity": "call_speedup", "variant": "openmp_b", "baseline": "cpu_a"}
    assert _judge(bench.result(cells), ratio | {"at_least": 1}).verdict == (
        "not enough samples: one set-up of cpu_a f32"
    )


def test_a_program_that_stopped_has_calls_of_what_ran(bench: Bench) -> None:
    cells = [
        _cell("cpu_a", GRID[0], 1.0, executed_iterations=4, setup_seconds=2.0),
        _cell("openmp_b", GRID[0], 0.5, setup_seconds=1.0),
    ]
    result = bench.result(cells)
    assert _judge(result, CALL | {"at_least": 5.9, "at_most": 6.1}).kind == HOLDS
    stopped = "stopped after 4 of 10 iterations"
    assert _judge(result, CALL | {"iterations": 10, "at_most": 99}).verdict == (
        f"not tested here: cpu_a: {stopped}"
    )
    ratio = {"quantity": "call_speedup", "variant": "openmp_b", "baseline": "cpu_a"}
    assert _judge(result, ratio | {"about": 1}).kind == HOLDS  # 2 + 4 over 1 + 10 halves
    assert _judge(result, ratio | {"iterations": 10, "about": 1}).verdict == (
        f"not tested here: openmp_b: its baseline: {stopped}"
    )
    asked = ratio | {"iterations": 10, "baseline_iterations": 4}
    assert _judge(result, asked | {"about": 1}).kind == HOLDS


def test_rates_and_shares(bench: Bench) -> None:
    rates = {"compulsory": 1.0, "as_written": 8.0}
    stages = {"assign": 0.3, "update": 0.1}
    cells = [_cell("cpu_a", (100, 2, 8), 0.5, gbytes_per_second=rates, stages=stages)]
    result = bench.result(cells)
    for quantity, low, high in (
        ("gflops", 6616 / 0.5e9 / 1.02, 6616 / 0.5e9 * 1.02),  # nk(3d+2) + d(n+k) operations
        ("gbytes_per_second", 7.9, 8.1),
        ("share_of_limit", 1e-9, 1e-3),
    ):
        test = {"quantity": quantity, "variant": "cpu_a"}
        assert _judge(result, test | {"at_least": low, "at_most": high}).kind == HOLDS, quantity
        assert _judge(result, test | {"at_least": high}).kind == FAILS, quantity
    share = {"quantity": "stage_share", "variant": "cpu_a", "stage": "update"}
    verdict = _judge(result, share | {"at_least": 0.2, "at_most": 0.3})
    assert verdict.kind == HOLDS
    assert "share of the stage update of cpu_a: 25 % (claimed: 20 to 30 %)" in verdict.measured
    # Nothing says what a stage took that is not marked; it may have another name.
    verdict = _judge(result, share | {"stage": "upload", "at_most": 0})
    assert verdict.verdict == ("not tested here: cpu_a: no time of the stage upload is known of it")
    result = bench.result([_cell("cpu_a", GRID[0], 0.5, stages={})])
    assert _judge(result, share | {"at_most": 0.3}).kind == UNTESTED


def test_a_rate_that_is_not_known_is_not_tested(bench: Bench) -> None:
    rates = {"compulsory": 1.0, "as_written": None}
    result = bench.result([_cell("cpu_a", GRID[0], 0.5, gbytes_per_second=rates)])
    test = {"quantity": "gbytes_per_second", "variant": "cpu_a", "at_least": 0.1}
    assert "no traffic as written is known of it" in _judge(result, test).verdict


def test_the_status_of_a_variant(bench: Bench) -> None:
    def cells(status: str) -> list[Json]:
        return [
            synthetic.cell("small", "cpu_a", "f32", s, 10, status=status, reason="r")
            for s in GRID[:2]
        ]

    test = {"quantity": "status", "variant": "cpu_a", "equals": "wrong"}
    verdict = _judge(bench.result(cells("wrong")), test)
    assert verdict.kind == HOLDS
    assert "status of cpu_a: wrong at 2 shapes (claimed: wrong)" in verdict.measured
    assert _judge(bench.result(cells("error")), test).kind == FAILS
    assert _judge(bench.result(cells("skipped")), test).kind == UNTESTED
    assert _judge(bench.result(cells("skipped")), test | {"equals": "skipped"}).kind == HOLDS
    mixed = [cells("wrong")[0], _cell("cpu_a", GRID[1], 1.0)]
    assert _judge(bench.result(mixed), test).verdict == "holds here only for k = 2"


def test_rising_and_falling_lines(bench: Bench) -> None:
    result = bench.ratios({s: float(s[2]) for s in GRID})
    assert _judge(result, FASTER | {"rising": "k"}).kind == HOLDS
    assert _judge(result, FASTER | {"falling": "k"}).kind == FAILS
    flat = _judge(result, FASTER | {"rising": "n"})
    assert _said(flat) == (UNDECIDED, "undecided: whether rising with n")
    assert "rising with n on 0 of 6 lines" in flat.measured
    mixed = bench.ratios({s: float(s[2] if s[1] == 2 else 1 / s[2]) for s in GRID})
    verdict = _judge(mixed, FASTER | {"rising": "k"})
    assert verdict.kind == PARTLY
    assert verdict.verdict == (
        "holds here only for d = 2; falls from k = 2 to 8 at n = 100, d = 20, and on 1 more line "
        "it fails"
    )
    assert "on 2 of 4 lines" in verdict.measured
    assert "; that step: from 0.500 to 0.125x" in verdict.measured
    one = bench.ratios({s: 3.0 for s in GRID if s[2] == 2})
    assert _judge(one, FASTER | {"rising": "k"}).verdict == (
        "not tested here: only one k has a value"
    )


def test_a_step_back_counts_only_beyond_the_intervals(bench: Bench) -> None:
    ratios = dict(zip(GRID[:3], (2.0, 1.98, 4.0), strict=True))
    verdict = _judge(bench.ratios(ratios, spread=0.02), FASTER | {"rising": "k"})
    assert verdict.kind == HOLDS
    assert "single steps back are within the interval" in verdict.measured
    assert _judge(bench.ratios(ratios, spread=0.001), FASTER | {"rising": "k"}).kind == FAILS


def test_a_line_rises_only_beyond_the_intervals_of_its_ends(bench: Bench) -> None:
    ratios = dict(zip(GRID[:3], (2.0, 2.01, 2.02), strict=True))
    for word in ("rising", "falling"):
        verdict = _judge(bench.ratios(ratios, spread=0.02), FASTER | {word: "k"})
        assert _said(verdict) == (UNDECIDED, f"undecided: whether {word} with k")
    assert _judge(bench.ratios(ratios, spread=1e-4), FASTER | {"rising": "k"}).kind == HOLDS
    # One line up, one open, one down: what holds is named, and what is open.
    values = {2: (1.0, 4.0), 3: (1.0, 1.01), 4: (4.0, 1.0)}
    lines = {
        (100, d, k): v for d, pair in values.items() for k, v in zip((2, 8), pair, strict=True)
    }
    verdict = _judge(bench.ratios(lines, spread=0.02), FASTER | {"rising": "k"})
    assert _said(verdict) == (
        PARTLY,
        "holds here only for d = 2; falls from k = 2 to 8 at d = 4; undecided for d = 3",
    )


def test_an_aggregate_can_rise(bench: Bench) -> None:
    # At d = 20 it falls by less than it rises at d = 2.
    result = bench.ratios({s: (10.0 * s[2] if s[1] == 2 else 5.0 / s[2]) for s in GRID})
    assert _judge(result, FASTER | {"rising": "k"}).kind == PARTLY
    verdict = _judge(result, FASTER | {"rising": "k", "of": "mean"})
    assert verdict.kind == HOLDS
    assert "from k = 2 to 32 (claimed: rising with k)" in verdict.measured


def test_a_direction_and_a_bound_are_both_asked(bench: Bench) -> None:
    result = bench.ratios({s: float(s[2]) for s in GRID})
    assert _judge(result, FASTER | {"rising": "k", "at_least": 1}).kind == HOLDS
    assert _judge(result, FASTER | {"rising": "k", "at_least": 50}).kind == FAILS


def _trace(name: str, steps: int, seconds: float, **changes: Any) -> Json:
    wanted = {"name": name, "variant": "cpu_a", "n": 100, "d": 2, "k": 3, "iterations": steps}
    trace = synthetic.trace(wanted, {}, "random:1")
    whole = steps * seconds
    runs = [[0.98 * whole, whole], [whole, 1.02 * whole]]
    return trace | {"seconds_per_iteration": seconds, "runs_seconds": runs} | changes


def test_traces(bench: Bench) -> None:
    traces = [_trace("slow", 30, 0.2), _trace("fast", 20, 0.1), _trace("off", 5, 0.1)]
    traces[2] |= {"status": "wrong", "reason": "inertia differs"}
    result = bench.result([_cell("cpu_a", GRID[0], 1.0)], traces=traces)
    steps = {"quantity": "trace_iterations", "trace": "slow"}
    assert _judge(result, steps | {"at_least": 30, "at_most": 30}).kind == HOLDS
    assert _judge(result, steps | {"at_most": 29}).kind == FAILS
    total = {"quantity": "trace_seconds", "trace": "slow"}
    assert _judge(result, total | {"at_least": 5.8, "at_most": 6.2}).kind == HOLDS
    ratio = {"quantity": "trace_speedup", "trace": "fast", "baseline_trace": "slow"}
    verdict = _judge(result, ratio | {"at_least": 2.8, "at_most": 3.2})
    assert verdict.kind == HOLDS
    # Six seconds over two; the ends are 5.88 over 2.04 and 6.12 over 1.96.
    assert "fast over slow: 3.00x (2.88x to 3.12x, smallest and largest)" in verdict.measured
    assert _judge(result, ratio | {"baseline_trace": "none", "at_least": 1}).verdict == (
        "not tested here: no trace none in this run"
    )
    verdict = _judge(result, steps | {"trace": "off", "at_least": 1})
    assert verdict.verdict == "not tested here: trace off is wrong: inertia differs"


def test_a_list_of_traces(bench: Bench) -> None:
    traces = [_trace(f"slow-{n}", 10, 0.2, n=n) for n in (10, 100)]
    traces += [_trace("fast-10", 10, 0.2, n=10), _trace("fast-100", 10, 0.02, n=100)]
    result = bench.result([_cell("cpu_a", GRID[0], 1.0)], traces=traces)
    test = {
        "quantity": "trace_speedup",
        "trace": ["fast-10", "fast-100"],
        "baseline_trace": ["slow-10", "slow-100"],
    }
    assert _judge(result, test | {"at_least": 5.2, "at_most": 5.8, "of": "mean"}).kind == HOLDS
    assert _judge(result, test | {"rising": "n"}).kind == HOLDS
    assert _judge(result, test | {"at_least": 5}).verdict == "holds here only for n = 100"


STUDY = {
    "name": "sums",
    "study": "float_sums",
    "summary": "What is lost?",
    "status": "ok",
    "reason": None,
    "dataset": None,
    "n": None,
    "d": None,
    "k": None,
    "init": None,
    "parameters": {},
    "rows": [
        {"way": "one float", "n": 10, "error": 0.5, "same": False},
        {"way": "one float", "n": 100, "error": 5, "same": False},
        {"way": "pairwise", "n": 100, "error": 0.0, "same": True},
    ],
    "findings": {"iterations_apart": 11, "agrees": True, "nothing": None},
    "notes": [],
    "seconds": 0.1,
}


def test_findings_and_rows_of_studies(bench: Bench) -> None:
    result = bench.result([_cell("cpu_a", GRID[0], 1.0)], studies=[STUDY])
    found = {"quantity": "finding", "study": "sums", "finding": "iterations_apart"}
    verdict = _judge(result, found | {"at_least": 5})
    assert verdict.kind == HOLDS
    assert verdict.measured == "iterations apart (sums): 11 (claimed: at least 5)"
    assert _judge(result, found | {"at_most": 5}).kind == FAILS
    assert _judge(result, found | {"finding": "agrees", "equals": True}).kind == HOLDS
    assert _judge(result, found | {"finding": "agrees", "equals": "yes"}).kind == HOLDS
    assert _judge(result, found | {"finding": "agrees", "at_least": 1}).kind == UNTESTED
    assert _judge(result, found | {"finding": "nothing", "at_least": 1}).kind == UNTESTED
    row = {"quantity": "row", "study": "sums", "value": "error", "row": {"way": "one float"}}
    assert _judge(result, row | {"at_least": 0.5}).kind == HOLDS
    assert _judge(result, row | {"at_least": 1}).verdict == "holds here only for n = 100"
    assert _judge(result, row | {"rising": "n"}).kind == HOLDS
    assert _judge(result, row | {"of": "largest", "at_most": 4}).kind == FAILS
    exact = row | {"row": {"way": "pairwise", "n": 100}}
    assert _judge(result, exact | {"at_most": 0}).kind == HOLDS
    assert "no row with way = kahan" in (
        _judge(result, row | {"row": {"way": "kahan"}, "at_most": 0}).verdict
    )


def test_a_study_that_did_not_run_is_not_tested(bench: Bench) -> None:
    found = {"quantity": "finding", "study": "sums", "finding": "iterations_apart", "at_least": 5}
    cells = [_cell("cpu_a", GRID[0], 1.0)]
    late = STUDY | {"status": "error", "reason": "took longer than 5 s", "rows": []}
    assert _judge(bench.result(cells, studies=[late]), found).verdict == (
        "not tested here: study sums error: took longer than 5 s"
    )
    assert _judge(bench.result(cells), found).verdict == (
        "not tested here: no study sums in this run"
    )


def test_all_tests_of_a_claim_must_hold(bench: Bench) -> None:
    result = bench.ratios({s: (9.0 if s[1] == 20 else 2.0) for s in GRID})
    good, partly = FASTER | {"at_least": 1}, FASTER | {"at_least": 4}
    bad, open_ = FASTER | {"at_least": 99}, FASTER | {"variant": "cuda_z", "at_least": 1}
    assert _judge(result, good, good).kind == HOLDS
    assert _judge(result, good, partly).kind == PARTLY
    assert _judge(result, partly, open_).kind == PARTLY
    assert _judge(result, good, open_).kind == UNTESTED
    assert _judge(result, partly, open_, bad).kind == FAILS
    assert _judge(result, good, open_).measured  # what was found is not lost


def test_claims_of_another_scale_or_without_a_test_stay_open(bench: Bench) -> None:
    result = bench.ratios({GRID[0]: 5.0})
    verdict = _judge(result, FASTER | {"at_least": 1}, scales=["paper"])
    assert verdict.verdict == "not tested here: the claim is about paper scale"
    assert _judge(result).verdict == "not tested here: no test of this suite can decide it"
    assert _judge(result, FASTER).kind == UNTESTED
    assert _judge(result, {"quantity": "colour", "variant": "cpu_a", "at_least": 1}).kind == (
        UNTESTED
    )


def test_the_baseline_of_the_same_iterations_is_taken(bench: Bench) -> None:
    cells = [
        _cell("cpu_a", GRID[0], 9.0),
        _cell("cpu_a", GRID[0], 1.0, iterations=300),
        _cell("openmp_b", GRID[0], 0.5, iterations=300),
    ]
    verdict = _judge(bench.result(cells), FASTER | {"at_least": 1.9, "at_most": 2.1})
    assert verdict.kind == HOLDS


def test_verdicts_come_from_the_result_or_from_the_experiment_of_today(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = {"id": "a", "statement": "s", "where": "w", "why": "because"}
    claim["tests"] = [FASTER | {"at_least": 1}]
    bench.experiment["claims"] = [claim]
    result = bench.ratios({GRID[0]: 5.0})
    found = verdicts(result)
    assert [v.claim["id"] for v in found] == ["a"]
    assert claims.tally(found) == dict.fromkeys(claims.KINDS, 0) | {HOLDS: 1}
    assert claims.tally_text(found) == "1 statement: 1 holds, 0 do not, 0 in part"
    folder = tmp_path / "experiments"
    folder.mkdir()
    today = {"name": "small", "claims": [claim | {"id": "b"}]}
    (folder / "small.json").write_text(json.dumps(today))
    monkeypatch.setattr(published, "EXPERIMENTS", folder)
    assert [v.claim["id"] for v in verdicts(result)] == ["b"]
    monkeypatch.undo()
    old = replace(result, spec={"name": "small", "title": "t"})
    assert verdicts(old) == []


def test_a_statement_of_several_claims_counts_once_as_the_worst(bench: Bench) -> None:
    def claim(name: str, at_least: float, variant: str = "openmp_b", **keys: str) -> Json:
        about = {"id": name, "statement": "s", "where": "w", "why": "because"}
        test = FASTER | {"at_least": at_least, "variant": variant}
        return about | keys | {"tests": [test]}

    again = {"repeats": "small/first"}
    bench.experiment["claims"] = [
        claim("first", 1),
        claim("other", 1),
        claim("again", 99, **again),
        claim("not-run", 1, "cuda_z", **again),
        claim("mine", 1, of="ours"),
        claim("mine-too", 99, of="ours"),
    ]
    found = verdicts(bench.ratios({GRID[0]: 5.0}))
    assert claims.statements(found) == {"small/first": FAILS, "small/other": HOLDS}
    assert claims.tally(found) == dict.fromkeys(claims.KINDS, 0) | {HOLDS: 1, FAILS: 1}
    assert claims.tally(found, ours=True) == claims.tally(found)
    assert claims.tally_text(found) == (
        "2 statements: 1 holds, 1 does not, 0 in part; "
        "2 questions of our own: 1 holds, 1 does not, 0 in part"
    )
    assert claims.tally_text(found[4:]) == "2 questions of our own: 1 holds, 1 does not, 0 in part"
    # What cannot be tested here takes nothing from what can.
    assert claims.statements(found[:1] + found[3:4]) == {"small/first": HOLDS}
    assert claims.statements(found[3:4]) == {"small/first": UNTESTED}


# --- Direction and magnitude -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "kind"),
    [
        (23 / ABOUT * 0.999, FAILS),
        (23 / ABOUT * 1.001, HOLDS),
        (23 * ABOUT * 0.999, HOLDS),
        (23 * ABOUT * 1.001, FAILS),
    ],
)
def test_about_is_within_one_factor_either_way(bench: Bench, ratio: float, kind: str) -> None:
    assert ABOUT == 1.25
    verdict = _judge(bench.ratios({GRID[0]: ratio}, spread=1e-9), FASTER | {"about": 23})
    assert verdict.kind == kind
    assert verdict.measured.endswith("(claimed: about 23x)")


def test_up_to_is_about_the_largest(bench: Bench) -> None:
    test = FASTER | {"up_to": 43}
    found = _judge(bench.ratios(dict(zip(GRID[:3], (0.1, 4.0, 40.0), strict=True))), test)
    assert found.kind == HOLDS
    assert "largest 40.0x (39.2x to 40.8x) of 0.100 to 40.0x at 3 shapes" in found.measured
    assert "(claimed: up to 43x)" in found.measured
    assert _judge(bench.ratios(dict.fromkeys(GRID[:3], 318.0)), test).kind == FAILS
    assert _judge(bench.ratios(dict.fromkeys(GRID[:3], 33.0)), test).kind == FAILS


def test_a_direction_that_holds_and_a_magnitude_that_does_not_hold_in_part(bench: Bench) -> None:
    result = bench.ratios({GRID[0]: 39.7})
    direction, size = FASTER | {"at_least": 1}, FASTER | {"about": 23}
    verdict = _judge(result, direction, size)
    assert verdict.kind == PARTLY
    assert verdict.verdict.replace(TIMES, "x") == (
        "holds in part: faster, but 39.7x, not about 23x"
    )
    assert verdict.detail.replace(TIMES, "x") == "faster, but 39.7x, not about 23x"
    # The numbers stand there once, with both that is claimed of them.
    assert verdict.measured == (
        "speed-up of openmp_b over cpu_a: 39.7x (38.9x to 40.5x) (claimed: at least 1x, about 23x)"
    )
    assert _judge(result, direction | size).verdict == verdict.verdict  # one test asks for both
    assert _judge(result, direction, FASTER | {"about": 40}).verdict == "holds"
    assert _judge(result, size).kind == FAILS  # nothing but a magnitude is claimed
    slower = _judge(bench.ratios({GRID[0]: 0.5}), direction, FASTER | {"about": 0.5})
    assert (slower.kind, slower.verdict) == (FAILS, "does not hold")


def test_missed_magnitudes_name_their_part_where_there_are_several(bench: Bench) -> None:
    result = bench.ratios({(100, 2, 2): 8.0, (1000, 2, 2): 30.0})
    tests = [
        FASTER | {"where": {"n": [n]}} | expected
        for n, about in ((100, 2), (1000, 30))
        for expected in ({"at_least": 1}, {"about": about})
    ]
    assert _judge(result, *tests).verdict.replace(TIMES, "x") == (
        "holds in part: faster, but 8.00x, not about 2x (n = 100)"
    )
    mean = FASTER | {"of": "mean", "about": 51}
    verdict = _judge(result, FASTER | {"of": "mean", "at_least": 1}, mean).verdict
    assert verdict.replace(TIMES, "x") == "holds in part: faster, but mean 19.0x, not about 51x"
    largest = _judge(result, FASTER | {"at_least": 4}, FASTER | {"up_to": 43}).verdict
    assert largest.replace(TIMES, "x") == "holds in part: at least 4x, but 30.0x, not up to 43x"


def test_a_magnitude_that_holds_somewhere_names_the_shapes(bench: Bench) -> None:
    result = bench.ratios({s: (9.0 if s[1] == 20 else 2.0) for s in GRID})
    verdict = _judge(result, FASTER | {"at_least": 1}, FASTER | {"about": 9})
    assert verdict.verdict.replace(TIMES, "x") == (
        "holds in part: faster, but about 9x only for d = 20"
    )


def test_a_missed_magnitude_decides_nothing_while_the_direction_is_open(bench: Bench) -> None:
    result = bench.ratios({GRID[0]: 39.7})
    open_ = FASTER | {"variant": "cuda_z", "at_least": 1}
    assert _judge(result, open_, FASTER | {"about": 23}).kind == UNTESTED


def test_growth_is_the_last_value_over_the_first(bench: Bench) -> None:
    # The time of cpu_a grows with the square root of n at d = 2, and with n at d = 20.
    seconds = {(n, d, 2): n ** (0.5 if d == 2 else 1.0) for n in (1, 9, 100) for d in (2, 20)}
    result = bench.result([_cell("cpu_a", s, v) for s, v in seconds.items()])
    test = {"quantity": "seconds_per_iteration", "variant": "cpu_a", "growth": "n"}
    verdict = _judge(result, test | {"where": {"d": [2]}, "about": 10})
    assert verdict.kind == HOLDS
    assert verdict.measured == (
        "growth with n of the time per iteration of cpu_a from n = 1 to 100: "
        "10.0x (9.80x to 10.2x) (claimed: about 10x)"
    )
    verdict = _judge(result, test | {"at_most": 50})
    assert (verdict.kind, verdict.verdict) == (PARTLY, "holds here only for d = 2")
    assert _judge(result, test | {"of": "largest", "at_least": 97}).kind == HOLDS
    one = bench.result([_cell("cpu_a", (1, 2, 2), 1.0)])
    assert _judge(one, test | {"at_most": 2}).verdict == ("not tested here: only one n has a value")


# --- Single samples --------------------------------------------------------------------------


def test_a_single_sample_decides_nothing(bench: Bench) -> None:
    cells = [_once("cpu_a", GRID[0], 1.0), _cell("openmp_b", GRID[0], 0.5)]
    verdict = _judge(bench.result(cells), FASTER | {"at_least": 1})
    assert (verdict.kind, verdict.sign) == (TOO_FEW, "?")
    assert verdict.verdict == "not enough samples: one sample of cpu_a f32"
    assert verdict.detail == "one sample of cpu_a f32"
    assert "2.00x" in verdict.measured  # what was found is not lost
    assert _judge(bench.result(cells), FASTER | {"at_least": 99}).kind == TOO_FEW
    synthetic.resample(cells[0], [[1.0], [1.0]])
    assert _judge(bench.result(cells), FASTER | {"at_least": 1}).kind == HOLDS  # two do


def test_other_values_may_decide_where_one_has_a_single_sample(bench: Bench) -> None:
    def run(*ratios: float) -> Result:
        """At k = 2, 8, 32; the last of a single sample."""
        places = list(zip(GRID[:3], ratios, strict=True))
        cells = [_cell("cpu_a", shape, 1.0) for shape, _ in places]
        cells += [_cell("openmp_b", shape, 1 / ratio) for shape, ratio in places[:-1]]
        return bench.result([*cells, _once("openmp_b", places[-1][0], 1 / places[-1][1])])

    few = "not enough samples: one sample of openmp_b f32 at k = 32"
    for last in (0.1, 3.0):
        each = _judge(run(2.0, 3.0, last), FASTER | {"at_least": 1})
        assert (each.kind, each.verdict) == (TOO_FEW, few)
        mean = _judge(run(2.0, 3.0, last), FASTER | {"at_least": 1, "of": "mean"})
        assert (mean.kind, mean.verdict) == (TOO_FEW, few)
    assert _judge(run(0.5, 0.6, 3.0), FASTER | {"at_least": 1}).kind == FAILS
    partly = _judge(run(0.5, 3.0, 3.0), FASTER | {"at_least": 1})
    assert (partly.kind, partly.verdict) == (PARTLY, "holds here only for k = 8")
    assert "; single samples leave 1 shape undecided" in partly.measured
    # Whatever the third is, the largest is 3 or more, the smallest at most 2.
    assert _judge(run(2.0, 3.0, 1.0), FASTER | {"at_least": 2.9, "of": "largest"}).kind == HOLDS
    assert _judge(run(2.0, 3.0, 9.0), FASTER | {"at_least": 4, "of": "largest"}).kind == TOO_FEW
    assert _judge(run(2.0, 3.0, 9.0), FASTER | {"at_least": 3, "of": "smallest"}).kind == FAILS
    assert _judge(run(2.0, 3.0, 9.0), FASTER | {"up_to": 1}).kind == FAILS
    assert _judge(run(2.0, 3.0, 9.0), FASTER | {"up_to": 9}).kind == TOO_FEW
    # The median of two and an unknown lies between the two.
    assert _judge(run(2.0, 3.0, 9.0), FASTER | {"at_least": 1.9, "of": "median"}).kind == HOLDS
    assert _judge(run(2.0, 3.0, 9.0), FASTER | {"at_least": 2.5, "of": "median"}).kind == TOO_FEW


def test_a_line_with_a_single_sample_falls_only_where_the_others_do(bench: Bench) -> None:
    def run(*ratios: float, once: int) -> Result:
        shapes = [(100, 2, k) for k in (1, 2, 4, 8)]
        cells = [_cell("cpu_a", shape, 1.0) for shape in shapes]
        for place, (shape, ratio) in enumerate(zip(shapes, ratios, strict=True)):
            make = _once if place == once else _cell
            cells.append(make("openmp_b", shape, 1 / ratio))
        return bench.result(cells)

    test = FASTER | {"rising": "k"}
    few = "not enough samples: one sample of openmp_b f32 at k = 4"
    # Rising or not at k = 4 rests on one sample.
    assert _judge(run(1.0, 2.0, 3.0, 4.0, once=2), test).verdict == few
    assert _judge(run(1.0, 2.0, 0.5, 4.0, once=2), test).verdict == few
    verdict = _judge(run(2.0, 1.0, 3.0, 4.0, once=2), test)
    assert verdict.verdict == "does not hold: falls from k = 1 to 2"
    assert _judge(run(2.0, 3.0, 2.5, 1.0, once=2), test).kind == FAILS
    assert _judge(run(1.0, 2.0, 3.0, 0.1, once=3), test).kind == TOO_FEW
    growth = FASTER | {"growth": "k", "at_least": 3}
    assert _judge(run(1.0, 2.0, 3.0, 4.0, once=2), growth).kind == HOLDS
    assert _judge(run(1.0, 2.0, 3.0, 4.0, once=3), growth).verdict == (
        "not enough samples: one sample of openmp_b f32"
    )


def test_a_verdict_names_the_step_that_fails(bench: Bench) -> None:
    values = {(50, k): 1.0 * k for k in (10, 1000, 4000)}
    values |= {(500, 10): 2.0, (500, 1000): 6.0, (500, 4000): 3.0}
    result = bench.ratios({(n, 3, k): ratio for (n, k), ratio in values.items()})
    verdict = _judge(result, FASTER | {"rising": "k"})
    assert verdict.kind == PARTLY
    assert verdict.verdict == (
        "holds here only for n = 50; falls from k = 1 000 to 4 000 at n = 500"
    )
    assert verdict.measured.endswith("; that step: from 6.00 to 3.00x")
    up = _judge(result, FASTER | {"falling": "k", "where": {"n": [50]}})
    assert up.verdict == "does not hold: rises from k = 10 to 1 000"  # the largest step
    flat = bench.ratios(dict.fromkeys(GRID[:3], 2.0), spread=0.0)
    assert _judge(flat, FASTER | {"rising": "k"}).verdict == (
        "does not hold: does not rise from k = 2 to 32"
    )


def test_one_run_of_a_trace_is_a_single_sample_of_its_time_alone(bench: Bench) -> None:
    traces = [_trace("slow", 30, 0.2, runs_seconds=None), _trace("fast", 20, 0.1)]
    result = bench.result([_cell("cpu_a", GRID[0], 1.0)], traces=traces)
    ratio = {"quantity": "trace_speedup", "trace": "fast", "baseline_trace": "slow"}
    verdict = _judge(result, ratio | {"at_least": 1})
    assert verdict.verdict == "not enough samples: one run of slow"
    assert "3.00x" in verdict.measured
    steps = {"quantity": "trace_iterations", "trace": "slow", "at_least": 30, "at_most": 30}
    assert _judge(result, steps).kind == HOLDS  # a count is exact
    status = {"quantity": "status", "trace": "slow", "equals": "ok"}
    assert _judge(result, status).kind == HOLDS


def test_stages_of_one_process_decide_nothing(bench: Bench) -> None:
    stages = {"assign": 0.3, "update": 0.1}
    share = {"quantity": "stage_share", "variant": "cpu_a", "stage": "assign", "at_least": 0.5}
    cells = [_cell("cpu_a", GRID[0], 0.5, stages=stages)]
    del cells[0]["stage_samples_seconds_per_iteration"]  # as in files of earlier versions
    verdict = _judge(bench.result(cells), share)
    assert verdict.verdict == "not enough samples: stages of cpu_a f32 from one process"
    assert "75 %" in verdict.measured


def test_a_test_without_data_outweighs_one_without_samples(bench: Bench) -> None:
    cells = [_once("cpu_a", GRID[0], 1.0), _cell("openmp_b", GRID[0], 0.5)]
    good = FASTER | {"at_least": 1}
    result = bench.result(cells)
    assert _judge(result, good, FASTER | {"variant": "cuda_z", "at_least": 1}).kind == UNTESTED
    both = bench.result([*cells, _cell("cpu_a", GRID[1], 1.0), _cell("openmp_b", GRID[1], 2.0)])
    where_slow = FASTER | {"at_least": 1, "where": {"k": [8]}}
    assert _judge(both, good | {"where": {"k": [2]}}, where_slow).kind == FAILS


# --- Stages, limits, executed iterations -----------------------------------------------------


def _staged(**changes: Any) -> Json:
    """Three processes; 2 G operations and 4 GB in half a second at the median."""
    samples = {"assign": [0.4, 0.5, 0.8], "update": [0.1, 0.3, 0.2]}
    work = {"assign": {"operations": 2e9, "bytes_as_written": 4e9, "gpu": False}}
    changes = {"stage_samples_seconds_per_iteration": samples, "stage_work": work} | changes
    cell = _cell("cpu_a", GRID[0], 1.0)
    cell |= {"stages": {"assign": 0.5, "update": 0.2}} | changes
    synthetic.agree(cell)
    return cell


def test_rates_of_a_stage_are_over_its_own_time(bench: Bench) -> None:
    result = bench.result([_staged()])
    for quantity, text in (
        ("gflops", "4.00 GFLOP/s (2.50 GFLOP/s to 5.00 GFLOP/s"),
        ("gbytes_per_second", "8.00 GB/s (5.00 GB/s to 10.0 GB/s"),
    ):
        test = {"quantity": quantity, "variant": "cpu_a", "stage": "assign", "at_least": 1}
        verdict = _judge(result, test)
        assert verdict.kind == HOLDS
        assert f"in the stage assign of cpu_a: {text}, smallest and largest)" in verdict.measured
        assert _judge(result, test | {"stage": "update"}).verdict == (
            "not tested here: cpu_a: no work of the stage update is known of it"
        )
        assert "no time of the stage sort" in _judge(result, test | {"stage": "sort"}).verdict


def test_shares_of_bandwidth_and_multiply_add_are_of_where_the_stage_runs(bench: Bench) -> None:
    bandwidth = {"quantity": "share_of_bandwidth", "variant": "cpu_a", "stage": "assign"}
    arithmetic = bandwidth | {"quantity": "share_of_fma"}
    result = bench.result([_staged()])

    def bounds(low: float, high: float) -> Json:
        return {"at_least": 0.999 * low, "at_most": 1.001 * high}

    # 5 to 10 GB/s of 72, 2.5 to 5 GFLOP/s of the 270 of one thread.
    verdict = _judge(result, bandwidth | bounds(5 / 72, 10 / 72))
    assert verdict.kind == HOLDS
    assert "share of the read bandwidth in the stage assign of cpu_a: 11 %" in verdict.measured
    assert _judge(result, arithmetic | bounds(2.5 / 270, 5 / 270)).kind == HOLDS
    assert _judge(result, arithmetic | bounds(2.6 / 270, 5 / 270)).kind == UNDECIDED
    work = {"assign": {"operations": 2e9, "bytes_as_written": 4e9, "gpu": True}}
    context = synthetic.context()
    context["ceilings"]["gpu"] = synthetic.gpu_ceilings()
    # The GPU's L2 holds 2000 bytes: the 800 of 100 points fit, the 8000 of 1000 do not.
    for n, limit in ((100, 8000), (1000, 4000)):
        cell = _staged(stage_work=work, n=n)
        result = bench.result([cell], context=context)
        assert _judge(result, bandwidth | bounds(5 / limit, 10 / limit)).kind == HOLDS
        assert _judge(result, bandwidth | bounds(6 / limit, 10 / limit)).kind == UNDECIDED
    assert _judge(result, arithmetic | bounds(2.5 / 60_000, 5 / 60_000)).kind == HOLDS
    assert "the limit of its rate was not measured" in (
        _judge(bench.result([cell]), bandwidth | {"at_least": 0}).verdict
    )


def test_shares_and_times_of_several_stages_are_added(bench: Bench) -> None:
    samples = {"upload": [1.0, 1.0, 2.0], "assign": [2.0, 4.0, 4.0], "update": [1.0, 5.0, 2.0]}
    result = bench.result([_staged(stage_samples_seconds_per_iteration=samples)])
    share = {"quantity": "stage_share", "variant": "cpu_a", "stage": ["upload", "assign"]}
    verdict = _judge(result, share | {"about": 0.6})
    # By process 3 of 4, 5 of 10, 6 of 8.
    assert verdict.measured == (
        "share of the stages upload and assign of cpu_a: 75 % (50 % to 75 %, smallest and "
        "largest) (claimed: about 60 %)"
    )
    assert verdict.kind == HOLDS
    # 3, 5 and 6 seconds.
    time = {"quantity": "stage_seconds", "variant": "cpu_a", "stage": ["upload", "assign"]}
    assert _judge(result, time | {"at_least": 3, "at_most": 6}).kind == HOLDS
    assert "5.00 s (3.00 s to 6.00 s" in _judge(result, time | {"at_least": 3}).measured
    over = {"over": "fma_gflops.f32_one_thread", "at_least": 3 / 270.1, "at_most": 6 / 269.9}
    assert _judge(result, time | over).kind == HOLDS
    assert "was not measured" in _judge(result, time | {"over": "gpu.none", "at_most": 1}).verdict


def test_a_stage_against_that_of_another_variant(bench: Bench) -> None:
    slow = _staged(stage_samples_seconds_per_iteration={"assign": [2.0, 3.0, 4.0]})
    fast = _cell("openmp_b", GRID[0], 1.0, stages={"assign": 0.5})
    fast["stage_samples_seconds_per_iteration"] = {"assign": [0.5, 0.5, 0.5]}
    test = {"quantity": "stage_speedup", "variant": "openmp_b", "baseline": "cpu_a"}
    verdict = _judge(bench.result([slow, fast]), test | {"stage": "assign", "at_least": 1})
    assert verdict.kind == HOLDS
    assert "speed-up in the stage assign of openmp_b over cpu_a: 6.00x (4.00x to 8.00x" in (
        verdict.measured
    )
    assert _judge(bench.result([slow, fast]), test | {"at_least": 1}).verdict == (
        "not tested here: stage_speedup needs a stage"
    )
    wrong = FASTER | {"stage": "assign", "at_least": 1}
    assert _judge(bench.result([slow, fast]), wrong).verdict == (
        "not tested here: speedup is not known of a single stage"
    )


def test_limits_of_the_machine(bench: Bench) -> None:
    context = synthetic.context()
    context["ceilings"]["gpu"] = synthetic.gpu_ceilings()
    result = bench.result([_cell("cpu_a", GRID[0], 1.0)], context=context)
    pinned = "gpu.host_to_device_gbytes_per_second.pinned"
    test = {"quantity": "ceiling", "ceiling": pinned}
    verdict = _judge(result, test | {"about": 16})
    assert (verdict.kind, verdict.verdict) == (FAILS, "does not hold")
    assert verdict.measured == (
        "measured limit gpu host to device pinned: 55.0 GB/s (claimed: about 16 GB/s)"
    )
    ratio = {"quantity": "ceiling", "ceiling": "gpu.read_gbytes_per_second", "over": pinned}
    verdict = _judge(result, ratio | {"at_least": 20})
    assert verdict.kind == HOLDS
    assert "gpu read over gpu host to device pinned: 72.7x" in verdict.measured
    without = bench.result([_cell("cpu_a", GRID[0], 1.0)])
    assert _judge(without, test | {"about": 16}).verdict == (
        f"not tested here: the limit {pinned} was not measured in this run"
    )


def test_executed_iterations_and_setup(bench: Bench) -> None:
    cells = [
        _cell("python_x", GRID[0], 0.5, executed_iterations=4),
        _cell("python_x", GRID[1], 0.5, executed_iterations=10),
        _cell("python_y", GRID[0], 0.5, executed_iterations=None, setup_seconds=2.5),
    ]
    result = bench.result(cells)
    test = {"quantity": "executed_iterations", "variant": "python_x"}
    assert _judge(result, test | {"at_most": 9}).verdict == "holds here only for k = 2"
    verdict = _judge(result, test | {"variant": "python_y", "at_least": 10, "at_most": 10})
    assert verdict.kind == HOLDS  # one that cannot stop early ran all
    total = {"quantity": "total_seconds", "variant": "python_x", "where": {"k": [2]}}
    assert _judge(result, total | {"at_least": 1.9, "at_most": 2.1}).kind == HOLDS  # 4 times 0.5
    assert _judge(result, total | {"iterations": 10, "at_least": 2}).verdict == (
        "not tested here: python_x: stopped after 4 of 10 iterations"
    )
    setup = {"quantity": "setup_seconds", "variant": "python_y", "at_least": 2.5}
    assert _judge(result, setup).kind == HOLDS
    synthetic.resample(cells[2], [[0.5]])
    assert _judge(bench.result(cells), setup).verdict == (
        "not enough samples: one set-up of python_y f32"
    )


def test_a_library_of_an_older_file_has_no_known_time_per_iteration(bench: Bench) -> None:
    cells = [_cell("python_x", GRID[0], 0.5), _cell("openmp_b", GRID[0], 0.1)]
    for cell in cells:
        del cell["executed_iterations"]
    found = _judge(bench.result(cells), FASTER | {"baseline": "python_x", "at_least": 1})
    assert found.verdict == (
        "not tested here: python_x: how many iterations the library ran is not in this file"
    )
    per = {"quantity": "seconds_per_iteration", "variant": "openmp_b", "at_most": 1}
    assert _judge(bench.result(cells), per).kind == HOLDS  # no library


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        ([(n, d, k) for n, d, k in GRID if k >= 8], "k = 8, 32"),
        ([(n, d, k) for n, d, k in GRID if k >= 8 and n == 100], "n = 100, k = 8, 32"),
        (GRID[:1], "n = 100, d = 2, k = 2"),
        (
            [s for s in GRID if s[1] == 20 or s[2] == 2],
            "8 of 12 shapes: d = 20; k = 2",
        ),
        ([GRID[0], GRID[4]], "2 of 12 shapes: n = 100, d = 2, k = 2; n = 100, d = 20, k = 8"),
    ],
)
def test_places_are_named_shortly(chosen: list[tuple[int, int, int]], text: str) -> None:
    def places(shapes: list[tuple[int, int, int]]) -> list[Json]:
        return [
            dict(zip("ndk", shape, strict=True)) | {"dataset": f"data-{shape[0]}x{shape[1]}"}
            for shape in shapes
        ]

    assert where(places(chosen), places(GRID), "shape") == text


def test_many_scattered_places_stay_short() -> None:
    everything = [{"n": n, "d": d, "k": 2} for n in range(12) for d in range(12)]
    chosen = [p for p in everything if (p["n"] * 7 + p["d"] * 5) % 3 == 0]
    text = where(chosen, everything, "shape")
    assert text.startswith(f"{len(chosen)} of 144 shapes")
    assert len(text) < 160


# --- Published next to measured --------------------------------------------------------------


def _compare(result: Result, **entry: Any) -> published.Comparison:
    result.spec["published"] = [{"label": "theirs", "machine": "m", "where": "w", **entry}]
    (found,) = published.comparisons(result)
    return found


def test_a_published_speed_up_is_held_against_its_own_baseline(bench: Bench) -> None:
    cells = [_cell(name, GRID[0], s) for name, s in (("cpu_a", 1.0), ("cpu_c", 3.0))]
    result = bench.result([*cells, _cell("openmp_b", GRID[0], 0.5)])
    entry = {"variant": "openmp_b", "quantity": "speedup", "value": 12.0}
    assert _compare(result, **entry).measured == pytest.approx(2.0)  # against cpu_a
    found = _compare(result, **entry, baseline="cpu_c")
    assert found.measured == pytest.approx(6.0)
    assert found.ratio == pytest.approx(2.0)
    assert "against cpu_c f32" in found.remark
    assert found.interval is not None
    assert found.interval.low == pytest.approx(6 * 0.99 / 1.01)
    assert found.interval.high == pytest.approx(6 * 1.01 / 0.99)
    assert _compare(result, **entry, baseline="cpu_z").measured is None


def test_a_published_total_needs_a_run_of_as_many_iterations(bench: Bench) -> None:
    shape = dict(zip("ndk", GRID[0], strict=True))
    entry = {"variant": "cpu_a", "quantity": "total_seconds", "value": 2.5, **shape}
    result = bench.result([_cell("cpu_a", GRID[0], 0.5)])  # T = 10
    found = _compare(result, **entry, iterations=10)
    assert found.measured == pytest.approx(5.0)
    assert found.interval_text == "4.95 s \N{EN DASH} 5.05 s"
    assert found.ratio == pytest.approx(0.5)
    # It never stops early, so 300 iterations take 300 times as long as one.
    other = _compare(result, **entry, iterations=300)
    assert other.measured == pytest.approx(150.0)
    assert other.remark == "300 times the median iteration of runs of 10 iterations"
    # A library that may stop before is known for what it ran alone.
    cell = _cell("python_x", GRID[0], 0.5, executed_iterations=10)
    library = _compare(bench.result([cell]), **entry | {"variant": "python_x"}, iterations=300)
    assert (library.measured, library.ratio, library.interval) == (None, None, None)
    assert library.measured_text == "ran 10 iterations, not 300: 5.00 s in all"
    several = [_cell("cpu_a", GRID[0], 0.5), _cell("cpu_a", GRID[0], 0.1, iterations=300)]
    assert _compare(bench.result(several), **entry, iterations=300).measured == pytest.approx(30)


def test_a_library_that_stopped_early_has_no_published_total(bench: Bench) -> None:
    entry = {"variant": "python_x", "quantity": "total_seconds", "value": 1.2, "iterations": 300}
    cell = _cell("python_x", GRID[0], 0.01, iterations=300, executed_iterations=184)
    found = _compare(bench.result([cell]), **entry)
    assert (found.measured, found.ratio) == (None, None)
    assert found.measured_text == "stopped after 184 of 300 iterations: 1.84 s for the whole fit"
    short = _compare(bench.result([cell]), **entry | {"value": 0.012})  # in the published unit
    assert short.measured_text == "stopped after 184 of 300 iterations: 1 840 ms for the whole fit"
    cell["executed_iterations"] = 300
    assert _compare(bench.result([cell]), **entry).measured == pytest.approx(3.0)
    steps = {"variant": "python_x", "quantity": "iterations", "value": 22}
    cell["executed_iterations"] = 184
    assert _compare(bench.result([cell]), **steps).measured == 184
    cell["executed_iterations"] = None  # cannot stop early, so its T shows nothing
    assert _compare(bench.result([cell]), **steps).measured is None
    del cell["executed_iterations"]  # a file of an earlier version
    found = _compare(bench.result([cell]), **entry)
    assert (found.measured, found.measured_text) == (None, "\N{EM DASH}")
    assert found.remark == "how many iterations the library ran is not in this file"


def test_claims_and_published_numbers_may_be_about_a_number_of_threads(bench: Bench) -> None:
    row = {"variant": "python_x", "precision": "f32"}
    cells = [
        _cell("cpu_a", GRID[0], 0.2),
        synthetic.cell("small", "python_x", "f32", GRID[0], 10, threads=16),
        synthetic.cell("small", "python_x", "f32", GRID[0], 10, threads=1),
    ]
    for cell, seconds in zip(cells[1:], (0.1, 0.4), strict=True):
        synthetic.retime(cell, seconds, 0.01)
        synthetic.agree(cell)
    result = bench.result(cells)
    test = {"quantity": "speedup", "variant": "cpu_a", "at_least": 1}
    one = _judge(result, test | {"baseline": row | {"threads": 1}})
    every = _judge(result, test | {"baseline": row | {"threads": 16}})
    assert (one.kind, every.kind) == (HOLDS, FAILS)
    assert one.measured.startswith("speed-up of cpu_a over python_x f32 x1: 2.00x")
    without = _judge(bench.result(cells[:2]), test | {"baseline": row | {"threads": 1}})
    assert without.verdict == f"not tested here: no cell of python_x f32 {TIMES}1 in this run"
    entry = {**row, "quantity": "seconds_per_iteration", "value": 1.0}
    assert _compare(result, **entry, threads=1).measured == pytest.approx(0.4)
    assert _compare(result, **entry, threads=16).measured == pytest.approx(0.1)
    assert _compare(result, **entry, threads=2).remark == "not part of this run"
    ratio = {"variant": "cpu_a", "quantity": "speedup", "value": 2.0}
    found = _compare(result, **ratio, baseline=row | {"threads": 1})
    assert found.remark == f"against python_x f32 {TIMES}1 of this run"


def test_a_published_total_may_be_that_of_a_trace_that_ended_by_a_rule(bench: Bench) -> None:
    entry = {"variant": "cpu_a", "quantity": "total_seconds", "value": 6.0, "iterations": 20}
    cells = [_cell("cpu_a", GRID[0], 1.0)]
    trace = _trace("program", 20, 0.1, stop="loss:0.1")
    found = _compare(bench.result(cells, traces=[trace]), **entry)
    assert found.measured == pytest.approx(2.0)
    assert found.interval_text == "1.96 s \N{EN DASH} 2.04 s (min\N{EN DASH}max)"
    assert found.remark == "whole runs of trace program, until loss:0.1"
    # Of other lengths a multiple of an iteration is known, if the variant never stops by itself.
    other = _compare(bench.result(cells, traces=[trace]), **entry | {"iterations": 33})
    assert other.measured == pytest.approx(33.0)
    cells[0]["executed_iterations"] = 10
    other = _compare(bench.result(cells, traces=[trace]), **entry | {"iterations": 33})
    assert other.measured is None
    assert other.measured_text == ("trace program ended after 20 iterations, not 33: 2.00 s in all")


def test_a_published_total_of_a_whole_call_is_compared_with_setup_and_iterations(
    bench: Bench,
) -> None:
    entry = {"variant": "cpu_a", "quantity": "total_seconds", "value": 6.0, "iterations": 20}
    cells = [_cell("cpu_a", GRID[0], 0.2, setup_seconds=1.5, processes=3)]
    trace = _trace("program", 20, 0.1, stop="loss:0.1")
    result = bench.result(cells, traces=[trace])
    found = _compare(result, **entry, whole_call=True)
    assert found.measured == pytest.approx(3.5)
    assert found.interval_text == "3.46 s \N{EN DASH} 3.54 s (min\N{EN DASH}max)"
    assert found.remark == "setup (1.50 s) and whole runs of trace program, until loss:0.1"
    assert _compare(result, **entry).measured == pytest.approx(2.0)
    scaled = _compare(bench.result(cells), **entry, whole_call=True)
    assert scaled.measured == pytest.approx(1.5 + 20 * 0.2)
    cells[0]["setup_seconds"] = None
    synthetic.agree(cells[0])
    unknown = _compare(bench.result(cells), **entry, whole_call=True)
    assert (unknown.measured, unknown.remark) == (None, "no setup time is known of it")


def test_a_library_that_stopped_early_shows_its_setup_beside_a_whole_call(bench: Bench) -> None:
    entry = {"variant": "python_x", "quantity": "total_seconds", "value": 1.2, "iterations": 300}
    library = {"iterations": 300, "executed_iterations": 184, "setup_seconds": 0.5}
    cell = _cell("python_x", GRID[0], 0.01, **library)
    found = _compare(bench.result([cell]), **entry, whole_call=True)
    assert found.measured is None
    assert found.measured_text == (
        "stopped after 184 of 300 iterations: 1.84 s for the whole fit, after 0.500 s of setup"
    )
    cell["executed_iterations"] = 300
    found = _compare(bench.result([cell]), **entry, whole_call=True)
    assert found.measured == pytest.approx(3.0)  # an interpreter's start is no part of a call
    assert "; without setup (0.500 s): a Python library's setup includes" in found.remark


def test_a_published_speedup_may_be_of_whole_calls_of_different_lengths(bench: Bench) -> None:
    cells = [
        _cell("cpu_a", GRID[0], 0.5, spread=0.0, setup_seconds=1.0),
        _cell("openmp_b", GRID[0], 0.1, spread=0.0, setup_seconds=2.0),
    ]
    entry = {"variant": "openmp_b", "baseline": "cpu_a", "quantity": "speedup", "value": 23}
    call = {"iterations": 20, "baseline_iterations": 34, "whole_call": True}
    found = _compare(bench.result(cells), **entry, **call)
    assert found.measured == pytest.approx((1 + 34 * 0.5) / (2 + 20 * 0.1))
    assert found.remark == "setup and 20 iterations, against setup and 34 iterations of cpu_a f32"
    assert _compare(bench.result(cells), **entry).measured == pytest.approx(5.0)


def test_a_bound_may_ask_how_much_beside_which_way(bench: Bench) -> None:
    cells = [
        _cell("cpu_a", GRID[0], 1.0, spread=0.001),
        _cell("openmp_b", GRID[0], 1.5, spread=0.001),
    ]
    test = {"quantity": "extra_seconds", "variant": "openmp_b", "baseline": "cpu_a"}
    slower = test | {"at_least": 0}
    found = _judge(bench.result(cells), slower, test | {"at_least": 2, "magnitude": True})
    assert (found.kind, found.verdict) == (
        PARTLY,
        "holds in part: slower, but 500 ms, not at least 2 s",
    )
    assert _judge(bench.result(cells), slower, test | {"at_least": 2}).kind == FAILS
    less = _judge(bench.result(cells), slower, test | {"at_least": 0.4, "magnitude": True})
    assert less.kind == HOLDS


def test_a_published_number_over_shapes_is_compared_with_the_same_of_ours(bench: Bench) -> None:
    result = bench.ratios({s: float(s[2]) for s in GRID})  # 2, 8 and 32, four times each
    entry = {"variant": "openmp_b", "quantity": "speedup", "value": 14.0}
    shapes = {"n": [100, 1000], "d": [2], "k": [2, 8, 32]}
    for of, value in (("mean", 14.0), ("median", 8.0), ("smallest", 2.0), ("largest", 32.0)):
        found = _compare(result, **entry, shapes=shapes, of=of)
        assert found.measured == pytest.approx(value)
        assert found.ratio == pytest.approx(14 / value)
        assert found.interval is not None
        assert found.interval.low == pytest.approx(value * 0.99 / 1.01)
        assert found.remark == f"{of} of 6 shapes, against cpu_a f32 of this run"
        assert published.shape_text(found.entry) == (
            f"{of} over n = 100 or 1 000, d = 2, k = 2 to 32"
        )
    shapes["n"].append(5000)
    found = _compare(result, **entry, shapes=shapes, of="mean")
    assert found.lacking == 3
    assert "3 shapes asked for without a value here" in found.remark
    without = _compare(result, **entry, shapes={"n": [7]}, of="mean")
    assert (without.measured, without.remark) == (None, "not part of this run")


def test_a_published_number_says_where_ours_is_a_single_sample(bench: Bench) -> None:
    cells = [_once("cpu_a", GRID[0], 1.0), _cell("openmp_b", GRID[0], 0.5)]
    entry = {"variant": "cpu_a", "quantity": "seconds_per_iteration", "value": 1.0}
    assert _compare(bench.result(cells), **entry).interval_text == "one sample"
    speedup = {"variant": "openmp_b", "quantity": "speedup", "value": 2.0, "of": "largest"}
    assert "1 from a single sample" in _compare(bench.result(cells), **speedup).remark


def test_a_published_rate_may_be_that_of_a_stage(bench: Bench) -> None:
    entry = {"variant": "cpu_a", "quantity": "gbytes_per_second", "value": 44.0}
    found = _compare(bench.result([_staged()]), **entry, stage="assign")
    assert found.measured == pytest.approx(8.0)
    assert found.remark == "traffic as written of the stage assign over its median time"
    assert _compare(bench.result([_staged()]), **entry, stage="update").measured is None


def test_a_prior_measurement_is_not_called_published(bench: Bench) -> None:
    result = bench.result([_cell("cpu_a", GRID[0], 1.0)])
    entry = {"variant": "cpu_a", "quantity": "seconds_per_iteration", "value": 1.5}
    printed, prior = _compare(result, **entry), _compare(result, **entry, prior=True)
    assert published.headings([printed]).value == "published"
    assert published.headings([prior, prior]).value == "prior measurement"
    assert published.headings([printed, prior]).value == "published or prior measurement"
    assert published.label_text(prior, [printed, prior]) == "theirs (prior measurement)"
    assert published.label_text(prior, [prior]) == "theirs"
    assert len(published.about([printed, prior])) == 2


def test_times_beside_one_another_have_one_unit(bench: Bench) -> None:
    result = bench.result([_cell("cpu_a", GRID[0], 54.8e-6)])
    found = _compare(result, variant="cpu_a", quantity="seconds_per_iteration", value=0.00137)
    assert (found.published_text, found.measured_text) == ("1.37 ms", "0.0548 ms")
    assert found.interval_text == "0.0543 ms \N{EN DASH} 0.0553 ms"


def test_a_statement_about_several_shapes_shows_our_range(bench: Bench) -> None:
    result = bench.ratios(dict(zip(GRID[:3], (2.0, 9.0, 4.0), strict=True)))
    found = _compare(result, variant="openmp_b", quantity="speedup", value=14)
    assert found.measured is None
    assert found.ratio is None
    assert found.measured_text.replace(TIMES, "x") == "2.00x \N{EN DASH} 9.00x"
    assert found.remark.startswith("smallest to largest of 3 shapes")


def test_published_iterations_need_a_trace_that_ended_by_a_rule(bench: Bench) -> None:
    entry = {"variant": "cpu_a", "quantity": "iterations", "value": 33, "n": 100}
    cells = [_cell("cpu_a", GRID[0], 1.0)]
    result = bench.result(cells, traces=[_trace("all", 30, 0.1)])
    assert _compare(result, **entry).measured is None
    stopped = _trace("early", 22, 0.1, stop="loss:0.1")
    found = _compare(bench.result(cells, traces=[_trace("all", 30, 0.1), stopped]), **entry)
    assert found.measured == 22
    assert found.interval_text == "\N{EM DASH}"
    assert found.remark == "executed by trace early, until loss:0.1"
