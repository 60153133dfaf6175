# SPDX-License-Identifier: Apache-2.0
"""Which shapes arrays may have, wherever they are."""

from __future__ import annotations


def table(name: str, shape: tuple[int, ...]) -> None:
    """Rows of one length."""
    if len(shape) != 2:
        raise ValueError(
            f"kmeans_exact: {name} must have 2 dimensions, a row for each point, not {len(shape)}"
        )
    if 0 in shape:
        raise ValueError(
            f"kmeans_exact: {name} is {shape[0]} x {shape[1]}; at least one row and "
            "one column are needed"
        )


def stack(name: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Tables of one shape."""
    if len(shape) != 3:
        raise ValueError(
            f"kmeans_exact: {name} must have 3 dimensions, a table of rows for each problem, not "
            f"{len(shape)}"
        )
    if 0 in shape:
        raise ValueError(
            f"kmeans_exact: {name} is {' x '.join(map(str, shape))}; at least one problem, "
            "row and column are needed"
        )
    return shape[0], shape[1], shape[2]
