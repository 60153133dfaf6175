# SPDX-License-Identifier: Apache-2.0
"""The compiled part: what it takes has been checked, and is in C order."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

class _Points:
    """A capsule."""

def points(rows: NDArray[np.float32], threads: int, device: int) -> _Points: ...
def points_on_gpu(
    address: int, n: int, d: int, numbers: int, stream: int, threads: int
) -> _Points: ...
def unit_rows_on_gpu(address: int, n: int, d: int, numbers: int, stream: int) -> object: ...
def gpu_array(
    array: object,
) -> tuple[int, tuple[int, ...], tuple[int, ...], int, int, object]: ...
def copy_from_gpu(to: int, address: int, size: int, stream: int) -> None: ...
def lloyd_on_gpu(
    points: _Points,
    init: NDArray[np.float32],
    iterations: int,
    stop: int,
    tolerance: float,
    labels_of: int,
    weights: NDArray[np.float64] | None,
    metric: int,
) -> tuple[object, object, int, bool, bool]: ...
def lloyd(
    points: _Points,
    init: NDArray[np.float32],
    iterations: int,
    stop: int,
    tolerance: float,
    labels_of: int,
    weights: NDArray[np.float64] | None,
    metric: int,
) -> tuple[NDArray[np.float32], NDArray[np.int32], int, bool, bool]: ...
def nearest(points: _Points, centroids: NDArray[np.float32]) -> NDArray[np.int32]: ...
def distances_float64(points: _Points, centroids: NDArray[np.float32]) -> NDArray[np.float64]: ...
def distances_float32(points: _Points, centroids: NDArray[np.float32]) -> NDArray[np.float32]: ...
def inertia(
    points: _Points,
    centroids: NDArray[np.float32],
    labels: NDArray[np.int32],
    weights: NDArray[np.float64] | None,
) -> float: ...
def seed_plus_plus(
    points: _Points, k: int, seed: int, weights: NDArray[np.float64] | None
) -> NDArray[np.float32]: ...
def seed_ward(
    points: _Points, k: int, seed: int, weights: NDArray[np.float64] | None
) -> NDArray[np.float32]: ...
def unit_rows(rows: NDArray[np.float32], threads: int) -> NDArray[np.float32]: ...
def lloyd_batch(
    points: NDArray[np.float32],
    init: NDArray[np.float32],
    iterations: int,
    stop: int,
    tolerance: float,
    labels_of: int,
    metric: int,
    threads: int,
    device: int,
) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.int64], NDArray[np.bool_]]: ...
def lloyd_batch_on_gpu(
    address: int,
    n: int,
    numbers: int,
    stream: int,
    init: NDArray[np.float32],
    iterations: int,
    stop: int,
    tolerance: float,
    labels_of: int,
    metric: int,
    threads: int,
    stays: bool,
) -> tuple[Any, Any, NDArray[np.int64], NDArray[np.bool_]]: ...
def seed_ward_batch(
    points: NDArray[np.float32], k: int, seed: int, threads: int
) -> NDArray[np.float32]: ...
def seed_ward_batch_on_gpu(
    address: int,
    problems: int,
    n: int,
    d: int,
    numbers: int,
    stream: int,
    k: int,
    seed: int,
    threads: int,
) -> NDArray[np.float32]: ...
def clusters_with_points(labels: NDArray[np.int32], k: int) -> int: ...
def engines(points: _Points) -> int: ...
def instructions() -> str: ...
def problem_with_gpu() -> str: ...
def gpu_part() -> tuple[str, str]: ...
def release_memory() -> None: ...
def version() -> str: ...
