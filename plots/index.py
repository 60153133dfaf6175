# SPDX-License-Identifier: Apache-2.0
"""results/index.html: all machines with a result, and which claim of which source holds where."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from plots import claims, leaderboard, standing, words
from plots.captions import build_warning, gpus_of, narrowed_text, partial_text
from plots.claims import Verdict
from plots.comparison import Link, comparisons_in
from plots.load import Cell, Result
from plots.pool import starmap
from plots.report import Picture, page, picture_of, write_page

_STATUSES = ("ok", "wrong", "skipped", "error")


@dataclass(frozen=True)
class Run:
    """One experiment on one machine, as a line of the index."""

    result: Result
    counts: dict[str, int]  # cells by status
    studies: int
    verdicts: list[Verdict]
    link: str | None  # to its section of the machine's report

    @property
    def unpublishable(self) -> bool:
        return build_warning(self.result) is not None

    @property
    def partial(self) -> str | None:
        return partial_text(self.result)

    @property
    def narrowed(self) -> str | None:
        return narrowed_text(self.result)

    @property
    def numbers(self) -> list[int]:
        """In the order of the template's headings."""
        return [*self.counts.values(), self.studies, *claims.tally(self.verdicts).values()]

    @property
    def own(self) -> str:
        return _own(self.verdicts)


@dataclass(frozen=True)
class Machine:
    """One folder of results."""

    name: str
    cpu: str
    gpu: str
    runs: list[Run]
    link: str | None  # to its report; None if that was not drawn
    compared: list[Link]  # comparisons that lie in its folder, as seen from the index

    @property
    def counts(self) -> dict[str, int]:
        return _sum([run.counts for run in self.runs], _STATUSES)

    @property
    def verdicts(self) -> list[Verdict]:
        return [verdict for run in self.runs for verdict in run.verdicts]

    @property
    def numbers(self) -> list[int]:
        """In the order of the template's headings."""
        return [*self.counts.values(), *self.doubts, *claims.tally(self.verdicts).values()]

    @property
    def own(self) -> str:
        return _own(self.verdicts)

    @property
    def dates(self) -> str:
        return _first_to_last([_context(r.result, "started")[:10] for r in self.runs])

    @property
    def commits(self) -> list[str]:
        found = [
            str((r.result.context.get("suite") or {}).get("git_commit", "")) for r in self.runs
        ]
        return list(dict.fromkeys(commit[:12] for commit in found if commit))

    @property
    def doubts(self) -> list[int]:
        """Of the cells that were measured, those that are unsteady and those that are noted."""
        cells = [c for run in self.runs for c in run.result.cells if c.status == "ok"]
        return [sum(bool(c.unsteady) for c in cells), sum(bool(c.noted) for c in cells)]

    @property
    def scales(self) -> str:
        return ", ".join(sorted({run.result.scale for run in self.runs}))


@dataclass(frozen=True)
class Line:
    """A claim and its verdict on each machine; None where its experiment did not run."""

    claim: dict[str, Any]
    verdicts: list[Verdict | None]
    links: list[str | None]


@dataclass(frozen=True)
class Group:
    """The claims of one experiment."""

    experiment: str
    title: str
    source: str | None
    lines: list[Line]
    scales: list[str | None]  # of each machine; None where it did not run

    @property
    def tested(self) -> list[Line]:
        """Those that some machine's results decide or leave undecided."""
        return [
            line
            for line in self.lines
            if any(v and v.kind != claims.UNTESTED for v in line.verdicts)
        ]

    @property
    def untested(self) -> list[Line]:
        return [line for line in self.lines if line not in self.tested]

    @property
    def ours(self) -> bool:
        """Do no source's statements stand there?"""
        return all(line.claim.get("of") == "ours" for line in self.lines)


def _own(verdicts: Sequence[Verdict]) -> str:
    """How many questions of our own hold, of how many."""
    counts = claims.tally(verdicts, ours=True)
    total = sum(counts.values())
    return f"{counts[claims.HOLDS]} of {total}" if total else words.NONE


def _sum(counts: Sequence[Mapping[str, int]], keys: Sequence[str]) -> dict[str, int]:
    return {key: sum(count[key] for count in counts) for key in keys}


def _first_to_last(values: Sequence[str]) -> str:
    known = sorted(value for value in values if value)
    if not known:
        return words.NONE
    return known[0] if known[0] == known[-1] else f"{known[0]} to {known[-1]}"


def _context(result: Result, key: str) -> str:
    return str(result.context.get(key) or "")


def _counts(cells: Sequence[Cell]) -> dict[str, int]:
    statuses = [cell.status for cell in cells]
    return {status: statuses.count(status) for status in _STATUSES}


def machine_of(folder: Path, results: Sequence[Result]) -> Machine:
    """A folder's line; its report is linked if it is there."""
    about = results[0].context.get("machine") or {}
    cpu = about.get("cpu") or {}
    report = folder / "report.html"
    link = urllib.parse.quote(f"{folder.name}/report.html") if report.is_file() else None
    runs = []
    for result in results:
        section = f"{link}#{urllib.parse.quote(result.experiment)}" if link else None
        counts, found = _counts(result.cells), claims.verdicts(result)
        runs.append(Run(result, counts, len(result.studies), found, section))
    compared = [
        replace(one, href=f"{urllib.parse.quote(folder.name)}/{one.href}")
        for one in comparisons_in(folder)
    ]
    model = next((str(cpu[key]) for key in ("model", "model_name", "name") if cpu.get(key)), "")
    gpus = words.listed(gpus_of(results[0])) or words.NONE
    return Machine(folder.name, model or words.NONE, gpus, runs, link, compared)


def _anchor(experiment: str, verdict: Verdict) -> str:
    """What is not tested leads to its experiment, where a closed fold lists it."""
    tested = verdict.kind != claims.UNTESTED
    return standing.anchor_of(experiment, verdict) if tested else experiment


def groups_of(machines: Sequence[Machine]) -> list[Group]:
    """Every claim that some machine's results answer or should answer, by experiment; those that
    follow a source first, those that ask our own questions alone last."""
    names = dict.fromkeys(run.result.experiment for m in machines for run in m.runs if run.verdicts)
    groups = []
    for name in names:
        here = [next((r for r in m.runs if r.result.experiment == name), None) for m in machines]
        known = {v.claim["id"]: v.claim for run in here if run for v in run.verdicts}
        lines = []
        for identity, claim in known.items():
            found = [
                next((v for v in run.verdicts if v.claim["id"] == identity), None) if run else None
                for run in here
            ]
            links = [
                f"{machine.link}#{_anchor(name, verdict)}" if machine.link and verdict else None
                for machine, verdict in zip(machines, found, strict=True)
            ]
            lines.append(Line(claim, found, links))
        spec = next(run.result.spec for run in here if run)
        groups.append(
            Group(
                name,
                spec.get("title") or name,
                spec.get("source"),
                lines,
                [run.result.scale if run else None for run in here],
            )
        )
    return sorted(groups, key=lambda g: (g.ours, g.source is None, g.experiment))


@dataclass(frozen=True)
class Map:
    """Who wins where on a machine, among variants of one kind of answer."""

    machine: str
    kind: str
    picture: Picture


def maps_of(folders: Mapping[Path, Sequence[Result]]) -> list[Map]:
    """The winners' maps of all machines, for each kind of answer those that can be drawn."""
    wanted = [
        (folder.name, kind, _of_kind(result, kind), figure)
        for folder, results in folders.items()
        for result in results
        for figure in result.figures
        if figure["kind"] == "winners" and "among" not in figure
        for kind in leaderboard.KINDS
    ]
    tasks = [(result, figure, place) for place, (_, _, result, figure) in enumerate(wanted)]
    return [
        Map(name, kind, picture)
        for (name, kind, _, _), picture in zip(wanted, starmap(picture_of, tasks), strict=True)
        if picture.source is not None
    ]


def _of_kind(result: Result, kind: str) -> Result:
    cells = [c for c in result.cells if c.answer == kind]
    return replace(result, cells=tuple(cells))


def render(folders: Mapping[Path, Sequence[Result]]) -> str:
    """The index of these folders, as the text of one HTML file that lies next to them."""
    machines = [machine_of(folder, results) for folder, results in folders.items()]
    groups = groups_of(machines)
    found = [claims.statements(machine.verdicts) for machine in machines]
    statements = dict.fromkeys(statement for here in found for statement in here)
    somewhere = {
        kind: sum(any(here.get(one) == kind for here in found) for one in statements)
        for kind in claims.KINDS
    }
    questions = {one for m in machines for one in claims.statements(m.verdicts, ours=True)}
    standing_machines, standings = standing.over_machines(
        {m.name: [(run.result, run.verdicts) for run in m.runs] for m in machines},
        {m.name: m.link for m in machines},
    )
    board = leaderboard.assemble(folders, next(iter(folders)).resolve().parent)
    return page(
        "index.html.j2",
        leaderboard.extras(with_chart=True),
        machines=machines,
        groups=groups,
        statements=len(statements),
        questions=len(questions),
        standing_machines=standing_machines,
        standings=standings,
        source_kinds=standing.kinds_of([p.tally for s in standings for p in s.places if p]),
        somewhere=somewhere,
        maps=maps_of(folders),
        rows=sum(len(problem["rows"]) for problem in board["problems"]),
        problems=len(board["problems"]),
        chart=leaderboard.embedded(leaderboard.chart()),
        **leaderboard.values(board),
    )


def write_index(folders: Mapping[Path, Sequence[Result]], root: Path) -> Path:
    return write_page(root / "index.html", render(folders))
