# SPDX-License-Identifier: Apache-2.0
"""python -m plots.check FILE...: is what experiments say of their sources and figures right?

One line of standard output per fault, "file:line:column: /pointer: reason". kmeans-bench run asks
before it measures. Exit status 0: yes; 2: no; 3: jsonschema is missing, so nothing was checked."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from plots.experiment import expanded, name_faults, origin, position
from plots.load import EXPERIMENT_SCHEMA_FILE, ResultError, jsonschema, read_json, spec_fault

EXIT_OK, EXIT_BAD_INPUT, EXIT_ENVIRONMENT = 0, 2, 3


def faults(path: Path) -> Iterator[str]:
    """Those of one file, as lines."""
    try:
        written = read_json(path)
    except ResultError as error:
        yield str(error)
        return
    spec = expanded(written)
    wrong = spec_fault(spec)
    found = [wrong] if wrong else name_faults(spec)
    text = path.read_text(encoding="utf-8")
    for fault in found:
        line, column = position(text, origin(written, fault.path))
        yield f"{path}:{line}:{column}: {fault.pointer}: {fault.reason}"


def main(argv: list[str] | None = None) -> int:
    if jsonschema is None:
        print(f"without the package jsonschema {EXPERIMENT_SCHEMA_FILE.name} cannot be read")
        return EXIT_ENVIRONMENT
    files = [Path(name) for name in (sys.argv[1:] if argv is None else argv)]
    lines = [line for file in files for line in faults(file)]
    for line in lines:
        print(line)
    return EXIT_BAD_INPUT if lines else EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
