# SPDX-License-Identifier: Apache-2.0
"""machines.html: which machine is faster, by how much, at which shape, and what every claim of a
source says on either."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plots import claims, words
from plots.claims import Verdict
from plots.compare_page import Picture, write_picture
from plots.load import Result, ResultError, load_folder, load_result
from plots.machines import KINDS, PAGE, SIGNS, Machines, Pair, Shared
from plots.machines_figure import draw_shapes
from plots.report import page, write_page

_OPEN = (claims.UNDECIDED, claims.TOO_FEW, claims.UNTESTED)


@dataclass(frozen=True)
class Line:
    """A claim and its verdict on both machines; None where its experiment did not run."""

    experiment: str
    verdicts: tuple[Verdict | None, Verdict | None]

    @property
    def claim(self) -> dict[str, Any]:
        return next(verdict.claim for verdict in self.verdicts if verdict)

    @property
    def kinds(self) -> tuple[str | None, str | None]:
        first, second = self.verdicts
        return first.kind if first else None, second.kind if second else None

    @property
    def moves(self) -> bool:
        """Is it decided on both machines, and differently?"""
        first, second = self.kinds
        return self.decided and first != second

    @property
    def decided(self) -> bool:
        """On both machines?"""
        return all(kind not in (None, *_OPEN) for kind in self.kinds)

    @property
    def tested(self) -> bool:
        """Was it tested on one machine at least?"""
        return any(kind not in (None, claims.UNTESTED) for kind in self.kinds)


@dataclass(frozen=True)
class Source:
    """The claims of one experiment."""

    experiment: str
    title: str
    lines: list[Line]

    @property
    def tested(self) -> list[Line]:
        """What moves comes first."""
        return sorted((line for line in self.lines if line.tested), key=lambda line: not line.moves)

    @property
    def untested(self) -> int:
        return sum(not line.tested for line in self.lines)


def _verdicts(results: Sequence[Result]) -> dict[str, dict[str, Verdict]]:
    """By experiment and claim, of experiments that follow a source: its statements, not ours."""
    return {
        result.experiment: {v.claim["id"]: v for v in claims.verdicts(result) if not v.ours}
        for result in results
        if result.spec.get("source")
    }


def sources_of(first: Sequence[Result], second: Sequence[Result]) -> list[Source]:
    """Every claim of a source that one of the two machines has results for."""
    sides = (_verdicts(first), _verdicts(second))
    titles = {r.experiment: r.spec.get("title") or r.experiment for r in [*first, *second]}
    sources = []
    for name in sorted(set(sides[0]) | set(sides[1])):
        found = [side.get(name, {}) for side in sides]
        identities = dict.fromkeys([*found[0], *found[1]])
        lines = [
            Line(name, (found[0].get(identity), found[1].get(identity))) for identity in identities
        ]
        if lines:
            sources.append(Source(name, titles[name], lines))
    return sources


def _results(side: dict[str, Any], place: Path | None) -> tuple[list[Result], str | None]:
    """Those of a folder or a file, or why there are none."""
    if place is None or not place.exists():
        return [], f"The files of {side['label']} are not at hand, so its verdicts are missing."
    try:
        return load_folder(place) if place.is_dir() else [load_result(place)], None
    except ResultError as error:
        reason = str(error).replace(str(place), side["label"])
        return [], f"The verdicts on {side['name']} are missing: {reason}."


_RATES = (
    ("read_gbytes_per_second", None, "read from memory", "GB/s", 1.0),
    ("read_gbytes_per_second_l2", None, "read from L2", "GB/s", 1.0),
    ("read_gbytes_per_second_cache", None, "read from cache", "GB/s", 1.0),
    ("fma_gflops", "f32", "multiply-add, float32", "TFLOP/s", 1e3),
    ("fma_gflops", "f64", "multiply-add, float64", "TFLOP/s", 1e3),
    ("fma_gflops", "f32_all_threads", "multiply-add, float32", "TFLOP/s", 1e3),
    ("fma_gflops", "f64_all_threads", "multiply-add, float64", "TFLOP/s", 1e3),
    ("gemm_gflops", "tf32", "products, tf32", "TFLOP/s", 1e3),
    ("gemm_gflops", "f16", "products, float16", "TFLOP/s", 1e3),
    ("gemm_gflops", "int8", "products, bytes", "TOP/s", 1e3),
    ("host_to_device_gbytes_per_second", None, "link from the host", "GB/s", 1.0),
    ("launch_seconds", None, "launch of a kernel", "µs", 1e-6),
    ("grid_barrier_seconds", None, "barrier over the grid", "µs", 1e-6),
)


def limit_rows(pair: Pair, device: str) -> list[tuple[str, ...]]:
    """A limit on both machines, and how many times as fast the second is by it."""
    sides = [side["limits"][device] or {} for side in pair.sides]
    rows = []
    for group, kind, name, unit, size in _RATES:
        values: list[Any] = []
        for limits in sides:
            value = limits.get(group)
            values.append(value.get(kind) if kind and isinstance(value, dict) else value)
        if not any(isinstance(value, int | float) and value > 0 for value in values):
            continue
        texts = [f"{words.digits(v / size)} {unit}" if v else words.NONE for v in values]
        ratio = None
        if all(values):
            ratio = values[0] / values[1] if unit == "µs" else values[1] / values[0]
        rows.append((name, *texts, words.factor(ratio)))
    return rows


def _interval(entry: Any) -> str:
    ratio = entry.speedup
    if not ratio.confident:
        return words.NONE
    return f"{words.digits(ratio.low)} {words.TO} {words.digits(ratio.high)}"


def shape_of(cell: Shared) -> str:
    """With rounded counts: 500k by 3, k = 10."""
    n, d, k = (words.rounded_count(value) for value in (cell.n, cell.d, cell.k))
    return f"{n} {words.TIMES} {d}, k = {k}"


def variant_of(cell: Shared) -> str:
    """With its precision, and GPUs or threads where there are several."""
    text = f"{cell.variant} {cell.precision}"
    if cell.gpus > 1:
        text += f", {cell.gpus} GPUs"
    if cell.threads != (1, 1):
        text += f", {words.span(list(cell.threads))} threads"
    return text


def _link(place: Path | None, folder: Path) -> str | None:
    if place is None:
        return None
    report = (place if place.is_dir() else place.parent) / "report.html"
    if not report.is_file():
        return None
    return urllib.parse.quote(os.path.relpath(report.resolve(), folder))


def _side(side: dict[str, Any], place: Path | None, folder: Path) -> dict[str, Any]:
    commits = list(dict.fromkeys(f["git_commit"][:12] for f in side["files"] if f["git_commit"]))
    return side | {
        "report": _link(place, folder),
        "commits": commits,
        "dirty": sorted({f["experiment"] for f in side["files"] if f["git_dirty"]}),
        "partial": sorted({f["experiment"] for f in side["files"] if not f["complete"]}),
    }


def _view(
    number: int, pair: Pair, effect: float, places: Mapping[str, Path | None], folder: Path
) -> dict[str, Any]:
    """What the template shows of a pair; its pictures are written next to the page."""
    found = [places.get(side["label"]) for side in pair.sides]
    read = [_results(side, place) for side, place in zip(pair.sides, found, strict=True)]
    sources = sources_of(*(results for results, _ in read))
    pictures: list[Picture] = []
    for on_gpu in (True, False):
        if not any(cell.fastest and cell.on_gpu == on_gpu for cell in pair.cells):
            continue
        drawing = draw_shapes(pair, effect, on_gpu)
        name = f"{drawing.figure['id']}-{number}"
        pictures.append(write_picture(2 * number + (not on_gpu), name, drawing, folder / "figures"))
    kinds = list(KINDS)
    return {
        "pair": pair,
        "sides": [
            _side(side, place, folder) for side, place in zip(pair.sides, found, strict=True)
        ],
        "groups": sorted(pair.groups, key=lambda g: (not g.on_gpu, kinds.index(g.kind))),
        "pictures": pictures,
        "limits": [
            (title, rows)
            for title, device in (("GPU", "gpu"), ("processor", "cpu"))
            if (rows := limit_rows(pair, device))
        ],
        "sources": sources,
        "moving": [line for source in sources for line in source.lines if line.moves],
        "decided": sum(line.decided for source in sources for line in source.lines),
        "lacking": [why for _, why in read if why],
    }


def write(machines: Machines, places: Mapping[str, Path | None]) -> tuple[Path, list[Picture]]:
    """Figures and page next to the comparison. `places` are the folders or files that were
    compared, by their labels, as far as they are at hand."""
    folder = machines.path.parent.resolve()
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    views = [
        _view(number, pair, machines.effect, places, folder)
        for number, pair in enumerate(machines.pairs)
    ]
    text = page(
        "machines.html.j2",
        machines=machines,
        views=views,
        file=urllib.parse.quote(machines.path.name),
        SIGNS=SIGNS,
        KINDS=KINDS,
        interval=_interval,
        shape_of=shape_of,
        variant_of=variant_of,
    )
    pictures = [picture for view in views for picture in view["pictures"]]
    return write_page(machines.path.parent / PAGE, text), pictures
