#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over the C++ sources of a configured build folder, in parallel.

    tools/tidy.py BUILD [FILE...]

Compile commands are reduced to what matters for parsing, since clang refuses some of GCC's
optimisation options. OpenMP's header is the compiler's. Most of the time goes into reading headers:
so sources that the build compiles together are checked together, and so are others of a folder that
are parsed alike, KMEANS_SOURCES_AT_ONCE at a time. Where something is found among them, each is
checked alone, and that counts. What passed is skipped until it, a header, .clang-tidy or its
compile command changes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("datasets", "harness", "implementations", "library", "tests")
# Not tests, whose helpers have the same names.
FOLDERS_TOGETHER = ("datasets", "harness", "implementations", "library", "tests/faults")
ALLOWED = "// NOLINTNEXTLINE(bugprone-suspicious-include)\n#include"
KEPT_PREFIXES = ("-I", "-D", "-U", "-std=", "-march=", "-mavx", "-mfma", "-msse", "-fopenmp")
KEPT_WITH_VALUE = ("-I", "-D", "-isystem")  # not -include: GCC's precompiled header
# The pinned one: since it passes over system headers it is three times as quick as older ones.
CLANG_TIDY = ROOT / ".venv" / "bin" / "clang-tidy"


def parsing_arguments(command: list[str], source: Path) -> list[str]:
    """The part of a compile command that decides how the source is parsed."""
    kept = ["clang++"]
    words = iter(command[1:])
    for word in words:
        if word in KEPT_WITH_VALUE:
            kept += [word, next(words)]
        elif word.startswith(KEPT_PREFIXES):
            kept.append(word)
    return [*kept, "-Wno-everything", "-c", str(source)]


def is_ours(source: Path) -> bool:
    return source.suffix == ".cpp" and any(source.is_relative_to(ROOT / f) for f in FOLDERS)


def sources_in(file: Path) -> list[Path]:
    """Our sources that a compile command's file stands for: itself, or those that it includes."""
    if not is_ours(file):
        text = file.read_text(encoding="utf-8")
        found = [Path(name) for name in re.findall(r'^#include "(.+\.cpp)"$', text, re.M)]
    else:
        found = [file]
    return [source for source in found if is_ours(source)]


def copy_for_tidy(file: Path, folder: Path) -> Path:
    """What is compiled together, in a copy that may include sources."""
    if file.parent.name != "Unity":
        return file
    room = file.parent.parent.stem
    copy = folder / f"{room}-{file.stem}.cpp"
    copy.write_text(file.read_text(encoding="utf-8").replace("#include", ALLOWED), encoding="utf-8")
    return copy


def together(
    commands: dict[Path, dict[str, Any]], folder: Path, at_once: int
) -> dict[Path, dict[str, Any]]:
    """The same, but sources of a folder that are parsed alike are included by one file."""
    alike: dict[tuple[Any, ...], list[Path]] = {}
    for source, entry in commands.items():
        if is_ours(source) and any(source.is_relative_to(ROOT / f) for f in FOLDERS_TOGETHER):
            key = (source.parent, entry["directory"], *entry["arguments"][:-1])
            alike.setdefault(key, []).append(source)
    joined = dict(commands)
    for number, sources in enumerate(alike.values()):
        for start in range(0, len(sources), at_once):
            part = sources[start : start + at_once]
            if len(part) == 1:
                continue
            copy = folder / f"{part[0].parent.name}-{number}-{start}.cpp"
            copy.write_text(
                "".join(ALLOWED + f' "{source}"\n' for source in part), encoding="utf-8"
            )
            entry = joined[part[0]]
            arguments = [*entry["arguments"][:-1], str(copy)]
            joined[copy] = entry | {"file": str(copy), "arguments": arguments}
            for source in part:
                del joined[source]
    return joined


def from_cache(build: Path, name: str, otherwise: str) -> str:
    cache = (build / "CMakeCache.txt").read_text(encoding="utf-8")
    found = re.search(rf"^{name}:\w+=(.+)$", cache, re.M)
    return found[1] if found else otherwise


def read_commands(build: Path, folder: Path) -> dict[Path, dict[str, Any]]:
    """One reduced compile command for all that is compiled of ours, longest to parse first."""
    commands: dict[Path, dict[str, Any]] = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        source = Path(entry["directory"], entry["file"]).resolve()
        if source.exists() and sources_in(source):
            source = copy_for_tidy(source, folder)
            arguments = parsing_arguments(shlex.split(entry["command"]), source)
            commands[source] = {
                "directory": entry["directory"],
                "file": str(source),
                "arguments": arguments,
            }

    # What the library compiles once more, with options of its own, says nothing new.
    in_rooms = {part for file in commands if not is_ours(file) for part in sources_in(file)}
    commands = {file: entry for file, entry in commands.items() if file not in in_rooms}
    at_once = int(from_cache(build, "KMEANS_SOURCES_AT_ONCE", "1"))
    commands = together(commands, folder, at_once)

    def size(file: Path) -> int:
        return sum(source.stat().st_size for source in sources_in(file))

    order = sorted(commands, key=size, reverse=True)
    return {source: commands[source] for source in order}


def lend_openmp_header(build: Path, folder: Path) -> None:
    """Puts the compiler's omp.h into a folder of its own, away from its other headers."""
    compiler = from_cache(build, "CMAKE_CXX_COMPILER", "c++")
    answer = subprocess.run(
        [compiler, "-print-file-name=include/omp.h"], capture_output=True, text=True, check=True
    )
    header = Path(answer.stdout.strip())
    if header.is_absolute():
        folder.mkdir(exist_ok=True)
        shutil.copyfile(header, folder / "omp.h")


def fingerprint_of_headers() -> bytes:
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    version = subprocess.run([CLANG_TIDY, "--version"], capture_output=True, check=True)
    digest.update(version.stdout)
    for folder in FOLDERS:
        for header in sorted((ROOT / folder).rglob("*.h")):
            digest.update(str(header).encode() + header.read_bytes())
    return digest.digest()


def findings(source: Path, entry: dict[str, Any]) -> str:
    """What clang-tidy says; of sources that are checked together, what it says of each alone."""
    result = subprocess.run(
        [CLANG_TIDY, "--quiet", str(source), "--", *entry["arguments"][1:-1]],
        cwd=entry["directory"],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode == 0:
        return ""
    parts = sources_in(source)
    if parts == [source]:
        return result.stdout + result.stderr
    return "".join(findings(part, entry) for part in parts)


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    if not CLANG_TIDY.exists():
        print(f"{CLANG_TIDY} is missing: 'make check' installs it", file=sys.stderr)
        return 3
    build = Path(arguments[0]).resolve()
    database = build / "tidy"
    database.mkdir(exist_ok=True)
    commands = read_commands(build, database)
    if len(arguments) > 1:
        wanted = {Path(name).resolve() for name in arguments[1:]}
        commands = {f: entry for f, entry in commands.items() if wanted.intersection(sources_in(f))}
    lend_openmp_header(build, database / "openmp")
    for entry in commands.values():
        entry["arguments"][1:1] = ["-isystem", str(database / "openmp")]
    passed = ROOT / ".cache" / "tidy"
    passed.mkdir(parents=True, exist_ok=True)
    headers = fingerprint_of_headers()

    def check(source: Path) -> tuple[Path, str]:
        digest = hashlib.sha256(headers)
        for part in sources_in(source):
            digest.update(part.read_bytes())
        digest.update(json.dumps(commands[source]).encode())
        mark = passed / digest.hexdigest()
        if mark.exists():
            return source, ""
        output = findings(source, commands[source])
        if not output:
            mark.touch()
        return source, output

    failures = 0
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for source, output in pool.map(check, commands):
            if output:
                failures += 1
                print(f"{source.relative_to(ROOT)}:\n{output}", flush=True)
    print(f"clang-tidy: {len(commands)} files, {failures} with findings")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
