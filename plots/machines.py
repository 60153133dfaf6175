# SPDX-License-Identifier: Apache-2.0
"""The only reader of comparisons of machines, as `kmeans-bench compare --machines --json` writes
them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plots.load import ROOT, Interval, ratio_of, read_checked

MACHINES_VERSION = 1
PAGE = "machines.html"
FILE = "machines.json"
SCHEMA_FILE = ROOT / "results" / "machines.schema.json"

# Of the second machine: a sign next to each word, so that nothing rests on colour.
SIGNS = {"faster": "▲", "slower": "▼", "equal": "=", "mixed": "↕", "undecided": "?"}
VERDICTS = tuple(SIGNS)
KINDS = {
    "memory": "points read from memory",
    "cache": "points read from the cache",
    "products": "products bind",
    "launches": "launches and barriers bind",
    "streaming": "points streamed",
    "several": "several GPUs",
    "other": "far from every limit",
}


@dataclass(frozen=True)
class Shared:
    """A cell that both machines have a time of; of two numbers the first is the first machine's."""

    experiment: str
    key: str
    variant: str
    precision: str
    dataset: str
    n: int
    d: int
    k: int
    iterations: int
    threads: tuple[int, int]
    gpus: int  # 0: not on a GPU
    exact: bool
    unsteady: bool
    fastest: bool  # the fastest one at its shape, exact where there is one
    kind: str
    seconds: tuple[float, float]
    processes: tuple[int, int]
    limits: tuple[dict[str, Any] | None, dict[str, Any] | None]
    verdict: str
    speedup: Interval  # not `confident` without an interval: then low and high are mid
    confidence: float | None
    changed: bool = False  # commits differ, and its stages or bytes too

    @property
    def on_gpu(self) -> bool:
        return self.gpus > 0

    @property
    def origin(self) -> str:
        """What made the points: "gaussian" of "gaussian-1000x2-s1"."""
        return self.dataset.partition("-")[0]

    @property
    def possible(self) -> float | None:
        """The speed-up that the limits of the two machines would give."""
        first, second = self.limits
        return first["seconds"] / second["seconds"] if first and second else None


@dataclass(frozen=True)
class Group:
    """Shapes of one kind of work, by the fastest cell of each."""

    on_gpu: bool
    kind: str
    shapes: int
    faster: int
    slower: int
    equal: int
    smallest: float
    largest: float
    verdict: str
    speedup: Interval

    @property
    def undecided(self) -> int:
        return self.shapes - self.faster - self.slower - self.equal


@dataclass(frozen=True)
class Pair:
    """One machine against the first."""

    first: dict[str, Any] = field(repr=False)
    second: dict[str, Any] = field(repr=False)
    sentences: tuple[str, ...] = ()
    differing_commits: tuple[list[str], list[str]] = ([], [])
    answers: dict[str, Any] = field(default_factory=dict, repr=False)
    counts: dict[str, int] = field(default_factory=dict)
    groups: tuple[Group, ...] = ()
    cells: tuple[Shared, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    differences: tuple[str, ...] = field(default=(), repr=False)

    @property
    def sides(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.first, self.second

    @property
    def shapes(self) -> list[Shared]:
        return [cell for cell in self.cells if cell.fastest]


@dataclass(frozen=True)
class Machines:
    path: Path
    effect: float
    pairs: tuple[Pair, ...]

    @property
    def agree(self) -> bool:
        """Are all answers that should be the same the same?"""
        return all(pair.answers["agree"] for pair in self.pairs)


def _cell(entry: dict[str, Any]) -> Shared:
    same = "experiment key variant precision dataset n d k iterations gpus exact unsteady fastest "
    same += "kind verdict confidence"
    pairs = ("threads", "seconds", "processes", "limits")
    return Shared(
        **{name: entry[name] for name in same.split()},
        **{name: tuple(entry[name]) for name in pairs},  # type: ignore[arg-type]
        speedup=ratio_of(entry, "speedup"),  # type: ignore[arg-type]
        changed=entry.get("changed", False),
    )


def _group(entry: dict[str, Any]) -> Group:
    same = ("kind", "shapes", "faster", "slower", "equal", "smallest", "largest", "verdict")
    return Group(
        on_gpu=entry["gpu"],
        speedup=ratio_of(entry, "speedup"),  # type: ignore[arg-type]
        **{name: entry[name] for name in same},
    )


def _pair(entry: dict[str, Any]) -> Pair:
    return Pair(
        first=entry["first"],
        second=entry["second"],
        sentences=tuple(entry["sentences"]),
        differing_commits=tuple(entry["differing_commits"]),
        answers=entry["answers"],
        counts=entry["counts"],
        groups=tuple(_group(group) for group in entry["groups"]),
        cells=tuple(_cell(cell) for cell in entry["cells"]),
        notes=tuple(entry.get("notes", ())),
        left_out=tuple(entry["left_out"]),
        differences=tuple(entry["differences"]),
    )


def load_machines(path: Path) -> Machines:
    """Reads and checks a comparison of machines; raises ResultError."""
    data = read_checked(path, SCHEMA_FILE, "machines_version", MACHINES_VERSION)
    return Machines(path, data["settings"]["effect"], tuple(_pair(pair) for pair in data["pairs"]))
