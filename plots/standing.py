# SPDX-License-Identifier: Apache-2.0
"""Where the sources stand: of each, how many statements came out as what, and each claim about
them with its verdict in short. Report and index begin with it (plots/templates/standing.html.j2).
"""

from __future__ import annotations

import re
import urllib.parse
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from plots import claims
from plots.claims import FAILS, HOLDS, PARTLY, UNTESTED, Verdict
from plots.load import Result

_REASONS = 2  # of what is not tested, by name; the rest is counted
# "cuda_a f32 skipped: no NVIDIA driver is installed here (libcuda.so.1 was not found)"
_SKIPPED = re.compile(r"skipped: (.+?)(?: \(|;|,| and |$)")
_NO_CELL = re.compile(r"^no cell of .* in this run$")
_NAMED = re.compile(r"^([a-z]+\d{4})\b")  # "zhihu2023, section 4.5"

Run = tuple[Result, Sequence[Verdict]]


@dataclass(frozen=True)
class Entry:
    """A claim of a source and what became of it here."""

    experiment: str
    verdict: Verdict

    @property
    def anchor(self) -> str:
        """Of the claim's row in the experiment's section of a report."""
        return anchor_of(self.experiment, self.verdict)

    @property
    def text(self) -> str:
        """'does not hold: at n = 100. The source's sentence.'"""
        return f"{self.verdict.verdict}. {self.verdict.claim['statement']}"


@dataclass(frozen=True)
class Source:
    """A published text, and all claims about it that a machine's results answer or should answer;
    several of them may test one statement."""

    name: str
    title: str
    entries: tuple[Entry, ...]

    @property
    def tally(self) -> dict[str, int]:
        """Statements by what became of them."""
        return claims.tally(entry.verdict for entry in self.entries)

    @property
    def experiments(self) -> list[str]:
        return list(dict.fromkeys(entry.experiment for entry in self.entries))

    @property
    def tested(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.verdict.kind != UNTESTED]

    @property
    def untested(self) -> str | None:
        return untested_text([entry.verdict for entry in self.entries])


def kinds_of(tallies: Iterable[Mapping[str, int]]) -> list[str]:
    """The kinds of verdict worth a column: the three that decide, and what there is of the rest."""
    there = {kind for tally in tallies for kind, number in tally.items() if number}
    return [kind for kind in claims.KINDS if kind in (HOLDS, FAILS, PARTLY) or kind in there]


def anchor_of(experiment: str, verdict: Verdict) -> str:
    """The id of a claim's row in a report."""
    return f"claim-{experiment}-{verdict.claim['id']}"


def sources_of(runs: Iterable[Run]) -> list[Source]:
    """By name. A claim belongs to the source that its experiment follows, else to the one that its
    place names; questions of our own belong to none."""
    found: dict[str, list[Entry]] = {}
    titles: dict[str, str] = {}
    for result, verdicts in runs:
        follows = result.spec.get("source")
        if follows == result.experiment:
            titles[follows] = str(result.spec.get("title") or "").partition(":")[0]
        for verdict in verdicts:
            named = _NAMED.match(str(verdict.claim.get("where", "")))
            source = follows or (named and named[1])
            if source and not verdict.ours:
                found.setdefault(source, []).append(Entry(result.experiment, verdict))
    return [
        # The experiment of the source's own name first.
        Source(name, titles.get(name, ""), tuple(sorted(own, key=lambda e: e.experiment != name)))
        for name, own in sorted(found.items())
    ]


def reason_of(verdict: Verdict) -> str:
    """Why a claim is not tested, without what differs from one claim to the next."""
    skipped = _SKIPPED.search(verdict.detail)
    if skipped:
        return skipped[1]
    return "no such cell in this run" if _NO_CELL.match(verdict.detail) else verdict.detail


def untested_text(verdicts: Sequence[Verdict]) -> str | None:
    """'13 of 22 claims cannot be tested here: no NVIDIA driver is installed here (12); the claim is
    about paper scale (1)'; None where all are tested."""
    untested = [verdict for verdict in verdicts if verdict.kind == UNTESTED]
    if not untested:
        return None
    reasons = Counter(map(reason_of, untested)).most_common()
    parts = [f"{reason} ({count})" for reason, count in reasons[:_REASONS]]
    others = sum(count for _, count in reasons[_REASONS:])
    parts += [f"other reasons ({others})"] if others else []
    noun = "claim" if len(verdicts) == 1 else "claims"
    return f"{len(untested)} of {len(verdicts)} {noun} cannot be tested here: {'; '.join(parts)}"


@dataclass(frozen=True)
class Place:
    """A source on one machine, as a field of the index."""

    tally: dict[str, int]
    link: str | None  # to the source in the machine's report


@dataclass(frozen=True)
class Standing:
    """A source on all machines: None where nothing of it ran."""

    source: Source
    places: tuple[Place | None, ...]


def over_machines(
    runs: Mapping[str, Sequence[Run]], reports: Mapping[str, str | None]
) -> tuple[list[str], list[Standing]]:
    """The machines on which a claim of a source was tested, and each source on them; `reports` are
    links to the machines' reports."""
    found = {name: {one.name: one for one in sources_of(own)} for name, own in runs.items()}
    machines = [name for name, own in found.items() if any(s.tested for s in own.values())]
    standings = []
    for source in sorted({name for machine in machines for name in found[machine]}):
        here = [found[machine].get(source) for machine in machines]
        links = [reports[machine] for machine in machines]
        places = [
            Place(one.tally, link and f"{link}#said-{urllib.parse.quote(source)}") if one else None
            for one, link in zip(here, links, strict=True)
        ]
        fullest = max((one for one in here if one), key=lambda one: len(one.entries))
        standings.append(Standing(fullest, tuple(places)))
    return machines, standings
