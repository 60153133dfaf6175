# SPDX-License-Identifier: Apache-2.0
"""tests/faults/README.md names every fault once, and tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.support import ROOT

PAGE = ROOT / "tests" / "faults" / "README.md"

CPP_TEST = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", re.MULTILINE)
PYTHON_NAME = re.compile(r"^tests/[\w/]+\.py::\w+$")
CPP_NAME = re.compile(r"^\w+\.\w+$")


def _rows() -> list[tuple[int, list[str]]]:
    """Number and cells of each row of the tables."""
    rows = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if re.match(r"\|\s*\d+\s*\|", line):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            rows.append((int(cells[0]), cells))
    return rows


def _cited(cell: str) -> tuple[list[str], list[str]]:
    """C++ and Python tests among the names in backquotes."""
    names = re.findall(r"`([^`]+)`", cell)
    return (
        [name for name in names if CPP_NAME.match(name) and not name.endswith((".py", ".md"))],
        [name for name in names if "::" in name],
    )


@cache
def _cpp_tests() -> set[str]:
    files = [*ROOT.glob("tests/**/*_test.cpp"), *ROOT.glob("tests/faults/**/*.cpp")]
    return {
        f"{suite}.{name}"
        for file in files
        for suite, name in CPP_TEST.findall(file.read_text(encoding="utf-8"))
    }


@cache
def _python_tests(file: Path) -> set[str]:
    """Test functions at the top of a file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_every_fault_is_listed_once_and_in_order() -> None:
    rows = _rows()
    assert [number for number, _ in rows] == list(range(1, len(rows) + 1))
    assert all(len(cells) == 4 and all(cells) for _, cells in rows)


@pytest.mark.parametrize(("number", "cells"), _rows())
def test_every_test_that_is_named_exists(number: int, cells: list[str]) -> None:
    cpp, python = _cited(cells[3])
    assert sorted(set(cpp) - _cpp_tests()) == []
    for name in python:
        assert PYTHON_NAME.match(name), name
        file, function = name.split("::")
        assert (ROOT / file).is_file(), name
        assert function in _python_tests(ROOT / file), name
