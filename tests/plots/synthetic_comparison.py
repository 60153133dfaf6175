# SPDX-License-Identifier: Apache-2.0
"""A comparison made up from two synthetic results: what `kmeans-bench compare --json` would write,
with verdicts that follow from the made-up ratios alone."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import synthetic
from synthetic import Json

EFFECT = 0.05
OUTCOMES = {
    "slower": "failed",
    "faster": "passed",
    "same": "passed",
    "unclear": "undecided",
    "untimed": None,
}


def _side(label: str, results: list[Json]) -> Json:
    machine = results[0]["context"]["machine"]
    gpus = [gpu["name"] for gpu in machine["gpus"]]
    return {
        "label": label,
        "machine": machine["id"],
        "cpu": machine["cpu"]["model"],
        "gpu": gpus[0] if gpus else None,
        "files": [
            {
                "experiment": r["experiment"],
                "scale": r["scale"],
                "complete": r["complete"],
                "git_commit": r["context"]["suite"]["git_commit"],
                "git_dirty": r["context"]["suite"]["git_dirty"],
                "started": r["context"]["started"],
            }
            for r in results
        ],
    }


def _measured(cell: Json) -> Json:
    times = cell["seconds_per_iteration"] or {}
    return {
        "status": cell["status"],
        "reason": cell["reason"],
        "seconds": times.get("median"),
        "ci95_low": times.get("ci95_low"),
        "ci95_high": times.get("ci95_high"),
        "processes": len(cell["samples_seconds_per_iteration"]),
        "samples": sum(map(len, cell["samples_seconds_per_iteration"])),
        "unsteady": list(cell["unsteady"]),
        "noted": list(cell["noted"]),
    }


def changed(results: list[Json], seed: int = 1) -> list[Json]:
    """The same results again: most cells as before, some faster or slower by up to half."""
    rng = random.Random(seed)
    copies = json.loads(json.dumps(results))
    for cell in (cell for result in copies for cell in result["cells"]):
        factor = rng.choice([1.0] * 6 + [0.7, 0.85, 1.12, 1.3]) * math.exp(rng.gauss(0, 0.008))
        if cell["seconds_per_iteration"]:
            samples = cell["samples_seconds_per_iteration"]
            synthetic.resample(cell, [[v * factor for v in s] for s in samples])
    return copies


def _pair(base: Json, new: Json, rng: random.Random) -> Json:
    one, other = _measured(base), _measured(new)
    ratio = low = high = p = None
    verdict, why = "untimed", "no time on both sides"
    if one["seconds"] and other["seconds"]:
        ratio = other["seconds"] / one["seconds"]
        if min(one["samples"], other["samples"]) >= 6:
            wide = math.exp(abs(rng.gauss(0.02, 0.02)))
            low, high, p = ratio / wide, ratio * wide, 0.001 if abs(ratio - 1) > 0.03 else 0.6
        inside = 1 / (1 + EFFECT) < ratio < 1 + EFFECT
        if inside:
            verdict, why = "same", "the ratio is within 5 %"
        elif low is None or high is None or low <= 1 <= high:
            verdict, why = "unclear", "the interval of the ratio holds 1, or there is none"
        else:
            verdict = "slower" if ratio > 1 else "faster"
            why = f"the whole interval is {'above' if ratio > 1 else 'below'} 1"
    correctness, regression = [], False
    if one["status"] == "ok" and other["status"] == "wrong":
        correctness, regression = ["status: ok before, wrong now"], True
    elif base["label_hash"] != new["label_hash"] and one["status"] == other["status"] == "ok":
        correctness = [f"label hash: {base['label_hash']} before, {new['label_hash']} now"]
        regression = base["exact"]
    names = ("experiment", "key", "variant", "backend", "precision", "dataset")
    return {
        **{name: base[name] for name in names},
        **{name: base[name] for name in ("n", "d", "k", "iterations", "threads")},
        "new_key": new["key"],
        "base": one,
        "new": other,
        "ratio": ratio,
        "ratio_low": low,
        "ratio_high": high,
        "p": p,
        "p_adjusted": p,
        "sees": None if verdict == "untimed" else 0.22,
        "verdict": verdict,
        "why": why,
        "outcome": OUTCOMES[verdict],
        "outcome_why": "too little is known of it" if verdict == "unclear" else "",
        "correctness": correctness,
        "correctness_regression": regression,
    }


def gate(reasons: list[str], undecided: list[str]) -> Json:
    outcome = "failed" if reasons else "undecided" if undecided else "passed"
    return {"outcome": outcome, "reasons": reasons, "undecided": undecided}


def comparison(
    base: list[Json],
    new: list[Json],
    labels: tuple[str, str] = ("results/a", "results/b"),
    **changes: Any,
) -> Json:
    rng = random.Random(7)
    before = {(c["experiment"], c["key"]): c for r in base for c in r["cells"]}
    after = {(c["experiment"], c["key"]): c for r in new for c in r["cells"]}
    cells = [_pair(cell, after[key], rng) for key, cell in before.items() if key in after]
    missing = [
        {"experiment": e, "key": key, "reason": "not in the new result"}
        for e, key in before
        if (e, key) not in after
    ]
    added = [{"experiment": e, "key": key} for e, key in after if (e, key) not in before]
    found = Counter(cell["verdict"] for cell in cells)
    ratios = [cell["ratio"] for cell in cells if cell["ratio"]]
    reasons = [
        f"{cell['key']} is {cell['verdict']}" for cell in cells if cell["verdict"] == "slower"
    ]
    reasons += [f"{c['key']}: {c['correctness'][0]}" for c in cells if c["correctness_regression"]]
    reasons += [f"{m['key']} is missing" for m in missing]
    made = {
        "comparison_version": 2,
        "base": _side(labels[0], base),
        "new": _side(labels[1], new),
        "settings": {
            "effect": EFFECT,
            "confidence": 0.95,
            "false_discovery_rate": 0.05,
            "cross_hardware": False,
        },
        "differences": ["git commit: 0123456 before, 89abcde now"],
        "counts": {
            "cells": len(cells),
            **{name: found[name] for name in ("faster", "slower", "same", "unclear", "untimed")},
            "correctness": sum(bool(cell["correctness"]) for cell in cells),
            "missing": len(missing),
            "added": len(added),
        },
        "geometric_mean_ratio": math.exp(sum(map(math.log, ratios)) / len(ratios))
        if ratios
        else None,
        "cells": cells,
        "missing": missing,
        "added": added,
        "groups": [
            {
                "variant": None,
                "cells": len(ratios),
                "verdict": "unclear",
                "ratio": 1.01,
                "ratio_low": 0.99,
                "ratio_high": 1.06,
                "p": 0.2,
                "p_adjusted": 0.2,
                "sees": 0.07,
                "doubtful": False,
            }
        ]
        if len(ratios) > 1
        else [],
        "sees": "This pair sees a slowdown from 22 % on in one cell alone" if ratios else "",
        "gate": gate(reasons, [c["key"] for c in cells if c["outcome"] == "undecided"]),
    }
    return made | changes


def write(folder: Path, data: Json) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "comparison.json"
    path.write_text(json.dumps(data))
    return path
