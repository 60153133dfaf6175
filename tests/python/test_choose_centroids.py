# SPDX-License-Identifier: Apache-2.0
"""datasets/choose_centroids.py: first centroids of libraries, and a library that is missing."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import ROOT, captured

SCRIPT = ROOT / "datasets" / "choose_centroids.py"
N, D, K, SEEDS = 400, 3, 5, 2


@pytest.fixture
def points() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(N, D)).astype(np.float32)


def choose(folder: Path, points: np.ndarray, way: str, **environment: str) -> Any:
    """The finished process; centroids and report are in the folder."""
    np.save(folder / "points.npy", points)
    options = {"way": way, "k": K, "seeds": SEEDS, "repeats": 3, "threads": 1}
    options |= {"out": folder / "centroids.npy", "report": folder / "report.json"}
    words = [str(word) for key, value in options.items() for word in (f"--{key}", value)]
    return captured(
        [sys.executable, SCRIPT, folder / "points.npy", *words], env=os.environ | environment
    )


@pytest.mark.parametrize(
    ("way", "library"),
    [
        ("scikit-learn-greedy", "scikit-learn"),
        ("faiss-kmeans++", "faiss-cpu"),
        ("faiss-afk-mc2", "faiss-cpu"),
    ],
)
def test_a_library_chooses_rows_and_says_how_long_it_took(
    tmp_path: Path, points: np.ndarray, way: str, library: str
) -> None:
    pytest.importorskip("sklearn" if library == "scikit-learn" else "faiss")
    first = choose(tmp_path, points, way)
    assert first.returncode == 0, first.stderr
    chosen = np.load(tmp_path / "centroids.npy")
    assert chosen.shape == (SEEDS * K, D)
    assert chosen.dtype == np.float32
    rows = {row.tobytes() for row in points}
    for start in chosen.reshape(SEEDS, K, D):
        assert len({row.tobytes() for row in start} & rows) == K
    assert not np.array_equal(chosen[:K], chosen[K:])
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["library"].startswith(f"{library} ")
    assert np.shape(report["seconds"]) == (SEEDS, 3)
    assert np.min(report["seconds"]) > 0
    assert choose(tmp_path, points, way).returncode == 0
    assert np.array_equal(np.load(tmp_path / "centroids.npy"), chosen)


@pytest.mark.parametrize(
    ("way", "module"),
    [
        ("scikit-learn-greedy", "sklearn"),
        ("faiss-kmeans++", "faiss"),
        ("faiss-afk-mc2", "faiss"),
        ("cuvs-kmeans||", "cuvs"),
    ],
)
def test_a_missing_library_is_named_and_nothing_is_written(
    tmp_path: Path, points: np.ndarray, way: str, module: str
) -> None:
    for name in (module, "rmm", "torch"):  # the last two come before cuVS
        there = "" if name != module else "raise ImportError('planted: no such library')\n"
        if name == module or way.startswith("cuvs"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "__init__.py").write_text(there)
    (tmp_path / "rmm").mkdir(exist_ok=True)
    (tmp_path / "rmm" / "mr.py").write_text("")
    found = choose(tmp_path, points, way, PYTHONPATH=str(tmp_path))
    assert found.returncode == 3
    assert found.stderr.splitlines()[-1] == "planted: no such library"
    assert not (tmp_path / "centroids.npy").exists()
    assert not (tmp_path / "report.json").exists()
