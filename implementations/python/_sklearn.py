# SPDX-License-Identifier: Apache-2.0
"""What the two scikit-learn variants share: KMeans.fit from given centroids.

Numerics:  points and centroids are moved by the points' mean first; labels belong to the returned
           centroids, for which fit assigns once more after its last update; an empty cluster is
           moved to the point that is farthest from its centroid
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import contract

if TYPE_CHECKING:
    import numpy as np

#: Traits that do not depend on the algorithm.
COMMON_TRAITS = {
    "source": "scikit-learn",
    "precisions": ["f64", "f32"],
    "parallel": True,
    # Threads add their partial sums in the order in which they finish.
    "deterministic": False,
    "distance": "expanded",
    "centres": True,
    "labels_of": "returned",
    "empty_clusters": "relocate",
    "timing_note": "input checks, a centred copy of the points, and one more assignment after the "
    "last update; fit stops when no label changes, which nothing turns off",
    "requires": ["scikit-learn", "numpy", "scipy", "threadpoolctl"],
}


class SklearnKMeans(contract.Variant):
    """KMeans.fit with a largest number of iterations; subclasses name the algorithm.

    No public parameter makes it a fixed number. max_iter is a limit; tol, which may not be
    negative, says at 0 that no movement is too small, but unchanged labels end the loop whatever it
    is; and T fits of one iteration would check, copy and assign the points again in each.
    """

    algorithm = ""

    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning

        self._kmeans = KMeans
        self._points = points
        self._k = k
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        warnings.filterwarnings("ignore", message="algorithm='elkan' doesn't make sense")

    def reset(self, centroids: np.ndarray) -> None:
        self._centroids = centroids

    def step(self, iterations: int) -> int:
        # tol=0 leaves two reasons to stop early: no label changed, or no centroid moved.
        fitted = self._kmeans(
            n_clusters=self._k,
            init=self._centroids,
            n_init=1,
            max_iter=iterations,
            tol=0,
            algorithm=self.algorithm,
        ).fit(self._points)
        self._centroids = fitted.cluster_centers_
        self._labels = fitted.labels_
        return fitted.n_iter_

    def fetch(self) -> tuple[np.ndarray, np.ndarray]:
        return self._centroids, self._labels
