# SPDX-License-Identifier: Apache-2.0
"""Without the program pytest fails, unless it is asked to leave out what needs it."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support import ROOT, captured


def _collect(**environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only"]
    command.append("tests/plots/test_style.py")
    return captured(command, cwd=ROOT, env=os.environ | environment)


def test_without_the_program_nothing_is_green() -> None:
    run = _collect(KMEANS_BENCH="/absent/kmeans-bench", KMEANS_BENCH_SKIP="")
    assert run.returncode != 0
    assert "KMEANS_BENCH=/absent/kmeans-bench cannot be run" in run.stdout + run.stderr
    assert "KMEANS_BENCH_SKIP=program" in run.stdout + run.stderr


def test_leaving_out_is_possible_where_it_is_said() -> None:
    run = _collect(KMEANS_BENCH="/absent/kmeans-bench", KMEANS_BENCH_SKIP="browser,program")
    assert run.returncode == 0, run.stdout + run.stderr
