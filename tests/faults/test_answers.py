# SPDX-License-Identifier: Apache-2.0
"""Answers that were made elsewhere, judged by `kmeans-bench check`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ITERATIONS = 4


def _lloyd(points: np.ndarray, init: np.ndarray, iterations: int) -> dict[str, np.ndarray]:
    """Plain k-means in the points' type, as somebody would write it."""
    centroids = init.copy()
    for _ in range(iterations):
        before = centroids.copy()
        products = points @ centroids.T
        labels = (np.sum(centroids**2, axis=1) - 2 * products).argmin(axis=1)
        for j in range(len(init)):
            if (labels == j).any():
                centroids[j] = points[labels == j].sum(axis=0) / (labels == j).sum()
    return {"labels": labels, "centroids": centroids, "before": before}


@pytest.fixture
def problem(tmp_path: Path) -> dict[str, Any]:
    random = np.random.default_rng(5)
    centres = random.uniform(-3, 3, (6, 5))
    points = (centres[random.integers(6, size=600)] + random.normal(size=(600, 5))).astype("<f4")
    np.save(tmp_path / "points.npy", points)
    np.save(tmp_path / "init.npy", points[:6])
    return {"points": points, "init": points[:6], "folder": tmp_path}


@pytest.fixture
def check(bench, problem):
    """Judges an answer, given as arrays; returns exit status and the judgement as JSON."""

    def run(*more: str, code: int = 0, iterations: int = ITERATIONS, **arrays: np.ndarray):
        folder = problem["folder"]
        words = []
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
            words += [f"--{name}", str(folder / f"{name}.npy")]
        words = ["--points", str(folder / "points.npy"), "--init", str(folder / "init.npy"), *words]
        outcome = bench("check", *words, "-T", str(iterations), "--json", *more)
        assert outcome.returncode == code, outcome.stdout + outcome.stderr
        return json.loads(outcome.stdout) if outcome.stdout else outcome.stderr

    return run


def test_the_exact_answer_is_exact(bench, problem, check) -> None:
    folder = problem["folder"]
    words = ["--variant", "reference", "--init", folder / "init.npy", "--iterations", ITERATIONS]
    assert bench("fit", folder / "points.npy", "-k", 6, *words, "--out", folder).returncode == 0
    labels, centroids = np.load(folder / "labels.npy"), np.load(folder / "centroids.npy")
    judged = check(labels=labels.astype("<i8"), centroids=centroids)
    assert (judged["verdict"], judged["labels_differing"]) == ("exact", 0)
    assert judged["inertia"] == judged["exact_inertia"]
    distances = ((problem["points"].astype(float) - centroids[labels]) ** 2).sum()
    assert judged["inertia"] == pytest.approx(distances, rel=1e-12)

    # One bit of one coordinate: no longer exact, but what rounding explains.
    off = centroids.copy()
    off[2, 3] = np.nextafter(off[2, 3], np.float32(np.inf))
    assert check(labels=labels, centroids=off)["verdict"] == "certified"


@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
def test_a_right_program_is_certified(check, problem, dtype: str) -> None:
    problem["points"] = problem["points"].astype(dtype)
    np.save(problem["folder"] / "points.npy", problem["points"])
    answer = _lloyd(problem["points"], problem["init"].astype(dtype), ITERATIONS)
    assert check(**answer)["verdict"] == "certified"
    del answer["before"]
    assert check(**answer)["verdict"] == "certified"


def test_a_tie_that_rounded_centroids_decide_is_not_a_fault(check, problem) -> None:
    """Far from the origin a point is nearer to two clusters than their rounding resolves."""
    between = np.float32(100.0005)
    points = np.concatenate([np.full(999, 99), np.full(1000, 101), [between]]).astype("<f4")
    before = np.array([points[points < 100.9].mean(dtype=float), 101])
    while abs(between - before[0]) >= abs(between - before[1]):  # the nearest that is label 0's
        between = np.nextafter(between, np.float32(0))
    points[-1] = between
    np.save(problem["folder"] / "points.npy", points[:, None])
    np.save(problem["folder"] / "init.npy", np.array([[98], [102.5]], "<f4"))
    labels = (points > 100).astype(int)  # the last one, too
    centroids = np.array([[99], [points[labels == 1].mean(dtype=float)]], "<f4")
    given = {"labels": labels, "centroids": centroids}
    judged = check("--distance", "direct", iterations=2, **given)
    assert (judged["verdict"], judged["labels_differing"]) == ("rounded", 1)
    labels[5] = 1  # one that no rounding explains
    assert check("--distance", "direct", iterations=2, code=4, **given)["verdict"] == "wrong"


def test_one_wrong_label_is_found(check, problem) -> None:
    answer = _lloyd(problem["points"], problem["init"], ITERATIONS)
    right = answer["labels"][321]
    answer["labels"][321] = (right + 1) % 6
    for given in (answer, {key: answer[key] for key in ("labels", "centroids")}):
        judged = check(**given, code=4)
        assert judged["verdict"] == "wrong"
        assert judged["labels_differing"] == 1
        assert judged["first_differing"] == {
            "point": 321,
            "label": (right + 1) % 6,
            "exact_label": right,
        }
        assert "point 321" in judged["reason"]


def test_labels_one_off_are_wrong(check, problem) -> None:
    """Counted from 1: some are outside [0, k)."""
    answer = _lloyd(problem["points"], problem["init"], ITERATIONS)
    answer["labels"] += 1
    judged = check(**answer, code=4)
    assert (judged["verdict"], judged["inertia"]) == ("wrong", None)
    assert "outside [0, k)" in judged["reason"]


def test_labels_of_returned_centroids_are_judged_by_them(check, problem) -> None:
    answer = _lloyd(problem["points"], problem["init"], ITERATIONS)
    ahead = _lloyd(problem["points"], problem["init"], ITERATIONS + 1)["labels"]
    assert (ahead != answer["labels"]).any()
    answer["labels"] = ahead
    assert check(**answer, code=4)["verdict"] == "wrong"
    assert check("--labels-of", "returned", **answer)["verdict"] == "certified"


def test_another_number_of_iterations_is_not_taken_for_rounding(check, problem) -> None:
    answer = _lloyd(problem["points"], problem["init"], ITERATIONS + 1)
    start = answer.pop("before")
    judged = check(**answer, code=6)
    assert judged["verdict"] == "undecided"
    assert "--before" in judged["reason"]
    # From the initial centroids there is one way only.
    answer = _lloyd(problem["points"], problem["init"], 2)
    del answer["before"]
    assert check(**answer, code=4, iterations=1)["verdict"] == "wrong"
    assert start.shape == answer["centroids"].shape


def test_nan_is_wrong_in_an_answer_and_refused_in_a_question(check, problem) -> None:
    answer = _lloyd(problem["points"], problem["init"], ITERATIONS)
    del answer["before"]
    centroids = answer["centroids"].copy()
    centroids[1, 2] = np.nan
    judged = check(labels=answer["labels"], centroids=centroids, code=4)
    assert judged["verdict"] == "wrong"
    assert judged["reason"] == "centroids finite: cluster 1, coordinate 2 is nan"
    message = check(labels=answer["labels"] + np.nan, centroids=answer["centroids"], code=2)
    assert "label 0 is nan, not a whole number" in message
    problem["points"][7, 1] = np.nan
    np.save(problem["folder"] / "points.npy", problem["points"])
    assert "nan" in check(**answer, code=2)


def test_files_in_another_order_or_shape_are_refused(check, problem) -> None:
    answer = _lloyd(problem["points"], problem["init"], ITERATIONS)
    labels, centroids = answer["labels"], answer["centroids"]
    message = check(labels=centroids, centroids=labels, code=2)
    assert "600 points" in message
    assert "shape 5 x 5 is not 6 x 5" in check(labels=labels, centroids=centroids[:5], code=2)
    assert "shape 6 x 4 is not 6 x 5" in check(labels=labels, centroids=centroids[:, :4], code=2)
    assert "shape 599 x 1" in check(labels=labels[:-1], centroids=centroids, code=2)
    np.save(problem["folder"] / "init.npy", problem["points"][:, :3])
    assert "is not k x 5, d of the points" in check(labels=labels, centroids=centroids, code=2)


@pytest.mark.parametrize("labels_of", ["starting", "returned"])
@pytest.mark.parametrize("iterations", [2, 3])
def test_a_centroid_without_points_is_looked_at(bench, tmp_path, labels_of, iterations) -> None:
    """An empty cluster keeps its centroid; how far it is off is no measure for the others."""
    points = np.array([[0], [0], [9], [9]], dtype="<f4")
    init = np.array([[0], [9], [0]], dtype="<f4")
    np.save(tmp_path / "points.npy", points)
    np.save(tmp_path / "init.npy", init)
    np.save(tmp_path / "labels.npy", np.array([0, 0, 1, 1], dtype="<i4"))
    words = ["--points", tmp_path / "points.npy", "--init", tmp_path / "init.npy"]
    words += ["--labels", tmp_path / "labels.npy", "-T", iterations, "--labels-of", labels_of]
    for kept, passes in ((0, True), (0.5, False), (1000, False), (1e30, False)):
        answer = init.copy()
        answer[2] = kept
        np.save(tmp_path / "centroids.npy", answer)
        run = bench("check", *words, "--centroids", tmp_path / "centroids.npy", "--json")
        verdict = json.loads(run.stdout)["verdict"]
        assert (verdict in ("exact", "certified", "rounded")) == passes, (kept, verdict)
        assert (run.returncode == 0) == passes
