# SPDX-License-Identifier: Apache-2.0
"""Result files made up from an experiment: plausible numbers, nothing measured."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import random
import statistics
from pathlib import Path
from typing import Any

from plots.derived import median_rank
from plots.experiment import expanded
from tests.support import ROOT

Json = dict[str, Any]
CLAIM = {
    "id": "faster",
    "statement": "The parallel version is faster.",
    "where": "section 3",
    "tests": [
        {"quantity": "speedup", "variant": "openmp_b", "baseline": "cpu_a", "at_least": 1e-9}
    ],
    "why": "It uses all cores.",
}
_LIBRARY_OPERATIONS = {
    "python": 4e9,
    "blas": 2e10,
    "eigen": 6e9,
    "openmp": 6e10,
    "cpu": 3e9,
    "cuda": 2e12,
}


def experiments() -> list[Json]:
    return [
        expanded(json.loads(p.read_text()))
        for p in sorted((ROOT / "experiments").glob("*.json"))
        if p.name != "schema.json"
    ]


def shapes(scale: Json) -> list[tuple[int, int, int]]:
    """Of a sweep: a grid, or a list of grids and single shapes."""
    sweep = scale["sweep"]
    entries = sweep if isinstance(sweep, list) else [sweep]
    grids = [[e[x] if isinstance(e[x], list) else [e[x]] for x in ("n", "d", "k")] for e in entries]
    return [shape for grid in grids for shape in itertools.product(*grid)]


def named(entry: str | Json) -> tuple[str, str]:
    if isinstance(entry, str):
        return entry, "f32"
    return entry["variant"], entry.get("precision", "f32")


def context(**changes: Any) -> Json:
    base = {
        "suite": {
            "version": "0.1.0",
            "git_commit": "0123456789abcdef0123456789abcdef01234567",
            "git_dirty": False,
            "build_type": "Release",
            "sanitizers": "",
            "compiler": "GNU 12.2.0",
            "variant_flags": "-O3",
            "march": "x86-64-v2",
            "cuda": "",
        },
        "command_line": "kmeans-bench run experiments/all.json",
        "started": "2026-01-01T00:00:00Z",
        "finished": "2026-01-01T00:05:00Z",
        "machine": {
            "id": "synthetic-2core",
            "cpu": {"model": "Synthetic Processor", "cores": 2},
            "memory": {"total_bytes": 25_000_000_000},
            "gpus": [],
            "os": {"name": "Linux"},
            "libraries": {},
        },
        "ceilings": {
            "read_gbytes_per_second": 72.0,
            "read_gbytes_per_second_cache": 230.0,
            "copy_gbytes_per_second": 90.0,
            "fma_gflops": {
                "f32_one_thread": 270.0,
                "f32_all_threads": 538.0,
                "f64_one_thread": 135.0,
                "f64_all_threads": 269.0,
            },
            "gemm_gflops": {"f32": 476.0, "f64": 230.0, "library": "OpenBLAS 0.3"},
        },
        "environment": {"variables": {}, "neutralised": [], "warnings": []},
        "threads": 2,
        "datasets": {},
        "seeds": {"order": 1, "data": {}, "init": "random:1"},
        "run_order": [],
    }
    return base | changes


def gpu_ceilings(**changes: Any) -> Json:
    """Round numbers, the L2 holding 2 000 bytes."""
    base = {
        "read_gbytes_per_second": 4000.0,
        "copy_gbytes_per_second": 3500.0,
        "read_gbytes_per_second_l2": 8000.0,
        "fma_gflops": {"f32": 60_000.0, "f64": 30_000.0},
        "gemm_gflops": {
            "f64": 50_000.0,
            "f32": 51_000.0,
            "tf32": 400_000.0,
            "f16": 700_000.0,
            "bf16": 800_000.0,
            "int8": 1_500_000.0,
        },
        "launch_seconds": 3e-6,
        "launch_and_synchronise_seconds": 8e-6,
        "graph_node_seconds": 5e-7,
        "grid_barrier_seconds": 1e-6,
        "host_to_device_gbytes_per_second": {"pinned": 55.0, "pageable": 10.0},
        "device_to_host_gbytes_per_second": {"pinned": 54.0, "pageable": 18.0},
        "details": {
            "name": "Synthetic GPU",
            "uuid": "GPU-0",
            "bytes": {"array": 1_000_000, "l2": 1000, "transfer": 1_000_000},
            "gemm_size": {"f64": 64, "others": 128},
            "cublas": "13.0",
            "state": {"before": None, "under_load": None, "after": None},
            "measured": "2026-01-01T00:00:00Z",
            "seconds": 1.0,
            "disturbed": False,
            "notes": [],
        },
    }
    return base | changes


def percentile(ordered: list[float], share: float) -> float:
    """Below which this share lies, linear between neighbours, as the program has it."""
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def times(seconds: float, samples: int, rng: random.Random) -> tuple[list[list[float]], dict]:
    """Samples of three processes and their statistics; no 95 % interval below six samples."""
    flat = sorted(seconds * rng.uniform(1.0, 1.12) for _ in range(samples))
    groups = [flat[i::3] for i in range(3) if flat[i::3]]
    rank = median_rank(samples)
    return groups, {
        "median": statistics.median(statistics.median(group) for group in groups),
        "ci95_low": flat[rank - 1] if rank else None,
        "ci95_high": flat[-rank] if rank else None,
        "min": flat[0],
        "max": flat[-1],
        "p25": percentile(flat, 0.25),
        "p75": percentile(flat, 0.75),
        "mean": sum(flat) / samples,
    }


def _stages(variant: str, seconds: float) -> dict[str, float]:
    """By name, as files hold them."""
    if variant.endswith("hybrid"):
        shares = {"download": 0.1, "label": 0.3, "update": 0.5, "upload": 0.1}
    else:
        shares = {"assign": 0.9, "update": 0.1}
    return {name: share * seconds for name, share in shares.items()}


def stage_samples(stages: dict[str, float]) -> dict[str, list[float]]:
    """Of three processes, their medians being those given."""
    return {name: [0.98 * value, value, 1.02 * value] for name, value in stages.items()}


def _stage_work(stages: dict[str, float], n: int, d: int, k: int, gpu: bool) -> Json:
    """Of the stages that share out the operation model; of a hybrid the GPU only labels."""
    size = 4.0 * n * d
    work = {
        "assign": {"operations": n * k * (3.0 * d + 2), "bytes_as_written": k * size, "gpu": gpu},
        "label": {"operations": n * k * (3.0 * d + 2), "bytes_as_written": k * size, "gpu": gpu},
        "update": {
            "operations": d * (n + k) * 1.0,
            "bytes_as_written": size,
            "gpu": gpu and "label" not in stages,
        },
    }
    return {name: work[name] for name in stages if name in work}


def cell(
    experiment: str,
    variant: str,
    precision: str,
    shape: tuple[int, int, int],
    iterations: int,
    *,
    status: str = "ok",
    reason: str | None = None,
    samples: int = 9,
    init: str = "random:1",
    on_gpu: bool | None = None,
    executed: int | None = None,
    threads: int | None = None,
    ranks: int = 1,
    gpus: int = 1,
) -> Json:
    """One cell. Not ok: no samples, no times, no rates, no GPU. Otherwise the backend says whether
    it ran on a GPU, unless `on_gpu` does. `executed`: iterations of a library that may stop."""
    n, d, k = shape
    rng = random.Random(f"{variant}{precision}{shape}")
    backend = variant.split("_")[0] if "_" in variant else "cpu"
    threads = threads or (2 if backend in ("openmp", "blas", "python") else 1)
    operations = n * k * (3.0 * d + 2) + d * (n + k)
    per_second = _LIBRARY_OPERATIONS.get(backend, 3e9) * rng.uniform(0.4, 2.0)
    median = operations / per_second + rng.uniform(0.2, 40) * 1e-6
    size = 8 if precision == "f64" else 4
    ok = status == "ok"
    gpu = ok and (backend in ("cuda", "nccl") if on_gpu is None else on_gpu)
    groups, statistics = times(median, samples, rng) if ok else ([], None)
    middle = statistics["median"] if statistics else math.inf
    stages = _stages(variant, middle) if ok and backend != "python" else {}
    bytes_moved = size * n * d + 4 * n + 2 * size * k * d
    return {
        "key": f"{variant}/{precision}/data-{n}x{d}/k{k}/T{iterations}/t{threads}"
        + (f"/r{ranks}" if ranks > 1 else "")
        + (f"/g{gpus}" if gpus > 1 else ""),
        **({"ranks": ranks} if ranks > 1 else {}),
        **({"gpus": gpus} if gpus > 1 else {}),
        "experiment": experiment,
        "variant": variant,
        "backend": backend,
        "dataset": f"data-{n}x{d}",
        "n": n,
        "d": d,
        "k": k,
        "precision": precision,
        "exact": variant.endswith("exact"),
        "threads": threads,
        "init": init,
        "iterations": iterations,
        "executed_iterations": executed if ok else None,
        "status": status,
        "reason": reason,
        "samples_seconds_per_iteration": groups,
        "seconds_per_iteration": statistics,
        "processes": len(groups) or 1,
        "repetitions": max(map(len, groups), default=0),
        "stopping": "complete",
        "setup_seconds": 0.01 if ok else None,
        "stages": stages,
        "stage_samples_seconds_per_iteration": stage_samples(stages),
        "stage_work": _stage_work(stages, n, d, k, gpu),
        "gflops": operations / middle / 1e9 if ok else None,
        "gflops_2nkd": 2.0 * n * k * d / middle / 1e9 if ok else None,
        "gbytes_per_second": {
            "compulsory": bytes_moved / middle / 1e9 if ok else None,
            "as_written": 1.3 * bytes_moved / middle / 1e9 if ok and backend != "python" else None,
        },
        "unsteady": [],
        "noted": [],
        "whole_call_seconds": {
            str(steps): 0.01 + steps * middle if ok else None for steps in (1, 20, 300)
        },
        "setup_includes": None,
        "inertia": 123.5 if ok else None,
        "label_hash": "0123456789abcdef" if ok else None,
        "centroid_hash": "0123456789abcdef" if ok else None,
        "bit_equal_across_processes": True if ok else None,
        "empty_clusters": 0 if ok else None,
        "load_average": {"before": 0.1, "after": 0.2},
        "library": {},
        "gpu": {
            "index": 0,
            "name": "Synthetic GPU",
            "uuid": "GPU-0",
            "cache": "warm",
            "warm_up_iterations": 3,
            "before": None,
            "after": None,
        }
        if gpu
        else None,
        "device_seconds_per_iteration": statistics if gpu else None,
        "wrong_because": None,
        "verification": {
            "passed": True,
            "checks": [{"name": "labels", "passed": True, "detail": "all exact"}],
            "points_checked": min(n, 100_000),
            "points_total": n,
            "sample_seed": 1,
            "labels_differing": 0.0 if variant.endswith("exact") else 3e-5,
            "largest_excess": 2e-7,
            "largest_excess_of_bound": 0.3,
            "centroid_error_of_bound": 0.1,
            "inertia_relative_difference": None,
        }
        if ok
        else None,
    }


def fail(record: Json, status: str = "skipped", reason: str = "the reason of the test") -> None:
    """Turns a cell into one without a time, in place."""
    fresh = cell(
        record["experiment"],
        record["variant"],
        record["precision"],
        (record["n"], record["d"], record["k"]),
        record["iterations"],
        status=status,
        reason=reason,
    )
    record.clear()
    record.update(fresh)


def trace(wanted: Json, data: Json, init: str) -> Json:
    """A converging run; the points are three or more blobs, one per cluster."""
    n, d, k = wanted["n"], wanted["d"], wanted["k"]
    rng = random.Random(wanted["name"])
    known = (wanted.get("expected") or {}).get("inertia") or []
    steps = []
    rule = wanted.get("stop") or ""
    length = wanted["iterations"] if not rule else min(wanted["iterations"], 4 + rng.randrange(9))
    for i in range(1, length + 1):
        decay = math.exp(-0.8 * i)
        steps.append(
            {
                "iteration": i,
                "inertia": known[i - 1] if i <= len(known) else 1000.0 * n * (1 + decay),
                "loss": 10.8259e6 * (1 + 0.3 * decay),
                "movement": 50 * decay,
                "changed": int(n * decay),
                "empty_clusters": 0,
                **(
                    {"centroids": [[20.0 * j + 9 * decay * (-1) ** j] * d for j in range(k)]}
                    if wanted.get("keep_centroids")
                    else {}
                ),
            }
        )
    result = {
        "name": wanted["name"],
        "variant": wanted["variant"],
        "precision": wanted.get("precision", "f32"),
        "dataset": f"data-{n}x{d}",
        "n": n,
        "d": d,
        "k": k,
        "init": wanted.get("init", init),
        "stop": wanted.get("stop"),
        "status": "ok",
        "reason": None,
        "iterations": steps,
        "seconds_per_iteration": n * d * k * rng.uniform(1, 30) * 1e-9,
        "runs_seconds": None,
        "expected": None,
        "label_hash": "0123456789abcdef",
        "labels_begin": [1, 0, 2],
    }
    if rule:
        whole = length * result["seconds_per_iteration"]
        result["runs_seconds"] = [[0.98 * whole], [whole], [1.02 * whole]]
    if wanted.get("expected"):
        result["expected"] = {
            "inertia_relative_error": 3e-14,
            "relative_tolerance": wanted["expected"]["relative_tolerance"],
            "labels_begin_equal": True,
            "passed": True,
        }
    if wanted.get("keep_points"):
        labels = [rng.randrange(k) for _ in range(wanted["keep_points"])]
        result["points"] = {
            "coordinates": [[20.0 * j + rng.gauss(0, 3) for _ in range(d)] for j in labels],
            "labels": labels,
            "rows": list(range(len(labels))),
        }
    return result


def _names(value: str | list[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else list(value or [])


def _wanted_keys(experiment: Json, name: str) -> tuple[dict[str, list], list[str]]:
    """What figures and claims ask of the rows of a study: keys that select rows, each with values,
    and keys of numbers."""
    groups: dict[str, list] = {}
    numbers: list[str] = []
    for figure in experiment.get("figures", []):
        if name not in _names(figure.get("study")):
            continue
        for key, values in (figure.get("where") or {}).items():
            own = groups.setdefault(key, [])
            own += [v for v in values if v not in own]
        for key in [*figure.get("facets", []), *_names(figure.get("series"))]:
            groups.setdefault(key, [f"{key} one", f"{key} two", f"{key} three"])
        if "x" in figure:
            groups.setdefault(figure["x"], [1, 10, 100, 1000])
        numbers += _names(figure.get("y"))
        numbers += [c if isinstance(c, str) else c["key"] for c in figure.get("columns", [])]
    for claim in experiment.get("claims", []):
        for test in claim["tests"]:
            if test.get("study") == name and "row" in test:
                for key, value in test["row"].items():
                    own = groups.setdefault(key, [])
                    own += [value] if value not in own else []
                numbers.append(test["value"])
    groups.pop("study", None)
    return groups, [key for key in dict.fromkeys(numbers) if key not in (*groups, "study")]


def study(experiment: Json, wanted: Json) -> Json:
    """A study with the rows that the experiment's figures and claims ask for; the smallest number
    is 0 and one is missing."""
    rng = random.Random(wanted["name"])
    groups, numbers = _wanted_keys(experiment, wanted["name"])
    rows = []
    for values in itertools.product(*groups.values()):
        row = dict(zip(groups, values, strict=True))
        scale = math.prod(v if isinstance(v, (int, float)) and v > 0 else 1 for v in values)
        rows.append(row | {key: float(f"{scale**0.5 * rng.uniform(1, 3):.6g}") for key in numbers})
    if len(rows) > 3 and numbers:
        rows[0][numbers[0]] = 0
        rows[-2][numbers[-1]] = None
    findings = {
        test["finding"]: round(rng.uniform(1, 9), 3)
        for claim in experiment.get("claims", [])
        for test in claim["tests"]
        if test.get("study") == wanted["name"] and "finding" in test
    }
    data = "n" in wanted
    return {
        "name": wanted["name"],
        "study": wanted["study"],
        "summary": "How much does a made-up sum lose?",
        "status": "ok",
        "reason": None,
        "dataset": f"data-{wanted['n']}x{wanted['d']}" if data else None,
        "n": wanted.get("n"),
        "d": wanted.get("d"),
        "k": wanted.get("k"),
        "init": wanted.get("init", experiment["init"]) if data else None,
        "parameters": wanted.get("parameters", {}),
        "rows": rows or [{"value": 1.5}],
        "findings": findings,
        "notes": ["A note of the study."],
        "seconds": 0.5,
    }


_FIT_NUMBERS = (
    *("seconds", "seconds_low", "seconds_high", "first_call_seconds", "import_seconds"),
    *("seeding_seconds", "iterating_seconds", "inertia"),
    *("excess", "excess_low", "excess_high", "excess_worst", "near_best", "seconds_to_near_best"),
    *("over_quickest", "iterations", "converged", "left", "reported_over_inertia"),
    *("labels_differing", "largest_excess_of_bound", "peak_bytes", "device_peak_bytes"),
)


def fit(wanted: Json, k: int) -> Json:
    """Whole fits: one estimator is wrong, one is not there, one reaches nothing near the best."""
    rng = random.Random(f"{wanted['name']}-k{k}")
    rows, calls = [], []
    for index, estimator in enumerate(wanted["estimators"]):
        status = {1: "wrong", 3: "skipped"}.get(index, "ok")
        row: Json = {key: None for key in (*_FIT_NUMBERS, "front", "labels_of", "empty_clusters")}
        row |= {
            "estimator": estimator,
            "status": status,
            "reason": None if status == "ok" else f"{estimator} is {status}",
            "library": f"{estimator} 1.0",
            "exact": estimator.startswith("kmeans_exact"),
            "defaults": "one start",
            "outside": None,
            "seeds": 7 if status == "ok" else 0,
            "seeds_asked": 10,
        }
        if status == "ok":
            seconds = sorted(float(f"{rng.uniform(0.01, 9):.6g}") for _ in range(7))
            excess = [0.0] if index == 0 else [float(f"{rng.uniform(0.001, 0.5):.6g}")]
            row |= dict.fromkeys(_FIT_NUMBERS, 1.0)
            row |= {"seconds": seconds[3], "seconds_low": seconds[0], "seconds_high": seconds[6]}
            row |= {"excess": excess[0], "inertia": 100.0 * (1 + excess[0]), "front": index == 0}
            row |= {"labels_of": "returned centroids", "empty_clusters": 0}
            if index == 2:
                row |= {"near_best": 0.0, "seconds_to_near_best": None, "over_quickest": None}
            calls += [
                {
                    "estimator": estimator,
                    "seed": seed,
                    "process": seed % 2,
                    "seconds": taken,
                    "inertia": row["inertia"],
                    "iterations": 9,
                    "converged": True,
                    "objective": None,
                    "left": 0.0,
                    "label_hash": "0" * 16,
                    "centroid_hash": "1" * 16,
                }
                for seed, taken in enumerate(seconds, 1)
            ]
        rows.append(row)
    return {
        "name": f"{wanted['name']}-k{k}",
        "dataset": "synthetic",
        "n": wanted["n"],
        "d": wanted["d"],
        "k": k,
        "from": wanted.get("from"),
        "iterations": wanted.get("iterations"),
        "starts": wanted.get("starts"),
        "status": "wrong",
        "reason": "one is wrong",
        "best": {"inertia": 100.0, "estimator": wanted["estimators"][0], "seed": 1},
        "rows": rows,
        "calls": calls,
        "estimators": {},
        "notes": ["A note on an estimator."],
        "seconds": 60.0,
    }


def result(experiment: Json, scale: str = "quick", **changes: Any) -> Json:
    """A complete result file of the experiment; some cells fail, few samples stand behind some."""
    plan = experiment["scales"][scale]
    cells = []
    for shape in shapes(plan):
        for entry in plan.get("variants", experiment["variants"]):
            variant, precision = named(entry)
            status, reason, samples = "ok", None, 9
            place = len(cells) % 17
            if place == 11 and variant != named(experiment["baseline"])[0]:
                status, reason = "skipped", "needs 9 GB next to the points, 2 GB are free"
            if place == 13 and variant != named(experiment["baseline"])[0]:
                status, reason = "error", "the worker was ended by signal 11"
            if place == 5:
                samples = 3
            cells.append(
                cell(
                    experiment["name"],
                    variant,
                    precision,
                    shape,
                    plan.get("iterations", 10),
                    status=status,
                    reason=reason,
                    samples=samples,
                    init=experiment["init"],
                    threads=entry.get("threads") if isinstance(entry, dict) else None,
                    ranks=entry.get("ranks", 1) if isinstance(entry, dict) else 1,
                    gpus=entry.get("gpus", 1) if isinstance(entry, dict) else 1,
                )
            )
    traces = [
        trace(t, experiment["data"], experiment["init"])
        for t in experiment.get("traces", [])
        if scale in t.get("scales", [scale])
    ]
    studies = [
        study(experiment, s)
        for s in experiment.get("studies", [])
        if scale in s.get("scales", [scale])
    ]
    cells = list({c["key"]: c for c in cells}.values())  # all threads may be as many as named ones
    base = {
        "schema_version": 2,
        "experiment": experiment["name"],
        "scale": scale,
        "complete": True,
        "planned_cells": len(cells),
        "context": context(),
        "spec": experiment,
        "cells": cells,
        "traces": traces,
        "studies": studies,
    }
    fits = [
        fit(f, k)
        for f in experiment.get("fits", [])
        if scale in f.get("scales", [scale])
        for k in (f["k"] if isinstance(f["k"], list) else [f["k"]])
    ]
    base |= {"fits": fits} if fits else {}
    if any(c["gpu"] for c in cells):
        base["context"]["ceilings"]["gpu"] = gpu_ceilings()
        gpu = {"name": "Synthetic GPU", "driver": "580.1", "memory_bytes": 1 << 34}
        base["context"]["machine"]["gpus"] = [gpu]
    base["context"]["run_order"] = [c["key"] for c in cells]
    base["context"]["datasets"] = {
        c["dataset"] + suffix: {
            "n": c["n"],
            "d": c["d"],
            "scalar": scalar,
            "sha256": hashlib.sha256((c["dataset"] + suffix).encode()).hexdigest(),
            "spec": experiment["data"],
        }
        for c in cells
        for scalar, suffix in (("f32", ""), ("f64", "/f64"))
        if (c["precision"] == "f64") == (scalar == "f64")
    }
    return base | changes


def retime(record: Json, seconds: float, spread: float = 0.0) -> None:
    """Gives a cell another median, with samples of three processes that fit, in place."""
    samples = [[seconds * factor for factor in (1 - spread, 1.0, 1 + spread)]] * 3
    resample(record, samples)


def resample(record: Json, samples: list[list[float]]) -> None:
    """Gives a cell these samples, a list per process, and all that follows from them, in place."""
    flat = sorted(x for process in samples for x in process)
    median = statistics.median(statistics.median(process) for process in samples)
    rank = median_rank(len(flat))
    record["samples_seconds_per_iteration"] = samples
    record["processes"] = len(samples)
    record["repetitions"] = max(map(len, samples))
    record["seconds_per_iteration"] = {
        "median": median,
        "ci95_low": min(median, flat[rank - 1]) if rank else None,
        "ci95_high": max(median, flat[-rank]) if rank else None,
        "min": flat[0],
        "max": flat[-1],
        "p25": percentile(flat, 0.25),
        "p75": percentile(flat, 0.75),
        "mean": sum(flat) / len(flat),
    }
    agree(record)


def agree(record: Json) -> None:
    """What follows from other fields of a cell with a time: key, rate, whole calls; in place."""
    n, d, k, setup = (record[name] for name in ("n", "d", "k", "setup_seconds"))
    record["key"] = (
        f"{record['variant']}/{record['precision']}/{record['dataset']}/k{k}"
        f"/T{record['iterations']}/t{record['threads']}"
    )
    for name in ("ranks", "gpus"):
        record["key"] += f"/{name[0]}{record[name]}" if name in record else ""
    median = record["seconds_per_iteration"]["median"]
    size = 8 if record["precision"] == "f64" else 4
    record["gflops"] = (n * k * (3.0 * d + 2) + d * (n + k)) / median / 1e9
    record["gflops_2nkd"] = 2.0 * n * k * d / median / 1e9
    record["gbytes_per_second"]["compulsory"] = (
        (size * n * d + 4 * n + 2 * size * k * d) / median / 1e9
    )
    record["whole_call_seconds"] = {
        str(steps): None if setup is None else setup + steps * median for steps in (1, 20, 300)
    }


def settle(data: Json) -> None:
    """What follows from a status, from `unsteady`, and from samples of stages; in place."""
    for record in data["cells"]:
        if record["status"] != "ok":
            continue
        if record["unsteady"]:
            record["whole_call_seconds"] = dict.fromkeys(record["whole_call_seconds"])
        samples = record.get("stage_samples_seconds_per_iteration") or {}
        record["stages"] |= {stage: statistics.median(own) for stage, own in samples.items()}
    for record in data["traces"]:
        if record["status"] != "ok":
            record |= {"seconds_per_iteration": None, "runs_seconds": None}


def write(folder: Path, data: Json) -> Path:
    """As a test has changed it: `settle` follows."""
    folder.mkdir(parents=True, exist_ok=True)
    settle(data)
    path = folder / f"{data['experiment']}.json"
    path.write_text(json.dumps(data))
    return path
