# SPDX-License-Identifier: Apache-2.0
"""What README.md and docs/ say of whole fits (docs/fits.md) and of seeds (docs/seeding.md), from
the rows of a result: tools/readme_numbers.py asks for it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from plots import captions
from plots.fits import FIT
from plots.load import Result
from plots.words import count, digits, listed, many, percent, seconds

Row = dict[str, Any]
_PLUS, _WARD, _GREEDY = "kmeans++", "ward", "scikit-learn-greedy"
_MANY = 256  # centroids, from which on seeding is compared with greedy k-means++
_GOAL = (3, 15)  # iterations, and reads of the points, that k-means++ is to take at most


def _between(values: Iterable[float], text: Any = digits) -> str:
    """'2 to 3', the unit once: '2.00 to 3.00 ms'."""
    found = [*values]
    low, high = text(min(found)), text(max(found))
    if low == high:
        return low
    number, _, unit = low.partition(" ")
    return f"{number if unit and high.endswith(f' {unit}') else low} to {high}"


# --- Whole fits ------------------------------------------------------------------------------


def whole_fits(result: Result, own: str, yardstick: str, title: str) -> str:
    """How soon `own` is within 1 % of the best, and what the others need for it."""
    fits = [study for study in result.studies if study["study"] == FIT]
    done = [rows for study in fits if own in (rows := _whole_rows(study))]
    mine = [rows[own] for rows in done]
    ahead = [row for row in mine if row["over_quickest"] == 1]
    tried, bases, near, shorter, slower = 0, 0, [], [], []
    for rows in done:
        if not rows[own]["seconds_to_near_best"]:
            continue  # nothing to compare with
        base = [row for name, row in rows.items() if name == yardstick]
        others = [row for name, row in rows.items() if name not in (own, yardstick)]
        slower += [*_times(base, rows[own])]
        near += sorted(_times(others, rows[own]))[:1]
        tried += bool(others)
        bases += len(base)
        shorter += [row for row in others if row["seconds"] < rows[own]["seconds"]]
    on_gpu = bool(captions.gpus_of(result))
    used = captions.gpus_used(result)
    with_what = f", {used} each" if used else ""
    if not on_gpu:
        with_what = f" with {many(result.context['threads'], 'thread')}"
    text = (
        f"**{title}** On {captions.machine_name(result)}{with_what}, `{own}` is first within 1 % "
        f"of the best inertia at {_share(ahead, done)} [fits](docs/fits.md) of "
        f"`{result.experiment}`"
        f"{' that it ran' if len(done) < len(fits) else ''}"
        f"{' at quick scale' if result.scale == 'quick' else ''}"
        f"{', from host memory to host memory' if on_gpu else ''}"
    )
    if ahead:
        text += f": in {_between((row['seconds_to_near_best'] for row in ahead), seconds)}"
    rest = []
    if slower:
        library = next(rows[yardstick]["library"] for rows in done if yardstick in rows)
        where = " on the CPU" if on_gpu else ""
        times = f"{_between(slower)} times as long{_of(slower, bases)}"
        rest.append(f"{library.partition(' ')[0]}{where} takes {times}")
    if near:
        who = "GPU" if on_gpu else "other" if rest else "Other"
        rest.append(f"{who} libraries {_between(near)} times{_of(near, tried)}")
    text += f". {', '.join(rest)}" if rest else ""
    if rest and (len(slower) < bases or len(near) < tried):
        text += "; elsewhere their defaults do not come that near"
    text += "."
    if shorter:
        above = _between((row["excess"] for row in shorter), percent)
        text += f" Their shorter calls end {above} above the best."
    if _side_by_side(result):
        text += " Fits ran side by side and shared the processors."
    return text


def _whole_rows(study: dict[str, Any]) -> dict[str, Row]:
    """Of those whose clock leaves nothing out."""
    return {
        row["estimator"]: row
        for row in study["rows"]
        if row["status"] == "ok" and row["outside"] is None
    }


def _times(rows: Iterable[Row], own: Row) -> Iterable[float]:
    """What those of them that come within 1 % need for it, over what `own` does."""
    needs = own["seconds_to_near_best"]
    taken = (row["seconds_to_near_best"] for row in rows)
    return (there / needs for there in taken if there is not None)


def _of(some: Sequence[Any], number: int) -> str:
    return f" at {len(some)} of {number}" if len(some) < number else ""


def _share(some: Sequence[Any], of: Sequence[Any]) -> str:
    return f"all {len(of)}" if len(some) == len(of) else f"{len(some)} of {len(of)}"


def _side_by_side(result: Result) -> bool:
    """Did parts of a joined result run at the same time?"""
    parts = result.context.get("parts") or []
    spans = sorted((part["started"], part["finished"]) for part in parts)
    return any(late[0] < early[1] for early, late in itertools.pairwise(spans))


# --- Seeds -----------------------------------------------------------------------------------


def seeds(result: Result) -> str:
    """What choosing first centroids takes on a GPU, and next to greedy k-means++."""
    chosen = {
        (study["name"], row["way"]): row
        for study in result.studies
        for row in study["rows"]
        if row["seconds"] is not None
    }
    large = [study for study in result.studies if (study["name"], _on_gpu(_PLUS)) in chosen]
    plus, ward = (
        [chosen[study["name"], _on_gpu(way)] for study in large] for way in (_PLUS, _WARD)
    )
    where = listed([_shape(study) for study in large])
    goals = [_goal(result, *pair) for pair in zip(large, plus, strict=True)]
    met = sum(row["gpu_seconds"] <= goal for row, goal in zip(plus, goals, strict=True))
    greedy = [study for study in result.studies if (study["name"], _GREEDY) in chosen]
    many_seeds = [study["name"] for study in greedy if study["k"] >= _MANY]
    faster = [
        _between(1 / chosen[name, way]["seconds_over_greedy"] for name in many_seeds)
        for way in (_PLUS, _WARD)
    ]
    ends = _between(chosen[study["name"], _WARD]["inertia_over_greedy"] for study in greedy)
    threads = many(result.context["threads"], "thread")
    if any(cell.data["noted"] for cell in result.cells):
        threads += ", shared with other work"
    some = f"met at {met} of {len(goals)}" if met else "missed"
    return (
        f"On {captions.machine_name(result)}, at (n, d, k) = {where}, k-means++ takes "
        f"{_each(row['gpu_seconds'] for row in plus)} on one GPU that has the points, "
        f"{_each(row['seconds'] for row in plus)} with their transfer. Three iterations and "
        f"fifteen reads of the points, our goal, take {_each(goals)}: it is "
        f"{'met' if met == len(goals) else some}. `ward` takes "
        f"{_each(row['gpu_seconds'] for row in ward)}. On {threads}, at k ≥ {_MANY}, k-means++ is "
        f"{faster[0]} times as fast as scikit-learn's, `ward` {faster[1]} times; `ward`'s inertia "
        f"is {ends} times that of scikit-learn's, the median at each of {len(greedy)} problems.\n"
    )


def _on_gpu(way: str) -> str:
    return f"{way}, GPU"


def _shape(study: dict[str, Any]) -> str:
    return f"({count(study['n'])}, {study['d']}, {count(study['k'])})"


def _each(values: Iterable[float]) -> str:
    return listed([seconds(value) for value in values])


def _goal(result: Result, study: dict[str, Any], row: Row) -> float:
    """Seconds of three iterations, and of fifteen reads of the float32 points."""
    iteration = row["gpu_seconds"] / row["seconds_over_iteration"]
    read = 4 * study["n"] * study["d"] / result.context["ceilings"]["gpu"]["read_gbytes_per_second"]
    return _GOAL[0] * iteration + _GOAL[1] * read / 1e9
