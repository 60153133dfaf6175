# SPDX-License-Identifier: Apache-2.0
"""The pieces that pages are made of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

TEMPLATES = Path(__file__).resolve().parent / "templates"


@dataclass(frozen=True)
class Extras:
    """What a page has inline besides its own style and script, in their order. Scripts keep their
    names to themselves."""

    styles: tuple[str, ...] = ()
    early: tuple[
        str, ...
    ] = ()  # scripts that run where the template has its mark, before the rest is read
    late: tuple[str, ...] = ()  # and at the end


PLAIN = Extras()


def alone(script: str) -> str:
    """Without names that others see."""
    return f"(() => {{\n{script}\n}})();"


def template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
