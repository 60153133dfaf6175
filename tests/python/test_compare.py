# SPDX-License-Identifier: Apache-2.0
"""`kmeans-bench compare` end to end, on a real result whose times are replaced by known ones."""

from __future__ import annotations

import copy
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import (
    PROGRAM,
    ROOT,
    captured,
    kmeans_bench,
    needs_program,
    says,
    set_times,
    small_experiment,
)

sys.path.insert(0, str(ROOT / "tools"))
import selftest_summary

pytestmark = needs_program


def run(*arguments: object, status: int = 0, **variables: str) -> tuple[str, str]:
    """Standard output and standard error of the program."""
    done = kmeans_bench(*arguments, status=status, **variables)
    return done.stdout, done.stderr


def cell_of(result: dict, variant: str) -> dict:
    return next(cell for cell in result["cells"] if cell["variant"] == variant)


class Pair:
    """Folders of two results, the second one changed."""

    def __init__(self, folder: Path, small_result: dict) -> None:
        self.base, self.new = folder / "a", folder / "b"
        self.measured = small_result
        self.write(self.base, small_result)
        self.write(self.new, small_result)

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
def pair(tmp_path: Path, small_result: dict) -> Pair:
    return Pair(tmp_path, small_result)


def test_equal_results_are_the_same_everywhere(pair: Pair, tmp_path: Path) -> None:
    json_file, markdown = tmp_path / "c.json", tmp_path / "c.md"
    out, _ = pair.compare("--gate", "--json", json_file, "--markdown", markdown)
    assert says(out, "3 cells", "0 slower, 0 faster, 0 unclear, 3 same")
    comparison = json.loads(json_file.read_text(encoding="utf-8"))
    assert comparison["comparison_version"] == 2
    assert [cell["ratio"] for cell in comparison["cells"]] == [1, 1, 1]
    nothing = {"reasons": [], "undecided": [], "notes": []}
    assert comparison["gate"] == {"outcome": "passed"} | nothing
    assert comparison["differences"] == []
    assert "gate passed" in markdown.read_text(encoding="utf-8")


def slower(seconds: float) -> Callable[[dict], object]:
    return lambda result: set_times(cell_of(result, "cpu_simd"), seconds)


def doubtful(result: dict) -> None:
    set_times(cell_of(result, "cpu_simd"), 0.012)
    cell_of(result, "cpu_simd")["noted"] = ["the machine was busy"]


def relabelled(variant: str) -> Callable[[dict], object]:
    return lambda result: cell_of(result, variant).update(label_hash="0123456789abcdef")


def lost(result: dict) -> None:
    result["cells"].remove(cell_of(result, "cpu_simd"))
    result["planned_cells"] -= 1


def other_processor(result: dict) -> None:
    result["context"]["machine"]["cpu"]["model"] = "Another CPU"


def other_commit(result: dict) -> None:
    result["context"]["suite"]["git_commit"] = "f" * 40


def other_schema(result: dict) -> None:
    result["schema_version"] = 7


@pytest.mark.parametrize(
    ("change", "options", "status", "says"),
    [
        (slower(0.011), "--gate", 1, "Gate: failed: 1 cell is slower"),
        (slower(0.011), "", 0, "1.100"),  # without the gate a difference is not a failure
        (slower(0.011), "--gate --effect 15%", 0, "Gate: passed"),
        (slower(0.011), "--gate --only cpu_naive", 0, "Gate: passed"),
        (slower(0.011), "--gate --markdown -", 1, "## k-means comparison: gate failed\n"),
        (slower(0.011), "--gate --json -", 1, '"slower": 1'),
        (slower(0.011), "--json - --markdown -", 2, "go to standard output"),
        (slower(0.008), "--gate", 0, "faster"),
        (doubtful, "--gate", 6, "undecided: 1 cell is slower by a doubtful measurement"),
        (doubtful, "--gate --undecided pass", 0, "Gate: undecided"),
        (doubtful, "--gate --undecided fail", 1, "Gate: undecided"),
        (doubtful, "", 0, "slower *"),
        (relabelled("reference"), "--gate", 1, "REGRESSION"),
        (relabelled("cpu_simd"), "--gate", 0, "both certified"),
        (lost, "--gate", 1, "cpu_simd/f32/gaussian-300x4-s1/k3/T2/t1: not in new"),
        (lost, "--gate --allow-missing", 0, "not in new"),
        (other_processor, "", 2, "--cross-hardware"),
        (other_processor, "--cross-hardware --gate", 0, "Another CPU"),
        (other_schema, "", 2, "schema version 7, this program reads version 2"),
        (slower(0.01), "--effect much", 2, "give a share such as 5%"),
        (slower(0.01), "--effect 0", 2, "above 0"),
        (slower(0.01), "--effect nan", 2, "give a share"),
        (slower(0.01), "--only (", 2, "not a regular expression"),
        (slower(0.01), "--only nowhere", 2, "matches nothing"),
        (slower(0.01), "--markdown-limit 1", 2, "--markdown-limit"),
    ],
)
def test_what_is_said_and_the_exit_status(
    pair: Pair, change: Callable[[dict], object], options: str, status: int, says: str
) -> None:
    pair.change(change)
    assert says in "".join(pair.compare(*options.split(), status=status))
    assert not Path("-").exists()


@pytest.mark.parametrize(
    ("change", "options", "status", "says"),
    [
        (other_processor, "", 0, "The Another CPU, against the "),
        (other_processor, "--json -", 0, '"machines_version": 1'),
        (other_processor, "--markdown -", 0, "## Another CPU against "),
        (relabelled("reference"), "", 4, "ANSWERS DISAGREE"),
        (relabelled("cpu_simd"), "", 0, "agree to the last bit"),
        (lost, "", 0, " alone, 0 on "),
        (other_commit, "", 0, "the programs differ too (commits "),
        (other_commit, "--same-commit", 2, "were measured by different commits"),
        (other_processor, "--same-commit", 0, "The Another CPU"),
        (other_processor, "--gate", 2, "it has no --run, --gate"),
        (other_processor, "--only nowhere", 2, "no cell has a time both in"),
        (other_schema, "", 2, "schema version 7"),
    ],
)
def test_machines_are_compared_without_a_gate(
    pair: Pair, change: Callable[[dict], object], options: str, status: int, says: str
) -> None:
    pair.change(change)
    text = "".join(pair.compare("--machines", *options.split(), status=status))
    assert says in text
    assert "Gate:" not in text
    assert "LOST" not in text


def test_more_than_two_are_for_machines(pair: Pair) -> None:
    out, _ = run("compare", "--machines", pair.base, pair.new, pair.base, pair.new)
    assert out.count("timed on both") == 3
    _, err = run("compare", pair.base, pair.new, pair.base, pair.new, status=2)
    assert "compare --machines" in err
    _, err = run("compare", "--same-commit", pair.base, pair.new, status=2)
    assert "--same-commit is for compare --machines" in err


def test_what_cannot_be_written_is_said(pair: Pair, tmp_path: Path) -> None:
    pair.compare("--json", tmp_path / "absent" / "c.json", status=5)
    pair.compare("--markdown", tmp_path / "absent" / "c.md", status=5)


def test_more_processes_get_more_time(tmp_path: Path) -> None:
    """Without it the budget would drop those that were asked for."""
    sampling = {"iterations": 2, "processes": 2, "min_seconds": 0.1, "max_seconds": 10}
    quick = {"sweep": [{"n": 300, "d": 4, "k": 3}]} | sampling
    experiment = small_experiment("budget", ["cpu_naive"], quick)
    (tmp_path / "budget.json").write_text(json.dumps(experiment), encoding="utf-8")

    def measured(*options: str) -> tuple[dict, dict]:
        run("run", tmp_path / "budget.json", "--out", tmp_path / "out", *options)
        result = json.loads((tmp_path / "out" / "budget.json").read_text(encoding="utf-8"))
        return result["context"]["sampling"], result["cells"][0]

    sampling, cell = measured("--processes", "5")
    assert sampling["max_seconds"] == 25
    assert len(cell["samples_seconds_per_iteration"]) >= 5  # more where they disagree
    sampling, cell = measured("--processes", "16", "--max-seconds", "0.4")
    assert sampling["max_seconds"] == 0.4
    # A sample takes 0.1 s or more: four, and those that settle a quarrel.
    assert len(cell["samples_seconds_per_iteration"]) < 16
    assert cell["stopping"] == "time budget"
    # What a run will take, said beforehand, knows how long the processes may wait.
    plain, _ = run("run", tmp_path / "budget.json", "--dry-run", "--processes", "8")
    assert "patience" not in plain
    out, _ = run(
        "run", tmp_path / "budget.json", "--dry-run", "--processes", "8", "--patience", "60"
    )
    assert "up to 8 min 0 s more for patience" in out


def test_folders_of_one_name_are_kept_apart(pair: Pair, tmp_path: Path) -> None:
    sides = []
    for parent, folder in (("monday", pair.base), ("tuesday", pair.new)):
        sides.append(tmp_path / parent / "results")
        shutil.copytree(folder, sides[-1])
    out, _ = run("compare", *sides)
    assert "base  monday/results: " in out
    assert "new   tuesday/results: " in out
    assert str(tmp_path) not in out


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    quick = {"sweep": [{"n": 300, "d": 4, "k": 3}], "iterations": 5, "repetitions": 2}
    experiment = small_experiment("tiny", ["cpu_naive"], quick)
    (tmp_path / "tiny.json").write_text(json.dumps(experiment), encoding="utf-8")
    return tmp_path / "tiny.json"


def script(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(("#!/bin/sh", *lines, "")), encoding="utf-8")
    path.chmod(0o755)
    return path


def test_two_programs_take_turns_until_a_slowdown_is_shown(tmp_path: Path, tiny: Path) -> None:
    faults = Path(PROGRAM).with_name("kmeans-bench-faults")
    if not faults.exists():
        pytest.skip(f"{faults.name} is not built")
    slow = script(tmp_path / "slow", f'KMEANS_FAULTS_SLOWDOWN=9 exec {faults} "$@"')
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


def test_turns_end_with_the_time_and_go_on_when_resumed(tmp_path: Path, tiny: Path) -> None:
    file = tmp_path / "out" / "new" / "tiny.json"

    def processes_beyond(before: int, *more: str) -> int:
        """So little time may suffice for none, where others have the processors."""
        options = ["--out", tmp_path / "out", "--effect", "0.01%", *more]
        for minutes in ("0.02", "0.2", "2", "20"):
            run("compare", "--run", PROGRAM, PROGRAM, tiny, *options, "--minutes", minutes)
            cells = json.loads(file.read_text())["cells"]
            count = len(cells[0]["samples_seconds_per_iteration"]) if cells else 0
            if count > before:
                break
            options = [*options, "--resume"]
        assert count > before
        return count

    processes_beyond(processes_beyond(0), "--resume")


def test_programs_that_take_no_turns_are_refused(tmp_path: Path, tiny: Path) -> None:
    def refused(program: Path) -> str:
        out = tmp_path / f"out-{program.name}"
        return run("compare", "--run", program, PROGRAM, tiny, "--out", out, status=2)[1]

    old = script(tmp_path / "old", "echo 'The following argument was not expected: --turns' >&2")
    assert "it knows no --turns" in refused(old)
    other = script(tmp_path / "other", """echo '{"turns": 99, "cells": []}'; read line""")
    assert "takes turns by version 99, this program by 2" in refused(other)
    silent = script(tmp_path / "silent", "echo hello")
    assert "does not take turns" in refused(silent)
    assert "there is no program" in refused(tmp_path / "nothing")
    _, error = run("compare", "--run", PROGRAM, PROGRAM, status=2)
    assert "compare --run OLD NEW EXPERIMENT" in error


def judged(folder: Path, gate: int = 1, neighbour: bool = False, **verdicts: str) -> list[str]:
    """What the selftest misses; by a comparison's name, verdicts such as "slower 57, same 3"."""
    for name, text in verdicts.items():
        side = {"processes": 10, "unsteady": [], "noted": []}
        cells = [
            {"verdict": verdict, "base": side, "new": side}
            for verdict, count in (part.split() for part in text.split(", ") if part)
            for _ in range(int(count))
        ]
        file = folder / f"{name.replace('_', '-')}.json"
        file.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    return selftest_summary.summarise(folder, [gate, gate], neighbour=neighbour, part=False)


UNFAILED = [f"the gate did not fail at a slowdown of {share} %" for share in (10, 30)]


@pytest.mark.parametrize(
    ("same", "slower_10", "slower_30", "gate", "misses"),
    [
        ("same 200", "slower 60", "slower 60", 1, []),
        ("same 198, faster 1, slower 1", "slower 57, unclear 3", "slower 100, same 1", 1, []),
        ("same 197, slower 3", "slower 60", "slower 60", 1, ["too many false alarms"]),
        ("same 200", "slower 56, same 4", "slower 60", 1, ["too few slowdowns of 10 % found"]),
        ("same 200", "slower 60", "slower 98, same 1", 1, ["too few slowdowns of 30 % found"]),
        ("same 200", "slower 60", "slower 60", 6, UNFAILED),
        ("same 199", "slower 60", "slower 60", 1, ["199 cells are too few, 200 are wanted"]),
        (
            "same 200",
            "slower 59",
            "slower 60",
            1,
            ["59 cells of about 10 ms are too few, 60 are wanted"],
        ),
        ("", "", "", 1, ["there are no cells to judge"]),
    ],
)
def test_the_selftest_holds_its_bars(
    tmp_path: Path, same: str, slower_10: str, slower_30: str, gate: int, misses: list[str]
) -> None:
    found = judged(tmp_path, gate, same=same, slower_10=slower_10, slower_30=slower_30)
    assert found == misses


def test_the_selftest_expects_less_next_to_a_neighbour(tmp_path: Path) -> None:
    verdicts = {"same": "same 200", "slower_10": "slower 54, same 6", "slower_30": "slower 60"}
    assert judged(tmp_path, neighbour=True, **verdicts) == []
    assert judged(tmp_path, **verdicts)


def test_the_neighbour_is_busy_about_half_of_the_time_and_says_so() -> None:
    script = ROOT / "tools" / "neighbour.py"
    ended = captured(
        [sys.executable, script, "--seed", "3", "--seconds", "1"], check=True, timeout=900
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
