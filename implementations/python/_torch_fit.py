# SPDX-License-Identifier: Apache-2.0
"""What estimators share whose points a PyTorch tensor brings to the GPU: in every call, as its user
would, and back again."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import estimator

if TYPE_CHECKING:
    import numpy as np

REQUIRES = ["torch", "numpy"]


class TorchEstimator(estimator.Estimator):
    """Subclasses name the class of a library that trains on a tensor, or have a `fit` of their
    own."""

    @abstractmethod
    def _kmeans(self) -> Any:
        """The library's class, with d, k and seed as its arguments; or what `fit` takes."""

    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        import torch

        if not torch.cuda.is_available():
            raise RuntimeError(
                f"PyTorch {torch.__version__} (CUDA {torch.version.cuda}) finds no GPU that it can "
                "use: is there a driver, is it new enough, and what is CUDA_VISIBLE_DEVICES?"
            )
        torch.set_num_threads(threads)
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        self._torch, self._points, self._k = torch, points, k
        self._class = self._kmeans()

    def fit(self, seed: int) -> estimator.Fitted:
        return self._trained(self._torch.from_numpy(self._points), seed)

    def _trained(self, points: Any, seed: int) -> estimator.Fitted:
        """On a tensor that the library brings to the GPU, or on one that is there."""
        model = self._class(d=self._points.shape[1], k=self._k, seed=seed)
        model.train(points)
        return estimator.Fitted(
            centroids=model.centroids_b[0].cpu().numpy(),
            labels=model.cluster_ids_b[0].cpu().numpy(),
        )

    def library_info(self) -> dict[str, str]:
        return {
            "CUDA of torch": str(self._torch.version.cuda),
            "GPU of torch": self._torch.cuda.get_device_name(),
        }


#: Of the two libraries of the same authors.
FLASH_TRAITS: dict[str, Any] = {
    "defaults": "25 iterations from k rows drawn with replacement, or until centroids move by at "
    "most 1e-8; labels of the iteration before; distances by TF32 products",
    "precision": "tf32",
    "distance": "expanded",
    "labels_of": "starting",
    "gpu": True,
}
