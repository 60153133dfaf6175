# SPDX-License-Identifier: Apache-2.0
"""What an iteration has to do, as sums of factor · n^a · d^b · k^c: numbers that a page takes
along, so that no formula stands in its script. docs/metrics.md explains them; for the program they
stand in harness/record/measures.cpp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Work = Sequence[tuple[int, int, int, int]]

LABEL_BYTES = 4

MULTIPLY_ADDS: Work = ((2, 1, 1, 1),)  # an operation each: brute force by a matrix product
OPERATIONS: Work = ((3, 1, 1, 1), (2, 1, 0, 1), (1, 1, 1, 0), (1, 0, 1, 1))  # nk(3d+2) + d(n+k)


def points(size: int) -> Work:
    """Bytes of the points, with coordinates of so many."""
    return ((size, 1, 1, 0),)


def compulsory(size: int) -> Work:
    """Bytes: points read once, labels written once, centroids read and written once."""
    return (*points(size), (LABEL_BYTES, 1, 0, 0), (2 * size, 0, 1, 1))


def terms(size: int) -> tuple[Work, ...]:
    """What the time of an iteration is a sum of, in the model of `kmeans-bench advise`."""
    return MULTIPLY_ADDS, compulsory(size), ((1, 1, 0, 1),), ((1, 1, 0, 0),), ((1, 0, 0, 0),)


def of(work: Work, n: Any, d: Any, k: Any) -> Any:
    """Its value: whole for whole numbers, an array for arrays."""
    return sum(factor * n**a * d**b * k**c for factor, a, b, c in work)
