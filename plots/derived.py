# SPDX-License-Identifier: Apache-2.0
"""What follows from result files by the program's rules: limit and share of it, kinds of answer and
of data. `kmeans-bench export --format derived` writes it, and only of files whose numbers agree
with one another. results/derived.json has it for the results that the project keeps, so that they
are drawn where no program is built; for others the program is asked."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ON_FILE = ROOT / "results" / "derived.json"
VERSION = 1

Facts = dict[str, Any]  # of a file: its name, its SHA-256, and a record for each of its cells


class DerivedError(Exception):
    """Nothing is known of a file, and why."""


def program() -> Path:
    named = os.environ.get("KMEANS_BENCH")
    return Path(named) if named else ROOT / os.environ.get("BUILD", "build") / "kmeans-bench"


def _by_hash(text: str) -> dict[str, Facts]:
    data = json.loads(text)
    if data.get("derived_version") != VERSION:
        raise DerivedError(f"{program()}: not of this commit; `make program` builds it")
    return {facts["sha256"]: facts for one in data["sets"] for facts in one["files"]}


@cache
def _on_file() -> dict[str, Facts]:
    return _by_hash(ON_FILE.read_text(encoding="utf-8")) if ON_FILE.is_file() else {}


def ask(paths: Sequence[Path]) -> str:
    """What the program says of these files; raises DerivedError with its reason."""
    command = [str(program()), "export", "--format", "derived", *(str(p.resolve()) for p in paths)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise DerivedError(
            f"{paths[0]}: {program()} says what follows from a result, and cannot be run "
            f"({error.strerror}): `make program` builds it"
        ) from error
    if run.returncode != 0:
        raise DerivedError(run.stderr.rpartition("kmeans-bench: ")[2].strip())
    return run.stdout


def facts_of(paths: Iterable[Path]) -> dict[Path, Facts]:
    """Raises DerivedError, with the reason that the program gives."""
    hashes = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    known = _on_file()
    if unknown := [path for path, sha256 in hashes.items() if sha256 not in known]:
        known = known | _by_hash(ask(unknown))
    return {path: known[sha256] for path, sha256 in hashes.items()}
