# SPDX-License-Identifier: Apache-2.0
"""faiss.Kmeans on a GPU, and the search that gives labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import fit_faiss

if TYPE_CHECKING:
    import numpy as np

TRAITS = fit_faiss.TRAITS | {
    "summary": "km = faiss.Kmeans(d, k, seed=seed, gpu=1); km.train(X); km.assign(X)",
    "gpu": True,
    "takes_problems": "",
    "requires": ["faiss-gpu", "numpy"],
    "remedy": "faiss-gpu needs an environment without faiss-cpu, which KMEANS_BENCH_PYTHON names",
}


class FaissGpu(fit_faiss.Faiss):
    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        super().setup(points, k, threads)
        if self._faiss.get_num_gpus() == 0:
            raise RuntimeError(f"faiss {self._faiss.__version__} finds no GPU that it can use")

    def _kmeans(self, **arguments: Any) -> Any:
        return super()._kmeans(gpu=1, **arguments)
