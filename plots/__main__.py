# SPDX-License-Identifier: Apache-2.0
"""python -m plots [all|figures|report|index] [DIR ...]: draws what result files hold."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from plots.index import write_index
from plots.load import ROOT, Result, ResultError, load_folder
from plots.render import write_figures
from plots.report import write_report

EXIT_OK, EXIT_BAD_INPUT, EXIT_OUTPUT_FAILED = 0, 2, 5
RESULTS = ROOT / "results"
VERBS = {
    "all": "figures, report.html and index.html",
    "figures": "figures alone",
    "report": "report.html and index.html",
    "index": "index.html alone",
}


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m plots",
        description="Draws from result files: "
        + "; ".join(f"{verb}: {what}" for verb, what in VERBS.items())
        + ".",
        epilog="DIR is a folder results/<machine>; without one, all of them. index.html is that of "
        "the folder results itself, and always holds all machines.",
    )
    parser.add_argument(
        "what",
        nargs="*",
        metavar="[all|figures|report|index] DIR",
        help="what to draw (default: all) and from which folders",
    )
    parser.add_argument(
        "--results", action="append", default=[], metavar="DIR", help="another way to name a folder"
    )
    options = parser.parse_args(argv)
    options.verb = options.what.pop(0) if options.what and options.what[0] in VERBS else "all"
    options.folders = [Path(name) for name in options.what + options.results]
    return options


def machine_folders(root: Path) -> list[Path]:
    """Those with a result file, by name."""
    return sorted(p for p in root.iterdir() if p.is_dir() and any(p.glob("*.json")))


def _load(folder: Path) -> list[Result]:
    """Nothing where the folder cannot be read, which is said."""
    try:
        return load_folder(folder)
    except ResultError as error:
        print(f"error: {error}", file=sys.stderr)
        return []


def _draw(folder: Path, results: Sequence[Result], verb: str) -> None:
    if verb in ("all", "figures"):
        for name, absent in write_figures(results, folder / "figures"):
            place = folder / "figures" / name
            print(f"{name}: not drawn, {absent}" if absent else f"{place}.svg .png")
    if verb in ("all", "report"):
        print(write_report(results, folder))


def _roots(folders: Sequence[Path], verb: str) -> set[Path]:
    """Where an index is drawn: folders elsewhere than in results/ get one only if that is asked."""
    if verb == "figures":
        return set()
    parents = {folder.parent for folder in folders}
    return parents if verb == "index" else parents & {RESULTS.resolve()}


def main(argv: list[str] | None = None) -> int:
    options = _arguments(sys.argv[1:] if argv is None else argv)
    folders = [folder.resolve() for folder in options.folders]
    if not folders and RESULTS.is_dir():
        folders = machine_folders(RESULTS.resolve())
    if not folders:
        print(f"error: {RESULTS}: no results; make run-experiments writes them", file=sys.stderr)
        return EXIT_BAD_INPUT
    try:
        # A machine whose files cannot be read keeps none of the others from being drawn.
        loaded = {folder: _load(folder) for folder in folders}
        for folder, results in loaded.items():
            if results:
                _draw(folder, results, options.verb)
        for root in sorted(_roots([f for f in folders if loaded[f]], options.verb)):
            loaded |= {f: _load(f) for f in machine_folders(root) if f not in loaded}
            there = {f: loaded[f] for f in machine_folders(root) if loaded[f]}
            print(write_index(there, root))
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return EXIT_OUTPUT_FAILED
    return EXIT_OK if all(loaded.values()) else EXIT_BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
