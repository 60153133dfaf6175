# SPDX-License-Identifier: Apache-2.0
"""Arrays in a GPU's memory, by the protocols that CuPy, PyTorch, JAX and Numba share."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _engine, _shapes

#: Of DLPack: a CUDA device, or CUDA's managed memory.
_CUDA = (2, 13)
#: Coordinates, as `_engine` counts them, and what a copy of them is read as.
_NUMBERS = {"float32": np.float32, "float16": np.float16, "bfloat16": np.uint16}
_LABELS = {"int32": np.int32, "int64": np.int64}
_OF_TYPESTR = {"<f4": "float32", "<f2": "float16", "<i4": "int32", "<i8": "int64"}
#: Of DLPack: kind and bits.
_OF_DLPACK = {
    (2, 32): "float32",
    (2, 16): "float16",
    (4, 16): "bfloat16",
    (0, 32): "int32",
    (0, 64): "int64",
}
#: In DLPack and the CUDA array interface: the stream that all others wait for, unless they were
#: made not to.
_LEGACY_DEFAULT = 1


@dataclass(frozen=True)
class Array:
    """In C order."""

    address: int
    shape: tuple[int, ...]
    #: Of the types above.
    type: str
    #: What has to be done first is in this stream; 0: it is done.
    stream: int
    #: Keeps the memory.
    owner: Any

    def __len__(self) -> int:
        return self.shape[0]


class Rows(Array):
    """n x d coordinates."""

    @property
    def numbers(self) -> int:
        return [*_NUMBERS].index(self.type)


def is_on_gpu(given: object) -> bool:
    """Is this an array in the memory of a GPU?"""
    if isinstance(given, np.ndarray):
        return False
    if hasattr(given, "__dlpack_device__"):
        try:
            return int(given.__dlpack_device__()[0]) in _CUDA
        except (BufferError, RuntimeError, ValueError):  # of several devices
            return False
    return hasattr(given, "__cuda_array_interface__")


def rows(name: str, given: Any) -> Rows:
    """Points or centroids that are on a GPU."""
    array = _array(name, given)
    _shapes.table(name, array.shape)
    return _rows_of(name, given, array, array.shape)


def problems(name: str, given: Any) -> tuple[Rows, tuple[int, int, int]]:
    """Tables of one shape that are on a GPU, all rows one behind the other; and B, n and d."""
    array = _array(name, given)
    count, n, d = _shapes.stack(name, array.shape)
    return _rows_of(name, given, array, (count * n, d)), (count, n, d)


def unit_rows(given: Rows) -> Rows:
    """A copy there, scaled to length one."""
    place = (given.address, *given.shape, given.numbers, given.stream)
    return rows("x", _engine.unit_rows_on_gpu(*place))


def host_rows(rows: Rows) -> np.ndarray:
    """A copy in the host's memory, as float32."""
    copy = _host_copy(rows, _NUMBERS[rows.type])
    if rows.type == "bfloat16":
        return (copy.astype(np.uint32) << 16).view(np.float32)
    return copy.astype(np.float32, copy=False)


def host_labels(name: str, given: Any) -> np.ndarray:
    """A copy of labels that are on a GPU."""
    array = _array(name, given)
    if array.type not in _LABELS:
        raise _wrong_type(name, given, "int32 or int64")
    return _host_copy(array, _LABELS[array.type])


def _array(name: str, given: Any) -> Array:
    if hasattr(given, "__dlpack__"):
        try:
            exported = _exported(given)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise ValueError(f"kmeans_exact: {name} on a GPU is not to be had: {error}") from error
        address, shape, strides, kind, bits, owner = _engine.gpu_array(exported)
        found, stream = _OF_DLPACK.get((kind, bits), ""), _LEGACY_DEFAULT
    else:
        facts = given.__cuda_array_interface__
        if facts.get("mask") is not None:
            raise ValueError(f"kmeans_exact: {name} on a GPU has a mask; leave out what it hides")
        (address, _), shape, owner = facts["data"], tuple(facts["shape"]), given
        found, stream = _OF_TYPESTR.get(facts["typestr"], ""), facts.get("stream") or 0
        size = int(facts["typestr"][2:])
        strides = facts.get("strides") and tuple(step // size for step in facts["strides"])
    if strides is not None and not _in_order(shape, strides):
        raise ValueError(
            f"kmeans_exact: {name} is on a GPU and not in C order; a contiguous copy is needed"
        )
    return Array(address, shape, found, stream, owner)


def _exported(given: Any) -> object:
    """By DLPack. PyTorch exports only what its current GPU has."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(given, torch.Tensor):
        with torch.cuda.device(given.device):
            return given.__dlpack__(stream=_LEGACY_DEFAULT)
    return given.__dlpack__(stream=_LEGACY_DEFAULT)


def _rows_of(name: str, given: Any, array: Array, shape: tuple[int, ...]) -> Rows:
    if array.type not in _NUMBERS:
        raise _wrong_type(name, given, "float32, float16 or bfloat16")
    return Rows(array.address, shape, array.type, array.stream, array.owner)


def _host_copy(array: Array, dtype: type) -> np.ndarray:
    copy = np.empty(array.shape, dtype)
    _engine.copy_from_gpu(copy.ctypes.data, array.address, copy.nbytes, array.stream)
    return copy


def _in_order(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Are these the strides of C order, in elements?"""
    wanted = 1
    for axis in reversed(range(len(shape))):
        if shape[axis] > 1 and strides[axis] != wanted:
            return False
        wanted *= shape[axis]
    return True


def _wrong_type(name: str, given: object, types: str) -> TypeError:
    return TypeError(
        f"kmeans_exact: {name} is on a GPU and of type {getattr(given, 'dtype', 'unknown')}; "
        f"there {types} are needed"
    )
