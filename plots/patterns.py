# SPDX-License-Identifier: Apache-2.0
"""Regular expressions that a file may hold, within bounds: Python's matcher tries all ways to
match, so a pattern of a few letters can keep it busy for ever."""

from __future__ import annotations

import re

LONGEST = 200  # letters
MOST_CHOICES = 4  # of the signs below: the tries grow as a power of their number
_CHOICE = re.compile(r"[|*+?{]")
_REPEATED_GROUP = re.compile(r"\)\s*[*+?{]")


def fault(pattern: str) -> str | None:
    """Why a pattern is refused; None if it may be used."""
    if len(pattern) > LONGEST:
        return f"a pattern of {len(pattern)} letters; at most {LONGEST} are taken"
    if _REPEATED_GROUP.search(pattern):
        return f"the pattern {pattern!r} repeats a group, which may never end; repeat letters"
    choices = len(_CHOICE.findall(pattern))
    if choices > MOST_CHOICES:
        return f"{choices} of the signs | * + ? {{ in {pattern!r}; at most {MOST_CHOICES} are taken"
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"the pattern {pattern!r} is not a regular expression: {error}"
    return None


def matches(pattern: str, name: str) -> bool:
    """Is the name the pattern itself, or all of it a match? Nothing matches a refused pattern."""
    return name == pattern or (fault(pattern) is None and bool(re.fullmatch(pattern, name)))
