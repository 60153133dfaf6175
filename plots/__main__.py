# SPDX-License-Identifier: Apache-2.0
"""python -m plots [all|figures|report|index] [DIR ...]: draws what result files hold.
python -m plots figures --only REGEX [DIR ...]: some figures alone.
python -m plots compare FILE, machines FILE: draws what kmeans-bench compare found."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

try:
    from plots import compare_page, machines_page, only
    from plots.compare_page import Picture
    from plots.comparison import load_comparison
    from plots.derived import DerivedError
    from plots.index import write_index
    from plots.load import ROOT, Result, ResultError, load_folder
    from plots.machines import load_machines
    from plots.render import write_figures
    from plots.report import write_report
except ImportError as error:  # the results do not need it; only drawing does
    if __name__ != "__main__":
        raise
    print(f"error: a Python package is missing ({error}); make setup installs it", file=sys.stderr)
    sys.exit(3)

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
        "the folder results itself, and always holds all machines. "
        "compare FILE draws a comparison, machines FILE one of machines: see compare --help and "
        "machines --help.",
    )
    parser.add_argument(
        "what",
        nargs="*",
        metavar="[all|figures|report|index] DIR",
        help="what to draw (default: all) and from which folders",
    )
    parser.add_argument(
        "--only",
        metavar="REGEX",
        help="figures alone: those whose experiment/figure it is found in (zechner2009/fig05)",
    )
    options = parser.parse_intermixed_args(argv)
    options.verb = options.what.pop(0) if options.what and options.what[0] in VERBS else "all"
    if options.only is not None and options.verb != "figures":
        parser.error(f"--only chooses figures: python -m plots figures --only '{options.only}'")
    options.folders = [Path(name) for name in options.what]
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


def _draw(folder: Path, results: Sequence[Result], verb: str) -> bool:
    """False, after a message, where the program cannot say what follows from the results."""
    if verb in ("all", "figures"):
        for name, absent in write_figures(results, folder / "figures"):
            place = folder / "figures" / name
            print(f"{name}: not drawn, {absent}" if absent else f"{place}.svg .png")
    return verb not in ("all", "report") or _says_where(write_report, results, folder)


def _says_where(write: Callable[..., Path], *what: object) -> bool:
    try:
        print(write(*what))
    except DerivedError as error:
        print(f"error: {error}", file=sys.stderr)
        return False
    return True


def _draw_only(loaded: Mapping[Path, Sequence[Result]], text: str) -> int:
    """One source, one figure: nothing else is drawn again."""
    try:
        pattern = only.pattern_of(text)
        chosen = {folder: only.narrowed(own, pattern) for folder, own in loaded.items()}
        if not any(chosen.values()):
            every = [result for own in loaded.values() for result in own]
            raise only.OnlyError(only.takes_none(text, only.names_of(every)))
    except only.OnlyError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    for folder, results in chosen.items():
        if results:
            _draw(folder, results, "figures")
    return EXIT_OK if all(loaded.values()) else EXIT_BAD_INPUT


def _roots(folders: Sequence[Path], verb: str) -> set[Path]:
    """Where an index is drawn: folders elsewhere than in results/ get one only if that is asked."""
    if verb == "figures":
        return set()
    parents = {folder.parent for folder in folders}
    return parents if verb == "index" else parents & {RESULTS.resolve()}


def _place(label: str) -> Path | None:
    """What was compared, if it lies where its label says, from here or from the suite."""
    return next((p for p in (Path(label), ROOT / label) if label and p.exists()), None)


def _compare(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m plots compare",
        description="Draws figures and comparison.html next to a file of kmeans-bench compare "
        "--json.",
    )
    parser.add_argument("file", metavar="FILE", type=Path)
    for side in ("base", "new"):
        parser.add_argument(
            f"--{side}",
            metavar="DIR",
            type=Path,
            help=f"the {side} result's folder or file (default: where the comparison names it)",
        )
    options = parser.parse_args(argv)

    def write() -> tuple[Path, Sequence[Picture]]:
        comparison = load_comparison(options.file)
        return compare_page.write(
            comparison,
            options.base or _place(comparison.base["label"]),
            options.new or _place(comparison.new["label"]),
        )

    return _written(write)


def _written(write: Callable[[], tuple[Path, Sequence[Picture]]]) -> int:
    """Names the page and its pictures, or says why there are none; the exit status."""
    try:
        page, pictures = write()
    except ResultError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return EXIT_OUTPUT_FAILED
    for picture in pictures:
        place = page.parent / "figures" / picture.name
        absent = picture.absent
        print(f"{picture.name}: not drawn, {absent}" if absent else f"{place}.svg .png")
    print(page)
    return EXIT_OK


def _machines(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m plots machines",
        description="Draws figures and machines.html next to a file of kmeans-bench compare "
        "--machines --json.",
    )
    parser.add_argument("file", metavar="FILE", type=Path)
    parser.add_argument(
        "places",
        nargs="*",
        metavar="DIR",
        type=Path,
        help="the folders or files that were compared, in their order (default: where their labels "
        "say)",
    )
    options = parser.parse_args(argv)

    def write() -> tuple[Path, Sequence[Picture]]:
        machines = load_machines(options.file)
        labels = [machines.pairs[0].first["label"]]
        labels += [pair.second["label"] for pair in machines.pairs]
        if options.places and len(options.places) != len(labels):
            raise ResultError(f"{len(labels)} machines, {len(options.places)} places")
        places = options.places or [_place(label) for label in labels]
        return machines_page.write(machines, dict(zip(labels, places, strict=True)))

    return _written(write)


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["compare"]:
        return _compare(argv[1:])
    if argv[:1] == ["machines"]:
        return _machines(argv[1:])
    options = _arguments(argv)
    folders = [folder.resolve() for folder in options.folders]
    if not folders and RESULTS.is_dir():
        folders = machine_folders(RESULTS.resolve())
    if not folders:
        print(f"error: {RESULTS}: no results; make run-experiments writes them", file=sys.stderr)
        return EXIT_BAD_INPUT
    try:
        # A machine whose files cannot be read keeps none of the others from being drawn.
        loaded = {folder: _load(folder) for folder in folders}
        if options.only is not None:
            return _draw_only(loaded, options.only)
        drawn = [_draw(folder, own, options.verb) for folder, own in loaded.items() if own]
        for root in sorted(_roots([f for f in folders if loaded[f]], options.verb)):
            loaded |= {f: _load(f) for f in machine_folders(root) if f not in loaded}
            there = {f: loaded[f] for f in machine_folders(root) if loaded[f]}
            drawn.append(_says_where(write_index, there, root))
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return EXIT_OUTPUT_FAILED
    return EXIT_OK if all(loaded.values()) and all(drawn) else EXIT_BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
