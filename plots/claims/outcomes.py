# SPDX-License-Identifier: Apache-2.0
"""From what became of each test to the verdict on a claim."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from plots.words import listed, many

HOLDS, FAILS, PARTLY = "holds", "fails", "partly"
UNDECIDED, TOO_FEW, UNTESTED = "undecided", "few", "untested"
KINDS = (HOLDS, FAILS, PARTLY, UNDECIDED, TOO_FEW, UNTESTED)
# What a reader sees of a kind: a sign and a word, so that nothing rests on colour.
SIGNS = {HOLDS: "✓", FAILS: "✗", PARTLY: "◐", UNDECIDED: "±", TOO_FEW: "?", UNTESTED: "○"}
WORDS = {
    HOLDS: "holds",
    FAILS: "does not hold",
    PARTLY: "holds in part",
    UNDECIDED: "undecided",
    TOO_FEW: "not enough samples",
    UNTESTED: "not tested here",
}
ONLY_FOR = "holds here only for"

# A claim is as good as its worst test: one that fails decides, one without data leaves it open, and
# so does one whose interval is on both sides.
_DECIDES = (FAILS, PARTLY, UNTESTED, TOO_FEW, UNDECIDED, HOLDS)
# So is a statement of several claims, but for those that cannot be tested here.
_DECIDES_STATEMENT = (FAILS, PARTLY, UNDECIDED, HOLDS, TOO_FEW, UNTESTED)


@dataclass(frozen=True)
class Verdict:
    """A claim and what became of it in this run."""

    claim: dict[str, Any]
    verdict: str  # "holds", "does not hold", "holds here only for ...", "not tested here: ..."
    kind: str  # one of KINDS
    measured: str  # the numbers found, and what was asked of them
    experiment: str = ""

    @property
    def sign(self) -> str:
        return SIGNS[self.kind]

    @property
    def ours(self) -> bool:
        """A question of this project, which no source answers."""
        return self.claim.get("of") == "ours"

    @property
    def repeats(self) -> str:
        """The claim that tests the same statement, as experiment/claim."""
        return self.claim.get("repeats", "")

    @property
    def statement(self) -> str:
        """What is the same of all claims that test one statement."""
        return self.repeats or f"{self.experiment}/{self.claim['id']}"

    @property
    def detail(self) -> str:
        """What the sentence says beyond the kind's own words."""
        return self.verdict.removeprefix(WORDS[self.kind]).removeprefix(":").strip(" ,")


@dataclass(frozen=True)
class Outcome:
    """What became of one thing that a test asks."""

    kind: str
    detail: str = ""  # what is missing or undecided, or which step fails
    places: str = ""  # where it holds, if that is not everywhere
    found: str = ""  # the numbers
    claimed: str = ""  # what was asked of them: "about 23x"
    notes: str = ""  # next to the numbers; begins with "; "
    magnitude: bool = False  # asks how large, not which way
    phrase: str = ""  # what is so: "faster", or of a missed magnitude "39.7x, not about 23x"
    part: str = ""  # of the run, that the test looks at: "n = 100"


def untested(why: str) -> Outcome:
    return Outcome(UNTESTED, why.rstrip("."))


def combined(claim: dict[str, Any], outcomes: Sequence[Outcome]) -> Verdict:
    """All must hold. Where the direction does and a magnitude does not, the claim holds in part."""
    direction = [o for o in outcomes if not o.magnitude]
    missed = [o for o in outcomes if o.magnitude and o.kind in (FAILS, PARTLY)]
    standing = [o for o in direction if o.kind in (HOLDS, PARTLY)]
    fails = any(o.kind == FAILS for o in direction)
    measured = _measured(outcomes)
    open_ = any(o.kind == UNDECIDED for o in direction)
    if missed and standing and not fails and not open_:
        sizes = sum(o.magnitude for o in outcomes)
        text = f"{WORDS[PARTLY]}: {_but(standing, missed, several=sizes > 1)}"
        return Verdict(claim, text, PARTLY, measured)
    judges = direction if direction and (missed or fails) else outcomes
    kind = next(kind for kind in _DECIDES if any(o.kind == kind for o in judges))
    text = _sentence(kind, [o for o in judges if o.kind == kind])
    return Verdict(claim, text, kind, measured)


def _sentence(kind: str, deciding: Sequence[Outcome]) -> str:
    if kind == HOLDS:
        return WORDS[HOLDS]
    if kind == PARTLY:
        texts = [_where_it_holds(o) for o in deciding]
        return f"{ONLY_FOR} {'; and '.join(dict.fromkeys(texts))}"
    details = list(dict.fromkeys(o.detail for o in deciding if o.detail))
    joint = "; " if kind == FAILS else "; and "
    return WORDS[kind] + (f": {joint.join(details)}" if details else "")


def _where_it_holds(outcome: Outcome) -> str:
    return outcome.places + (f"; {outcome.detail}" if outcome.detail else "")


def _but(standing: Sequence[Outcome], missed: Sequence[Outcome], several: bool) -> str:
    """'faster, but 39.7x, not about 23x': what holds, and what does not."""
    holds = [
        o.phrase + (f" only for {_where_it_holds(o)}" if o.kind == PARTLY else "") for o in standing
    ]
    lacks = []
    for one in missed:
        text = one.phrase
        if one.kind == PARTLY:
            text = f"{one.claimed} only for {_where_it_holds(one)}"
        lacks.append(text + (f" ({one.part})" if several and one.part else ""))
    both = (listed(list(dict.fromkeys(holds))), "; ".join(dict.fromkeys(lacks)))
    return ", but ".join(both)


def _measured(outcomes: Sequence[Outcome]) -> str:
    """The numbers once, with all that is claimed of them."""
    claimed: dict[str, list[str]] = {}
    notes: dict[str, list[str]] = {}
    for one in outcomes:
        if one.found:
            claimed.setdefault(one.found, []).append(one.claimed)
            notes.setdefault(one.found, []).append(one.notes)
    return "; ".join(
        f"{found} (claimed: {', '.join(dict.fromkeys(asked))})"
        + "".join(dict.fromkeys(note for note in notes[found] if note))
        for found, asked in claimed.items()
    )


def statements(found: Iterable[Verdict], ours: bool = False) -> dict[str, str]:
    """What became of each statement of a source, or of each question of our own: what several
    claims test stands once."""
    kinds: dict[str, list[str]] = {}
    for verdict in found:
        if verdict.ours == ours:
            kinds.setdefault(verdict.statement, []).append(verdict.kind)
    return {one: min(tested, key=_DECIDES_STATEMENT.index) for one, tested in kinds.items()}


def tally(found: Iterable[Verdict], ours: bool = False) -> dict[str, int]:
    """How many of these came out as what; every kind is a key."""
    kinds = list(statements(found, ours).values())
    return {kind: kinds.count(kind) for kind in KINDS}


def tally_text(found: Sequence[Verdict]) -> str:
    """'3 statements: 1 holds, 1 does not, 0 in part, 1 not tested here; 2 questions of our own:
    ...'; of whom there are none is left out, but not of both."""
    sources, own = tally(found), tally(found, ours=True)
    parts = []
    if any(sources.values()) or not any(own.values()):
        parts.append(_counted(sources, many(sum(sources.values()), "statement")))
    if any(own.values()):
        noun = many(sum(own.values()), "question of our own", "questions of our own")
        parts.append(_counted(own, noun))
    return "; ".join(parts)


def _counted(counts: dict[str, int], whose: str) -> str:
    """What could not be decided is named where there is any."""
    left_open = {
        UNDECIDED: "undecided",
        TOO_FEW: "without enough samples",
        UNTESTED: "not tested here",
    }
    parts = [
        f"{whose}: {counts[HOLDS]} {'holds' if counts[HOLDS] == 1 else 'hold'}",
        f"{counts[FAILS]} {'does' if counts[FAILS] == 1 else 'do'} not",
        f"{counts[PARTLY]} in part",
        *(f"{counts[kind]} {text}" for kind, text in left_open.items() if counts[kind]),
    ]
    return ", ".join(parts)
