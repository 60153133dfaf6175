# SPDX-License-Identifier: Apache-2.0
"""Variants that misbehave, runs that are killed, processes that share what they must not.

The variants are those of tests/faults/variants, in a second program, kmeans-bench-faults. Its
workers are itself, so a fault happens where a faulty variant of anybody's would.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import small_experiment

#: Ends of whole runs at random moments; many more are tried by hand.
KILLS = int(os.environ.get("KMEANS_BENCH_KILLS", "10"))

CPU_VARIANTS = ("reference", "cpu_naive", "cpu_simd")


def tiny(name: str, variants, clusters=(3,), n: int = 200, **scale: Any) -> dict[str, Any]:
    """An experiment of cells that take milliseconds."""
    quick = {"sweep": {"n": [n], "d": [2], "k": list(clusters)}, "iterations": 4, "processes": 2}
    quick |= {"repetitions": 2, "timeout_seconds": 600} | scale
    data = {"generator": "uniform", "seed": 7}
    return small_experiment(name, list(variants), quick, data=data)


def save(folder: Path, experiment: dict[str, Any]) -> Path:
    # Results of the same name may go to the folder itself.
    file = folder / "experiments" / f"{experiment['name']}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(experiment), encoding="utf-8")
    return file


def options(file: Path, out: Path, *more: str) -> list[str]:
    return ["run", str(file), "--out", str(out), "--check-seconds", "0", *more]


def result_of(out: Path, name: str) -> dict[str, Any]:
    return json.loads((out / f"{name}.json").read_text(encoding="utf-8"))


def journal_of(out: Path, name: str) -> list[dict[str, Any]]:
    """The journal's whole lines; the last one may be torn."""
    text = (out / f"{name}.journal.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n")[:-1]]


def processes_in(out: Path, name: str) -> int:
    with contextlib.suppress(FileNotFoundError, ValueError):
        return sum("cell" in line for line in journal_of(out, name))
    return 0


def wait_until(condition, seconds: float = 600) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def start(bench, arguments: list[str], **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [bench.program, *arguments],
        env=bench.environment(more.pop("environment", None)),
        stdout=more.pop("stdout", subprocess.DEVNULL),
        stderr=more.pop("stderr", subprocess.DEVNULL),
        text=True,
        **more,
    )


# --- Misbehaving variants -------------------------------------------------------------------------

#: What becomes of each: status, and words of the reason.
FATES = {
    "fault_segfaults": ("error", "killed by SIGSEGV"),
    "fault_aborts": ("error", "killed by SIGABRT"),
    "fault_exits": ("error", "the worker ended without a whole result"),
    "fault_exits_at_once": ("error", "exit status 7"),
    "fault_throws": ("error", "no such luck\\x1b[31m\N{REPLACEMENT CHARACTER}"),
    "fault_throws_in_setup": ("error", "nothing to set up with"),
    "fault_throws_an_integer": ("error", "not a std::exception"),
    "fault_crashes_when_timed": ("error", "killed by SIGABRT"),
    "fault_writes_its_points": ("error", "killed by SIGSEGV"),
    "fault_writes_its_file": ("error", "points or initial centroids was written to"),
    "fault_writes_past_its_labels": ("error", "killed by SIG"),
    "fault_garbage_labels": ("wrong", "label"),
    "fault_writes_no_labels": ("wrong", "label"),
    "fault_nan_centroids": ("wrong", "centroid"),
    "fault_wrong_when_timed": ("wrong", "timed run"),
    "fault_idle_when_timed": ("wrong", "timed run"),
    "fault_repeats_itself": ("wrong", "answers follow the initial centroids"),
    "fault_no_time": ("error", "no positive duration was measured"),
    "fault_backward_time": ("error", "no positive duration was measured"),
    "fault_nan_time": ("error", "no positive duration was measured"),
}
#: Right, whatever else they do; with words of the doubt that the cell then carries.
MANNERS = {
    "fault_writes_its_centroids": "",
    "fault_chatters": "",
    "fault_leaves_a_child": "",
    "fault_flushes_denormals": "denormal numbers",
    "fault_closes_files": "",
    "fault_goes_elsewhere": "",
    "fault_empties_its_environment": "",
}


@pytest.fixture(scope="module")
def misbehaved(faults, tmp_path_factory):
    """One run of all of them among good ones: exit status, messages, folder, and the result."""
    folder = tmp_path_factory.mktemp("misbehaving")
    out = folder / "out"
    variants = [*CPU_VARIANTS, *FATES, *MANNERS]
    file = save(folder, tiny("misbehaving", variants))
    run = faults(
        *options(file, out),
        environment={"KMEANS_FAULT_CHILD": str(folder / "children")},
        timeout=900,
    )
    return run, out, result_of(out, "misbehaving")


def cells_of(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {cell["variant"]: cell for cell in result["cells"]}


def test_faulty_variants_cost_their_own_cells_only(misbehaved):
    run, _, result = misbehaved
    assert run.returncode == 4, run.stderr
    assert result["complete"]
    cells = cells_of(result)
    assert len(cells) == len(result["cells"]) == len(CPU_VARIANTS) + len(FATES) + len(MANNERS)
    right = {cells[name]["label_hash"] for name in CPU_VARIANTS}
    assert len(right) == 1
    for name in [*CPU_VARIANTS, *MANNERS]:
        cell = cells[name]
        assert cell["status"] == "ok", (name, cell["reason"])
        assert cell["label_hash"] in right, name
        assert cell["processes"] >= 2, name  # more where two disagree
        assert cell["seconds_per_iteration"]["median"] > 0, name


@pytest.mark.parametrize("name", FATES)
def test_a_faulty_variant_has_a_reason_and_no_time(misbehaved, name):
    cell = cells_of(misbehaved[2])[name]
    status, words = FATES[name]
    assert (cell["status"], words in cell["reason"]) == (status, True), cell["reason"]
    assert cell["seconds_per_iteration"] is None
    assert cell["samples_seconds_per_iteration"] == []
    assert cell["device_seconds_per_iteration"] is None
    assert [cell["gflops"], cell["gflops_2nkd"]] == [None, None]
    assert cell["gbytes_per_second"] == {"compulsory": None, "as_written": None}
    assert [cell["inertia"], cell["setup_seconds"]] == [None, None]
    assert cell["processes"] == 1  # the first one was enough


@pytest.mark.parametrize(("name", "words"), [item for item in MANNERS.items() if item[1]])
def test_what_a_variant_changes_in_its_process_is_reported(misbehaved, name, words):
    noted = cells_of(misbehaved[2])[name]["noted"]
    assert any(words in sentence for sentence in noted), noted


def test_the_journal_of_misbehaving_variants_is_whole(misbehaved):
    _, out, result = misbehaved
    lines = journal_of(out, "misbehaving")
    assert "journal" in lines[0]
    runs = [(line["cell"], line["process"]) for line in lines if "cell" in line]
    assert len(runs) == len(set(runs))
    order = list(dict.fromkeys(cell for cell, _ in runs))
    assert order == result["context"]["run_order"]
    assert all(line["wall_seconds"] > 0 for line in lines if "cell" in line)


def test_nothing_that_a_variant_started_survives_it(misbehaved):
    _, out, _ = misbehaved
    children = (out.parent / "children").read_text(encoding="utf-8").split()
    assert len(children) >= 2  # one of each process
    alive = [pid for pid in children if Path(f"/proc/{pid}").exists()]
    assert alive == []


def test_terminal_codes_of_a_variant_do_not_reach_the_terminal(misbehaved):
    run, _, _ = misbehaved
    assert "\x1b" not in run.stderr
    assert "no such luck\\x1b[31m" in run.stderr


def test_points_that_a_variant_wrote_to_are_made_again(misbehaved, faults, tmp_path):
    # All other cells, before and after it, computed with the points of a run without it.
    peaceful = faults.measure(
        save(tmp_path, tiny("peaceful", CPU_VARIANTS)),
        tmp_path / "out",
        "--check-seconds",
        "0",
        environment=faults.other_cache(tmp_path / "cache"),  # points of its own
    )
    undisturbed = cells_of(peaceful)
    _, _, result = misbehaved
    order = [key.split("/")[0] for key in result["context"]["run_order"]]
    after = order[order.index("fault_writes_its_file") + 1 :]
    right = [*CPU_VARIANTS, *MANNERS]
    assert set(right) & set(after)
    for name in right:
        cell = cells_of(result)[name]
        assert cell["label_hash"] == undisturbed["reference"]["label_hash"], name
        assert cell["bit_equal_across_processes"] is True, name
    for name in CPU_VARIANTS:
        for key in ("label_hash", "centroid_hash", "inertia"):
            assert cells_of(result)[name][key] == undisturbed[name][key], (name, key)
    assert result["context"]["datasets"] == peaceful["context"]["datasets"]


def test_a_users_own_file_that_a_variant_wrote_to_ends_the_run(faults, tmp_path):
    points = tmp_path / "points.npy"
    np.save(points, np.random.default_rng(3).uniform(size=(200, 2)).astype("<f4"))
    experiment = tiny("own", ["reference", "fault_writes_its_file", "cpu_naive"], processes=1)
    experiment["data"] = {"file": str(points)}
    experiment["scales"]["quick"]["sweep"] = {"k": [3]}
    message = faults.refusal(*options(save(tmp_path, experiment), tmp_path))
    assert "points.npy was written to during the run" in message
    # What was measured before is there, and nothing came after.
    result = result_of(tmp_path, "own")
    assert not result["complete"]
    cells = cells_of(result)
    faulty = cells.pop("fault_writes_its_file")
    assert faulty["status"] == "error"
    assert "was written to meanwhile" in faulty["reason"]
    order = [key.split("/")[0] for key in result["context"]["run_order"]]
    before = order[: order.index("fault_writes_its_file")]
    assert sorted(cells) == sorted(before)
    assert all(cell["status"] == "ok" for cell in cells.values())


def test_hanging_variants_are_ended(faults, tmp_path):
    names = ["reference", "fault_hangs_in_setup", "fault_spins"]
    for seconds in (3, 12, 60):  # the good one may need longer, where others have the processors
        file = save(tmp_path, tiny("hanging", names, processes=1, timeout_seconds=seconds))
        run = faults(*options(file, tmp_path))  # which would not end if they did not
        assert run.returncode == 4
        cells = cells_of(result_of(tmp_path, "hanging"))
        for name in names[1:]:
            assert cells[name]["status"] == "error"
            assert cells[name]["reason"].startswith(f"timeout after {seconds} s")
        if cells["reference"]["status"] == "ok":
            break
    assert cells["reference"]["status"] == "ok", cells["reference"]["reason"]


def test_a_leak_costs_its_cell_only(faults, tmp_path):
    if shutil.which("prlimit") is None:
        pytest.skip("no prlimit here")
    file = save(tmp_path, tiny("leak", ["reference", "fault_leaks", "cpu_naive"], processes=1))
    run = faults(*options(file, tmp_path), before=("prlimit", f"--as={3 << 29}"))
    assert run.returncode == 4, run.stderr
    cells = cells_of(result_of(tmp_path, "leak"))
    assert cells["fault_leaks"]["status"] == "error"
    assert re.fullmatch(
        r"out of host memory: needs more than 1\.\d+ GiB \(ulimit -v\)",
        cells["fault_leaks"]["reason"],
    )
    assert [cells[name]["status"] for name in ("reference", "cpu_naive")] == ["ok", "ok"]


def test_steps_below_the_tick_of_a_clock_are_measured(faults, tmp_path):
    experiment = tiny("instant", ["fault_instant"], clusters=[1], n=1, min_seconds=0.01)
    experiment["scales"]["quick"]["sweep"]["d"] = [1]
    file = save(tmp_path, experiment)
    assert faults(*options(file, tmp_path)).returncode == 0
    (cell,) = result_of(tmp_path, "instant")["cells"]
    samples = cell["samples_seconds_per_iteration"]
    assert all(0 < sample < float("inf") for process in samples for sample in process)
    assert 0 < cell["gflops"] < float("inf")


def test_a_variant_cannot_change_the_locale_of_results(faults, tmp_path, comma_locale):
    file = save(tmp_path, tiny("locale", ["fault_changes_the_locale", "reference"], processes=1))
    assert faults(*options(file, tmp_path), environment=comma_locale).returncode == 0
    cells = cells_of(result_of(tmp_path, "locale"))
    changed, plain = cells["fault_changes_the_locale"], cells["reference"]
    assert changed["label_hash"] == plain["label_hash"]
    assert any("locale" in sentence for sentence in changed["noted"])
    assert changed["verification"].keys() == plain["verification"].keys()
    assert changed["inertia"] == plain["inertia"]


@pytest.fixture(scope="module")
def comma_locale(tmp_path_factory) -> dict[str, str]:
    """Variables that choose German numbers, made here: no system needs to have them."""
    folder = tmp_path_factory.mktemp("locale")
    if shutil.which("localedef") is None:
        pytest.skip("no localedef here")
    made = subprocess.run(
        ["localedef", "-i", "de_DE", "-f", "UTF-8", folder / "de_DE.UTF-8"], capture_output=True
    )
    if not (folder / "de_DE.UTF-8").exists():
        pytest.skip(f"localedef cannot make de_DE: {made.stderr.decode(errors='replace')[:200]}")
    return {"LOCPATH": str(folder), "LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"}


def test_a_decimal_comma_changes_no_input_and_no_output(bench, tmp_path, comma_locale):
    file = save(tmp_path, tiny("comma", ["cpu_naive"], processes=1, min_seconds=0.005))
    assert bench(*options(file, tmp_path), environment=comma_locale).returncode == 0
    (cell,) = result_of(tmp_path, "comma")["cells"]
    assert cell["status"] == "ok"
    points = tmp_path / "points.csv"
    points.write_text("0.5,1.25\n0.75,1.5\n10.5,11.5\n", encoding="utf-8")
    outcomes = [
        bench("fit", points, "-k", "2", "--variant", "reference", "--init", "rows:0,2",
              "--out", tmp_path / "fit", environment=environment)
        for environment in (None, comma_locale)
    ]  # fmt: skip
    assert outcomes[0].returncode == 0, outcomes[0].stderr
    assert outcomes[1].returncode == 0
    lines = [line.split()[:2] for line in outcomes[0].stdout.splitlines()]
    assert [line.split()[:2] for line in outcomes[1].stdout.splitlines()] == lines


# --- Ends of the whole run ------------------------------------------------------------------------

CLUSTERS = (2, 3, 4, 5)


def descendants(pid: int) -> list[int]:
    found = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in children.read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


def kill_tree(process: subprocess.Popen[str]) -> None:
    """As a power cut would: no process of the run gets to do anything more."""
    for pid in [process.pid, *descendants(process.pid)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


@pytest.fixture(scope="module")
def undisturbed(bench, tmp_path_factory):
    """A short experiment of a dozen cells run once in peace: its file, result and seconds."""
    folder = tmp_path_factory.mktemp("undisturbed")
    file = save(folder, tiny("steady", CPU_VARIANTS, CLUSTERS, repetitions=1))
    began = time.monotonic()
    run = bench(*options(file, folder / "out"))
    seconds = time.monotonic() - began
    assert run.returncode == 0, run.stderr
    return file, result_of(folder / "out", "steady"), seconds


def check_same(result: dict[str, Any], good: dict[str, Any]) -> None:
    assert result["complete"]
    assert result["planned_cells"] == len(result["cells"]) == len(good["cells"])
    for cell, other in zip(result["cells"], good["cells"], strict=True):
        assert cell["status"] == "ok", cell["reason"]
        for key in ("key", "label_hash", "centroid_hash", "inertia"):
            assert cell[key] == other[key], cell["key"]
        # Two were planned; where they disagree, which is a matter of the moment, there are more.
        assert len(cell["samples_seconds_per_iteration"]) == cell["processes"] >= 2


def test_killed_runs_resume_with_nothing_lost_or_doubled(bench, undisturbed, tmp_path):
    file, good, seconds = undisturbed
    moments = random.Random(2026)
    kills = landed = folders = 0
    while kills < KILLS:
        folders += 1
        out = tmp_path / f"out{folders}"
        kept: list[str] = []
        while kills < KILLS:
            process = start(bench, options(file, out, "--resume"))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(moments.uniform(0, 0.6 * seconds))
            if process.returncode is not None:
                assert process.returncode == 0
                break
            kill_tree(process)
            kills += 1
            journal = out / "steady.journal.jsonl"
            if journal.exists():
                lines = journal.read_text(encoding="utf-8").split("\n")[:-1]
                assert lines[: len(kept)] == kept  # what was there is still there
                landed += len(lines) > len(kept)
                kept = lines
            if (out / "steady.json").exists():
                result_of(out, "steady")  # whole, at any moment
        if process.returncode != 0:
            assert bench(*options(file, out, "--resume")).returncode == 0
        check_same(result_of(out, "steady"), good)
        runs = [(line["cell"], line["process"]) for line in journal_of(out, "steady")
                if "cell" in line]  # fmt: skip
        measured = sum(cell["processes"] for cell in result_of(out, "steady")["cells"])
        assert len(runs) == len(set(runs)) == measured
    print(f"{kills} kills in {folders} runs, {landed} after something new was finished")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupted_run_leaves_a_valid_incomplete_file(bench, tmp_path, name):
    if signal.getsignal(getattr(signal, name)) == signal.SIG_IGN:
        pytest.skip(f"{name} is ignored here, as under nohup, and so by the program")
    # Of a minute and more, so that the signal comes before the end.
    file = save(tmp_path, tiny("slow", ["reference", "cpu_naive"], range(2, 52), min_seconds=0.2))
    process = start(bench, options(file, tmp_path), stderr=subprocess.PIPE)
    assert wait_until(lambda: processes_in(tmp_path, "slow") >= 2)
    process.send_signal(getattr(signal, name))
    _, messages = process.communicate(timeout=900)
    assert process.returncode == 130
    assert "continue with --resume" in messages
    result = result_of(tmp_path, "slow")
    assert not result["complete"]
    assert result["planned_cells"] == 100
    assert result["context"]["finished"] is None
    cells = [cell for cell in result["cells"] if cell["status"] == "ok"]
    assert 1 <= len(cells) <= 100


def test_changed_points_are_not_resumed(bench, tmp_path):
    points = tmp_path / "points.csv"
    points.write_text("0,0\n1,1\n8,8\n9,9\n", encoding="utf-8")
    experiment = tiny("edited", ["reference", "cpu_naive"], processes=1)
    experiment["data"] = {"file": str(points)}
    experiment["scales"]["quick"]["sweep"] = {"k": [2]}
    file = save(tmp_path, experiment)
    out = tmp_path / "out"
    assert bench(*options(file, out, "--only", "reference/")).returncode == 0
    points.write_text("0,0\n1,1\n8,8\n9,7\n", encoding="utf-8")
    kept = (out / "edited.journal.jsonl").read_bytes()
    message = bench.refusal(*options(file, out, "--resume"))
    assert "cannot be resumed: data set " in message
    assert "--force" in message
    assert re.search(r" [0-9a-f]{64}, has [0-9a-f]{64}", message)
    assert (out / "edited.journal.jsonl").read_bytes().startswith(kept)


def test_other_instruction_sets_are_not_resumed(bench, tmp_path):
    file = save(tmp_path, tiny("mix", ["cpu_simd"], (3, 4)))
    out = tmp_path / "out"
    assert bench(*options(file, out, "--only", "k3/")).returncode == 0
    other = {"KMEANS_BENCH_SIMD": "sse2"}
    message = bench.refusal(
        *options(file, out, "--resume", "--repetitions", "7"), environment=other
    )
    assert 'variable KMEANS_BENCH_SIMD was null, is "sse2"' in message
    assert "repetitions was 2, is 7" in message


@pytest.mark.parametrize("damage", ["truncate", "not a number", "unlink"])
def test_a_users_file_that_is_spoilt_during_a_run_ends_it_with_a_file(bench, tmp_path, damage):
    points = tmp_path / "points.npy"
    np.save(points, np.random.default_rng(1).uniform(size=(200, 2)).astype("<f4"))
    described = tiny("spoilt", ["reference"], min_seconds=0.5, processes=1)
    described["data"] = {"file": str(points)}
    # Of half a minute and more, so that the file is spoilt before the end.
    described["scales"]["quick"]["sweep"] = {"k": list(range(2, 52))}
    out = tmp_path / "out"
    process = start(bench, options(save(tmp_path, described), out), stderr=subprocess.PIPE)
    assert wait_until(lambda: processes_in(out, "spoilt") >= 1)
    if damage == "truncate":
        os.truncate(points, 600)
    elif damage == "unlink":
        points.unlink()
    else:
        with points.open("r+b") as file:
            file.seek(-8, os.SEEK_END)
            file.write(np.full(2, np.nan, "<f4").tobytes())
    _, messages = process.communicate(timeout=900)
    assert process.returncode == 2, messages
    result = result_of(out, "spoilt")
    assert not result["complete"]
    assert [cell for cell in result["cells"] if cell["status"] == "ok"]


def test_closed_standard_streams_do_not_reach_the_journal(bench, tmp_path):
    file = save(tmp_path, tiny("closed", ["reference"], CLUSTERS))
    words = " ".join(f"'{word}'" for word in [bench.program, *options(file, tmp_path / "out")])
    for closed in (">&- 2>&- <&-", ">&- 2>&-", "<&-"):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        subprocess.run(["sh", "-c", f"{words} {closed}"], env=bench.environment(), timeout=900)
        lines = journal_of(tmp_path / "out", "closed")  # each of them is JSON
        assert sum("cell" in line for line in lines) >= 2 * len(CLUSTERS), closed
        assert bench(*options(file, tmp_path / "out", "--resume")).returncode == 0
        assert result_of(tmp_path / "out", "closed")["complete"]


def test_waiting_for_a_lock_is_said_and_can_be_ended(bench, tmp_path):
    file = save(tmp_path, tiny("waits", ["reference"]))
    cache = tmp_path / "cache"
    there = bench.other_cache(cache)
    assert bench(*options(file, tmp_path / "out"), environment=there).returncode == 0
    (lock,) = cache.glob("*.lock")
    for made in cache.glob("uniform*.npy"):
        made.unlink()
    with lock.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        process = start(
            bench, options(file, tmp_path / "out2"), environment=there, stderr=subprocess.PIPE
        )
        said = ""
        while "waiting for another process" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 130


def test_a_stack_too_small_is_taken_away(bench, tmp_path):
    file = save(tmp_path, tiny("stack", ["openmp_exact"]))
    small = {"OMP_STACKSIZE": "16k"}
    run = bench(*options(file, tmp_path / "out"), environment=small)
    assert run.returncode == 0, run.stderr
    assert "OMP_STACKSIZE=16k gives threads too small a stack" in run.stderr
    result = result_of(tmp_path / "out", "stack")
    assert [cell["status"] for cell in result["cells"]] == ["ok"]
    assert "OMP_STACKSIZE" in result["context"]["environment"]["neutralised"]
    points = tmp_path / "points.csv"
    points.write_text("0,0\n1,1\n8,8\n", encoding="utf-8")
    message = bench.refusal("fit", points, "-k", "2", code=3, environment=small)
    assert "OMP_STACKSIZE=16k gives threads too small a stack" in message


@pytest.mark.parametrize("command", ["fit", "verify"])
def test_waiting_threads_soon_leave_the_cores_to_other_work(bench, tmp_path, monkeypatch, command):
    """OpenMP itself waits for milliseconds, in which others want the cores between two steps."""
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    points = tmp_path / "points.csv"
    points.write_text("0,0\n1,1\n8,8\n", encoding="utf-8")
    words = {"fit": (points, "-k", "2"), "verify": ("--only", "^cpu_fused$", "--at-most", "100")}

    def spins(environment: dict[str, str]) -> list[str]:
        shown = {"OMP_DISPLAY_ENV": "verbose"}
        done = bench(command, *words[command], environment=shown | environment)
        assert done.returncode == 0, done.stderr
        return re.findall(r"GOMP_SPINCOUNT = '(\d+)'", done.stderr)

    default = spins({})
    if not default:
        pytest.skip("this OpenMP runtime does not show how its threads wait")
    assert default[-1] == "2000"
    # What somebody has chosen stays, and the program is started once.
    assert spins({"GOMP_SPINCOUNT": "77"}) == ["77"]
    assert len(spins({"OMP_WAIT_POLICY": "active"})) == 1


def test_an_absurd_number_of_threads_in_the_environment_skips_nothing(bench, tmp_path):
    file = save(tmp_path, tiny("many", ["openmp_exact"]))
    run = bench(*options(file, tmp_path), environment={"OMP_NUM_THREADS": "99999999999"})
    assert run.returncode == 0, run.stderr
    assert [cell["status"] for cell in result_of(tmp_path, "many")["cells"]] == ["ok"]


def test_python_is_started_for_python_variants_alone(bench, tmp_path):
    """An interpreter takes longer to start than many a cell takes to measure."""
    starts = tmp_path / "starts"
    interpreter = tmp_path / "python"
    interpreter.write_text(f'#!/bin/sh\necho "$@" >>{starts}\nexec {sys.executable} "$@"\n')
    interpreter.chmod(0o755)
    python = {"KMEANS_BENCH_PYTHON": str(interpreter)}

    def interpreters(variant: str) -> tuple[int, int]:
        """How often one was started, and how many processes the cell had."""
        starts.write_text("")
        file = save(tmp_path, tiny(variant, [variant]))
        run = bench(*options(file, tmp_path / "out"), environment=python)
        assert run.returncode == 0, run.stderr
        processes = result_of(tmp_path / "out", variant)["cells"][0]["processes"]
        assert processes >= 2
        return len(starts.read_text().splitlines()), processes

    coordinator, _ = interpreters("cpu_naive")
    # Each process asks what the variant is, and then runs it.
    started, processes = interpreters("python_numpy")
    assert started == coordinator + 2 * processes
    assert coordinator <= 2  # the variants' descriptions and the libraries' versions
