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
# Of those of about 10 ms; more would have fewer processes in the same time.
MOST_TEN_MILLISECONDS = 64
MOST_FALSE_ALARMS = 0.01
# Of the cells slowed down by so many per cent, this share has to be found: without and with a
# neighbour.
LEAST_FOUND = {10: (0.95, 0.90), 30: (0.99, 0.99)}


def ten_millisecond_keys(result: dict) -> list[str]:
    """Keys of cells whose repetition (T iterations) takes about 10 ms, evenly of all those."""
    keys = [
        cell["key"]
        for cell in result["cells"]
        if cell["status"] == "ok"
        and SHORTEST <= cell["seconds_per_iteration"]["median"] * cell["iterations"] <= LONGEST
    ]
    chosen = min(len(keys), MOST_TEN_MILLISECONDS)
    return [keys[i * len(keys) // chosen] for i in range(chosen)]


def read(file: Path) -> dict:
    return json.loads(file.read_text(encoding="utf-8"))


def timed_cells(comparison: dict) -> list[dict]:
    return [cell for cell in comparison["cells"] if cell["verdict"] != "untimed"]


def verdicts(cells: list[dict]) -> str:
    names = ("slower", "faster", "unclear", "same")
    return ", ".join(f"{sum(c['verdict'] == n for c in cells)} {n}" for n in names)


def processes(cells: list[dict]) -> str:
    counts = [cell[side]["processes"] for cell in cells for side in ("base", "new")]
    return f"{min(counts)} to {max(counts)} processes a side"


def summarise(folder: Path, gates: list[int], neighbour: bool, part: bool) -> list[str]:
    """Prints the rates; returns what misses its bar, one sentence each."""
    misses = []
    equal = timed_cells(read(folder / "same.json"))
    if not equal:
        return ["there are no cells to judge"]
    alarms = [c for c in equal if c["verdict"] in ("slower", "faster")]
    unsteady = sum(bool(c["base"]["unsteady"] or c["new"]["unsteady"]) for c in equal)
    print(f"equal builds:     {len(equal)} cells, {processes(equal)}: {verdicts(equal)}")
    print(f"unsteady:         {unsteady}")
    print(
        f"false alarms:     {len(alarms)} of {len(equal)}, {100 * len(alarms) / len(equal):.2f} %"
        f" (bar: at most {100 * MOST_FALSE_ALARMS:g} %)"
    )
    if len(alarms) > MOST_FALSE_ALARMS * len(equal):
        misses.append("too many false alarms")
    if not part and len(equal) < FEWEST_CELLS:
        misses.append(f"{len(equal)} cells are too few, {FEWEST_CELLS} are wanted")
    for (slowdown, bars), gate in zip(LEAST_FOUND.items(), gates, strict=True):
        slowed = timed_cells(read(folder / f"slower-{slowdown}.json"))
        if not slowed:
            misses.append("there are no slowed cells to judge")
            continue
        found = [c for c in slowed if c["verdict"] == "slower"]
        bar = bars[neighbour]
        print(
            f"{slowdown} % slower:      {len(slowed)} cells of about 10 ms, {processes(slowed)}:"
            f" {verdicts(slowed)}"
        )
        print(
            f"slowdowns found:  {len(found)} of {len(slowed)},"
            f" {100 * len(found) / len(slowed):.1f} % (bar: at least {100 * bar:g} %)"
        )
        if len(found) < bar * len(slowed):
            misses.append(f"too few slowdowns of {slowdown} % found")
        if found and gate != 1:
            misses.append(f"the gate did not fail at a slowdown of {slowdown} %")
        if not part and len(slowed) < FEWEST_TEN_MILLISECONDS:
            misses.append(
                f"{len(slowed)} cells of about 10 ms are too few,"
                f" {FEWEST_TEN_MILLISECONDS} are wanted"
            )
    return misses


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path, help="folder of tools/selftest.sh, or a result file")
    parser.add_argument("--keys", action="store_true", help="print the cells of about 10 ms")
    parser.add_argument(
        "--gates", type=int, nargs=2, default=[1, 1], help="exit status of the gate, 10 and 30 %%"
    )
    parser.add_argument("--neighbour", action="store_true", help="one was running next to it")
    parser.add_argument("--part", action="store_true", help="only some cells were measured")
    arguments = parser.parse_args()
    if arguments.keys:
        keys = ten_millisecond_keys(read(arguments.path))
        if not keys:
            print("no cell takes about 10 ms on this machine", file=sys.stderr)
            return 1
        print("^(" + "|".join(map(re.escape, keys)) + ")$")
        return 0
    misses = summarise(arguments.path, arguments.gates, arguments.neighbour, arguments.part)
    for miss in misses:
        print(f"selftest: {miss}", file=sys.stderr)
    print("Selftest:         " + ("failed" if misses else "passed"))
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
