# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for PyTorch and for libraries that need a GPU, in NumPy: what the adapters of these
libraries do around them can then be tested anywhere.

Each behaves as the library does where that has consequences for the caller: which arrays it writes
to, how it counts iterations, what it refuses.
"""

from __future__ import annotations

import collections
import enum
import sys
import types

import numpy as np


class Tensor(np.ndarray):
    """An array with the methods of a tensor that the adapters use; `to` the CPU does not copy."""

    def to(self, _device: str) -> Tensor:
        return self

    def clone(self) -> Tensor:
        return self.copy()

    def half(self) -> Tensor:
        return self.astype(np.float16)

    def cpu(self) -> Tensor:
        return self

    def cuda(self) -> Tensor:
        return self.copy()

    def numpy(self) -> np.ndarray:
        return np.asarray(self)

    def copy_(self, other: np.ndarray) -> Tensor:
        self[...] = other
        return self

    def new_empty(self, *shape: int) -> Tensor:
        return np.full(shape, np.nan, dtype=self.dtype).view(Tensor)


def _empty(shape: int | tuple[int, ...], *, dtype: type, device: str) -> Tensor:
    assert device == "cpu"
    return np.full(shape, -1, dtype=dtype).view(Tensor)


_random = np.random.RandomState()


def pytorch() -> types.ModuleType:
    torch = types.ModuleType("torch")
    torch.from_numpy = lambda array: array.view(Tensor)
    torch.empty = _empty
    torch.int32, torch.float32 = np.int32, np.float32
    torch.manual_seed = _random.seed
    torch.cuda = types.SimpleNamespace(is_available=lambda: True)
    torch.set_num_threads = lambda _: None
    torch.set_float32_matmul_precision = lambda _: None
    torch.backends = types.SimpleNamespace(
        cuda=types.SimpleNamespace(matmul=types.SimpleNamespace())
    )
    return torch


def nearest(points: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """Labels (n) of n x d points, in float64."""
    wide = np.asarray(points, dtype=np.float64), np.asarray(centroids, dtype=np.float64)
    distances = ((wide[0][:, None, :] - wide[1][None, :, :]) ** 2).sum(axis=2)
    return distances.argmin(axis=1).astype(np.int32)


def means(points: np.ndarray, labels: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """The k x d means; an empty cluster keeps its centroid."""
    updated = np.array(centroids, dtype=np.float64)
    for j in set(labels.tolist()):
        updated[j] = np.asarray(points, dtype=np.float64)[labels == j].mean(axis=0)
    return updated


def inertia_of(points: np.ndarray, centroids: np.ndarray) -> float:
    gaps = (
        np.asarray(points, dtype=np.float64)
        - np.asarray(centroids, dtype=np.float64)[nearest(points, centroids)]
    )
    return float((gaps**2).sum())


# --- FlashLib 0.4.0 -------------------------------------------------------------------------------


def _flash_kmeans(
    x: Tensor,
    n_clusters: int,
    *,
    max_iters: int = 100,
    tol: float = 0.0,
    init_centroids: Tensor | None = None,
    backend: str | None = None,
) -> tuple[Tensor, Tensor, int]:
    """Two buffers of centroids take turns, and the first of them is the one that it was given."""
    assert x.ndim == 3, x.shape
    assert init_centroids.shape == (1, n_clusters, x.shape[2])
    assert init_centroids.dtype == x.dtype
    assert backend == "triton"
    assert tol == 0
    current, other = init_centroids, np.full_like(init_centroids, np.nan)
    for _ in range(max_iters):
        labels = nearest(x[0], current[0])[None].view(Tensor)
        other[0] = means(x[0], labels[0], current[0])
        current, other = other, current
    return labels, current, max_iters


def _nearest_by_cosine(x: Tensor, centroids: Tensor) -> Tensor:
    assert x.ndim == centroids.ndim == 3
    scores = np.einsum("bnd,bkd->bnk", np.asarray(x), np.asarray(centroids))
    return scores.argmax(axis=2).astype(np.int32).view(Tensor)


def _flash_kmeans_by_cosine(x: Tensor, n_clusters: int) -> tuple[Tensor, Tensor, int]:
    """100 iterations; labels are of the centroids before the last."""
    current = x[_random.randint(len(x), size=n_clusters)]
    for _ in range(100):
        labels = _nearest_by_cosine(x[None], current[None])[0]
        current = means(x, labels, current).astype(np.float32)
        current /= np.linalg.norm(current, axis=1, keepdims=True)
    return labels, current.view(Tensor), 100


def _flash_kmeans_by(
    x: Tensor, n_clusters: int, *, metric: str = "euclidean", **how: object
) -> tuple[Tensor, Tensor, int]:
    if metric == "cosine":
        return _flash_kmeans_by_cosine(x, n_clusters, **how)
    return _flash_kmeans(x, n_clusters, **how)


def flashlib(*, cutedsl: bool, calls: list[str]) -> dict[str, types.ModuleType]:
    """The package's modules. `cutedsl`: can CuteDSL be imported? `calls`: which kernels ran."""
    package = {
        name: types.ModuleType(name)
        for name in (
            "flashlib",
            "flashlib._optional",
            "flashlib.primitives",
            "flashlib.primitives.kmeans",
            "flashlib.primitives.kmeans.impl",
        )
    }
    for name, module in package.items():
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(package[parent], child, module)
    kmeans = package["flashlib.primitives.kmeans"]

    def assign(backend: str):
        def kernel(x: Tensor, centroids: Tensor, out: Tensor) -> Tensor:
            calls.append(backend)
            assert x.dtype == centroids.dtype
            assert out.shape == x.shape[:2]
            assert out.dtype == np.int32
            out[0] = nearest(x[0], centroids[0])
            return out

        return kernel

    def step(
        x: Tensor,
        cluster_ids: Tensor,
        old_centroids: Tensor,
        *,
        sums_buf: Tensor,
        cnts_buf: Tensor,
        new_buf: Tensor,
        shift_buf: Tensor,
    ) -> None:
        assert sums_buf.shape == old_centroids.shape == new_buf.shape
        assert cnts_buf.shape == shift_buf.shape == old_centroids.shape[:2]
        assert new_buf is not old_centroids
        new_buf[0] = means(x[0], cluster_ids[0], old_centroids[0])

    kmeans.flash_kmeans = _flash_kmeans_by
    kmeans.cosine_assign_triton = _nearest_by_cosine
    kmeans.euclid_assign_triton = assign("Triton")
    kmeans.cutedsl_assign_euclid = assign("CuteDSL")
    kmeans.triton_lloyd_centroid_step_euclid = step
    package["flashlib._optional"].has_cutedsl = lambda: cutedsl

    def route(**sizes: int) -> tuple[str, None]:
        large = sizes["K"] >= 8 and sizes["D"] % 16 == 0  # of the library: from 4096 and d = 256
        return ("cutedsl" if large else "triton"), None

    package["flashlib.primitives.kmeans.impl"]._route = route
    return package


# --- cuVS 26.6 ------------------------------------------------------------------------------------


class _Parameters:
    def __init__(
        self, *, n_clusters: int, init_method: str, n_init: int, max_iter: int, tol: float
    ) -> None:
        assert init_method == "Array"
        assert n_init == 1
        self.n_clusters, self.max_iter, self.tol = n_clusters, max_iter, tol


def _check(parameters: _Parameters, centroids: Tensor) -> None:
    if not parameters.tol > 0:
        raise RuntimeError("invalid parameter (tol<=0)")
    assert len(centroids) == parameters.n_clusters


def _fit(
    parameters: _Parameters, points: Tensor, centroids: Tensor, resources: object
) -> tuple[Tensor, float, int]:
    """Writes over the centroids. A loop that nothing ends counts one iteration too many."""
    _check(parameters, centroids)
    assert resources is not None
    if not np.isfinite(np.asarray(points)).all():
        return centroids, float("inf"), 0
    count, before = 1, None
    current = np.array(centroids)
    while count <= parameters.max_iter:
        cost = inertia_of(points, current)
        updated = means(points, nearest(points, current), current).astype(current.dtype)
        moved = float(((updated - current) ** 2).sum())
        current = updated
        if (before is not None and cost / before > 1 - parameters.tol) or moved < parameters.tol:
            break
        before = cost
        count += 1
    centroids[...] = current
    return centroids, inertia_of(points, current), count


def _predict(
    parameters: _Parameters, points: Tensor, centroids: Tensor, labels: Tensor, resources: object
) -> tuple[Tensor, float]:
    _check(parameters, centroids)
    assert resources is not None
    assert labels.dtype == np.int32
    labels[...] = nearest(points, centroids)
    return labels, inertia_of(points, centroids)


def cuvs() -> dict[str, types.ModuleType]:
    """The modules of cuVS and rmm that the adapter imports."""
    names = ("cuvs", "cuvs.cluster", "cuvs.cluster.kmeans", "cuvs.common", "rmm", "rmm.mr")
    package = {name: types.ModuleType(name) for name in names}
    for name, module in package.items():
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(package[parent], child, module)
    kmeans = package["cuvs.cluster.kmeans"]
    kmeans.KMeansParams, kmeans.fit, kmeans.predict = _Parameters, _fit, _predict

    class Resources:
        def sync(self) -> None:
            pass

    package["cuvs.common"].Resources = Resources
    package["rmm.mr"].CudaAsyncMemoryResource = object
    package["rmm.mr"].set_current_device_resource = lambda _: None
    return package


# --- cuVS 26.8 and 26.10: cuvs.cluster.mg ---------------------------------------------------------


class _Error(enum.IntEnum):
    cudaSuccess = 0
    cudaErrorNoDevice = 100
    cudaErrorNotSupported = 801


class Gpus:
    """A process's GPUs as the runtime of CUDA shows them, and what was done with them."""

    def __init__(self, visible: int, *, page_locks: bool = True) -> None:
        self.visible = visible
        self.page_locks = page_locks
        self.current = 0
        self.pending_error = False
        self.pools: dict[int, _Pool] = {}
        self.shares: list[list[int]] = []  # of each fit the points that each GPU had
        self.labelled: list[int] = []  # of each prediction the points
        self.worked_alone: set[int] = set()  # GPUs that had a fit of their own

    def count(self) -> tuple[_Error, int | None]:
        if self.visible == 0:
            return _Error.cudaErrorNoDevice, None
        return _Error.cudaSuccess, self.visible

    def use(self, device: int) -> tuple[_Error]:
        assert device in range(self.visible)
        self.current = device
        return (_Error.cudaSuccess,)

    def register(self, address: int, size: int, flags: int) -> tuple[_Error]:
        assert address > 0
        assert size > 0
        assert flags == 1  # cudaHostRegisterPortable
        self.pending_error = not self.page_locks
        return (_Error.cudaSuccess if self.page_locks else _Error.cudaErrorNotSupported,)

    def last_error(self) -> tuple[_Error]:
        self.pending_error = False
        return (_Error.cudaErrorNotSupported,)

    def set_pool(self, device: int, pool: _Pool) -> None:
        assert pool.device == device == self.current, "made and set on its own GPU"
        self.pools[device] = pool


class _Pool:
    def __init__(self, gpus: Gpus, initial_pool_size: int) -> None:
        assert initial_pool_size % 256 == 0
        assert 0 < initial_pool_size < 1000 * 256
        self.device = gpus.current


class _DeviceArray:
    """pylibraft's: a copy of an array on the current GPU."""

    def __init__(self, array: np.ndarray) -> None:
        assert type(array) is np.ndarray
        assert array.flags["C_CONTIGUOUS"]
        self.array = array.copy()

    def copy_to_host(self) -> np.ndarray:
        return self.array.copy()


_FitOutput = collections.namedtuple("FitOutput", "centroids inertia n_iter")


class _SharedResources:
    """What fit and predict wrote is there once it was waited for."""

    def __init__(self, gpus: Gpus, device_ids: list[int] | None = None) -> None:
        assert gpus.current == 0
        self.devices = list(range(gpus.visible)) if device_ids is None else device_ids
        assert set(self.devices) <= set(range(gpus.visible))
        assert set(self.devices) <= set(gpus.pools)
        self.written: list[tuple[np.ndarray, np.ndarray]] = []

    def sync(self) -> None:
        for target, values in self.written:
            target[...] = values
        self.written.clear()


def _sums(points: np.ndarray, centroids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of one GPU's points the sums (k x d) and counts (k) of the nearest centroids."""
    labels = nearest(points, centroids)
    sums = np.zeros(centroids.shape)
    np.add.at(sums, labels, np.asarray(points, dtype=np.float64))
    return sums, np.bincount(labels, minlength=len(centroids))


def _fit_shared(
    gpus: Gpus,
    parameters: _Parameters,
    points: np.ndarray,
    centroids: np.ndarray,
    resources: _SharedResources,
) -> _FitOutput:
    """Writes over the centroids, and counts the iterations that it ran."""
    _check(parameters, centroids)
    for array in (points, centroids):
        assert type(array) is np.ndarray, "in host memory"
        assert array.flags["C_CONTIGUOUS"]
    if not centroids.flags["WRITEABLE"]:
        raise ValueError("centroids must be writable")
    if centroids.dtype != points.dtype:
        raise TypeError("centroids dtype must match X dtype")
    assert not gpus.pending_error, "an error that was left behind"
    ranks = len(resources.devices)
    shares = [len(points) // ranks + (rank < len(points) % ranks) for rank in range(ranks)]
    if ranks == 1:
        gpus.worked_alone.add(resources.devices[0])
    else:
        assert gpus.worked_alone >= set(resources.devices), "may wait for ever"
    gpus.shares.append(shares)
    parts = np.split(points, np.cumsum(shares)[:-1])
    current, count = centroids.copy(), 0
    for _ in range(parameters.max_iter):
        sums, counts = map(sum, zip(*(_sums(part, current) for part in parts), strict=True))
        updated = np.where(
            counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], current
        ).astype(current.dtype)
        moved = float(((updated - current) ** 2).sum())
        current = updated
        count += 1
        if moved < parameters.tol:
            break
    gpus.current = resources.devices[-1]  # which one it leaves, nothing says
    resources.written.append((centroids, current))
    centroids[...] = np.nan
    return _FitOutput(centroids, inertia_of(points, current), count)


def cuvs_mg(gpus: Gpus) -> dict[str, types.ModuleType]:
    """The modules of cuVS, rmm and CUDA's Python bindings that the adapter imports."""
    package = cuvs()
    kmeans = package["cuvs.cluster.kmeans"]
    for name in (
        "cuvs.cluster.mg",
        "cuvs.cluster.mg.kmeans",
        "cuda",
        "cuda.bindings",
        "cuda.bindings.runtime",
        "pylibraft",
        "pylibraft.common",
    ):
        package[name] = types.ModuleType(name)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(package[parent], child, package[name])

    def predict(
        parameters: _Parameters,
        points: _DeviceArray,
        centroids: _DeviceArray,
        resources: _SharedResources,
    ) -> tuple[_DeviceArray, float]:
        _check(parameters, centroids.array)
        assert gpus.current == 0
        assert len(points.array) >= parameters.n_clusters
        gpus.labelled.append(len(points.array))
        labels = _DeviceArray(np.full(len(points.array), -1, dtype=np.int32))
        resources.written.append((labels.array, nearest(points.array, centroids.array)))
        # The library's own named tuple, as pylibraft's auto_convert_output makes it a plain one.
        return labels, inertia_of(points.array, centroids.array)

    def fit(
        parameters: _Parameters,
        points: np.ndarray,
        *,
        centroids: np.ndarray,
        resources: _SharedResources,
    ) -> _FitOutput:
        return _fit_shared(gpus, parameters, points, centroids, resources)

    kmeans.predict = predict
    package["cuvs.cluster.mg.kmeans"].fit = fit
    package["cuvs.common"].MultiGpuResources = lambda device_ids=None: _SharedResources(
        gpus, device_ids
    )
    package["cuvs.common"].Resources = lambda: _SharedResources(gpus, [0])
    runtime = package["cuda.bindings.runtime"]
    runtime.cudaGetDeviceCount, runtime.cudaSetDevice = gpus.count, gpus.use
    runtime.cudaHostRegister, runtime.cudaGetLastError = gpus.register, gpus.last_error
    package["pylibraft.common"].device_ndarray = _DeviceArray
    memory = package["rmm.mr"]
    memory.available_device_memory = lambda: (1000 * 256 + 17, 2000 * 256)
    memory.CudaMemoryResource = object
    memory.PoolMemoryResource = lambda _upstream, *, initial_pool_size: _Pool(
        gpus, initial_pool_size
    )
    memory.set_per_device_resource = gpus.set_pool
    return package


def install(monkeypatch, modules: dict[str, types.ModuleType]) -> None:
    """For one test, what an import of these names finds."""
    for name, module in {"torch": pytorch(), **modules}.items():
        monkeypatch.setitem(sys.modules, name, module)
