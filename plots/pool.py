# SPDX-License-Identifier: Apache-2.0
"""Drawing on all allowed processors: every figure is independent of the others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any


def starmap(function: Callable[..., Any], arguments: Iterable[Sequence[Any]]) -> list[Any]:
    """function(*a) for each a, in order; in this process where there is one processor or task."""
    tasks = list(arguments)
    workers = min(len(os.sched_getaffinity(0)), len(tasks), 8)
    if workers < 2:
        return [function(*task) for task in tasks]
    with ProcessPoolExecutor(max_workers=workers) as pool:
        futures = [pool.submit(function, *task) for task in tasks]
        return [future.result() for future in futures]
