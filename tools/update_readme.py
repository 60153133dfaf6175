#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what README.md and docs/ must not be typed with: the variant table, numbers and pictures.

    tools/update_readme.py [--check] [--program build/kmeans-bench] [--readme README.md]

The variant table (docs/variants.md) comes from `kmeans-bench list --json`. It holds what is true on
every machine: a backend that was left out of this build keeps the row it has. Without a built
program the table stays as it is, which is said.

Numbers and pictures come from the results that lie in the repository, as tools/readme.json
describes them (tools/readme_numbers.py), and so does results/derived.json (plots/derived.py): after
new results, run this once.

With --check nothing is written, and the exit code is 1 when something would change.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import readme_numbers  # puts the repository on the path

from plots import derived

ROOT = Path(__file__).resolve().parent.parent
VARIANTS = "docs/variants.md"
DERIVED = "results/derived.json"
BEGIN = "<!-- variants:begin -->"
END = "<!-- variants:end -->"
# From plain to elaborate; backends not named here follow in alphabetical order.
READING_ORDER = ("cpu", "eigen", "blas", "openmp", "mpi", "cuda", "nccl")
HEADER = "| backend | exact | others |\n|---|---|---|\n"


def reading_order(backend: str) -> tuple[int, str]:
    known = backend in READING_ORDER
    return (READING_ORDER.index(backend) if known else len(READING_ORDER), backend)


def source_file(backend: str, variant: str) -> str:
    """Where the variant stands, from docs/."""
    folder = ROOT / "implementations" / backend
    found = next((file for file in folder.glob(f"{variant}.*") if file.is_file()), folder)
    return f"../{found.relative_to(ROOT).as_posix()}"


def table_row(backend: str, variants: list[dict]) -> str:
    def linked(exact: bool) -> str:
        names = [one["name"] for one in variants if one["exact"] == exact]
        return ", ".join(f"[`{name}`]({source_file(backend, name)})" for name in names) or "-"

    return f"| {backend} | {linked(True)} | {linked(False)} |"


def kept_rows(readme: str, missing_backends: list[dict]) -> dict[str, str]:
    """Rows of the present table that belong to backends which this build lacks."""
    missing = {backend["name"] for backend in missing_backends}
    rows = {}
    _, _, table = readme.partition(BEGIN)
    for line in table.partition(END)[0].splitlines():
        found = re.match(r"\| (\w+) \| ", line)
        if found and found[1] in missing:
            rows[found[1]] = line
    return rows


def render_table(listing: dict, readme: str) -> str:
    rows = kept_rows(readme, listing.get("missing_backends", []))
    variants = sorted(listing["variants"], key=lambda one: one["name"])
    for backend in {one["backend"] for one in variants}:
        rows[backend] = table_row(backend, [one for one in variants if one["backend"] == backend])
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


def committed_results() -> list[Path]:
    command = ["git", "-C", str(ROOT), "ls-files", "results/*/*.json"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in names.splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, exit 1 if different")
    parser.add_argument("--program", type=Path, help="default: build/kmeans-bench, if it is there")
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    arguments = parser.parse_args()
    blocks = readme_numbers.description()
    documents = readme_numbers.by_document(blocks)
    paths = {name: ROOT / name for name in documents} | {"README.md": arguments.readme}
    paths |= {name: ROOT / name for name in (VARIANTS, DERIVED) if (ROOT / name).exists()}
    old = {name: path.read_text(encoding="utf-8") for name, path in paths.items()}
    new, stale = dict(old), []
    program = arguments.program or ROOT / "build" / "kmeans-bench"
    if VARIANTS in new and (arguments.program or program.exists()):
        table = render_table(listing_of(program), new[VARIANTS])
        new[VARIANTS] = replace_table(new[VARIANTS], table)
        stale += [f"{VARIANTS}: variant table"] if new[VARIANTS] != old[VARIANTS] else []
        new[DERIVED] = derived.ask(committed_results())
        stale += [DERIVED] if new[DERIVED] != old[DERIVED] else []
    else:
        left = f"variant table and {DERIVED} left as they are"
        print(f"{left}, {program.name} is not built", file=sys.stderr)

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
