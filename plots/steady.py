# SPDX-License-Identifier: Apache-2.0
"""The median over processes, and which samples bound it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


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
