#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs experiments round after round and compares each round with the first one.

    tools/soak.py SECONDS

BUILD names the folder of the program, EXPERIMENTS some of them (all), ONLY the cells (as
`kmeans-bench run --only`), SOAK_OUT the folder of results, log and summary ($BUILD/soak), emptied.
docs/ci.md says what is looked at. Exit status 1 when something was found; an interrupt ends it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINGER_SECONDS = 1.0


def sizes(folder: Path) -> dict[str, int]:
    return {str(p.relative_to(folder)): p.stat().st_size for p in folder.rglob("*") if p.is_file()}


def grown(what: str, first: dict[str, int], now: dict[str, int]) -> list[str]:
    new = sorted(set(now) - set(first))
    found = [f"{what}: {len(new)} new files, such as {new[0]}"] if new else []
    before, after = sum(first.values()), sum(now.values())
    if after > 1.1 * before + 64 * 1024:
        found.append(f"{what}: grew from {before} to {after} bytes")
    return found


def processes_with(mark: str) -> list[int]:
    """Those that were started, however indirectly, with this mark in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def run(command: list[str], environment: dict[str, str], log: Path) -> tuple[int, int]:
    """Exit status, and the peak memory of the process in KiB."""
    peak = 0
    with log.open("ab") as stream:
        process = subprocess.Popen(command, env=environment, stdout=stream, stderr=stream)
        try:
            while process.poll() is None:
                with suppress(OSError, StopIteration):
                    status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
                    line = next(x for x in status.splitlines() if x.startswith("VmHWM:"))
                    peak = max(peak, int(line.split()[1]))
                time.sleep(0.05)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait()
    return process.returncode, peak


def answers(results: Path, steady: set[str]) -> tuple[dict[str, tuple], list[str]]:
    """Status of every cell and trace, with its answer where that is the same bits every time."""
    seen: dict[str, tuple] = {}
    found: list[str] = []
    for file in sorted(results.glob("*.json")):
        result = json.loads(file.read_text(encoding="utf-8"))
        if not result["complete"]:
            found.append(f"{file.name} is incomplete")
        for entry in [*result["cells"], *result["traces"]]:
            name = f"{result['experiment']}: {entry.get('key') or entry['name']}"
            answer = [entry.get(key) for key in ("label_hash", "centroid_hash")]
            if "key" in entry:  # a trace's inertia is a list of its own
                answer.append(entry.get("inertia"))
            seen[name] = (entry["status"], answer if entry["variant"] in steady else None)
            if entry["variant"] in steady and entry.get("bit_equal_across_processes") is False:
                found.append(f"{name}: its processes gave different bits")
    return seen, found


def changed(first: dict[str, tuple], now: dict[str, tuple]) -> list[str]:
    found = []
    for name, (was, answer) in first.items():
        is_now, again = now.get(name, ("missing", None))
        if is_now != was:
            found.append(f"{name}: was {was}, is {is_now}")
        elif again != answer:
            found.append(f"{name}: another answer, {again} instead of {answer}")
    return found


def left_behind(temporary: Path, mark: str) -> list[str]:
    """Files and processes, which are ended."""
    deadline = time.monotonic() + LINGER_SECONDS
    while (sizes(temporary) or processes_with(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = sorted(p.name for p in temporary.iterdir())
    found = [f"{len(left)} temporary files left, such as {left[0]}"] if left else []
    for pid in processes_with(mark):
        found.append(f"process {pid} was left")
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return found


def main() -> int:
    seconds, experiments = float(sys.argv[1]), os.environ.get("EXPERIMENTS", "").split()
    build = Path(os.environ.get("BUILD") or "build")
    program, out = build / "kmeans-bench", Path(os.environ.get("SOAK_OUT") or build / "soak")
    if not experiments:
        files = sorted((ROOT / "experiments").glob("*.json"))
        experiments = [str(file) for file in files if file.name != "schema.json"]
    results, temporary = out / "results", out / "tmp"
    cache = Path(os.environ.get("KMEANS_BENCH_CACHE") or out / "cache").resolve()
    shutil.rmtree(results, ignore_errors=True)
    shutil.rmtree(temporary, ignore_errors=True)
    for folder in (results, temporary, cache):
        folder.mkdir(parents=True, exist_ok=True)
    name, mark = "KMEANS_SOAK_MARK", secrets.token_hex(8)
    environment = os.environ | {name: mark, "TMPDIR": str(temporary.resolve())}
    environment |= {"KMEANS_BENCH_CACHE": str(cache)}
    listed = subprocess.run([program, "list", "--json"], check=True, capture_output=True)
    variants = json.loads(listed.stdout)["variants"]
    steady = {v["name"] for v in variants if v["exact"] or v["deterministic"]}
    command = [str(program), "run", *experiments, "--out", str(results)]
    command += ["--check-seconds", "0"]  # a soak measures nothing
    command += ["--only", os.environ["ONLY"]] if os.environ.get("ONLY") else []

    rounds: list[dict] = []
    first: tuple[dict, dict, dict] | None = None
    begin = time.monotonic()
    while len(rounds) < 2 or time.monotonic() - begin < seconds:
        status, peak = run(command, environment, out / "soak.log")
        found = [] if status in (0, 4) else [f"the run ended with exit status {status}"]
        seen, more = answers(results, steady)
        for pattern in ("*.journal*.jsonl", "*.json.before-*"):  # a run keeps what it finds
            for file in results.glob(pattern):
                file.unlink()
        now = seen, sizes(results), sizes(cache)
        first = first or now
        found += more + changed(first[0], seen)
        found += grown("results", first[1], now[1]) + grown("cache", first[2], now[2])
        # The first round also makes the data, which takes memory; the second is like all others.
        settled = rounds[1]["peak_kib"] if len(rounds) > 1 else peak
        if rounds and peak > 1.05 * settled + 16 * 1024:
            found.append(f"peak memory of the coordinator grew from {settled} to {peak} KiB")
        found += left_behind(temporary, f"{name}={mark}")
        rounds.append({"cells": len(seen), "peak_kib": peak, "findings": found})
        passed = not any(one["findings"] for one in rounds)
        (out / "soak.json").write_text(
            json.dumps({"rounds": rounds, "passed": passed}, indent=2) + "\n", encoding="utf-8"
        )
        print(f"round {len(rounds)}: {len(seen)} cells, peak {peak} KiB", flush=True)
        for finding in found:
            print(f"  {finding}", flush=True)
    print("soak:", "nothing grew, nothing changed" if passed else "found something")
    return 0 if passed else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
