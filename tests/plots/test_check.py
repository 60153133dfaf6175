# SPDX-License-Identifier: Apache-2.0
"""What an experiment says of its source and its pictures is checked before anything is measured."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import synthetic
from synthetic import Json

from plots import check
from plots.experiment import expanded, name_faults
from plots.load import ROOT, load_result, spec_fault
from tests.support import captured

pytest.importorskip("jsonschema", reason="experiments are not checked without it")

CLAIM = {"id": "c", "statement": "s", "where": "p. 1", "why": "w"}
NUMBER = {"label": "l", "quantity": "speedup", "value": 4, "machine": "m", "where": "p"}


@pytest.fixture
def spec(small_experiment: Json) -> Json:
    """Without the claims, which are about variants that there are not."""
    return small_experiment | {"claims": []}


def _refusal(spec: Json) -> str:
    found = [spec_fault(spec)] if spec_fault(spec) else list(name_faults(spec))
    assert len(found) == 1, found
    return f"{found[0].pointer}: {found[0].reason}"


def test_the_suites_experiments_are_right() -> None:
    files = [p for p in (ROOT / "experiments").glob("*.json") if p.name != "schema.json"]
    assert len(files) > 10
    assert [fault for file in files for fault in check.faults(str(file))] == []


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        ({"kind": "pie"}, "/figures/0/kind: unknown value 'pie'; known: bars, "),
        ({"kind": "heatmpa"}, "/figures/0/kind: unknown value 'heatmpa'; did you mean 'heatmap'?"),
        ({"facet": ["d"]}, "/figures/0/facet: unknown key; did you mean 'facets'?"),
        ({"facets": ["T"]}, "/figures/0/facets/0: unknown value 'T'; known: n, d, k, threads"),
        ({"facets": []}, "/figures/0/facets: the list is empty; give at least one value"),
        ({"x": "m"}, "/figures/0/x: unknown value 'm'; known: n, d, k, threads"),
        ({"where": {"m": [1]}}, "/figures/0/where/m: unknown key; known: "),
        ({"id": "a b"}, "/figures/0/id: 'a b' does not match"),
        ({"title": 3}, "/figures/0/title: 3 must be a string"),
        ({"trace": 5}, "/figures/0/trace: 5 must be a string or a list [...]"),
        ({"trace": "rum"}, "/figures/0/trace: unknown trace 'rum'; did you mean 'run'?"),
        ({"study": ["none"]}, "/figures/0/study: unknown study 'none'; "),
        ({"traces": ["(a+)+"]}, "/figures/0/traces/0: the pattern '(a+)+' repeats a group"),
        ({"baseline": "cpu_nave"}, "/figures/0/baseline: unknown variant 'cpu_nave'; did you mean"),
        ({"scales": ["fast"]}, "/figures/0/scales/0: unknown value 'fast'; known: quick, paper"),
    ],
)
def test_faulty_figures(spec: Json, figure: Json, message: str) -> None:
    good = {"id": "a", "kind": "time", "title": "t", "x": "n"}
    assert spec_fault(spec | {"figures": [good]}) is None
    assert _refusal(spec | {"figures": [good | figure]}).startswith(message)


@pytest.mark.parametrize(
    ("repeats", "message"),
    [
        ("c", "/claims/1/repeats: 'c' does not match"),
        ("small/d", "/claims/1/repeats: unknown claim 'small/d'; "),
        ("none/c", "/claims/1/repeats: unknown claim 'none/c'; no experiment 'none' has claims"),
        ("small/again", "/claims/1/repeats: 'small/again' itself repeats 'small/again'; name that"),
        ("small/mine", "/claims/1/repeats: 'small/mine' is not of the same: source or ours"),
    ],
)
def test_what_a_claim_repeats_is_a_claim(spec: Json, repeats: str, message: str) -> None:
    claim = CLAIM | {"tests": [{"quantity": "speedup", "variant": "cpu_naive", "at_least": 1}]}
    again, mine = (
        claim | {"id": "again", "repeats": "small/c"},
        claim | {"id": "mine", "of": "ours"},
    )
    assert spec["name"] == "small"
    assert spec_fault(spec | {"claims": [claim, again, mine]}) is None
    assert list(name_faults(spec | {"claims": [claim, again, mine]})) == []
    elsewhere = again | {"repeats": "zhihu2023/known-answer"}
    assert list(name_faults(spec | {"claims": [claim, elsewhere, mine]})) == []
    wrong = [claim, again | {"repeats": repeats}, mine]
    assert _refusal(spec | {"claims": wrong}).startswith(message)


def test_faulty_lists_of_figures(spec: Json) -> None:
    good = {"id": "a", "kind": "time", "title": "t"}
    assert _refusal(spec | {"figures": [{"id": "a", "kind": "time"}]}) == (
        "/figures/0: lacks 'title'"
    )
    assert _refusal(spec | {"figures": [good, good]}) == (
        "/figures/1/id: two figures have the id 'a'"
    )


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ({"at_least": None}, "/claims/0/tests/0: lacks one of at_least, at_most, about, up_to"),
        ({"quantity": "speed"}, "/claims/0/tests/0/quantity: unknown value 'speed'; did you mean"),
        ({"study": "none"}, "/claims/0/tests/0/study: unknown study 'none'"),
        ({"variant": "cpu_nave"}, "/claims/0/tests/0/variant: unknown variant 'cpu_nave'; did you"),
        ({"about": 0}, "/claims/0/tests/0/about: 0 is less than or equal to the minimum of 0"),
        ({"quantity": "stage_share"}, "/claims/0/tests/0: lacks 'stage'"),
        ({"quantity": "ceiling"}, "/claims/0/tests/0: lacks 'ceiling'"),
        ({"growth": "T"}, "/claims/0/tests/0/growth: unknown value 'T'; known: n, d, k, threads"),
        ({"of": "most"}, "/claims/0/tests/0/of: "),
        ({"baseline_trace": ["rum"]}, "/claims/0/tests/0/baseline_trace: unknown trace 'rum'"),
        (
            {"baseline_iterations": 3},
            "/claims/0/tests/0/quantity: unknown value 'speedup'; did you mean 'call_speedup'?",
        ),
        ({"stage": 3}, "/claims/0/tests/0/stage: 3 must be a string or a list [...]"),
    ],
)
def test_faulty_claims(spec: Json, test: Json, message: str) -> None:
    good = {"quantity": "speedup", "variant": "cpu_a", "baseline": "openmp_b", "at_least": 1}
    changed = {key: value for key, value in (good | test).items() if value is not None}
    assert spec_fault(spec | {"claims": [CLAIM | {"tests": [good]}]}) is None
    assert _refusal(spec | {"claims": [CLAIM | {"tests": [changed]}]}).startswith(message)


def test_faulty_lists_of_claims(spec: Json) -> None:
    assert _refusal(spec | {"claims": [CLAIM | {"tests": []}]}) == (
        "/claims/0/tests: the list is empty; give at least one value"
    )
    good = CLAIM | {"tests": [{"quantity": "speedup", "at_least": 1}]}
    assert _refusal(spec | {"claims": [good, good]}) == ("/claims/1/id: two claims have the id 'c'")


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ({"of": "largest"}, "/published/0: 'of' needs 'shapes' next to it"),
        ({"quantity": "speeds"}, "/published/0/quantity: unknown value 'speeds'; did you mean"),
        ({"value": "4"}, "/published/0/value: '4' must be a number"),
        ({"baseline": "cpu_nave"}, "/published/0/baseline: unknown variant 'cpu_nave'; did you"),
        ({"shapes": {"T": [1]}}, "/published/0/shapes/T: unknown key; known: "),
    ],
)
def test_faulty_published_numbers(spec: Json, number: Json, message: str) -> None:
    assert spec_fault(spec | {"published": [NUMBER]}) is None
    assert _refusal(spec | {"published": [NUMBER | number]}).startswith(message)


def test_each_fault_is_a_line_for_the_program(
    tmp_path: Path, spec: Json, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which knows the place in the file: tests/faults/test_configuration.py."""
    spec["figures"] = [{"id": "a", "kind": "pie", "title": 'of, {[ and \\ " ü'}]
    file = tmp_path / "small.json"
    file.write_text(json.dumps(spec))
    assert check.main([str(file)]) == check.EXIT_BAD_INPUT
    place, pointer, reason = json.loads(capsys.readouterr().out)
    assert (place, pointer) == (str(file), "/figures/0/kind")
    assert reason.startswith("unknown value 'pie'")


def test_a_new_kind_is_one_file(tmp_path: Path, spec: Json) -> None:
    shutil.copytree(
        ROOT / "plots", tmp_path / "plots", ignore=shutil.ignore_patterns("__pycache__")
    )
    (tmp_path / "experiments").mkdir()
    shutil.copy(ROOT / "experiments" / "schema.json", tmp_path / "experiments")
    shutil.copytree(ROOT / "results", tmp_path / "results", ignore=lambda folder, names: [
        name for name in names if name != "schema.json"
    ])  # fmt: skip
    spec["figures"] = [{"id": "a", "kind": "pie-chart", "title": "t"}]
    file = tmp_path / "small.json"
    file.write_text(json.dumps(spec))
    command = [sys.executable, "-m", "plots.check", str(file)]

    def checked() -> subprocess.CompletedProcess[str]:
        return captured(command, cwd=tmp_path)

    assert checked().returncode == check.EXIT_BAD_INPUT
    (tmp_path / "plots" / "figures" / "pie_chart.py").write_text("")
    run = checked()
    assert run.returncode == check.EXIT_OK, run.stdout + run.stderr


def test_a_result_with_a_faulty_figure_is_refused_in_the_same_words(
    tmp_path: Path, spec: Json
) -> None:
    data = synthetic.result(spec)
    data["spec"] = copy.deepcopy(data["spec"])
    data["spec"]["figures"][0]["kind"] = "pie"
    with pytest.raises(Exception, match=r"at /spec/figures/0/kind: unknown value 'pie'; known:"):
        load_result(synthetic.write(tmp_path, data))


def test_each_stands_for_many() -> None:
    shared = {"kind": "time", "title": "t", "where": {"k": [2]}}
    written = {"figures": [{"each": [{"id": "a"}, {"id": "b", "title": "u"}]} | shared]}
    assert expanded(written)["figures"] == [
        shared | {"id": "a"},
        shared | {"id": "b", "title": "u"},
    ]
