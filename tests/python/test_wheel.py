# SPDX-License-Identifier: Apache-2.0
"""sdist and wheel of the library, made and tried by tools/try_wheel.sh."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support import ROOT, captured, find_program

PROGRAM = find_program()
BUILD = PROGRAM.parent if PROGRAM else ROOT / "build"


def test_sdist_and_wheel_are_made_and_tried_in_a_fresh_environment(tmp_path: Path) -> None:
    """For the instructions at hand and without the part for GPUs, which take minutes to compile."""
    pytest.importorskip("scikit_build_core")
    pytest.importorskip("nanobind")
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        pytest.skip("Python's headers are not installed")
    options = "-DKMEANS_CUDA=OFF -DKMEANS_LIBRARY_LEVELS=native -DKMEANS_SOURCES_AT_ONCE=24"
    words = [ROOT / "tools" / "try_wheel.sh", tmp_path, "tests/python/test_library_docs.py"]
    done = captured(list(map(str, words)), env={**os.environ, "CMAKE_ARGS": options})
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout
    assert "CUDA was switched off" in said
    assert f"in {tmp_path}/fresh/lib/python3" in said
    assert "GPU:           none: the library has no part for GPUs: CUDA was switched off" in said
    assert " passed" in said.splitlines()[-1]
    (sdist,) = tmp_path.glob("kmeans_exact-*.tar.gz")
    with tarfile.open(sdist) as archive:
        folders = {name.split("/")[1] for name in archive.getnames()}
    assert folders >= {"CMakeLists.txt", "LICENSE", "README.md", "VERSION", "library"}
    assert not folders & {"build", "results", "tests", ".github"}
    (wheel,) = tmp_path.glob("kmeans_exact-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {Path(name).name for name in archive.namelist()}
    assert names >= {"__init__.py", "_engine.pyi", "py.typed", "LICENSE"}
    assert any(name.startswith("_engine.") and name.endswith(".so") for name in names)


def test_a_wheel_of_a_build_with_cuda_holds_the_part_for_gpus(tmp_path: Path) -> None:
    """What a wheel takes from this build, since compiling it once more would take minutes."""
    if not list((BUILD / "library").rglob("libkmeans_exact_gpu.so")):
        pytest.skip("this build has no part for GPUs (see the first lines of its configuration)")
    words = ["cmake", "--install", BUILD, "--component", "python", "--prefix", tmp_path]
    if not list((BUILD / "library" / "python").rglob("_engine.*.so")):
        pytest.skip("this build has no Python package")
    done = captured(list(map(str, words)))
    assert done.returncode == 0, done.stderr
    package = tmp_path / "kmeans_exact"
    shutil.copytree(ROOT / "library" / "python" / "kmeans_exact", package, dirs_exist_ok=True)
    said = captured(
        [sys.executable, "-m", "kmeans_exact"],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if not k.startswith("KMEANS_EXACT_")}
        | {"PYTHONPATH": str(tmp_path)},
    )
    assert said.returncode == 0, said.stderr
    assert f"in {package}" in said.stdout
    # Loaded, or it could not say what it was compiled for.
    assert f"part for GPUs: {package}/libkmeans_exact_gpu.so, for compute capability" in said.stdout
