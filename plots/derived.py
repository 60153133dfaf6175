# SPDX-License-Identifier: Apache-2.0
"""What follows from result files by the program's rules: limit and share of it, kinds of answer and
of data, the models of `advise`. `kmeans-bench export --format derived` writes it, and only of files
whose numbers agree with one another. results/derived.json has it for the results that the project
keeps, so that they are drawn where no program is built; for others the program is asked."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ON_FILE = ROOT / "results" / "derived.json"
VERSION = 3

Facts = dict[str, Any]  # of a file: its name, its SHA-256, and a record for each of its cells


class DerivedError(Exception):
    """Nothing is known of a file, and why."""


def program() -> Path:
    named = os.environ.get("KMEANS_BENCH")
    return Path(named) if named else ROOT / os.environ.get("BUILD", "build") / "kmeans-bench"


@dataclass(frozen=True)
class _Known:
    files: dict[str, Facts]  # by SHA-256
    models: dict[frozenset[str], list[dict[str, Any]]]  # of a folder, by the SHA-256 of its files
    newest: dict[frozenset[str], str]  # the same: name of the file with the newest ceilings
    constants: dict[str, Any]
    ranks: list[int]


_ranks: list[int] = []  # as they were last read


def _read(text: str) -> _Known:
    data = json.loads(text)
    if data.get("derived_version") != VERSION:
        raise DerivedError(f"{program()}: not of this commit; `make program` builds it")
    sets = [({facts["sha256"]: facts for facts in one["files"]}, one) for one in data["sets"]]
    files = {sha256: facts for own, _ in sets for sha256, facts in own.items()}
    _ranks[:] = data["median_ranks"]
    models = {frozenset(own): one["models"] for own, one in sets}
    newest = {frozenset(own): one["newest"] for own, one in sets}
    return _Known(files, models, newest, data["constants"], data["median_ranks"])


@cache
def _on_file() -> _Known:
    """Nothing where there is none, or one of another version, which the program is to replace."""
    text = ON_FILE.read_text(encoding="utf-8") if ON_FILE.is_file() else "{}"
    if json.loads(text).get("derived_version") != VERSION:
        return _Known({}, {}, {}, {}, [])
    return _read(text)


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


def facts_of(hashes: Mapping[Path, str]) -> dict[Path, Facts]:
    """Of files by their SHA-256 when they were read. Raises DerivedError, with the reason that the
    program gives, or because a file is another by now."""
    known = _on_file().files
    if unknown := [path for path, sha256 in hashes.items() if sha256 not in known]:
        known = known | _read(ask(unknown)).files
    if changed := [path for path in unknown if hashes[path] not in known]:
        raise DerivedError(_changed(changed[0]))
    return {path: known[sha256] for path, sha256 in hashes.items()}


def _changed(what: Path | str) -> str:
    return f"{what}: replaced while it was read, as by a run that goes on; call again"


def _of_folder(hashes: Mapping[Path, str]) -> tuple[_Known, frozenset[str]]:
    known, key = _on_file(), frozenset(hashes.values())
    if key not in known.models:
        known = _read(ask(sorted(hashes)))
    if key not in known.models:
        raise DerivedError(_changed(f"a file in {min(hashes).parent}"))
    return known, key


def models_of(hashes: Mapping[Path, str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The models that `kmeans-bench advise` makes of the results of a folder, and its constants.
    Files and errors as of facts_of()."""
    known, key = _of_folder(hashes)
    return known.models[key], known.constants


def newest_of(hashes: Mapping[Path, str]) -> str:
    """Of the results of a folder the file, by name, that has measured last what the machine can
    do. Files and errors as of facts_of()."""
    known, key = _of_folder(hashes)
    return known.newest[key]


def median_rank(count: int) -> int:
    """The r of the tightest order statistics x(r), x(n+1-r) of so many samples that hold the median
    with 95 % confidence; 0 where none do."""
    ranks = _ranks or _on_file().ranks
    if not ranks:
        raise DerivedError(f"{ON_FILE} is missing, or of another commit: tools/update_readme.py")
    return ranks[min(count, len(ranks) - 1)]
