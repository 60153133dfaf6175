# SPDX-License-Identifier: Apache-2.0
"""Exports of committed results, read as their readers do; compare.py itself where it is installed.

Google Benchmark's compare.py is Debian's package libbenchmark-tools.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from plots.load import load_result
from tests.support import ROOT, captured, kmeans_bench, needs_program, says

RESULTS = ROOT / "results" / "reference-epyc-2core-avx512"
COMPARE = Path(os.environ.get("COMPARE_PY", "/usr/share/benchmark/compare.py"))
SLOWER = 2.0

pytestmark = needs_program


def export(*arguments: str | Path, status: int = 0) -> tuple[str, str]:
    """What `export` writes to standard output and standard error."""
    run = kmeans_bench("export", *arguments, status=status)
    return run.stdout, run.stderr


def unsteady_cells(file: Path) -> set[str]:
    """Keys of the cells without a headline number, by the rule that the plots follow."""
    return {cell.key for cell in load_result(file).cells if cell.data["unsteady"]}


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def parse(text: str) -> Any:
    """JSON as JSON.parse of a browser takes it: no NaN, no Infinity."""
    return json.loads(text, parse_constant=refuse_constant)


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The committed goldsborough2017, every sample slower by a known factor."""
    result = json.loads((RESULTS / "goldsborough2017.json").read_text(encoding="utf-8"))
    for cell in result["cells"]:
        cell["samples_seconds_per_iteration"] = [
            [SLOWER * value for value in process]
            for process in cell["samples_seconds_per_iteration"]
        ]
        times = cell["seconds_per_iteration"]
        if times:
            for key, value in times.items():
                times[key] = None if value is None else SLOWER * value
            cell["gflops"] /= SLOWER
            for derived in ("gflops_2nkd", "gbytes_per_second", "whole_call_seconds"):
                cell.pop(derived, None)
    file = tmp_path_factory.mktemp("slower") / "goldsborough2017.json"
    file.write_text(json.dumps(result), encoding="utf-8")
    return file


@pytest.mark.skipif(not COMPARE.is_file(), reason="no compare.py here (package libbenchmark-tools)")
def test_compare_py_reads_the_google_form(slower: Path, tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    base, new = tmp_path / "base.json", tmp_path / "new.json"
    export(RESULTS / "goldsborough2017.json", "--format", "google-benchmark", "--out", base)
    export(slower, "--format", "google-benchmark", "--out", new)
    dump = tmp_path / "difference.json"
    run = captured([sys.executable, COMPARE, "--no-color", "-d", dump, "benchmarks", base, new])
    assert run.returncode == 0, run.stderr
    rows = {row["name"]: row for row in json.loads(dump.read_text(encoding="utf-8"))}
    recorded = json.loads((RESULTS / "goldsborough2017.json").read_text(encoding="utf-8"))
    unsteady = unsteady_cells(RESULTS / "goldsborough2017.json")
    assert not any(key.removeprefix("goldsborough2017/") in unsteady for key in rows)
    timed = [
        cell for cell in recorded["cells"] if cell["status"] == "ok" and cell["key"] not in unsteady
    ]
    tested = 0
    for cell in timed:
        samples = list(itertools.chain(*cell["samples_seconds_per_iteration"]))
        row = rows["goldsborough2017/" + cell["key"]]
        assert len(row["measurements"]) == len(samples)
        for measurement in row["measurements"]:
            assert measurement["time"] == pytest.approx(SLOWER - 1)
        if len(samples) >= 9 and max(samples) < SLOWER * min(samples):
            # No sample of one file reaches into the other: the smallest p there is.
            assert row["utest"]["have_optimal_repetitions"]
            assert row["utest"]["time_pvalue"] < 0.001
            tested += 1
    assert tested >= 5
    assert len(rows) == len(timed) + 1
    assert rows["OVERALL_GEOMEAN"]["measurements"][0]["time"] == pytest.approx(SLOWER - 1)
    assert "U Test, Repetitions: 9 vs 9" in run.stdout


@pytest.mark.skipif(not COMPARE.is_file(), reason="no compare.py here (package libbenchmark-tools)")
def test_compare_py_compares_two_variants_of_one_file(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    file = tmp_path / "all.json"
    export(RESULTS / "goldsborough2017.json", "--format", "google-benchmark", "--out", file)
    run = captured(
        [sys.executable, COMPARE, "--no-color", "filters", file, "cpu_naive/f32", "cpu_simd/f32"]
    )
    assert run.returncode == 0, run.stderr
    assert "[cpu_naive/f32 vs. cpu_simd/f32]/blobs-100000x2-k5-s1" in run.stdout


def test_the_forms_of_trackers_come_from_the_csv_as_documented() -> None:
    """docs/exports.md shows how."""
    text, _ = export(RESULTS, "--format", "csv")
    page = (ROOT / "docs" / "exports.md").read_text(encoding="utf-8")
    program = page.split("python3 -c '")[1].split("'")[0]
    run = captured([sys.executable, "-c", program], input=text, check=True)
    entries = parse(run.stdout)
    rows = [
        r for r in csv.DictReader(io.StringIO(text)) if r["status"] == "ok" and not r["unsteady"]
    ]
    assert [entry["name"] for entry in entries] == [f"{r['experiment']}/{r['key']}" for r in rows]
    assert len({entry["name"] for entry in entries}) == len(entries) > 0
    for entry, row in zip(entries, rows, strict=True):
        assert entry["unit"] == "ms"
        assert entry["value"] == pytest.approx(1e3 * float(row["seconds_per_iteration"]))


def test_csv_has_every_cell_once() -> None:
    text, _ = export(RESULTS, ROOT / "results" / "nvidia-h200", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    cells = 0
    for file in (*RESULTS.glob("*.json"), *(ROOT / "results" / "nvidia-h200").glob("*.json")):
        cells += len(json.loads(file.read_text(encoding="utf-8"))["cells"])
    assert len(rows) == cells
    for row in rows:
        assert None not in row
        steady = row["status"] == "ok" and not row["unsteady"]
        assert steady == bool(row["seconds_per_iteration"])
        assert (row["status"] == "ok") == (not row["reason"])
        assert not any(value.startswith(("=", "+", "-", "@")) for value in row.values())


def test_what_is_not_for_publication_is_said_once(tmp_path: Path) -> None:
    names = ("goldsborough2017", "ladder")
    for name in names:
        result = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        result["context"]["suite"]["git_dirty"] = name == "ladder"
        (tmp_path / f"{name}.json").write_text(json.dumps(result), encoding="utf-8")
    _, error = export(tmp_path, "--format", "csv")
    warnings = [line for line in error.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 1
    assert says(warnings[0], "not for publication", "ladder")
    assert "warning" not in export(tmp_path, "--format", "csv", "--only", "^goldsborough")[1]


def test_out_replaces_the_file_and_leaves_standard_output_alone(tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    file.write_text("old", encoding="utf-8")
    text, _ = export(RESULTS / "ladder.json", "--format", "google-benchmark", "--out", file)
    assert text == ""
    assert parse(file.read_text(encoding="utf-8"))["benchmarks"]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["results/nothing", "--format", "csv"], 2, "nothing"),
        (["ladder", "--format", "xml"], 2, "xml"),
        (["ladder", "--format", "csv", "--only", "no-such-cell"], 2, "matches nothing"),
        (["ladder", "--format", "google-benchmark", "--only", "cuda"], 2, "none is ok"),
        (["ladder", "--format", "csv", "--out", "/proc/no/such/file"], 5, "/proc"),
    ],
)
def test_bad_requests_say_why(arguments: list[str], status: int, message: str) -> None:
    given = [str(RESULTS / "ladder.json") if one == "ladder" else one for one in arguments]
    _, error = export(*given, status=status)
    assert message in error
