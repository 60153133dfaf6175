# SPDX-License-Identifier: Apache-2.0
"""Files that would be misunderstood, and answers of `fit` that would be mixed or misread."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support import captured


@pytest.fixture
def points(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    file = tmp_path / "points.npy"
    np.save(file, rng.standard_normal((20_000, 4)).astype(np.float32))
    return file


def _answer(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def test_a_full_disk_leaves_the_whole_earlier_answer(bench, points: Path, tmp_path: Path) -> None:
    out = tmp_path / "fitted"
    assert bench("fit", points, "-k", "3", "--iterations", "2", "--out", out).returncode == 0
    before = _answer(out)
    # Room for the centroids and the summary, not for the labels.
    limit = 20_000
    run = captured(
        [bench.program, "fit", points, "-k", "5", "--iterations", "2", "--out", out],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert run.returncode == 5, run.stderr
    assert "labels.npy" in run.stderr
    assert _answer(out) == before


def test_an_answer_says_whether_it_settled_and_whose_labels_these_are(
    bench, points: Path, tmp_path: Path
) -> None:
    x = np.load(points).astype(np.float64)

    def fit(*options: str) -> tuple[str, dict, bool]:
        run = bench("fit", points, "-k", "6", "--quiet", "--out", tmp_path / "out", *options)
        assert run.returncode == 0, run.stderr
        labels = np.load(tmp_path / "out" / "labels.npy")
        centroids = np.load(tmp_path / "out" / "centroids.npy").astype(np.float64)
        nearest = ((x[:, None, :] - centroids[None]) ** 2).sum(2).argmin(1)
        summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
        return run.stdout, summary, bool((nearest == labels).all())

    said, summary, own = fit("--iterations", "3")
    assert not own  # else this test shows nothing
    assert summary["settled"] is False
    assert summary["labels_of"] == "starting"
    assert summary["labels_changed"] > 0
    assert f"{summary['labels_changed']} labels changed in the last iteration" in said.replace(
        ",", ""
    )
    assert "not to the final ones" in said
    said, summary, own = fit("--iterations", "2000", "--stop", "labels")
    assert own
    assert summary["settled"] is True
    assert summary["labels_of"] == "returned"
    assert "Settled: no label changed" in said


def test_quiet_gives_the_same_answer_without_lines(bench, points: Path, tmp_path: Path) -> None:
    for stop in ("labels", "movement:0.001", "loss:0.5"):
        runs = {
            name: bench(
                "fit", points, "-k", "6", "--stop", stop, "--out", tmp_path / name, *options
            )
            for name, options in {"loud": (), "quiet": ("--quiet",)}.items()
        }
        assert all(run.returncode == 0 for run in runs.values())
        assert len(runs["quiet"].stdout.splitlines()) == 4  # heading, end, settled, files
        loud, quiet = (
            json.loads((tmp_path / name / "summary.json").read_text(encoding="utf-8"))
            for name in runs
        )
        for summary in (loud, quiet):
            for key in ("seconds_per_iteration", "seconds_per_iteration_with_record"):
                summary.pop(key)
        assert loud == quiet
        assert _answer(tmp_path / "loud")["labels.npy"] == _answer(tmp_path / "quiet")["labels.npy"]


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint32])
def test_integers_that_float32_rounds_are_said_to_be_rounded(bench, tmp_path: Path, kind) -> None:
    file = tmp_path / "times.npy"
    np.save(file, (1_700_000_000 + np.array([[0], [1], [40], [41]])).astype(kind))
    run = bench("fit", file, "-k", "2")
    assert (
        f"times.npy holds {np.dtype(kind).name}, and is read as float32: point 1 has" in run.stderr
    )
    assert "1700000001 in column 0, rounded to 1700000000" in run.stderr
    assert "read as float32" not in bench("fit", file, "-k", "2", "--precision", "f64").stderr


def test_data_inspect_refuses_what_it_does_not_know(bench, tmp_path: Path) -> None:
    file = tmp_path / "labelled.csv"
    file.write_text("1,2,0\n3,4,1\n", encoding="utf-8")
    assert "did you mean '--drop-last'" in bench.refusal("data", "inspect", file, "--drop-lst", "1")
    assert "unknown option '--nonsense'" in bench.refusal(
        "data", "inspect", file, "--nonsense", "1"
    )
    assert "takes one file" in bench.refusal("data", "inspect", file, file)


def test_labels_below_a_header_of_pandas_are_taken(bench, points: Path, tmp_path: Path) -> None:
    out = tmp_path / "fitted"
    bench("fit", points, "-k", "3", "--iterations", "1", "--init", "first", "--out", out)
    np.save(tmp_path / "first.npy", np.load(points)[:3])
    csv = tmp_path / "labels.csv"
    labels = np.load(out / "labels.npy")
    csv.write_text("0\n" + "".join(f"{label}\n" for label in labels), encoding="utf-8")
    given = {
        "points": points,
        "init": tmp_path / "first.npy",
        "labels": csv,
        "centroids": out / "centroids.npy",
        "iterations": 1,
    }
    run = bench("check", *(word for name in given for word in (f"--{name}", given[name])))
    assert run.returncode == 0, run.stderr
    assert "taken for a header" in run.stderr


def test_without_pyarrow_a_parquet_file_is_refused_by_its_name(bench, tmp_path: Path) -> None:
    file = tmp_path / "points.parquet"
    file.write_bytes(b"PAR1")
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n', encoding="utf-8")
    bare.chmod(0o755)
    message = bench.refusal(
        "data", "inspect", file, code=3, environment={"KMEANS_BENCH_PYTHON": str(bare)}
    )
    assert "read by pyarrow" in message
    assert "pip install pyarrow" in message
    other = tmp_path / "points.bin"
    other.write_bytes(b"PAR1")
    assert "has to end with .parquet" in bench.refusal("data", "inspect", other)


def test_parquet_and_arrow_files_are_read(bench, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    feather = pytest.importorskip("pyarrow.feather")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"x": np.array([1, 2, 3], np.float32), "y": np.array([4, 5, 6], np.int16)}
    narrow = pa.table(columns | {"__index_level_0__": np.arange(3)})
    for name, write in (("a.parquet", parquet.write_table), ("a.feather", feather.write_feather)):
        write(narrow, tmp_path / name)
        said = bench("data", "inspect", tmp_path / name).stdout
        assert "n       3\nd       2\nscalar  f32\nmin     1\nmax     6" in said
    parquet.write_table(pa.table(columns | {"z": np.array([0.1, 2, 3])}), tmp_path / "b.parquet")
    run = bench("fit", tmp_path / "b.parquet", "-k", "2")
    assert run.returncode == 0
    assert "point 0 has 0.1" in run.stderr
    for column, said in (
        (["a", "b", "c"], "holds string, not numbers"),
        ([1.0, None, 2.0], "lacks 1"),
    ):
        parquet.write_table(pa.table(columns | {"z": column}), tmp_path / "c.parquet")
        message = bench.refusal("data", "inspect", tmp_path / "c.parquet")
        assert f"column 'z' {said}" in message
    (tmp_path / "d.parquet").write_bytes(b"PAR1 and nothing else")
    assert "is not a file that pyarrow reads" in bench.refusal(
        "data", "inspect", tmp_path / "d.parquet"
    )
