# SPDX-License-Identifier: Apache-2.0
"""Every quantity and every verdict, on numbers that are set by the test."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import synthetic

from plots import claims, published
from plots.claims import FAILS, HOLDS, PARTLY, UNTESTED, Verdict, verdict_of, verdicts, where
from plots.load import Result, load_result
from plots.words import TIMES

GRID = [(n, d, k) for n in (100, 1000) for d in (2, 20) for k in (2, 8, 32)]


def _cell(
    variant: str,
    shape: tuple[int, int, int],
    seconds: float,
    spread: float = 0.01,
    **changes: Any,
) -> dict[str, Any]:
    cell = synthetic.cell("small", variant, "f32", shape, 10)
    cell["seconds_per_iteration"] = {
        "median": seconds,
        "ci95_low": seconds * (1 - spread),
        "ci95_high": seconds * (1 + spread),
        "min": seconds * (1 - spread),
        "max": seconds * (1 + spread),
        "p25": seconds,
        "p75": seconds,
        "mean": seconds,
    }
    return cell | {"gflops": 1.0 / seconds} | changes


def _skipped(variant: str, shape: tuple[int, int, int], reason: str) -> dict[str, Any]:
    return synthetic.cell("small", variant, "f32", shape, 10, status="skipped", reason=reason)


class Bench:
    """Result files made of the test's own cells."""

    def __init__(self, folder: Path, experiment: dict[str, Any]) -> None:
        self.folder, self.experiment = folder, experiment

    def result(self, cells: list[dict[str, Any]], **changes: Any) -> Result:
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
def bench(tmp_path: Path, small_experiment: dict[str, Any]) -> Bench:
    return Bench(tmp_path, small_experiment)


def _judge(result: Result, *tests: dict[str, Any], **claim: Any) -> Verdict:
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
        ("largest", 8.9, HOLDS),
        ("largest", 9.1, FAILS),
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


def test_a_bound_inside_of_the_interval_is_told(bench: Bench) -> None:
    result = bench.ratios({GRID[0]: 4.1}, spread=0.05)
    verdict = _judge(result, FASTER | {"at_least": 4})
    assert (verdict.kind, verdict.verdict) == (HOLDS, "holds, within the interval")
    assert "4.10x (3.71x to 4.53x)" in verdict.measured
    verdict = _judge(result, FASTER | {"at_least": 4.2})
    assert (verdict.kind, verdict.verdict) == (FAILS, "does not hold, within the interval")
    assert _judge(result, FASTER | {"at_least": 5}).verdict == "does not hold"
    result = bench.ratios({GRID[0]: 9.0, GRID[1]: 4.1, GRID[2]: 3.9}, spread=0.05)
    verdict = _judge(result, FASTER | {"at_least": 4})
    assert verdict.verdict == "holds here only for k = 2, 8; elsewhere within the interval"
    assert "at 2 of them the bound is within the interval" in verdict.measured


def test_smallest_and_largest_are_no_interval(bench: Bench) -> None:
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
    verdict = _judge(result, total | {"iterations": 300, "at_most": 151, "at_least": 149})
    assert verdict.kind == HOLDS
    assert "time for 300 iterations of cpu_a: 150 s" in verdict.measured
    extra = {"quantity": "extra_seconds", "variant": "cpu_a", "baseline": "openmp_b"}
    assert _judge(result, extra | {"at_least": 0.29, "at_most": 0.31}).kind == HOLDS
    verdict = _judge(result, extra | {"iterations": 10, "at_least": 2.9, "at_most": 3.1})
    assert verdict.kind == HOLDS
    # 10 (0.5 - 0.2), each within 1 %
    assert "3.00 s (2.93 s to 3.07 s)" in verdict.measured


def test_rates_and_shares(bench: Bench) -> None:
    rates = {"compulsory": 1.0, "as_written": 8.0}
    stages = {"assign": 0.3, "update": 0.1}
    cells = [_cell("cpu_a", (100, 2, 8), 0.5, gbytes_per_second=rates, stages=stages)]
    result = bench.result(cells)
    for quantity, low, high in (
        ("gflops", 1.9, 2.1),
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
    # A stage that takes no time is no gap, a variant without stages is one.
    assert _judge(result, share | {"stage": "upload", "at_most": 0}).kind == HOLDS
    result = bench.result([_cell("cpu_a", GRID[0], 0.5, stages={})])
    assert _judge(result, share | {"at_most": 0.3}).kind == UNTESTED


def test_a_rate_that_is_not_known_is_not_tested(bench: Bench) -> None:
    rates = {"compulsory": 1.0, "as_written": None}
    result = bench.result([_cell("cpu_a", GRID[0], 0.5, gbytes_per_second=rates)])
    test = {"quantity": "gbytes_per_second", "variant": "cpu_a", "at_least": 0.1}
    assert "no traffic as written is known of it" in _judge(result, test).verdict


def test_the_status_of_a_variant(bench: Bench) -> None:
    def cells(status: str) -> list[dict[str, Any]]:
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
    assert _judge(result, FASTER | {"rising": "n"}).kind == FAILS  # flat is not rising
    mixed = bench.ratios({s: float(s[2] if s[1] == 2 else 1 / s[2]) for s in GRID})
    verdict = _judge(mixed, FASTER | {"rising": "k"})
    assert (verdict.kind, verdict.verdict) == (PARTLY, "holds here only for d = 2")
    assert "on 2 of 4 lines" in verdict.measured
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


def _trace(name: str, steps: int, seconds: float, **changes: Any) -> dict[str, Any]:
    wanted = {"name": name, "variant": "cpu_a", "n": 100, "d": 2, "k": 3, "iterations": steps}
    trace = synthetic.trace(wanted, {}, "random:1")
    return trace | {"seconds_per_iteration": seconds} | changes


def test_traces(bench: Bench) -> None:
    traces = [_trace("slow", 30, 0.2), _trace("fast", 20, 0.1), _trace("off", 5, 0.1)]
    traces[2] |= {"status": "wrong", "reason": "inertia differs"}
    result = bench.result([_cell("cpu_a", GRID[0], 1.0)], traces=traces)
    steps = {"quantity": "trace_iterations", "trace": "slow"}
    assert _judge(result, steps | {"at_least": 30, "at_most": 30}).kind == HOLDS
    assert _judge(result, steps | {"at_most": 29}).kind == FAILS
    total = {"quantity": "trace_seconds", "trace": "slow"}
    assert _judge(result, total | {"at_least": 5.9, "at_most": 6.1}).kind == HOLDS
    ratio = {"quantity": "trace_speedup", "trace": "fast", "baseline_trace": "slow"}
    verdict = _judge(result, ratio | {"at_least": 2.9, "at_most": 3.1})
    assert verdict.kind == HOLDS
    assert "speed-up of fast over slow: 3.00x" in verdict.measured
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
    assert _judge(result, test | {"at_least": 5.4, "at_most": 5.6, "of": "mean"}).kind == HOLDS
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
    cells[1]["key"] += "/long"
    verdict = _judge(bench.result(cells), FASTER | {"at_least": 1.9, "at_most": 2.1})
    assert verdict.kind == HOLDS


def test_verdicts_come_from_the_result_or_from_the_experiment_of_today(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = {"id": "a", "statement": "s", "where": "w", "tests": [FASTER | {"at_least": 1}]}
    bench.experiment["claims"] = [claim]
    result = bench.ratios({GRID[0]: 5.0})
    found = verdicts(result)
    assert [v.claim["id"] for v in found] == ["a"]
    assert claims.tally(found) == {HOLDS: 1, FAILS: 0, PARTLY: 0, UNTESTED: 0}
    assert claims.tally_text(claims.tally(found)) == (
        "1 claim: 1 holds, 0 do not, 0 in part, 0 not tested here"
    )
    folder = tmp_path / "experiments"
    folder.mkdir()
    today = {"name": "small", "claims": [claim | {"id": "b"}]}
    (folder / "small.json").write_text(json.dumps(today))
    monkeypatch.setattr(published, "EXPERIMENTS", folder)
    assert [v.claim["id"] for v in verdicts(result)] == ["b"]
    monkeypatch.undo()
    old = replace(result, spec={"name": "small", "title": "t"})
    assert verdicts(old) == []


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
    def places(shapes: list[tuple[int, int, int]]) -> list[dict[str, Any]]:
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


# --- Published beside measured ---------------------------------------------------------------


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


def test_a_published_total_carries_the_interval_of_its_iterations(bench: Bench) -> None:
    result = bench.result([_cell("cpu_a", GRID[0], 0.5)])
    found = _compare(result, variant="cpu_a", quantity="total_seconds", value=75, iterations=300)
    assert found.measured == pytest.approx(150)
    assert found.interval_text == "148 s \N{EN DASH} 152 s"
    assert found.ratio == pytest.approx(0.5)


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
    assert "trace early, until loss:0.1" in found.remark
