# SPDX-License-Identifier: Apache-2.0
"""Points that memory need not hold: read block by block, with the bits of all at once."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.support import PROGRAM, captured, needs_program

MIB = 1 << 20

pytestmark = needs_program


def _fit(
    file: Path, *options: str, limit: int | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    def limited() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    return captured(
        [PROGRAM, "fit", str(file), "-k", "3", "--threads", "2", "--json", *options],
        env={**os.environ, **environment},
        preexec_fn=limited,
    )


def _answer(run: subprocess.CompletedProcess[str]) -> dict[str, object]:
    assert run.returncode == 0, run.stdout + run.stderr
    summary = json.loads(run.stdout.splitlines()[-1])
    return {key: summary[key] for key in ("iterations", "inertia", "label_hash")}


@pytest.mark.parametrize("rows", [1, 7, 119, 120, 500])
def test_whatever_the_blocks_the_answer_is_that_of_all_points(tmp_path: Path, rows: int) -> None:
    file = tmp_path / "points.npy"
    np.save(file, np.random.default_rng(3).normal(size=(120, 5)).astype(np.float32))
    alone = _answer(_fit(file, "--variant", "openmp_exact"))
    blocks = {"KMEANS_BENCH_BLOCK_BYTES": str(rows * 5 * 4)}
    assert _answer(_fit(file, "--variant", "openmp_blocks", **blocks)) == alone


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """192 MiB of points, most of them zeros that take no room on the disk."""
    file = tmp_path_factory.mktemp("large") / "points.npy"
    points = np.lib.format.open_memmap(file, "w+", np.float32, (48 * MIB // 8, 8))
    points[:1000] = np.random.default_rng(4).normal(size=(1000, 8))
    points[-1000:] = 5
    points.flush()
    return file


def test_fit_says_that_it_takes_points_by_blocks_where_memory_does_not_hold_a_copy(
    large: Path,
) -> None:
    options = ("--init", "first", "--iterations", "1")
    whole = _fit(large, *options)
    assert "block by block" not in whole.stderr
    # Between too little for the mapped file and enough for a copy, next to the program itself.
    for limit in range(400, 1000, 10):
        found = _fit(large, *options, limit=limit * MIB, KMEANS_BENCH_BLOCK_BYTES=str(8 * MIB))
        if found.returncode == 0:
            break
    else:
        pytest.skip("this build takes more addresses than are tried")
    assert _answer(found) == _answer(whole)
    assert "openmp_best needs" in found.stderr
    assert "openmp_blocks takes the points" in found.stderr
    assert json.loads(found.stdout.splitlines()[-1])["variant"] == "openmp_blocks"
