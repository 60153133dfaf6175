#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints one short line a GPU cell of result files: tools/gpu_summary.py FILE..."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any


def is_gpu(cell: dict[str, Any]) -> bool:
    return cell["backend"] == "cuda" or cell.get("gpu") is not None


def line(cell: dict[str, Any]) -> str:
    shape = f"{cell['n']:>9} {cell['d']:>4} {cell['k']:>6}"
    name = f"{cell['variant']} {cell['precision']}"
    if cell["status"] != "ok":
        return f"  {shape}  {name:<32} {cell['status']}: {cell['reason'][:90]}"
    times = cell["seconds_per_iteration"]
    device = cell.get("device_seconds_per_iteration")
    by_events = f"{1e3 * device['median']:>10.4f}" if device else f"{'':>10}"
    # Files of version 1 have one list for both.
    found = [*cell.get("unsteady", ()), *cell.get("noted", cell.get("suspect", ()))]
    doubt = f"  ! {found[0][:60]}" if found else ""
    if cell.get("unsteady"):  # no one number speaks for it
        span = f"{1e3 * times['min']:.4g} to {1e3 * times['max']:.4g} ms"
        return f"  {shape}  {name:<32} unsteady, {span}{doubt}"
    return f"  {shape}  {name:<32} {1e3 * times['median']:>10.4f} {by_events} ms{doubt}"


def agreement(cells: list[dict[str, Any]]) -> str:
    """Do the exact variants give the same bits at every shape where two of them ran?"""
    shapes: dict[tuple[Any, ...], set[tuple[str, str]]] = {}
    variants: dict[tuple[Any, ...], int] = Counter()
    for cell in cells:
        if cell["exact"] and cell["status"] == "ok":
            shape = (cell["dataset"], cell["k"], cell["iterations"])
            shapes.setdefault(shape, set()).add((cell["label_hash"], cell["centroid_hash"]))
            variants[shape] += 1
    compared = [shape for shape in shapes if variants[shape] > 1]
    equal = sum(len(shapes[shape]) == 1 for shape in compared)
    return f"exact variants: equal bits at {equal} of {len(compared)} shapes" if compared else ""


def main(files: list[str]) -> int:
    for file in files:
        result = json.loads(Path(file).read_text(encoding="utf-8"))
        suite = result["context"]["suite"]
        cells = [cell for cell in result["cells"] if is_gpu(cell)]
        counts = Counter(cell["status"] for cell in result["cells"])
        print(
            f"{result['experiment']}: {dict(counts)}, commit {suite['git_commit'][:12]}"
            f"{' (changed)' if suite['git_dirty'] else ''}"
        )
        if text := agreement(result["cells"]):
            print(f"  {text}")
        for cell in sorted(cells, key=lambda c: (c["d"] * c["k"] * c["n"], c["n"], c["variant"])):
            print(line(cell))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
