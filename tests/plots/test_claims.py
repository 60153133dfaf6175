# SPDX-License-Identifier: Apache-2.0
"""Every quantity and every verdict, on numbers that are set by the test."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import synthetic
from bench import FASTER, GRID, Bench, judge, make_cell, make_single, make_trace
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
    verdicts,
)
from plots.load import Result
from plots.words import TIMES


def _skipped(variant: str, shape: tuple[int, int, int], reason: str) -> Json:
    return synthetic.cell("small", variant, "f32", shape, 10, status="skipped", reason=reason)


def test_each_shape_must_hold(bench: Bench) -> None:
    result = bench.ratios(dict.fromkeys(GRID, 5.0) | {GRID[0]: 12.0})
    verdict = judge(result, FASTER | {"at_least": 4})
    assert (verdict.kind, verdict.verdict) == (HOLDS, "holds")
    assert verdict.measured == (
        "speed-up of openmp_b over cpu_a: 5.00 to 12.0x, median 5.00x at 12 shapes "
        "(claimed: at least 4x)"
    )
    assert judge(result, FASTER | {"at_least": 13}).kind == FAILS
    assert judge(result, FASTER | {"at_least": 13}).verdict == "does not hold"


def test_the_shapes_where_a_claim_holds_are_named(bench: Bench) -> None:
    result = bench.ratios({s: (9.0 if s[1] == 20 else 2.0) for s in GRID})
    verdict = judge(result, FASTER | {"at_least": 4, "at_most": 43})
    assert (verdict.kind, verdict.verdict) == (PARTLY, "holds here only for d = 20")
    assert "claimed: 4 to 43x" in verdict.measured
    assert "2.00 to 9.00x, median 5.50x" in verdict.measured
    result = bench.ratios({s: (9.0 if s in GRID[:1] or s[1] == 20 else 2.0) for s in GRID})
    assert judge(result, FASTER | {"at_least": 4}).verdict == (
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
    verdict = judge(result, FASTER | {"at_least": bound, "of": of})
    assert verdict.kind == kind
    assert f"{of} {({'mean': '4', 'median': '2', 'smallest': '1', 'largest': '9'})[of]}" in (
        verdict.measured
    )


def _said(verdict: Verdict) -> tuple[str, str]:
    return verdict.kind, verdict.verdict.replace(TIMES, "x")


def test_a_bound_inside_of_the_interval_decides_nothing(bench: Bench) -> None:
    result = bench.ratios({GRID[0]: 4.1}, spread=0.05)
    for bound in (4, 4.2):  # on either side of the median
        verdict = judge(result, FASTER | {"at_least": bound})
        assert verdict.sign == "±"
        assert _said(verdict) == (
            UNDECIDED,
            f"undecided: whether at least {bound}x (3.71 to 4.53x)",
        )
        assert "4.10x (3.71x to 4.53x)" in verdict.measured
    assert judge(result, FASTER | {"at_least": 5}).verdict == "does not hold"
    assert judge(result, FASTER | {"at_least": 3}).verdict == "holds"
    faster = judge(bench.ratios({GRID[0]: 1.06}, spread=0.2), FASTER | {"at_least": 1})
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
        assert judge(bench.ratios({GRID[0]: ratio}), FASTER | expected).kind == kind
        many = bench.ratios(dict.fromkeys(GRID[:3], ratio))
        assert judge(many, FASTER | expected).kind == kind
        for of in ("mean", "median", "smallest", "largest"):
            if "up_to" not in expected:
                assert judge(many, FASTER | expected | {"of": of}).kind == kind


def test_of_many_values_one_that_fails_decides_and_an_undecided_one_leaves_open(
    bench: Bench,
) -> None:
    def said(*ratios: float) -> tuple[str, str]:
        result = bench.ratios(dict(zip(GRID[:3], ratios, strict=True)), spread=0.05)
        verdict = judge(result, FASTER | {"at_least": 4})
        undecided = sum(3.6 < ratio < 4.4 for ratio in ratios)
        told = f"; {undecided} of them undecided, by their intervals"
        assert (told in verdict.measured) == (undecided > 0)
        return _said(verdict)

    assert said(9.0, 4.1, 3.9) == (UNDECIDED, "undecided: whether at least 4x for k = 8, 32")
    assert said(4.1, 4.1, 3.9) == (UNDECIDED, "undecided: whether at least 4x")
    assert said(9.0, 4.1, 2.0) == (PARTLY, "holds here only for k = 2; undecided for k = 8")
    assert said(4.1, 4.1, 2.0) == (FAILS, "does not hold")  # nowhere does it surely hold
    mean = judge(
        bench.ratios(dict(zip(GRID[:3], (3.0, 4.0, 5.0), strict=True)), spread=0.05),
        FASTER | {"at_least": 4, "of": "mean"},
    )
    assert _said(mean) == (UNDECIDED, "undecided: whether mean at least 4x (3.62 to 4.42x)")


def test_an_undecided_test_outweighs_one_that_holds_alone(bench: Bench) -> None:
    result = bench.ratios({GRID[0]: 4.1}, spread=0.05)
    open_, good = FASTER | {"at_least": 4}, FASTER | {"at_least": 1}
    missing = FASTER | {"variant": "cuda_z", "at_least": 1}
    assert judge(result, good, open_).kind == UNDECIDED
    assert judge(result, good, open_, missing).kind == UNTESTED
    assert judge(result, open_, FASTER | {"at_least": 9}).kind == FAILS
    # Which way is known, how much is not; and neither is.
    about = judge(result, good, FASTER | {"about": 5})
    assert _said(about) == (UNDECIDED, "undecided: whether about 5x (3.71 to 4.53x)")
    missed = judge(result, open_, FASTER | {"about": 50})
    assert _said(missed) == (UNDECIDED, "undecided: whether at least 4x (3.71 to 4.53x)")
    assert judge(result, good, open_, FASTER | {"about": 50}).kind == UNDECIDED


def test_smallest_and_largest_are_not_an_interval(bench: Bench) -> None:
    cells = [make_cell("cpu_a", GRID[0], 1.0), make_single("openmp_b", GRID[0], 0.5)]
    assert "smallest and largest" in judge(bench.result(cells), FASTER | {"at_least": 1}).measured


def test_without_cells_a_claim_is_not_tested(bench: Bench) -> None:
    result = bench.ratios({GRID[0]: 5.0})
    verdict = judge(result, {"quantity": "gflops", "variant": "cuda_z", "at_least": 1})
    assert verdict.kind == UNTESTED
    assert verdict.verdict == "not tested here: no cell of cuda_z in this run"
    verdict = judge(result, FASTER | {"at_least": 1, "where": {"n": [5], "k": [2, 3]}})
    assert verdict.verdict == (
        "not tested here: no cell of openmp_b with n = 5, k = 2, 3 in this run"
    )
    verdict = judge(result, FASTER | {"baseline": "cpu_other", "at_least": 1})
    assert verdict.verdict == "not tested here: no cell of cpu_other in this run"


def test_a_skipped_variant_says_why(bench: Bench) -> None:
    cells = [make_cell("cpu_a", s, 1.0) for s in GRID[:3]]
    cells += [_skipped("cuda_hybrid", s, "no CUDA device was found.") for s in GRID[:3]]
    verdict = judge(bench.result(cells), FASTER | {"variant": "cuda_hybrid", "at_least": 1})
    assert verdict.verdict == ("not tested here: cuda_hybrid f32 skipped: no CUDA device was found")
    assert verdict.measured == ""


def test_gaps_are_named_next_to_a_verdict(bench: Bench) -> None:
    cells = [make_cell("cpu_a", s, 1.0) for s in GRID[:3]] + [make_cell("openmp_b", GRID[0], 0.1)]
    cells += [_skipped("openmp_b", s, "too large") for s in GRID[1:3]]
    verdict = judge(bench.result(cells), FASTER | {"at_least": 4, "where": {"n": [100, 7]}})
    assert verdict.kind == HOLDS
    assert "2 shapes without a value (openmp_b f32 skipped: too large)" in verdict.measured
    assert "not part of this run: n = 7" in verdict.measured


def test_times_totals_and_differences(bench: Bench) -> None:
    cells = [make_cell("cpu_a", GRID[0], 0.5), make_cell("openmp_b", GRID[0], 0.2)]
    result = bench.result(cells)
    per = {"quantity": "seconds_per_iteration", "variant": "cpu_a"}
    assert judge(result, per | {"at_most": 0.6, "at_least": 0.4}).kind == HOLDS
    assert judge(result, per | {"at_most": 0.4}).kind == FAILS
    total = {"quantity": "total_seconds", "variant": "cpu_a"}
    assert judge(result, total | {"at_most": 5.1, "at_least": 4.9}).kind == HOLDS  # T = 10
    verdict = judge(result, total | {"iterations": 300, "at_most": 152, "at_least": 148})
    assert verdict.kind == HOLDS
    assert "time for 300 iterations of cpu_a: 150 s" in verdict.measured
    extra = {"quantity": "extra_seconds", "variant": "cpu_a", "baseline": "openmp_b"}
    assert judge(result, extra | {"at_least": 0.29, "at_most": 0.31}).kind == HOLDS
    verdict = judge(result, extra | {"iterations": 10, "at_least": 2.9, "at_most": 3.1})
    assert verdict.kind == HOLDS
    # 10 (0.5 - 0.2), each within 1 %
    assert "3.00 s (2.93 s to 3.07 s)" in verdict.measured


CALL = {"quantity": "call_seconds", "variant": "cpu_a"}


def test_whole_calls_are_setup_and_iterations(bench: Bench) -> None:
    cells = [
        make_cell("cpu_a", GRID[0], 0.5, setup_seconds=1.0),
        make_cell("openmp_b", GRID[0], 0.1, setup_seconds=3.0),
    ]
    result = bench.result(cells)
    verdict = judge(result, CALL | {"iterations": 20, "at_least": 10.9, "at_most": 11.1})
    assert verdict.kind == HOLDS
    # 1 + 20 iterations of 0.5 within 1 %; setup has no interval.
    assert verdict.measured == (
        "whole-call time for 20 iterations of cpu_a: 11.0 s (10.9 s to 11.1 s) "
        "(claimed: 10.9 to 11.1 s)"
    )
    own = judge(result, CALL | {"at_least": 5.94, "at_most": 6.06})  # T = 10
    assert own.verdict == "holds"
    assert judge(result, CALL | {"at_least": 5.99}).kind == UNDECIDED
    ratio = {"quantity": "call_speedup", "variant": "openmp_b", "baseline": "cpu_a"}
    # 11 over 5 at T = 20, 6 over 4 at T = 10, 1.5 over 3.1 at T = 1.
    verdict = judge(result, ratio | {"iterations": 20, "at_least": 2.16, "at_most": 2.24})
    assert (
        "whole-call speed-up for 20 iterations of openmp_b over cpu_a: 2.20x (2.17x to 2.23x)"
        in (verdict.measured)
    )
    assert verdict.verdict == "holds"
    assert judge(result, ratio | {"about": 1.5}).kind == HOLDS
    once = judge(result, ratio | {"iterations": 1, "at_least": 1})
    assert (once.kind, once.verdict) == (FAILS, "does not hold")
    # 18 over 5.3: the baseline stops later.
    both = ratio | {"iterations": 23, "baseline_iterations": 34}
    verdict = judge(result, both | {"at_least": 18 / 5.3 - 0.06, "at_most": 18 / 5.3 + 0.06})
    assert verdict.verdict == "holds"
    assert "for 23 iterations of openmp_b over 34 iterations of cpu_a: 3.40x" in verdict.measured


def test_shares_of_a_whole_call(bench: Bench) -> None:
    stages = {"assign": 0.3, "update": 0.1}
    changes: Json = {"setup_seconds": 5.0, "stages": stages}
    result = bench.result([make_cell("cpu_a", GRID[0], 0.5, spread=1e-6, **changes)])
    share = {"quantity": "call_share", "variant": "cpu_a", "iterations": 20}

    def holds(test: Json, value: float) -> str:
        verdict = judge(result, test | {"at_least": value - 1e-4, "at_most": value + 1e-4})
        assert verdict.kind == HOLDS
        return verdict.measured

    assert "share of setup in whole calls for 20 iterations of cpu_a: 33 %" in holds(share, 5 / 15)
    loose = bench.result([make_cell("cpu_a", GRID[0], 0.5, **changes)])
    assert ": 33 % (33 % to 34 %)" in judge(loose, share | {"at_most": 1}).measured
    result = bench.result([make_cell("cpu_a", GRID[0], 0.5, spread=1e-6, **changes)])
    holds(share | {"iterations": 10}, 5 / 10)
    # A quarter of the iterations, whatever the sum of the stages.
    assert "share of the stage update in whole calls" in holds(
        share | {"stage": "update"}, 2.5 / 15
    )
    both = holds(share | {"stage": ["setup", "update"]}, 7.5 / 15)
    assert "share of setup and the stage update in whole calls" in both
    holds(share | {"stage": ["setup", "update", "assign"]}, 1.0)
    open_ = judge(result, share | {"stage": ["setup", "upload"], "at_most": 1})
    assert open_.verdict == ("not tested here: cpu_a: no time of the stage upload is known of it")


def test_the_interval_of_a_share_of_a_call_holds_both_that_it_is_made_of(bench: Bench) -> None:
    changes: Json = {"setup_seconds": 1.0, "stages": {"assign": 0.75, "update": 0.25}}
    cell = make_cell("cpu_a", GRID[0], 1.0, spread=0.5, **changes)
    samples = {"assign": [0.5, 0.75, 1.0], "update": [0.5, 0.25, 0.0]}
    cell["stage_samples_seconds_per_iteration"] = samples
    test = {"quantity": "call_share", "variant": "cpu_a", "iterations": 1, "at_most": 1}
    found = judge(bench.result([cell]), test | {"stage": "assign"}).measured
    # 0.75 of 1 second of 2; from half of 0.5 of 1.5 to all of 1.5 of 2.5.
    assert "38 % (17 % to 60 %, smallest and largest)" in found
    found = judge(bench.result([cell]), test | {"stage": "setup"}).measured
    assert "50 % (40 % to 67 %)" in found


def test_a_python_library_has_no_whole_call(bench: Bench) -> None:
    cells = [make_cell("python_x", GRID[0], 0.5), make_cell("openmp_b", GRID[0], 0.1)]
    for cell in cells:
        cell |= {"setup_seconds": 1.0, "executed_iterations": 10}
        synthetic.agree(cell)
    result = bench.result(cells)
    for test in (
        CALL | {"variant": "python_x"},
        CALL | {"variant": "python_x", "quantity": "call_share"},
        CALL | {"quantity": "call_speedup", "variant": "openmp_b", "baseline": "python_x"},
    ):
        verdict = judge(result, test | {"at_least": 0})
        assert verdict.kind == UNTESTED
        assert "setup includes the interpreter's start and imports" in verdict.verdict
    setup = {"quantity": "setup_seconds", "variant": "python_x", "at_least": 1}
    assert judge(result, setup).kind == HOLDS


def test_whole_calls_without_setup_or_of_one_process_decide_nothing(bench: Bench) -> None:
    bare = bench.result([make_cell("cpu_a", GRID[0], 0.5, setup_seconds=None)])
    unknown = "not tested here: cpu_a: no setup time is known of it"
    assert judge(bare, CALL | {"at_most": 9}).verdict == unknown
    assert judge(bare, CALL | {"quantity": "call_share", "at_most": 9}).verdict == unknown
    cells = [make_cell("cpu_a", GRID[0], 0.5), make_cell("openmp_b", GRID[0], 0.1)]
    synthetic.resample(cells[0], [[0.5, 0.5, 0.5]])
    assert judge(bench.result(cells), CALL | {"at_most": 9}).verdict == (
        "not enough samples: one set-up of cpu_a f32"
    )
    ratio = {"quantity": "call_speedup", "variant": "openmp_b", "baseline": "cpu_a"}
    assert judge(bench.result(cells), ratio | {"at_least": 1}).verdict == (
        "not enough samples: one set-up of cpu_a f32"
    )


def test_a_program_that_stopped_has_calls_of_what_ran(bench: Bench) -> None:
    cells = [
        make_cell("cpu_a", GRID[0], 1.0, executed_iterations=4, setup_seconds=2.0),
        make_cell("openmp_b", GRID[0], 0.5, setup_seconds=1.0),
    ]
    result = bench.result(cells)
    assert judge(result, CALL | {"at_least": 5.9, "at_most": 6.1}).kind == HOLDS
    stopped = "stopped after 4 of 10 iterations"
    assert judge(result, CALL | {"iterations": 10, "at_most": 99}).verdict == (
        f"not tested here: cpu_a: {stopped}"
    )
    ratio = {"quantity": "call_speedup", "variant": "openmp_b", "baseline": "cpu_a"}
    assert judge(result, ratio | {"about": 1}).kind == HOLDS  # 2 + 4 over 1 + 10 halves
    assert judge(result, ratio | {"iterations": 10, "about": 1}).verdict == (
        f"not tested here: openmp_b: its baseline: {stopped}"
    )
    asked = ratio | {"iterations": 10, "baseline_iterations": 4}
    assert judge(result, asked | {"about": 1}).kind == HOLDS


def test_rates_and_shares(bench: Bench) -> None:
    rates = {"compulsory": 1.0, "as_written": 8.0}
    stages = {"assign": 0.3, "update": 0.1}
    cells = [make_cell("cpu_a", (100, 2, 8), 0.5, gbytes_per_second=rates, stages=stages)]
    result = bench.result(cells)
    for quantity, low, high in (
        ("gflops", 6616 / 0.5e9 / 1.02, 6616 / 0.5e9 * 1.02),  # nk(3d+2) + d(n+k) operations
        ("gbytes_per_second", 7.9, 8.1),
        ("share_of_limit", 1e-9, 1e-3),
    ):
        test = {"quantity": quantity, "variant": "cpu_a"}
        assert judge(result, test | {"at_least": low, "at_most": high}).kind == HOLDS, quantity
        assert judge(result, test | {"at_least": high}).kind == FAILS, quantity
    share = {"quantity": "stage_share", "variant": "cpu_a", "stage": "update"}
    verdict = judge(result, share | {"at_least": 0.2, "at_most": 0.3})
    assert verdict.kind == HOLDS
    assert "share of the stage update of cpu_a: 25 % (claimed: 20 to 30 %)" in verdict.measured
    # Nothing says what a stage took that is not marked; it may have another name.
    verdict = judge(result, share | {"stage": "upload", "at_most": 0})
    assert verdict.verdict == ("not tested here: cpu_a: no time of the stage upload is known of it")
    result = bench.result([make_cell("cpu_a", GRID[0], 0.5, stages={})])
    assert judge(result, share | {"at_most": 0.3}).kind == UNTESTED


def test_a_rate_that_is_not_known_is_not_tested(bench: Bench) -> None:
    rates = {"compulsory": 1.0, "as_written": None}
    result = bench.result([make_cell("cpu_a", GRID[0], 0.5, gbytes_per_second=rates)])
    test = {"quantity": "gbytes_per_second", "variant": "cpu_a", "at_least": 0.1}
    assert "no traffic as written is known of it" in judge(result, test).verdict


def test_the_status_of_a_variant(bench: Bench) -> None:
    def cells(status: str) -> list[Json]:
        return [
            synthetic.cell("small", "cpu_a", "f32", s, 10, status=status, reason="r")
            for s in GRID[:2]
        ]

    test = {"quantity": "status", "variant": "cpu_a", "equals": "wrong"}
    verdict = judge(bench.result(cells("wrong")), test)
    assert verdict.kind == HOLDS
    assert "status of cpu_a: wrong at 2 shapes (claimed: wrong)" in verdict.measured
    assert judge(bench.result(cells("error")), test).kind == FAILS
    assert judge(bench.result(cells("skipped")), test).kind == UNTESTED
    assert judge(bench.result(cells("skipped")), test | {"equals": "skipped"}).kind == HOLDS
    mixed = [cells("wrong")[0], make_cell("cpu_a", GRID[1], 1.0)]
    assert judge(bench.result(mixed), test).verdict == "holds here only for k = 2"


def test_rising_and_falling_lines(bench: Bench) -> None:
    result = bench.ratios({s: float(s[2]) for s in GRID})
    assert judge(result, FASTER | {"rising": "k"}).kind == HOLDS
    assert judge(result, FASTER | {"falling": "k"}).kind == FAILS
    flat = judge(result, FASTER | {"rising": "n"})
    assert _said(flat) == (UNDECIDED, "undecided: whether rising with n")
    assert "rising with n on 0 of 6 lines" in flat.measured
    mixed = bench.ratios({s: float(s[2] if s[1] == 2 else 1 / s[2]) for s in GRID})
    verdict = judge(mixed, FASTER | {"rising": "k"})
    assert verdict.kind == PARTLY
    assert verdict.verdict == (
        "holds here only for d = 2; falls from k = 2 to 8 at n = 100, d = 20, and on 1 more line "
        "it fails"
    )
    assert "on 2 of 4 lines" in verdict.measured
    assert "; that step: from 0.500 to 0.125x" in verdict.measured
    one = bench.ratios({s: 3.0 for s in GRID if s[2] == 2})
    assert judge(one, FASTER | {"rising": "k"}).verdict == (
        "not tested here: only one k has a value"
    )


def test_a_step_back_counts_only_beyond_the_intervals(bench: Bench) -> None:
    ratios = dict(zip(GRID[:3], (2.0, 1.98, 4.0), strict=True))
    verdict = judge(bench.ratios(ratios, spread=0.02), FASTER | {"rising": "k"})
    assert verdict.kind == HOLDS
    assert "single steps back are within the interval" in verdict.measured
    assert judge(bench.ratios(ratios, spread=0.001), FASTER | {"rising": "k"}).kind == FAILS


def test_a_line_rises_only_beyond_the_intervals_of_its_ends(bench: Bench) -> None:
    ratios = dict(zip(GRID[:3], (2.0, 2.01, 2.02), strict=True))
    for word in ("rising", "falling"):
        verdict = judge(bench.ratios(ratios, spread=0.02), FASTER | {word: "k"})
        assert _said(verdict) == (UNDECIDED, f"undecided: whether {word} with k")
    assert judge(bench.ratios(ratios, spread=1e-4), FASTER | {"rising": "k"}).kind == HOLDS
    # One line up, one open, one down: what holds is named, and what is open.
    values = {2: (1.0, 4.0), 3: (1.0, 1.01), 4: (4.0, 1.0)}
    lines = {
        (100, d, k): v for d, pair in values.items() for k, v in zip((2, 8), pair, strict=True)
    }
    verdict = judge(bench.ratios(lines, spread=0.02), FASTER | {"rising": "k"})
    assert _said(verdict) == (
        PARTLY,
        "holds here only for d = 2; falls from k = 2 to 8 at d = 4; undecided for d = 3",
    )


def test_an_aggregate_can_rise(bench: Bench) -> None:
    # At d = 20 it falls by less than it rises at d = 2.
    result = bench.ratios({s: (10.0 * s[2] if s[1] == 2 else 5.0 / s[2]) for s in GRID})
    assert judge(result, FASTER | {"rising": "k"}).kind == PARTLY
    verdict = judge(result, FASTER | {"rising": "k", "of": "mean"})
    assert verdict.kind == HOLDS
    assert "from k = 2 to 32 (claimed: rising with k)" in verdict.measured


def test_a_direction_and_a_bound_are_both_asked(bench: Bench) -> None:
    result = bench.ratios({s: float(s[2]) for s in GRID})
    assert judge(result, FASTER | {"rising": "k", "at_least": 1}).kind == HOLDS
    assert judge(result, FASTER | {"rising": "k", "at_least": 50}).kind == FAILS


def test_traces(bench: Bench) -> None:
    traces = [make_trace("slow", 30, 0.2), make_trace("fast", 20, 0.1), make_trace("off", 5, 0.1)]
    traces[2] |= {"status": "wrong", "reason": "inertia differs"}
    result = bench.result([make_cell("cpu_a", GRID[0], 1.0)], traces=traces)
    steps = {"quantity": "trace_iterations", "trace": "slow"}
    assert judge(result, steps | {"at_least": 30, "at_most": 30}).kind == HOLDS
    assert judge(result, steps | {"at_most": 29}).kind == FAILS
    total = {"quantity": "trace_seconds", "trace": "slow"}
    assert judge(result, total | {"at_least": 5.8, "at_most": 6.2}).kind == HOLDS
    ratio = {"quantity": "trace_speedup", "trace": "fast", "baseline_trace": "slow"}
    verdict = judge(result, ratio | {"at_least": 2.8, "at_most": 3.2})
    assert verdict.kind == HOLDS
    # Six seconds over two; the ends are 5.88 over 2.04 and 6.12 over 1.96.
    assert "fast over slow: 3.00x (2.88x to 3.12x, smallest and largest)" in verdict.measured
    assert judge(result, ratio | {"baseline_trace": "none", "at_least": 1}).verdict == (
        "not tested here: no trace none in this run"
    )
    verdict = judge(result, steps | {"trace": "off", "at_least": 1})
    assert verdict.verdict == "not tested here: trace off is wrong: inertia differs"


def test_a_list_of_traces(bench: Bench) -> None:
    traces = [make_trace(f"slow-{n}", 10, 0.2, n=n) for n in (10, 100)]
    traces += [make_trace("fast-10", 10, 0.2, n=10), make_trace("fast-100", 10, 0.02, n=100)]
    result = bench.result([make_cell("cpu_a", GRID[0], 1.0)], traces=traces)
    test = {
        "quantity": "trace_speedup",
        "trace": ["fast-10", "fast-100"],
        "baseline_trace": ["slow-10", "slow-100"],
    }
    assert judge(result, test | {"at_least": 5.2, "at_most": 5.8, "of": "mean"}).kind == HOLDS
    assert judge(result, test | {"rising": "n"}).kind == HOLDS
    assert judge(result, test | {"at_least": 5}).verdict == "holds here only for n = 100"


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
    result = bench.result([make_cell("cpu_a", GRID[0], 1.0)], studies=[STUDY])
    found = {"quantity": "finding", "study": "sums", "finding": "iterations_apart"}
    verdict = judge(result, found | {"at_least": 5})
    assert verdict.kind == HOLDS
    assert verdict.measured == "iterations apart (sums): 11 (claimed: at least 5)"
    assert judge(result, found | {"at_most": 5}).kind == FAILS
    assert judge(result, found | {"finding": "agrees", "equals": True}).kind == HOLDS
    assert judge(result, found | {"finding": "agrees", "equals": "yes"}).kind == HOLDS
    assert judge(result, found | {"finding": "agrees", "at_least": 1}).kind == UNTESTED
    assert judge(result, found | {"finding": "nothing", "at_least": 1}).kind == UNTESTED
    row = {"quantity": "row", "study": "sums", "value": "error", "row": {"way": "one float"}}
    assert judge(result, row | {"at_least": 0.5}).kind == HOLDS
    assert judge(result, row | {"at_least": 1}).verdict == "holds here only for n = 100"
    assert judge(result, row | {"rising": "n"}).kind == HOLDS
    assert judge(result, row | {"of": "largest", "at_most": 4}).kind == FAILS
    exact = row | {"row": {"way": "pairwise", "n": 100}}
    assert judge(result, exact | {"at_most": 0}).kind == HOLDS
    assert "no row with way = kahan" in (
        judge(result, row | {"row": {"way": "kahan"}, "at_most": 0}).verdict
    )


def test_a_study_that_did_not_run_is_not_tested(bench: Bench) -> None:
    found = {"quantity": "finding", "study": "sums", "finding": "iterations_apart", "at_least": 5}
    cells = [make_cell("cpu_a", GRID[0], 1.0)]
    late = STUDY | {"status": "error", "reason": "took longer than 5 s", "rows": []}
    assert judge(bench.result(cells, studies=[late]), found).verdict == (
        "not tested here: study sums error: took longer than 5 s"
    )
    assert judge(bench.result(cells), found).verdict == (
        "not tested here: no study sums in this run"
    )


def test_all_tests_of_a_claim_must_hold(bench: Bench) -> None:
    result = bench.ratios({s: (9.0 if s[1] == 20 else 2.0) for s in GRID})
    good, partly = FASTER | {"at_least": 1}, FASTER | {"at_least": 4}
    bad, open_ = FASTER | {"at_least": 99}, FASTER | {"variant": "cuda_z", "at_least": 1}
    assert judge(result, good, good).kind == HOLDS
    assert judge(result, good, partly).kind == PARTLY
    assert judge(result, partly, open_).kind == PARTLY
    assert judge(result, good, open_).kind == UNTESTED
    assert judge(result, partly, open_, bad).kind == FAILS
    assert judge(result, good, open_).measured  # what was found is not lost


def test_claims_of_another_scale_or_without_a_test_stay_open(bench: Bench) -> None:
    result = bench.ratios({GRID[0]: 5.0})
    verdict = judge(result, FASTER | {"at_least": 1}, scales=["paper"])
    assert verdict.verdict == "not tested here: the claim is about paper scale"
    assert judge(result).verdict == "not tested here: no test of this suite can decide it"
    assert judge(result, FASTER).kind == UNTESTED
    assert judge(result, {"quantity": "colour", "variant": "cpu_a", "at_least": 1}).kind == (
        UNTESTED
    )


def test_the_baseline_of_the_same_iterations_is_taken(bench: Bench) -> None:
    cells = [
        make_cell("cpu_a", GRID[0], 9.0),
        make_cell("cpu_a", GRID[0], 1.0, iterations=300),
        make_cell("openmp_b", GRID[0], 0.5, iterations=300),
    ]
    verdict = judge(bench.result(cells), FASTER | {"at_least": 1.9, "at_most": 2.1})
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
    verdict = judge(bench.ratios({GRID[0]: ratio}, spread=1e-9), FASTER | {"about": 23})
    assert verdict.kind == kind
    assert verdict.measured.endswith("(claimed: about 23x)")


def test_up_to_is_about_the_largest(bench: Bench) -> None:
    test = FASTER | {"up_to": 43}
    found = judge(bench.ratios(dict(zip(GRID[:3], (0.1, 4.0, 40.0), strict=True))), test)
    assert found.kind == HOLDS
    assert "largest 40.0x (39.2x to 40.8x) of 0.100 to 40.0x at 3 shapes" in found.measured
    assert "(claimed: up to 43x)" in found.measured
    assert judge(bench.ratios(dict.fromkeys(GRID[:3], 318.0)), test).kind == FAILS
    assert judge(bench.ratios(dict.fromkeys(GRID[:3], 33.0)), test).kind == FAILS


def test_a_direction_that_holds_and_a_magnitude_that_does_not_hold_in_part(bench: Bench) -> None:
    result = bench.ratios({GRID[0]: 39.7})
    direction, size = FASTER | {"at_least": 1}, FASTER | {"about": 23}
    verdict = judge(result, direction, size)
    assert verdict.kind == PARTLY
    assert verdict.verdict.replace(TIMES, "x") == (
        "holds in part: faster, but 39.7x, not about 23x"
    )
    assert verdict.detail.replace(TIMES, "x") == "faster, but 39.7x, not about 23x"
    # The numbers stand there once, with both that is claimed of them.
    assert verdict.measured == (
        "speed-up of openmp_b over cpu_a: 39.7x (38.9x to 40.5x) (claimed: at least 1x, about 23x)"
    )
    assert judge(result, direction | size).verdict == verdict.verdict  # one test asks for both
    assert judge(result, direction, FASTER | {"about": 40}).verdict == "holds"
    assert judge(result, size).kind == FAILS  # nothing but a magnitude is claimed
    slower = judge(bench.ratios({GRID[0]: 0.5}), direction, FASTER | {"about": 0.5})
    assert (slower.kind, slower.verdict) == (FAILS, "does not hold")


def test_missed_magnitudes_name_their_part_where_there_are_several(bench: Bench) -> None:
    result = bench.ratios({(100, 2, 2): 8.0, (1000, 2, 2): 30.0})
    tests = [
        FASTER | {"where": {"n": [n]}} | expected
        for n, about in ((100, 2), (1000, 30))
        for expected in ({"at_least": 1}, {"about": about})
    ]
    assert judge(result, *tests).verdict.replace(TIMES, "x") == (
        "holds in part: faster, but 8.00x, not about 2x (n = 100)"
    )
    mean = FASTER | {"of": "mean", "about": 51}
    verdict = judge(result, FASTER | {"of": "mean", "at_least": 1}, mean).verdict
    assert verdict.replace(TIMES, "x") == "holds in part: faster, but mean 19.0x, not about 51x"
    largest = judge(result, FASTER | {"at_least": 4}, FASTER | {"up_to": 43}).verdict
    assert largest.replace(TIMES, "x") == "holds in part: at least 4x, but 30.0x, not up to 43x"


def test_a_magnitude_that_holds_somewhere_names_the_shapes(bench: Bench) -> None:
    result = bench.ratios({s: (9.0 if s[1] == 20 else 2.0) for s in GRID})
    verdict = judge(result, FASTER | {"at_least": 1}, FASTER | {"about": 9})
    assert verdict.verdict.replace(TIMES, "x") == (
        "holds in part: faster, but about 9x only for d = 20"
    )


def test_a_missed_magnitude_decides_nothing_while_the_direction_is_open(bench: Bench) -> None:
    result = bench.ratios({GRID[0]: 39.7})
    open_ = FASTER | {"variant": "cuda_z", "at_least": 1}
    assert judge(result, open_, FASTER | {"about": 23}).kind == UNTESTED


def test_growth_is_the_last_value_over_the_first(bench: Bench) -> None:
    # The time of cpu_a grows with the square root of n at d = 2, and with n at d = 20.
    seconds = {(n, d, 2): n ** (0.5 if d == 2 else 1.0) for n in (1, 9, 100) for d in (2, 20)}
    result = bench.result([make_cell("cpu_a", s, v) for s, v in seconds.items()])
    test = {"quantity": "seconds_per_iteration", "variant": "cpu_a", "growth": "n"}
    verdict = judge(result, test | {"where": {"d": [2]}, "about": 10})
    assert verdict.kind == HOLDS
    assert verdict.measured == (
        "growth with n of the time per iteration of cpu_a from n = 1 to 100: "
        "10.0x (9.80x to 10.2x) (claimed: about 10x)"
    )
    verdict = judge(result, test | {"at_most": 50})
    assert (verdict.kind, verdict.verdict) == (PARTLY, "holds here only for d = 2")
    assert judge(result, test | {"of": "largest", "at_least": 97}).kind == HOLDS
    one = bench.result([make_cell("cpu_a", (1, 2, 2), 1.0)])
    assert judge(one, test | {"at_most": 2}).verdict == ("not tested here: only one n has a value")


# --- Single samples --------------------------------------------------------------------------


def test_a_single_sample_decides_nothing(bench: Bench) -> None:
    cells = [make_single("cpu_a", GRID[0], 1.0), make_cell("openmp_b", GRID[0], 0.5)]
    verdict = judge(bench.result(cells), FASTER | {"at_least": 1})
    assert (verdict.kind, verdict.sign) == (TOO_FEW, "?")
    assert verdict.verdict == "not enough samples: one sample of cpu_a f32"
    assert verdict.detail == "one sample of cpu_a f32"
    assert "2.00x" in verdict.measured  # what was found is not lost
    assert judge(bench.result(cells), FASTER | {"at_least": 99}).kind == TOO_FEW
    synthetic.resample(cells[0], [[1.0], [1.0]])
    assert judge(bench.result(cells), FASTER | {"at_least": 1}).kind == HOLDS  # two do


def test_other_values_may_decide_where_one_has_a_single_sample(bench: Bench) -> None:
    def run(*ratios: float) -> Result:
        """At k = 2, 8, 32; the last of a single sample."""
        places = list(zip(GRID[:3], ratios, strict=True))
        cells = [make_cell("cpu_a", shape, 1.0) for shape, _ in places]
        cells += [make_cell("openmp_b", shape, 1 / ratio) for shape, ratio in places[:-1]]
        return bench.result([*cells, make_single("openmp_b", places[-1][0], 1 / places[-1][1])])

    few = "not enough samples: one sample of openmp_b f32 at k = 32"
    for last in (0.1, 3.0):
        each = judge(run(2.0, 3.0, last), FASTER | {"at_least": 1})
        assert (each.kind, each.verdict) == (TOO_FEW, few)
        mean = judge(run(2.0, 3.0, last), FASTER | {"at_least": 1, "of": "mean"})
        assert (mean.kind, mean.verdict) == (TOO_FEW, few)
    assert judge(run(0.5, 0.6, 3.0), FASTER | {"at_least": 1}).kind == FAILS
    partly = judge(run(0.5, 3.0, 3.0), FASTER | {"at_least": 1})
    assert (partly.kind, partly.verdict) == (PARTLY, "holds here only for k = 8")
    assert "; single samples leave 1 shape undecided" in partly.measured
    # Whatever the third is, the largest is 3 or more, the smallest at most 2.
    assert judge(run(2.0, 3.0, 1.0), FASTER | {"at_least": 2.9, "of": "largest"}).kind == HOLDS
    assert judge(run(2.0, 3.0, 9.0), FASTER | {"at_least": 4, "of": "largest"}).kind == TOO_FEW
    assert judge(run(2.0, 3.0, 9.0), FASTER | {"at_least": 3, "of": "smallest"}).kind == FAILS
    assert judge(run(2.0, 3.0, 9.0), FASTER | {"up_to": 1}).kind == FAILS
    assert judge(run(2.0, 3.0, 9.0), FASTER | {"up_to": 9}).kind == TOO_FEW
    # The median of two and an unknown lies between the two.
    assert judge(run(2.0, 3.0, 9.0), FASTER | {"at_least": 1.9, "of": "median"}).kind == HOLDS
    assert judge(run(2.0, 3.0, 9.0), FASTER | {"at_least": 2.5, "of": "median"}).kind == TOO_FEW


def test_a_line_with_a_single_sample_falls_only_where_the_others_do(bench: Bench) -> None:
    def run(*ratios: float, once: int) -> Result:
        shapes = [(100, 2, k) for k in (1, 2, 4, 8)]
        cells = [make_cell("cpu_a", shape, 1.0) for shape in shapes]
        for place, (shape, ratio) in enumerate(zip(shapes, ratios, strict=True)):
            make = make_single if place == once else make_cell
            cells.append(make("openmp_b", shape, 1 / ratio))
        return bench.result(cells)

    test = FASTER | {"rising": "k"}
    few = "not enough samples: one sample of openmp_b f32 at k = 4"
    # Rising or not at k = 4 rests on one sample.
    assert judge(run(1.0, 2.0, 3.0, 4.0, once=2), test).verdict == few
    assert judge(run(1.0, 2.0, 0.5, 4.0, once=2), test).verdict == few
    verdict = judge(run(2.0, 1.0, 3.0, 4.0, once=2), test)
    assert verdict.verdict == "does not hold: falls from k = 1 to 2"
    assert judge(run(2.0, 3.0, 2.5, 1.0, once=2), test).kind == FAILS
    assert judge(run(1.0, 2.0, 3.0, 0.1, once=3), test).kind == TOO_FEW
    growth = FASTER | {"growth": "k", "at_least": 3}
    assert judge(run(1.0, 2.0, 3.0, 4.0, once=2), growth).kind == HOLDS
    assert judge(run(1.0, 2.0, 3.0, 4.0, once=3), growth).verdict == (
        "not enough samples: one sample of openmp_b f32"
    )


def test_a_verdict_names_the_step_that_fails(bench: Bench) -> None:
    values = {(50, k): 1.0 * k for k in (10, 1000, 4000)}
    values |= {(500, 10): 2.0, (500, 1000): 6.0, (500, 4000): 3.0}
    result = bench.ratios({(n, 3, k): ratio for (n, k), ratio in values.items()})
    verdict = judge(result, FASTER | {"rising": "k"})
    assert verdict.kind == PARTLY
    assert verdict.verdict == (
        "holds here only for n = 50; falls from k = 1 000 to 4 000 at n = 500"
    )
    assert verdict.measured.endswith("; that step: from 6.00 to 3.00x")
    up = judge(result, FASTER | {"falling": "k", "where": {"n": [50]}})
    assert up.verdict == "does not hold: rises from k = 10 to 1 000"  # the largest step
    flat = bench.ratios(dict.fromkeys(GRID[:3], 2.0), spread=0.0)
    assert judge(flat, FASTER | {"rising": "k"}).verdict == (
        "does not hold: does not rise from k = 2 to 32"
    )


def test_one_run_of_a_trace_is_a_single_sample_of_its_time_alone(bench: Bench) -> None:
    traces = [make_trace("slow", 30, 0.2, runs_seconds=None), make_trace("fast", 20, 0.1)]
    result = bench.result([make_cell("cpu_a", GRID[0], 1.0)], traces=traces)
    ratio = {"quantity": "trace_speedup", "trace": "fast", "baseline_trace": "slow"}
    verdict = judge(result, ratio | {"at_least": 1})
    assert verdict.verdict == "not enough samples: one run of slow"
    assert "3.00x" in verdict.measured
    steps = {"quantity": "trace_iterations", "trace": "slow", "at_least": 30, "at_most": 30}
    assert judge(result, steps).kind == HOLDS  # a count is exact
    status = {"quantity": "status", "trace": "slow", "equals": "ok"}
    assert judge(result, status).kind == HOLDS


def test_stages_of_one_process_decide_nothing(bench: Bench) -> None:
    stages = {"assign": 0.3, "update": 0.1}
    share = {"quantity": "stage_share", "variant": "cpu_a", "stage": "assign", "at_least": 0.5}
    cells = [make_cell("cpu_a", GRID[0], 0.5, stages=stages)]
    del cells[0]["stage_samples_seconds_per_iteration"]  # as in files of earlier versions
    verdict = judge(bench.result(cells), share)
    assert verdict.verdict == "not enough samples: stages of cpu_a f32 from one process"
    assert "75 %" in verdict.measured


def test_a_test_without_data_outweighs_one_without_samples(bench: Bench) -> None:
    cells = [make_single("cpu_a", GRID[0], 1.0), make_cell("openmp_b", GRID[0], 0.5)]
    good = FASTER | {"at_least": 1}
    result = bench.result(cells)
    assert judge(result, good, FASTER | {"variant": "cuda_z", "at_least": 1}).kind == UNTESTED
    both = bench.result(
        [*cells, make_cell("cpu_a", GRID[1], 1.0), make_cell("openmp_b", GRID[1], 2.0)]
    )
    where_slow = FASTER | {"at_least": 1, "where": {"k": [8]}}
    assert judge(both, good | {"where": {"k": [2]}}, where_slow).kind == FAILS
