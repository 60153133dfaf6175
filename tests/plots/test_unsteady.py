# SPDX-License-Identifier: Apache-2.0
"""Both versions of result files give the same records, and an unsteady cell no number."""

from __future__ import annotations

from pathlib import Path

import pytest
import synthetic
from synthetic import Json

from plots.claims import HOLDS, UNTESTED, verdict_of
from plots.figures.winners import _ranked
from plots.load import load_result
from plots.metrics import named, speedup, trace_seconds, whole_call_seconds
from plots.select import reason_of, status_of
from plots.steady import disagreement, headline_median

APART = [[1.0, 1.01], [1.5, 1.5], [2.2, 2.3]]  # seconds: no two of the three processes agree
SPREAD = "samples spread widely: the slowest is 2.30 times the fastest"


@pytest.fixture
def data(small_experiment: Json) -> Json:
    return synthetic.result(small_experiment)


@pytest.mark.parametrize(
    ("medians", "steady"),
    [
        ([1.0], True),  # nothing to disagree with
        ([1.0, 1.29], True),
        ([1.0, 1.31], False),
        ([1.0, 1.2, 9.0], True),  # more than half agree
        ([1.0, 1.5, 2.2], False),
        ([1.0, 1.0, 9.0, 9.0], False),  # two clusters of the same size
        ([1.0, 9.0, 9.0, 9.1], True),
    ],
)
def test_more_than_half_of_the_processes_must_agree(medians: list[float], steady: bool) -> None:
    assert (disagreement([[m, m, m] for m in medians]) is None) == steady


def test_the_sentence_names_the_clusters() -> None:
    text = disagreement([[90e-6], [91e-6], [10e-3], [10.1e-3]])
    assert text == "its processes disagree: 2 processes near 90.5 µs, 2 near 10.0 ms"
    assert headline_median([[1.0], [1.1, 50.0, 1.2], [9.0]]) == 1.2


def test_a_cell_of_version_1_is_unsteady_where_the_rule_of_today_says_so(
    tmp_path: Path, data: Json
) -> None:
    apart, spread, busy = data["cells"][:3]
    synthetic.resample(apart, APART)
    apart["noted"] = [SPREAD, "the host was busy"]
    spread["noted"], busy["noted"] = [SPREAD], ["load average 9"]
    cells = load_result(synthetic.write(tmp_path, synthetic.version_1(data))).cells
    assert cells[0].unsteady == (
        "its processes disagree: 1 process at 1.00 s, 1 at 1.50 s, 1 at 2.25 s",
    )
    assert cells[0].noted == ("the host was busy",)
    assert (cells[1].unsteady, cells[1].noted) == ((), (SPREAD,))
    assert (cells[2].unsteady, cells[2].noted) == ((), ("load average 9",))


def test_both_versions_give_the_same_cells(tmp_path: Path, data: Json) -> None:
    first = load_result(synthetic.write(tmp_path / "1", synthetic.version_1(data)))
    second = load_result(synthetic.write(tmp_path / "2", data))
    assert [c.seconds for c in first.cells] == [c.seconds for c in second.cells]
    for one, other in zip(first.cells, second.cells, strict=True):
        whole = other.data["whole_call_seconds"]
        assert one.data["whole_call_seconds"] == pytest.approx(whole)
        if other.ok:
            assert whole_call_seconds(one, 20) == pytest.approx(whole["20"])


def test_an_unsteady_cell_has_no_number_wins_nothing_and_decides_nothing(
    tmp_path: Path, data: Json
) -> None:
    cell = next(c for c in data["cells"] if c["variant"] == "openmp_b")
    synthetic.resample(cell, [[1e-9], [2e-9], [4e-9]])  # it would win everything
    cell["unsteady"] = ["its processes disagree: 1 process at 1.00 ns, 1 at 2.00 ns, 1 at 4.00 ns"]
    result = load_result(synthetic.write(tmp_path, data))
    own = next(c for c in result.cells if c.key == cell["key"])
    assert (own.ok, own.seconds, whole_call_seconds(own, 1)) == (False, None, None)
    assert (own.measured.low, own.measured.high) == (1e-9, 4e-9)
    assert status_of(own) == "unsteady"
    assert reason_of(own).startswith("its processes disagree")
    here = [c for c in result.cells if c.shape == own.shape]
    assert own not in _ranked(here)
    base = named(here, "cpu_a")[0]
    assert speedup(base, own) is None
    assert speedup(own, base) is None
    test = {"quantity": "speedup", "variant": "openmp_b", "baseline": "cpu_a", "at_least": 1e3}
    place = {"n": [own.n], "d": [own.d], "k": [own.k]}
    claim = {"id": "x", "statement": "s", "where": "w", "why": "y"}
    verdict = verdict_of(result, claim | {"tests": [test | {"where": place}]})
    assert verdict.kind == UNTESTED
    assert "openmp_b f32 unsteady: its processes disagree" in verdict.verdict
    as_baseline = test | {"variant": "cpu_a", "baseline": "openmp_b", "where": place}
    assert verdict_of(result, claim | {"tests": [as_baseline]}).kind == UNTESTED
    right = {"quantity": "status", "variant": "openmp_b", "equals": "ok", "where": place}
    assert verdict_of(result, claim | {"tests": [right]}).kind == HOLDS  # its answer is right


@pytest.mark.parametrize("version", [1, 2])
def test_a_trace_that_is_not_ok_has_no_time(tmp_path: Path, data: Json, version: int) -> None:
    trace = next(t for t in data["traces"] if t["runs_seconds"])
    trace |= {"status": "wrong", "reason": "labels differ"}
    if version == 1:
        data = synthetic.version_1(data)
    result = load_result(synthetic.write(tmp_path, data))
    found = next(t for t in result.traces if t["name"] == trace["name"])
    assert trace_seconds(found) is None
