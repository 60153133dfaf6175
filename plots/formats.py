# SPDX-License-Identifier: Apache-2.0
"""Result files of earlier versions in today's form, so that all else knows one form alone."""

from __future__ import annotations

import math
from typing import Any

from plots.steady import disagreement

VERSIONS = (1, 2)  # of schema_version; the last one is written today
WHOLE_CALLS = (1, 20, 300)  # iterations of the calls that files hold
_SPREAD = "samples spread widely"  # how version 1 began its sentence on samples


def today(data: dict[str, Any]) -> dict[str, Any]:
    """The file as version 2 would hold it; what is damaged stays, for the schema to find."""
    upgrades = {"traces": _trace} | ({"cells": _cell} if data["schema_version"] == 1 else {})
    changed = data | {"schema_version": VERSIONS[-1]}
    for key, upgrade in upgrades.items():
        if isinstance(data.get(key), list):
            changed[key] = [upgrade(r) if isinstance(r, dict) else r for r in data[key]]
    return changed


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _are_samples(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(process, list) and all(_is_number(x) and x > 0 for x in process)
        for process in value
    )


def _cell(cell: dict[str, Any]) -> dict[str, Any]:
    doubts, samples = cell.get("suspect"), cell.get("samples_seconds_per_iteration")
    if not isinstance(doubts, list) or not _are_samples(samples):
        return cell
    # As harness/record/result_file.cpp reads version 1: what it says of a wide spread counts as
    # unsteady where today's rule does, and all else is a note.
    spread = [d for d in doubts if isinstance(d, str) and d.startswith(_SPREAD)]
    apart = disagreement(samples) if spread else None
    noted = [d for d in doubts if not (apart and d in spread)]
    rest = {key: value for key, value in cell.items() if key != "suspect"}
    return rest | {
        "unsteady": [apart] if apart else [],
        "noted": noted,
        "whole_call_seconds": whole_calls({} if apart else cell),
        "setup_includes": None,
    }


def whole_calls(cell: dict[str, Any]) -> dict[str, float | None]:
    """Setup and T iterations at the median; null where one of them is not known."""
    setup, times = cell.get("setup_seconds"), cell.get("seconds_per_iteration")
    median = times.get("median") if isinstance(times, dict) else None
    known = _is_number(setup) and _is_number(median)
    return {str(steps): setup + steps * median if known else None for steps in WHOLE_CALLS}


def _trace(trace: dict[str, Any]) -> dict[str, Any]:
    """A trace without a right answer has no time, whatever its file kept of it."""
    if trace.get("status") == "ok":
        return trace
    return trace | {"seconds_per_iteration": None, "runs_seconds": None}
