# SPDX-License-Identifier: Apache-2.0
"""cuVS on several GPUs of one process: cuvs.cluster.mg.kmeans, from given centroids.

Idea:      python_cuvs on a part of the points for each GPU; sums and counts are added up by NCCL
Parallel:  by the library: a part of the rows and a host thread for each GPU
Memory:    points stay in host memory, page-locked here, and are sent to the GPUs in every call; on
           each GPU its part of them, a label with a distance, a norm and a weight for each point
Numerics:  expanded square in the points' precision; sums in any order; an empty cluster keeps its
           centroid
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import _cuvs
import contract

if TYPE_CHECKING:
    import numpy as np

# Of a GPU's free memory; NCCL and cuBLAS have buffers of their own.
SHARE_OF_POOL = 0.8
# Coordinates of points that are labelled at a time.
COORDINATES_AT_A_TIME = 2**26
PORTABLE = 1  # cudaHostRegisterPortable: page-locked for every GPU

TRAITS = {
    "summary": "cuVS: cuvs.cluster.mg.kmeans on the GPUs of one process, points in host memory",
    "source": "cuVS",
    "precisions": ["f32", "f64"],
    "gpu": True,
    "many_gpus": True,
    "deterministic": False,  # atomic sums
    "distance": "expanded",
    "labels_of": "returned",
    "timing_note": "every step sends the points from host memory, page-locked where CUDA allows "
    "it, to the GPUs, since the library takes host data only, and the centroids there and back; "
    "inertia and movement in every iteration, and one more assignment for the inertia once per "
    "run; fit stops when no centroid moves or the inertia rises by rounding, which nothing turns "
    "off; the assignment to the returned centroids that gives the labels, on one GPU, is not timed",
    "setup_note": "page-locking of the points; a pool of memory on each GPU; NCCL makes the GPUs "
    "known to each other; two iterations on each of several GPUs alone and one on all, which load "
    "kernels",
    "requires": ["cuvs-cu13", "pylibraft-cu13", "rmm-cu13", "cuda-bindings", "numpy"],
    "at_least": {"cuvs-cu13": "26.8"},
    "remedy": "cuvs-cu13 26.8 or newer has cuvs.cluster.mg; requirements-gpu.txt pins an older "
    "one, and docs/python-backend.md says how to get it",
    # CUDA's and the libraries' own state; norms of the points that the library keeps page-locked.
    "memory_bytes": {"1": 4e9, "n*scalar": 1, "k*d*scalar": 2},
    # Of a pool that has 80 % of the memory: points; labels with distances, norms, weights; a tile
    # of 32 768 points x k; CUDA's and NCCL's own.
    "device_bytes": {
        "n*d*scalar": 1.25,
        "n": 60,
        "k*d*scalar": 10,
        "k*scalar": 1.25 * 2**15,
        "1": 3e9,
    },
    "limits": [
        {
            "terms": {"k*d": 1},
            "at_most": 2**30 - 1,
            "reason": "cuVS predicts labels with 32-bit indices of coordinates, here of up to 2k "
            "points at a time",
        },
    ],
}


class PythonCuvsMg(contract.Variant):
    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        # Programs that use NVLink multicast have put GPUs of shared hosts out of service.
        os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
        from cuda.bindings import runtime
        from cuvs.cluster import kmeans
        from cuvs.cluster.mg import kmeans as shared_kmeans
        from cuvs.common import MultiGpuResources, Resources
        from pylibraft.common import device_ndarray

        self._runtime, self._kmeans, self._shared_kmeans = runtime, kmeans, shared_kmeans
        self._device_array = device_ndarray
        self._points, self._k = points, k
        self._make_pools()
        self._page_lock()
        # CUDA loads a kernel when it is first called, and may wait for the GPU to do so: for ever
        # where NCCL's kernels there wait for another GPU. So each GPU first works alone.
        for device in range(self.gpus if self.gpus > 1 else 0):
            self._resources = MultiGpuResources(device_ids=[device])
            self.reset(points[:k])
            self.step(2)
            self._use(0)
        # Else new ones, with communicators of NCCL's, in every call.
        self._resources = MultiGpuResources(device_ids=list(range(self.gpus)))
        self._first_gpu = Resources()
        self.reset(points[:k])
        self.step(1)

    def _make_pools(self) -> None:
        """A pool on each GPU, where each buffer would else be asked for, and given back, by CUDA.

        Not cudaMallocAsync's: NCCL lets the GPUs of a process reach into each other's buffers, and
        those are for one GPU alone.
        """
        import rmm.mr

        error, visible = self._runtime.cudaGetDeviceCount()
        if int(error) != 0 or visible < self.gpus:
            found = visible if int(error) == 0 else f"none ({error.name})"
            raise RuntimeError(
                f"{self.gpus} GPUs are to share the points, CUDA finds {found}: is there a driver, "
                "is it new enough, and what is CUDA_VISIBLE_DEVICES?"
            )
        for device in reversed(range(self.gpus)):  # the first one stays the current one
            self._use(device)
            free, _ = rmm.mr.available_device_memory()
            size = int(SHARE_OF_POOL * free) // 256 * 256
            pool = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=size)
            rmm.mr.set_per_device_resource(device, pool)

    def _page_lock(self) -> None:
        """Copies from other memory go through a buffer of the driver's, far below the link."""
        (error,) = self._runtime.cudaHostRegister(
            self._points.ctypes.data, self._points.nbytes, PORTABLE
        )
        self._points_in = "page-locked memory"
        if int(error) != 0:
            self._runtime.cudaGetLastError()  # else the library takes it for an error of its own
            self._points_in = f"other memory, since page-locking failed ({error.name})"

    def _use(self, device: int) -> None:
        (error,) = self._runtime.cudaSetDevice(device)
        if int(error) != 0:
            raise RuntimeError(f"GPU {device} cannot be used: {error.name}")

    def _parameters(self, iterations: int) -> object:
        # device_buffer_samples stays 0: each GPU takes its part of the points whole. Smaller
        # batches save memory, and cost sums of their own.
        return _cuvs.parameters(self._kmeans, self._k, iterations)

    def reset(self, centroids: np.ndarray) -> None:
        self._centroids = centroids.copy()  # fit writes its result over them

    def step(self, iterations: int) -> int:
        result = self._shared_kmeans.fit(
            self._parameters(iterations),
            self._points,
            centroids=self._centroids,
            resources=self._resources,
        )
        self._resources.sync()
        if result.n_iter < 1:
            raise RuntimeError("cuvs.cluster.mg counts no iteration")
        return _cuvs.iterations_run(result.n_iter, iterations)

    def fetch(self) -> tuple[np.ndarray, np.ndarray]:
        import numpy as np

        n, d = self._points.shape
        self._use(0)
        labels = np.empty(n, dtype=np.int32)
        centroids = self._device_array(self._centroids)
        # Never fewer than k points, as in the library's own calls.
        blocks = max(1, n // max(self._k, COORDINATES_AT_A_TIME // d))
        for block in range(blocks):
            rows = slice(n * block // blocks, n * (block + 1) // blocks)
            found, _ = self._kmeans.predict(
                self._parameters(1),
                self._device_array(self._points[rows]),
                centroids,
                resources=self._first_gpu,
            )
            self._first_gpu.sync()
            labels[rows] = found.copy_to_host()
        return self._centroids, labels

    def library_info(self) -> dict[str, str]:
        return {
            "GPUs of cuvs.cluster.mg": str(self.gpus),
            "points of cuvs.cluster.mg": self._points_in,
        }
