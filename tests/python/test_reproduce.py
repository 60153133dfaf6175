# SPDX-License-Identifier: Apache-2.0
"""`reproduce` on a small run of this machine, whole and with answers changed by hand."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT, kmeans_bench, needs_program, small_experiment

COMMITTED = ROOT / "results" / "nvidia-h200"

pytestmark = needs_program

SHAPE = {"n": 600, "d": 2, "k": 4}
EXPERIMENT = small_experiment(
    "tiny",
    ["reference", "cpu_naive", {"variant": "cpu_naive", "precision": "f64"}, "cpu_simd"],
    {"sweep": [SHAPE]},
    data={"generator": "uniform", "seed": 3},
    init="first",
    traces=[{"name": "path", "variant": "reference", "iterations": 9, "stop": "labels"} | SHAPE],
    studies=[{"name": "labels", "study": "label_in_float"}],
)


def reproduce(*arguments: object, status: int = 0) -> str:
    """Standard output of `reproduce`; standard error where it ends with 2 or 3."""
    run = kmeans_bench("reproduce", *arguments, status=status)
    return run.stderr if status in (2, 3) else run.stdout


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A result file of this build and machine."""
    folder = tmp_path_factory.mktemp("record")
    experiment = folder / "tiny.json"
    experiment.write_text(json.dumps(EXPERIMENT), encoding="utf-8")
    kmeans_bench("run", experiment, "--out", folder / "out")
    return json.loads((folder / "out" / "tiny.json").read_text(encoding="utf-8"))


@pytest.fixture
def changed(
    recorded: dict[str, Any], tmp_path: Path
) -> Callable[[Callable[[dict[str, Any]], None]], Path]:
    """Writes the record after a change of it."""

    def write(change: Callable[[dict[str, Any]], None]) -> Path:
        record = copy.deepcopy(recorded)
        change(record)
        file = tmp_path / "tiny.json"
        file.write_text(json.dumps(record), encoding="utf-8")
        return file

    return write


def cell(record: dict[str, Any], variant: str, precision: str = "f32") -> dict[str, Any]:
    """The one cell of a variant."""
    (found,) = (
        one
        for one in record["cells"]
        if one["variant"] == variant and one["precision"] == precision
    )
    return found


def findings(file: Path, folder: Path, *arguments: str, status: int = 0) -> dict[str, Any]:
    """The report's findings by part and name."""
    report = folder / "report.json"
    reproduce(file, "--json", report, *arguments, status=status)
    document = json.loads(report.read_text(encoding="utf-8"))
    assert document["reproduction_version"] == 1
    (one,) = document["files"]
    assert sum(one["counts"].values()) == len(one["findings"])
    return {(f["part"], f["name"].split("/k")[0]): f for f in one["findings"]}


def test_a_run_of_the_same_build_is_equal(changed: Any, tmp_path: Path) -> None:
    found = findings(changed(lambda record: None), tmp_path)
    assert {key[0] for key in found} == {"data", "cell", "trace", "study"}
    assert len(found) == 2 + 4 + 1 + 1
    assert {one["verdict"] for one in found.values()} == {"equal"}


def test_every_changed_answer_is_found(changed: Any, tmp_path: Path) -> None:
    def change(record: dict[str, Any]) -> None:
        cell(record, "reference")["label_hash"] = "0" * 16
        record["traces"][0]["iterations"][2]["inertia"] *= 1 + 1e-12
        record["studies"][0]["rows"][0]["labels_kept"] += 1

    found = findings(changed(change), tmp_path, status=1)
    verdicts = {key: one["verdict"] for key, one in found.items()}
    assert verdicts[("cell", "reference/f32/uniform-600x2-s3")] == "differs"
    assert verdicts[("trace", "path")] == "differs"
    assert verdicts[("study", "labels")] == "differs"
    assert "iteration 3" in found[("trace", "path")]["detail"]
    assert list(verdicts.values()).count("equal") == 2 + 3


def test_other_data_are_found_and_nothing_is_judged_on_them(changed: Any, tmp_path: Path) -> None:
    def change(record: dict[str, Any]) -> None:
        record["context"]["datasets"]["uniform-600x2-s3"]["sha256"] = "0" * 64

    found = findings(changed(change), tmp_path, status=1)
    assert found[("data", "uniform-600x2-s3")]["verdict"] == "differs"
    assert found[("data", "uniform-600x2-s3/f64")]["verdict"] == "equal"
    naive = found[("cell", "cpu_naive/f32/uniform-600x2-s3")]
    assert naive["verdict"] == "not run"
    assert "points" in naive["detail"]
    assert found[("cell", "cpu_naive/f64/uniform-600x2-s3")]["verdict"] == "equal"


def test_another_build_promises_nothing_but_exact_answers(changed: Any, tmp_path: Path) -> None:
    def change(record: dict[str, Any]) -> None:
        record["context"]["suite"]["compiler"] = "another"
        cell(record, "cpu_naive")["centroid_hash"] = "0" * 16
        cell(record, "cpu_simd")["inertia"] *= 1.5
        cell(record, "reference")["centroid_hash"] = "0" * 16

    found = findings(changed(change), tmp_path, status=1)
    naive = found[("cell", "cpu_naive/f32/uniform-600x2-s3")]
    assert naive["verdict"] == "agrees"
    assert not naive["promised"]
    assert "certified here; same labels, other centroids" in naive["detail"]
    simd = found[("cell", "cpu_simd/f32/uniform-600x2-s3")]
    assert simd["verdict"] == "differs"
    assert "beyond the bound" in simd["detail"]
    reference = found[("cell", "reference/f32/uniform-600x2-s3")]
    assert reference["verdict"] == "differs"
    assert reference["promised"]


def test_an_exact_cell_that_cannot_run_is_judged_by_openmp_exact(
    changed: Any, tmp_path: Path
) -> None:
    if '"openmp_exact"' not in kmeans_bench("list", "--json").stdout:
        pytest.skip("this build has no openmp_exact")

    def change(record: dict[str, Any]) -> None:
        exact = cell(record, "reference")
        exact["variant"] = "elsewhere_exact"
        exact["key"] = exact["key"].replace("reference", "elsewhere_exact")
        other = cell(record, "cpu_naive")
        other["variant"] = "elsewhere_plain"
        other["key"] = other["key"].replace("cpu_naive", "elsewhere_plain")

    found = findings(changed(change), tmp_path)
    exact = found[("cell", "elsewhere_exact/f32/uniform-600x2-s3")]
    assert (exact["verdict"], exact["by"]) == ("equal", "openmp_exact")
    plain = found[("cell", "elsewhere_plain/f32/uniform-600x2-s3")]
    assert plain["verdict"] == "not run"
    assert "no such variant" in plain["detail"]

    def change_also(record: dict[str, Any]) -> None:
        change(record)
        cell(record, "elsewhere_exact")["label_hash"] = "0" * 16

    found = findings(changed(change_also), tmp_path, status=1)
    assert found[("cell", "elsewhere_exact/f32/uniform-600x2-s3")]["verdict"] == "differs"


def test_a_cell_recorded_as_wrong_must_be_wrong_again(changed: Any, tmp_path: Path) -> None:
    def change(record: dict[str, Any]) -> None:
        naive = cell(record, "cpu_naive")
        naive.update(status="wrong", reason="once", samples_seconds_per_iteration=[], unsteady=[])
        for key in (
            "seconds_per_iteration",
            "gflops",
            "gflops_2nkd",
            "stopping",
            "inertia",
            "pace",
        ):
            naive[key] = None
        naive.update(label_hash=None, centroid_hash=None, empty_clusters=None)
        naive["gbytes_per_second"] = {"compulsory": None, "as_written": None}
        naive.update(stages={}, whole_call_seconds=None)

    found = findings(changed(change), tmp_path, "--only", "cpu_naive/f32", status=1)
    naive = found[("cell", "cpu_naive/f32/uniform-600x2-s3")]
    assert naive["verdict"] == "differs"
    assert "right here" in naive["detail"]


def test_what_takes_too_long_is_left_out_with_its_reason(changed: Any, tmp_path: Path) -> None:
    def change(record: dict[str, Any]) -> None:
        naive = cell(record, "cpu_naive")
        naive["seconds_per_iteration"] = {"median": 1000.0}
        samples = naive["samples_seconds_per_iteration"]
        samples[:] = [[1000.0 for _ in process] for process in samples]
        for derived in ("gflops", "gflops_2nkd", "gbytes_per_second", "whole_call_seconds"):
            naive.pop(derived, None)

    file = changed(change)
    found = findings(file, tmp_path)
    naive = found[("cell", "cpu_naive/f32/uniform-600x2-s3")]
    assert naive["verdict"] == "not run"
    assert "--at-most" in naive["detail"]
    found = findings(file, tmp_path, "--all")
    assert found[("cell", "cpu_naive/f32/uniform-600x2-s3")]["verdict"] == "equal"


def test_bad_requests_and_unusable_machines(changed: Any, tmp_path: Path) -> None:
    file = changed(lambda record: None)
    assert "matches nothing" in reproduce(file, "--only", "no-such", status=2)
    assert "regular expression" in reproduce(file, "--only", "(", status=2)
    reproduce(tmp_path / "missing.json", status=2)

    def elsewhere(record: dict[str, Any]) -> None:
        naive = cell(record, "cpu_naive")
        naive["variant"] = "elsewhere_plain"
        naive["key"] = naive["key"].replace("cpu_naive", "elsewhere_plain")

    message = reproduce(changed(elsewhere), "--only", "elsewhere", status=3)
    assert "none of the answers could be repeated" in message


def test_committed_answers_of_a_gpu_machine_that_this_one_can_repeat(tmp_path: Path) -> None:
    """The exact GPU cells and CPU cells of a small shape, and a trace."""
    report = tmp_path / "report.json"
    reproduce(
        COMMITTED / "goldsborough2017.json",
        *("--only", "(exact|cpu_naive|reference)/.*T300|scatter", "--json", report),
    )
    (file,) = json.loads(report.read_text(encoding="utf-8"))["files"]
    assert file["counts"]["differs"] == 0
    exact = [one for one in file["findings"] if "exact/" in one["name"]]
    assert exact
    assert {one["verdict"] for one in exact} == {"equal"}
