# SPDX-License-Identifier: Apache-2.0
"""fastkmeans: its loop over chunks of points, with its PyTorch or its Triton assignment.

Idea:      chunks of points against chunks of centroids, labels and sums per chunk
Parallel:  f32: a matrix product and a row minimum per pair of chunks. f16: one Triton program per
           128 points x 128 centroids, which compete for a point by an atomic minimum. Sums by
           atomic additions
Memory:    f32: distances of 51 200 points x 10 240 centroids written and read again. f16: none
Numerics:  expanded square, from float32 or from operands rounded to float16; norms, sums and
           centroids in float32; an empty cluster moves to a random point. In the Triton kernel
           label and minimum are stored apart, so with k > 128 a slower program can overwrite a
           better label: whether one did is for the verification to say
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import _torch_gpu

if TYPE_CHECKING:
    import numpy as np
    import torch

TRAITS = {
    "summary": "fastkmeans: double-chunked loop, PyTorch (f32) or Triton (f16) assignment",
    "source": "fastkmeans",
    "precisions": ["f32", "f16"],
    "gpu": True,
    "deterministic": False,  # atomic sums
    "distance": "expanded",
    "labels_of": "returned",
    "empty_clusters": "relocate",
    "timing_note": "a random permutation of n indices on the CPU and two copies of the centroids "
    "per run; in every iteration all labels to the host and a wait for the movement; the points "
    "stay on the device, where its train() would send them in every iteration; the assignment to "
    "the returned centroids is not timed",
    "setup_note": "upload of the points; one iteration, which compiles and loads kernels",
    "requires": ["fastkmeans", "torch", "triton", "numpy"],
    # Labels twice, a permutation, the squares that predict() forms; CUDA's and PyTorch's own state.
    "memory_bytes": {"n*d*scalar": 1, "n": 36, "1": 3e9},
    # Points and norms; a chunk's distances, and what finds their minima; CUDA's own.
    "device_bytes": {"n*d*scalar": 1, "n": 4, "k*d*scalar": 8, "1": 5e9},
    "limits": [
        {
            "terms": {"d": 1},
            "multiple_of": 32,
            "precisions": ["f16"],
            "reason": "the Triton kernel of fastkmeans reads coordinates in steps of up to 32 and "
            "runs into the next point unless d is a multiple of 32",
        },
        {
            "terms": {"k": 1},
            "multiple_of": 128,
            "precisions": ["f16"],
            "reason": "the Triton kernel of fastkmeans ranks columns behind the last centroid "
            "unless k is a multiple of 128",
        },
        {
            "terms": {"k*d": 1},
            "at_most": 2**31 - 1,
            "precisions": ["f16"],
            "reason": "the Triton kernel of fastkmeans addresses centroids in 32-bit integers",
        },
    ],
}


class StartingPoints:
    """The points (n x d) as fastkmeans sees them: what it draws at random first are our centroids.

    Its loop knows no other way to be given initial centroids than to draw rows of the points.
    """

    def __init__(self, points: torch.Tensor, centroids: torch.Tensor) -> None:
        self.shape = points.shape
        self.device = points.device
        self._points = points
        self._centroids: torch.Tensor | None = centroids

    def __getitem__(self, rows: slice | torch.Tensor) -> torch.Tensor:
        if self._centroids is None or isinstance(rows, slice):
            return self._points[rows]
        centroids, self._centroids = self._centroids, None
        return centroids


class PythonFastkmeans(_torch_gpu.TorchVariant):
    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        self._host_points = points  # for predict(), which takes no others
        super().setup(points, k, threads)

    def _prepare(self, points: torch.Tensor) -> None:
        from fastkmeans import kmeans

        self._run = kmeans._kmeans_torch_double_chunked
        self._points = points
        self._norms = self._squared_norms(points)  # n
        # tol: it stops when the movement is smaller. dtype: the default on a GPU keeps norms and
        # centroids in half precision.
        self._fastkmeans = kmeans.FastKMeans(
            points.shape[1],
            self._k,
            tol=-1,
            device=self.device,
            dtype=self._torch.float32,
            use_triton=self.precision == "f16",
        )

    def reset(self, centroids: np.ndarray) -> None:
        super().reset(centroids)
        self._torch.manual_seed(0)  # of the points that empty clusters move to

    def _iterate(self, iterations: int) -> None:
        settings = self._fastkmeans
        centroids, _ = self._run(
            StartingPoints(self._points, self._centroids),
            self._norms,
            k=self._k,
            device=settings.device,
            dtype=settings.dtype,
            max_iters=iterations,
            tol=settings.tol,
            chunk_size_data=settings.chunk_size_data,
            chunk_size_centroids=settings.chunk_size_centroids,
            max_points_per_centroid=settings.max_points_per_centroid,
            use_triton=settings.use_triton,
        )
        self._centroids = centroids.to(self.device)

    def fetch(self) -> tuple[np.ndarray, np.ndarray]:
        # The labels of the loop are copied without waiting for the copy; train() discards them.
        settings = self._fastkmeans
        settings.centroids = self._centroids.cpu().numpy()
        return settings.centroids, settings.predict(self._host_points)
