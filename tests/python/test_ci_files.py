# SPDX-License-Identifier: Apache-2.0
"""Workflows, container recipes and the gate of CI: what can be known of them without running them
where they belong, and the gate for real."""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

yaml = pytest.importorskip("ruamel.yaml")

PROGRAM = Path(os.environ.get("KMEANS_BENCH", ROOT / "build" / "kmeans-bench")).resolve()
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RECIPES = sorted((ROOT / "containers").glob("*.Dockerfile"))
BIN = Path(sys.executable).parent


def load(workflow: Path) -> dict:
    return yaml.YAML(typ="safe").load(workflow.read_text(encoding="utf-8"))


def steps_of(workflow: Path) -> list[dict]:
    return [step for job in load(workflow)["jobs"].values() for step in job["steps"]]


def scripts_of(workflow: Path) -> list[str]:
    """The shell of each step, expressions of the workflow replaced by a word."""
    texts = [step["run"] for step in steps_of(workflow) if "run" in step]
    return [re.sub(r"\$\{\{.*?\}\}", "value", text) for text in texts]


def make_targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: ((?:.*\\\n)*.*)$", makefile, re.MULTILINE)[1]
    return set(phony.replace("\\", " ").split())


def targets_in(text: str) -> set[str]:
    """Targets of the `make` commands in a text; variables and options are none."""
    found: set[str] = set()
    for command in re.findall(r"(?:^|[\s;&|])make ([^\n|;&]*)", text):
        words = re.sub(r"-C\s+\S+", "", command).split()
        found |= {word for word in words if "=" not in word and not word.startswith("-")}
    return found


def test_there_are_workflows_and_recipes() -> None:
    assert [file.name for file in WORKFLOWS] == ["cpu.yml", "gpu.yml"]
    assert [file.name for file in RECIPES] == ["cpu.Dockerfile", "cuda.Dockerfile"]


def test_workflows_follow_the_schema(tmp_path: Path) -> None:
    pytest.importorskip("check_jsonschema")

    def check(*files: Path) -> subprocess.CompletedProcess:
        # The schema is part of the package: with a proxy that leads nowhere it works all the same.
        return subprocess.run(
            [
                *(sys.executable, "-m", "check_jsonschema"),
                *("--builtin-schema", "vendor.github-workflows"),
                *files,
            ],
            env=os.environ
            | {"https_proxy": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"},
            capture_output=True,
            text=True,
        )

    sound = check(*WORKFLOWS)
    assert sound.returncode == 0, sound.stdout + sound.stderr
    broken = tmp_path / "broken.yml"
    text = WORKFLOWS[0].read_text(encoding="utf-8")
    broken.write_text(text.replace("runs-on:", "run-on:"), encoding="utf-8")
    assert check(broken).returncode == 1


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.name)
def test_actions_are_pinned_and_rights_are_few(workflow: Path) -> None:
    text = workflow.read_text(encoding="utf-8")
    uses = re.findall(r"uses: (\S+)(.*)", text)
    assert uses
    for action, comment in uses:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), f"{action} is not pinned"
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), f"{action}: which version is that?"
    content = load(workflow)
    assert content["permissions"]["contents"] == "read"
    assert "write" not in str(content["permissions"])
    for name, job in content["jobs"].items():
        assert job["timeout-minutes"] <= 720, name
        assert "permissions" not in job, name
        for step in job["steps"]:
            if str(step.get("uses", "")).startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False, name


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.name)
def test_shell_steps_are_sound(workflow: Path, tmp_path: Path) -> None:
    shellcheck = BIN / "shellcheck"
    for step in steps_of(workflow):
        # What others can name, a branch or an input, reaches the shell as a variable only.
        assert not re.search(r"\$\{\{[^}]*(github\.(event|head_ref)|inputs)", step.get("run", ""))
    for number, script in enumerate(scripts_of(workflow)):
        file = tmp_path / f"{number}.sh"
        file.write_text("#!/usr/bin/env bash\nset -e\n" + script, encoding="utf-8")
        parsed = subprocess.run(["bash", "-n", file], capture_output=True, text=True)
        assert parsed.returncode == 0, parsed.stderr
        if shellcheck.exists():
            checked = subprocess.run([shellcheck, file], capture_output=True, text=True)
            assert checked.returncode == 0, checked.stdout


def test_scripts_of_the_repository_pass_shellcheck() -> None:
    shellcheck = BIN / "shellcheck"
    if not shellcheck.exists():
        pytest.skip("no shellcheck in .venv")
    files = [*sorted((ROOT / "tools").glob("*.sh")), ROOT / ".ci" / "run"]
    checked = subprocess.run(
        [shellcheck, "--severity", "warning", *files], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("file", [*WORKFLOWS, *RECIPES], ids=lambda file: file.name)
def test_what_is_called_exists(file: Path) -> None:
    text = "\n".join(scripts_of(file)) if file in WORKFLOWS else file.read_text(encoding="utf-8")
    targets = targets_in(text)
    if file in RECIPES:
        command = json.loads(re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)[-1])
        assert command[0] == "make"
        targets = {word for word in command[1:] if "=" not in word}
    assert targets
    assert targets <= make_targets()
    for script in set(re.findall(r"(?<![\w/])tools/[\w.]+", text)):
        assert os.access(ROOT / script, os.X_OK), script


def test_options_of_the_program_in_workflows_exist() -> None:
    if not PROGRAM.exists():
        pytest.skip("kmeans-bench is not built")
    calls = [
        call
        for workflow in WORKFLOWS
        for script in scripts_of(workflow)
        for call in re.findall(r"build/kmeans-bench (\w+)([^\n|;&]*)", script)
    ]
    assert calls
    for command, arguments in calls:
        manual = subprocess.run([PROGRAM, command, "--help"], capture_output=True, text=True).stdout
        for option in re.findall(r"--[\w-]+", arguments):
            assert option in manual, f"kmeans-bench {command} {option}"


def test_the_gpu_workflow_measures_one_at_a_time_and_nobody_elses_code() -> None:
    workflow = load(ROOT / ".github" / "workflows" / "gpu.yml")
    assert set(workflow["on"]) == {"push", "schedule", "workflow_dispatch"}
    assert workflow["concurrency"] == {"group": "gpu-benchmark", "cancel-in-progress": False}
    assert "self-hosted" in workflow["jobs"]["measure"]["runs-on"]


# ------------------------------------------------------------------------------------- containers


def instructions(recipe: Path) -> list[tuple[str, str]]:
    """Each instruction of a Dockerfile on one line, comments left out."""
    lines = [
        line
        for line in recipe.read_text(encoding="utf-8").splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines()]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda file: file.name)
def test_recipes(recipe: Path) -> None:
    steps = instructions(recipe)
    known = {"FROM", "RUN", "COPY", "WORKDIR", "USER", "ENV", "ARG", "CMD"}
    assert {name for name, _ in steps} <= known
    # A tag that names a version down to the patch, or the system's release.
    base = dict(steps[:1])["FROM"]
    assert re.fullmatch(r"debian:12\.\d+-slim|nvidia/cuda:13\.0\.\d+-devel-ubuntu24\.04", base)
    users = [value for name, value in steps if name == "USER"]
    assert users[-1] == "bench"
    assert steps.index(("USER", "bench")) > max(
        i for i, (name, _) in enumerate(steps) if name == "RUN"
    ), "nothing is installed as that user"
    assert steps[-1][0] == "CMD"
    for name, value in steps:
        if name in ("ENV", "ARG"):
            assert not re.search("token|secret|password|key", value, re.IGNORECASE)
        if name == "RUN":
            parsed = subprocess.run(["bash", "-n", "-c", value], capture_output=True, text=True)
            assert parsed.returncode == 0, parsed.stderr
            if "apt-get install" in value or "tools/setup.sh" in value:
                assert "rm -rf /var/lib/apt/lists/*" in value
            if "apt-get install" in value:
                assert "--yes --no-install-recommends" in value
            if "pip install" in value:
                assert "--require-hashes" in value
        if name == "COPY":
            *sources, _ = [word for word in value.split() if not word.startswith("--")]
            for source in sources:
                assert (ROOT / source).exists(), source


def test_parts_and_stamp_of_the_set_up_are_those_of_the_script() -> None:
    script = (ROOT / "tools" / "setup.sh").read_text(encoding="utf-8")
    parts = set(re.search(r"^ +(build \| python[^)]*)\)", script, re.MULTILINE)[1].split(" | "))
    for recipe in RECIPES:
        for _, value in instructions(recipe):
            for called in re.findall(r"tools/setup\.sh ([a-z ]+?) *(?:&&|$)", value):
                assert set(called.split()) <= parts
    formula = "sha256sum {} | cut -d ' ' -f 1"
    assert formula.format('"$1"') in script
    assert "gpu_stamp=.venv/.requirements-gpu" in script
    cuda = (ROOT / "containers" / "cuda.Dockerfile").read_text(encoding="utf-8")
    assert formula.format("requirements-gpu.txt") + " >.venv/.requirements-gpu" in cuda


def test_what_the_context_leaves_out() -> None:
    patterns = [
        line
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    assert {".venv", ".cache", "build", "build-*"} <= set(patterns)
    # Needed: the commit, the experiments and the committed results.
    for needed in (".git", "experiments", "results", "requirements.txt", "tools", "."):
        assert needed not in patterns


# ------------------------------------------------------------------------------------------- gate

EXPERIMENT = {
    "name": "tiny",
    "title": "Tiny",
    "init": "first",
    "data": {"generator": "uniform", "seed": 1},
    "variants": ["cpu_naive", "cpu_fused"],
    "scales": {
        "quick": {
            "sweep": {"n": [500], "d": [2], "k": [3]},
            "iterations": 2,
            "processes": 6,
            "repetitions": 3,
            "min_seconds": 0.001,
        }
    },
}

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


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of two cells, measured here."""
    if not PROGRAM.exists():
        pytest.skip("kmeans-bench is not built")
    folder = tmp_path_factory.mktemp("gate")
    (folder / "tiny.json").write_text(json.dumps(EXPERIMENT), encoding="utf-8")
    subprocess.run(
        [PROGRAM, "run", folder / "tiny.json", "--out", folder / "base", "--check-seconds", "0"],
        check=True,
        capture_output=True,
    )
    # Steady times: what compare makes of noise is not the question here.
    edit(folder / "base", lambda cell: retime(cell, 1.0))
    return folder


def edit(folder: Path, change: object) -> None:
    file = folder / "tiny.json"
    result = json.loads(file.read_text(encoding="utf-8"))
    for cell in result["cells"]:
        change(cell)
    file.write_text(json.dumps(result), encoding="utf-8")


def retime(cell: dict, factor: float) -> None:
    """Samples around 1 ms times the factor, a little different from process to process."""
    samples = [
        [1e-3 * factor * (1 + 0.001 * process + 0.0001 * i) for i in range(3)]
        for process in range(6)
    ]
    flat = sorted(sample for process in samples for sample in process)
    middle = statistics.median(statistics.median(process) for process in samples)
    cell["samples_seconds_per_iteration"] = samples
    cell["pace"] = None
    cell["unsteady"] = []
    cell["noted"] = []
    cell["seconds_per_iteration"] |= {
        "median": middle,
        "mean": sum(flat) / 18,
        "min": flat[0],
        "max": flat[-1],
        "p25": flat[4],
        "p75": flat[13],
        "ci95_low": flat[4],
        "ci95_high": flat[13],
    }


def slow_down(cell: dict) -> None:
    if cell["variant"] == "cpu_fused":
        retime(cell, 1.5)


def gate(measured: Path, tmp_path: Path, change: object, again: object, **environment: str):
    """Judges changed results by the base; `again` changes those of the second measurement."""
    for name, alteration in (("new", change), ("again", again)):
        shutil.copytree(measured / "base", tmp_path / name)
        edit(tmp_path / name, alteration)
    program = tmp_path / "kmeans-bench"
    program.write_text(STAND_IN, encoding="utf-8")
    program.chmod(0o755)
    summary = tmp_path / "summary.md"
    done = subprocess.run(
        ["tools/ci_gate.sh", measured / "base", tmp_path / "new", tmp_path / "out"],
        cwd=ROOT,
        env=os.environ
        | {"BUILD": str(tmp_path), "STAND_IN": str(tmp_path), "REAL_PROGRAM": str(PROGRAM)}
        | {"GITHUB_STEP_SUMMARY": str(summary), "WARN_ONLY": "", "ONLY": "", "COMPARE_ARGS": ""}
        | environment,
        capture_output=True,
        text=True,
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
    assert arguments[1] == "tiny"
    expression = arguments[arguments.index("--only") + 1]
    keys = [
        cell["key"] for cell in json.loads((measured / "base" / "tiny.json").read_text())["cells"]
    ]
    assert [key for key in keys if re.search(expression, key)] == [
        key for key in keys if key.startswith("cpu_fused/")
    ]
    assert "Slower cells, measured again" in summary


def test_slower_twice_fails(measured: Path, tmp_path: Path) -> None:
    done, _ = gate(measured, tmp_path, slow_down, slow_down)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "slower both times" in done.stdout


def test_faster_passes(measured: Path, tmp_path: Path) -> None:
    done, _ = gate(measured, tmp_path, lambda cell: retime(cell, 0.5), unchanged)
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


def test_what_cannot_be_compared_is_no_pass(measured: Path, tmp_path: Path) -> None:
    done, _ = gate(measured, tmp_path, unchanged, unchanged, COMPARE_ARGS="--effect nonsense")
    assert done.returncode == 2, done.stdout + done.stderr
