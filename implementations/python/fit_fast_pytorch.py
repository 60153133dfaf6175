# SPDX-License-Identifier: Apache-2.0
"""fast-pytorch-kmeans: operations of PyTorch alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import _torch_fit
import estimator

if TYPE_CHECKING:
    import numpy as np

TRAITS = {
    "summary": "km = KMeans(n_clusters=k); km.fit_predict(torch.from_numpy(X).cuda()); "
    "km.centroids",
    "defaults": "at most 100 iterations from k rows drawn with replacement, or until the squares "
    "by which centroids move add up to at most 1e-4; labels of the iteration before; a cluster "
    "without points goes to the origin",
    "source": "fast-pytorch-kmeans",
    "distance": "expanded",
    "labels_of": "starting",
    "gpu": True,
    "takes_init": True,
    "requires": ["fast-pytorch-kmeans", "psutil", *_torch_fit.REQUIRES],
    "remedy": "`.venv/bin/pip install fast-pytorch-kmeans==0.2.2 psutil` brings what is not in "
    "requirements-gpu.txt",
}


class FastPytorch(_torch_fit.TorchEstimator):
    def _kmeans(self) -> Any:
        from fast_pytorch_kmeans import KMeans

        return KMeans

    def fit(self, seed: int) -> estimator.Fitted:
        self._torch.manual_seed(seed)
        return self._fitted(self._class(n_clusters=self._k), None)

    def fit_from(self, centroids: np.ndarray, iterations: int) -> estimator.Fitted:
        model = self._class(n_clusters=self._k, max_iter=iterations, tol=-1)
        return self._fitted(model, self._torch.from_numpy(centroids).cuda())

    def _fitted(self, model: Any, centroids: Any) -> estimator.Fitted:
        labels = model.fit_predict(self._torch.from_numpy(self._points).cuda(), centroids)
        return estimator.Fitted(model.centroids.cpu().numpy(), labels.cpu().numpy())
