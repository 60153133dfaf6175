# SPDX-License-Identifier: Apache-2.0
"""What contradicts itself, is damaged or is not a file is refused with a sentence that names it:
never drawn, never a traceback, never a wait without end."""

from __future__ import annotations

import copy
import json
import os
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import synthetic
from synthetic import Json

from plots import claims, published
from plots.__main__ import EXIT_BAD_INPUT, main
from plots.figures import KINDS
from plots.load import ResultError, load_result
from plots.patterns import fault, matches
from plots.render import draw

pytest.importorskip("jsonschema", reason="results are not checked without it")

COMMITTED = sorted((synthetic.ROOT / "results").glob("*/*.json"))


@pytest.fixture
def data(small_experiment: Json) -> Json:
    return synthetic.result(small_experiment)


# --- Contradictions --------------------------------------------------------------------------


def test_what_contradicts_itself_is_refused_with_the_programs_reason(
    tmp_path: Path, data: Json
) -> None:
    """tests/record/result_file_test.cpp has one of each kind."""
    load_result(synthetic.write(tmp_path, data))  # as it was, it is read
    cell = data["cells"][0]
    cell["seconds_per_iteration"]["median"] /= 1000
    path = synthetic.write(tmp_path, data)
    reason = f"/cells/0/seconds_per_iteration/median: cell {cell['key']}: .* is not the median of"
    with pytest.raises(ResultError, match=reason) as raised:
        load_result(path)
    assert str(path) in str(raised.value)


def test_without_the_program_only_results_on_file_are_drawn(
    tmp_path: Path, data: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KMEANS_BENCH", str(tmp_path / "kmeans-bench"))
    on_file = synthetic.ROOT / "results" / "nvidia-h200" / "frontier.json"
    assert load_result(on_file).cells[0].limit
    with pytest.raises(ResultError, match=r"cannot be run .*`make program` builds it"):
        load_result(synthetic.write(tmp_path, data))


# --- Damage inside of the description --------------------------------------------------------


def _places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    yield path
    items: Any = value.items() if isinstance(value, dict) else ()
    for key, inner in enumerate(value) if isinstance(value, list) else items:
        yield from _places(inner, (*path, key))


_ODD: list[Any] = [None, True, -1, 0, 1e308, "", "x", [], {}, ["x"], {"x": 1}, [[]], 10**30]
_WORDS = ["k", "threads", "f64", "cpu_naive", "mean", "stage_share", "row", "finding", "ceiling"]
_DESCRIBED = ("published", "claims", "figures", "baseline", "scales", "variants", "traces")


def _damage(spec: Json, rng: random.Random) -> tuple:
    """One edit: something is gone, of another type, or another word."""
    part = rng.choice([key for key in _DESCRIBED if key in spec])
    *inner, last = rng.choice(list(_places(spec[part], (part,))))
    parent = spec
    for key in inner:
        parent = parent[key]
    chance = rng.random()
    if chance < 0.2 and inner:
        parent.pop(last)
    elif chance < 0.35 and isinstance(parent[last], str):
        parent[last] = rng.choice([*_WORDS, *KINDS])
    else:
        parent[last] = copy.deepcopy(rng.choice(_ODD))
    return (*inner, last)


def test_damage_inside_spec_is_refused_or_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Edits of committed results, their seeds fixed."""
    monkeypatch.setattr(published, "EXPERIMENTS", tmp_path)  # claims as the file has them
    small = [path for path in COMMITTED if path.stat().st_size < 400_000]
    refused = 0
    for seed in range(40):
        rng = random.Random(seed)
        data = json.loads(rng.choice(small).read_text())
        place = _damage(data["spec"], rng)
        path = tmp_path / f"damaged-{seed}.json"
        path.write_text(json.dumps(data))
        try:
            result = load_result(path)
        except ResultError as error:
            refused += str(path) in str(error)
            continue
        claims.verdicts(result)
        published.comparisons(result)
        for index, figure in enumerate(result.figures):
            if place[:2] == ("figures", index):
                draw(result, figure)
    assert refused > 20  # edits did reach what is checked


@pytest.mark.parametrize(
    "change",
    [
        {"figures": [{"id": "a", "kind": "no-such-kind", "title": "t"}]},
        {"figures": [{"id": "a", "kind": "time", "title": "t", "x": 3}]},
        {"claims": [{"id": "a", "statement": "s", "where": "w", "why": "y", "tests": [3]}]},
        {"published": [{"label": "l"}]},
        {"published": None},
    ],
)
def test_a_damaged_description_ends_with_status_2(
    tmp_path: Path, data: Json, change: Json, capsys: pytest.CaptureFixture[str]
) -> None:
    data["spec"] = data["spec"] | change
    path = synthetic.write(tmp_path, data)
    assert main(["report", str(tmp_path)]) == EXIT_BAD_INPUT
    assert f"error: {path.resolve()}: at /spec/{next(iter(change))}" in capsys.readouterr().err
    assert not (tmp_path / "report.html").exists()


# --- What is not a file -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["fifo", "folder", "device", "dangling"])
def test_what_is_not_a_file_is_refused_at_once(
    tmp_path: Path, data: Json, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    synthetic.write(tmp_path, data)
    odd = tmp_path / "z.json"
    if kind == "fifo":
        os.mkfifo(odd)
    elif kind == "folder":
        odd.mkdir()
    else:
        odd.symlink_to("/dev/zero" if kind == "device" else tmp_path / "nothing")
    assert main(["report", str(tmp_path)]) == EXIT_BAD_INPUT  # else reading would not end
    assert "z.json: " in capsys.readouterr().err


# --- Patterns --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern",
    [
        "(.+)+!",
        "([a-z0-9_/-]+)+!",
        "(.*)*(.*)*(.*)*x!",
        "(a|a)" * 30 + "b",
        "a?" * 40 + "a" * 40,
        "x" * 5000,
        "(" * 20 + ")" * 20 + "*",
        "[",
        ".*.*.*.*.*x",
    ],
)
def test_a_pattern_that_may_never_end_is_refused(tmp_path: Path, data: Json, pattern: str) -> None:
    assert fault(pattern)
    figure = next(f for f in data["spec"]["figures"] if f["kind"] == "trace-time")
    figure["traces"] = [pattern]
    with pytest.raises(ResultError, match=r"/spec/figures/\d+/traces/0: "):
        load_result(synthetic.write(tmp_path, data))


def test_the_slowest_pattern_that_is_taken_ends_soon() -> None:
    # Each takes less than a second; one that takes exponentially long would never end.
    for pattern in (".*.*.*.*x", "a*a*a*a*b", "[^!]+[^!]+[^!]+[^!]+!"):
        assert fault(pattern) is None
        assert not matches(pattern, "a" * 100)  # a name has 100 letters at most


def test_shipped_patterns_work() -> None:
    shipped = [
        pattern
        for experiment in synthetic.experiments()
        for figure in experiment.get("figures", [])
        for pattern in figure.get("traces", [])
    ]
    assert shipped
    assert [pattern for pattern in shipped if fault(pattern)] == []
    assert matches("early-.*", "early-cuda-1000")
    assert not matches("early-.*", "late-early-1")
    assert matches("a(b", "a(b")  # a name is a name


def test_committed_results_are_read() -> None:
    """None of the checks refuses what the suite has written; other tests have the largest."""
    for path in COMMITTED:
        if path.stat().st_size < 1_000_000:
            assert re.fullmatch("[a-z0-9-]+", load_result(path).experiment)


def test_a_refused_file_keeps_no_other_machine_from_being_drawn(
    tmp_path: Path, data: Json, capsys: pytest.CaptureFixture[str]
) -> None:
    synthetic.write(tmp_path / "good", synthetic.result(data["spec"] | {"figures": []}))
    shutil.copytree(tmp_path / "good", tmp_path / "bad")
    os.mkfifo(tmp_path / "bad" / "z.json")
    assert main(["report", str(tmp_path / "good"), str(tmp_path / "bad")]) == EXIT_BAD_INPUT
    assert (tmp_path / "good" / "report.html").is_file()
    assert "is not a regular file" in capsys.readouterr().err
