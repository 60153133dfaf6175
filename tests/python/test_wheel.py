# SPDX-License-Identifier: Apache-2.0
"""sdist and wheel of the library, made and tried by tools/try_wheel.sh."""

from __future__ import annotations

import os
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support import ROOT, captured


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
