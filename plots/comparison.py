# SPDX-License-Identifier: Apache-2.0
"""The only reader of comparison files, as `kmeans-bench compare --json` writes them."""

from __future__ import annotations

import os
import urllib.parse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plots import machines
from plots.load import ROOT, Interval, ResultError, ratio_of, read_checked
from plots.words import count, listed, many

COMPARISON_VERSION = 2
PAGE = "comparison.html"
SCHEMA_FILE = ROOT / "results" / "comparison.schema.json"

# The worst first: the order of tables and legends.
VERDICTS = ("slower", "faster", "unclear", "same", "untimed")
# Of the gate, with a sign for each, so that nothing rests on colour.
OUTCOMES = {"passed": "✓", "failed": "✗", "undecided": "?"}
# What a reader sees next to the word, so that nothing rests on colour: where the time went.
SIGNS = {"slower": "↑", "faster": "↓", "unclear": "~", "same": "=", "untimed": "○"}
WORDS = {
    "slower": "slower",
    "faster": "faster",
    "unclear": "unclear",
    "same": "same",
    "untimed": "untimed",
}


@dataclass(frozen=True)
class Pair:
    """A cell on both sides. Ratios are new over base, times in seconds per iteration."""

    experiment: str
    key: str
    new_key: str
    variant: str
    backend: str
    precision: str
    dataset: str
    n: int
    d: int
    k: int
    iterations: int
    threads: int
    verdict: str
    why: str
    ratio: Interval | None  # not `confident` where it has no interval: then low and high are mid
    p_adjusted: float | None
    correctness: tuple[str, ...]
    regression: bool  # of correctness
    still_broken: bool  # wrong or failed on both sides, and not known to be
    base: dict[str, Any] = field(repr=False)  # the sides as they stand in the file
    new: dict[str, Any] = field(repr=False)
    sees: float | None = None  # from which share on it alone would have been called slower
    outcome: str | None = None  # what the gate makes of it
    outcome_why: str = ""

    @property
    def label(self) -> str:
        return f"{self.variant} {self.precision}"

    @property
    def shape(self) -> tuple[int, int, int]:
        return (self.n, self.d, self.k)

    def _doubts(self, name: str) -> list[str]:
        return [
            f"{side}: {text}"
            for side, found in (("base", self.base), ("new", self.new))
            for text in found[name]
        ]

    @property
    def unsteady(self) -> list[str]:
        return self._doubts("unsteady")

    @property
    def noted(self) -> list[str]:
        return self._doubts("noted")

    @property
    def certified(self) -> bool:
        """Whatever changed, both sides passed their certificate."""
        return self.base["status"] == self.new["status"] == "ok"

    @property
    def changed_otherwise(self) -> bool:
        return bool(self.correctness) and not self.regression and not self.lost

    @property
    def lost(self) -> bool:
        """Measured in base, skipped in new: no wrong answer, but the gate minds."""
        return (self.base["status"], self.new["status"]) == ("ok", "skipped")


@dataclass(frozen=True)
class Comparison:
    path: Path
    base: dict[str, Any] = field(repr=False)
    new: dict[str, Any] = field(repr=False)
    settings: dict[str, Any] = field(repr=False)
    differences: tuple[str, ...] = field(repr=False)
    bits_vary: int  # cells whose bits are not compared, since they vary within one side
    counts: dict[str, int] = field(repr=False)
    geometric_mean_ratio: float | None
    pairs: tuple[Pair, ...] = field(repr=False)
    records: tuple[dict[str, Any], ...] = field(repr=False)
    missing: tuple[dict[str, str], ...] = field(repr=False)
    added: tuple[dict[str, str], ...] = field(repr=False)
    gate: dict[str, Any] = field(repr=False)
    groups: tuple[dict[str, Any], ...] = field(repr=False)
    sees: str

    @property
    def outcome(self) -> str:
        """passed, failed or undecided: the word of terminal and Markdown."""
        return str(self.gate["outcome"])

    @property
    def lost(self) -> tuple[int, int]:
        """How many cells, and how many traces and studies, ran in base and are skipped in new."""
        return (
            sum(pair.lost and not pair.regression for pair in self.pairs),
            sum(bool(record.get("lost")) for record in self.records),
        )

    @property
    def answers(self) -> str:
        """How many cells, traces and studies have another answer, in words."""
        broken = sum(pair.regression for pair in self.pairs)
        broken += sum(bool(record["correctness_regression"]) for record in self.records)
        certified = sum(pair.changed_otherwise and pair.certified for pair in self.pairs)
        others = sum(pair.changed_otherwise and not pair.certified for pair in self.pairs)
        others += sum(
            not record["correctness_regression"] and not record.get("lost")
            for record in self.records
        )
        parts = [f"{many(broken, 'answer')} broken"]
        cells, records = self.lost
        parts += [f"{many(cells, 'cell')} lost"] if cells else []
        parts += (
            [f"{many(records, 'trace or study', 'traces and studies')} lost"] if records else []
        )
        parts += [f"{count(certified)} changed but certified"] if certified else []
        parts += [f"{many(others, 'other change')}"] if others else []
        return ", ".join(parts)

    @property
    def experiments(self) -> list[str]:
        return list(dict.fromkeys(pair.experiment for pair in self.pairs))


def _pair(cell: dict[str, Any]) -> Pair:
    same = "experiment key new_key variant backend precision dataset n d k iterations threads "
    same += "verdict why p_adjusted base new sees outcome outcome_why"
    return Pair(
        **{name: cell[name] for name in same.split()},
        ratio=ratio_of(cell, "ratio"),
        correctness=tuple(cell["correctness"]),
        regression=cell["correctness_regression"],
        still_broken=cell.get("still_broken", False),
    )


def load_comparison(path: Path) -> Comparison:
    """Reads and checks a comparison; raises ResultError."""
    data = read_checked(path, SCHEMA_FILE, "comparison_version", COMPARISON_VERSION)
    return Comparison(
        path=path,
        base=data["base"],
        new=data["new"],
        settings=data["settings"],
        differences=tuple(data["differences"]),
        bits_vary=data.get("bits_vary", 0),
        counts=data["counts"],
        geometric_mean_ratio=data["geometric_mean_ratio"],
        pairs=tuple(_pair(cell) for cell in data["cells"]),
        records=tuple(data.get("records") or ()),
        missing=tuple(data["missing"]),
        added=tuple(data["added"]),
        gate=data["gate"],
        groups=tuple(data["groups"]),
        sees=data["sees"],
    )


@dataclass(frozen=True)
class Link:
    """A comparison that lies in a machine's folder, as its report names it."""

    base: str
    href: str
    text: str


def _machines_in(folder: Path) -> list[Link]:
    """Comparisons with other machines; they lie in the folder of one of the two."""
    places = [*folder.glob("compare-*/machines.json")]
    places += folder.parent.glob(f"*/compare-{folder.name}/machines.json")
    found = []
    for path in sorted(places):
        if not (path.parent / machines.PAGE).is_file():
            continue
        try:
            pairs = machines.load_machines(path).pairs
        except ResultError:
            continue
        names = [pairs[0].first, *(pair.second for pair in pairs)]
        others = [name["label"] for name in names if Path(name["label"]).name != folder.name]
        href = urllib.parse.quote(os.path.relpath(path.parent / machines.PAGE, folder))
        found.append(Link(listed(others), href, pairs[0].sentences[0]))
    return found


def comparisons_in(folder: Path) -> list[Link]:
    """Of results/<machine>/compare-*/, those with a page and a file that can be read."""
    found = _machines_in(folder)
    for path in sorted(folder.glob("compare-*/comparison.json")):
        if not (path.parent / PAGE).is_file():
            continue
        try:
            comparison = load_comparison(path)
        except ResultError:
            continue
        counts = comparison.counts
        parts = [f"{counts[v]} {WORDS[v]}" for v in VERDICTS if counts[v]]
        if counts["correctness"] or any(comparison.lost):
            parts.insert(0, comparison.answers)
        found.append(
            Link(
                comparison.base["label"],
                urllib.parse.quote(f"{path.parent.name}/{PAGE}"),
                f"gate {comparison.outcome}; {', '.join(parts)}",
            )
        )
    return found
