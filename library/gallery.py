#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Three scripts for scikit-learn (examples/sklearn), as they are and with one import swapped.

    library/gallery.py [--runs 3] [--only colours] [--device cpu]

Takes the installed package, or that of the build folder on PYTHONPATH (build/library/python). Each
run is a process of its own; the two take turns. Times are medians, and hold what the first call of
a process takes: on a GPU, CUDA's start. Inertias are those of the first run.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1] / "examples" / "sklearn"
IMPORT = "from sklearn.cluster import KMeans\n"
SWAPPED = {
    "cpu": "from kmeans_exact import KMeans\n",
    "gpu": "import functools\nimport kmeans_exact\n"
    'KMeans = functools.partial(kmeans_exact.KMeans, device="gpu")\n',
}
NAMES = ("scikit-learn", "kmeans_exact")
ROW = re.compile(r"(\w+): ([0-9.e+]+)")


def source(script: Path, which: int, device: str) -> str:
    """The script, whose one line is another for ours."""
    text = script.read_text(encoding="utf-8")
    if text.count(IMPORT) != 1:
        raise ValueError(f"{script} does not have the line {IMPORT!r} once")
    return text.replace(IMPORT, SWAPPED[device]) if which == 1 else text


def run(script: Path, which: int, device: str) -> dict[str, dict[str, float]]:
    """What it prints: numbers by name, of each of its lines by the line's first words."""
    words = [sys.executable, "-c", source(script, which, device)]
    said = subprocess.run(words, capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise RuntimeError(f"{script} with {NAMES[which]}:\n{said.stderr}")
    return {
        line.split(", ")[0]: {name: float(number) for name, number in ROW.findall(line)}
        for line in said.stdout.splitlines()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="One import swapped in three scripts")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="", help="a script's name, without .py")
    parser.add_argument("--device", choices=sorted(SWAPPED), default="cpu", help="of ours")
    options = parser.parse_args()
    print(f"{'':36}{NAMES[0]:>14}{NAMES[1]:>14}{'ratio':>8}")
    for script in sorted(SCRIPTS.glob(f"{options.only or '*'}.py")):
        runs: tuple[list, list] = ([], [])
        for _ in range(options.runs):
            for which in (0, 1):
                runs[which].append(run(script, which, options.device))
        for line, numbers in runs[0][0].items():
            for name in numbers:
                values = [[one[line][name] for one in several] for several in runs]
                is_time = name in ("fit", "predict")
                theirs, ours = (
                    statistics.median(several) if is_time else several[0] for several in values
                )
                what = f"{script.stem}: {line}, {name}" + (" (s)" if is_time else "")
                print(f"{what:36}{theirs:14.6g}{ours:14.6g}{theirs / ours:8.4g}", flush=True)


if __name__ == "__main__":
    main()
