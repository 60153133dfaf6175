# SPDX-License-Identifier: Apache-2.0
"""cuVS: NVIDIA's own k-means, which cuML runs too, from given centroids.

Idea:      distances and their minima in one pass over tiles of points and centroids; the update
           sums points by label
Parallel:  by the library
Memory:    by the library: a label with a distance, a norm and a weight for each point
Numerics:  expanded square in the points' precision; sums in any order; an empty cluster keeps its
           centroid
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import _cuvs
import _torch_gpu

if TYPE_CHECKING:
    import numpy as np
    import torch

TRAITS = {
    "summary": "cuVS: cuvs.cluster.kmeans on a GPU",
    "source": "cuVS",
    "precisions": ["f32", "f64"],
    "gpu": True,
    "deterministic": False,  # atomic sums
    "distance": "expanded",
    "labels_of": "returned",
    "timing_note": "inertia and movement to the host in every iteration; memory from a pool, and "
    "one more assignment for the inertia, once per run; fit stops when no centroid moves or the "
    "inertia rises by rounding, which nothing turns off; the assignment to the returned centroids "
    "that gives the labels is not timed",
    "setup_note": "upload of the points; a pool of device memory; one iteration, which loads "
    "kernels",
    "requires": ["cuvs-cu13", "rmm-cu13", "torch", "numpy"],
    "memory_bytes": {"1": 3e9},  # CUDA's, PyTorch's and the libraries' own state
    # Points; labels with distances, norms, weights; a tile of 32 768 points x k; CUDA's own.
    "device_bytes": {"n*d*scalar": 1, "n": 48, "k*d*scalar": 8, "k*scalar": 2**15, "1": 2e9},
    "limits": [
        {
            "terms": {"n*d": 1},
            "at_most": 2**31 - 1,
            "reason": "cuVS predicts labels with 32-bit indices of coordinates",
        },
        {
            "terms": {"k*d": 1},
            "at_most": 2**31 - 1,
            "reason": "cuVS addresses centroids in 32-bit integers",
        },
    ],
}


class PythonCuvs(_torch_gpu.TorchVariant):
    def _prepare(self, points: torch.Tensor) -> None:
        import rmm.mr
        from cuvs.cluster import kmeans
        from cuvs.common import Resources

        # Without a pool each of its buffers would be asked for, and given back, by cudaMalloc.
        rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
        self._kmeans = kmeans
        self._resources = Resources()  # else a new one, with its own handles, in every call
        self._points = points

    def _parameters(self, iterations: int) -> object:
        return _cuvs.parameters(self._kmeans, self._k, iterations)

    def reset(self, centroids: np.ndarray) -> None:
        # fit writes its result over them; on a CPU they are the caller's.
        self._centroids = self._upload(centroids).clone()

    def _iterate(self, iterations: int) -> int:
        _, _, counted = self._kmeans.fit(
            self._parameters(iterations),
            self._points,
            centroids=self._centroids,
            resources=self._resources,
        )
        self._resources.sync()
        if counted < 1:
            raise RuntimeError("cuVS found no finite inertia and returned no centroids")
        return _cuvs.iterations_run(counted, iterations)

    def fetch(self) -> tuple[np.ndarray, np.ndarray]:
        labels = self._torch.empty(len(self._points), dtype=self._torch.int32, device=self.device)
        self._kmeans.predict(
            self._parameters(1),
            self._points,
            self._centroids,
            labels=labels,
            resources=self._resources,
        )
        self._resources.sync()
        return self._centroids.cpu().numpy(), labels.cpu().numpy()
