# SPDX-License-Identifier: Apache-2.0
"""Runs a library's whole fits for kmeans-bench; the other end is harness/run/fit_worker.cpp.

    fit_server.py --serve FILE --control FD --exchange FD

Commands and answers are JSON objects, one a line, on the socket of ``--control``. Centroids and
labels travel through the memory file of ``--exchange``, as in worker.py. The clock is in here:
around the call of the library, and nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import pathlib
import sys
import time
import zlib
from types import ModuleType
from typing import Any

import _gpu_memory
import contract
import estimator
import worker


def estimator_class(module: ModuleType, traits: dict[str, Any]) -> type[estimator.Estimator]:
    own = worker.class_of(module, estimator.Estimator)
    for key, method in (("takes_init", "fit_from"), ("seeding", "seeding")):
        if traits[key] and getattr(own, method) is getattr(estimator.Estimator, method):
            raise contract.TraitsError(
                f"TRAITS['{key}'] is {traits[key]!r}, and {own.__name__} has no {method}"
            )
    return own


def resident_bytes(key: str) -> int | None:
    """A line of /proc/self/status: VmRSS, or VmHWM, the most since `forget_peak`."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    return None


def forget_peak() -> bool:
    """Lets VmHWM begin at what is resident now; False where the kernel does not allow it."""
    try:
        pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


class FitServer(worker.Server):
    """Holds one estimator and answers the commands of the suite."""

    def __init__(self, file: pathlib.Path, exchange: int) -> None:
        super().__init__(file, exchange, None)
        self._estimator: estimator.Estimator | None = None

    def _do_describe(self, _: dict[str, Any]) -> dict[str, Any]:
        module = worker.load_module(self._file)
        traits = estimator.check_traits(getattr(module, "TRAITS", None))
        own = estimator_class(module, traits)
        return {"traits": traits, "reason": worker.reason_against(traits) or own.lacking()}

    def _do_setup(self, request: dict[str, Any]) -> dict[str, Any]:
        threads = int(request["threads"])
        # Runtimes read these once, when they are loaded: nothing has imported numpy so far.
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[name] = str(threads)
        worker.honour_denormals()
        module = worker.load_module(self._file)
        self._traits = estimator.check_traits(module.TRAITS)
        self._requires = self._traits["requires"]
        own = estimator_class(module, self._traits)()
        n, d, k = (int(request[size]) for size in "ndk")
        problems = int(request["problems"])
        self._map_exchange(n * problems, d, k, "float32")
        if problems > 1:
            self._centroids = self._centroids.reshape(problems, k, d // problems)
            self._labels = self._labels.reshape(problems, n)
        self._points = self._load_points(n, d, "float32", request["points_file"])
        # A user's array can be written to. Whether a library did so, the sum says.
        self._points.flags.writeable = True
        self._sum = self._checksum()
        own.starts, own.problems = int(request["starts"]), problems
        if self._traits["gpu"]:
            self._gpu = _gpu_memory.Watch()
            self._gpu_before = self._gpu.used()
        begin = time.perf_counter()
        own.setup(self._points, k, threads)
        seconds = time.perf_counter() - begin
        worker.limit_threads(threads)
        worker.honour_denormals()
        if gc.get_freeze_count() == 0:
            gc.freeze()
        self._estimator = own
        return {"import_seconds": seconds}

    def _do_fit(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._estimator is None:
            raise RuntimeError("setup has not succeeded")
        own = self._estimator
        given = self._centroids.copy() if request["iterations"] > 0 else None
        seed, iterations = int(request["seed"]), int(request["iterations"])
        gc.collect()
        worker.honour_denormals()
        known = forget_peak()
        before = resident_bytes("VmRSS")
        watched = self._gpu if request["watch_gpu"] else contextlib.nullcontext()
        gc.disable()
        try:
            with watched:
                begin = time.perf_counter()
                found = own.fit(seed) if given is None else own.fit_from(given, iterations)
                seconds = time.perf_counter() - begin
        finally:
            gc.enable()
        most = resident_bytes("VmHWM")
        device_peak = None
        if request["watch_gpu"] and self._gpu.most is not None and self._gpu_before is not None:
            device_peak = max(0, self._gpu.most - self._gpu_before)
        self._hand_over(found)
        return {
            "seconds": seconds,
            "iterations": None if found.iterations is None else int(found.iterations),
            "converged": None if found.converged is None else bool(found.converged),
            "objective": None if found.objective is None else float(found.objective),
            "peak_bytes": max(0, most - before) if known and most and before else None,
            "device_peak_bytes": device_peak,
            "points_changed": self._checksum() != self._sum,
        }

    def _do_seed(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._estimator is None:
            raise RuntimeError("setup has not succeeded")
        gc.collect()
        gc.disable()
        try:
            begin = time.perf_counter()
            self._estimator.seeding(int(request["seed"]))
            seconds = time.perf_counter() - begin
        finally:
            gc.enable()
        return {"seconds": seconds, "points_changed": self._checksum() != self._sum}

    def _hand_over(self, found: estimator.Fitted) -> None:
        import numpy as np

        if not isinstance(found, estimator.Fitted):
            raise TypeError(f"fit() returned {type(found).__name__}, not estimator.Fitted")
        for name, array, shape in (
            ("centroids", found.centroids, self._centroids.shape),
            ("labels", found.labels, self._labels.shape),
        ):
            if not isinstance(array, np.ndarray):
                raise TypeError(f"{name} are {type(array).__name__}, not an array in host memory")
            if array.shape != shape:
                raise ValueError(f"{name} have the shape {array.shape}, not {shape}")
        if found.labels.dtype.kind not in "iu":
            raise TypeError(f"labels are {found.labels.dtype}, not whole numbers")
        self._centroids[...] = found.centroids
        limits = np.iinfo(np.int32)
        beyond = (found.labels < 0) | (found.labels > limits.max)
        self._labels[...] = np.where(beyond, -1, found.labels)

    def _checksum(self) -> int:
        return zlib.crc32(memoryview(self._points).cast("B"))

    def _do_library(self, _: dict[str, Any]) -> dict[str, Any]:
        info = worker.library_info(self._requires)
        return {"library": info | (self._estimator.library_info() if self._estimator else {})}


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs a library's whole fits for kmeans-bench.")
    parser.add_argument("--serve", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("--control", type=int, required=True, metavar="FD", help="socket")
    parser.add_argument("--exchange", type=int, required=True, metavar="FD", help="memory file")
    parser.add_argument("--path", action="append", default=[], help="folder of packages")
    options = parser.parse_args()
    sys.path[1:1] = options.path
    server = FitServer(options.serve, options.exchange)
    with (
        open(options.control, "rb", closefd=False) as requests,
        open(options.control, "wb", closefd=False) as answers,
    ):
        worker.serve(server, requests, answers)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # without tearing libraries down, which can take long


if __name__ == "__main__":
    main()
