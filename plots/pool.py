# SPDX-License-Identifier: Apache-2.0
"""Drawing on all allowed processors: every figure is independent of the others."""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any


def _collect_seldom() -> None:
    """Looking for garbage among all results, after every few hundred objects of a figure, took a
    ninth of the time to draw."""
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)


# What the processes of a pool find, as they are forked. Sent to them, a result would come without
# what earlier figures have computed of it: drawing took two and a half times as long.
_TASKS: list[Sequence[Any]] = []


def _run(function: Callable[..., Any], place: int) -> Any:
    return function(*_TASKS[place])


def starmap(function: Callable[..., Any], arguments: Iterable[Sequence[Any]]) -> list[Any]:
    """function(*a) for each a, in order; in this process where there is one processor or task."""
    tasks = list(arguments)
    workers = min(len(os.sched_getaffinity(0)), len(tasks), 8)
    if workers < 2:
        return [function(*task) for task in tasks]
    _TASKS[:] = tasks
    try:
        with ProcessPoolExecutor(
            max_workers=workers,
            mp_context=multiprocessing.get_context("fork"),
            initializer=_collect_seldom,
        ) as pool:
            futures = [pool.submit(_run, function, place) for place in range(len(tasks))]
            return [future.result() for future in futures]
    finally:
        _TASKS.clear()
