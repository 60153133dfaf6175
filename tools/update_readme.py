#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rewrites the variant table of README.md from `kmeans-bench list --json`.

    tools/update_readme.py [--check] [--program build/kmeans-bench] [--readme README.md]

The table holds what is true on every machine: a variant that is not available here, or whose
backend was left out of this build, keeps the row it has. With --check nothing is written, and the
exit code is 1 when the table would change.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

BEGIN = "<!-- variants:begin -->"
END = "<!-- variants:end -->"
# From plain to elaborate; backends not named here follow in alphabetical order.
READING_ORDER = ("cpu", "eigen", "blas", "openmp", "cuda")
HEADER = "| backend | variant | idea | source | precision | exact |\n|---|---|---|---|---|---|\n"


def reading_order(key: tuple[str, str]) -> tuple[int, str, str]:
    backend, name = key
    known = backend in READING_ORDER
    return (READING_ORDER.index(backend) if known else len(READING_ORDER), backend, name)


def escape(text: str) -> str:
    """Text that may stand in a table cell."""
    return text.replace("|", "\\|").replace("\n", " ")


def table_row(variant: dict) -> str:
    cells = [
        variant["backend"],
        f"`{variant['name']}`",
        escape(variant["summary"]),
        escape(variant["source"]) or "-",
        ", ".join(variant["precisions"]),
        "yes" if variant["exact"] else "-",
    ]
    return "| " + " | ".join(cells) + " |"


def kept_rows(readme: str, missing_backends: list[dict]) -> dict[tuple[str, str], str]:
    """Rows of the present table that belong to backends which this build lacks."""
    missing = {backend["name"] for backend in missing_backends}
    rows = {}
    for line in readme.splitlines():
        found = re.match(r"\| (\w+) \| `(\w+)` \|", line)
        if found and found[1] in missing:
            rows[found[1], found[2]] = line
    return rows


def render_table(listing: dict, readme: str) -> str:
    rows = kept_rows(readme, listing.get("missing_backends", []))
    for variant in listing["variants"]:
        rows[variant["backend"], variant["name"]] = table_row(variant)
    return HEADER + "".join(rows[key] + "\n" for key in sorted(rows, key=reading_order))


def replace_table(readme: str, table: str) -> str:
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"update_readme: the markers {BEGIN} and {END} are missing")
    return f"{before}{BEGIN}\n{table}{END}{after}"


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, exit 1 if different")
    parser.add_argument("--program", type=Path, default=root / "build" / "kmeans-bench")
    parser.add_argument("--readme", type=Path, default=root / "README.md")
    arguments = parser.parse_args()

    output = subprocess.run(
        [arguments.program, "list", "--json"], check=True, capture_output=True, text=True
    ).stdout
    readme = arguments.readme.read_text(encoding="utf-8")
    updated = replace_table(readme, render_table(json.loads(output), readme))
    if updated == readme:
        return 0
    if arguments.check:
        print(
            f"{arguments.readme.name}: variant table out of date; run tools/update_readme.py",
            file=sys.stderr,
        )
        return 1
    arguments.readme.write_text(updated, encoding="utf-8")
    print(f"{arguments.readme.name}: variant table rewritten")
    return 0


if __name__ == "__main__":
    sys.exit(main())
