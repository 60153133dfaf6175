# SPDX-License-Identifier: Apache-2.0
"""What the first screen of index and report answers from: every problem on file with who was
measured on it, and the fitted models of what each variant would take elsewhere. The page chooses
and shows (plots/templates/leaderboard.js)."""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.parse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from markupsafe import Markup

try:
    import itables
    import vl_convert
except ImportError:  # on a machine without network; all but the first screen is still drawn
    itables = vl_convert = None  # type: ignore[assignment]

from plots import derived, words, work
from plots.load import ROOT, Cell, Result
from plots.metrics import (
    call_setup_seconds,
    scalar_bytes,
)
from plots.parts import PLAIN, Extras, alone, template
from plots.select import UNSTEADY

EXACT, CERTIFIED, APPROXIMATE = KINDS = ("exact", "certified", "approximate")
LIBRARY = "certified, Python library"  # of the chart alone
SIZES = (4, 8)  # bytes of a coordinate
_BACKEND_NEEDS = {"blas": "OpenBLAS", "eigen": "Eigen", "mpi": "MPI", "cuda": "NVIDIA GPU"}


@dataclass
class _Names:
    """Variants, each once: name, what it needs, where its source lies."""

    root: Path
    rows: list[list[Any]] = field(default_factory=list)
    libraries: set[int] = field(default_factory=set)
    places: dict[str, int] = field(default_factory=dict)

    def place(self, cell: Cell) -> int:
        key = f"{cell.variant} {cell.on_gpu}"
        if key not in self.places:
            self.places[key] = len(self.rows)
            if cell.backend == "python":
                self.libraries.add(len(self.rows))
            self.rows.append([cell.variant, _needs(cell), source_of(cell.variant, self.root)])
        return self.places[key]


def _needs(cell: Cell) -> str:
    parts = ["NVIDIA GPU"] if cell.on_gpu else []
    if cell.backend == "python":
        # What packages bring, such as "openmp (lib)", has blanks in its name.
        library = [str(name) for name in cell.data.get("library") or {}]
        packages = [name for name in library if " " not in name and name != "python"]
        parts.append(f"Python: {words.listed(packages, 4)}" if packages else "Python")
    elif cell.backend != "cuda":
        parts.append(_BACKEND_NEEDS.get(cell.backend, "a C++ compiler"))
    return ", ".join(parts)


@cache
def _sources() -> dict[str, Path]:
    return {path.stem: path for path in sorted((ROOT / "implementations").glob("*/*.*"))}


def source_of(variant: str, root: Path) -> str | None:
    """A link from a page in `root` to the variant's file; None where the page lies elsewhere."""
    path = _sources().get(variant)
    if path is None or not root.is_relative_to(ROOT):
        return None
    return urllib.parse.quote(os.path.relpath(path, root))


def _labels(cell: Cell) -> tuple[str, float | None]:
    """The share of labels that are not the exact ones, and of how many points."""
    found = cell.data.get("verification") or {}
    differing = found.get("labels_differing")
    if differing is None:
        return words.NONE, None
    text = "none" if differing == 0 else words.percent(differing)
    if found.get("points_checked", 0) < found.get("points_total", 0):
        text += f" of {words.count(found['points_checked'])}"
    return text, differing


def _runs_on(cell: Cell) -> str:
    if cell.on_gpu:
        return "GPU" if cell.gpus == 1 else f"{cell.gpus} GPUs"
    text = words.many(cell.threads, "thread")
    return f"{text}, {cell.ranks} ranks" if cell.ranks > 1 else text


def _short(value: float | None, digits: int = 4) -> float | None:
    return None if value is None else float(f"{value:.{digits}g}")


def _row(cell: Cell, names: _Names, model: int | None) -> list[Any]:
    times, limit = cell.measured, cell.limit
    # Of processes that disagree the slowest speaks: whoever is behind it is behind all of them.
    seconds = cell.seconds.mid if cell.seconds else cell.slowest
    interval = words.NONE
    if times is not None:
        interval = f"{words.seconds(times.low)} {words.TO} {words.seconds(times.high)}"
        interval += "" if times.confident else f" (min{words.TO}max)"
    tag = UNSTEADY if cell.unsteady else "noted" if cell.noted else ""
    return [
        names.place(cell),
        cell.precision,
        KINDS.index(cell.answer),
        _runs_on(cell),
        _short(seconds),
        interval,
        _short(call_setup_seconds(cell)),
        *_labels(cell),
        _short(cell.share_of_limit, 3),
        limit[1] if limit else "",
        tag,
        model,
        cell.ranks > 1 or _shares_nothing(cell),
    ]


# --- Predictions -----------------------------------------------------------------------------


@dataclass
class _Places:
    """Shapes, and kinds of data, each once; the kind at 0 is any."""

    shapes: dict[tuple[int, int, int], int] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=lambda: {"": 0})

    def fitted(self, numbers: Mapping[str, Any]) -> dict[str, Any]:
        """A model: factors of the terms, a shift, and of each observation its shape, its kind and
        whether its run was long, and its weight."""
        flat: list[float] = []
        for n, d, k, kind, is_long, weight in numbers["on"]:
            shape = self.shapes.setdefault((n, d, k), len(self.shapes))
            flat += [shape, 2 * self.kinds.setdefault(kind, len(self.kinds)) + is_long, weight]
        return {"factors": numbers["factors"], "shift": numbers["shift"], "on": flat}


def _by_name(results: Sequence[Result]) -> list[Result]:
    """In an order that does not depend on the page, and is that of `kmeans-bench advise`."""
    return sorted(results, key=lambda result: result.path.name)


def _model(
    machine: int, fitted: Mapping[str, Any], first: Cell, names: _Names, places: _Places
) -> dict[str, Any]:
    """What the variant, precision and number of threads or GPUs of a cell would take on a machine,
    as the program has fitted it. A Python library's setup is no part of a call."""
    setup = None if first.backend == "python" else fitted["setup"]
    return {
        "m": machine,
        "row": [
            names.place(first),
            first.precision,
            KINDS.index(first.answer),
            _runs_on(first),
        ],
        "bytes": scalar_bytes(first.precision),
        "limits": fitted["limits"],
        "beats": fitted["beats"],
        "refused": fitted["refused"],
        "iteration": places.fitted(fitted["iteration"]),
        "setup": places.fitted(setup) if setup else None,
    }


def _shares_nothing(cell: Cell) -> bool:
    """Of one rank, or one GPU, what is written for several: others do the same without it."""
    return cell.backend == "mpi" or (cell.backend == "nccl" and cell.gpus == 1)


_Series = tuple[str, str, int, int, int, bool]
_SERIES = ("variant", "precision", "threads", "gpus")  # of a fitted model


def _series_of(cell: Cell) -> _Series:
    return (cell.variant, cell.precision, cell.threads, cell.ranks, cell.gpus, cell.on_gpu)


# --- All of it -------------------------------------------------------------------------------


def _problems(
    machine: int, folder: str, result: Result, names: _Names, models: Mapping[_Series, int]
) -> list[dict[str, Any]]:
    """Each problem of a run: its cells are comparable, those of another run are next to it."""
    groups: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in result.cells:
        if cell.status == "ok":
            key = (*cell.shape, cell.data.get("dataset"), cell.iterations)
            groups.setdefault(key, []).append(cell)
    file = urllib.parse.quote(f"{folder}{result.path.name}")
    return [
        {
            "m": machine,
            "id": f"{result.experiment}/{key[3]}/k{key[2]}/T{key[4]}",
            "experiment": result.experiment,
            "file": file,
            "n": key[0],
            "d": key[1],
            "k": key[2],
            "t": key[4],
            "kind": cells[0].data_kind,
            "rows": [_row(c, names, models.get(_series_of(c))) for c in cells],
        }
        for key, cells in groups.items()
    ]


def _points(problems: Sequence[dict[str, Any]], names: _Names) -> list[dict[str, Any]]:
    """The best of each kind at each problem, for the chart: how far from the limit it is."""
    found = []
    for place, problem in enumerate(problems):
        best: dict[str, list[Any]] = {}
        for row in problem["rows"]:
            seconds, share = row[4], row[9]
            if seconds is None or not share or row[11] == UNSTEADY:
                continue
            kind = KINDS[row[2]]
            if row[0] in names.libraries and kind == CERTIFIED:
                kind = LIBRARY
            if kind not in best or seconds < best[kind][4]:
                best[kind] = row
        shape = f"{words.count(problem['n'])} {words.TIMES} {problem['d']}, k = {problem['k']}"
        found += [
            {
                "p": place,
                "m": problem["m"],
                "work": float(problem["n"]) * problem["d"] * problem["k"],
                "over": _short(1 / row[9], 3),
                "kind": kind,
                "variant": f"{names.rows[row[0]][0]} {row[1]}",
                "problem": shape,
                "time": words.seconds(row[4]),
                "limit": f"{words.percent(row[9])}, {row[10]}",
            }
            for kind, row in best.items()
        ]
    return found


def assemble(folders: Mapping[Path, Sequence[Result]], root: Path) -> dict[str, Any]:
    """All that the first screen of a page in `root` needs, as it is embedded there."""
    names, places = _Names(root), _Places()
    machines, problems, models = [], [], []
    constants: dict[str, Any] = {}
    for place, (folder, results) in enumerate(folders.items()):
        there = "" if folder == root else f"{folder.name}/"
        series: dict[_Series, list[Cell]] = {}
        for result in _by_name(results):
            for cell in result.cells:
                if cell.ok and cell.ranks == 1 and not _shares_nothing(cell):
                    series.setdefault(_series_of(cell), []).append(cell)
        fitted, constants = derived.models_of({r.path: r.sha256 for r in results})
        by_series = {tuple(m[key] for key in _SERIES): m for m in fitted}
        known: dict[_Series, int] = {}
        for key, (first, *_) in series.items():
            model = by_series.get((first.variant, first.precision, first.threads, first.gpus))
            if model is not None:
                known[key] = len(models)
                models.append(_model(place, model, first, names, places))
        problems += [p for r in results for p in _problems(place, there, r, names, known)]
        machines.append({"id": folder.name, "name": _machine(results[0])})
    _tell_apart(machines)
    last = last_measured()
    start = next((p for p, folder in enumerate(folders) if folder.resolve() == last), None)
    return {
        "machines": machines,
        "start": start,
        "names": names.rows,
        "problems": problems,
        "models": models,
        "shapes": [list(shape) for shape in places.shapes],
        "kinds": list(places.kinds),
        "model": {
            **constants,
            "points": {size: work.points(size) for size in SIZES},
            "terms": {size: work.terms(size) for size in SIZES},
        },
        "points": _points(problems, names),
    }


def last_measured() -> Path | None:
    """The folder that `kmeans-bench run` last wrote results to on this machine."""
    cache = Path(os.environ.get("KMEANS_BENCH_CACHE") or ROOT / ".cache")
    try:
        return Path((cache / "last-measured").read_text(encoding="utf-8").strip()).resolve()
    except (OSError, ValueError):
        return None


def _tell_apart(machines: list[dict[str, Any]]) -> None:
    """Machines of one name, as of one GPU and of four of its kind, get that of their folder."""
    names = Counter(machine["name"] for machine in machines)
    for machine in machines:
        if names[machine["name"]] > 1:
            machine["name"] = f"{machine['id']} ({machine['name']})"


def _machine(result: Result) -> str:
    about = result.context.get("machine") or {}
    gpus = [str(gpu["name"]) for gpu in about.get("gpus") or [] if gpu.get("name")]
    cpu = about.get("cpu") or {}
    model = next((str(cpu[key]) for key in ("model", "model_name", "name") if cpu.get(key)), "")
    # Of several alike a variant uses one.
    return " + ".join([*dict.fromkeys(gpus), *([model] if model else [])]) or "unknown machine"


def embedded(data: Mapping[str, Any]) -> Markup:
    """JSON that cannot end its element."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


# --- Libraries -------------------------------------------------------------------------------


@cache
def datatables() -> tuple[str, str]:
    """DataTables as itables brings it: a style sheet and a module, which exports jQuery to
    the page instead, since nothing imports from an inline module."""
    folder = resources.files(itables) / "html"
    style = (folder / "dt_bundle.css").read_text(encoding="utf-8")
    module = (folder / "dt_bundle.js").read_text(encoding="utf-8")
    found = list(re.finditer(r"export\s*\{([^}]*)\};?", module))
    if not found:
        raise ImportError(
            "the bundle of itables exports nothing; requirements.txt pins one that does"
        )
    exports = dict(part.split(" as ")[::-1] for part in found[-1][1].split(","))
    begin, end = found[-1].span()
    module = f"{module[:begin]}globalThis.jQuery = {exports['jQuery']};{module[end:]}"
    return style, module


@cache
def vega() -> str:
    """Vega, Vega-Lite and vegaEmbed as vl-convert brings them."""
    return str(vl_convert.javascript_bundle())  # type: ignore[call-arg]


_TITLES = {
    EXACT: "Exact: the same labels and centroids, bit for bit, on every machine",
    CERTIFIED: "Certified: differ from exact by no more than rounding explains",
    APPROXIMATE: "Approximate: a shorter precision decides labels; certified for that precision",
}


def there() -> bool:
    """Are the libraries?"""
    return itables is not None


def extras(with_chart: bool) -> Extras:
    """Libraries and what hands them the data; nothing where they are missing, which is said."""
    if not there():
        print(
            "plots: without itables and vl-convert-python, pages have no rankings", file=sys.stderr
        )
        return PLAIN
    style, script = datatables()
    late = (vega(), alone(template("chart.js"))) if with_chart else ()
    early = (alone(script), alone(template("leaderboard.js")))
    return Extras((style, template("leaderboard.css")), early, late)


def values(board: Mapping[str, Any]) -> dict[str, Any]:
    """What leaderboard.html.j2 takes."""
    return {
        "board": embedded(board) if there() else None,
        "kinds": list(_TITLES.items()),
        "far": board["model"]["far"],
        "iterations": board["model"]["iterations"],
        "one_machine": len(board["machines"]) == 1,
    }


def chart() -> dict[str, Any]:
    """Time over limit at every problem of the chosen machine."""
    colors = {EXACT: "#0072B2", CERTIFIED: "#D55E00", APPROXIMATE: "#009E73", LIBRARY: "#CC79A7"}
    shapes = ["circle", "square", "triangle-up", "diamond"]
    legend = {"orient": "top", "title": None, "columns": 2, "labelLimit": 220}
    ticks = {"labelExpr": "format(datum.value, '~s')", "tickCount": 6, "grid": False}
    point = {
        "mark": {"type": "point", "filled": True, "opacity": 0.75},
        "transform": [{"filter": "machine < 0 || datum.m == machine"}],
        "encoding": {
            "x": {
                "field": "work",
                "type": "quantitative",
                "scale": {"type": "log", "nice": False},
                "axis": ticks | {"title": "n · d · k"},
            },
            "y": {
                "field": "over",
                "type": "quantitative",
                "scale": {"type": "log"},
                "axis": {"title": "time over the limit", "tickCount": 5, "format": "~g"},
            },
            "color": {
                "field": "kind",
                "type": "nominal",
                "scale": {"domain": list(colors), "range": list(colors.values())},
                "legend": legend,
            },
            "shape": {
                "field": "kind",
                "type": "nominal",
                "scale": {"domain": list(colors), "range": shapes},
                "legend": legend,
            },
            "size": {
                "condition": {"test": "indexof(shown, datum.p) >= 0", "value": 220},
                "value": 45,
            },
            "stroke": {
                "condition": {"test": "indexof(shown, datum.p) >= 0", "value": "#1a1a1a"},
                "value": None,
            },
            "tooltip": [
                {"field": name, "type": "nominal"}
                for name in ("variant", "problem", "time", "limit", "kind")
            ],
        },
    }
    line = {
        "mark": {"type": "rule", "strokeDash": [4, 3], "color": "#1a1a1a"},
        "encoding": {"y": {"datum": 1}},
    }
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": "container",
        "height": 260,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "params": [{"name": "machine", "value": -1}, {"name": "shown", "value": []}],
        "data": {"name": "points", "values": []},
        "layer": [line, point],
        "config": {"font": "system-ui, sans-serif", "view": {"stroke": None}},
    }
