# SPDX-License-Identifier: Apache-2.0
"""FlashLib: the class that takes points in host memory."""

from __future__ import annotations

from typing import Any

import _torch_fit

TRAITS = _torch_fit.FLASH_TRAITS | {
    "summary": "km = KMeans(d, k, seed=seed); km.train(torch.from_numpy(X)); km.centroids_b, "
    "km.cluster_ids_b",
    "source": "FlashLib",
    "requires": ["flashlib", "triton", *_torch_fit.REQUIRES],
}


class Fit(_torch_fit.TorchEstimator):
    def _kmeans(self) -> Any:
        from flashlib.applications.kmeans import KMeans

        return KMeans
