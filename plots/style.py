# SPDX-License-Identifier: Apache-2.0
"""Sole owner of colours, markers, line styles and fonts.

Colour shows the backend (Okabe-Ito, distinct for colour-blind readers), its lightness and the
marker show the variant, the line style, the marker's filling and the hatching show the precision:
nothing rests on colour alone, so the figures survive a black-and-white printer.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D

from plots.load import ON_GPU, Cell, Result, read_json

Color = str | tuple[float, float, float]

BLACK, GREY, LIGHT_GREY = "#1a1a1a", "#6b6b6b", "#d9d9d9"
_BLUE, _VERMILION, _GREEN, _PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
_SKY, _ORANGE, _YELLOW = "#56B4E9", "#E69F00", "#F0E442"
_INDIGO = "#4A0FC4"

_BACKENDS = {
    "cpu": _BLUE,
    "eigen": _GREEN,
    "blas": "#7a6a00",
    "openmp": _VERMILION,
    "python": _PURPLE,
    "cuda": _ORANGE,
    "python" + ON_GPU: _INDIGO,
    "nccl": _SKY,
    "mpi": BLACK,
}
# The suite's own variants by family. A variant's place gives it lightness and marker, the same on
# every machine and in every figure: new ones are added at the end, and none ever moves. Those that
# are not there find a place by their name.
_PLACES: dict[str, list[str]] = read_json(Path(__file__).resolve().parent / "variants.json")
_MARKERS = "os^DvPX<>*hd8p"
# Of a precision: line, the part of a marker that is filled, hatching of bars.
_PRECISIONS: dict[str, tuple[Any, str, str | None]] = {
    "f32": ("-", "full", None),
    "f64": ((0, (5, 2)), "none", "////"),
    "tf32": ((0, (1.5, 1.5)), "left", "...."),
    "f16": ((0, (5, 1.5, 1, 1.5)), "right", "\\\\\\\\"),
    "bf16": ((0, (5, 1.5, 1, 1.5, 1, 1.5)), "top", "xxxx"),
}
_OTHER_PRECISION = ((0, (1, 3)), "bottom", "++++")
_TONES = (0.0, 0.5, -0.6, 0.28, -0.33, 0.68)  # towards white (positive) or black (negative)
_TONES_OF_LIGHT = (0.0, -0.42, -0.7, -0.2, -0.56, 0.25)  # whiter ones would vanish on paper
_LIGHT = 0.4  # relative luminance from which a colour counts as light
_MIDDLE = 0.179  # relative luminance at which black and white text read equally well

# Clusters of a scatter picture, stages of an iteration: categories without a backend.
CATEGORIES = (_BLUE, _ORANGE, _GREEN, _PURPLE, _SKY, _VERMILION, _YELLOW, GREY)
_CATEGORY_MARKERS = "os^Dv<>p"
CEILING = BLACK
BASELINE = GREY
PUBLISHED = BLACK

# Measured limits as lines, the same in every figure: dashes are the CPU's, dots the GPU's. By kind
# of limit; a matrix product on a GPU has one for each precision.
_CPU_LIMITS = {
    "limit": (0, (4, 2)),
    "memory": (0, (4, 2)),
    "copy": (0, (8, 2)),
    "cache": (0, (8, 2, 2, 2)),
    "multiply-add f32": (0, (4, 2)),
    "multiply-add f64": (0, (2.5, 1.2)),
    "one thread f32": (0, (8, 2, 2, 2)),
    "one thread f64": (0, (5, 1.2, 1.2, 1.2)),
    "matrix product f32": (0, (8, 2)),
    "matrix product f64": (0, (6, 1)),
}
_GPU_LIMITS = {
    "limit": (0, (1, 1.3)),
    "memory": (0, (1, 1.3)),
    "cache": (0, (1, 1.3, 1, 4)),
    "link": (0, (1, 4)),
    "multiply-add f32": (0, (1, 1.3)),
    "multiply-add f64": (0, (1, 2.2)),
    "matrix product f64": (0, (1, 6)),
    "matrix product f32": (0, (1, 4)),
    "matrix product tf32": (0, (1, 1, 1, 5)),
    "matrix product f16": (0, (1, 1, 1, 1, 1, 5)),
    "matrix product bf16": (0, (1, 1, 1, 1, 1, 1, 1, 5)),
}
_OTHER_LIMIT = (0, (1, 1, 4, 1))
REFERENCE = (0, (9, 2, 1, 2, 1, 2))  # a published number as a line

# What became of a statement of a source; the word stands next to the colour.
VERDICTS = {
    "holds": _GREEN,
    "fails": _VERMILION,
    "partly": "#004a78",
    "undecided": "#7a5400",
    "few": "#6a3d8a",
    "untested": GREY,
}

# What became of a time between two results: colour, marker, filled or not. Arrows point to where
# the time went.
COMPARED = {
    "slower": (_VERMILION, ">", True),
    "faster": (_BLUE, "<", True),
    "unclear": ("#9a6a00", "D", False),
    "same": (GREY, "o", True),
}

# Hatching of a field of a map: a contender that might have won was left out; one was wrong there.
LEFT_OUT, LEFT_OUT_WRONG = "/////", "...."
# A 0 where an axis is logarithmic: a mark on a strip of its own below the axis.
ZERO = {"marker": "v", "markersize": 5.0, "markeredgewidth": 1.2, "markerfacecolor": "white"}
ZERO_STRIP = "#f2f2f2"

# A field or bar that has no value: hatched, with a word.
GAP: dict[str, Any] = {"facecolor": "#f2f2f2", "edgecolor": "#c4c4c4", "hatch": "////"}
_SLOWER, _FASTER = "#2f5d9b", "#b3470a"  # ends of the scale of speed-ups

FONT_SIZE = 9.0
SMALL = 8.0
TINY = 6.5  # in fields and next to points


@dataclass(frozen=True)
class Look:
    """How one series is drawn."""

    color: Color
    marker: str
    line: str | tuple[int, tuple[float, ...]]
    fill: str  # the part of the marker that is filled, as matplotlib's fillstyle
    hatch: str | None  # of bars

    @property
    def marks(self) -> dict[str, Any]:
        """Arguments of lines and error bars that set colour and marker."""
        none = self.fill == "none"
        return {
            "color": self.color,
            "marker": self.marker,
            "fillstyle": "full" if none else self.fill,
            "markerfacecolor": "white" if none else self.color,
            "markerfacecoloralt": "white",
            "markeredgecolor": self.color,
        }


def handle(label: str, **look: Any) -> Line2D:
    """Of a legend: what looks so is that."""
    return Line2D([], [], label=label, **look)


def apply() -> None:
    """Sets fonts, sizes and everything that makes SVG files repeatable."""
    mpl.use("Agg")
    mpl.rcdefaults()
    mpl.rcParams.update(
        {
            "svg.hashsalt": "kmeans-bench",
            "svg.fonttype": "path",
            "font.family": "DejaVu Sans",
            "font.size": FONT_SIZE,
            "axes.titlesize": FONT_SIZE,
            "axes.labelsize": FONT_SIZE,
            "xtick.labelsize": SMALL,
            "ytick.labelsize": SMALL,
            "legend.fontsize": SMALL,
            "figure.titlesize": 11.5,
            "figure.titleweight": "bold",
            "figure.dpi": 100,
            "savefig.dpi": 200,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "axes.edgecolor": GREY,
            "grid.color": LIGHT_GREY,
            "grid.linewidth": 0.6,
            "lines.linewidth": 1.4,
            "lines.markersize": 5.0,
            "errorbar.capsize": 2.0,
            "legend.frameon": False,
            "text.parse_math": False,
            # Hinted texts are wider or narrower with the resolution, and would leave the places
            # that the layout found for them.
            "text.hinting": "no_hinting",
        }
    )


def _tone(color: Color, amount: float) -> tuple[float, float, float]:
    goal = 1.0 if amount > 0 else 0.0
    red, green, blue = (part + (goal - part) * abs(amount) for part in to_rgb(color))
    return red, green, blue


def _luminance(color: Color) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def backend_color(family: str) -> str:
    """The colour of a family of variants (see Result.roster); one that this file does not know yet
    gets a grey."""
    return _BACKENDS.get(family, GREY)


def family_of(result: Result, backend: str, variant: str) -> str:
    """The variant's family (see Result.roster), that of the suite's own variants on every machine;
    of others where no cell has run them their backend."""
    known = next((family for family, names in _PLACES.items() if variant in names), None)
    return known or next((owner for owner, name in result.roster if name == variant), backend)


def _place(result: Result, family: str, variant: str) -> int:
    """The variant's place in its family. One that the table above does not have takes a place by
    its name, or the next whose marker no other variant of the results loaded together has."""
    own = _PLACES.get(family, [])
    if variant in own:
        return own.index(variant)
    names = {name for _, name in result.roster} | {variant}
    family_names = [n for n in sorted(names) if family_of(result, family, n) == family]
    taken = {own.index(name) for name in family_names if name in own}
    looks = math.lcm(len(_MARKERS), len(_TONES))  # pairs of the two that differ
    for name in (n for n in family_names if n not in own):
        first = zlib.crc32(name.encode()) % looks
        order = [(first + step) % looks for step in range(looks)]
        used = {place % len(_MARKERS) for place in taken}
        free = [place for place in order if place not in taken] or order
        place = next((p for p in free if p % len(_MARKERS) not in used), free[0])
        if name == variant:
            return place
        taken.add(place)
    return 0


def limit(on_gpu: bool, kind: str) -> dict[str, Any]:
    """The look of a measured limit of the CPU or the GPU, as arguments of lines; the table above
    has the kinds."""
    known = _GPU_LIMITS if on_gpu else _CPU_LIMITS
    return {
        "color": CEILING,
        "linewidth": 1.4 if on_gpu else 1.0,  # dots look thinner than dashes
        "linestyle": known.get(kind, _OTHER_LIMIT),
    }


def ink(color: Color) -> str:
    """Black or white, whatever reads better on the colour."""
    return "black" if _luminance(color) > _MIDDLE else "white"


def warmth(ratio: float, largest: float) -> Color:
    """Of a speed-up: white at 1, darker towards both ends; orange is faster, blue is slower. From
    `largest` and its reciprocal on, the colour stays."""
    amount = math.log(ratio) / math.log(max(largest, 1.5))
    end = _FASTER if amount > 0 else _SLOWER
    return _tone(end, 1 - min(abs(amount), 1.0))


def look(result: Result, backend: str, variant: str, precision: str) -> Look:
    """The look of a series: the same in every figure, and of the suite's own variants on every
    machine."""
    family = family_of(result, backend, variant)
    order = _place(result, family, variant)
    first = list(_BACKENDS).index(family) if family in _BACKENDS else 0
    base = backend_color(family)
    tones = _TONES_OF_LIGHT if _luminance(base) > _LIGHT else _TONES
    line, fill, hatch = _PRECISIONS.get(precision, _OTHER_PRECISION)
    return Look(
        color=_tone(base, tones[order % len(tones)]),
        marker=_MARKERS[(order + 2 * first) % len(_MARKERS)],
        line=line,
        fill=fill,
        hatch=hatch,
    )


def look_of(result: Result, cell: Cell) -> Look:
    return look(result, cell.backend, cell.variant, cell.precision)


def category(index: int) -> str:
    return CATEGORIES[index % len(CATEGORIES)]


def category_marker(index: int) -> str:
    """Shifted in each round of the colours, so that colour and marker repeat together late."""
    return _CATEGORY_MARKERS[(index + index // len(CATEGORIES)) % len(_CATEGORY_MARKERS)]
