# SPDX-License-Identifier: Apache-2.0
"""FlashLib by cosine, of points of length one: its function, since its class has no metric."""

from __future__ import annotations

from typing import Any

import _torch_fit
import estimator

TRAITS = _torch_fit.FLASH_TRAITS | {
    "summary": "torch.manual_seed(seed); x = torch.from_numpy(X).cuda(); "
    "_, c, _ = flash_kmeans(x, k, metric='cosine'); cosine_assign_triton(x[None], c[None])",
    "defaults": "100 iterations from k rows drawn with replacement; products by TF32; then every "
    "point is assigned, as the labels that it returns are of the iteration before",
    "labels_of": "returned",
    "source": "FlashLib",
    "requires": ["flashlib", "triton", "tqdm", *_torch_fit.REQUIRES],
}


class FlashlibCosine(_torch_fit.TorchEstimator):
    def _kmeans(self) -> Any:
        from flashlib.primitives import kmeans

        return kmeans

    def fit(self, seed: int) -> estimator.Fitted:
        self._torch.manual_seed(seed)
        points = self._torch.from_numpy(self._points).cuda()
        _, centroids, iterations = self._class.flash_kmeans(points, self._k, metric="cosine")
        labels = self._class.cosine_assign_triton(points[None], centroids[None])
        return estimator.Fitted(
            centroids=centroids.cpu().numpy(),
            labels=labels[0].cpu().numpy(),
            iterations=iterations,
        )
