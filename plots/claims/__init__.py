# SPDX-License-Identifier: Apache-2.0
"""What a source claims, tested against what this run measured; docs/report.md has the rules.

values.py finds the numbers that a test is about, rules.py holds them against what is claimed,
outcomes.py makes one verdict of several tests, wording.py knows how all of that is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from plots.claims.outcomes import (
    FAILS,
    HOLDS,
    KINDS,
    PARTLY,
    SIGNS,
    TOO_FEW,
    UNDECIDED,
    UNTESTED,
    WORDS,
    Verdict,
    combined,
    statements,
    tally,
    tally_text,
    untested,
)
from plots.claims.rules import ABOUT, outcomes
from plots.claims.wording import where
from plots.load import Result
from plots.published import described
from plots.words import listed

__all__ = [
    "ABOUT",
    "FAILS",
    "HOLDS",
    "KINDS",
    "PARTLY",
    "SIGNS",
    "TOO_FEW",
    "UNDECIDED",
    "UNTESTED",
    "WORDS",
    "Verdict",
    "statements",
    "tally",
    "tally_text",
    "verdict_of",
    "verdicts",
    "where",
]


def verdicts(result: Result) -> list[Verdict]:
    """One verdict for every claim of the experiment, in its order."""
    return [verdict_of(result, claim) for claim in described(result, "claims")]


def verdict_of(result: Result, claim: dict[str, Any]) -> Verdict:
    scales = claim.get("scales", [result.scale])
    if result.scale not in scales:
        found = [untested(f"the claim is about {listed(scales)} scale")]
    elif not claim.get("tests"):
        found = [untested("no test of this suite can decide it")]
    else:
        found = [outcome for test in claim["tests"] for outcome in outcomes(result, test)]
    return replace(combined(claim, found), experiment=result.experiment)
