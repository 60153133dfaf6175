# SPDX-License-Identifier: Apache-2.0
"""flash-kmeans: labels and sums by Triton kernels, without a matrix of distances.

Idea:      each block of points streams over all centroids through the matrix units and keeps the
           best so far; the update sorts the points' indices by label and adds run by run
Parallel:  a block of points per program; in the update 256 sorted points per program, one atomic
           addition per run of equal labels and coordinate
Memory:    points once for the labels; for the update labels sorted, and points gathered in that
           order, once for each cluster that a program's points belong to
Numerics:  expanded square. tf32: batch_kmeans_Euclid on float32 points, whose products Triton forms
           from TF32 operands. f16: its two kernels, the first with float16 operands and float32
           norms, the second with the float32 points. (batch_kmeans_Euclid on float16 points keeps
           squared norms and centroids in float16 too: the former overflow, the latter are not
           means of the points.) Sums in float32, in any order; an empty cluster keeps its centroid
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import _torch_gpu

if TYPE_CHECKING:
    import torch

TRAITS = {
    "summary": "flash-kmeans: fused assignment and sorted update in Triton",
    "source": "flash-kmeans",
    "precisions": ["tf32", "f16"],
    "gpu": True,
    "deterministic": False,  # atomic sums
    "distance": "expanded",
    "timing_note": "tf32: squared norms of the points once per run, the largest movement and a "
    "wait for it in every iteration; f16: a loop of ours around its kernels, without these",
    "setup_note": "upload of the points; one iteration, which compiles and loads kernels",
    # Without tqdm it falls back silently to an implementation without its kernels.
    "requires": ["flash-kmeans", "torch", "triton", "tqdm", "numpy"],
    "memory_bytes": {"1": 3e9},  # CUDA's, PyTorch's and Triton's own state
    # Points, in half precision too; squares of a million points, as the library forms them; labels,
    # sorted, with indices and the sort's own memory; CUDA's own.
    "device_bytes": {"n*d*scalar": 1.5, "d": 8 * 2**20, "n": 64, "k*d*scalar": 8, "1": 1e9},
    "limits": _torch_gpu.limits_of_sorted_updates("flash-kmeans"),
}


class PythonFlashKmeans(_torch_gpu.TorchVariant):
    def _prepare(self, points: torch.Tensor) -> None:
        # By their modules: the package itself exports stand-ins where an import of these fails.
        from flash_kmeans.assign_euclid_triton import euclid_assign_triton
        from flash_kmeans.centroid_update_triton import triton_centroid_update_sorted_euclid
        from flash_kmeans.kmeans_triton_impl import batch_kmeans_Euclid

        self._assign = euclid_assign_triton
        self._update = triton_centroid_update_sorted_euclid
        self._kmeans = batch_kmeans_Euclid
        self._points = points[None]  # a batch of one: 1 x n x d
        if self.precision == "f16":
            self._halves = self._points.half()
            self._norms = self._squared_norms(self._halves[0])[None]  # 1 x n

    def _iterate(self, iterations: int) -> int:
        centroids = self._centroids[None]
        executed = iterations
        if self.precision == "f16":
            for _ in range(iterations):
                labels = self._assign(self._halves, centroids.half(), self._norms)
                centroids = self._update(self._points, labels, centroids)
        else:
            # No movement is below a tolerance of 0, so it never stops early.
            labels, centroids, executed = self._kmeans(
                self._points, self._k, max_iters=iterations, tol=0.0, init_centroids=centroids
            )
        self._centroids = centroids[0]
        self._labels = labels[0]
        return executed
