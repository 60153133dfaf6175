# SPDX-License-Identifier: Apache-2.0
"""FlashLib on points that lie on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fit_flashlib

if TYPE_CHECKING:
    import estimator
    import numpy as np

TRAITS = fit_flashlib.TRAITS | {
    "summary": "km = KMeans(d, k, seed=seed); km.train(x_on_gpu); km.centroids_b, km.cluster_ids_b",
    "outside": "the points lie on the GPU",
}


class FlashlibResident(fit_flashlib.Fit):
    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        super().setup(points, k, threads)
        self._resident = self._torch.from_numpy(points).cuda()

    def fit(self, seed: int) -> estimator.Fitted:
        return self._trained(self._resident, seed)
