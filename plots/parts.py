# SPDX-License-Identifier: Apache-2.0
"""The pieces that pages are made of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

TEMPLATES = Path(__file__).resolve().parent / "templates"


@dataclass(frozen=True)
class Extras:
    """What a page has inline besides its own style and script, in their order."""

    styles: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


PLAIN = Extras()


def template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
