# SPDX-License-Identifier: Apache-2.0
"""The gate of CI, run for real; of workflows and recipes, that what they call exists and that they
trust nobody. `make check` holds them to GitHub's schema and shellcheck."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.support import PROGRAM, ROOT, captured, lend_ceilings, needs_program, set_times

#: A repository of somebody else's.
EXAMPLE = ROOT / "examples" / "plugins" / "library"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
WORKFLOWS += sorted((EXAMPLE / ".github" / "workflows").glob("*.yml"))
RECIPES = sorted((ROOT / "containers").glob("*.Dockerfile"))


@pytest.mark.parametrize("file", [*WORKFLOWS, *RECIPES], ids=lambda file: file.name)
def test_what_is_called_exists(file: Path) -> None:
    text = re.sub(r"#.*|\$\{\{.*?\}\}", "", file.read_text(encoding="utf-8"))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    # Variables and options are not targets; a recipe names its command as a list.
    commands = re.findall(
        r"(?:^|[\s;&|])make (?:-C \w+ )?([a-z][^\n|;&]*)", re.sub(r"#.*|\$\{\{.*?\}\}", "", text)
    )
    commands += [" ".join(json.loads(c)[1:]) for c in re.findall(r"^CMD (\[.*\])$", text, re.M)]
    targets = {word for command in commands for word in command.split() if word.islower()}
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.M), target
    for script in set(re.findall(r"(?<![\w/])tools/[\w.]+", text)):
        assert os.access(ROOT / script, os.X_OK), script


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.name)
def test_workflows_trust_nobody(workflow: Path) -> None:
    text = workflow.read_text(encoding="utf-8")
    for action in re.findall(r"uses: (\S+)", text):
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), f"{action} is not pinned"
    assert text.count("persist-credentials: false") == text.count("uses: actions/checkout@")
    assert re.search(r"^permissions:\n  contents: read\n", text, re.M)
    assert not re.search(r"^ +permissions:|: write$", text, re.M)
    # What others can name, a branch or an input, reaches the shell as a variable only.
    for line in text.splitlines():
        others = re.search(r"\$\{\{[^}]*(github\.(event\.|head_ref)|inputs)", line)
        assert not others or re.match(r"\s+(?!run:)\w+: ", line), line


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.name)
def test_steps_of_workflows_are_sound_shell(workflow: Path, tmp_path: Path) -> None:
    shellcheck = ROOT / ".venv" / "bin" / "shellcheck"
    if not shellcheck.exists():
        pytest.skip("shellcheck is not installed")
    for job in YAML(typ="safe").load(workflow.read_text(encoding="utf-8"))["jobs"].values():
        for step in job["steps"]:
            if "run" in step:
                script = re.sub(r"\$\{\{.*?\}\}", "expression", step["run"])
                (tmp_path / "step.sh").write_text(f"#!/bin/bash -e\n{script}\n", encoding="utf-8")
                words = [shellcheck, "--severity", "warning", tmp_path / "step.sh"]
                done = captured(words)
                assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.name)
def test_jobs_steps_and_inputs_that_expressions_name_exist(workflow: Path) -> None:
    jobs = YAML(typ="safe").load(workflow.read_text(encoding="utf-8"))["jobs"]
    for name, job in jobs.items():
        needs = job.get("needs", [])
        needs = [needs] if isinstance(needs, str) else needs
        assert set(needs) <= jobs.keys(), name
        matrix = job.get("strategy", {}).get("matrix", {})
        axes = {*matrix, *(key for row in matrix.get("include", []) for key in row)}
        text = json.dumps(job)
        assert set(re.findall(r"\bmatrix\.(\w+)", text)) <= axes, name
        assert set(re.findall(r"\bneeds\.([\w-]+)", text)) <= set(needs), name
        ids = {step["id"] for step in job["steps"] if "id" in step}
        assert set(re.findall(r"\bsteps\.([\w-]+)\.", text)) <= ids, name


def _run(step: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """As GitHub runs a step."""
    return captured(["bash", "-e", "-c", step], cwd=folder, env={**os.environ, **environment})


def _repositories(tmp_path: Path) -> tuple[Path, Path]:
    """The example as somebody's repository without CUDA, and a clone of it for a change."""
    mine = tmp_path / "mine"
    shutil.copytree(EXAMPLE, mine)
    lists = mine / "CMakeLists.txt"
    lists.write_text(lists.read_text(encoding="utf-8").split("include(CheckLanguage)")[0])
    git = "git -c user.name=a -c user.email=a@example.org -c commit.gpgsign=false"
    made = f"git init --quiet --initial-branch main && git add . && {git} commit --quiet -m base"
    assert _run(made, mine, {}).returncode == 0
    assert _run("git clone --quiet mine change", tmp_path, {}).returncode == 0
    change = tmp_path / "change"
    # What comes from the cache of an earlier run: a suite that is built.
    (change / "suite").mkdir()
    (change / "suite" / "build").symlink_to(Path(PROGRAM).parent)
    (change / "suite" / "Makefile").write_text("program:\n", encoding="utf-8")
    return mine, change


def _steps(tmp_path: Path) -> tuple[list[str], dict[str, str]]:
    """The steps of the example's job, the gate last, and the environment that they run in."""
    (file,) = (EXAMPLE / ".github" / "workflows").glob("*.yml")
    workflow = YAML(typ="safe").load(file.read_text(encoding="utf-8"))
    environment = {name: str(value) for name, value in workflow["env"].items()} | {
        "GITHUB_BASE_REF": "main",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "KMEANS_BENCH_CACHE": str(lend_ceilings(tmp_path / "cache")),
    }
    return [s["run"] for s in workflow["jobs"]["gate"]["steps"] if "run" in s], environment


@needs_program
def test_the_job_for_another_repository_fails_for_a_slower_plugin(tmp_path: Path) -> None:
    _, change = _repositories(tmp_path)
    source = change / "my_lloyd.cpp"
    text = source.read_text(encoding="utf-8")
    slower = text.replace("      assign();", "      for (int i = 0; i < 4; ++i) assign();")
    assert slower != text
    source.write_text(slower, encoding="utf-8")
    (*before, gate_step), environment = _steps(tmp_path)
    for step in before:
        done = _run(step, change, environment)
        assert done.returncode == 0, step + done.stdout + done.stderr
    done = _run(gate_step, change, environment)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Gate: failed" in done.stdout
    files = sorted((change / "compared").glob("*/*.json"))
    assert [file.parent.name for file in files] == ["base", "new"]
    cells = [cell["key"] for file in files for cell in json.loads(file.read_text("utf-8"))["cells"]]
    assert len(cells) == 4
    assert all(key.startswith("my_lloyd/") for key in cells)
    assert "slower" in (tmp_path / "summary.md").read_text(encoding="utf-8")


# A plugin that says by a clock of its own what a call took: whatever this machine does, a tenth of
# a millisecond, and up to a tenth of that more or less.
KNOWN_TIMES = """#!/bin/sh
[ $# = 4 ] || exit 2
"{lloyd}" "$@" || exit
echo >>"$0.calls"
set -- "$4" {times}
folder=$1
shift $(($(wc -l <"$0.calls") % 7 + 1))
echo "$1" >"$folder/seconds.txt"
"""


@needs_program
def test_the_gate_of_that_job_passes_an_equal_plugin(tmp_path: Path) -> None:
    """By times that are known: those of a busy machine may look slower by chance."""
    _, change = _repositories(tmp_path)
    lloyd = tmp_path / "lloyd"
    source = ROOT / "examples" / "plugins" / "lloyd.c"
    subprocess.run(["cc", "-O2", "-o", lloyd, source, "-lm"], check=True)
    times = [1.00e-4, 1.04e-4, 0.97e-4, 1.09e-4, 0.99e-4, 1.02e-4, 0.96e-4]
    for side, first in (("base", 0), (".", 3)):  # the same, in another order
        file = change / side / "build" / "my_lloyd"
        file.parent.mkdir(parents=True)
        drawn = " ".join(f"{one:.2e}" for one in times[first:] + times[:first])
        file.write_text(KNOWN_TIMES.format(lloyd=lloyd, times=drawn), encoding="utf-8")
        file.chmod(0o755)
    experiment = json.loads((change / "speed.json").read_text(encoding="utf-8"))
    experiment["scales"]["quick"] |= {"sweep": [{"n": 300, "d": 4, "k": 3}], "min_seconds": 5e-5}
    (change / "speed.json").write_text(json.dumps(experiment), encoding="utf-8")
    (*_, gate_step), environment = _steps(tmp_path)
    done = _run(gate_step.replace("my_lloyd.so", "my_lloyd"), change, environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Gate: passed" in done.stdout
    assert "0 of 1 cell undecided" in done.stderr
    for side in ("base", "new"):
        (file,) = (change / "compared" / side).glob("*.json")
        (cell,) = json.loads(file.read_text(encoding="utf-8"))["cells"]
        assert cell["key"].startswith("my_lloyd/")
        samples = [s for one in cell["samples_seconds_per_iteration"] for s in one]
        assert len(samples) >= 15
        assert min(samples) == pytest.approx(min(times) / 5)


# In place of a second measurement, results that the test prepared.
STAND_IN = """#!/usr/bin/env bash
if [ "$1" = run ]; then
  printf '%s\\n' "$@" >"$STAND_IN/arguments"
  while [ "$1" != --out ]; do shift; done
  cp -r "$STAND_IN/again" "$2"
else
  exec "$REAL_PROGRAM" "$@"
fi
"""


@pytest.fixture
def measured(tmp_path: Path, small_result: dict) -> Path:
    """Results of three cells of 10 ms."""
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "small.json").write_text(json.dumps(small_result), encoding="utf-8")
    return tmp_path


def edit(folder: Path, change: object) -> None:
    file = folder / "small.json"
    result = json.loads(file.read_text(encoding="utf-8"))
    for cell in result["cells"]:
        change(cell)
    file.write_text(json.dumps(result), encoding="utf-8")


def slow_down(cell: dict) -> None:
    if cell["variant"] == "cpu_simd":
        set_times(cell, 0.015)


def gate(measured: Path, tmp_path: Path, change: object, again: object, **environment: str):
    """Judges changed results by the base; `again` changes those of the second measurement."""
    for name, alteration in (("new", change), ("again", again)):
        shutil.copytree(measured / "base", tmp_path / name)
        edit(tmp_path / name, alteration)
    program = tmp_path / "kmeans-bench"
    program.write_text(STAND_IN, encoding="utf-8")
    program.chmod(0o755)
    summary = tmp_path / "summary.md"
    done = captured(
        ["tools/ci_gate.sh", measured / "base", tmp_path / "new", tmp_path / "out"],
        cwd=ROOT,
        env=os.environ
        | {"BUILD": str(tmp_path), "STAND_IN": str(tmp_path), "REAL_PROGRAM": PROGRAM}
        | {"GITHUB_STEP_SUMMARY": str(summary), "WARN_ONLY": "", "ONLY": "", "COMPARE_ARGS": ""}
        | environment,
    )
    return done, summary.read_text(encoding="utf-8") if summary.exists() else ""


def unchanged(cell: dict) -> None:
    pass


def test_equal_results_pass_the_gate(measured: Path, tmp_path: Path) -> None:
    done, summary = gate(measured, tmp_path, unchanged, unchanged)
    assert done.returncode == 0, done.stdout + done.stderr
    assert summary.startswith("## Comparison")
    assert not (tmp_path / "arguments").exists()


def test_slower_once_is_measured_again_and_passes(measured: Path, tmp_path: Path) -> None:
    done, summary = gate(measured, tmp_path, slow_down, unchanged)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "none was slower both times" in done.stdout
    arguments = (tmp_path / "arguments").read_text(encoding="utf-8").splitlines()
    assert arguments[1] == "small"
    expression = arguments[arguments.index("--only") + 1]
    keys = [
        cell["key"] for cell in json.loads((measured / "base" / "small.json").read_text())["cells"]
    ]
    assert [key for key in keys if re.search(expression, key)] == [
        key for key in keys if key.startswith("cpu_simd/")
    ]
    assert "Slower cells, measured again" in summary


def test_slower_twice_fails(measured: Path, tmp_path: Path) -> None:
    done, _ = gate(measured, tmp_path, slow_down, slow_down)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "slower both times" in done.stdout


def test_faster_passes(measured: Path, tmp_path: Path) -> None:
    done, _ = gate(measured, tmp_path, lambda cell: set_times(cell, 0.005), unchanged)
    assert done.returncode == 0, done.stdout + done.stderr


def test_times_only_warn_on_shared_machines(measured: Path, tmp_path: Path) -> None:
    done, _ = gate(measured, tmp_path, slow_down, slow_down, WARN_ONLY="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "::warning title=kmeans-bench::1 cells look slower" in done.stdout
    assert not (tmp_path / "arguments").exists()


def test_another_answer_gets_no_second_chance(measured: Path, tmp_path: Path) -> None:
    def harm(cell: dict) -> None:
        slow_down(cell)
        if cell["variant"] == "cpu_naive":
            cell["inertia"] *= 1.5
            cell["label_hash"] = "beefbeefbeefbeef"

    done, _ = gate(measured, tmp_path, harm, unchanged, WARN_ONLY="1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "not for times alone" in done.stdout
    assert not (tmp_path / "arguments").exists()


def test_what_cannot_be_compared_is_not_a_pass(measured: Path, tmp_path: Path) -> None:
    done, _ = gate(measured, tmp_path, unchanged, unchanged, COMPARE_ARGS="--effect nonsense")
    assert done.returncode == 2, done.stdout + done.stderr


def shell_steps(workflow: Path, job: str) -> list[tuple[str, str]]:
    """What the steps of a job run, by their names; a step without a name goes by its command."""
    text = YAML(typ="safe").load(workflow.read_text(encoding="utf-8"))
    steps = [step for step in text["jobs"][job]["steps"] if "run" in step]
    return [(step.get("name", step["run"]), step["run"]) for step in steps]


@pytest.mark.parametrize(("broken", "status"), [(False, 0), (True, 4)])
def test_the_steps_of_a_pair_of_gpus_answer(tmp_path: Path, broken: bool, status: int) -> None:
    """On two folders of results/, in place of what the two measuring jobs would upload: those very
    steps. The first builds the program; --same-commit is for measurements of one workflow."""
    steps = shell_steps(ROOT / ".github" / "workflows" / "gpu-pair.yml", "compare")
    assert [name for name, _ in steps] == [
        "make setup program",
        "Compare the machines",
        "Show the answer",
    ]
    places = {"FIRST": "gpu-first", "SECOND": "gpu-second"}
    for (side, name), machine in zip(
        places.items(), ("nvidia-h100-x4", "nvidia-h200"), strict=True
    ):
        places[side] = str(tmp_path / name)
        (tmp_path / name).mkdir()
        result = json.loads(
            (ROOT / "results" / machine / "gpu-long.json").read_text(encoding="utf-8")
        )
        result["context"]["suite"]["git_commit"] = "0" * 40
        if broken and side == "SECOND":
            cell = next(c for c in result["cells"] if c["status"] == "ok" and c["exact"])
            cell["label_hash"] = "0" * 16
        (tmp_path / name / "gpu-long.json").write_text(json.dumps(result), encoding="utf-8")
    summary = tmp_path / "step_summary.md"
    environment = os.environ | places
    environment |= {"OUT": str(tmp_path / "compared"), "GITHUB_STEP_SUMMARY": str(summary)}
    environment |= {"BUILD": str(Path(PROGRAM).parent)}
    found = []
    for _, script in steps[1:]:
        done = captured(["bash", "-e", "-o", "pipefail", "-c", script], cwd=ROOT, env=environment)
        found.append(done.returncode)
    assert found == [status, 0], done.stderr
    told = summary.read_text(encoding="utf-8")
    assert told.startswith("## H200 against H100\n\nThe H200, against the H100, is ")
    assert ("**ANSWERS DISAGREE" in told) == broken
    page = (tmp_path / "compared" / "machines.html").read_text(encoding="utf-8")
    assert "The H200, against the H100, is " in page
    assert "programs differ" not in page


def test_a_pair_of_gpus_of_two_commits_is_refused(tmp_path: Path) -> None:
    folders = [ROOT / "results" / name for name in ("nvidia-h100-x4", "nvidia-h200-x4")]
    done = captured(
        ["tools/compare.sh", *folders, "--machines", "--same-commit"],
        cwd=ROOT,
        env=os.environ | {"OUT": str(tmp_path / "compared"), "BUILD": str(Path(PROGRAM).parent)},
    )
    assert done.returncode == 2
    assert "different commits" in done.stderr
    assert not (tmp_path / "compared").exists()
