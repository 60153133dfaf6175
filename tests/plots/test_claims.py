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
from tests.support import says


def _skipped(variant: str, shape: tuple[int, int, int], reason: str) -> Json:
    return synthetic.cell("small", variant, "f32", shape, 10, status="skipped", reason=reason)


def _open(verdict: Verdict, *parts: str) -> bool:
    """Not tested, with this reason."""
    return verdict.kind == UNTESTED and says(verdict.detail, *parts)


def _few(verdict: Verdict, *parts: str) -> bool:
    """Not enough samples, and of what."""
    return verdict.kind == TOO_FEW and says(verdict.detail, *parts)


def test_each_shape_must_hold(bench: Bench) -> None:
    result = bench.ratios(dict.fromkeys(GRID, 5.0) | {GRID[0]: 12.0})
    verdict = judge(result, FASTER | {"at_least": 4})
    assert verdict.kind == HOLDS
    assert says(verdict.measured, "openmp_b", "cpu_a", "5.00", "12.0x", "5.00x", "12 shapes", "4x")
    assert judge(result, FASTER | {"at_least": 13}).kind == FAILS


def test_the_shapes_where_a_claim_holds_are_named(bench: Bench) -> None:
    result = bench.ratios({s: (9.0 if s[1] == 20 else 2.0) for s in GRID})
    verdict = judge(result, FASTER | {"at_least": 4, "at_most": 43})
    assert (verdict.kind, verdict.verdict) == (PARTLY, "holds here only for d = 20")
    assert says(verdict.measured, "2.00 to 9.00x", "5.50x", "4 to 43x")
    result = bench.ratios({s: (9.0 if s in GRID[:1] or s[1] == 20 else 2.0) for s in GRID})
    verdict = judge(result, FASTER | {"at_least": 4}).verdict
    assert says(verdict, "7 of 12", "d = 20; n = 100, d = 2, k = 2")


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


def test_a_bound_inside_of_the_interval_decides_nothing(bench: Bench) -> None:
    result = bench.ratios({GRID[0]: 4.1}, spread=0.05)
    for bound in (4, 4.2):  # on either side of the median
        verdict = judge(result, FASTER | {"at_least": bound})
        assert (verdict.kind, verdict.sign) == (UNDECIDED, "±")
        assert says(verdict.verdict, f"at least {bound}x", "3.71 to 4.53x")
        assert says(verdict.measured, "4.10x (3.71x to 4.53x)")
    assert judge(result, FASTER | {"at_least": 5}).kind == FAILS
    assert judge(result, FASTER | {"at_least": 3}).kind == HOLDS
    faster = judge(bench.ratios({GRID[0]: 1.06}, spread=0.2), FASTER | {"at_least": 1})
    assert faster.kind == UNDECIDED
    assert says(faster.detail, "faster", "0.707 to 1.59x")


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
    def said(kind: str, *ratios: float, **of: str) -> str:
        result = bench.ratios(dict(zip(GRID[:3], ratios, strict=True)), spread=0.05)
        verdict = judge(result, FASTER | {"at_least": 4} | of)
        assert verdict.kind == kind
        undecided = sum(3.6 < ratio < 4.4 for ratio in ratios)
        assert bool(of) or (f"{undecided} of them undecided" in verdict.measured) == (undecided > 0)
        return verdict.verdict

    assert says(said(UNDECIDED, 9.0, 4.1, 3.9), "at least 4x", "k = 8, 32")
    assert "k = " not in said(UNDECIDED, 4.1, 4.1, 3.9)
    assert says(said(PARTLY, 9.0, 4.1, 2.0), "only for k = 2", "undecided for k = 8")
    said(FAILS, 4.1, 4.1, 2.0)  # nowhere does it surely hold
    assert says(said(UNDECIDED, 3.0, 4.0, 5.0, of="mean"), "mean", "4x", "3.62 to 4.42x")


def test_an_undecided_test_outweighs_one_that_holds_alone(bench: Bench) -> None:
    result = bench.ratios({GRID[0]: 4.1}, spread=0.05)
    open_, good = FASTER | {"at_least": 4}, FASTER | {"at_least": 1}
    missing = FASTER | {"variant": "cuda_z", "at_least": 1}
    assert judge(result, good, open_).kind == UNDECIDED
    assert judge(result, good, open_, missing).kind == UNTESTED
    assert judge(result, open_, FASTER | {"at_least": 9}).kind == FAILS
    # Which way is known, how much is not; and neither is.
    about = judge(result, good, FASTER | {"about": 5})
    assert about.kind == UNDECIDED
    assert says(about.verdict, "about 5x")
    missed = judge(result, open_, FASTER | {"about": 50})
    assert missed.kind == UNDECIDED
    assert says(missed.verdict, "at least 4x")
    assert judge(result, good, open_, FASTER | {"about": 50}).kind == UNDECIDED


def test_smallest_and_largest_are_not_an_interval(bench: Bench) -> None:
    cells = [make_cell("cpu_a", GRID[0], 1.0), make_single("openmp_b", GRID[0], 0.5)]
    assert "smallest and largest" in judge(bench.result(cells), FASTER | {"at_least": 1}).measured


def test_without_cells_a_claim_is_not_tested(bench: Bench) -> None:
    result = bench.ratios({GRID[0]: 5.0})
    gflops = {"quantity": "gflops", "variant": "cuda_z", "at_least": 1}
    assert _open(judge(result, gflops), "cuda_z")
    where = FASTER | {"at_least": 1, "where": {"n": [5], "k": [2, 3]}}
    assert _open(judge(result, where), "openmp_b", "n = 5, k = 2, 3")
    assert _open(judge(result, FASTER | {"baseline": "cpu_other", "at_least": 1}), "cpu_other")


def test_a_skipped_variant_says_why(bench: Bench) -> None:
    cells = [make_cell("cpu_a", s, 1.0) for s in GRID[:3]]
    cells += [_skipped("cuda_hybrid", s, "no CUDA device was found.") for s in GRID[:3]]
    verdict = judge(bench.result(cells), FASTER | {"variant": "cuda_hybrid", "at_least": 1})
    assert _open(verdict, "cuda_hybrid f32 skipped", "no CUDA device was found")
    assert verdict.measured == ""


def test_gaps_are_named_next_to_a_verdict(bench: Bench) -> None:
    cells = [make_cell("cpu_a", s, 1.0) for s in GRID[:3]] + [make_cell("openmp_b", GRID[0], 0.1)]
    cells += [_skipped("openmp_b", s, "too large") for s in GRID[1:3]]
    verdict = judge(bench.result(cells), FASTER | {"at_least": 4, "where": {"n": [100, 7]}})
    assert verdict.kind == HOLDS
    assert says(verdict.measured, "2 shapes", "openmp_b f32 skipped: too large")
    assert "n = 7" in verdict.measured


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
    assert says(verdict.measured, "300 iterations", "cpu_a", "150 s")
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
    assert says(verdict.measured, "20 iterations", "cpu_a", "11.0 s (10.9 s to 11.1 s)")
    own = judge(result, CALL | {"at_least": 5.94, "at_most": 6.06})  # T = 10
    assert own.kind == HOLDS
    assert judge(result, CALL | {"at_least": 5.99}).kind == UNDECIDED
    ratio = {"quantity": "call_speedup", "variant": "openmp_b", "baseline": "cpu_a"}
    # 11 over 5 at T = 20, 6 over 4 at T = 10, 1.5 over 3.1 at T = 1.
    verdict = judge(result, ratio | {"iterations": 20, "at_least": 2.16, "at_most": 2.24})
    assert says(verdict.measured, "20 iterations", "openmp_b", "cpu_a", "2.20x (2.17x to 2.23x)")
    assert verdict.kind == HOLDS
    assert judge(result, ratio | {"about": 1.5}).kind == HOLDS
    assert judge(result, ratio | {"iterations": 1, "at_least": 1}).kind == FAILS
    # 18 over 5.3: the baseline stops later.
    both = ratio | {"iterations": 23, "baseline_iterations": 34}
    verdict = judge(result, both | {"at_least": 18 / 5.3 - 0.06, "at_most": 18 / 5.3 + 0.06})
    assert verdict.kind == HOLDS
    assert says(verdict.measured, "23 iterations", "openmp_b", "34 iterations", "cpu_a", "3.40x")


def test_shares_of_a_whole_call(bench: Bench) -> None:
    stages = {"assign": 0.3, "update": 0.1}
    changes: Json = {"setup_seconds": 5.0, "stages": stages}
    result = bench.result([make_cell("cpu_a", GRID[0], 0.5, spread=1e-6, **changes)])
    share = {"quantity": "call_share", "variant": "cpu_a", "iterations": 20}

    def holds(test: Json, value: float) -> str:
        verdict = judge(result, test | {"at_least": value - 1e-4, "at_most": value + 1e-4})
        assert verdict.kind == HOLDS
        return verdict.measured

    assert says(holds(share, 5 / 15), "setup", "20 iterations", "cpu_a", "33 %")
    loose = bench.result([make_cell("cpu_a", GRID[0], 0.5, **changes)])
    assert ": 33 % (33 % to 34 %)" in judge(loose, share | {"at_most": 1}).measured
    result = bench.result([make_cell("cpu_a", GRID[0], 0.5, spread=1e-6, **changes)])
    holds(share | {"iterations": 10}, 5 / 10)
    # A quarter of the iterations, whatever the sum of the stages.
    assert "stage update" in holds(share | {"stage": "update"}, 2.5 / 15)
    both = holds(share | {"stage": ["setup", "update"]}, 7.5 / 15)
    assert "setup and the stage update" in both
    holds(share | {"stage": ["setup", "update", "assign"]}, 1.0)
    open_ = judge(result, share | {"stage": ["setup", "upload"], "at_most": 1})
    assert _open(open_, "cpu_a", "upload")


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
        assert _open(judge(result, test | {"at_least": 0}), "interpreter's start")
    setup = {"quantity": "setup_seconds", "variant": "python_x", "at_least": 1}
    assert judge(result, setup).kind == HOLDS


def test_whole_calls_without_setup_or_of_one_process_decide_nothing(bench: Bench) -> None:
    bare = bench.result([make_cell("cpu_a", GRID[0], 0.5, setup_seconds=None)])
    assert _open(judge(bare, CALL | {"at_most": 9}), "cpu_a", "setup")
    assert _open(judge(bare, CALL | {"quantity": "call_share", "at_most": 9}), "cpu_a", "setup")
    cells = [make_cell("cpu_a", GRID[0], 0.5), make_cell("openmp_b", GRID[0], 0.1)]
    synthetic.resample(cells[0], [[0.5, 0.5, 0.5]])
    ratio = {"quantity": "call_speedup", "variant": "openmp_b", "baseline": "cpu_a"}
    for test in (CALL | {"at_most": 9}, ratio | {"at_least": 1}):
        assert _few(judge(bench.result(cells), test), "set-up of cpu_a f32")


def test_a_program_that_stopped_has_calls_of_what_ran(bench: Bench) -> None:
    cells = [
        make_cell("cpu_a", GRID[0], 1.0, executed_iterations=4, setup_seconds=2.0),
        make_cell("openmp_b", GRID[0], 0.5, setup_seconds=1.0),
    ]
    result = bench.result(cells)
    assert judge(result, CALL | {"at_least": 5.9, "at_most": 6.1}).kind == HOLDS
    assert _open(judge(result, CALL | {"iterations": 10, "at_most": 99}), "cpu_a", "4 of 10")
    ratio = {"quantity": "call_speedup", "variant": "openmp_b", "baseline": "cpu_a"}
    assert judge(result, ratio | {"about": 1}).kind == HOLDS  # 2 + 4 over 1 + 10 halves
    early = judge(result, ratio | {"iterations": 10, "about": 1})
    assert _open(early, "openmp_b", "baseline", "4 of 10")
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
    assert says(verdict.measured, "update", "cpu_a", "25 %", "20 to 30 %")
    # Nothing says what a stage took that is not marked; it may have another name.
    assert _open(judge(result, share | {"stage": "upload", "at_most": 0}), "cpu_a", "upload")
    result = bench.result([make_cell("cpu_a", GRID[0], 0.5, stages={})])
    assert judge(result, share | {"at_most": 0.3}).kind == UNTESTED


def test_a_rate_that_is_not_known_is_not_tested(bench: Bench) -> None:
    rates = {"compulsory": 1.0, "as_written": None}
    result = bench.result([make_cell("cpu_a", GRID[0], 0.5, gbytes_per_second=rates)])
    test = {"quantity": "gbytes_per_second", "variant": "cpu_a", "at_least": 0.1}
    assert _open(judge(result, test), "traffic")


def test_the_status_of_a_variant(bench: Bench) -> None:
    def cells(status: str) -> list[Json]:
        return [
            synthetic.cell("small", "cpu_a", "f32", s, 10, status=status, reason="r")
            for s in GRID[:2]
        ]

    test = {"quantity": "status", "variant": "cpu_a", "equals": "wrong"}
    verdict = judge(bench.result(cells("wrong")), test)
    assert verdict.kind == HOLDS
    assert says(verdict.measured, "cpu_a: wrong at 2 shapes")
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
    assert flat.kind == UNDECIDED
    assert says(flat.measured, "rising with n", "0 of 6 lines")
    mixed = bench.ratios({s: float(s[2] if s[1] == 2 else 1 / s[2]) for s in GRID})
    verdict = judge(mixed, FASTER | {"rising": "k"})
    assert verdict.kind == PARTLY
    assert says(verdict.verdict, "only for d = 2", "falls from k = 2 to 8 at n = 100, d = 20", "1")
    assert says(verdict.measured, "2 of 4 lines", "from 0.500 to 0.125x")
    one = bench.ratios({s: 3.0 for s in GRID if s[2] == 2})
    assert _open(judge(one, FASTER | {"rising": "k"}), "only one k")


def test_a_step_back_counts_only_beyond_the_intervals(bench: Bench) -> None:
    ratios = dict(zip(GRID[:3], (2.0, 1.98, 4.0), strict=True))
    verdict = judge(bench.ratios(ratios, spread=0.02), FASTER | {"rising": "k"})
    assert verdict.kind == HOLDS
    assert "within the interval" in verdict.measured
    assert judge(bench.ratios(ratios, spread=0.001), FASTER | {"rising": "k"}).kind == FAILS


def test_a_line_rises_only_beyond_the_intervals_of_its_ends(bench: Bench) -> None:
    ratios = dict(zip(GRID[:3], (2.0, 2.01, 2.02), strict=True))
    for word in ("rising", "falling"):
        verdict = judge(bench.ratios(ratios, spread=0.02), FASTER | {word: "k"})
        assert verdict.kind == UNDECIDED
    assert judge(bench.ratios(ratios, spread=1e-4), FASTER | {"rising": "k"}).kind == HOLDS
    # One line up, one open, one down: what holds is named, and what is open.
    values = {2: (1.0, 4.0), 3: (1.0, 1.01), 4: (4.0, 1.0)}
    lines = {
        (100, d, k): v for d, pair in values.items() for k, v in zip((2, 8), pair, strict=True)
    }
    verdict = judge(bench.ratios(lines, spread=0.02), FASTER | {"rising": "k"})
    assert verdict.kind == PARTLY
    assert says(verdict.verdict, "d = 2", "falls from k = 2 to 8 at d = 4", "undecided for d = 3")


def test_an_aggregate_can_rise(bench: Bench) -> None:
    # At d = 20 it falls by less than it rises at d = 2.
    result = bench.ratios({s: (10.0 * s[2] if s[1] == 2 else 5.0 / s[2]) for s in GRID})
    assert judge(result, FASTER | {"rising": "k"}).kind == PARTLY
    verdict = judge(result, FASTER | {"rising": "k", "of": "mean"})
    assert verdict.kind == HOLDS
    assert "from k = 2 to 32" in verdict.measured


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
    assert says(verdict.measured, "fast over slow", "3.00x (2.88x to 3.12x")
    assert _open(judge(result, ratio | {"baseline_trace": "none", "at_least": 1}), "trace none")
    verdict = judge(result, steps | {"trace": "off", "at_least": 1})
    assert _open(verdict, "trace off", "wrong: inertia differs")


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
    assert says(judge(result, test | {"at_least": 5}).verdict, "only for n = 100")


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
    assert says(verdict.measured, "iterations apart", "sums", "11", "5")
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
    assert _open(judge(bench.result(cells, studies=[late]), found), "sums error", "than 5 s")
    assert _open(judge(bench.result(cells), found), "no study sums")


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
    assert _open(judge(result, FASTER | {"at_least": 1}, scales=["paper"]), "paper scale")
    assert judge(result).kind == UNTESTED
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
    assert judge(bench.result(cells), FASTER | {"at_least": 1.9, "at_most": 2.1}).kind == HOLDS


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
    assert says(claims.tally_text(found), "2 statements: 1 holds", "2 questions", "1 holds")
    assert says(claims.tally_text(found[4:]), "2 questions", "1 holds")
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
    assert says(found.measured, "40.0x (39.2x to 40.8x)", "0.100 to 40.0x", "up to 43x")
    assert judge(bench.ratios(dict.fromkeys(GRID[:3], 318.0)), test).kind == FAILS
    assert judge(bench.ratios(dict.fromkeys(GRID[:3], 33.0)), test).kind == FAILS


def test_a_direction_that_holds_and_a_magnitude_that_does_not_hold_in_part(bench: Bench) -> None:
    result = bench.ratios({GRID[0]: 39.7})
    direction, size = FASTER | {"at_least": 1}, FASTER | {"about": 23}
    verdict = judge(result, direction, size)
    assert verdict.kind == PARTLY
    assert says(verdict.detail, "faster", "39.7x", "about 23x")
    # The numbers stand there once, with both that is claimed of them.
    assert verdict.measured.count("39.7") == 1
    assert says(verdict.measured, "39.7x (38.9x to 40.5x)", "at least 1x, about 23x")
    assert judge(result, direction | size).verdict == verdict.verdict  # one test asks for both
    assert judge(result, direction, FASTER | {"about": 40}).kind == HOLDS
    assert judge(result, size).kind == FAILS  # nothing but a magnitude is claimed
    slower = judge(bench.ratios({GRID[0]: 0.5}), direction, FASTER | {"about": 0.5})
    assert slower.kind == FAILS


def test_missed_magnitudes_name_their_part_where_there_are_several(bench: Bench) -> None:
    result = bench.ratios({(100, 2, 2): 8.0, (1000, 2, 2): 30.0})
    tests = [
        FASTER | {"where": {"n": [n]}} | expected
        for n, about in ((100, 2), (1000, 30))
        for expected in ({"at_least": 1}, {"about": about})
    ]
    assert says(judge(result, *tests).verdict, "faster", "8.00x", "about 2x", "n = 100")
    mean = FASTER | {"of": "mean", "about": 51}
    verdict = judge(result, FASTER | {"of": "mean", "at_least": 1}, mean).verdict
    assert says(verdict, "faster", "mean 19.0x", "about 51x")
    largest = judge(result, FASTER | {"at_least": 4}, FASTER | {"up_to": 43}).verdict
    assert says(largest, "at least 4x", "30.0x", "up to 43x")


def test_a_magnitude_that_holds_somewhere_names_the_shapes(bench: Bench) -> None:
    result = bench.ratios({s: (9.0 if s[1] == 20 else 2.0) for s in GRID})
    verdict = judge(result, FASTER | {"at_least": 1}, FASTER | {"about": 9})
    assert verdict.kind == PARTLY
    assert says(verdict.verdict, "faster", "9x only for d = 20")


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
    assert says(verdict.measured, "cpu_a", "n = 1 to 100", "10.0x (9.80x to 10.2x)", "10x")
    verdict = judge(result, test | {"at_most": 50})
    assert verdict.kind == PARTLY
    assert says(verdict.verdict, "only for d = 2")
    assert judge(result, test | {"of": "largest", "at_least": 97}).kind == HOLDS
    one = bench.result([make_cell("cpu_a", (1, 2, 2), 1.0)])
    assert _open(judge(one, test | {"at_most": 2}), "only one n")


# --- Single samples --------------------------------------------------------------------------


def test_a_single_sample_decides_nothing(bench: Bench) -> None:
    cells = [make_single("cpu_a", GRID[0], 1.0), make_cell("openmp_b", GRID[0], 0.5)]
    verdict = judge(bench.result(cells), FASTER | {"at_least": 1})
    assert verdict.sign == "?"
    assert _few(verdict, "sample of cpu_a f32")
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

    for last in (0.1, 3.0):
        for of in ({}, {"of": "mean"}):
            verdict = judge(run(2.0, 3.0, last), FASTER | {"at_least": 1} | of)
            assert _few(verdict, "openmp_b f32", "k = 32")
    assert judge(run(0.5, 0.6, 3.0), FASTER | {"at_least": 1}).kind == FAILS
    partly = judge(run(0.5, 3.0, 3.0), FASTER | {"at_least": 1})
    assert partly.kind == PARTLY
    assert says(partly.verdict, "only for k = 8")
    assert "1 shape undecided" in partly.measured
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
    # Rising or not at k = 4 rests on one sample.
    for third in (3.0, 0.5):
        assert _few(judge(run(1.0, 2.0, third, 4.0, once=2), test), "openmp_b f32", "k = 4")
    verdict = judge(run(2.0, 1.0, 3.0, 4.0, once=2), test)
    assert verdict.kind == FAILS
    assert says(verdict.verdict, "falls from k = 1 to 2")
    assert judge(run(2.0, 3.0, 2.5, 1.0, once=2), test).kind == FAILS
    assert judge(run(1.0, 2.0, 3.0, 0.1, once=3), test).kind == TOO_FEW
    growth = FASTER | {"growth": "k", "at_least": 3}
    assert judge(run(1.0, 2.0, 3.0, 4.0, once=2), growth).kind == HOLDS
    assert _few(judge(run(1.0, 2.0, 3.0, 4.0, once=3), growth), "openmp_b f32")


def test_a_verdict_names_the_step_that_fails(bench: Bench) -> None:
    values = {(50, k): 1.0 * k for k in (10, 1000, 4000)}
    values |= {(500, 10): 2.0, (500, 1000): 6.0, (500, 4000): 3.0}
    result = bench.ratios({(n, 3, k): ratio for (n, k), ratio in values.items()})
    verdict = judge(result, FASTER | {"rising": "k"})
    assert verdict.kind == PARTLY
    assert says(verdict.verdict, "only for n = 50", "falls from k = 1 000 to 4 000 at n = 500")
    assert says(verdict.measured, "from 6.00 to 3.00x")
    up = judge(result, FASTER | {"falling": "k", "where": {"n": [50]}})
    assert says(up.verdict, "rises from k = 10 to 1 000")  # the largest step
    flat = bench.ratios(dict.fromkeys(GRID[:3], 2.0), spread=0.0)
    assert says(judge(flat, FASTER | {"rising": "k"}).verdict, "not rise from k = 2 to 32")


def test_one_run_of_a_trace_is_a_single_sample_of_its_time_alone(bench: Bench) -> None:
    traces = [make_trace("slow", 30, 0.2, runs_seconds=None), make_trace("fast", 20, 0.1)]
    result = bench.result([make_cell("cpu_a", GRID[0], 1.0)], traces=traces)
    ratio = {"quantity": "trace_speedup", "trace": "fast", "baseline_trace": "slow"}
    verdict = judge(result, ratio | {"at_least": 1})
    assert _few(verdict, "run of slow")
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
    assert _few(verdict, "stages of cpu_a f32")
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
