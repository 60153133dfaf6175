# SPDX-License-Identifier: Apache-2.0
"""The model of `kmeans-bench advise` (docs/advice.md, harness/record/advice.cpp) for pages, which
are drawn where no program is built: a sum of terms with fitted factors, times what the nearest
shapes deviate from it. Fitted here, used in the page, which recommends in the same order; a test
compares with the program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plots import work

Array = NDArray[np.float64]

# As in harness/record/advice.cpp, where they are explained.
DEVIATION, REPEAT = 0.6, 0.08
REACH = (3.0, 2.5, 2.5)
OTHER_KIND = 0.9
LONG_RUN = 20
ITERATIONS_OF_FIT = 100
NINE_OF_TEN = 1.645
FAR = 2.0  # beyond this factor, `advise` calls a prediction far from what is on file
_REWEIGHTINGS = 15
_RIDGE = 1e-3
_TINY = 1e-12
FEWEST_SHAPES = 3


@dataclass(frozen=True)
class Observation:
    """A time in seconds at a problem; `kind` is that of the data, empty for any."""

    n: int
    d: int
    k: int
    scalar_bytes: int
    kind: str
    iterations: int
    seconds: float


def _terms(shapes: Array, scalar_bytes: int) -> Array:
    return np.stack([work.of(one, *shapes.T) for one in work.terms(scalar_bytes)], axis=1)


def _fit(terms: Array, seconds: Array) -> Array:
    """Factors, none negative: errors count by their ratio, large ones by less than their square."""
    # Takes a third of the time of loading all of plots, which most drawing need not wait for.
    from scipy.optimize import nnls

    rows = terms / seconds[:, None]
    scale = rows.max(axis=0)
    rows = rows / scale
    weights = np.ones(len(rows))
    factors = np.zeros(rows.shape[1])
    for _ in range(_REWEIGHTINGS):
        # With a ridge, or of three shapes any of many sums would do.
        ridge = np.sqrt(_RIDGE) * np.eye(rows.shape[1])
        factors, _ = nnls(
            np.vstack([rows * weights[:, None], ridge]),
            np.concatenate([weights, np.zeros(len(ridge))]),
        )
        ratio = np.maximum(rows @ factors, 1e-3)
        weights = 1 / np.sqrt(np.maximum(np.abs(np.log(ratio)), 0.05) * ratio)
    return factors / scale


class CostModel:
    """Times of one variant, precision and number of threads on one machine, fitted: what a page
    needs to predict others (plots/templates/leaderboard.js)."""

    def __init__(self, observations: Sequence[Observation]) -> None:
        self.observations = list(observations)
        shapes = np.array([[o.n, o.d, o.k] for o in observations], dtype=float)
        logs = np.log([o.seconds for o in observations])
        terms = _terms(shapes, observations[0].scalar_bytes)
        self.factors = _fit(terms, np.exp(logs))
        missed = logs - np.log(np.maximum(terms @ self.factors, _TINY))
        self.shift = float(np.median(missed))
        covariance = DEVIATION**2 * self._alike(shapes) + REPEAT**2 * np.eye(len(shapes))
        self.weights = np.linalg.solve(covariance, missed - self.shift)

    def _alike(self, shapes: Array) -> Array:
        """How alike the deviations at any two problems on file are: 1 at the same."""
        ratios = (np.log(shapes)[:, None, :] - np.log(shapes)[None, :, :]) / np.array(REACH)
        distance = np.sqrt(3 * (ratios**2).sum(axis=2))
        kinds = np.array([o.kind for o in self.observations])
        long = np.array([is_long(o) for o in self.observations])
        one, other = kinds[:, None], kinds[None, :]
        same = ((one == "") | (other == "") | (one == other)) & (long[:, None] == long[None, :])
        return (1 + distance) * np.exp(-distance) * np.where(same, 1.0, OTHER_KIND)


def is_long(observation: Observation) -> bool:
    return observation.iterations > LONG_RUN
