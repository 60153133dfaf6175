# SPDX-License-Identifier: Apache-2.0
"""Variants from outside of the source tree: the templates of examples/plugins, and faulty ones."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support import ROOT

TEMPLATES = ROOT / "examples" / "plugins"


@pytest.fixture(scope="module")
def lloyd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The template in C, compiled."""
    program = tmp_path_factory.mktemp("plugins") / "lloyd"
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "no C compiler"
    words = [compiler, "-O2", "-Wall", "-Werror", "-o", program, TEMPLATES / "lloyd.c", "-lm"]
    subprocess.run(words, check=True)
    return program


@pytest.fixture
def program(lloyd: Path, tmp_path: Path):
    """The template behind a shell script, with some lines before and after it."""

    def write(name: str, before: str = "", after: str = "") -> Path:
        file = tmp_path / name
        file.write_text(f'#!/bin/sh\n[ $# = 4 ] || exit 2\n{before}\n"{lloyd}" "$@"\n{after}\n')
        file.chmod(0o755)
        return file

    return write


def _listed(bench, plugin: Path) -> dict:
    listed = json.loads(bench("list", "--json", "--plugin", plugin).stdout)["variants"]
    (variant,) = (one for one in listed if one["backend"] == "plugin")
    return variant


def test_the_templates_are_verified(bench, lloyd: Path, tmp_path: Path) -> None:
    python = TEMPLATES / "lloyd_numpy.py"
    run = bench("verify", "--at-most", "3000", "--plugin", lloyd, "--plugin", python)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "\n2 variants passed\n" in run.stdout  # they alone: nothing else was asked for
    points = tmp_path / "points.csv"
    points.write_text("0\n1\n8\n10\n")
    words = ("-k", "2", "--variant", "lloyd", "--plugin", lloyd, "--init", "first", "--json")
    fitted = bench("fit", points, *words)
    assert json.loads(fitted.stdout.splitlines()[-1])["inertia"] == 2.5, fitted.stderr
    listed = _listed(bench, lloyd)
    assert (listed["name"], listed["available"]) == ("lloyd", True)
    digest = hashlib.sha256(lloyd.read_bytes()).hexdigest()
    assert listed["source"] == f"lloyd, sha256 {digest[:16]}"
    assert "by the program's own clock" in listed["timing_note"]
    assert " ms next to it" in listed["timing_note"]


def test_verify_ends_a_program_that_hangs(bench, lloyd: Path, program) -> None:
    hangs = program("hangs", before='[ $(wc -c <"$1") -lt 300 ] || sleep 1000')
    words = ("--at-most", "800", "--plugin", hangs, "--plugin", lloyd)
    for limit in (4, 20, 100):  # the good one may need longer, where others have the processors
        run = bench("verify", *words, "--timeout", str(limit))
        if "lloyd" not in re.findall(r"^(\w+) +f32 took longer", run.stdout, re.M):
            break
    assert run.returncode == 4, run.stdout + run.stderr
    row = (
        rf"^hangs +f32 took longer than {limit} s \(--timeout\), "
        r"after \d+ problems? of \d+ on '.+'$"
    )
    assert re.search(row, run.stdout, re.M), run.stdout
    assert re.search(r"^lloyd +f32 +\d+ +0 +0$", run.stdout, re.M)  # the next one's turn
    assert "\n1 of 2 variants failed" in run.stdout


def test_verify_ends_a_library_of_pythons_that_hangs(bench, tmp_path: Path) -> None:
    interpreter = tmp_path / "python"
    hangs = 'case "$*" in *--serve*) sleep 1000;; esac'
    interpreter.write_text(f'#!/bin/sh\n{hangs}\nexec "{sys.executable}" "$@"\n')
    interpreter.chmod(0o755)
    python = {"KMEANS_BENCH_PYTHON": str(interpreter)}
    words = ("--at-most", "800", "--only", "^(python_numpy|cpu_naive)$")
    for limit in (2, 10, 50):
        run = bench("verify", *words, "--timeout", str(limit), environment=python)
        if "cpu_naive" not in re.findall(r"^(\w+) +f\d\d took longer", run.stdout, re.M):
            break
    assert run.returncode == 4, run.stdout + run.stderr
    row = (
        rf"^python_numpy +f\d\d took longer than {limit} s \(--timeout\), "
        r"after 0 problems of \d+ on '"
    )
    assert re.search(row, run.stdout, re.M), run.stdout
    assert "\n1 of 2 variants failed" in run.stdout


def test_plugins_are_measured_next_to_others(bench, write, experiment, lloyd, program, tmp_path):
    file = write(experiment())
    # The label of the first point becomes 7, of 3 clusters.
    patch = 'dd of="$4/labels.npy" bs=1 seek=128 conv=notrunc status=none'
    plugins = {
        "lloyd": lloyd,
        "no_clock": program("no-clock", after='rm "$4/seconds.txt"'),
        "crashes": program("crashes", before='[ $(wc -c <"$1") -lt 300 ] || kill -ABRT $$'),
        "lies": program("lies", after=f"printf '\\007' | {patch}"),
        "own_clock": program("own-clock", after='echo 3e-6 >"$4/seconds.txt"'),
        "fast_clock": program("fast-clock", after='echo 1e9 >"$4/seconds.txt"'),
    }
    words = [word for plugin in plugins.values() for word in ("--plugin", plugin)]
    run = bench("run", file, "--out", tmp_path / "out", *words)
    assert run.returncode == 4, run.stdout + run.stderr
    assert " for setup and 20 iterations" in run.stdout + run.stderr
    result = json.loads((tmp_path / "out" / "demo-changed.json").read_text())
    cells = {cell["variant"]: cell for cell in result["cells"]}
    status = {name: cell["status"] for name, cell in cells.items()}
    assert status == {
        "reference": "ok",
        "lloyd": "ok",
        "no_clock": "ok",
        "own_clock": "ok",
        "crashes": "error",
        "lies": "wrong",
        "fast_clock": "skipped",
    }
    for name in ("lloyd", "no_clock"):
        digest = hashlib.sha256(plugins[name].read_bytes()).hexdigest()
        assert cells[name]["library"]["plugin sha256"] == digest
    assert "signal 6" in cells["crashes"]["reason"]
    assert "its clock says 1e+09 s of a call that took" in cells["fast_clock"]["reason"]
    seconds = {
        name: cells[name]["seconds_per_iteration"]["median"] for name in ("own_clock", "no_clock")
    }
    # Its own clock leaves out what starting a process takes: three iterations, 3 us.
    assert seconds["own_clock"] == pytest.approx(1e-6)
    assert seconds["no_clock"] > 1e-6
    assert "/" not in json.dumps(cells["lloyd"]["library"])  # no path of this machine


def test_points_of_one_dimension_are_n_by_1_for_all(bench, lloyd: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "line.npy", np.array([0, 1, 8, 10], "<f4"))
    for plugin in (lloyd, TEMPLATES / "lloyd_numpy.py"):
        words = ("-k", "2", "--variant", plugin.stem, "--plugin", plugin, "--init", "first")
        fitted = bench("fit", tmp_path / "line.npy", *words, "--json")
        assert fitted.returncode == 0, fitted.stderr
        assert json.loads(fitted.stdout.splitlines()[-1])["inertia"] == 2.5


def test_a_plugin_that_cannot_be_one_is_refused(bench, program, tmp_path: Path) -> None:
    assert "there is no such file" in bench.refusal("list", "--plugin", tmp_path / "none")
    plain = tmp_path / "plain"
    plain.write_text("no program")
    assert "chmod +x" in bench.refusal("verify", "--plugin", plain)
    taken = program("reference")
    assert "is named 'reference' already" in bench.refusal("list", "--plugin", taken)


def test_a_program_that_hangs_costs_no_more_than_the_budget(bench, program) -> None:
    """It says nothing of itself, and its calls never end: neither the one on four points."""
    pause = "97531.25"
    slow = program("slow", before=f"sleep {pause}")
    size = ("--n", "2000", "--d", "3", "-k", "4", "--only", "^(reference|slow)$")
    for budget in (9, 45, 225):  # the first may not do, where others have the processors
        run = bench("best", *size, "--seconds", str(budget), "--plugin", slow)
        given_up = rf"^  slow: given up after [0-9.]+ s(, at the end)? of --seconds {budget}$"
        if re.search(given_up, run.stdout, re.M):
            break
    assert re.search(given_up, run.stdout, re.M), run.stdout
    assert "cannot be described" not in run.stdout + run.stderr
    left = [file for file in Path("/proc").glob("[0-9]*/cmdline") if pause in _text(file)]
    assert left == []


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:  # it has ended
        return ""


def test_a_plugin_that_does_not_work_is_listed_with_the_reason(bench, program, tmp_path) -> None:
    broken = program("broken", before="echo no licence >&2; exit 1")
    assert _listed(bench, broken)["reason"].endswith("broken ended with exit code 1: no licence")
    panic = "thread panicked at src/main.rs:7\nindex out of bounds\nnote: RUST_BACKTRACE=1"
    panics = program("panics", before=f"printf '\\033[1m{panic}\\n' >&2; kill -ABRT $$")
    assert _listed(bench, panics)["reason"].endswith(
        "panics ended with signal 6: ?[1mthread panicked at src/main.rs:7 | index out of bounds | "
        "note: RUST_BACKTRACE=1"
    )
    silent = program("silent", after='rm "$4/labels.npy"')
    assert "left no labels.npy" in _listed(bench, silent)["reason"]
    other = tmp_path / "other.py"
    other.write_text("TRAITS = {'sumary': 'typo'}\n")
    assert "did you mean 'summary'?" in _listed(bench, other)["reason"]
