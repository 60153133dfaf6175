# SPDX-License-Identifier: Apache-2.0
"""How many times were measured next to other work or at a lower clock, and how much slower that
was, by the notes of the cells themselves."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence

from plots.load import Cell
from plots.words import count, digits, many

# Each sign of other work, and the number in its note. These are the words of harness/run/noted.cpp;
# older result files have "beside".
_SLOWER = re.compile(r"a fixed computation (?:beside|next to) it take ([\d.]+) times as long")
_WITHHELD = re.compile(r"withheld ([\d.]+) % of the processor time")
_OTHERS = re.compile(r"other processes used ([\d.]+) of")


def _values(cells: Sequence[Cell], sign: re.Pattern[str]) -> list[float]:
    """The largest of each cell that has some."""
    found = [[float(hit[1]) for text in cell.noted if (hit := sign.search(text))] for cell in cells]
    return [max(values) for values in found if values]


def disturbed(cells: Sequence[Cell]) -> list[Cell]:
    """Those with a time, taken next to other work or at a lower clock."""
    signs = (_SLOWER, _WITHHELD, _OTHERS)
    return [c for c in cells if c.ok and any(_values([c], sign) for sign in signs)]


def text(cells: Sequence[Cell]) -> str:
    """'336 of 420 times were measured next to other work or at a lower clock: a fixed computation
    next to the slowest process of each took 1.74 times as long as at its best (median)'; empty
    where none was."""
    hit = disturbed(cells)
    if not hit:
        return ""
    parts = []
    if slower := _values(hit, _SLOWER):
        parts.append(
            f"a fixed computation next to the slowest process of each took "
            f"{digits(statistics.median(slower))} times as long as at its best (median"
            f"{_of(slower, hit)})"
        )
    if withheld := _values(hit, _WITHHELD):
        parts.append(
            f"the machine's host withheld {digits(statistics.median(withheld), 2)} % of the "
            f"processor time (median{_of(withheld, hit)})"
        )
    if others := _values(hit, _OTHERS):
        parts.append(f"other processes used processors{_of(others, hit) or ' at all of them'}")
    return f"{_how_many(cells, hit)}: {'; '.join(parts)}"


def short_text(cells: Sequence[Cell]) -> str:
    """The same in one line: '336 of 420 times were measured next to other work or at a lower clock:
    the machine was 1.74 times as slow as at its best (median)'."""
    hit = disturbed(cells)
    slower = _values(hit, _SLOWER)
    if not hit:
        return ""
    if not slower:
        return _how_many(cells, hit)
    return (
        f"{_how_many(cells, hit)}: the machine was {digits(statistics.median(slower))} times as "
        f"slow as at its best (median{_of(slower, hit)})"
    )


def _how_many(cells: Sequence[Cell], hit: Sequence[Cell]) -> str:
    timed = sum(1 for cell in cells if cell.ok)
    return (
        f"{count(len(hit))} of {many(timed, 'time')} {'was' if len(hit) == 1 else 'were'} "
        "measured next to other work or at a lower clock"
    )


def _of(values: Sequence[float], hit: Sequence[Cell]) -> str:
    """' at 5 of them', or nothing where it is at all."""
    return "" if len(values) == len(hit) else f" at {count(len(values))} of them"
