# SPDX-License-Identifier: Apache-2.0
"""One small experiment, and one browser, shared by the tests."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser
import pytest
import synthetic
from bench import Bench
from drawn import Show, figure_of, loaded
from synthetic import Json

from plots.render import Drawing, draw
from tests.support import told_to_skip

# As plots/pool.py does: looking for garbage among all that is loaded takes a tenth of the time.
gc.freeze()
gc.set_threshold(100_000, 50, 50)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--renew-images",
        action="store_true",
        help="write the reference pictures of tests/plots/test_images.py again",
    )


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Browser]:
    """A page of the one browser of all tests; without one they fail, unless asked to skip."""
    program = browser.find()
    if program is None:
        missing = "no Chromium here: tools/setup.sh browser installs it where apt has it"
        if told_to_skip("browser"):
            pytest.skip(missing)
        pytest.fail(f"{missing}; KMEANS_BENCH_SKIP=browser leaves these tests out")
    with browser.Browser(program, tmp_path_factory.mktemp("browser") / "profile") as driver:
        yield driver


@pytest.fixture
def small_experiment() -> Json:
    """Every kind of figure on two variants and four shapes."""
    return json.loads(Path(__file__).with_name("small.json").read_text(encoding="utf-8"))


@pytest.fixture
def bench(tmp_path: Path, small_experiment: Json) -> Bench:
    return Bench(tmp_path, small_experiment)


@pytest.fixture
def data(small_experiment: Json) -> Json:
    return synthetic.result(small_experiment)


@pytest.fixture
def show(tmp_path: Path, data: Json) -> Show:
    """Draws a figure of `data`, as the test has left it."""

    def drawn(kind: str, **changes: Any) -> Drawing:
        result = loaded(tmp_path, data)
        return draw(result, figure_of(result, kind, **changes))

    return drawn
