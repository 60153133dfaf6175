# SPDX-License-Identifier: Apache-2.0
"""How much of a GPU's memory is in use while something runs, by NVML."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading

PAUSE_SECONDS = 1e-3


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class Watch:
    """Remembers the most that was in use; `most` is None where NVML says nothing.

    The whole GPU's, since a container may hide which process has what: nothing else may begin or
    end on it meanwhile.
    """

    def __init__(self) -> None:
        self._library: ctypes.CDLL | None = None
        self._handle = ctypes.c_void_p()
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL("libnvidia-ml.so.1")
            chosen = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"
            if library.nvmlInit_v2() != 0:
                return
            if chosen.startswith("GPU-"):
                found = library.nvmlDeviceGetHandleByUUID(
                    chosen.encode(), ctypes.byref(self._handle)
                )
            else:
                found = library.nvmlDeviceGetHandleByIndex_v2(
                    int(chosen), ctypes.byref(self._handle)
                )
            if found == 0:
                self._library = library

    def used(self) -> int | None:
        """Bytes in use now."""
        if self._library is None:
            return None
        memory = _Memory()
        if self._library.nvmlDeviceGetMemoryInfo(self._handle, ctypes.byref(memory)) != 0:
            return None
        return memory.used

    def __enter__(self) -> Watch:
        self.most = self.used()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        if self.most is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(PAUSE_SECONDS):
            now = self.used()
            if now is not None:
                self.most = max(self.most or 0, now)
