# SPDX-License-Identifier: Apache-2.0
"""Shared by the kinds that show the stages of an iteration: how they follow one another, and what
they were called in files of earlier versions."""

from __future__ import annotations

from plots.load import Cell

# As they follow one another in an iteration; files hold them by name. Others come last. The second
# number gives colour and hatching, the same in every figure.
STAGES = {
    "upload": 4,
    "assign": 0,
    "assign and reduce": 7,
    "download": 3,
    "sort": 5,
    "update": 1,
    "converge": 6,
}
_EARLIER_NAMES = {"label": "assign"}
OPERATIONS, BYTES = "operations", "bytes_as_written"


def names_of(stage: str) -> list[str]:
    """All names that files have for a stage."""
    return [stage, *(old for old, today in _EARLIER_NAMES.items() if today == stage)]


def times_of(cell: Cell) -> dict[str, float]:
    """Seconds of each stage of one iteration, by the name that the stage has today."""
    found: dict[str, float] = {}
    for name, seconds in (cell.data.get("stages") or {}).items():
        today = _EARLIER_NAMES.get(name, name)
        found[today] = found.get(today, 0.0) + seconds
    return found
