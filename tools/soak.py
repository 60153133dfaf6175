# SPDX-License-Identifier: Apache-2.0
"""Runs experiments round after round and compares each round with the first one.

Looked at after every round (docs/ci.md): label and centroid hashes of exact and deterministic
variants, statuses, files of results, cache and temporary folder, shared memory, processes left
behind, peak memory and open descriptors of the coordinator. tools/soak.sh calls this.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

# What may differ between rounds without being growth: the number of digits in a time, a cache line
# of the allocator, the moment at which a descriptor is counted.
MEMORY_SLACK_KIB = 16 * 1024
MEMORY_SLACK_SHARE = 0.05
DESCRIPTOR_SLACK = 4
SIZE_SLACK_BYTES = 64 * 1024
SIZE_SLACK_SHARE = 0.10
POLL_SECONDS = 0.05
LINGER_SECONDS = 1.0
MARK = "KMEANS_SOAK_MARK"


@dataclass
class Tree:
    """The files below a folder."""

    names: set[str] = field(default_factory=set)
    size: int = 0

    @classmethod
    def of(cls, folder: Path) -> Tree:
        tree = cls()
        for path in sorted(folder.rglob("*")):
            with contextlib.suppress(FileNotFoundError):
                tree.names.add(str(path.relative_to(folder)))
                if path.is_file() and not path.is_symlink():
                    tree.size += path.stat().st_size
        return tree

    def growth_since(self, first: Tree, what: str) -> list[str]:
        """Sentences; empty when it has not grown."""
        found = []
        new = sorted(self.names - first.names)
        if new:
            found.append(f"{what}: {len(new)} new files, such as {new[0]}")
        if self.size > first.size * (1 + SIZE_SLACK_SHARE) + SIZE_SLACK_BYTES:
            found.append(f"{what}: grew from {first.size} to {self.size} bytes")
        return found


@dataclass
class Round:
    """What one round showed."""

    number: int
    seconds: float = 0
    exit_status: int = 0
    cells: int = 0
    compared: int = 0
    answers: dict[str, list] = field(default_factory=dict)
    statuses: dict[str, str] = field(default_factory=dict)
    peak_kib: int = 0
    descriptors: int = 0
    results: Tree = field(default_factory=Tree)
    cache: Tree = field(default_factory=Tree)
    findings: list[str] = field(default_factory=list)

    def as_json(self) -> dict:
        return {
            "round": self.number,
            "seconds": round(self.seconds, 3),
            "exit_status": self.exit_status,
            "cells": self.cells,
            "compared": self.compared,
            "peak_kib": self.peak_kib,
            "descriptors": self.descriptors,
            "result_files": len(self.results.names),
            "result_bytes": self.results.size,
            "cache_files": len(self.cache.names),
            "cache_bytes": self.cache.size,
            "findings": self.findings,
        }

    def line(self) -> str:
        text = (
            f"round {self.number}: {self.seconds:.1f} s, {self.cells} cells, {self.compared} "
            f"compared; peak {self.peak_kib / 1024:.0f} MiB, {self.descriptors} descriptors; "
            f"results {len(self.results.names)} files, {self.results.size / 1024:.0f} KiB; cache "
            f"{len(self.cache.names)} files, {self.cache.size / 2**20:.1f} MiB"
        )
        return text + (f"; {len(self.findings)} findings" if self.findings else "; all well")


def peak_memory(pid: int) -> int:
    """VmHWM in KiB, 0 when the process has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0


def open_descriptors(pid: int) -> int:
    with contextlib.suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0


def processes_with(mark: str) -> list[int]:
    """Processes that were started, however indirectly, with this mark in their environment."""
    found = []
    wanted = f"{MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def held_files() -> str:
    """Paths that some process has mapped or open, one a line."""
    paths = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            paths.append((process / "maps").read_text(encoding="utf-8", errors="replace"))
        with contextlib.suppress(OSError):
            for descriptor in os.listdir(process / "fd"):
                with contextlib.suppress(OSError):
                    paths.append(os.readlink(process / "fd" / descriptor))
    return "\n".join(paths)


def abandoned_shared_memory(folder: Path, before: set[str]) -> list[str]:
    """Our entries that are new and belong to nobody: no process holds them, and none of those whose
    number is part of the name lives. Other programs of the same user come and go meanwhile."""
    with contextlib.suppress(OSError):
        new = [
            name
            for name in sorted(set(os.listdir(folder)) - before)
            if (folder / name).lstat().st_uid == os.getuid()
            and not any(Path(f"/proc/{pid}").exists() for pid in re.findall(r"\d{2,}", name))
        ]
        held = held_files() if new else ""
        return [name for name in new if str(folder / name) not in held]
    return []


class Soak:
    """Everything that stays the same from round to round."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.out: Path = options.out
        self.results = self.out / "results"
        self.temporary = self.out / "tmp"
        self.cache = Path(os.environ.get("KMEANS_BENCH_CACHE") or self.out / "cache").resolve()
        self.mark = secrets.token_hex(8)
        self.shared_memory = Path("/dev/shm")
        self.shared_before = (
            set(os.listdir(self.shared_memory)) if self.shared_memory.is_dir() else set()
        )
        self.environment = os.environ | {
            MARK: self.mark,
            "TMPDIR": str(self.temporary.resolve()),
            "KMEANS_BENCH_CACHE": str(self.cache),
        }
        self.process: subprocess.Popen | None = None
        self.interrupted = False

    def prepare(self) -> None:
        shutil.rmtree(self.results, ignore_errors=True)
        shutil.rmtree(self.temporary, ignore_errors=True)
        for folder in (self.results, self.temporary, self.cache):
            folder.mkdir(parents=True, exist_ok=True)
        listing = subprocess.run(
            [self.options.program, "list", "--json"],
            check=True,
            capture_output=True,
            env=self.environment,
        )
        # Only these promise the same bits every time.
        self.steady = {
            variant["name"]
            for variant in json.loads(listing.stdout)["variants"]
            if variant["exact"] or variant["deterministic"]
        }

    def interrupt(self, number: int, frame: object) -> None:
        """Ends the round, and with it the soak."""
        self.interrupted = True
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def run(self, number: int) -> Round:
        """One round: all experiments, then a look at what they left."""
        this = Round(number)
        command = [self.options.program, "run", *self.options.experiments]
        command += ["--scale", self.options.scale, "--out", str(self.results)]
        command += ["--check-seconds", "0"]  # a soak measures nothing
        if self.options.only:
            command += ["--only", self.options.only]
        begin = time.monotonic()
        with (self.out / "soak.log").open("ab") as log:
            log.write(f"\n== round {number}\n".encode())
            log.flush()
            self.process = subprocess.Popen(
                command,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # one signal is enough, and comes from interrupt()
            )
            while self.process.poll() is None:
                # The peak never falls, so the last look before the end has it.
                this.peak_kib = max(this.peak_kib, peak_memory(self.process.pid))
                this.descriptors = max(this.descriptors, open_descriptors(self.process.pid))
                time.sleep(POLL_SECONDS)
        this.exit_status = self.process.returncode
        this.seconds = time.monotonic() - begin
        if self.interrupted:
            return this
        if this.exit_status not in (0, 4):
            this.findings.append(f"the run ended with exit status {this.exit_status}, see soak.log")
        self.collect(this)
        self.look_for_leftovers(this)
        return this

    def collect(self, this: Round) -> None:
        """Answers and statuses from the result files; then the journals and what the run kept of
        the last round go, since a run renames what it finds and they would add up."""
        for file in sorted(self.results.glob("*.json")):
            try:
                result = json.loads(file.read_text(encoding="utf-8"))
            except ValueError as error:
                this.findings.append(f"{file.name} is no JSON: {error}")
                continue
            if not result["complete"]:
                this.findings.append(f"{file.name} is incomplete")
            for kind in ("cells", "traces"):
                for entry in result[kind]:
                    name = entry.get("key") or f"trace {entry['name']}"
                    name = f"{result['experiment']}: {name}"
                    this.statuses[name] = entry["status"]
                    if entry["status"] == "ok" and entry["variant"] in self.steady:
                        hashes = ("label_hash", "centroid_hash", "inertia", "iterations")
                        answer = [entry.get(key) for key in hashes[: 4 if kind == "cells" else 1]]
                        this.answers[name] = answer
                    if entry.get("bit_equal_across_processes") is False and name in this.answers:
                        this.findings.append(f"{name}: its processes gave different bits")
        this.cells = len(this.statuses)
        this.compared = len(this.answers)
        renamed = [
            file.name
            for file in self.results.glob("*.journal*.jsonl")
            if not file.name.endswith(".journal.jsonl")
        ]
        if renamed:
            this.findings.append(f"results: a journal was set aside: {renamed[0]}")
        for pattern in ("*.journal*.jsonl", "*.json.before-*"):
            for file in self.results.glob(pattern):
                file.unlink()
        this.results = Tree.of(self.results)
        this.cache = Tree.of(self.cache)

    def look_for_leftovers(self, this: Round) -> None:
        """Temporary files, processes and shared memory. What is just going gets a moment."""
        deadline = time.monotonic() + LINGER_SECONDS
        while True:
            files = sorted(Tree.of(self.temporary).names)
            strays = processes_with(self.mark)
            shared = abandoned_shared_memory(self.shared_memory, self.shared_before)
            if not (files or strays or shared) or time.monotonic() > deadline:
                break
            time.sleep(POLL_SECONDS)
        if files:
            this.findings.append(f"{len(files)} temporary files left, such as {files[0]}")
        if strays:
            this.findings.append(f"{len(strays)} processes left, such as number {strays[0]}")
            for pid in strays:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        if shared:
            this.findings.append(f"shared memory left: {shared[0]}")

    def compare(self, rounds: list[Round], this: Round) -> None:
        """Adds what differs from the first round."""
        first = rounds[0]
        # The first round also makes the data, which takes memory; the second is like all others.
        settled = rounds[min(1, len(rounds) - 1)]
        found = this.findings
        for name, status in sorted(first.statuses.items()):
            now = this.statuses.get(name, "missing")
            if now != status:
                found.append(f"{name}: was {status}, is {now}")
        for name, answer in sorted(first.answers.items()):
            now = this.answers.get(name)
            if now is not None and now != answer:
                found.append(f"{name}: another answer, {now} instead of {answer}")
        found += this.results.growth_since(first.results, "results")
        found += this.cache.growth_since(first.cache, "cache")
        if this.peak_kib > settled.peak_kib * (1 + MEMORY_SLACK_SHARE) + MEMORY_SLACK_KIB:
            found.append(
                "peak memory of the coordinator grew from "
                f"{settled.peak_kib} to {this.peak_kib} KiB"
            )
        if this.descriptors > settled.descriptors + DESCRIPTOR_SLACK:
            found.append(f"open descriptors grew from {settled.descriptors} to {this.descriptors}")

    def write_summary(self, started: str, rounds: list[Round]) -> None:
        summary = {
            "started": started,
            "scale": self.options.scale,
            "experiments": [Path(name).stem for name in self.options.experiments],
            "only": self.options.only,
            "rounds": [one.as_json() for one in rounds],
            "passed": not any(one.findings for one in rounds),
        }
        file = self.out / "soak.json"
        part = file.with_suffix(".part")
        part.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
        part.replace(file)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, required=True, help="begin no round after that")
    parser.add_argument("--program", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only")
    parser.add_argument("--scale", default="quick", choices=("quick", "paper"))
    parser.add_argument(
        "--rounds", type=int, default=2, help="at least so many, whatever they take"
    )
    parser.add_argument("experiments", nargs="+")
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("--rounds: one round has nothing to be compared with; 2 or more")
    if not os.access(options.program, os.X_OK):
        parser.error(f"{options.program} cannot be run; 'make build' builds it")

    soak = Soak(options)
    soak.out.mkdir(parents=True, exist_ok=True)
    (soak.out / "soak.log").unlink(missing_ok=True)
    soak.prepare()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, soak.interrupt)
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    begin = time.monotonic()
    rounds: list[Round] = []
    while len(rounds) < options.rounds or time.monotonic() - begin < options.seconds:
        this = soak.run(len(rounds) + 1)
        if soak.interrupted:
            break
        if rounds:
            soak.compare(rounds, this)
        rounds.append(this)
        soak.write_summary(started, rounds)
        print(this.line(), flush=True)
        for finding in this.findings:
            print(f"  {finding}", flush=True)
        if not this.statuses:
            break  # the next one would do no better
    findings = sum(len(one.findings) for one in rounds)
    verdict = "nothing grew, nothing changed"
    if findings:
        verdict = f"{findings} findings"
    elif len(rounds) < 2:
        verdict = "nothing to compare yet"
    print(
        f"soak: {len(rounds)} rounds in {time.monotonic() - begin:.0f} s, {verdict}; "
        f"{soak.out / 'soak.json'} has all of it",
        flush=True,
    )
    if soak.interrupted:
        return 130
    return 1 if findings or len(rounds) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
