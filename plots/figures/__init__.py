# SPDX-License-Identifier: Apache-2.0
"""One file per kind of figure. A kind is a module with

    draw(result, figure) -> matplotlib Figure    pure; raises NothingToDraw
    caption(result, figure) -> list of sentences

A new kind is a new file here; nothing lists the kinds. Where a kind has a hyphen, its module has an
underscore.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

KINDS = tuple(
    sorted(
        m.name.replace("_", "-")
        for m in pkgutil.iter_modules(__path__)
        if not m.name.startswith("_")
    )
)


def module_of(kind: str) -> ModuleType:
    if kind not in KINDS:
        raise KeyError(f"unknown kind of figure {kind!r}; known: {', '.join(KINDS)}")
    return importlib.import_module(f"plots.figures.{kind.replace('-', '_')}")
