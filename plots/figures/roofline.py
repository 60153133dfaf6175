# SPDX-License-Identifier: Apache-2.0
"""GFLOP/s over operational intensity under the measured roofs: a panel per processor used, a point
per variant and shape."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from plots import captions, panels, style
from plots.load import Cell, Result
from plots.metrics import ceilings, compulsory_bytes, gpu_ceilings, operations, scaled_rate
from plots.select import NothingToDraw, cells_of, drawn_of, series_of, short_shape
from plots.words import compact, digits, many

_PANEL = (6.6, 3.7)  # inches
_BESIDE = 2.6  # for the names of the roofs
_NAMED_SHAPES = 26  # more get no letters
_STEP = 0.05  # of the height, between names of roofs
_HEIGHT_POINTS = 215.0  # of a panel, roughly
_DASHES = {"multiply-add": "-", "matrix product": (0, (5, 2))}


@dataclass(frozen=True)
class Roof:
    """An arithmetic roof in GFLOP/s, or a bandwidth in GB/s."""

    name: str
    rate: float
    kind: str  # multiply-add, matrix product or bandwidth


def intensity(cell: Cell) -> float:
    """Operations of the model per byte of compulsory traffic."""
    return operations(cell) / compulsory_bytes(cell)


def _cpu_roofs(result: Result, cells: Sequence[Cell]) -> list[Roof]:
    limits = ceilings(result)
    fma, gemm = limits.get("fma_gflops") or {}, limits.get("gemm_gflops") or {}
    found = [
        ("read from memory", limits.get("read_gbytes_per_second"), "bandwidth"),
        ("read from cache", limits.get("read_gbytes_per_second_cache"), "bandwidth"),
    ]
    for kind in sorted({"f64" if c.precision == "f64" else "f32" for c in cells}):
        found += [
            (f"multiply-add {kind}, all threads", fma.get(f"{kind}_all_threads"), "multiply-add"),
            (f"multiply-add {kind}, one thread", fma.get(f"{kind}_one_thread"), "multiply-add"),
            (f"matrix product {kind}", gemm.get(kind), "matrix product"),
        ]
    return [Roof(name, rate, kind) for name, rate, kind in found if rate]


def _gpu_roofs(result: Result, cells: Sequence[Cell]) -> list[Roof]:
    limits = gpu_ceilings(result)
    fma, gemm = limits.get("fma_gflops") or {}, limits.get("gemm_gflops") or {}
    found = [
        ("read from memory", limits.get("read_gbytes_per_second"), "bandwidth"),
        ("read from L2", limits.get("read_gbytes_per_second_l2"), "bandwidth"),
    ]
    precisions = sorted({c.precision for c in cells})
    for kind in sorted({"f64" if p == "f64" else "f32" for p in precisions}):
        found.append((f"multiply-add {kind}", fma.get(kind), "multiply-add"))
    found += [(f"matrix product {p}", gemm.get(p), "matrix product") for p in precisions]
    return [Roof(name, rate, kind) for name, rate, kind in found if rate]


def _parts(result: Result, cells: Sequence[Cell]) -> list[tuple[str, list[Cell], list[Roof]]]:
    """CPU and GPU, whichever measured something."""
    found = []
    for on_gpu, name, roofs in ((False, "CPU", _cpu_roofs), (True, "GPU", _gpu_roofs)):
        own = [c for c in cells if c.ok and c.on_gpu == on_gpu and c.data.get("gflops")]
        if own:
            found.append((name, own, roofs(result, own)))
    return found


def _letters(cells: Sequence[Cell]) -> dict[tuple[int, int, int], str]:
    """A letter per shape by rising intensity; none where they are too many."""
    shapes = {c.shape: intensity(c) for c in sorted(cells, key=lambda c: c.precision == "f64")}
    if len(shapes) > _NAMED_SHAPES:
        return {}
    ordered = sorted(shapes, key=lambda s: (shapes[s], s))
    return dict(zip(ordered, string.ascii_lowercase, strict=False))


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    cells = drawn_of(result, figure)
    parts = _parts(result, cells)
    if not parts:
        raise NothingToDraw("no cell of this figure has a rate")
    letters = _letters([c for _, own, _ in parts for c in own])
    series = [s for s in series_of(cells) if any(c.ok for c in s.cells)]
    columns = 4 if len(series) > 3 else max(len(series), 1)
    legend = 0.19 * -(-len(series) // columns) + 0.15
    fig = Figure(
        figsize=(_PANEL[0] + _BESIDE, _PANEL[1] * len(parts) + legend), layout="constrained"
    )
    axes = fig.subplots(len(parts), 1, squeeze=False).ravel()
    for ax, (name, own, roofs) in zip(axes, parts, strict=True):
        _draw_part(ax, result, own, roofs, letters)
        ax.set_title(name, loc="left", fontweight="bold", pad=16 if letters else 6)
        ax.set_ylabel("GFLOP/s of the operation model")
    axes[-1].set_xlabel("operations of the model per byte of compulsory traffic")
    handles = [
        style.handle(s.label, **style.look_of(result, s.first).marks | {"linestyle": ""})
        for s in series
    ]
    fig.legend(handles=handles, loc="outside lower left", ncols=columns, columnspacing=1.2)
    return fig


def _draw_part(
    ax: Axes,
    result: Result,
    cells: Sequence[Cell],
    roofs: Sequence[Roof],
    letters: dict[tuple[int, int, int], str],
) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    xs = [intensity(c) for c in cells]
    rates = [c.data["gflops"] for c in cells]
    tops = [r.rate for r in roofs if r.kind != "bandwidth"]
    left, right = min(xs) / 1.6, max(xs) * 1.6
    slopes = [r for r in roofs if r.kind == "bandwidth"]
    if slopes and tops:  # room for the slopes, and to show where the roofs meet
        meeting = max(tops) / max(s.rate for s in slopes)
        left, right = min(left, meeting / 12), max(right, 4 * meeting)
    low, high = min(rates) / 2, max([*rates, *tops]) * 1.8
    ax.set_xlim(left, right)
    ax.set_ylim(low, high)
    for series in series_of(cells):
        points = [
            (intensity(c), rate) for c in series.cells if (rate := scaled_rate(c, c.data["gflops"]))
        ]
        ax.errorbar(
            [x for x, _ in points],
            [rate.mid for _, rate in points],
            yerr=[
                [max(0.0, rate.mid - rate.low) for _, rate in points],
                [max(0.0, rate.high - rate.mid) for _, rate in points],
            ],
            elinewidth=0.8,
            capsize=1.5,
            zorder=3,
            **(style.look_of(result, series.first).marks | {"linestyle": "none", "alpha": 0.9}),
        )
    _draw_slopes(ax, slopes, max(tops, default=high), left, right)
    _draw_flats(ax, [r for r in roofs if r.kind != "bandwidth"], slopes, left, right)
    _name_shapes(ax, cells, letters)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(numticks=9))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda v, _: compact(v)))


def _draw_slopes(ax: Axes, slopes: Sequence[Roof], top: float, left: float, right: float) -> None:
    """GB/s times operations per byte, each named along its line."""
    low = ax.get_ylim()[0]
    for index, roof in enumerate(sorted(slopes, key=lambda r: r.rate)):
        end = min(right, top / roof.rate)
        if end <= left:
            continue
        ax.plot(
            [left, end],
            [left * roof.rate, end * roof.rate],
            color=style.CEILING,
            linewidth=1.1,
            linestyle=("-", "--")[index % 2],
            zorder=2,
        )
        start = max(left, low / roof.rate) * 1.12
        beside = roof.rate * (1.12 if index else 0.89)  # the fastest above its line
        ax.text(
            start,
            start * beside,
            f"{roof.name}: {digits(roof.rate)} GB/s",
            rotation=math.degrees(math.atan(beside)),  # along its line, whatever the scales
            rotation_mode="anchor",
            transform_rotates_text=True,
            ha="left",
            va="bottom" if index else "top",
            fontsize=style.TINY,
            zorder=2.5,
        )


def _draw_flats(
    ax: Axes, flats: Sequence[Roof], slopes: Sequence[Roof], left: float, right: float
) -> None:
    """From where the steepest bandwidth reaches them to the right edge, named next to the panel."""
    steepest = max((s.rate for s in slopes), default=None)
    flats = sorted(flats, key=lambda r: r.rate)
    to_axes = ax.transData + ax.transAxes.inverted()
    wanted = [float(to_axes.transform((right, r.rate))[1]) for r in flats]
    for roof, height, place in zip(flats, wanted, panels.spread(wanted, _STEP), strict=True):
        start = max(left, roof.rate / steepest) if steepest else left
        ax.plot(
            [min(start, right), right],
            [roof.rate, roof.rate],
            color=style.CEILING,
            linewidth=1.1,
            linestyle=_DASHES[roof.kind],
            zorder=2,
        )
        ax.annotate(
            f"{roof.name}: {digits(roof.rate)}",
            (1.0, height),
            xycoords="axes fraction",
            xytext=(16, (place - height) * _HEIGHT_POINTS),
            textcoords="offset points",
            va="center",
            fontsize=style.SMALL - 0.5,
            arrowprops={
                "arrowstyle": "-",
                "color": style.GREY,
                "linewidth": 0.7,
                "relpos": (0, 0.5),
            },
            annotation_clip=False,
        )


def _name_shapes(ax: Axes, cells: Sequence[Cell], letters: dict[tuple[int, int, int], str]) -> None:
    """Letters above the panel, led to the columns of points that they name."""
    if not letters:
        return
    places: dict[tuple[int, int, int], float] = {}
    for cell in sorted(cells, key=lambda c: c.precision == "f64"):
        places.setdefault(cell.shape, intensity(cell))
    to_axes = ax.transData + ax.transAxes.inverted()
    low = ax.get_ylim()[0]
    shapes = sorted(places, key=lambda s: (places[s], s))
    wanted = [float(to_axes.transform((places[s], low))[0]) for s in shapes]
    for shape, x, place in zip(shapes, wanted, panels.spread(wanted, 0.024), strict=True):
        ax.plot(
            [x, x, place],
            [0.985, 1.005, 1.025],
            transform=ax.transAxes,
            clip_on=False,
            color=style.GREY,
            linewidth=0.6,
        )
        ax.text(
            place,
            1.03,
            letters[shape],
            transform=ax.transAxes,
            ha="center",
            va="bottom",
            fontsize=style.SMALL,
        )


def _above_all_roofs(result: Result, cells: Sequence[Cell]) -> tuple[int, int]:
    """Points above every roof of their processor at their intensity, and all points."""
    above = total = 0
    for _, own, roofs in _parts(result, cells):
        tops = [r.rate for r in roofs if r.kind != "bandwidth"]
        slopes = [r.rate for r in roofs if r.kind == "bandwidth"]
        for cell in own:
            bounds = ([max(tops)] if tops else []) + (
                [max(slopes) * intensity(cell)] if slopes else []
            )
            total += 1
            above += bool(bounds) and cell.data["gflops"] > min(bounds)
    return above, total


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    cells = cells_of(result, figure)
    timed = [c for _, own, _ in _parts(result, cells) for c in own]
    notes = [
        "Both axes count the model's nk(3d+2) + d(n+k) operations; bytes are those of reading each "
        "point once, writing each label once, and reading and writing the centroids. Roofs are "
        "measured and bound 2nkd; the model counts about 1.5 + 1/d times as many."
    ]
    above, total = _above_all_roofs(result, cells)
    if above:
        notes.append(f"Above the highest roof at their place: {above} of {many(total, 'point')}.")
    if not any(roofs for _, _, roofs in _parts(result, cells)):
        notes.append("The machine's ceilings were not measured.")
    letters = _letters(timed)
    named = {c.shape: short_shape(c, " ") for c in timed}
    if letters:
        found = [f"{letter}: {named[shape]}" for shape, letter in letters.items()]
        notes.append(f"Shapes by rising intensity: {'; '.join(found)}.")
    elif timed:
        notes.append(
            f"Points of one shape and precision stand above one another; {len(named)} shapes."
        )
    return captions.caption(result, figure, cells, notes)
