# SPDX-License-Identifier: Apache-2.0
"""What the two variants of cuVS share: how fit is made to go on from given centroids."""

from __future__ import annotations

from typing import Any

# A tolerance has to be positive. With this one, only no movement at all is too small, and only an
# inertia above the one before ends a run.
LEAST_TOLERANCE = 1e-300


def parameters(kmeans: Any, k: int, iterations: int) -> object:
    """`kmeans`: the module cuvs.cluster.kmeans."""
    return kmeans.KMeansParams(
        n_clusters=k,
        init_method="Array",
        n_init=1,
        max_iter=iterations,
        tol=LEAST_TOLERANCE,
    )


def iterations_run(counted: int, asked: int) -> int:
    """A fit that nothing stopped counts the iteration that it did not begin."""
    return min(counted, asked)
