# SPDX-License-Identifier: Apache-2.0
"""PyTorch on a GPU, as one writes it by hand: a chunked matrix product, and a scatter update.

Idea:      |x|^2 is the same for all centroids of a point, so that |c|^2 - 2 x.c ranks them: one
           matrix product and one argmin per chunk of points
Parallel:  cuBLAS for the product; the argmin by rows; every coordinate of every point is added
           atomically to its cluster's sum
Memory:    per chunk a points x k product of at most 1 GiB is written and read again; all points are
           read twice
Numerics:  float64, float32 with or without TF32 operands, or float16 and bfloat16 operands with
           float32 products; sums of the points as given, in their own precision and in any order;
           PyTorch's argmin on a GPU takes the lowest index among equals (LessOrNan in its
           SharedReduceOps.h), which its documentation does not promise
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import _torch_gpu

if TYPE_CHECKING:
    import torch

PRODUCT_BYTES = 2**30  # large enough to fill any GPU, small compared with its memory

TRAITS = {
    "summary": "PyTorch on a GPU: matrix product in chunks, argmin, scatter update",
    "source": "PyTorch",
    "precisions": ["f32", "tf32", "f16", "bf16", "f64"],
    "gpu": True,
    "deterministic": False,  # atomic sums
    "distance": "expanded",
    "setup_note": "upload of the points; one iteration, which compiles and loads kernels",
    "requires": ["torch", "numpy"],
    "memory_bytes": {"1": 2e9},  # CUDA's and PyTorch's own state
    # Points, and their copy in half precision where there is one; the product; CUDA's own.
    "device_bytes": {"n*d*scalar": 1.5, "n": 12, "k*d*scalar": 8, "1": PRODUCT_BYTES + 1e9},
}


class PythonTorch(_torch_gpu.TorchVariant):
    def _prepare(self, points: torch.Tensor) -> None:
        torch = self._torch
        n, d = points.shape
        halves = {"f16": torch.float16, "bf16": torch.bfloat16}
        self._points = points
        self._factors = points.to(halves.get(self.precision, points.dtype))  # n x d
        rows = PRODUCT_BYTES // (points.element_size() * max(self._k, d))
        self._rows = min(n, max(1, rows))  # points of a chunk
        self._product = points.new_empty(self._rows, self._k)
        self._labels = torch.zeros(n, dtype=torch.int64, device=self.device)
        self._ones = torch.ones(self._rows, dtype=torch.int32, device=self.device)

    def _iterate(self, iterations: int) -> None:
        for _ in range(iterations):
            self._centroids = self._lloyd(self._centroids)

    def _lloyd(self, centroids: torch.Tensor) -> torch.Tensor:
        """The k x d centroids after these; sets the labels that belong to these."""
        torch = self._torch
        n = len(self._points)
        factors = centroids.to(self._factors.dtype)
        # Of the rounded centroids, so that a point and the centroid next to it round alike.
        norms = factors.to(centroids.dtype).square().sum(dim=1)  # k
        sums = torch.zeros_like(centroids)
        counts = torch.zeros(self._k, dtype=torch.int32, device=self.device)
        for begin in range(0, n, self._rows):
            chunk = slice(begin, min(begin + self._rows, n))
            labels = self._labels[chunk]
            ranks = self._rank(self._factors[chunk], factors, norms)
            torch.argmin(ranks, dim=1, out=labels)
            sums.index_add_(0, labels, self._points[chunk])
            counts.index_add_(0, labels, self._ones[: len(labels)])
        counts = counts[:, None]
        return torch.where(counts > 0, sums / counts.clamp(min=1), centroids)

    def _rank(
        self, points: torch.Tensor, centroids: torch.Tensor, norms: torch.Tensor
    ) -> torch.Tensor:
        """|c|^2 - 2 x.c, points x k."""
        torch = self._torch
        out = self._product[: len(points)]
        if points.dtype == norms.dtype:
            return torch.addmm(norms, points, centroids.T, alpha=-2, out=out)
        # A product in half precision would round far more than its operands.
        torch.mm(points, centroids.T, out_dtype=norms.dtype, out=out)
        return torch.add(norms, out, alpha=-2, out=out)
