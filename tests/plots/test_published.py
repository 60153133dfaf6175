# SPDX-License-Identifier: Apache-2.0
"""Published numbers next to measured ones, on numbers that are set by the test."""

from __future__ import annotations

from typing import Any

import pytest
import synthetic
from bench import GRID, Bench, judge, make_cell, make_single, make_staged, make_trace

from plots import published
from plots.claims import FAILS, HOLDS, PARTLY
from plots.load import Result
from tests.support import says


def _compare(result: Result, **entry: Any) -> published.Comparison:
    result.spec["published"] = [{"label": "theirs", "machine": "m", "where": "w", **entry}]
    (found,) = published.comparisons(result)
    return found


def test_a_published_speed_up_is_held_against_its_own_baseline(bench: Bench) -> None:
    cells = [make_cell(name, GRID[0], s) for name, s in (("cpu_a", 1.0), ("cpu_c", 3.0))]
    result = bench.result([*cells, make_cell("openmp_b", GRID[0], 0.5)])
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
    result = bench.result([make_cell("cpu_a", GRID[0], 0.5)])  # T = 10
    found = _compare(result, **entry, iterations=10)
    assert found.measured == pytest.approx(5.0)
    assert found.interval_text == "4.95 s \N{EN DASH} 5.05 s"
    assert found.ratio == pytest.approx(0.5)
    # It never stops early, so 300 iterations take 300 times as long as one.
    other = _compare(result, **entry, iterations=300)
    assert other.measured == pytest.approx(150.0)
    assert says(other.remark, "300 times", "10 iterations")
    # A library that may stop before is known for what it ran alone.
    cell = make_cell("python_x", GRID[0], 0.5, executed_iterations=10)
    library = _compare(bench.result([cell]), **entry | {"variant": "python_x"}, iterations=300)
    assert (library.measured, library.ratio, library.interval) == (None, None, None)
    assert says(library.measured_text, "10 iterations", "300", "5.00 s")
    several = [make_cell("cpu_a", GRID[0], 0.5), make_cell("cpu_a", GRID[0], 0.1, iterations=300)]
    assert _compare(bench.result(several), **entry, iterations=300).measured == pytest.approx(30)


def test_a_library_that_stopped_early_has_no_published_total(bench: Bench) -> None:
    entry = {"variant": "python_x", "quantity": "total_seconds", "value": 1.2, "iterations": 300}
    cell = make_cell("python_x", GRID[0], 0.01, iterations=300, executed_iterations=184)
    found = _compare(bench.result([cell]), **entry)
    assert (found.measured, found.ratio) == (None, None)
    assert says(found.measured_text, "184 of 300", "1.84 s")
    short = _compare(bench.result([cell]), **entry | {"value": 0.012})  # in the published unit
    assert says(short.measured_text, "184 of 300", "1 840 ms")
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
    assert "not in this file" in found.remark


def test_claims_and_published_numbers_may_be_about_a_number_of_threads(bench: Bench) -> None:
    row = {"variant": "python_x", "precision": "f32"}
    cells = [
        make_cell("cpu_a", GRID[0], 0.2),
        synthetic.cell("small", "python_x", "f32", GRID[0], 10, threads=16),
        synthetic.cell("small", "python_x", "f32", GRID[0], 10, threads=1),
    ]
    for cell, seconds in zip(cells[1:], (0.1, 0.4), strict=True):
        synthetic.retime(cell, seconds, 0.01)
        synthetic.agree(cell)
    result = bench.result(cells)
    test = {"quantity": "speedup", "variant": "cpu_a", "at_least": 1}
    one = judge(result, test | {"baseline": row | {"threads": 1}})
    every = judge(result, test | {"baseline": row | {"threads": 16}})
    assert (one.kind, every.kind) == (HOLDS, FAILS)
    assert says(one.measured, "cpu_a over python_x f32 x1", "2.00x")
    without = judge(bench.result(cells[:2]), test | {"baseline": row | {"threads": 1}})
    assert says(without.verdict, "no cell of python_x f32 x1")
    entry = {**row, "quantity": "seconds_per_iteration", "value": 1.0}
    assert _compare(result, **entry, threads=1).measured == pytest.approx(0.4)
    assert _compare(result, **entry, threads=16).measured == pytest.approx(0.1)
    assert _compare(result, **entry, threads=2).remark == "not part of this run"
    ratio = {"variant": "cpu_a", "quantity": "speedup", "value": 2.0}
    found = _compare(result, **ratio, baseline=row | {"threads": 1})
    assert says(found.remark, "python_x f32 x1")


def test_a_published_total_may_be_that_of_a_trace_that_ended_by_a_rule(bench: Bench) -> None:
    entry = {"variant": "cpu_a", "quantity": "total_seconds", "value": 6.0, "iterations": 20}
    cells = [make_cell("cpu_a", GRID[0], 1.0)]
    trace = make_trace("program", 20, 0.1, stop="loss:0.1")
    found = _compare(bench.result(cells, traces=[trace]), **entry)
    assert found.measured == pytest.approx(2.0)
    assert found.interval_text == "1.96 s \N{EN DASH} 2.04 s (min\N{EN DASH}max)"
    assert says(found.remark, "trace program", "loss:0.1")
    # Of other lengths a multiple of an iteration is known, if the variant never stops by itself.
    other = _compare(bench.result(cells, traces=[trace]), **entry | {"iterations": 33})
    assert other.measured == pytest.approx(33.0)
    cells[0]["executed_iterations"] = 10
    other = _compare(bench.result(cells, traces=[trace]), **entry | {"iterations": 33})
    assert other.measured is None
    assert says(other.measured_text, "trace program", "20 iterations", "33", "2.00 s")


def test_a_published_total_of_a_whole_call_is_compared_with_setup_and_iterations(
    bench: Bench,
) -> None:
    entry = {"variant": "cpu_a", "quantity": "total_seconds", "value": 6.0, "iterations": 20}
    cells = [make_cell("cpu_a", GRID[0], 0.2, setup_seconds=1.5, processes=3)]
    trace = make_trace("program", 20, 0.1, stop="loss:0.1")
    result = bench.result(cells, traces=[trace])
    found = _compare(result, **entry, whole_call=True)
    assert found.measured == pytest.approx(3.5)
    assert found.interval_text == "3.46 s \N{EN DASH} 3.54 s (min\N{EN DASH}max)"
    assert says(found.remark, "setup (1.50 s)", "trace program", "loss:0.1")
    assert _compare(result, **entry).measured == pytest.approx(2.0)
    scaled = _compare(bench.result(cells), **entry, whole_call=True)
    assert scaled.measured == pytest.approx(1.5 + 20 * 0.2)
    cells[0]["setup_seconds"] = None
    synthetic.agree(cells[0])
    unknown = _compare(bench.result(cells), **entry, whole_call=True)
    assert unknown.measured is None
    assert "no setup time" in unknown.remark


def test_a_library_that_stopped_early_shows_its_setup_next_to_a_whole_call(bench: Bench) -> None:
    entry = {"variant": "python_x", "quantity": "total_seconds", "value": 1.2, "iterations": 300}
    library = {"iterations": 300, "executed_iterations": 184, "setup_seconds": 0.5}
    cell = make_cell("python_x", GRID[0], 0.01, **library)
    found = _compare(bench.result([cell]), **entry, whole_call=True)
    assert found.measured is None
    assert says(found.measured_text, "184 of 300", "1.84 s", "0.500 s of setup")
    cell["executed_iterations"] = 300
    found = _compare(bench.result([cell]), **entry, whole_call=True)
    assert found.measured == pytest.approx(3.0)  # an interpreter's start is no part of a call
    assert "without setup (0.500 s)" in found.remark


def test_a_published_speedup_may_be_of_whole_calls_of_different_lengths(bench: Bench) -> None:
    cells = [
        make_cell("cpu_a", GRID[0], 0.5, spread=0.0, setup_seconds=1.0),
        make_cell("openmp_b", GRID[0], 0.1, spread=0.0, setup_seconds=2.0),
    ]
    entry = {"variant": "openmp_b", "baseline": "cpu_a", "quantity": "speedup", "value": 23}
    call = {"iterations": 20, "baseline_iterations": 34, "whole_call": True}
    found = _compare(bench.result(cells), **entry, **call)
    assert found.measured == pytest.approx((1 + 34 * 0.5) / (2 + 20 * 0.1))
    assert says(found.remark, "setup and 20 iterations", "setup and 34 iterations of cpu_a f32")
    assert _compare(bench.result(cells), **entry).measured == pytest.approx(5.0)


def test_a_bound_may_ask_how_much_next_to_which_way(bench: Bench) -> None:
    cells = [
        make_cell("cpu_a", GRID[0], 1.0, spread=0.001),
        make_cell("openmp_b", GRID[0], 1.5, spread=0.001),
    ]
    test = {"quantity": "extra_seconds", "variant": "openmp_b", "baseline": "cpu_a"}
    slower = test | {"at_least": 0}
    found = judge(bench.result(cells), slower, test | {"at_least": 2, "magnitude": True})
    assert found.kind == PARTLY
    assert says(found.verdict, "slower", "500 ms", "at least 2 s")
    assert judge(bench.result(cells), slower, test | {"at_least": 2}).kind == FAILS
    less = judge(bench.result(cells), slower, test | {"at_least": 0.4, "magnitude": True})
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
        assert says(found.remark, f"{of} of 6 shapes", "cpu_a f32")
        shape = published.shape_text(found.entry)
        assert says(shape, of, "n = 100 or 1 000, d = 2, k = 2 to 32")
    shapes["n"].append(5000)
    found = _compare(result, **entry, shapes=shapes, of="mean")
    assert found.lacking == 3
    assert "3 shapes" in found.remark
    without = _compare(result, **entry, shapes={"n": [7]}, of="mean")
    assert (without.measured, without.remark) == (None, "not part of this run")


def test_a_published_number_says_where_ours_is_a_single_sample(bench: Bench) -> None:
    cells = [make_single("cpu_a", GRID[0], 1.0), make_cell("openmp_b", GRID[0], 0.5)]
    entry = {"variant": "cpu_a", "quantity": "seconds_per_iteration", "value": 1.0}
    assert _compare(bench.result(cells), **entry).interval_text == "one sample"
    speedup = {"variant": "openmp_b", "quantity": "speedup", "value": 2.0, "of": "largest"}
    assert "1 from a single sample" in _compare(bench.result(cells), **speedup).remark


def test_a_published_rate_may_be_that_of_a_stage(bench: Bench) -> None:
    entry = {"variant": "cpu_a", "quantity": "gbytes_per_second", "value": 44.0}
    found = _compare(bench.result([make_staged()]), **entry, stage="assign")
    assert found.measured == pytest.approx(8.0)
    assert "stage assign" in found.remark
    assert _compare(bench.result([make_staged()]), **entry, stage="update").measured is None


def test_a_prior_measurement_is_not_called_published(bench: Bench) -> None:
    result = bench.result([make_cell("cpu_a", GRID[0], 1.0)])
    entry = {"variant": "cpu_a", "quantity": "seconds_per_iteration", "value": 1.5}
    printed, prior = _compare(result, **entry), _compare(result, **entry, prior=True)
    assert published.headings([printed]).value == "published"
    assert published.headings([prior, prior]).value == "prior measurement"
    assert published.headings([printed, prior]).value == "published or prior measurement"
    assert published.label_text(prior, [printed, prior]) == "theirs (prior measurement)"
    assert published.label_text(prior, [prior]) == "theirs"
    assert len(published.about([printed, prior])) == 2


def test_times_next_to_one_another_have_one_unit(bench: Bench) -> None:
    result = bench.result([make_cell("cpu_a", GRID[0], 54.8e-6)])
    found = _compare(result, variant="cpu_a", quantity="seconds_per_iteration", value=0.00137)
    assert (found.published_text, found.measured_text) == ("1.37 ms", "0.0548 ms")
    assert found.interval_text == "0.0543 ms \N{EN DASH} 0.0553 ms"


def test_a_statement_about_several_shapes_shows_our_range(bench: Bench) -> None:
    result = bench.ratios(dict(zip(GRID[:3], (2.0, 9.0, 4.0), strict=True)))
    found = _compare(result, variant="openmp_b", quantity="speedup", value=14)
    assert found.measured is None
    assert found.ratio is None
    assert says(found.measured_text, "2.00x \N{EN DASH} 9.00x")
    assert "3 shapes" in found.remark


def test_published_iterations_need_a_trace_that_ended_by_a_rule(bench: Bench) -> None:
    entry = {"variant": "cpu_a", "quantity": "iterations", "value": 33, "n": 100}
    cells = [make_cell("cpu_a", GRID[0], 1.0)]
    result = bench.result(cells, traces=[make_trace("all", 30, 0.1)])
    assert _compare(result, **entry).measured is None
    stopped = make_trace("early", 22, 0.1, stop="loss:0.1")
    found = _compare(bench.result(cells, traces=[make_trace("all", 30, 0.1), stopped]), **entry)
    assert found.measured == 22
    assert found.interval_text == "\N{EM DASH}"
    assert says(found.remark, "trace early", "loss:0.1")
