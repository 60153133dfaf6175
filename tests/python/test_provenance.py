# SPDX-License-Identifier: Apache-2.0
"""Which commit a build names (cmake/GitInfo.cmake), and when it says that its tree is another."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT, captured

pytestmark = pytest.mark.skipif(
    shutil.which("cmake") is None or shutil.which("git") is None, reason="needs cmake and git"
)


def git(tree: Path, *arguments: str) -> str:
    # What the environment says of other repositories must not reach this one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(tree), *identity, *arguments]
    return captured(command, env=environment, check=True).stdout.strip()


def write(tree: Path, name: str, text: str = "x\n") -> None:
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).write_text(text, encoding="utf-8")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A committed tree that looks like the suite's from afar."""
    tree = tmp_path / "suite"
    for name in (
        "CMakeLists.txt",
        "docs/page.md",
        "cmake/A.cmake",
        "datasets/a.cpp",
        "experiments/a.json",
        "harness/a.cpp",
        "implementations/cpu/a.cpp",
        "implementations/python/a.py",
        "results/m/a.json",
    ):
        write(tree, name)
    shutil.copy(ROOT / ".gitignore", tree / ".gitignore")
    write(tree, "tools/source_manifest.sh")
    shutil.copy(ROOT / "tools" / "source_manifest.sh", tree / "tools" / "source_manifest.sh")
    git(tree, "init", "--quiet")
    git(tree, "add", "--all", "--force")
    git(tree, "commit", "--quiet", "--message", "all")
    return tree


def info(tree: Path) -> tuple[str, bool, str]:
    """Commit, whether dirty, and what CMake said meanwhile."""
    output = tree.parent / "git_info.inc"
    output.unlink(missing_ok=True)
    script = ROOT / "cmake" / "GitInfo.cmake"
    ran = captured(
        ["cmake", f"-DSOURCE_DIR={tree}", f"-DOUTPUT={output}", "-P", str(script)], check=True
    )
    text = output.read_text(encoding="utf-8")
    commit = re.search(r'KMEANS_GIT_COMMIT "(.*)"', text)[1]
    return commit, re.search(r"KMEANS_GIT_DIRTY (\w+)", text)[1] == "true", ran.stdout + ran.stderr


def test_a_tree_that_git_does_not_trust_is_said_with_the_remedy(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    commit, dirty, said = info(tree)
    assert (commit, dirty) == ("unknown", True)
    assert "dubious ownership" in said
    assert f"git config --global --add safe.directory {tree}" in said
    shutil.copy(ROOT / "tools" / "check.sh", tree / "tools" / "check.sh")
    checked = captured(["bash", "tools/check.sh", "release"], cwd=tree)
    assert checked.returncode == 1
    assert "dubious ownership" in checked.stderr
    assert "make format" not in checked.stderr


@pytest.fixture(params=["git", "manifest"])
def measured_tree(request: pytest.FixtureRequest, tree: Path) -> tuple[Path, str]:
    """The tree with its .git, or a copy without it that carries the list of its sources."""
    head = git(tree, "rev-parse", "HEAD")
    if request.param == "manifest":
        subprocess.run(["bash", "tools/source_manifest.sh"], cwd=tree, check=True)
        shutil.rmtree(tree / ".git")
    return tree, head


def test_committed_tree_is_clean(measured_tree: tuple[Path, str]) -> None:
    tree, head = measured_tree
    assert info(tree)[:2] == (head, False)


@pytest.mark.parametrize(
    "name",
    [
        "implementations/cpu/mine.cpp",
        "implementations/python/mine.py",
        "implementations/new_backend/mine.cu",
        "harness/mine.h",
        "datasets/mine.cpp",
        "experiments/mine.json",
        "experiments/studies/mine.cpp",
        "cmake/Mine.cmake",
    ],
)
def test_unknown_source_makes_the_tree_another(measured_tree: tuple[Path, str], name: str) -> None:
    tree, head = measured_tree
    write(tree, name)
    commit, dirty, said = info(tree)
    assert (commit, dirty) == (head, True)
    assert name in said


@pytest.mark.parametrize("name", ["implementations/cpu/a.cpp", "docs/page.md", "CMakeLists.txt"])
def test_changed_or_missing_file_makes_the_tree_another(
    measured_tree: tuple[Path, str], name: str
) -> None:
    tree, head = measured_tree
    write(tree, name, "y\n")
    assert info(tree)[:2] == (head, True)
    (tree / name).unlink()
    if name != "CMakeLists.txt":  # by which git is asked whether the tree is its own
        assert info(tree)[:2] == (head, True)


@pytest.mark.parametrize(
    "name",
    [
        "implementations/python/__pycache__/a.cpython-311.pyc",
        "results/m/b.json",
        "results/reference-x/b.json",
        "build/generated/a.cpp",
        ".cache/a.npy",
        "notes.txt",
    ],
)
def test_what_is_neither_compiled_nor_loaded_does_not_count(
    measured_tree: tuple[Path, str], name: str
) -> None:
    tree, head = measured_tree
    write(tree, name)
    write(tree, "results/m/a.json", "written by a run\n")
    assert info(tree)[:2] == (head, False)


def test_file_that_git_is_asked_not_to_show_counts(tree: Path) -> None:
    git(tree, "config", "status.showUntrackedFiles", "no")
    write(tree, "implementations/cpu/mine.cpp")
    assert info(tree)[1]


def test_copy_inside_another_repository_is_not_of_its_commit(tree: Path, tmp_path: Path) -> None:
    shutil.rmtree(tree / ".git")
    write(tmp_path, ".gitignore", "/suite\n/git_info.inc\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".gitignore")
    git(tmp_path, "commit", "--quiet", "--message", "something else")
    assert info(tree)[:2] == ("unknown", True)


def test_manifest_is_written_with_a_warning_about_unknown_sources(tree: Path) -> None:
    write(tree, "implementations/cpu/mine.cpp")
    ran = captured(["bash", "tools/source_manifest.sh"], cwd=tree, check=True)
    assert "implementations/cpu/mine.cpp" in ran.stderr
