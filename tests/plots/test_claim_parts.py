# SPDX-License-Identifier: Apache-2.0
"""Claims on stages, on limits of the machine, and on what a library executed."""

from __future__ import annotations

import pytest
import synthetic
from bench import FASTER, GRID, Bench, judge, make_cell, make_staged
from synthetic import Json

from plots.claims import FAILS, HOLDS, TOO_FEW, UNDECIDED, UNTESTED, where
from tests.support import says


def test_rates_of_a_stage_are_over_its_own_time(bench: Bench) -> None:
    result = bench.result([make_staged()])
    for quantity, text in (
        ("gflops", "4.00 GFLOP/s (2.50 GFLOP/s to 5.00 GFLOP/s"),
        ("gbytes_per_second", "8.00 GB/s (5.00 GB/s to 10.0 GB/s"),
    ):
        test = {"quantity": quantity, "variant": "cpu_a", "stage": "assign", "at_least": 1}
        verdict = judge(result, test)
        assert verdict.kind == HOLDS
        assert says(verdict.measured, "assign", "cpu_a", text)
        assert says(judge(result, test | {"stage": "update"}).verdict, "cpu_a", "work", "update")
        assert says(judge(result, test | {"stage": "sort"}).verdict, "cpu_a", "time", "sort")


def test_shares_of_bandwidth_and_multiply_add_are_of_where_the_stage_runs(bench: Bench) -> None:
    bandwidth = {"quantity": "share_of_bandwidth", "variant": "cpu_a", "stage": "assign"}
    arithmetic = bandwidth | {"quantity": "share_of_fma"}
    result = bench.result([make_staged()])

    def bounds(low: float, high: float) -> Json:
        return {"at_least": 0.999 * low, "at_most": 1.001 * high}

    # 5 to 10 GB/s of 72, 2.5 to 5 GFLOP/s of the 270 of one thread.
    verdict = judge(result, bandwidth | bounds(5 / 72, 10 / 72))
    assert verdict.kind == HOLDS
    assert says(verdict.measured, "read bandwidth", "assign", "cpu_a", "11 %")
    assert judge(result, arithmetic | bounds(2.5 / 270, 5 / 270)).kind == HOLDS
    assert judge(result, arithmetic | bounds(2.6 / 270, 5 / 270)).kind == UNDECIDED
    work = {"assign": {"operations": 2e9, "bytes_as_written": 4e9, "gpu": True}}
    context = synthetic.context()
    context["ceilings"]["gpu"] = synthetic.gpu_ceilings()
    # The GPU's L2 holds 2000 bytes: the 800 of 100 points fit, the 8000 of 1000 do not.
    for n, limit in ((100, 8000), (1000, 4000)):
        cell = make_staged(stage_work=work, n=n)
        result = bench.result([cell], context=context)
        assert judge(result, bandwidth | bounds(5 / limit, 10 / limit)).kind == HOLDS
        assert judge(result, bandwidth | bounds(6 / limit, 10 / limit)).kind == UNDECIDED
    assert judge(result, arithmetic | bounds(2.5 / 60_000, 5 / 60_000)).kind == HOLDS
    without = judge(bench.result([cell]), bandwidth | {"at_least": 0})
    assert says(without.verdict, "limit", "not measured")


def test_shares_and_times_of_several_stages_are_added(bench: Bench) -> None:
    samples = {"upload": [1.0, 1.0, 2.0], "assign": [2.0, 4.0, 4.0], "update": [1.0, 5.0, 2.0]}
    result = bench.result([make_staged(stage_samples_seconds_per_iteration=samples)])
    share = {"quantity": "stage_share", "variant": "cpu_a", "stage": ["upload", "assign"]}
    verdict = judge(result, share | {"about": 0.6})
    # By process 3 of 4, 5 of 10, 6 of 8.
    assert says(verdict.measured, "upload and assign", "cpu_a", "75 % (50 % to 75 %", "60 %")
    assert verdict.kind == HOLDS
    # 3, 5 and 6 seconds.
    time = {"quantity": "stage_seconds", "variant": "cpu_a", "stage": ["upload", "assign"]}
    assert judge(result, time | {"at_least": 3, "at_most": 6}).kind == HOLDS
    assert "5.00 s (3.00 s to 6.00 s" in judge(result, time | {"at_least": 3}).measured
    over = {"over": "fma_gflops.f32_one_thread", "at_least": 3 / 270.1, "at_most": 6 / 269.9}
    assert judge(result, time | over).kind == HOLDS
    assert "was not measured" in judge(result, time | {"over": "gpu.none", "at_most": 1}).verdict


def test_a_stage_against_that_of_another_variant(bench: Bench) -> None:
    slow = make_staged(stage_samples_seconds_per_iteration={"assign": [2.0, 3.0, 4.0]})
    fast = make_cell("openmp_b", GRID[0], 1.0, stages={"assign": 0.5})
    fast["stage_samples_seconds_per_iteration"] = {"assign": [0.5, 0.5, 0.5]}
    test = {"quantity": "stage_speedup", "variant": "openmp_b", "baseline": "cpu_a"}
    verdict = judge(bench.result([slow, fast]), test | {"stage": "assign", "at_least": 1})
    assert verdict.kind == HOLDS
    assert says(verdict.measured, "assign", "openmp_b over cpu_a", "6.00x (4.00x to 8.00x")
    wrong = FASTER | {"stage": "assign", "at_least": 1}
    for faulty, quantity in ((test | {"at_least": 1}, "stage_speedup"), (wrong, "speedup")):
        verdict = judge(bench.result([slow, fast]), faulty)
        assert verdict.kind == UNTESTED
        assert says(verdict.detail, quantity, "stage")


def test_limits_of_the_machine(bench: Bench) -> None:
    context = synthetic.context()
    context["ceilings"]["gpu"] = synthetic.gpu_ceilings()
    result = bench.result([make_cell("cpu_a", GRID[0], 1.0)], context=context)
    pinned = "gpu.host_to_device_gbytes_per_second.pinned"
    test = {"quantity": "ceiling", "ceiling": pinned}
    verdict = judge(result, test | {"about": 16})
    assert verdict.kind == FAILS
    assert says(verdict.measured, "gpu host to device pinned", "55.0 GB/s", "16 GB/s")
    ratio = {"quantity": "ceiling", "ceiling": "gpu.read_gbytes_per_second", "over": pinned}
    verdict = judge(result, ratio | {"at_least": 20})
    assert verdict.kind == HOLDS
    assert says(verdict.measured, "gpu read", "gpu host to device pinned", "72.7x")
    without = bench.result([make_cell("cpu_a", GRID[0], 1.0)])
    assert says(judge(without, test | {"about": 16}).verdict, pinned, "not measured")


def test_executed_iterations_and_setup(bench: Bench) -> None:
    cells = [
        make_cell("python_x", GRID[0], 0.5, executed_iterations=4),
        make_cell("python_x", GRID[1], 0.5, executed_iterations=10),
        make_cell("python_y", GRID[0], 0.5, executed_iterations=None, setup_seconds=2.5),
    ]
    result = bench.result(cells)
    test = {"quantity": "executed_iterations", "variant": "python_x"}
    assert says(judge(result, test | {"at_most": 9}).verdict, "only for k = 2")
    verdict = judge(result, test | {"variant": "python_y", "at_least": 10, "at_most": 10})
    assert verdict.kind == HOLDS  # one that cannot stop early ran all
    total = {"quantity": "total_seconds", "variant": "python_x", "where": {"k": [2]}}
    assert judge(result, total | {"at_least": 1.9, "at_most": 2.1}).kind == HOLDS  # 4 times 0.5
    early = judge(result, total | {"iterations": 10, "at_least": 2})
    assert says(early.verdict, "python_x", "4 of 10 iterations")
    setup = {"quantity": "setup_seconds", "variant": "python_y", "at_least": 2.5}
    assert judge(result, setup).kind == HOLDS
    synthetic.resample(cells[2], [[0.5]])
    assert judge(bench.result(cells), setup).kind == TOO_FEW


def test_a_library_of_an_older_file_has_no_known_time_per_iteration(bench: Bench) -> None:
    cells = [make_cell("python_x", GRID[0], 0.5), make_cell("openmp_b", GRID[0], 0.1)]
    for cell in cells:
        del cell["executed_iterations"]
    found = judge(bench.result(cells), FASTER | {"baseline": "python_x", "at_least": 1})
    assert found.kind == UNTESTED
    assert says(found.detail, "python_x", "not in this file")
    per = {"quantity": "seconds_per_iteration", "variant": "openmp_b", "at_most": 1}
    assert judge(bench.result(cells), per).kind == HOLDS  # no library


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        ([(n, d, k) for n, d, k in GRID if k >= 8], "k = 8, 32"),
        ([(n, d, k) for n, d, k in GRID if k >= 8 and n == 100], "n = 100, k = 8, 32"),
        (GRID[:1], "n = 100, d = 2, k = 2"),
        ([s for s in GRID if s[1] == 20 or s[2] == 2], "8 of 12 shapes: d = 20; k = 2"),
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
