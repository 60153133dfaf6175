# SPDX-License-Identifier: Apache-2.0
"""Do the processes of a cell agree? The one place of the rule, for files that do not say so: the
same as in harness/record/agreement.h, which decides for the files that are written today."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from plots.words import many, seconds

# Process medians agree when the largest is at most this times the smallest (kAgreeingProcesses).
AGREEING = 1.30


def median_rank(count: int) -> int:
    """The r of the tightest order statistics x(r), x(n+1-r) that hold the median with 95 %
    confidence, as harness/record/measures.cpp forms them; 0 below six samples, where none do."""
    rank, tail = 0, 0.0
    while rank < count:
        tail += math.comb(count, rank) / 2**count
        if 2 * tail > 0.05:
            break
        rank += 1
    return rank


def process_medians(samples: Sequence[Sequence[float]]) -> list[float]:
    """Ascending; `samples` are seconds per iteration, a list per process."""
    return sorted(statistics.median(process) for process in samples if process)


def headline_median(samples: Sequence[Sequence[float]]) -> float:
    """Of the medians of the processes: none lies between two clusters of samples as if seen."""
    return statistics.median(process_medians(samples))


def _agreeing_from(medians: Sequence[float], first: int) -> int:
    """How many values from `first` on agree with it."""
    most = AGREEING * medians[first]
    return sum(value <= most for value in medians[first:])


def disagreement(samples: Sequence[Sequence[float]]) -> str | None:
    """A sentence where no group of more than half of the processes agrees, so that no one number
    speaks for the cell: 'its processes disagree: 2 processes near 90 µs, 2 near 10 ms'."""
    medians = process_medians(samples)
    largest = max((_agreeing_from(medians, i) for i in range(len(medians))), default=0)
    if 2 * largest > len(medians) or not medians:
        return None
    groups = []
    at = 0
    while at < len(medians):
        size = _agreeing_from(medians, at)
        near = seconds(statistics.median(medians[at : at + size]))
        number = str(size) if groups else many(size, "process", "processes")
        groups.append(f"{number} {'at' if size == 1 else 'near'} {near}")
        at += size
    return f"its processes disagree: {', '.join(groups)}"
