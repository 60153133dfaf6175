# SPDX-License-Identifier: Apache-2.0
"""What tools/selftest.sh found: the rate of false alarms and of slowdowns found, against bars."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

# Seconds of a repetition that count as "about 10 ms".
SHORTEST, LONGEST = 0.005, 0.020
FEWEST_CELLS, FEWEST_TEN_MILLISECONDS = 200, 60
MOST_FALSE_ALARMS, LEAST_FOUND = 0.01, 0.95


def ten_millisecond_keys(result: dict) -> list[str]:
    """Keys of the cells whose repetition (T iterations) takes about 10 ms."""
    return [
        cell["key"]
        for cell in result["cells"]
        if cell["status"] == "ok"
        and SHORTEST <= cell["seconds_per_iteration"]["median"] * cell["iterations"] <= LONGEST
    ]


def read(file: Path) -> dict:
    return json.loads(file.read_text(encoding="utf-8"))


def timed_cells(comparison: dict) -> list[dict]:
    return [cell for cell in comparison["cells"] if cell["verdict"] != "untimed"]


def verdicts(cells: list[dict]) -> str:
    names = ("slower", "faster", "unclear", "same")
    return ", ".join(f"{sum(c['verdict'] == n for c in cells)} {n}" for n in names)


def summarise(folder: Path, gate: int, part: bool) -> list[str]:
    """Prints the rates; returns what misses its bar, one sentence each."""
    misses = []
    equal = timed_cells(read(folder / "same.json"))
    slowed = timed_cells(read(folder / "slower.json"))
    alarms = [c for c in equal if c["verdict"] in ("slower", "faster")]
    found = [c for c in slowed if c["verdict"] == "slower"]
    unsteady = sum(bool(c["base"]["unsteady"] or c["new"]["unsteady"]) for c in equal)
    processes = sorted({c[s]["processes"] for c in equal for s in ("base", "new")})
    print(f"processes a cell: {', '.join(map(str, processes))}")
    print(f"equal builds:     {len(equal)} cells ({unsteady} unsteady): {verdicts(equal)}")
    print(f"10 % slower:      {len(slowed)} cells of about 10 ms: {verdicts(slowed)}")
    if not equal or not slowed:
        return ["there are no cells to judge"]
    print(
        f"false alarms:     {len(alarms)} of {len(equal)}, {100 * len(alarms) / len(equal):.2f} %"
        f" (bar: at most {100 * MOST_FALSE_ALARMS:g} %)"
    )
    print(
        f"slowdowns found:  {len(found)} of {len(slowed)}, {100 * len(found) / len(slowed):.1f} %"
        f" (bar: at least {100 * LEAST_FOUND:g} %)"
    )
    if len(alarms) > MOST_FALSE_ALARMS * len(equal):
        misses.append("too many false alarms")
    if len(found) < LEAST_FOUND * len(slowed):
        misses.append("too few slowdowns found")
    if found and gate == 0:
        misses.append("the gate passed a slowdown")
    if not part and len(equal) < FEWEST_CELLS:
        misses.append(f"{len(equal)} cells are too few, {FEWEST_CELLS} are wanted")
    if not part and len(slowed) < FEWEST_TEN_MILLISECONDS:
        misses.append(
            f"{len(slowed)} cells of about 10 ms are too few, {FEWEST_TEN_MILLISECONDS} are wanted"
        )
    return misses


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path, help="folder of tools/selftest.sh, or a result file")
    parser.add_argument("--keys", action="store_true", help="print the cells of about 10 ms")
    parser.add_argument("--gate", type=int, default=1, help="exit status of the gate when slowed")
    parser.add_argument("--part", action="store_true", help="only some cells were measured")
    arguments = parser.parse_args()
    if arguments.keys:
        keys = ten_millisecond_keys(read(arguments.path))
        if not keys:
            print("no cell takes about 10 ms on this machine", file=sys.stderr)
            return 1
        print("^(" + "|".join(map(re.escape, keys)) + ")$")
        return 0
    misses = summarise(arguments.path, arguments.gate, arguments.part)
    for miss in misses:
        print(f"selftest: {miss}", file=sys.stderr)
    print("Selftest:         " + ("failed" if misses else "passed"))
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
