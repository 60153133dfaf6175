# SPDX-License-Identifier: Apache-2.0
"""Whole fits of a result file (docs/fits.md), as figures, claims and the report read studies: a
table of rows by a name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from plots import words

FIT = "fit"  # in the place of a study's program
#: Keys of rows that the report shows, in this order.
SHOWN = (
    *("estimator", "status", "version", "seeds", "seconds", "seconds_low", "seconds_high"),
    *("first_call_seconds", "seeding_seconds", "iterating_seconds", "inertia", "excess"),
    *("excess_low", "excess_high", "near_best"),
    *("seconds_to_near_best", "seconds_to_near_best_low", "seconds_to_near_best_high"),
    *("over_quickest", "front", "iterations", "left"),
    *("reported_over_inertia", "labels_of", "peak_bytes", "device_peak_bytes"),
    *("defaults", "outside", "reason"),
)


def names(spec: dict[str, Any]) -> Iterator[str]:
    """Of an experiment's fits: an entry has one for each k."""
    for entry in spec.get("fits") or []:
        sizes = entry["k"] if isinstance(entry["k"], list) else [entry["k"]]
        yield from (f"{entry['name']}-k{k}" for k in sizes)


def _over(inertia: float, best: float) -> float | None:
    return 1.0 if inertia <= best else inertia / best if best > 0 else None


_FEWEST = 6  # calls that an interval needs
_DRAWS = 10_000


def near_interval(seconds: Sequence[float], near: int) -> list[float | None]:
    """Bounds with 95 % of the expected seconds to an answer near the best, which `near` calls gave:
    of the mean by drawing them again (bootstrap), of the share by Jeffreys' prior. Always alike."""
    calls = len(seconds)
    if calls < _FEWEST:
        return [None, None]
    random = np.random.default_rng(1)
    means = np.asarray(seconds)[random.integers(calls, size=(_DRAWS, calls))].mean(axis=1)
    shares = random.beta(near + 0.5, calls - near + 0.5, size=_DRAWS)
    return [float(bound) for bound in np.quantile(means / shares, [0.025, 0.975])]


def _row(row: dict[str, Any], fit: dict[str, Any]) -> dict[str, Any]:
    """With the least and the largest of its calls, and the inertia over the best."""
    own = [call for call in fit["calls"] if call["estimator"] == row["estimator"]]
    shown = {key: value for key, value in row.items() if key not in ("library", "exact")}
    shown["version"] = row["library"]
    # Those of the suite itself are drawn full.
    shown["library"] = None if row["exact"] else row["library"]
    best = fit["best"]["inertia"] if fit["best"] else 0.0
    for key, of in (("seconds", "seconds"), ("inertia_over_best", "inertia")):
        values = [call[of] for call in own if call[of] is not None]
        if of == "inertia":
            values = [value for value in (_over(v, best) for v in values) if value is not None]
            excess = row["excess"]
            shown[key] = None if excess is None else 1 + excess
        shown[f"{key}_min"] = min(values, default=None)
        shown[f"{key}_max"] = max(values, default=None)
    low = high = None
    if row["seconds_to_near_best"] is not None:
        near = round(row["near_best"] * len(own))
        low, high = near_interval([call["seconds"] for call in own], near)
    shown |= {"seconds_to_near_best_low": low, "seconds_to_near_best_high": high}
    return shown


def standing(rows: list[dict[str, Any]]) -> list[str]:
    """Who is within 1 % of the best first, and how many times that the others need."""
    whole = [row for row in rows if row["status"] == "ok" and row["outside"] is None]
    there = [row for row in whole if row["seconds_to_near_best"] is not None]
    if not there:
        return []
    first, *others = sorted(there, key=lambda row: row["seconds_to_near_best"])
    text = f"{first['estimator']} is within 1 % of the best in "
    text += words.seconds(first["seconds_to_near_best"])
    low, high = first["seconds_to_near_best_low"], first["seconds_to_near_best_high"]
    if low is not None:
        text += f" ({words.seconds(low)} to {words.seconds(high)})"
    for row in others:
        text += f", {row['estimator']} in {words.digits(row['over_quickest'], 2)} times that"
    never = [row["estimator"] for row in whole if row["seconds_to_near_best"] is None]
    return [text + (f"; never: {', '.join(never)}." if never else ".")]


def failed(fit: dict[str, Any]) -> list[str]:
    """Whose answers were wrong, or who broke: the first line of the reason."""
    rows = [row for row in fit["rows"] if row["status"] in ("wrong", "error")]
    return [
        f"{row['estimator']} is {row['status']}: {row['reason'].splitlines()[0].rstrip('.')}."
        for row in rows
    ]


def as_study(fit: dict[str, Any]) -> dict[str, Any]:
    """A wrong or broken library costs its row alone, so a fit with any row that is ok is ok."""
    some = any(row["status"] == "ok" for row in fit["rows"])
    rows = [_row(row, fit) for row in fit["rows"]]
    asked = {
        key: fit[key]
        for key in ("from", "iterations", "starts", "problems")
        if fit.get(key) is not None
    }
    return {
        "name": fit["name"],
        "study": FIT,
        "summary": "Whole fits: points in an array, k and a seed; labels and centroids back",
        "status": "ok" if some else fit["status"],
        "reason": None if some else fit["reason"],
        "dataset": fit["dataset"],
        "n": fit["n"],
        "d": fit["d"],
        "k": fit["k"],
        "init": None,
        "parameters": asked,
        "rows": rows,
        "findings": {},
        "notes": [*standing(rows), *failed(fit), *fit["notes"]],
        "seconds": fit["seconds"],
    }
