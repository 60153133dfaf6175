# SPDX-License-Identifier: Apache-2.0
"""scikit-learn-intelex's KMeans: oneDAL behind scikit-learn's interface.

Idea:      the distances of a block of points to all centroids are one matrix product
Parallel:  blocks of points over TBB's threads
Memory:    a copy of the points; blocks of the distance matrix
Numerics:  expanded square; labels belong to the returned centroids; an empty cluster is moved to
           the point that is farthest from its centroid
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from _sklearn import COMMON_TRAITS, SklearnKMeans

if TYPE_CHECKING:
    import numpy as np

TRAITS = COMMON_TRAITS | {
    "summary": "scikit-learn-intelex (oneDAL) KMeans",
    "source": "scikit-learn-intelex",
    "centres": False,
    "timing_note": "input checks, a copy of the points, and one more assignment after the last "
    "update; fit stops when no centroid moves",
    "requires": ["scikit-learn-intelex", "scikit-learn", "numpy", "scipy", "threadpoolctl"],
    "requirements": "requirements-onedal.txt",
    "memory_bytes": {"n*d*scalar": 1, "n*scalar": 3, "n": 8},
    "limits": [
        # Where it does not, fit runs scikit-learn's own code.
        {
            "terms": {"k": -1},
            "at_most": -2,
            "reason": "scikit-learn-intelex computes from two clusters on",
        },
        {
            "terms": {"k": 1, "n": -1},
            "at_most": -1,
            "reason": "scikit-learn-intelex computes fewer clusters than points only",
        },
    ],
}


class PythonSklearnex(SklearnKMeans):
    algorithm = "lloyd"

    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        super().setup(points, k, threads)
        import daal4py
        from sklearnex.cluster import KMeans

        daal4py.daalinit(threads)  # TBB's threads, which neither OpenMP's nor BLAS's limit counts
        self._kmeans = KMeans
        self._threads = daal4py.num_threads()

    def library_info(self) -> dict[str, str]:
        return {"onedal_threads": str(self._threads)}
