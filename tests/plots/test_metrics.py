# SPDX-License-Identifier: Apache-2.0
"""Formulas against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import synthetic
from synthetic import Json

from plots import words
from plots.load import Cell, Interval, Result, load_result, median_interval
from plots.metrics import (
    baseline_of,
    ceiling_at,
    compulsory_bytes,
    named,
    operations,
    scaled_rate,
    speedup,
    stage_on_gpu,
    stage_profiles,
    stage_rate,
    stage_seconds,
    stage_share,
    trace_runs,
    trace_seconds,
)
from plots.published import comparisons
from plots.select import NothingToDraw


def _result(folder: Path, experiment: Json, **changes: Any) -> Result:
    return load_result(synthetic.write(folder, synthetic.result(experiment, **changes)))


@pytest.fixture
def result(tmp_path: Path, small_experiment: Json) -> Result:
    return _result(tmp_path, small_experiment)


def _cell(result: Result, variant: str, precision: str, n: int, k: int):
    return next(
        c for c in result.cells if (c.variant, c.precision, c.n, c.k) == (variant, precision, n, k)
    )


def test_compulsory_bytes(result: Result) -> None:
    # 100 points x 2 coordinates x 4 bytes, 100 labels x 4, 2 centroids x 2 x 4 read and written.
    assert compulsory_bytes(_cell(result, "cpu_a", "f32", 100, 2)) == 800 + 400 + 32
    assert compulsory_bytes(_cell(result, "cpu_a", "f64", 100, 2)) == 1600 + 400 + 64


def test_operations_are_those_of_the_model(result: Result) -> None:
    # 100 points, 5 centroids, d = 2: 8 a pair, then each coordinate of points and centroids.
    assert operations(_cell(result, "cpu_a", "f32", 100, 5)) == 100 * 5 * 8 + 2 * (100 + 5)


def test_a_figure_may_name_its_own_baseline(result: Result) -> None:
    assert baseline_of(result, {}) == {"variant": "cpu_a", "precision": "f32"}
    assert baseline_of(result, {"baseline": "openmp_b"}) == "openmp_b"
    with pytest.raises(NothingToDraw, match="names a baseline"):
        baseline_of(replace(result, spec={}), {})


def test_the_limit_is_the_programs(tmp_path: Path, small_experiment: Json) -> None:
    """Its rules: tests/record/limit_test.cpp. Here, that each cell has its own."""
    result = _result(tmp_path, small_experiment)
    cell = _cell(result, "cpu_a", "f32", 1000, 5)
    seconds = compulsory_bytes(cell) / 72e9
    assert cell.limit == (pytest.approx(seconds), "bandwidth")
    assert cell.share_of_limit == pytest.approx(seconds / cell.seconds.mid)
    assert (cell.answer, cell.rates["cpu"]) == ("certified", [72.0, 270.0])
    nothing = dict.fromkeys(synthetic.context()["ceilings"])
    result = _result(tmp_path, small_experiment, context=synthetic.context(ceilings=nothing))
    assert {(c.limit, c.share_of_limit) for c in result.cells} == {(None, None)}
    assert result.cells[0].rates["cpu"] == [None, None]


def test_a_speedup_is_a_ratio_of_medians_with_a_wide_interval(result: Result) -> None:
    base = _cell(result, "cpu_a", "f32", 100, 2)
    other = _cell(result, "openmp_b", "f32", 100, 2)
    ratio = speedup(base, other)
    assert ratio.mid == base.seconds.mid / other.seconds.mid
    assert ratio.low == base.seconds.low / other.seconds.high
    assert ratio.high == base.seconds.high / other.seconds.low


def test_a_failed_cell_has_no_rate_and_no_speedup(tmp_path: Path, small_experiment: Json) -> None:
    data = synthetic.result(small_experiment)
    synthetic.fail(data["cells"][7])
    result = load_result(synthetic.write(tmp_path, data))
    failed = next(c for c in result.cells if not c.ok)
    assert scaled_rate(failed, 5.0) is None
    assert speedup(result.cells[0], failed) is None
    assert speedup(failed, result.cells[0]) is None


def test_an_interval_of_a_median_is_that_of_the_harness() -> None:
    """Ranks of the tightest pair of order statistics with 95 %, from binomial tables."""
    for count, low, high in ((6, 1, 6), (8, 1, 8), (9, 2, 8), (12, 3, 10), (20, 6, 15)):
        found = median_interval([float(value) for value in range(count, 0, -1)])
        assert (found.low, found.high, found.confident) == (low, high, True), count
        assert found.mid == (count + 1) / 2
    for count in (500, 501, 700):  # more than the ranks are known of: the last one holds as well
        found = median_interval([float(value) for value in range(1, count + 1)])
        assert (found.low, found.high) == (228, count - 227), count
    for count in (1, 2, 5):
        found = median_interval([float(value) for value in range(count, 0, -1)])
        assert (found.low, found.high, found.confident) == (1, count, False)


def _profiled(result: Result, **changes: Any) -> Cell:
    cell = _cell(result, "cpu_a", "f32", 100, 2)
    return replace(cell, data=cell.data | changes)


def test_a_share_of_stages_is_formed_for_each_process(result: Result) -> None:
    samples = {"assign": [3.0, 1.0, 1.0], "update": [1.0, 1.0, 3.0]}
    cell = _profiled(result, stage_samples_seconds_per_iteration=samples)
    assert stage_share(cell, "assign") == Interval(0.5, 0.25, 0.75, False)
    assert stage_share(cell, ["assign", "update"]) == Interval(1.0, 1.0, 1.0, False)
    assert stage_share(cell, ["assign", "sort"]) is None
    assert stage_seconds(cell, "assign") == Interval(1.0, 1.0, 3.0, False)
    assert stage_seconds(cell, ["assign", "sort"]) == stage_seconds(cell, "assign")
    assert stage_seconds(cell, "sort") is None
    assert len(stage_profiles(cell)) == 3


def test_stages_of_files_of_earlier_versions_are_of_one_process(result: Result) -> None:
    cell = _profiled(result, stages={"assign": 3.0, "update": 1.0})
    del cell.data["stage_samples_seconds_per_iteration"]
    assert len(stage_profiles(cell)) == 1
    assert stage_share(cell, "assign") == Interval(0.75, 0.75, 0.75, False)
    # A stage that not every process marked cannot be paired with the others.
    uneven = {"assign": [3.0, 3.0], "update": [1.0]}
    cell = _profiled(result, stages={"assign": 3.0}, stage_samples_seconds_per_iteration=uneven)
    assert stage_profiles(cell) == [{"assign": 3.0}]


def test_a_stage_without_declared_work_has_no_rate(result: Result) -> None:
    samples = {"assign": [1.0, 2.0, 4.0], "update": [1.0, 1.0, 1.0]}
    one = {"operations": 6e9, "bytes_as_written": 2e9, "gpu": False}
    cell = _profiled(
        result, stage_samples_seconds_per_iteration=samples, stage_work={"assign": one}
    )
    assert stage_rate(cell, "assign", "operations") == Interval(3.0, 1.5, 6.0, False)
    assert stage_rate(cell, "assign", "bytes_as_written") == Interval(1.0, 0.5, 2.0, False)
    assert stage_rate(cell, "update", "operations") is None
    assert stage_rate(cell, ["assign", "update"], "operations") is None
    assert stage_on_gpu(cell, "assign") is False
    assert stage_on_gpu(cell, "update") is None
    both = {"assign": one, "update": one | {"gpu": True}}
    cell = _profiled(result, stage_samples_seconds_per_iteration=samples, stage_work=both)
    # Per process 2, 3 and 5 seconds for twice 6 G operations.
    assert stage_rate(cell, ["assign", "update"], "operations") == Interval(4.0, 2.4, 6.0, False)
    assert stage_on_gpu(cell, ["assign", "update"]) is None


def test_the_time_of_a_trace_is_that_of_its_whole_runs() -> None:
    trace = {"iterations": [{}] * 5, "seconds_per_iteration": 0.3, "runs_seconds": None}
    trace |= {"status": "ok"}
    assert trace_runs(trace) == [1.5]  # recorded while it was cold
    assert trace_seconds(trace) == Interval(1.5, 1.5, 1.5, False)
    again = trace | {"runs_seconds": [[1.0, 1.2], [1.1, 1.4], [1.3, 1.05]]}
    assert trace_seconds(again) == Interval(pytest.approx(1.15), 1.0, 1.4, True)
    assert trace_seconds({"iterations": [], "seconds_per_iteration": None}) is None
    assert trace_seconds(again | {"status": "wrong"}) is None  # as older files timed them


def test_limits_are_found_by_their_path(result: Result) -> None:
    assert ceiling_at(result, "read_gbytes_per_second") == 72.0
    assert ceiling_at(result, "fma_gflops.f32_one_thread") == 270.0
    for absent in (
        "fma_gflops",
        "fma_gflops.f16",
        "gpu.read_gbytes_per_second",
        "gemm_gflops.library",
    ):
        assert ceiling_at(result, absent) is None


def test_a_variant_named_without_precision_is_its_f32_one(result: Result) -> None:
    assert {c.precision for c in named(result.cells, "cpu_a")} == {"f32"}
    wanted = {"variant": "cpu_a", "precision": "f64"}
    assert {c.precision for c in named(result.cells, wanted)} == {"f64"}
    assert named(result.cells, "absent") == []


def test_published_totals_meet_the_same_number_of_iterations(result: Result) -> None:
    total, gpu, inertia = comparisons(result)
    cell = _cell(result, "cpu_a", "f32", 100, 2)
    assert total.measured == pytest.approx(10 * cell.seconds.mid)
    assert total.ratio == pytest.approx(2.5 / total.measured)
    assert gpu.measured is None
    assert gpu.measured_text == words.NONE
    assert inertia.measured == 5.0


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "500 ms"), (1.5e-3, "1.50 ms"), (3.2e-7, "320 ns"), (12.34, "12.3 s"), (None, "\u2014")],
)
def test_seconds_are_written_with_their_unit(value: float | None, text: str) -> None:
    assert words.seconds(value) == text


def test_small_words() -> None:
    assert words.count(1_000_000) == "1 000 000"
    assert words.short_count(50_000) == "50k"
    assert words.short_count(1024) == "1024"
    assert words.rounded_count(8192) == "8192"
    assert words.rounded_count(65_536) == "65536"
    assert words.rounded_count(1_048_576) == "1.05M"
    assert words.rounded_count(262_144) == "262k"
    assert words.rounded_count(500_000) == "500k"
    assert words.percent(0.0) == "0 %"
    assert words.percent(3e-5) == "0.0030 %"
    assert words.listed(["a", "b", "c"]) == "a, b and c"
    assert words.listed(list("abcd"), limit=2) == "a, b and 2 more"
    assert words.digits(999.6) == "1 000"
