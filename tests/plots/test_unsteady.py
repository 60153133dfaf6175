# SPDX-License-Identifier: Apache-2.0
"""An unsteady cell gives no number, and a trace that is not ok no time."""

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


@pytest.fixture
def data(small_experiment: Json) -> Json:
    return synthetic.result(small_experiment)


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


def test_a_trace_that_is_not_ok_has_no_time(tmp_path: Path, data: Json) -> None:
    trace = next(t for t in data["traces"] if t["runs_seconds"])
    trace |= {"status": "wrong", "reason": "labels differ"}
    result = load_result(synthetic.write(tmp_path, data))
    found = next(t for t in result.traces if t["name"] == trace["name"])
    assert trace_seconds(found) is None
