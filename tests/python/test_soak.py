# SPDX-License-Identifier: Apache-2.0
"""The soak: two sound rounds pass, and each planted defect is found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import PROGRAM, ROOT, captured, lend_ceilings, needs_program, small_experiment

pytestmark = needs_program

SCALE = {"sweep": {"n": [200], "d": [2], "k": [3]}, "iterations": 2, "min_seconds": 0.001}
EXPERIMENT = small_experiment("tiny", ["cpu_naive", "openmp_exact"], SCALE, init="first")

# Passes everything on to the program, and does harm after the second run.
WRAPPER = """#!/usr/bin/env bash
folder=$(dirname "$0")
"$REAL_PROGRAM" "$@"
status=$?
if [ "$1" = run ]; then
  echo run >>"$folder/runs"
  if [ "$(wc -l <"$folder/runs")" -eq 2 ]; then
    results=$folder/out/results
    {harm}
  fi
fi
exit $status
"""


def soak(tmp_path: Path, harm: str = "") -> tuple[subprocess.CompletedProcess, dict]:
    """Two rounds of two cells; the process, and its summary."""
    experiment = tmp_path / "tiny.json"
    experiment.write_text(json.dumps(EXPERIMENT), encoding="utf-8")
    build = tmp_path / "build"
    build.mkdir()
    wrapper = tmp_path / "build" / "kmeans-bench"
    if harm:
        text = WRAPPER.replace("{harm}", harm).replace('$(dirname "$0")', str(tmp_path))
        wrapper.write_text(text, encoding="utf-8")
        wrapper.chmod(0o755)
    else:
        wrapper.symlink_to(PROGRAM)
    # A cache of its own, since others may fill the common one meanwhile; but what this machine can
    # reach need not be measured again.
    cache = tmp_path / "cache"
    cache.mkdir()
    lend_ceilings(cache)
    environment = os.environ | {
        "BUILD": str(build),
        "REAL_PROGRAM": PROGRAM,
        "KMEANS_BENCH_CACHE": str(cache),
        "SOAK_OUT": str(tmp_path / "out"),
        "EXPERIMENTS": str(experiment),
        "ONLY": "tiny",
    }
    done = captured([sys.executable, "tools/soak.py", "0"], cwd=ROOT, env=environment, timeout=900)
    summary = tmp_path / "out" / "soak.json"
    return done, json.loads(summary.read_text(encoding="utf-8")) if summary.exists() else {}


def test_sound_rounds_pass(tmp_path: Path) -> None:
    done, summary = soak(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing grew, nothing changed" in done.stdout
    assert summary["passed"] is True
    assert [one["cells"] for one in summary["rounds"]] == [2, 2]
    assert all(one["peak_kib"] > 1000 for one in summary["rounds"])
    assert not list((tmp_path / "out" / "tmp").iterdir())


@pytest.mark.parametrize(
    ("harm", "finding"),
    [
        (
            """sed -i -E 's/("label_hash": ")[0-9a-f]{4}/\\1beef/' "$results/tiny.json" """,
            "another answer",
        ),
        (
            """sed -i 's/"status": "ok"/"status": "error"/' "$results/tiny.json" """,
            "was ok, is error",
        ),
        ("""echo x >"$results/more.txt" """, "results: 1 new files, such as more.txt"),
        ("""head -c 300000 /dev/zero >"$KMEANS_BENCH_CACHE/x" """, "cache: 1 new files"),
        ("""mkdir "$TMPDIR/kmeans-bench-left" """, "1 temporary files left"),
        ("""sleep 600 </dev/null >/dev/null 2>&1 & """, " was left"),
        ("""status=9""", "exit status 9"),
    ],
    ids=["hash", "status", "results", "cache", "temporary", "process", "exit"],
)
def test_planted_defects_are_found(tmp_path: Path, harm: str, finding: str) -> None:
    done, summary = soak(tmp_path, harm)
    assert done.returncode == 1, done.stdout + done.stderr
    assert finding in done.stdout
    assert summary["passed"] is False
    assert summary["rounds"][0]["findings"] == []
    assert any(finding in text for text in summary["rounds"][1]["findings"])
