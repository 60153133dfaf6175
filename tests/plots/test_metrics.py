# SPDX-License-Identifier: Apache-2.0
"""Formulas against numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import synthetic

from plots import words
from plots.load import Result, load_result
from plots.metrics import (
    compulsory_bytes,
    limit_seconds,
    named,
    scaled_rate,
    share_of_limit,
    speedup,
)
from plots.published import comparisons


def _result(folder: Path, experiment: dict[str, Any], **changes: Any) -> Result:
    return load_result(synthetic.write(folder, synthetic.result(experiment, **changes)))


@pytest.fixture
def result(tmp_path: Path, small_experiment: dict[str, Any]) -> Result:
    return _result(tmp_path, small_experiment)


def _cell(result: Result, variant: str, precision: str, n: int, k: int):
    return next(
        c for c in result.cells if (c.variant, c.precision, c.n, c.k) == (variant, precision, n, k)
    )


def test_compulsory_bytes(result: Result) -> None:
    # 100 points x 2 coordinates x 4 bytes, 100 labels x 4, 2 centroids x 2 x 4 read and written.
    assert compulsory_bytes(_cell(result, "cpu_a", "f32", 100, 2)) == 800 + 400 + 32
    assert compulsory_bytes(_cell(result, "cpu_a", "f64", 100, 2)) == 1600 + 400 + 64


def test_the_limit_is_the_larger_bound(tmp_path: Path, small_experiment: dict[str, Any]) -> None:
    ceilings = synthetic.context()["ceilings"]
    slow_memory = synthetic.context(ceilings=ceilings | {"read_gbytes_per_second": 1e-3})
    cell = _cell(_result(tmp_path, small_experiment, context=slow_memory), "cpu_a", "f32", 100, 2)
    result = _result(tmp_path, small_experiment, context=slow_memory)
    seconds, bound = limit_seconds(result, cell)
    assert bound == "bandwidth"
    assert seconds == pytest.approx(1232 / 1e6)
    fast_memory = synthetic.context(ceilings=ceilings | {"read_gbytes_per_second": 1e9})
    result = _result(tmp_path, small_experiment, context=fast_memory)
    seconds, bound = limit_seconds(result, cell)
    assert bound == "arithmetic"
    assert seconds == pytest.approx(2 * 100 * 2 * 2 / 270e9)  # one thread
    assert share_of_limit(result, cell) == pytest.approx(seconds / cell.seconds.mid)


def test_points_that_fit_the_cache_are_held_against_its_bandwidth(
    tmp_path: Path, small_experiment: dict[str, Any]
) -> None:
    context = synthetic.context()
    context["machine"]["cpu"]["caches"] = [{"level": 3, "type": "unified", "bytes": 32_000_000}]
    context["ceilings"] |= {"fma_gflops": None}
    result = _result(tmp_path, small_experiment, context=context)
    seconds, _ = limit_seconds(result, _cell(result, "cpu_a", "f32", 100, 2))
    assert seconds == pytest.approx(1232 / 230e9)


def test_without_ceilings_there_is_no_limit(
    tmp_path: Path, small_experiment: dict[str, Any]
) -> None:
    nothing = dict.fromkeys(synthetic.context()["ceilings"])
    result = _result(tmp_path, small_experiment, context=synthetic.context(ceilings=nothing))
    assert limit_seconds(result, result.cells[0]) is None
    assert share_of_limit(result, result.cells[0]) is None


def test_a_speedup_is_a_ratio_of_medians_with_a_wide_interval(result: Result) -> None:
    base = _cell(result, "cpu_a", "f32", 100, 2)
    other = _cell(result, "openmp_b", "f32", 100, 2)
    ratio = speedup(base, other)
    assert ratio.mid == base.seconds.mid / other.seconds.mid
    assert ratio.low == base.seconds.low / other.seconds.high
    assert ratio.high == base.seconds.high / other.seconds.low


def test_a_failed_cell_has_no_rate_and_no_speedup(
    tmp_path: Path, small_experiment: dict[str, Any]
) -> None:
    data = synthetic.result(small_experiment)
    synthetic.fail(data["cells"][7])
    result = load_result(synthetic.write(tmp_path, data))
    failed = next(c for c in result.cells if not c.ok)
    assert scaled_rate(failed, 5.0) is None
    assert speedup(result.cells[0], failed) is None
    assert speedup(failed, result.cells[0]) is None


def test_a_variant_named_without_precision_is_its_f32_one(result: Result) -> None:
    assert {c.precision for c in named(result.cells, "cpu_a")} == {"f32"}
    wanted = {"variant": "cpu_a", "precision": "f64"}
    assert {c.precision for c in named(result.cells, wanted)} == {"f64"}
    assert named(result.cells, "absent") == []


def test_published_totals_meet_the_same_number_of_iterations(result: Result) -> None:
    total, gpu, inertia = comparisons(result)
    cell = _cell(result, "cpu_a", "f32", 100, 2)
    assert total.measured == pytest.approx(300 * cell.seconds.mid)
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
    assert words.percent(0.0) == "0 %"
    assert words.percent(3e-5) == "0.0030 %"
    assert words.listed(["a", "b", "c"]) == "a, b and c"
    assert words.listed(list("abcd"), limit=2) == "a, b and 2 more"
    assert words.digits(999.6) == "1 000"
