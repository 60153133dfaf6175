# SPDX-License-Identifier: Apache-2.0
"""Tests do not pass by being skipped: what they need is there, or it is said that it is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import find_program, told_to_skip

#: Files of which a test ran or was skipped.
_ran: set[str] = set()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--ran", metavar="FILE", type=Path, help="append the test files that ran")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _ran.add(report.nodeid.partition("::")[0])


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:  # the whole file
        _ran.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    file = session.config.getoption("--ran")
    if file is not None and not hasattr(session.config, "workerinput"):
        with file.open("a", encoding="utf-8") as ran:
            ran.writelines(f"{name}\n" for name in sorted(_ran))


def pytest_configure(config: pytest.Config) -> None:
    program = find_program()
    if program is not None:
        os.environ["KMEANS_BENCH"] = str(program)
    elif told_to_skip("program"):
        os.environ.pop("KMEANS_BENCH", None)
    else:
        named = os.environ.get("KMEANS_BENCH")
        raise pytest.UsageError(
            (f"KMEANS_BENCH={named} cannot be run" if named else "there is no build/kmeans-bench")
            + ": `make build` builds it, KMEANS_BENCH names another one, and KMEANS_BENCH_SKIP="
            "program leaves out the tests that run it"
        )
