# SPDX-License-Identifier: Apache-2.0
"""Which samples bound the median."""

from __future__ import annotations

import math


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
