# SPDX-License-Identifier: Apache-2.0
"""Cells of points that memory does not hold: read from their file in every iteration."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import ROOT, captured

#: Of 40 000 x 8 points, 1.25 MiB: with small blocks everything next to them fits, they do not.
SMALL = {"KMEANS_BENCH_MEMORY": "1500 KiB", "KMEANS_BENCH_BLOCK_BYTES": "65536"}
SHAPE = {"n": [40_000], "d": [8], "k": [5]}
POINTS = 40_000 * 8 * 4


@pytest.fixture
def two_variants(write, experiment):
    """An experiment of openmp_blocks and openmp_exact, on generated points or a file's."""

    def described(data: dict[str, Any] | None = None) -> Path:
        description = experiment(
            variants=[{"variant": v, "threads": 2} for v in ("openmp_blocks", "openmp_exact")]
        )
        quick = description["scales"]["quick"]
        quick.update({"sweep": SHAPE, "max_seconds": 0.4})
        if data is not None:
            description["data"] = data
            quick["sweep"] = {"k": [5]}
        return write(description)

    return described


def _cells(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {cell["variant"]: cell for cell in result["cells"]}


def _check_streamed(cell: dict[str, Any], equal: dict[str, Any]) -> None:
    """A verified cell from the file, with the bits of one in memory."""
    assert (cell["status"], equal["status"]) == ("ok", "ok")
    for key in ("label_hash", "centroid_hash", "inertia"):
        assert cell[key] == equal[key]
    checks = {check["name"]: check["passed"] for check in cell["verification"]["checks"]}
    assert checks["inertia on the exact trajectory"]
    assert checks["last iteration: labels exact"]
    assert checks["last iteration: centroids exact"]
    assert all(checks.values())
    streamed = cell["streamed"]
    assert streamed["bytes_per_iteration"] == POINTS
    assert streamed["disk_gbytes_per_second"] > 0
    rate = POINTS / cell["seconds_per_iteration"]["median"] * 1e-9
    assert streamed["gbytes_per_second"] == pytest.approx(rate)
    assert streamed["share_of_disk"] == pytest.approx(rate / streamed["disk_gbytes_per_second"])
    assert "points read" in cell["library"]
    assert "read" in cell["stages"]


def test_generated_points_beyond_memory_are_read_from_the_cache(
    bench, two_variants, tmp_path: Path
) -> None:
    file = two_variants()
    beyond = bench.measure(file, tmp_path / "beyond", environment=SMALL)
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(beyond, json.loads((ROOT / "results" / "schema.json").read_text()))
    cells = _cells(beyond)
    assert cells["openmp_exact"]["status"] == "skipped"
    assert "of memory, has 1.46 MiB" in cells["openmp_exact"]["reason"]
    within = _cells(bench.measure(file, tmp_path / "within"))
    assert "streamed" not in within["openmp_blocks"]
    assert within["openmp_blocks"]["label_hash"] == within["openmp_exact"]["label_hash"]
    _check_streamed(cells["openmp_blocks"], within["openmp_exact"])
    # A finished run has nothing to do again.
    again = bench.measure(file, tmp_path / "beyond", "--resume", environment=SMALL)
    assert again["cells"] == beyond["cells"]


def test_a_npy_file_beyond_memory_is_read_where_it_lies(
    bench, two_variants, tmp_path: Path
) -> None:
    points = tmp_path / "points.npy"
    np.save(points, np.random.default_rng(2).normal(size=(40_000, 8)).astype(np.float32))
    file = two_variants({"file": str(points)})
    before = set(bench.cache.glob("points-*.npy"))
    beyond = _cells(bench.measure(file, tmp_path / "beyond", environment=SMALL))
    assert set(bench.cache.glob("points-*.npy")) == before
    _check_streamed(
        beyond["openmp_blocks"], _cells(bench.measure(file, tmp_path / "within"))["openmp_exact"]
    )
    # Cut short: the file itself is refused, whatever memory there is.
    with points.open("r+b") as stream:
        stream.truncate(POINTS // 2)
    refused = bench.refusal("run", file, "--out", tmp_path / "cut", environment=SMALL)
    assert "points.npy: is cut short: " in refused


def test_what_streams_is_skipped_where_labels_do_not_fit_either(
    bench, two_variants, tmp_path: Path
) -> None:
    small = {**SMALL, "KMEANS_BENCH_MEMORY": "300KiB"}
    cells = _cells(bench.measure(two_variants(), tmp_path / "out", environment=small))
    for cell in cells.values():
        assert cell["status"] == "skipped"
        assert "of memory, has 300 KiB" in cell["reason"]


@pytest.mark.parametrize("variable", ["KMEANS_BENCH_MEMORY", "KMEANS_BENCH_GPU_MEMORY"])
@pytest.mark.parametrize("amount", ["lots", "-1", "8 GB", "1e30"])
def test_memory_that_is_not_an_amount_is_refused(
    bench, two_variants, variable: str, amount: str
) -> None:
    message = bench.refusal("run", two_variants(), "--dry-run", environment={variable: amount})
    assert f"{variable}='{amount}' is not an amount of memory" in message
    assert "8GiB" in message


def test_a_full_disk_while_points_are_made_leaves_nothing(
    bench, two_variants, tmp_path: Path
) -> None:
    changes = {**SMALL, **bench.other_cache(tmp_path / "cache")}
    file = two_variants()
    limit = POINTS // 2
    run = captured(
        [bench.program, "run", str(file), "--out", str(tmp_path / "out")],
        env=bench.environment(changes),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert run.returncode == 5, run.stderr
    assert "File too large" in run.stderr
    left = [
        f.name for f in (tmp_path / "cache").rglob("*") if f.suffix == ".npy" or "tmp" in f.name
    ]
    assert left == []
    # With room it goes on as if nothing had been.
    assert _cells(bench.measure(file, tmp_path / "out", environment=changes))[
        "openmp_blocks"
    ]["status"] == "ok"  # fmt: skip


@pytest.mark.parametrize("how", ["written", "cut"])
def test_a_file_that_changes_while_fit_reads_it_is_an_error(
    bench, tmp_path: Path, how: str
) -> None:
    points = tmp_path / "points.npy"
    np.save(points, np.random.default_rng(2).normal(size=(40_000, 8)).astype(np.float32))
    words = ["-k", "5", "--init", "first", "--iterations", "100000"]
    run = subprocess.Popen(
        [bench.program, "fit", str(points), *words, "--variant", "openmp_blocks", "--json"],
        env=bench.environment(SMALL),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    guard = threading.Timer(60, run.kill)
    guard.start()
    try:
        assert run.stdout is not None
        assert json.loads(run.stdout.readline())["iteration"] == 1
        if how == "written":
            with points.open("r+b") as stream:
                stream.seek(-4, os.SEEK_END)
                stream.write(b"\0\0\0\0")
        else:
            os.truncate(points, POINTS // 2)
        _, errors = run.communicate()
    finally:
        guard.cancel()
        run.kill()
    assert run.returncode in (2, 3), errors
    assert "unexpected" not in errors
    said = [f"{points}, which is read block by block, was changed meanwhile"]
    if how == "cut":
        said += ["was cut short meanwhile", "a mapped file has lost bytes while it was read"]
    assert any(text in errors for text in said)
