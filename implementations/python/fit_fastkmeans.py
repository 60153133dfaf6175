# SPDX-License-Identifier: Apache-2.0
"""fastkmeans on a GPU."""

from __future__ import annotations

from typing import Any

import _torch_fit
import estimator

TRAITS = {
    "summary": "km = FastKMeans(d, k, seed=seed); km.train(X); km.centroids, km.predict(X)",
    "defaults": "25 iterations from k random rows, or until centroids move by at most 1e-8; Triton "
    "kernels with float16 products where the GPU has bfloat16",
    "source": "fastkmeans",
    "precision": "f16",
    "distance": "expanded",
    "gpu": True,
    "requires": ["fastkmeans", *_torch_fit.REQUIRES],
}


class Fastkmeans(_torch_fit.TorchEstimator):
    def _kmeans(self) -> Any:
        from fastkmeans import FastKMeans

        return FastKMeans

    def fit(self, seed: int) -> estimator.Fitted:
        model = self._class(d=self._points.shape[1], k=self._k, seed=seed)
        model.train(self._points)
        return estimator.Fitted(model.centroids, model.predict(self._points))
