# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for PyTorch and for libraries that need a GPU, in NumPy: what the adapters of these
libraries do around them can then be tested anywhere.

Each behaves as the library does where that has consequences for the caller: which arrays it writes
to, how it counts iterations, what it refuses.
"""

from __future__ import annotations

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


def pytorch() -> types.ModuleType:
    torch = types.ModuleType("torch")
    torch.from_numpy = lambda array: array.view(Tensor)
    torch.empty = _empty
    torch.int32, torch.float32 = np.int32, np.float32
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

    kmeans.flash_kmeans = _flash_kmeans
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


def install(monkeypatch, modules: dict[str, types.ModuleType]) -> None:
    """For one test, what an import of these names finds."""
    for name, module in {"torch": pytorch(), **modules}.items():
        monkeypatch.setitem(sys.modules, name, module)
