#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what README.md and docs/ must not be typed with: the variant table, numbers and pictures.

    tools/update_readme.py [--check] [--program build/kmeans-bench] [--readme README.md]

The variant table (docs/variants.md) comes from `kmeans-bench list --json`. It holds what is true on
every machine: a variant that is not available here, or whose backend was left out of this build,
keeps the row it has. Without a built program the table stays as it is, which is said.

Numbers and pictures come from the results that lie in the repository, as tools/readme.json
describes them (tools/readme_numbers.py): after new results, run this once.

With --check nothing is written, and the exit code is 1 when something would change.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import readme_numbers

ROOT = Path(__file__).resolve().parent.parent
VARIANTS = "docs/variants.md"
BEGIN = "<!-- variants:begin -->"
END = "<!-- variants:end -->"
# From plain to elaborate; backends not named here follow in alphabetical order.
READING_ORDER = ("cpu", "eigen", "blas", "openmp", "mpi", "cuda", "nccl")
HEADER = "| variant | idea | source | precision |\n|---|---|---|---|\n"


def reading_order(key: tuple[str, str]) -> tuple[int, str, str]:
    backend, name = key
    known = backend in READING_ORDER
    return (READING_ORDER.index(backend) if known else len(READING_ORDER), backend, name)


def escape(text: str) -> str:
    """Text that may stand in a table cell."""
    return text.replace("|", "\\|").replace("\n", " ")


def table_row(variant: dict) -> str:
    kinds = [*variant["precisions"], *(["exact"] if variant["exact"] else [])]
    cells = [
        f"`{variant['name']}`",
        escape(variant["summary"]),
        escape(variant["source"]) or "-",
        ", ".join(kinds),
    ]
    return "| " + " | ".join(cells) + " |"


def kept_rows(readme: str, missing_backends: list[dict]) -> dict[tuple[str, str], str]:
    """Rows of the present table that belong to backends which this build lacks."""
    missing = {name: one["name"] for one in missing_backends for name in one["variants"]}
    rows = {}
    _, _, table = readme.partition(BEGIN)
    for line in table.partition(END)[0].splitlines():
        found = re.match(r"\| `(\w+)` \|", line)
        if found and found[1] in missing:
            rows[missing[found[1]], found[1]] = line
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


def listing_of(program: Path) -> dict:
    output = subprocess.run(
        [program, "list", "--json"], check=True, capture_output=True, text=True
    ).stdout
    return json.loads(output)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, exit 1 if different")
    parser.add_argument("--program", type=Path, help="default: build/kmeans-bench, if it is there")
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    arguments = parser.parse_args()
    blocks = readme_numbers.description()
    documents = readme_numbers.by_document(blocks)
    paths = {name: ROOT / name for name in documents} | {"README.md": arguments.readme}
    if (ROOT / VARIANTS).exists():
        paths[VARIANTS] = ROOT / VARIANTS
    old = {name: path.read_text(encoding="utf-8") for name, path in paths.items()}
    new, stale = dict(old), []
    program = arguments.program or ROOT / "build" / "kmeans-bench"
    if VARIANTS in new and (arguments.program or program.exists()):
        table = render_table(listing_of(program), new[VARIANTS])
        new[VARIANTS] = replace_table(new[VARIANTS], table)
        stale += [f"{VARIANTS}: variant table"] if new[VARIANTS] != old[VARIANTS] else []
    else:
        print(f"variant table left as it is, {program.name} is not built", file=sys.stderr)

    machines = readme_numbers.Machines(ROOT / "results")
    folder = ROOT / readme_numbers.PICTURES
    try:
        for name, own in documents.items():
            numbered = readme_numbers.render(new[name], own, machines)
            stale += [f"{name}: numbers"] if numbered != new[name] else []
            new[name] = numbered
        not_drawn = readme_numbers.why_not_drawn()
        pictures = {} if not_drawn else readme_numbers.draw(blocks, machines)
    except readme_numbers.DescriptionError as error:
        print(f"update_readme: {error}", file=sys.stderr)
        return 2
    if not_drawn:
        print(f"pictures not drawn: {not_drawn}", file=sys.stderr)
    else:
        names = readme_numbers.stale_pictures(pictures, folder)
        stale += [f"{readme_numbers.PICTURES / picture}" for picture in names]
    if arguments.check:
        for what in stale:
            print(f"{what} out of date; run tools/update_readme.py", file=sys.stderr)
        return 1 if stale else 0
    for name, text in new.items():
        if text != old[name]:
            paths[name].write_text(text, encoding="utf-8")
    if not not_drawn:
        readme_numbers.write_pictures(pictures, folder)
    for what in stale:
        print(f"{what} rewritten")
    # A README whose numbers are new and whose pictures are old is only half rewritten.
    return 1 if not_drawn else 0


if __name__ == "__main__":
    sys.exit(main())
