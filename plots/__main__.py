# SPDX-License-Identifier: Apache-2.0
"""python -m plots [figures|report] [DIR ...]: draws from result files, measures nothing."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from plots.load import ResultError, default_folder, load_folder
from plots.render import write_figures
from plots.report import write_report

EXIT_OK, EXIT_BAD_INPUT, EXIT_OUTPUT_FAILED = 0, 2, 5


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m plots",
        description="Draws figures (SVG and PNG) and report.html from result files.",
        epilog="DIR is a folder results/<machine>; without one the newest is taken.",
    )
    parser.add_argument(
        "what",
        nargs="*",
        metavar="[figures|report] DIR",
        help="what to draw (default: both) and from which folders",
    )
    parser.add_argument(
        "--results", action="append", default=[], metavar="DIR", help="another way to name a folder"
    )
    options = parser.parse_args(argv)
    verb = "both"
    if options.what and options.what[0] in ("figures", "report", "all"):
        verb = options.what.pop(0)
    options.figures = verb != "report"
    options.report = verb != "figures"
    options.folders = [Path(name) for name in options.what + options.results]
    return options


def main(argv: list[str] | None = None) -> int:
    options = _arguments(sys.argv[1:] if argv is None else argv)
    try:
        for folder in options.folders or [default_folder()]:
            results = load_folder(folder)
            if options.figures:
                for name, absent in write_figures(results, folder / "figures"):
                    place = folder / "figures" / name
                    print(f"{name}: not drawn, {absent}" if absent else f"{place}.svg .png")
            if options.report:
                print(write_report(results, folder))
    except ResultError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return EXIT_OUTPUT_FAILED
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
