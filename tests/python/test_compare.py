# SPDX-License-Identifier: Apache-2.0
"""`kmeans-bench compare` end to end, on a real result whose times are replaced by known ones."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("KMEANS_BENCH", "")
VARIANTS = ["cpu_naive", "cpu_simd", "reference"]
PROCESSES = 6

sys.path.insert(0, str(ROOT / "tools"))
import selftest_summary  # noqa: E402

needs_program = pytest.mark.skipif(not PROGRAM, reason="KMEANS_BENCH names no program")


def run(*arguments: str | Path, status: int = 0, **variables: str) -> tuple[str, str]:
    """Standard output and standard error of the program."""
    done = subprocess.run(
        [PROGRAM, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout, done.stderr


def set_times(cell: dict, seconds: float) -> None:
    """Steady times around `seconds`, in six processes of two repetitions."""
    samples = [
        [seconds * (1 + 0.001 * p), seconds * (1.0005 + 0.001 * p)] for p in range(PROCESSES)
    ]
    median = statistics.median(statistics.median(process) for process in samples)
    cell["samples_seconds_per_iteration"] = samples
    cell["pace"] = None
    cell["seconds_per_iteration"] = {"median": median}
    cell |= {"processes": PROCESSES, "repetitions": 2, "stages": {}}
    for derived in ("gflops", "gflops_2nkd", "gbytes_per_second", "whole_call_seconds"):
        cell.pop(derived, None)
    cell["unsteady"] = []
    cell["noted"] = []


def cell_of(result: dict, variant: str) -> dict:
    return next(cell for cell in result["cells"] if cell["variant"] == variant)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """A small experiment, really run."""
    folder = tmp_path_factory.mktemp("measured")
    experiment = {
        "name": "small",
        "title": "small",
        "data": {"generator": "gaussian", "seed": 1},
        "init": "random:1",
        "variants": VARIANTS,
        "scales": {
            "quick": {
                "sweep": [{"n": 300, "d": 4, "k": 3}],
                "iterations": 2,
                "processes": 1,
                "repetitions": 2,
                "min_seconds": 0,
            }
        },
    }
    (folder / "small.json").write_text(json.dumps(experiment), encoding="utf-8")
    run("run", folder / "small.json", "--out", folder / "out")
    result = json.loads((folder / "out" / "small.json").read_text(encoding="utf-8"))
    for cell in result["cells"]:
        set_times(cell, 0.010)
    # Whatever build and machine this test runs on, the two sides shall differ in nothing.
    result["context"]["suite"] |= {"git_dirty": False, "build_type": "Release", "sanitizers": ""}
    result["context"]["environment"]["warnings"] = []
    result["context"]["conditions"] = []
    return result


class Pair:
    """Folders of two results, the second one changed."""

    def __init__(self, folder: Path, measured: dict) -> None:
        self.base, self.new = folder / "a", folder / "b"
        self.measured = measured
        self.write(self.base, measured)
        self.write(self.new, measured)

    @staticmethod
    def write(folder: Path, result: dict) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "small.json").write_text(json.dumps(result), encoding="utf-8")

    def change(self, how: Callable[[dict], object]) -> None:
        result = copy.deepcopy(self.measured)
        how(result)
        self.write(self.new, result)

    def compare(self, *options: str | Path, status: int = 0) -> tuple[str, str]:
        return run("compare", self.base, self.new, *options, status=status)


@pytest.fixture
def pair(tmp_path: Path, measured: dict) -> Pair:
    return Pair(tmp_path, measured)


@needs_program
def test_equal_results_are_the_same_everywhere(pair: Pair, tmp_path: Path) -> None:
    json_file, markdown = tmp_path / "c.json", tmp_path / "c.md"
    out, _ = pair.compare("--gate", "--json", json_file, "--markdown", markdown)
    assert "3 cells timed on both sides: 0 slower, 0 faster, 0 unclear, 3 same" in out
    comparison = json.loads(json_file.read_text(encoding="utf-8"))
    assert comparison["comparison_version"] == 2
    assert [cell["ratio"] for cell in comparison["cells"]] == [1, 1, 1]
    nothing = {"reasons": [], "undecided": [], "notes": []}
    assert comparison["gate"] == {"outcome": "passed"} | nothing
    assert comparison["differences"] == []
    assert "gate passed" in markdown.read_text(encoding="utf-8")


@needs_program
def test_a_slower_cell_fails_the_gate_alone(pair: Pair) -> None:
    pair.change(lambda result: set_times(cell_of(result, "cpu_simd"), 0.011))
    out, _ = pair.compare("--gate", status=1)
    assert "1.100" in out
    assert "Gate: failed: 1 cell is slower" in out
    pair.compare()  # without the gate a difference is not a failure
    pair.compare("--gate", "--effect", "15%")
    pair.compare("--gate", "--only", "cpu_naive")
    pair.change(lambda result: set_times(cell_of(result, "cpu_simd"), 0.008))
    assert "faster" in pair.compare("--gate")[0]


@needs_program
def test_a_doubtful_slower_cell_is_undecided_and_ci_chooses(pair: Pair) -> None:
    def change(result: dict) -> None:
        set_times(cell_of(result, "cpu_simd"), 0.012)
        cell_of(result, "cpu_simd")["noted"] = ["the machine was busy"]

    pair.change(change)
    out, _ = pair.compare("--gate", status=6)
    assert "slower *" in out
    assert "Gate: undecided: 1 cell is slower by a doubtful measurement" in out
    for choice, status in (("pass", 0), ("fail", 1)):
        out, _ = pair.compare("--gate", "--undecided", choice, status=status)
        assert "Gate: undecided" in out
    out, _ = pair.compare("--markdown", "-", "--gate", status=6)
    assert out.startswith("## k-means comparison: gate undecided\n")
    pair.compare()  # without the gate it is no matter of the exit status


@needs_program
def test_other_labels_of_an_exact_variant_fail_the_gate(pair: Pair) -> None:
    other = "0123456789abcdef"
    pair.change(lambda result: cell_of(result, "reference").update(label_hash=other))
    out, _ = pair.compare("--gate", status=1)
    assert out.index("REGRESSION") < out.index("cells timed on both sides")
    pair.change(lambda result: cell_of(result, "cpu_simd").update(label_hash=other))
    assert "both certified" in pair.compare("--gate")[0]


@needs_program
def test_a_missing_cell_fails_the_gate_unless_allowed(pair: Pair) -> None:
    def change(result: dict) -> None:
        result["cells"].remove(cell_of(result, "cpu_simd"))
        result["planned_cells"] -= 1

    pair.change(change)
    out, _ = pair.compare("--gate", status=1)
    assert "cpu_simd/f32/gaussian-300x4-s1/k3/T2/t1: not in new" in out
    pair.compare("--gate", "--allow-missing")


@needs_program
def test_other_hardware_is_refused_unless_wanted(pair: Pair) -> None:
    pair.change(lambda result: result["context"]["machine"]["cpu"].update(model="Another CPU"))
    _, error = pair.compare(status=2)
    assert "Another CPU" in error
    assert "--cross-hardware" in error
    pair.compare("--cross-hardware", "--gate")


@needs_program
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--effect", "much"], "give a share such as 5%"),
        (["--effect", "0"], "above 0"),
        (["--effect", "nan"], "give a share"),
        (["--only", "("], "not a regular expression"),
        (["--only", "nowhere"], "matches no cell"),
        (["--markdown-limit", "1"], "--markdown-limit"),
    ],
)
def test_a_bad_option_is_refused(pair: Pair, options: list[str], says: str) -> None:
    assert says in pair.compare(*options, status=2)[1]


@needs_program
def test_a_damaged_file_is_refused_with_its_place(pair: Pair) -> None:
    pair.change(lambda result: result.update(schema_version=7))
    assert "schema version 7, this program reads versions 1 to 2" in pair.compare(status=2)[1]
    (pair.new / "small.json").write_text("{", encoding="utf-8")
    assert "small.json:1:" in pair.compare(status=2)[1]
    shutil.rmtree(pair.new)
    assert "no such file or folder" in pair.compare(status=2)[1]


@needs_program
def test_what_cannot_be_written_is_said(pair: Pair, tmp_path: Path) -> None:
    pair.compare("--json", tmp_path / "absent" / "c.json", status=5)
    pair.compare("--markdown", tmp_path / "absent" / "c.md", status=5)


@needs_program
def test_markdown_goes_to_standard_output_alone(pair: Pair) -> None:
    pair.change(lambda result: set_times(cell_of(result, "cpu_simd"), 0.011))
    out, _ = pair.compare("--markdown", "-", "--gate", status=1)
    assert out.startswith("## k-means comparison: gate failed\n")
    row = next(line for line in out.splitlines() if line.startswith("| slower"))
    assert row.count("|") == 10
    assert "cpu\\_simd" in row


@needs_program
def test_json_goes_to_standard_output_alone(pair: Pair) -> None:
    pair.change(lambda result: set_times(cell_of(result, "cpu_simd"), 0.011))
    out, _ = pair.compare("--json", "-", "--gate", status=1)
    assert json.loads(out)["counts"]["slower"] == 1
    assert "go to standard output" in pair.compare("--json", "-", "--markdown", "-", status=2)[1]
    assert not Path("-").exists()


@needs_program
def test_more_processes_get_more_time(tmp_path: Path) -> None:
    """Without it the budget would drop those that were asked for."""
    experiment = {
        "name": "budget",
        "title": "budget",
        "data": {"generator": "gaussian", "seed": 1},
        "init": "random:1",
        "variants": ["cpu_naive"],
        "scales": {
            "quick": {
                "sweep": [{"n": 300, "d": 4, "k": 3}],
                "iterations": 2,
                "processes": 2,
                "repetitions": 1,
                "min_seconds": 0.25,
                "max_seconds": 1,
            }
        },
    }
    (tmp_path / "budget.json").write_text(json.dumps(experiment), encoding="utf-8")

    def measured_cell(*options: str) -> dict:
        run("run", tmp_path / "budget.json", "--out", tmp_path / "out", *options)
        text = (tmp_path / "out" / "budget.json").read_text(encoding="utf-8")
        return json.loads(text)["cells"][0]

    cell = measured_cell("--processes", "8")
    assert len(cell["samples_seconds_per_iteration"]) >= 8  # more where they disagree
    assert cell["stopping"] != "time budget"
    cell = measured_cell("--processes", "8", "--max-seconds", "1")
    assert len(cell["samples_seconds_per_iteration"]) < 8
    assert cell["stopping"] == "time budget"
    # What a run will take, said beforehand, knows how long the processes may wait.
    plain, _ = run("run", tmp_path / "budget.json", "--dry-run", "--processes", "8")
    assert "patience" not in plain
    out, _ = run(
        "run", tmp_path / "budget.json", "--dry-run", "--processes", "8", "--patience", "60"
    )
    assert "up to 8 min 0 s more for patience" in out


@needs_program
def test_folders_of_one_name_are_told_apart(pair: Pair, tmp_path: Path) -> None:
    sides = []
    for parent, folder in (("monday", pair.base), ("tuesday", pair.new)):
        sides.append(tmp_path / parent / "results")
        shutil.copytree(folder, sides[-1])
    out, _ = run("compare", *sides)
    assert "base  monday/results: " in out
    assert "new   tuesday/results: " in out
    assert str(tmp_path) not in out


@needs_program
def test_single_files_compare_like_folders(pair: Pair) -> None:
    out, _ = run("compare", pair.base / "small.json", pair.new / "small.json")
    assert "3 cells timed on both sides" in out


@needs_program
def test_a_planted_slowdown_is_measured_and_stays_on_file(tmp_path: Path) -> None:
    experiment = ROOT / "experiments" / "selftest" / "calibration.json"
    results = {}
    for name, variables in (("plain", {}), ("slower", {"KMEANS_BENCH_PLANT_SLOWDOWN": "9"})):
        options = ["--only", "cpu_naive/f32/gaussian-1000x8-s1/k8/", "--processes", "2"]
        run("run", experiment, "--out", tmp_path / name, *options, **variables)
        file = tmp_path / name / "calibration.json"
        results[name] = json.loads(file.read_text(encoding="utf-8"))
    seconds = {n: r["cells"][0]["seconds_per_iteration"]["min"] for n, r in results.items()}
    # Ten times as long; what is left below leaves room for a busy machine.
    assert seconds["slower"] > 4 * seconds["plain"]
    environment = results["slower"]["context"]["environment"]
    assert environment["variables"]["KMEANS_BENCH_PLANT_SLOWDOWN"] == "9"
    assert any("on purpose" in warning for warning in environment["warnings"])
    assert results["slower"]["cells"][0]["library"]["planted slowdown"] == "9"
    assert "planted slowdown" not in results["plain"]["cells"][0]["library"]
    out, _ = run("compare", tmp_path / "plain", tmp_path / "slower")
    assert "planted slowdown" in out
    assert "on purpose" in out


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    sampling = {"iterations": 5, "processes": 1, "repetitions": 2, "min_seconds": 0}
    quick = {"sweep": [{"n": 300, "d": 4, "k": 3}]} | sampling
    experiment = {"name": "tiny", "title": "tiny", "init": "random:1", "variants": ["cpu_naive"]}
    experiment |= {"data": {"generator": "gaussian", "seed": 1}, "scales": {"quick": quick}}
    (tmp_path / "tiny.json").write_text(json.dumps(experiment), encoding="utf-8")
    return tmp_path / "tiny.json"


def script(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(("#!/bin/sh", *lines, "")), encoding="utf-8")
    path.chmod(0o755)
    return path


@needs_program
def test_two_programs_take_turns_until_a_slowdown_is_shown(tmp_path: Path, tiny: Path) -> None:
    slow = script(tmp_path / "slow", f'KMEANS_BENCH_PLANT_SLOWDOWN=9 exec {PROGRAM} "$@"')
    out, json_file = tmp_path / "out", tmp_path / "c.json"
    options = ["--out", out, "--minutes", "5", "--gate", "--order-seed", "7"]
    text, progress = run(
        "compare", "--run", PROGRAM, slow, tiny, *options, "--json", json_file, status=1
    )
    assert "Gate: failed" in text
    assert re.search(r"[0-9]+ rounds: 0 of 1 cell undecided", progress)
    comparison = json.loads(json_file.read_text(encoding="utf-8"))
    assert comparison["interleaved"] is True
    # Nothing more is measured than what decides it, and as much on both sides.
    (cell,) = comparison["cells"]
    assert cell["base"]["processes"] == cell["new"]["processes"] < 100
    sides = [json.loads((out / side / "tiny.json").read_text()) for side in ("base", "new")]
    for side in sides:
        assert side["context"]["seeds"]["order"] == 7
        assert side["context"]["finished"]
    # What lies there is an ordinary pair of results, and is not overwritten.
    again, _ = run("compare", out / "base", out / "new", "--gate", status=1)
    assert "Gate: failed" in again
    before = (out / "base" / "tiny.json").read_bytes()
    _, error = run("compare", "--run", PROGRAM, slow, tiny, *options, status=2)
    assert "holds results already" in error
    assert (out / "base" / "tiny.json").read_bytes() == before


@needs_program
def test_turns_end_with_the_time_and_go_on_when_resumed(tmp_path: Path, tiny: Path) -> None:
    options = ["--out", tmp_path / "out", "--effect", "0.01%"]
    run("compare", "--run", PROGRAM, PROGRAM, tiny, *options, "--minutes", "0.02")
    file = tmp_path / "out" / "new" / "tiny.json"
    first = len(json.loads(file.read_text())["cells"][0]["samples_seconds_per_iteration"])
    run("compare", "--run", PROGRAM, PROGRAM, tiny, *options, "--minutes", "0.02", "--resume")
    assert len(json.loads(file.read_text())["cells"][0]["samples_seconds_per_iteration"]) > first


@needs_program
def test_programs_that_take_no_turns_are_refused(tmp_path: Path, tiny: Path) -> None:
    def refused(program: Path) -> str:
        out = tmp_path / f"out-{program.name}"
        return run("compare", "--run", program, PROGRAM, tiny, "--out", out, status=2)[1]

    old = script(tmp_path / "old", "echo 'The following argument was not expected: --turns' >&2")
    assert "it knows no --turns" in refused(old)
    other = script(tmp_path / "other", """echo '{"turns": 99, "cells": []}'; read line""")
    assert "takes turns by version 99, this program by 1" in refused(other)
    silent = script(tmp_path / "silent", "echo hello")
    assert "does not take turns" in refused(silent)
    assert "there is no program" in refused(tmp_path / "nothing")
    _, error = run("compare", "--run", PROGRAM, PROGRAM, status=2)
    assert "compare --run OLD NEW EXPERIMENT" in error


@needs_program
def test_a_planted_slowdown_that_is_no_number_is_refused(tmp_path: Path) -> None:
    experiment = ROOT / "experiments" / "selftest" / "calibration.json"
    variables = {"KMEANS_BENCH_PLANT_SLOWDOWN": "ten percent"}
    _, error = run("run", experiment, "--out", tmp_path, status=2, **variables)
    assert "KMEANS_BENCH_PLANT_SLOWDOWN=ten percent: give a share from 0 to 10" in error


def compared_cell(verdict: str) -> dict:
    side = {"processes": 10, "unsteady": [], "noted": []}
    return {"verdict": verdict, "base": side, "new": side}


@pytest.mark.parametrize(
    ("equal", "by_10", "by_30", "gate", "misses"),
    [
        ({"same": 200}, {"slower": 60}, {"slower": 60}, 1, []),
        (
            {"same": 198, "faster": 1, "slower": 1},
            {"slower": 57, "unclear": 3},
            {"slower": 100, "same": 1},
            1,
            [],
        ),
        ({"same": 197, "slower": 3}, {"slower": 60}, {"slower": 60}, 1, ["too many false alarms"]),
        (
            {"same": 200},
            {"slower": 56, "same": 4},
            {"slower": 60},
            1,
            ["too few slowdowns of 10 % found"],
        ),
        (
            {"same": 200},
            {"slower": 60},
            {"slower": 98, "same": 1},
            1,
            ["too few slowdowns of 30 % found"],
        ),
        (
            {"same": 200},
            {"slower": 60},
            {"slower": 60},
            6,
            [
                "the gate did not fail at a slowdown of 10 %",
                "the gate did not fail at a slowdown of 30 %",
            ],
        ),
        (
            {"same": 199},
            {"slower": 60},
            {"slower": 60},
            1,
            ["199 cells are too few, 200 are wanted"],
        ),
        (
            {"same": 200},
            {"slower": 59},
            {"slower": 60},
            1,
            ["59 cells of about 10 ms are too few, 60 are wanted"],
        ),
        ({}, {}, {}, 1, ["there are no cells to judge"]),
    ],
)
def test_the_selftest_holds_its_bars(
    tmp_path: Path, equal: dict, by_10: dict, by_30: dict, gate: int, misses: list[str]
) -> None:
    for name, verdicts in (("same", equal), ("slower-10", by_10), ("slower-30", by_30)):
        cells = [compared_cell(v) for v, count in verdicts.items() for _ in range(count)]
        (tmp_path / f"{name}.json").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    gates = [gate, gate]
    assert selftest_summary.summarise(tmp_path, gates, neighbour=False, part=False) == misses


def test_the_selftest_expects_less_beside_a_neighbour(tmp_path: Path) -> None:
    verdicts = {"same": {"same": 200}, "slower-10": {"slower": 54, "same": 6}}
    for name, counts in {**verdicts, "slower-30": {"slower": 60}}.items():
        cells = [compared_cell(v) for v, count in counts.items() for _ in range(count)]
        (tmp_path / f"{name}.json").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    assert selftest_summary.summarise(tmp_path, [1, 1], neighbour=True, part=False) == []
    assert selftest_summary.summarise(tmp_path, [1, 1], neighbour=False, part=False)


def test_the_neighbour_is_busy_about_half_of_the_time_and_says_so() -> None:
    script = ROOT / "tools" / "neighbour.py"
    ended = subprocess.run(
        [sys.executable, script, "--seed", "3", "--seconds", "1"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert re.fullmatch(
        r"neighbour: seed 3, \d+ bursts, busy \d+ s of \d+ s \(\d+ %\)\n", ended.stderr
    )


def test_the_selftest_picks_cells_of_about_ten_milliseconds() -> None:
    def cell(key: str, seconds: float | None) -> dict:
        times = None if seconds is None else {"median": seconds}
        status = "skipped" if seconds is None else "ok"
        return {"key": key, "status": status, "iterations": 10, "seconds_per_iteration": times}

    cells = [cell("a", 0.001), cell("b", 0.01), cell("c", 1e-5), cell("d", None)]
    assert selftest_summary.ten_millisecond_keys({"cells": cells}) == ["a"]


def test_the_selftest_takes_cells_evenly_where_there_are_many() -> None:
    cells = [
        {
            "key": str(i),
            "status": "ok",
            "iterations": 10,
            "seconds_per_iteration": {"median": 0.001},
        }
        for i in range(128)
    ]
    keys = selftest_summary.ten_millisecond_keys({"cells": cells})
    assert keys == [str(i) for i in range(0, 128, 2)]
