# SPDX-License-Identifier: Apache-2.0
"""cuVS on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import _torch_fit
import estimator

if TYPE_CHECKING:
    import numpy as np

TRAITS = {
    "summary": "c, inertia, _ = kmeans.fit(KMeansParams(n_clusters=k), X_on_gpu); kmeans.predict",
    "defaults": "one start by k-means||; at most 300 iterations, until centroids move by 1e-4; "
    "Python can give it no seed, so that all calls are alike but for rounding",
    "source": "cuVS",
    "distance": "expanded",
    "gpu": True,
    "requires": ["cuvs-cu13", "rmm-cu13", *_torch_fit.REQUIRES],
}


class Cuvs(_torch_fit.TorchEstimator):
    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        super().setup(points, k, threads)
        import rmm.mr
        from cuvs.common import Resources

        # Without a pool each of its buffers would be asked for, and given back, by cudaMalloc.
        rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
        self._resources = Resources()

    def _kmeans(self) -> object:
        from cuvs.cluster import kmeans

        return kmeans

    def fit(self, seed: int) -> estimator.Fitted:
        parameters = self._class.KMeansParams(n_clusters=self._k)
        points = self._torch.from_numpy(self._points).cuda()
        found, inertia, iterations = self._class.fit(parameters, points, resources=self._resources)
        labels = self._torch.empty(len(points), dtype=self._torch.int32, device="cuda")
        self._class.predict(parameters, points, found, labels=labels, resources=self._resources)
        self._resources.sync()
        return estimator.Fitted(
            centroids=found.copy_to_host(),
            labels=labels.cpu().numpy(),
            iterations=int(iterations),
            objective=float(inertia),
        )
