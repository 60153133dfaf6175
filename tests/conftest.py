# SPDX-License-Identifier: Apache-2.0
"""Tests do not pass by being skipped: what they need is there, or it is said that it is not."""

from __future__ import annotations

import os

import pytest

from tests.support import find_program, told_to_skip


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
