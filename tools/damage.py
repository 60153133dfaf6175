# SPDX-License-Identifier: Apache-2.0
"""Feeds damaged inputs to the program itself, at random, and looks at how it takes them.

    python tools/damage.py --seconds 3600 --seed 1 [--kinds result,journal]

Result files, journals, experiments and files of points lose bytes, get others, are cut, or have
numbers replaced. Each must be read or refused with a message: no signal, no time-out, no traceback,
no error that the program calls unexpected. What is read must still be right: exact answers of a
resumed run, labels of a clustering. A finding stays in --keep with its command; exit status 1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("KMEANS_BENCH", str(ROOT / "build" / "kmeans-bench"))
TIMEOUT = 120  # seconds; the longest of these commands takes one, on a busy machine ten
MEMORY = 4 << 30  # bytes of address space: what asks for more is refused, not the machine's end
REFUSALS = {2, 3, 4, 5, 6, 1}
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
NUMBERS = (
    b"0",
    b"-1",
    b"1e308",
    b"-1e-320",
    b"9223372036854775808",
    b"nan",
    b"0.5",
    b"null",
    b"1e999",
)
EXPERIMENT = {
    "name": "x",
    "title": "t",
    "data": {"generator": "uniform", "seed": 1},
    "init": "random:1",
    "variants": ["reference", "openmp_exact", "cpu_naive"],
    "traces": [{"name": "end", "variant": "cpu_naive", "n": 60, "d": 2, "k": 3, "iterations": 5}],
    "scales": {
        "quick": {
            "sweep": [{"n": 60, "d": 2, "k": 3}, {"n": 90, "d": 2, "k": 3}],
            "iterations": 3,
            "processes": 1,
            "repetitions": 1,
            "min_seconds": 0.0001,
        }
    },
}


def damaged(data: bytes, rng: random.Random) -> bytes:
    """One to three edits."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        data = _edit(data, rng)
    return data


def _edit(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    kind = rng.randrange(7)
    numbers = list(NUMBER.finditer(data)) if kind >= 4 else []
    if numbers:
        found = rng.choice(numbers)
        new = rng.choice(NUMBERS)
        if kind == 4:  # near the one that was there
            new = repr(float(found.group()) * rng.choice((2, 0.5, 1.001, -1))).encode()
        return data[: found.start()] + new + data[found.end() :]
    if kind == 0:  # a flipped bit
        at = min(at, len(data) - 1)
        return (
            data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
            if data
            else b""
        )
    if kind == 1:
        return data[:at]
    if kind == 2:
        return data[:at] + data[at + rng.randrange(1, 60) :]
    again = data[at : at + rng.randrange(1, 60)]
    return data[:at] + (again if kind == 3 else rng.randbytes(rng.randrange(1, 9))) + data[at:]


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Attack:
    def __init__(self, folder: Path, keep: Path, rng: random.Random) -> None:
        self.folder, self.keep, self.rng = folder, keep, rng
        self.counts: Counter[str] = Counter()
        self.findings: list[str] = []
        self.inputs: list[Path] = []

    def report(self) -> None:
        print(", ".join(f"{name}: {n}" for name, n in sorted(self.counts.items())), flush=True)

    def find(self, command: list[str], what: str) -> None:
        place = self.keep / f"finding-{len(self.findings)}"
        place.mkdir(parents=True, exist_ok=True)
        for path in self.inputs:
            shutil.copy(path, place)
        (place / "command").write_text(f"{' '.join(command)}\n{what}\n", encoding="utf-8")
        self.findings.append(f"{place}: {what}")
        print(self.findings[-1], flush=True)

    def call(self, *arguments: object, program: tuple[str, ...] = (PROGRAM,)) -> int | None:
        """The exit status; None after a finding."""
        command = [*program, *map(str, arguments)]
        environment = {**os.environ, "KMEANS_BENCH_CACHE": str(self.folder / "cache")}
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                cwd=ROOT,
                env=environment,
                timeout=TIMEOUT,
                check=False,
                stdin=subprocess.DEVNULL,
                preexec_fn=_limited,
            )
        except subprocess.TimeoutExpired:
            self.find(command, f"no end within {TIMEOUT} s")
            return None
        said = done.stderr.decode(errors="replace")
        if done.returncode == 0:
            return 0
        for bad in ("Traceback", "unexpected:", "terminate called", "out_of_range", "type_error"):
            if bad in said:
                self.find(command, f"status {done.returncode}: {said[-600:]}")
                return None
        if done.returncode not in REFUSALS or not (said + done.stdout.decode(errors="replace")):
            self.find(command, f"status {done.returncode}: {said[-600:]!r}")
            return None
        return done.returncode

    def write(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(data)
        self.inputs = [path]
        return path

    # --- Kinds -----------------------------------------------------------------------------------

    def prepare(self) -> None:
        (self.folder / "x.json").write_text(json.dumps(EXPERIMENT), encoding="utf-8")
        status = self.call(*self.run_command("whole"))
        if status != 0:
            sys.exit(f"damage: the undamaged run ended with {status}")
        self.result = (self.folder / "whole" / "x.json").read_bytes()
        self.journal = (self.folder / "whole" / "x.journal.jsonl").read_bytes()
        self.answers = self.exact_answers(self.folder / "whole" / "x.json")
        points = np.random.default_rng(1).normal(size=(50, 2)).astype(np.float32)
        np.save(self.folder / "points.npy", points)
        text = "\n".join(",".join(f"{x:.5g}" for x in row) for row in points)
        vectors = b"".join(np.int32(2).tobytes() + row.tobytes() for row in points)
        self.data = {
            "p.npy": (self.folder / "points.npy").read_bytes(),
            "p.csv": text.encode(),
            "p.fvecs": vectors,
            "p.svm": b"\n".join(b"1 1:%.4f 2:%.4f" % tuple(row) for row in points),
        }

    def run_command(self, out: str, *more: object) -> list[object]:
        quick = ("--check-seconds", 0, "--max-seconds", 1, "--threads", 2)
        return ["run", self.folder / "x.json", "--out", self.folder / out, *quick, *more]

    @staticmethod
    def exact_answers(result: Path) -> dict[str, tuple]:
        cells = json.loads(result.read_text(encoding="utf-8"))["cells"]
        return {
            cell["key"]: (cell["status"], cell["label_hash"], cell["centroid_hash"])
            for cell in cells
            if cell["exact"]
        }

    def of_result(self) -> None:
        path = self.write("r.json", damaged(self.result, self.rng))
        choice = self.rng.randrange(8)
        exported = self.call("export", path, "--format", "csv", "--out", self.folder / "r.csv")
        self.counts["result read"] += exported == 0
        self.call("compare", path, path, "--json", self.folder / "c.json", "--gate")
        if choice < 2:
            self.call("reproduce", path, "--threads", 2, "--at-most", 5)
        if choice == 2:
            code = (
                "import sys\nfrom pathlib import Path\n"
                "from plots.load import load_result, ResultError\n"
                "try:\n  load_result(Path(sys.argv[1]))\n"
                "except ResultError as e:\n  print(e); sys.exit(2)"
            )
            status = self.call("-c", code, path, program=(sys.executable,))
            if status is not None and exported is not None and (status == 0) != (exported == 0):
                self.counts["result: program and plots disagree"] += 1
                shutil.copy(path, self.keep / f"disagree-{self.rng.randrange(10**6)}-{status}.json")

    def of_journal(self) -> None:
        out = self.folder / "resumed"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        lines = self.journal.splitlines(keepends=True)
        lines = lines[: self.rng.randrange(1, len(lines) + 1)]
        journal = out / "x.journal.jsonl"
        journal.write_bytes(damaged(b"".join(lines), self.rng))
        shutil.copy(journal, self.folder / "damaged.jsonl")
        self.inputs = [self.folder / "damaged.jsonl"]
        command = self.run_command("resumed", "--resume")
        status = self.call(*command)
        self.counts["journal read"] += status == 0
        if status == 0 and self.exact_answers(out / "x.json") != self.answers:
            self.find([str(c) for c in command], "other exact answers than without the damage")

    def of_experiment(self) -> None:
        names = sorted((ROOT / "experiments").glob("*.json"))
        path = self.rng.choice([name for name in names if name.stem != "schema"])
        own = self.rng.random() < 0.5
        text = json.dumps(EXPERIMENT).encode() if own else path.read_bytes()
        (self.folder / "damaged").mkdir(exist_ok=True)
        name = f"damaged/{'x' if own else path.stem}.json"  # must be the experiment's
        experiment = self.write(name, damaged(text, self.rng))
        status = self.call("run", experiment, "--dry-run", "--check-seconds", 0)
        self.counts["experiment read"] += status == 0

    def of_data(self) -> None:
        name = self.rng.choice(list(self.data))
        path = self.write(name, damaged(self.data[name], self.rng))
        out = self.folder / "fit"
        shutil.rmtree(out, ignore_errors=True)
        variant = self.rng.choice(("reference", "openmp_exact", "openmp_simd", "eigen_gemm"))
        precision = self.rng.choice(("f32", "f64")) if variant[-1] in "dm" else "f32"
        command = ["fit", path, "-k", 3, "--iterations", 3, "--variant", variant]
        command += ["--precision", precision, "--threads", 2, "--out", out, "--init", "first"]
        status = self.call(*command)
        self.counts["data read"] += status == 0
        if status != 0:
            return
        labels, centroids = (np.load(out / f"{x}.npy") for x in ("labels", "centroids"))
        whole = not np.isfinite(centroids).all() or labels.min() < 0 or labels.max() > 2
        if whole or (name == "p.npy" and len(labels) != len(np.load(path, mmap_mode=None))):
            self.find([str(c) for c in command], f"{len(labels)} labels, centroids {centroids}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default="result,journal,experiment,data")
    parser.add_argument("--keep", type=Path, default=Path("build-damage"))
    options = parser.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as folder:
        attack = Attack(Path(folder), options.keep, random.Random(options.seed))
        attack.prepare()
        kinds: dict[str, Callable[[], None]] = {
            kind: getattr(attack, f"of_{kind}") for kind in options.kinds.split(",")
        }
        while time.monotonic() < end:
            # A journal costs a run, the others a few commands that take no time.
            (kind,) = attack.rng.choices(list(kinds), [1 if k == "journal" else 8 for k in kinds])
            attack.counts[kind] += 1
            kinds[kind]()
            if sum(attack.counts[k] for k in kinds) % 100 == 0:
                attack.report()
    attack.report()
    print(f"{len(attack.findings)} findings")
    return 1 if attack.findings else 0


if __name__ == "__main__":
    sys.exit(main())
