# SPDX-License-Identifier: Apache-2.0
"""How soon a page of results answers in Chromium, from opening it to the first ranking:

.venv/bin/python tools/page_time.py [results/index.html] [--visits N]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "plots"))

import browser  # noqa: E402

ANSWERED = "performance.getEntriesByName('answered')[0].startTime / 1000"


def seconds_until_answered(page: Path, visits: int) -> list[float]:
    program = browser.find()
    if program is None:
        sys.exit("page_time: no Chromium here; tools/setup.sh browser installs it where apt has it")
    with (
        tempfile.TemporaryDirectory() as folder,
        browser.Browser(program, Path(folder) / "profile") as driver,
    ):
        taken = []
        for _ in range(visits):
            driver.visit(page.resolve().as_uri())
            taken.append(float(driver.run(ANSWERED)))
        return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument(
        "page", type=Path, nargs="?", default=ROOT / "results" / "index.html", help="or a report"
    )
    parser.add_argument("--visits", type=int, default=5)
    options = parser.parse_args()
    if not options.page.is_file():
        sys.exit(f"page_time: {options.page} does not exist: `make index` draws it")
    taken = seconds_until_answered(options.page, options.visits)
    print(
        f"{options.page.name}: answers after {statistics.median(taken):.2f} s "
        f"({min(taken):.2f} to {max(taken):.2f} s, {len(taken)} visits)"
    )


if __name__ == "__main__":
    main()
