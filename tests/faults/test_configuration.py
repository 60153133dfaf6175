# SPDX-License-Identifier: Apache-2.0
"""Faults 1 to 12 of README.md: experiments and options that are wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT


def _with(description: dict[str, Any], pointer: str, value: Any) -> dict[str, Any]:
    """The description with one value replaced or added, by JSON pointer."""
    changed = json.loads(json.dumps(description))
    *path, last = pointer.strip("/").split("/")
    place = changed
    for key in path:
        place = place[key]
    place[last] = value
    return changed


def _quick(n: list[int], k: list[int]) -> dict[str, Any]:
    return {"quick": {"sweep": {"n": n, "d": [2], "k": k}}}


# ---- 1 to 4: the text ----


@pytest.mark.parametrize(
    ("text", "place", "why"),
    [
        ('{\n "name": "demo",\n "title": ,\n}', "3:11", "unexpected ','"),
        ('{\n "name": "demo"\n', "3:1", "unexpected end of input"),
        ("", "1:1", "unexpected end of input"),
        ('{"name": "demo"}\n// done\n', "2:1", "invalid literal"),
        ('{"name": NaN}', "1:", "invalid literal"),
        ('{"name": "\\ud800"}', "1:", "surrogate"),
        ("[1e999]", "1:", "number overflow"),
    ],
)
def test_malformed_json_is_refused_with_line_and_column(
    bench, write, text: str, place: str, why: str
) -> None:
    file = write(text)
    message = bench.refusal("run", file, "--dry-run")
    assert message.startswith(f"kmeans-bench: {file}:{place}")
    assert why in message


def test_an_unknown_option_and_scale_are_refused(bench, write, experiment) -> None:
    file = write(experiment())
    refused = bench.refusal("run", file, "--sacle", "paper")
    assert "unknown '--sacle'; did you mean '--scale'?" in refused
    assert "unknown 'runn'; did you mean 'run'?" in bench.refusal("runn", file)
    assert "quick" in bench.refusal("run", file, "--scale", "papre")
    assert "has no scale 'paper'" in bench.refusal("run", file, "--scale", "paper")
    assert "did you mean 'goldsborough2017'?" in bench.refusal("run", "goldsbrough2017")


def test_what_is_near_nothing_is_refused_with_all_there_are(bench, write, experiment) -> None:
    file = write(_with(experiment(), "/scales/quick/sweep/watermelon", 5))
    assert "/watermelon: unknown key; known: n, d, k, iterations\n" in bench.refusal(
        "run", file, "--dry-run"
    )
    commands = (
        "list, best, advise, run, fit, verify, check, data, machine, compare, export, merge, "
        "reproduce, bundle, check-bundle"
    )
    assert f"unknown 'watermelon'; known: {commands}\n" in bench.refusal("watermelon")
    # Of options, all those that the help names; so for variants and what `list` names.
    named = re.findall(r"^ +(?:-\w,)?(--[a-z-]+)", bench("run", "--help").stdout, re.M)
    assert {"--scale", "--only", "--resume"} <= set(named)
    refused = bench.refusal("run", write(experiment()), "--watermelon")
    assert f"unknown '--watermelon'; known: {', '.join(named)}\n" in refused
    listed = json.loads(bench("list", "--json").stdout)["variants"]
    refused = bench.refusal("run", write(experiment(variants=["watermelon"])), "--dry-run")
    (known,) = re.findall(r"unknown variant 'watermelon'; known: (.+?) \(", refused)
    assert sorted(known.split(", ")) == sorted(variant["name"] for variant in listed)


# ---- 5 to 8: the sweep ----


def test_a_filter_that_matches_nothing_says_what_it_was_held_against(
    bench, write, experiment
) -> None:
    file = write(experiment(variants=["reference", "cpu_naive"]))
    name = json.loads(file.read_text())["name"]
    message = bench.refusal("run", file, "--only", "k77", "--dry-run")
    assert "--only 'k77' matches nothing" in message
    assert "of 1 experiment" in message
    for candidate in ("reference/f32/uniform-100x2-s1/k3/T3/t1", "cpu_naive/f32/"):
        assert f"{name}/{candidate}" in message
    assert len(message.splitlines()) <= 8


def test_a_filter_is_found_in_experiment_and_key_as_one(bench, write, experiment) -> None:
    """`zechner2009.*cpu_scalar` is what comes to mind first."""
    file = write(experiment(variants=["reference", "cpu_naive"]))
    name = json.loads(file.read_text())["name"]
    plan = bench("run", file, "--only", f"^{name}/cpu_.*k3", "--dry-run").stdout
    assert "cpu_naive/f32/uniform-100x2-s1/k3/" in plan
    assert "reference/" not in plan


def test_a_filter_of_the_suites_experiments_is_refused_in_a_dozen_lines(bench) -> None:
    names = sorted(path.stem for path in (ROOT / "experiments").glob("*20*.json"))
    message = bench.refusal("run", *names, "--only", "goldsborough2017.*cpu_naive_3d", "--dry-run")
    assert "goldsborough2017/cpu_naive_2d/f32/" in message
    assert len(message.splitlines()) <= 12
    assert "not a regular expression" in bench.refusal("run", *names, "--only", "(", "--dry-run")


def test_a_filter_must_be_a_regular_expression(bench, write, experiment) -> None:
    file = write(experiment(variants=["reference", "cpu_naive"]))
    assert "not a regular expression" in bench.refusal("run", file, "--only", "(", "--dry-run")


def test_sizes_below_one_are_refused_by_every_command(bench, tmp_path: Path) -> None:
    out = tmp_path / "points.npy"
    for axis in ("--n", "--d"):
        sizes = {"--n": "5", "--d": "2", axis: "0"}
        words = [word for pair in sizes.items() for word in pair]
        message = bench.refusal("data", "uniform", *words, "--out", out)
        assert f"/{axis[2:]}: 0 is not within [1, " in message
    assert not out.exists()
    assert bench("data", "uniform", "--n", "5", "--d", "2", "--out", out).returncode == 0
    for k in ("0", "-1"):
        message = bench.refusal("fit", out, "-k", k)
        assert f"-k {k}: must be from 1 to n = 5" in message


def test_more_clusters_than_points_alone_are_refused(
    bench, write, experiment, tmp_path: Path
) -> None:
    changed = experiment()
    changed["scales"]["quick"]["sweep"] = [{"n": 4, "d": 2, "k": 5}]
    message = bench.refusal("run", write(changed), "--dry-run")
    assert "/scales/quick/sweep/0/k: 5 clusters of n = 4 points" in message
    points = tmp_path / "points.npy"
    bench("data", "uniform", "--n", "5", "--d", "2", "--out", points)
    assert "-k 6: must be from 1 to n = 5" in bench.refusal("fit", points, "-k", "6")


def test_more_clusters_than_points_in_a_grid_are_skipped(
    bench, write, experiment, tmp_path: Path
) -> None:
    changed = _with(experiment(), "/scales/quick/sweep/k", [3, 150])
    result = bench.measure(write(changed), tmp_path / "out")
    cells = {cell["k"]: cell for cell in result["cells"]}
    assert result["complete"] is True
    assert cells[3]["status"] == "ok"
    assert cells[150]["status"] == "skipped"
    assert cells[150]["reason"] == "n = 100 points are fewer than k = 150 clusters"
    assert cells[150]["seconds_per_iteration"] is None


def test_a_huge_sweep_shows_its_size_and_needs_a_yes(bench, write, experiment) -> None:
    file = write(experiment(scales=_quick(list(range(11, 5012)), [1])))
    message = bench.refusal("run", file, "--dry-run")
    assert "has 5 001 cells, more than 5 000" in message
    assert re.search(r"would take very roughly \d+ h \d+ min; .*--yes", message)
    planned = bench("run", file, "--dry-run", "--yes")
    assert planned.returncode == 0
    assert re.search(r"5001 to run, 0 to skip, roughly \d+ (h|min)", planned.stdout)


def test_a_sweep_beyond_all_measure_is_refused_at_once(bench, write, experiment) -> None:
    grid = {"n": list(range(1, 301)), "d": list(range(1, 301)), "k": list(range(1, 12))}
    changed = experiment()
    changed["scales"]["quick"]["sweep"] = [grid, grid]
    message = bench.refusal("run", write(changed), "--dry-run", "--yes")
    assert "/scales/quick/sweep/1: " in message


# ---- 9 to 12: names, variants, size of the document ----


def test_two_experiments_for_one_result_file_are_refused(bench, experiment, tmp_path: Path) -> None:
    files = []
    for folder, seed in (("a", 1), ("b", 2)):
        (tmp_path / folder).mkdir()
        files.append(tmp_path / folder / "demo.json")
        data = {"generator": "uniform", "seed": seed}
        files[-1].write_text(json.dumps(experiment(data=data)), encoding="utf-8")
    message = bench.refusal("run", *files, "--dry-run")
    assert 'two different experiments are named "demo"' in message
    assert str(files[0]) in message
    assert str(files[1]) in message
    again = bench("run", files[0], files[0], "--dry-run")
    assert again.returncode == 0
    assert "demo is named twice" in again.stderr


def test_data_files_whose_names_look_alike_are_kept_apart(
    bench, write, experiment, tmp_path: Path
) -> None:
    names = ["a b.csv", "a_b.csv", "a+b.csv"]  # all become a_b in the name of a file
    for row, name in enumerate(names):
        (tmp_path / name).write_text(f"{row},0\n5,1\n7,2\n", encoding="utf-8")
    shape = {"variant": "reference", "k": 2, "iterations": 1, "init": "first"}
    changed = experiment(
        data={"file": str(tmp_path / names[0])},
        init="first",
        traces=[
            {"name": f"trace{i}", "data": {"file": str(tmp_path / name)}, **shape}
            for i, name in enumerate(names[1:])
        ],
    )
    changed["scales"]["quick"]["sweep"] = {"k": [2]}
    result = bench.measure(write(changed), tmp_path / "out")
    datasets = result["context"]["datasets"]
    assert sorted(Path(one["spec"]["file"]).name for one in datasets.values()) == sorted(names)
    assert all(label.startswith("a_b-") for label in datasets)
    assert len({one["sha256"] for one in datasets.values()}) == 3


def test_a_variant_that_cannot_be_loaded_is_skipped_with_the_reason(
    bench, write, experiment, tmp_path: Path
) -> None:
    points = tmp_path / "points.npy"
    bench("data", "uniform", "--n", "5", "--d", "2", "--out", points)
    nowhere = {"KMEANS_BENCH_PYTHON": str(tmp_path / "no-python")}
    file = write(experiment(variants=["python_numpy", "reference"]))
    planned = bench("run", file, "--dry-run", environment=nowhere)
    assert planned.returncode == 0
    assert re.search(r"skip  python_numpy/.*: .*no-python", planned.stdout)
    assert "run   reference/" in planned.stdout
    message = bench.refusal(
        "fit", points, "-k", "2", "--variant", "python_numpy", environment=nowhere, code=3
    )
    assert "python_numpy is not available here: " in message


def test_huge_documents_are_refused_before_they_are_read(bench, tmp_path: Path) -> None:
    file = tmp_path / "demo.json"
    with file.open("wb") as stream:
        stream.truncate(1 << 40)  # a hole of a tebibyte: nobody reads that by mistake
    message = bench.refusal("run", file, "--dry-run")
    assert "1 TiB are more than 16 MiB" in message


FIGURE = {"id": "a", "kind": "heatmpa", "title": "x"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"figures": [FIGURE]}, "/figures/0/kind: unknown value 'heatmpa'; did you mean 'heatmap'"),
        ({"published": [{"label": "l"}]}, "/published/0: lacks 'quantity'"),
        ({"claims": [{"id": "c"}]}, "/claims/0: lacks 'statement'"),
    ],
)
def test_what_plots_alone_reads_is_refused_before_anything_runs(
    bench, write, experiment, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    pytest.importorskip("jsonschema", reason="without it nothing is checked")
    out = tmp_path / "out"
    file = write(experiment(**changes))
    refused = bench.refusal("run", file, "--out", out)
    line, column = map(
        int, re.search(r"demo\.json:(\d+):(\d+): " + re.escape(message), refused).groups()
    )
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[line - 1][column - 1] in '{"'
    assert not out.exists()


def test_without_python_what_plots_reads_is_not_checked_and_said_so(
    bench, write, experiment
) -> None:
    file = write(experiment(figures=[FIGURE]))
    run = bench("run", file, "--dry-run", environment={"KMEANS_BENCH_PYTHON": "/usr/bin/false"})
    assert run.returncode == 0
    assert "not checked: /usr/bin/false" in run.stderr
