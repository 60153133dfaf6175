# SPDX-License-Identifier: Apache-2.0
"""Runs Python variants for kmeans-bench; the other end is harness/variants/python_variant.cpp.

    worker.py --describe [--folder DIR | --plugin FILE]
    worker.py --serve NAME --control FD --exchange FD [--points FD] [--folder DIR | --plugin FILE]

``--describe`` prints one JSON line with every variant's traits, and whether it can run here.

``--serve`` answers commands, one JSON object a line, on the socket FD of ``--control``; standard
output belongs to the libraries, which may print what they like. Centroids and labels travel through
the memory file of ``--exchange``: k x d coordinates, then, from the next multiple of 64 bytes, n
int32 labels. docs/python-backend.md lists the commands.

The clock around ``step`` is in here, so that no variant times itself; a plugin that is a
program may have one (program.py).
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import hashlib
import importlib.util
import json
import os
import pathlib
import re
import sys
import time
import traceback
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import contract
import program

if TYPE_CHECKING:
    import numpy as np

OLDEST_PYTHON = (3, 11)
LABELS_ALIGNMENT = 64


def honour_denormals() -> None:
    """Denormal numbers count in this thread, and in those that it starts, whatever was loaded.

    A library that was linked with -ffast-math leaves them treated as zero.
    """
    default_environment = ctypes.c_void_p(-1)  # FE_DFL_ENV of glibc
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL("libm.so.6").fesetenv(default_environment)


# --- Describing -----------------------------------------------------------------------------------


def load_module(file: pathlib.Path) -> ModuleType:
    """Imports a variant's file by its path."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


Kind = TypeVar("Kind")


def class_of(module: ModuleType, kind: type[Kind]) -> type[Kind]:
    """The one class of a file that implements a contract."""
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, kind)
        and value.__module__ == module.__name__
    ]
    if len(classes) != 1:
        raise contract.TraitsError(
            f"{module.__name__}.py must define one subclass of {kind.__module__}.{kind.__name__}, "
            f"not {len(classes)}"
        )
    return classes[0]


def variant_class(module: ModuleType) -> type[contract.Variant]:
    return class_of(module, contract.Variant)


def versions_of(distributions: list[str]) -> dict[str, str | None]:
    """Installed version of each distribution, None where it is missing; imports none of them."""
    from importlib import metadata

    versions: dict[str, str | None] = {}
    for distribution in distributions:
        try:
            versions[distribution] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            versions[distribution] = None
    return versions


def is_older(version: str, oldest: str) -> bool:
    """Is 26.6.0 older than 26.10? By the numbers in them alone."""
    numbers, least = (
        [int(part) for part in re.findall(r"\d+", text)] for text in (version, oldest)
    )
    return numbers < least


def reason_against(traits: dict[str, Any]) -> str:
    """Which distributions are missing or too old, and what to do; empty where none is."""
    versions = versions_of(traits["requires"])
    missing = [name for name, version in versions.items() if version is None]
    old = [
        f"{name} {versions[name]}, older than {oldest}"
        for name, oldest in traits["at_least"].items()
        if name not in missing and is_older(versions[name] or "", oldest)
    ]
    if not missing and not old:
        return ""
    remedy = traits["remedy"]
    if not remedy and traits["gpu"]:
        remedy = (
            "`make setup-gpu` installs requirements-gpu.txt, which brings what GPU variants need"
        )
    elif not remedy:
        install = f".venv/bin/pip install --require-hashes -r {traits['requirements']}"
        remedy = f"`{install}` brings what it needs"
    found = [f"lacks {', '.join(missing)}"] if missing else []
    found += [f"has {', '.join(old)}"] if old else []
    return f"Python {'.'.join(map(str, sys.version_info[:3]))} {' and '.join(found)}; {remedy}"


def describe_variant(file: pathlib.Path) -> dict[str, Any]:
    """Name, traits, and availability with the reason; an unusable file is described, not raised."""
    description: dict[str, Any] = {"name": file.stem, "traits": None, "reason": ""}
    try:
        if file.suffix == ".py":
            module = load_module(file)
            traits = contract.check_traits(getattr(module, "TRAITS", None))
            variant_class(module)
        else:
            traits = program.describe(file)
    except Exception as error:  # a broken file must not take the others with it
        description["reason"] = f"{file.name} cannot be used: {type(error).__name__}: {error}"
        return description
    description["traits"] = traits
    description["reason"] = reason_against(traits)
    return description


def describe(folder: pathlib.Path, plugin: pathlib.Path | None = None) -> dict[str, Any]:
    """Everything that the suite knows about a folder's variants, or a plugin, before they run."""
    files = sorted(folder.glob("python_*.py")) if plugin is None else [plugin]
    version = ".".join(map(str, sys.version_info[:3]))
    variants = [describe_variant(file) for file in files]
    if sys.version_info < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        for variant in variants:
            variant["reason"] = f"Python {oldest} or newer is needed, {sys.executable} is {version}"
    return {"python": version, "variants": variants}


# --- Serving --------------------------------------------------------------------------------------


def limit_threads(threads: int) -> None:
    """Limits every OpenMP and BLAS runtime that is loaded by now."""
    try:
        import threadpoolctl
    except ImportError:
        return  # what is loaded has read the environment, set before the first import
    threadpoolctl.threadpool_limits(limits=threads)


def library_info(requires: list[str]) -> dict[str, str]:
    """Versions of the libraries, and what each loaded BLAS and OpenMP runtime says of itself."""
    info = {"python": ".".join(map(str, sys.version_info[:3]))}
    info |= {name: version or "missing" for name, version in versions_of(requires).items()}
    try:
        import threadpoolctl
    except ImportError:
        return info
    for pool in threadpoolctl.threadpool_info():
        # A wheel brings its own BLAS in a folder such as numpy.libs; the folder distinguishes them.
        key = f"{pool['internal_api']} ({pathlib.Path(pool['filepath']).parent.name})"
        words = [pool.get("version"), pool.get("architecture"), pool.get("threading_layer")]
        words.append(f"{pool['num_threads']} threads")
        info[key] = ", ".join(str(word) for word in words if word)
    return info


def is_flat(file: str) -> bool:
    """Has the array of this file one dimension?"""
    import numpy as np

    return np.load(file, mmap_mode="r").ndim == 1


class Server:
    """Holds one variant and answers the commands of the suite."""

    def __init__(
        self, file: pathlib.Path, exchange: int, points: int | None, is_plugin: bool = False
    ) -> None:
        self._file = file
        self._is_plugin = is_plugin
        self._exchange_descriptor = exchange
        self._points_descriptor = points
        self._variant: contract.Variant | None = None
        self._device_clock: contract.DeviceClock | None = None
        self._requires: list[str] = []

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carries out one command; what goes wrong in it becomes the answer."""
        try:
            handler = getattr(self, f"_do_{request['command']}")
            return {"ok": True} | handler(request)
        except (Exception, SystemExit) as error:
            frames = traceback.extract_tb(error.__traceback__)
            where = f"{pathlib.Path(frames[-1].filename).name}:{frames[-1].lineno}"
            line = frames[-1].line or ""
            if line.endswith(("(", "[", "{")):
                line += "..."  # the first of several
            return {
                "ok": False,
                "type": type(error).__name__,
                "message": str(error),
                "where": f"{where}: {line}" if line else where,
            }

    def _do_setup(self, request: dict[str, Any]) -> dict[str, Any]:
        gpus = int(request["gpus"])
        # A library that shares points among GPUs gives each a thread of OpenMP's; with fewer NCCL
        # may wait forever.
        threads = max(int(request["threads"]), gpus)
        # Runtimes read these once, when they are loaded: nothing has imported numpy so far.
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[name] = str(threads)
        honour_denormals()
        variant = self._make_variant()
        honour_denormals()
        n, d, k = (int(request[size]) for size in "ndk")
        dtype = "float64" if request["precision"] == "f64" else "float32"
        self._map_exchange(n, d, k, dtype)
        points = self._load_points(n, d, dtype, request["points_file"])
        variant.precision = request["precision"]
        variant.gpus = gpus
        if isinstance(variant, program.Program):
            # Programs are promised n x d.
            file = request["points_file"]
            variant.points_file = None if file is None or is_flat(file) else file
        variant.setup(points, k, threads)
        limit_threads(threads)
        if gc.get_freeze_count() == 0:
            gc.freeze()  # what libraries keep for good, which each reset would search for garbage
        self._device_clock = variant.device_clock()
        self._variant = variant
        return {}

    def _make_variant(self) -> contract.Variant:
        if self._file.suffix != ".py":
            return program.Program(self._file)
        module = load_module(self._file)
        self._requires = contract.check_traits(module.TRAITS)["requires"]
        return variant_class(module)()

    def _do_reset(self, _: dict[str, Any]) -> dict[str, Any]:
        self._ready().reset(self._centroids.copy())
        gc.collect()  # not in the middle of the next step
        honour_denormals()
        return {}

    def _do_step(self, request: dict[str, Any]) -> dict[str, Any]:
        variant = self._ready()
        clock = self._device_clock
        iterations = int(request["iterations"])
        gc.disable()
        try:
            if clock is not None:
                clock.begin()
            begin = time.perf_counter()
            executed = variant.step(iterations)
            seconds = time.perf_counter() - begin
            if isinstance(variant, program.Program) and variant.own_seconds is not None:
                seconds = variant.own_seconds
            device_seconds = None if clock is None else clock.end()
        finally:
            gc.enable()
        return {
            "seconds": seconds,
            "device_seconds": device_seconds,
            "executed": None if executed is None else int(executed),
        }

    def _do_fetch(self, _: dict[str, Any]) -> dict[str, Any]:
        centroids, labels = self._ready().fetch()
        if centroids.shape != self._centroids.shape or labels.shape != self._labels.shape:
            raise ValueError(
                f"fetch() returned centroids {centroids.shape} and labels {labels.shape}, "
                f"not {self._centroids.shape} and {self._labels.shape}"
            )
        self._centroids[...] = centroids
        self._labels[...] = labels
        return {}

    def _do_library(self, _: dict[str, Any]) -> dict[str, Any]:
        info = library_info(self._requires)
        if self._is_plugin:
            digest = hashlib.sha256(self._file.read_bytes()).hexdigest()
            info |= {"plugin": self._file.name, "plugin sha256": digest}
        return {"library": info | self._variant.library_info() if self._variant else info}

    def _ready(self) -> contract.Variant:
        if self._variant is None:
            raise RuntimeError("setup has not succeeded")
        return self._variant

    def _map_exchange(self, n: int, d: int, k: int, dtype: str) -> None:
        import mmap

        import numpy as np

        memory = mmap.mmap(self._exchange_descriptor, 0)
        self._centroids = np.frombuffer(memory, dtype, k * d).reshape(k, d)
        offset = -(-self._centroids.nbytes // LABELS_ALIGNMENT) * LABELS_ALIGNMENT
        self._labels = np.frombuffer(memory, np.int32, n, offset)

    def _load_points(self, n: int, d: int, dtype: str, file: str | None) -> np.ndarray:
        """The points in memory of our own, so that no page of a file is read while the clock runs.

        Read-only: a library that writes to its input raises instead of spoiling later iterations.
        """
        import mmap

        import numpy as np

        if file is not None:
            mapped = np.load(file, mmap_mode="r")
            if mapped.ndim == 1:  # n points of one coordinate, as the suite reads them
                mapped = mapped.reshape(-1, 1)
        else:
            memory = mmap.mmap(self._points_descriptor, 0, prot=mmap.PROT_READ)
            mapped = np.frombuffer(memory, dtype, n * d).reshape(n, d)
        if mapped.shape != (n, d) or mapped.dtype != dtype:
            raise ValueError(
                f"{file} holds {mapped.dtype} points of shape {mapped.shape}, not {dtype} {(n, d)}"
            )
        points = np.array(mapped, order="C", subok=False)
        points.flags.writeable = False
        return points


def serve(server: Server, requests: BinaryIO, answers: BinaryIO) -> None:
    """Answers until the other end closes."""
    for line in requests:
        answers.write(json.dumps(server.answer(json.loads(line))).encode() + b"\n")
        answers.flush()


# --- Command line ---------------------------------------------------------------------------------


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line shown at the top of this file."""
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Runs Python variants for kmeans-bench.")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--describe", action="store_true", help="print all traits as JSON")
    action.add_argument("--serve", metavar="NAME", help="run this variant")
    parser.add_argument("--folder", type=pathlib.Path, default=here, help="where the variants are")
    parser.add_argument("--plugin", type=pathlib.Path, help="a variant from elsewhere")
    parser.add_argument("--control", type=int, metavar="FD", help="socket; describe: output")
    parser.add_argument("--exchange", type=int, metavar="FD", help="memory file for results")
    parser.add_argument("--points", type=int, metavar="FD", help="memory file of the points")
    options = parser.parse_args(arguments)
    if options.serve and (options.control is None or options.exchange is None):
        parser.error("--serve needs --control and --exchange")
    return options


def main() -> None:
    """Describes or serves; ends without tearing the libraries down, which can take long."""
    options = parse_arguments()
    if options.describe:
        text = json.dumps(describe(options.folder, options.plugin)).encode() + b"\n"
        with os.fdopen(1 if options.control is None else options.control, "wb") as output:
            output.write(text)
    else:
        file = options.plugin or options.folder / f"{options.serve}.py"
        server = Server(file, options.exchange, options.points, options.plugin is not None)
        with (
            open(options.control, "rb", closefd=False) as requests,
            open(options.control, "wb", closefd=False) as answers,
        ):
            serve(server, requests, answers)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
