# SPDX-License-Identifier: Apache-2.0
"""What tests of every folder share: where the suite is, and which program is tested."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def find_program() -> Path | None:
    """$KMEANS_BENCH, else that of `make build`; None where there is none."""
    named = os.environ.get("KMEANS_BENCH")
    program = Path(named) if named else ROOT / "build" / "kmeans-bench"
    return program.resolve() if os.access(program, os.X_OK) and program.is_file() else None


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
