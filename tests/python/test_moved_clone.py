# SPDX-License-Identifier: Apache-2.0
"""A clone that was copied or moved: whose files its program reads, and what its set-up does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import PROGRAM, ROOT, captured, lend_ceilings, needs_program

EXPERIMENT = {
    "name": "of-the-copy",
    "title": "Only the copied tree has it",
    "data": {"generator": "uniform", "seed": 3},
    "init": "first",
    "variants": ["cpu_naive"],
    "scales": {
        "quick": {"sweep": {"n": [600], "d": [2], "k": [4]}, "iterations": 3, "processes": 1}
    },
}

VARIANT = '''# SPDX-License-Identifier: Apache-2.0
"""Only the copied tree has it."""
'''


def kmeans(program: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("KMEANS_BENCH_ROOT", "KMEANS_BENCH_CACHE")
    }
    return captured([program, *arguments], cwd=cwd, env=environment)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """As much of a clone as the program reads, with one experiment and one variant more."""
    tree = tmp_path / "copied"
    for name in ("CMakeLists.txt", "VERSION", "datasets/catalogue.json"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    (tree / "implementations").mkdir()
    shutil.copytree(
        ROOT / "implementations" / "python",
        tree / "implementations" / "python",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    (tree / "implementations" / "python" / "python_of_the_copy.py").write_text(VARIANT)
    (tree / "experiments").mkdir()
    (tree / "experiments" / "of-the-copy.json").write_text(json.dumps(EXPERIMENT))
    (tree / "build").mkdir()
    if PROGRAM:
        shutil.copy(PROGRAM, tree / "build" / "kmeans-bench")
    return tree


@needs_program
def test_program_of_a_copied_clone_reads_the_copy(copied: Path, tmp_path: Path) -> None:
    program = copied / "build" / "kmeans-bench"
    planned = kmeans(program, "run", "of-the-copy", "--dry-run", cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr
    assert "python_of_the_copy" in kmeans(program, "list", cwd=tmp_path).stdout
    # And nothing of the tree that it was built from.
    unknown = kmeans(program, "run", "frontier", "--dry-run", cwd=tmp_path)
    assert unknown.returncode == 2
    assert "unknown experiment 'frontier'" in unknown.stderr


@needs_program
def test_its_cache_and_results_are_in_the_copy(copied: Path, tmp_path: Path) -> None:
    program = copied / "build" / "kmeans-bench"
    lend_ceilings(copied / ".cache")
    made = kmeans(program, "run", "of-the-copy", "--keep-environment", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert list((copied / "results").glob("*/of-the-copy.json"))
    assert list((copied / ".cache").glob("uniform-600x2*.npy"))


@needs_program
def test_program_without_any_tree_names_both_places(tmp_path: Path) -> None:
    """Away from its tree, and built from one that is gone: its path is another, of equal length."""
    gone = ("/gone/" + "x" * len(str(ROOT)))[: len(str(ROOT))]
    program = tmp_path / "kmeans-bench"
    program.write_bytes(Path(PROGRAM).read_bytes().replace(str(ROOT).encode(), gone.encode()))
    program.chmod(0o755)
    refused = kmeans(program, "run", "frontier", "--dry-run", cwd=tmp_path)
    assert refused.returncode == 3
    for part in (str(tmp_path), gone, "KMEANS_BENCH_ROOT"):
        assert part in refused.stderr
    listing = kmeans(program, "list", cwd=tmp_path)
    assert listing.returncode == 0
    assert "Python variants: none" in listing.stdout
    assert not Path(gone).exists()


@needs_program
def test_root_that_is_not_a_folder_is_refused(tmp_path: Path) -> None:
    refused = captured(
        [PROGRAM, "run", "frontier", "--dry-run"],
        env={**os.environ, "KMEANS_BENCH_ROOT": str(tmp_path / "nowhere")},
    )
    assert refused.returncode == 3
    assert "KMEANS_BENCH_ROOT is" in refused.stderr


# --- tools/build.sh: a CMake that only writes down how it was called ------------------------------

FAKE_CMAKE = """#!/bin/sh
echo "cmake $*" >>"$CALLS"
case $1 in --preset) mkdir -p build
  printf 'CMAKE_HOME_DIRECTORY:INTERNAL=%s\\n' "$PWD" >build/CMakeCache.txt
  : >build/build.ninja ;;
esac
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    clone = tmp_path / "a clone"
    (clone / "tools").mkdir(parents=True)
    shutil.copy(ROOT / "tools" / "build.sh", clone / "tools" / "build.sh")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cmake").write_text(FAKE_CMAKE)
    (tmp_path / "bin" / "cmake").chmod(0o755)
    return clone


def build(clone: Path) -> tuple[list[str], str]:
    """The calls of CMake, and what the script said."""
    folder = clone.parent
    calls = folder / "calls"
    calls.unlink(missing_ok=True)
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "CALLS": str(calls), "CMAKE_ARGS": ""}
    ran = captured(
        ["bash", "tools/build.sh", "release", "kmeans-bench"], cwd=clone, env=environment
    )
    assert ran.returncode == 0, ran.stderr
    return calls.read_text().splitlines(), ran.stderr


CONFIGURE = "cmake --preset release"
BUILD = "cmake --build build --target kmeans-bench"


def test_configured_clone_is_only_built(clone: Path) -> None:
    assert build(clone)[0] == [CONFIGURE, BUILD]
    assert build(clone) == ([BUILD], "")


@pytest.mark.parametrize("how", ["moved", "copied"])
def test_build_folder_of_another_place_is_made_again(clone: Path, how: str) -> None:
    build(clone)
    (clone / "build" / "object.o").touch()
    other = clone.parent / "another place"
    if how == "moved":
        clone.rename(other)
    else:
        shutil.copytree(clone, other)
    calls, said = build(other)
    assert calls == [CONFIGURE, BUILD]
    assert not (other / "build" / "object.o").exists()
    assert str(clone) in said
    assert "made again" in said
    if how == "copied":
        assert (clone / "build" / "object.o").exists()
    assert build(other) == ([BUILD], "")


def test_build_folder_behind_a_link_is_left_to_the_clone_that_it_belongs_to(clone: Path) -> None:
    build(clone)
    other = clone.parent / "another place"
    shutil.copytree(clone, other, ignore=shutil.ignore_patterns("build"))
    (other / "build").symlink_to(clone / "build")
    assert build(other)[0] == [CONFIGURE, BUILD]
    assert (clone / "build" / "CMakeCache.txt").read_text().endswith(f"{clone}\n")


def test_what_has_come_since_is_looked_for_again(clone: Path) -> None:
    """A package that set-up installed, a .venv, and a GPU where none was in sight."""
    build(clone)
    configured = (clone / "build" / "build.ninja").stat().st_mtime
    (clone / ".setup").mkdir()
    (clone / ".setup" / "installed").touch()
    os.utime(clone / ".setup" / "installed", (configured + 9, configured + 9))
    assert build(clone)[0] == [CONFIGURE, BUILD]
    os.utime(clone / ".setup" / "installed", (configured - 9, configured - 9))
    assert build(clone)[0] == [BUILD]

    # CMake keeps the Python that it found before.
    (clone / ".venv").mkdir()
    (clone / ".venv" / ".requirements").touch()
    os.utime(clone / ".venv" / ".requirements", (configured + 9, configured + 9))
    assert build(clone)[0] == [CONFIGURE + " -U Python_* -U _Python_*", BUILD]
    os.utime(clone / ".venv" / ".requirements", (configured - 9, configured - 9))
    assert build(clone)[0] == [BUILD]

    smi = clone.parent / "bin" / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H200'\n")
    smi.chmod(0o755)
    assert build(clone)[0] == [BUILD]
    (clone / "build" / "left-out.txt").write_text("CUDA: no GPU here, so kernels are ...\n")
    assert build(clone)[0] == [CONFIGURE, BUILD]
    smi.write_text("#!/bin/sh\nexit 9\n")
    assert build(clone)[0] == [BUILD]


def test_clone_seen_through_a_link_is_the_same(clone: Path) -> None:
    build(clone)
    link = clone.parent / "link"
    link.symlink_to(clone)
    (link / "build" / "CMakeCache.txt").write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={link}\n")
    assert build(clone) == ([BUILD], "")
