# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's KMeans, algorithm "lloyd".

Idea:      blocks of points times all centroids by BLAS, argmin and sums per block
Parallel:  blocks of points over OpenMP threads, each with its own BLAS thread and sums
Memory:    a centred copy of the points; 256 x k distances per thread
Numerics:  see _sklearn.py
"""

from _sklearn import COMMON_TRAITS, SklearnKMeans

TRAITS = COMMON_TRAITS | {
    "summary": "scikit-learn KMeans(algorithm='lloyd')",
    "memory_bytes": {"n*d*scalar": 1, "n*scalar": 2, "n": 8},
}


class PythonSklearnLloyd(SklearnKMeans):
    algorithm = "lloyd"
