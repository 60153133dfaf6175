# SPDX-License-Identifier: Apache-2.0
"""Exact and rounded variants on one page: kept apart, and each rounded time with its price."""

from __future__ import annotations

from collections.abc import Sequence

from plots.load import Cell
from plots.words import percent, rounded_count

_UNKNOWN = "share wrong unknown"
PRICE = (
    "Wrong: the share of a variant's labels that are not those of the exact step from the same "
    "centroids, in the first or the last iteration, whichever has more, among the points that were "
    "checked."
)
SENTENCE = (
    "Above the line exact variants, whose labels and centroids are the float64 answer bit for bit; "
    f"below it all others, each with its wrong labels. {PRICE}"
)


def is_mixed(cells: Sequence[Cell]) -> bool:
    """Do times of exact variants stand next to others?"""
    return len({cell.exact for cell in cells if cell.ok}) == 2


def _share(cell: Cell) -> float | None:
    return (cell.data.get("verification") or {}).get("labels_differing")


def wrong_text(cell: Cell) -> str:
    """The share of a cell's labels that are wrong; where none was, of how many if not of all.
    Empty for an exact variant."""
    if cell.exact:
        return ""
    share = _share(cell)
    if share is None:
        return _UNKNOWN
    found = cell.data["verification"]
    checked, all_of_them = found.get("points_checked", 0), found.get("points_total", 0)
    if share == 0 and checked < all_of_them:
        return f"0 of {rounded_count(checked)} wrong"
    return f"{percent(share)} wrong"


def most_wrong_text(cells: Sequence[Cell]) -> str:
    """The largest share of several cells that have a time. Empty for exact variants."""
    timed = [cell for cell in cells if cell.ok and not cell.exact]
    if not timed:
        return ""
    known = [cell for cell in timed if _share(cell) is not None]
    if not known:
        return _UNKNOWN
    most = max(known, key=lambda cell: _share(cell) or 0.0)
    return f"\N{LESS-THAN OR EQUAL TO} {wrong_text(most)}" if _share(most) else "none seen wrong"
