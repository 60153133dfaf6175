# SPDX-License-Identifier: Apache-2.0
"""python -m plots.check FILE...: is what experiments say of their sources and figures right?

One line of standard output per fault, ["FILE", "/pointer", "reason"]: kmeans-bench run asks before
it measures, and knows where in the file a pointer leads. Exit status 0: yes; 2: no; 3: jsonschema
is missing, so nothing was checked."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from plots.experiment import expanded, name_faults
from plots.load import EXPERIMENT_SCHEMA_FILE, ResultError, jsonschema, read_json, spec_fault

EXIT_OK, EXIT_BAD_INPUT, EXIT_ENVIRONMENT = 0, 2, 3


def faults(file: str) -> Iterator[tuple[str, str, str]]:
    """Those of one file."""
    try:
        spec = expanded(read_json(Path(file)))
    except ResultError as error:
        yield file, "", str(error)
        return
    wrong = spec_fault(spec)
    for fault in [wrong] if wrong else name_faults(spec):
        yield file, fault.pointer, fault.reason


def main(argv: list[str] | None = None) -> int:
    if jsonschema is None:
        print(f"without the package jsonschema {EXPERIMENT_SCHEMA_FILE.name} cannot be read")
        return EXIT_ENVIRONMENT
    files = sys.argv[1:] if argv is None else argv
    found = [fault for file in files for fault in faults(file)]
    for fault in found:
        print(json.dumps(fault))
    return EXIT_BAD_INPUT if found else EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
