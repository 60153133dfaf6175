# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's KMeans, algorithm "elkan".

Idea:      the triangle inequality spares distances, with a lower bound for every point and
           centroid
Parallel:  blocks of points over OpenMP threads
Memory:    a centred copy of the points and an n x k matrix of bounds
Numerics:  see _sklearn.py
"""

from _sklearn import COMMON_TRAITS, SklearnKMeans

TRAITS = COMMON_TRAITS | {
    "summary": "scikit-learn KMeans(algorithm='elkan')",
    "skips_work": True,
    "timing_note": COMMON_TRAITS["timing_note"] + "; bounds are set up again in every run",
    "memory_bytes": {"n*d*scalar": 1, "n*k*scalar": 1, "n*scalar": 3, "n": 8},
}


class PythonSklearnElkan(SklearnKMeans):
    algorithm = "elkan"
