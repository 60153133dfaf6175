# SPDX-License-Identifier: Apache-2.0
"""What tests of every folder share: where the suite is, and which program is tested."""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


#: For mpirun: a launcher refuses to start more ranks than processors, or any as root, unless told.
MPI_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "ASAN_OPTIONS": "detect_leaks=0",  # MPI's own
}


def find_program() -> Path | None:
    """$KMEANS_BENCH, else that of `make build`; None where there is none."""
    named = os.environ.get("KMEANS_BENCH")
    program = Path(named) if named else ROOT / "build" / "kmeans-bench"
    return program.resolve() if os.access(program, os.X_OK) and program.is_file() else None


PROGRAM = str(find_program() or "")
needs_program = pytest.mark.skipif(
    not PROGRAM, reason="there is no program, and KMEANS_BENCH_SKIP says to leave it out"
)


def captured(command: Sequence[object], **options: Any) -> subprocess.CompletedProcess[str]:
    """A program that ran, with what it said as text; options are those of subprocess.run."""
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, **options)


def kmeans_bench(
    *arguments: object, status: int = 0, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs the program, which must end with this exit status."""
    run = captured([PROGRAM, *arguments], env={**os.environ, **variables})
    assert run.returncode == status, run.stdout + run.stderr
    return run


def available_here(*names: str) -> list[str]:
    """Those of these variants that can run on this machine."""
    listed = json.loads(kmeans_bench("list", "--json").stdout)["variants"]
    return [v["name"] for v in listed if v["name"] in names and v["available"]]


def says(text: str, *parts: str) -> bool:
    """Whether the text holds these parts in this order. Other words may stand between them."""
    return (
        re.search(
            ".*".join(map(re.escape, parts)), text.replace("\N{MULTIPLICATION SIGN}", "x"), re.S
        )
        is not None
    )


def told_to_skip(what: str) -> bool:
    """Is `what` ("program", "browser") in $KMEANS_BENCH_SKIP, a list with commas?"""
    return what in os.environ.get("KMEANS_BENCH_SKIP", "").split(",")


def lend_ceilings(cache: Path) -> Path:
    """Gives a data cache the ceilings that were measured before, which spares each run ten seconds.

    tools/test.sh measures them; whether they belong to this machine and build is for the program to
    judge.
    """
    known = Path(os.environ.get("KMEANS_BENCH_CACHE") or ROOT / ".cache") / "machine"
    if known.is_dir():
        shutil.copytree(known, cache / "machine")
    return cache


def set_times(cell: dict, seconds: float) -> None:
    """Steady times around `seconds`, in six processes of two repetitions."""
    samples = [[seconds * (1 + 0.001 * p), seconds * (1.0005 + 0.001 * p)] for p in range(6)]
    median = statistics.median(statistics.median(process) for process in samples)
    cell["samples_seconds_per_iteration"] = samples
    cell["pace"] = None
    cell["seconds_per_iteration"] = {"median": median}
    cell |= {"processes": 6, "repetitions": 2, "stages": {}}
    for derived in ("gflops", "gflops_2nkd", "gbytes_per_second", "whole_call_seconds"):
        cell.pop(derived, None)
    cell["unsteady"] = []
    cell["noted"] = []


def small_experiment(name: str, variants: list, quick: dict, **changes: object) -> dict:
    """An experiment of milliseconds; `quick` is its scale, next to what makes it short."""
    short = {"iterations": 3, "processes": 1, "repetitions": 1, "min_seconds": 0}
    return {
        "name": name,
        "title": name,
        "data": {"generator": "uniform", "seed": 1},
        "init": "random:1",
        "variants": variants,
        "scales": {"quick": short | quick},
        **changes,
    }
