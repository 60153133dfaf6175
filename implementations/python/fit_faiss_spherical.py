# SPDX-License-Identifier: Apache-2.0
"""faiss.Kmeans by inner product, whose centroids have length one: of points of length one."""

from __future__ import annotations

from typing import Any

import fit_faiss

TRAITS = fit_faiss.TRAITS | {
    "summary": "km = faiss.Kmeans(d, k, seed=seed, spherical=True); km.train(X); km.assign(X)",
    "objective": "inner products, of its sample of the points, by the centroids of the iteration "
    "before",
    "takes_problems": "",
}


class FaissSpherical(fit_faiss.Faiss):
    def _kmeans(self, **arguments: Any) -> Any:
        return super()._kmeans(spherical=True, **arguments)
