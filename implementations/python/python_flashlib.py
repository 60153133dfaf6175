# SPDX-License-Identifier: Apache-2.0
"""FlashLib: flash-kmeans' successor, fused assignment and sorted update.

Idea:      each block of points streams over all centroids through the matrix units and keeps the
           best so far; the update sorts the points' indices by label and adds run by run
Parallel:  a block of points per program; in the update 256 sorted points per program, one atomic
           addition per run of equal labels and coordinate
Memory:    points once for the labels; for the update labels sorted, and points gathered in that
           order, once for each cluster that a program's points belong to
Numerics:  expanded square without the points' norms. tf32: flash_kmeans on float32 points, whose
           products Triton forms from TF32 operands. f16: its two kernels, the first with float16
           operands (by CuteDSL where the library's own rule takes that and it can be imported), the
           second with the float32 points. (flash_kmeans on float16 points keeps centroids in
           float16, which are not the means of the points.) Sums in float32, in any order; an empty
           cluster keeps its centroid
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import _torch_gpu

if TYPE_CHECKING:
    import numpy as np
    import torch

TRAITS = {
    "summary": "FlashLib: fused assignment in Triton or CuteDSL, sorted update in Triton",
    "source": "FlashLib",
    "precisions": ["tf32", "f16"],
    "gpu": True,
    "deterministic": False,  # atomic sums
    "distance": "expanded",
    "timing_note": "tf32: buffers of sums once per run, the largest movement in every iteration; "
    "f16: a loop of ours around its kernels, with its buffers kept between runs",
    "setup_note": "upload of the points; one iteration, which compiles and loads kernels",
    "requires": ["flashlib", "torch", "triton", "tqdm", "numpy"],
    "memory_bytes": {"1": 3e9},  # CUDA's, PyTorch's and Triton's own state
    # Points, in half precision too; labels, sorted, with indices and the sort's own memory;
    # centroids, sums and what its norms are formed from; CUDA's own.
    "device_bytes": {"n*d*scalar": 1.5, "n": 64, "k*d*scalar": 8, "1": 1e9},
    "limits": _torch_gpu.limits_of_sorted_updates("FlashLib"),
}


class PythonFlashlib(_torch_gpu.TorchVariant):
    def _prepare(self, points: torch.Tensor) -> None:
        from flashlib.primitives import kmeans

        self._points = points[None]  # a batch of one: 1 x n x d
        self._assignment = "Triton"
        if self.precision == "tf32":
            self._kmeans = kmeans.flash_kmeans
        else:
            self._prepare_halves(kmeans)

    def _prepare_halves(self, kmeans: object) -> None:
        from flashlib import _optional
        from flashlib.primitives.kmeans import impl

        torch = self._torch
        _, n, d = self._points.shape
        self._assign = kmeans.euclid_assign_triton
        # What flash_kmeans does with these shapes unless a backend is named.
        backend, _ = impl._route(B=1, N=n, D=d, K=self._k)
        if backend == "cutedsl" and _optional.has_cutedsl():
            self._assign = kmeans.cutedsl_assign_euclid
            self._assignment = "CuteDSL"
        self._update = kmeans.triton_lloyd_centroid_step_euclid
        self._halves = self._points.half()
        self._half_centroids = self._halves.new_empty(1, self._k, d)
        self._own_labels = torch.empty((1, n), dtype=torch.int32, device=self.device)
        self._buffers = {
            "sums_buf": torch.empty((1, self._k, d), dtype=torch.float32, device=self.device),
            "cnts_buf": torch.empty((1, self._k), dtype=torch.int32, device=self.device),
            "shift_buf": torch.empty((1, self._k), dtype=torch.float32, device=self.device),
        }
        self._spare = self._points.new_empty(1, self._k, d)

    def reset(self, centroids: np.ndarray) -> None:
        # Every second iteration writes over the first centroids; on a CPU these are the caller's.
        self._centroids = self._upload(centroids).clone()

    def _iterate(self, iterations: int) -> int | None:
        if self.precision == "f16":
            self._iterate_halves(iterations)
            return None
        # tol=0: it looks at no movement. The backend that it would choose itself may be CuteDSL,
        # which hands float32 points back to this one.
        labels, centroids, executed = self._kmeans(
            self._points,
            self._k,
            max_iters=iterations,
            tol=0.0,
            init_centroids=self._centroids[None],
            backend="triton",
        )
        self._centroids = centroids[0]
        self._labels = labels[0]
        return executed

    def _iterate_halves(self, iterations: int) -> None:
        current = self._centroids[None]
        for _ in range(iterations):
            self._half_centroids.copy_(current)
            labels = self._assign(self._halves, self._half_centroids, out=self._own_labels)
            self._update(self._points, labels, current, new_buf=self._spare, **self._buffers)
            current, self._spare = self._spare, current
        self._centroids = current[0]
        self._labels = labels[0]

    def library_info(self) -> dict[str, str]:
        return super().library_info() | {"assignment of flashlib": self._assignment}
