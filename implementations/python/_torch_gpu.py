# SPDX-License-Identifier: Apache-2.0
"""What the PyTorch variants share: tensors on the device, its clock, and a finished ``step``."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import TYPE_CHECKING

import contract

if TYPE_CHECKING:
    from types import ModuleType

    import numpy as np
    import torch

#: Points whose squares exist at a time while norms are formed.
NORM_ROWS = 2**20


def limits_of_sorted_updates(library: str) -> list[dict[str, object]]:
    """What Triton kernels can do that sort points by label and update centroids in tiles."""
    return [
        {
            "terms": {"d": 1},
            "at_most": 2048,
            "reason": f"{library} updates tiles of 256 points x d, d rounded up to a power of "
            "two, and compiling them takes Triton too long beyond d = 2048",
        },
        {
            "terms": {"n": 1},
            "at_most": 2**31 - 1,
            "reason": f"{library} sorts 32-bit indices of points",
        },
        {
            "terms": {"k*d": 1},
            "at_most": 2**31 - 1,
            "reason": f"{library} addresses the sums of clusters in 32-bit integers",
        },
    ]


class EventClock(contract.DeviceClock):
    """Two events in the current stream, in which all work of these variants runs."""

    def __init__(self, torch: ModuleType) -> None:
        self._begin = torch.cuda.Event(enable_timing=True)
        self._end = torch.cuda.Event(enable_timing=True)

    def begin(self) -> None:
        self._begin.record()

    def end(self) -> float:
        self._end.record()
        self._end.synchronize()
        return self._begin.elapsed_time(self._end) * 1e-3


class TorchVariant(contract.Variant):
    """Keeps centroids (k x d) and labels (n) on the device; subclasses iterate.

    After ``setup``, ``_torch`` is the module, ``_k`` the number of clusters, and ``_centroids`` the
    current centroids in the points' dtype. ``_iterate`` leaves ``_centroids`` and ``_labels``.
    """

    #: Where tensors live. The arithmetic of what is written in PyTorch alone does not depend on it,
    #: so that a test may choose "cpu".
    device = "cuda"

    @abstractmethod
    def _prepare(self, points: torch.Tensor) -> None:
        """Import, allocate, convert; ``points`` (n x d) is on the device and must stay as it is."""

    @abstractmethod
    def _iterate(self, iterations: int) -> int | None:
        """Queue this many Lloyd iterations from ``_centroids``.

        Returns how many there were, where a library says so.
        """

    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        import torch

        self._torch = torch
        self._k = k
        if self.device == "cuda" and not torch.cuda.is_available():
            raise RuntimeError(
                f"PyTorch {torch.__version__} (CUDA {torch.version.cuda}) finds no GPU that it can "
                "use: is there a driver, is it new enough, and what is CUDA_VISIBLE_DEVICES?"
            )
        torch.set_num_threads(threads)
        # Process-wide, and each worker is a process: float32 products round their operands to TF32
        # where that was asked for, and only there.
        torch.set_float32_matmul_precision("high" if self.precision == "tf32" else "highest")
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        # Nothing here writes to points or centroids that the suite owns.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        self._prepare(self._upload(points))
        # Compiles and loads what these shapes need, and fills the allocator's cache.
        self.reset(points[:k])
        self.step(1)

    def reset(self, centroids: np.ndarray) -> None:
        self._centroids = self._upload(centroids)

    def step(self, iterations: int) -> int | None:
        executed = self._iterate(iterations)
        if self.device == "cuda":
            self._torch.cuda.synchronize()
        return executed

    def fetch(self) -> tuple[np.ndarray, np.ndarray]:
        return self._centroids.cpu().numpy(), self._labels.cpu().numpy()

    def device_clock(self) -> EventClock | None:
        return EventClock(self._torch) if self.device == "cuda" else None

    def library_info(self) -> dict[str, str]:
        if self.device != "cuda":
            return {}
        cuda = self._torch.cuda
        major, minor = cuda.get_device_capability()
        return {
            "CUDA of torch": str(self._torch.version.cuda),
            "GPU of torch": f"{cuda.get_device_name()}, compute capability {major}.{minor}",
        }

    def _squared_norms(self, points: torch.Tensor) -> torch.Tensor:
        """|x|^2 of each of n x d points, in float32."""
        parts = points.split(NORM_ROWS)
        return self._torch.cat([part.float().square().sum(dim=1) for part in parts])

    def _upload(self, array: np.ndarray) -> torch.Tensor:
        return self._torch.from_numpy(array).to(self.device)
