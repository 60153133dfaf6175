# SPDX-License-Identifier: Apache-2.0
"""The first screen of index and report: what it embeds, and what it answers in a browser."""

from __future__ import annotations

import copy
import json
import re
import urllib.parse
from pathlib import Path
from typing import Any

import browser
import pytest
import synthetic
from synthetic import Json

from plots import derived, index, leaderboard, metrics, report
from plots.__main__ import machine_folders
from plots.load import load_folder
from plots.report import write_page, write_report
from plots.words import TIMES
from tests.support import ROOT, captured, find_program, told_to_skip

MEGABYTES = 3.0
MULTIPLICATIONS = 1e7  # until the first answer
EXPERIMENT: Json = {
    "name": "grid",
    "title": "A grid",
    "data": {"generator": "blobs", "seed": 1, "k": "sweep"},
    "init": "random:1",
    "variants": [
        "openmp_exact",
        "cpu_a",
        "python_x",
        "cuda_exact",
        {"variant": "cuda_z", "precision": "f16"},
    ],
    "baseline": "cpu_a",
    "scales": {
        "quick": {
            "sweep": {"n": [10_000, 100_000, 1_000_000], "d": [2, 16, 128], "k": [4, 64]},
            "iterations": 10,
        }
    },
    "figures": [
        {"id": "winners", "kind": "winners", "x": "k", "y": "n", "where": {"d": [16]}, "title": "W"}
    ],
}
TABLE = """[...document.querySelectorAll("#board-%s tbody tr")].map((row) =>
  [...row.cells].map((cell) => cell.innerText.replaceAll("\\u00a0", " ").trim()))"""
SAID = "document.getElementById('said').innerText.replaceAll('\\u00a0', ' ')"
DRAWN = """new Promise((done) => { const look = () =>
  document.getElementById("chart").hasAttribute("data-drawn") ? done(true) : setTimeout(look, 20);
  look(); })"""
AFTER = "new Promise((done) => setTimeout(done, 100))"  # DataTables sorts when the click is over
HOSTILE = "<img src=x onerror=\"document.title='taken'\">"


def _steady(data: Json) -> Json:
    """All cells ok, and openmp_exact always the fastest exact one on a CPU."""
    made = synthetic.result(EXPERIMENT)
    cells = [
        synthetic.cell("grid", c["variant"], c["precision"], (c["n"], c["d"], c["k"]), 10)
        for c in made["cells"]
    ]
    return made | {"cells": cells, "planned_cells": len(cells)} | data


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two machines, the second of which has a hostile name and lacks what the first has at 64."""
    root = tmp_path_factory.mktemp("results")
    one, two = _steady({}), _steady({})
    two["cells"] = [c for c in two["cells"] if c["k"] == 4 and not c["gpu"]]
    two["planned_cells"] = len(two["cells"])
    two["context"]["machine"]["cpu"]["model"] = HOSTILE
    two["context"]["machine"]["gpus"] = []
    for name, data in (("one", one), ("two", two)):
        synthetic.write(root / name, data)
        write_report(load_folder(root / name), root / name)
    index.write_index({root / name: load_folder(root / name) for name in ("one", "two")}, root)
    return root


def _visit(page: browser.Browser, path: Path, **chosen: Any) -> None:
    choice = "&".join(f"{key}={value}" for key, value in chosen.items())
    page.visit(path.as_uri() + (f"#{choice}" if choice else ""))


def _cell(results: Path, variant: str, shape: tuple[int, int, int]) -> Any:
    (result,) = load_folder(results / "one")
    return next(c for c in result.cells if c.variant == variant and c.shape == shape)


def _shown(text: str) -> float:
    shown, unit = re.match(r"([\d.]+) (\S+)", text).groups()
    return float(shown) * {"ms": 1e-3, "µs": 1e-6, "s": 1}[unit]


def _type(page: browser.Browser, name: str, text: str) -> None:
    page.run(
        f"(() => {{ const box = document.querySelector('#pick [name={name}]');"
        f" box.value = {text!r};"
        " box.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


# --- What is embedded ------------------------------------------------------------------------


def test_every_verified_cell_is_in_and_no_other(tmp_path: Path) -> None:
    data = synthetic.result(EXPERIMENT)
    synthetic.write(tmp_path / "m", data)
    loaded = load_folder(tmp_path / "m")
    board = leaderboard.assemble({tmp_path / "m": loaded}, tmp_path)
    ok = [cell for cell in loaded[0].cells if cell.status == "ok"]
    assert len(ok) < len(loaded[0].cells)
    assert sum(len(problem["rows"]) for problem in board["problems"]) == len(ok)
    assert len(board["problems"]) == 18


def test_an_unsteady_cell_counts_with_its_slowest_process_and_makes_no_model(
    tmp_path: Path,
) -> None:
    data = _steady({})
    for cell in data["cells"]:
        if cell["variant"] == "cpu_a":
            synthetic.resample(cell, [[1.0], [2.0], [4.0]])
            cell["unsteady"] = ["its processes disagree"]
    synthetic.write(tmp_path / "m", data)
    board = leaderboard.assemble({tmp_path / "m": load_folder(tmp_path / "m")}, tmp_path)
    name = [row[0] for row in board["names"]].index("cpu_a")
    rows = [row for problem in board["problems"] for row in problem["rows"] if row[0] == name]
    assert len(rows) == 18
    assert all(row[4] == 4.0 and row[11] == "unsteady" for row in rows)
    assert all(model["row"][0] != name for model in board["models"])


def test_advise_marks_who_is_unsteady(tmp_path: Path) -> None:
    program = find_program()
    if program is None:
        assert told_to_skip("program"), "KMEANS_BENCH names the program"
        pytest.skip("no program")
    data = _steady({})
    for cell in data["cells"]:
        if cell["variant"] == "openmp_exact":
            synthetic.resample(cell, [[1.0], [2.0], [4.0]])
            cell["unsteady"] = ["its processes disagree"]
    synthetic.write(tmp_path / "m", data)
    command = [program, "advise", "--n=1e5", "--d=16", "-k64", "--machine", tmp_path / "m"]
    told = captured(command, check=True).stdout
    marked = [
        line.split()[0]
        for line in told.splitlines()
        if line.endswith("; unsteady: its slowest process")
    ]
    assert marked == ["openmp_exact"]


def test_several_gpus_are_a_row_and_a_model_of_their_own(tmp_path: Path) -> None:
    data = _steady({})
    shapes = sorted({(c["n"], c["d"], c["k"]) for c in data["cells"]})
    for shape in shapes:
        for gpus in (1, 2):
            made = synthetic.cell("grid", "cuda_many", "f32", shape, 10, threads=1, gpus=gpus)
            synthetic.retime(made, 1.0 / gpus)
            data["cells"].append(made)
    data["planned_cells"] = len(data["cells"])
    data["context"]["ceilings"]["gpu"] = synthetic.gpu_ceilings()
    synthetic.write(tmp_path / "m", data)
    board = leaderboard.assemble({tmp_path / "m": load_folder(tmp_path / "m")}, tmp_path)
    name = [row[0] for row in board["names"]].index("cuda_many")
    rows = [row for problem in board["problems"] for row in problem["rows"] if row[0] == name]
    assert {(row[3], row[4]) for row in rows} == {("GPU", 1.0), ("2 GPUs", 0.5)}
    limits = {m["row"][3]: m["limits"] for m in board["models"] if m["row"][0] == name}
    assert limits.keys() == {"GPU", "2 GPUs"}
    assert limits["2 GPUs"][:4] == [2 * one if one else None for one in limits["GPU"][:4]]
    assert limits["2 GPUs"][4] == limits["GPU"][4]


def test_the_report_shows_the_limits_that_advise_takes(tmp_path: Path) -> None:
    """A GPU's above all, then the last measured ones."""
    made = [_steady({"experiment": name}) for name in ("old", "gpu", "new")]
    for minute, data in enumerate(made):
        data["spec"] = data["spec"] | {"name": data["experiment"]}
        context = copy.deepcopy(data["context"]) | {"started": f"2026-01-02T03:0{minute}:00Z"}
        data["context"] = context
        context["ceilings"]["gpu"] = synthetic.gpu_ceilings() if minute == 1 else None
        synthetic.write(tmp_path / "m", data)
    hashes = {result.path: result.sha256 for result in load_folder(tmp_path / "m")}
    assert derived.newest_of(hashes) == "gpu.json"
    del hashes[tmp_path / "m" / "gpu.json"]
    assert derived.newest_of(hashes) == "new.json"


def test_what_is_written_for_several_is_not_recommended_alone(tmp_path: Path) -> None:
    data = _steady({})
    for shape in sorted({(c["n"], c["d"], c["k"]) for c in data["cells"]}):
        made = synthetic.cell("grid", "mpi_exact", "f32", shape, 10, threads=1)
        synthetic.retime(made, 1.0)
        data["cells"].append(made)
    data["planned_cells"] = len(data["cells"])
    synthetic.write(tmp_path / "m", data)
    board = leaderboard.assemble({tmp_path / "m": load_folder(tmp_path / "m")}, tmp_path)
    name = [row[0] for row in board["names"]].index("mpi_exact")
    rows = [row for problem in board["problems"] for row in problem["rows"] if row[0] == name]
    assert rows
    assert all(row[13] for row in rows)
    assert all(model["row"][0] != name for model in board["models"])


def test_machines_of_one_name_are_kept_apart(tmp_path: Path) -> None:
    one, four, other = _steady({}), _steady({}), _steady({})
    four["context"]["machine"]["gpus"] = 4 * one["context"]["machine"]["gpus"]
    other["context"]["machine"]["cpu"]["model"] = "Other"
    for name, data in (("one", one), ("four", four), ("other", other)):
        synthetic.write(tmp_path / name, data)
    folders = {tmp_path / name: load_folder(tmp_path / name) for name in ("one", "four", "other")}
    names = [machine["name"] for machine in leaderboard.assemble(folders, tmp_path)["machines"]]
    assert names[0].startswith("one (")
    assert names[1] == names[0].replace("one (", "four (")
    assert names[2].endswith("Other")


def test_limits_are_those_of_the_last_run_that_measured_them(tmp_path: Path) -> None:
    """Runs of one machine have measured its ceilings apart, in whatever order they are read."""
    one, two, none = (_steady({"experiment": name}) for name in ("zfirst", "later", "last"))
    for minute, data in enumerate((one, two, none)):
        data["spec"] = data["spec"] | {"name": data["experiment"]}
        data["context"] = copy.deepcopy(data["context"]) | {
            "started": f"2026-01-02T03:0{minute}:00Z"
        }
    none["context"]["ceilings"] = {"fma_gflops": None}
    two["context"]["ceilings"]["read_gbytes_per_second"] *= 2
    two["context"]["ceilings"]["fma_gflops"] = {
        key: 2 * value for key, value in two["context"]["ceilings"]["fma_gflops"].items()
    }
    for data in (one, two, none):
        synthetic.write(tmp_path / "m", data)
    loaded = load_folder(tmp_path / "m")
    boards = [
        leaderboard.assemble({tmp_path / "m": results}, tmp_path)
        for results in (loaded, loaded[::-1])
    ]
    limits = [
        {(*names_of(board, model),): model["limits"] for model in board["models"]}
        for board in boards
    ]
    assert limits[0] == limits[1]
    assert len(limits[0]) >= 2
    used = {some[1] for some in limits[0].values()}
    first, last = (data["context"]["ceilings"]["read_gbytes_per_second"] for data in (one, two))
    assert used & {first, last} == {last}


def names_of(board: Json, model: Json) -> tuple[str, str, str]:
    """Variant, precision and where it runs."""
    name, precision, _, on = model["row"]
    return board["names"][name][0], precision, on


def test_data_cannot_end_its_element() -> None:
    text = leaderboard.embedded({"name": "</script><b>"})
    assert "<" not in text
    assert json.loads(text) == {"name": "</script><b>"}


def test_a_source_is_linked_from_pages_of_the_suite_alone(tmp_path: Path) -> None:
    link = leaderboard.source_of("cpu_naive", ROOT / "results" / "somewhere")
    assert link == "../../implementations/cpu/cpu_naive.cpp"
    assert leaderboard.source_of("cpu_naive", tmp_path) is None
    assert leaderboard.source_of("cpu_a", ROOT / "results") is None


def test_without_the_libraries_the_rest_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(leaderboard, "itables", None)
    synthetic.write(tmp_path / "m", _steady({}))
    loaded = load_folder(tmp_path / "m")
    for text in (report.render(loaded), index.render({tmp_path / "m": loaded})):
        assert "board-data" not in text
        assert "A grid" in text or "Machines" in text
    assert "without itables" in capsys.readouterr().err


# --- What is answered ------------------------------------------------------------------------


def test_a_measured_shape_is_answered_by_its_own_times(
    page: browser.Browser, results: Path
) -> None:
    cell = _cell(results, "openmp_exact", (100_000, 16, 64))
    # The run had ten iterations.
    for steps, basis in (
        (10, "measured"),
        (20, f"scaled from 10 iterations on blobs, within {TIMES}1.20"),
    ):
        _visit(page, results / "index.html", m="one", n="1e5", d=16, k=64, t=steps, on="cpu")
        said = page.run(SAID)
        assert f"100 000 {TIMES} 16, k = 64" in said
        first = f"openmp_exact f32 is the quickest exact one: a fit of {steps} iterations takes"
        assert first in said
        assert f"an iteration, {basis.split(',')[0]}" in said
        assert ("nine of ten times within" in said) == (steps == 20)
        assert "(grid, blobs, 10 iterations)" in said
        row = page.run(TABLE % "exact")[0]
        assert row[0] == "openmp_exact f32"
        assert _shown(row[1]) == pytest.approx(metrics.whole_call_seconds(cell, steps), rel=6e-3)
        assert _shown(row[2]) == pytest.approx(cell.seconds.mid, rel=6e-3)
        assert row[2].endswith(basis)


def test_what_fit_runs_is_said_where_another_is_quicker(
    page: browser.Browser, tmp_path: Path
) -> None:
    data = _steady({})
    for cell in data["cells"]:
        if cell["variant"] != "openmp_exact":
            continue
        other = copy.deepcopy(cell)
        other["variant"] = "openmp_best"
        other["key"] = other["key"].replace("openmp_exact", "openmp_best")
        synthetic.resample(
            other, [[2 * s for s in one] for one in cell["samples_seconds_per_iteration"]]
        )
        data["cells"].append(other)
    data["planned_cells"] = len(data["cells"])
    synthetic.write(tmp_path / "m", data)
    loaded = load_folder(tmp_path / "m")
    index.write_index({tmp_path / "m": loaded}, tmp_path)
    times = {
        cell.variant: metrics.whole_call_seconds(cell, 300)
        for cell in loaded[0].cells
        if cell.shape == (100_000, 16, 64) and cell.variant in ("openmp_exact", "openmp_best")
    }
    _visit(page, tmp_path / "index.html", m="m", n="1e5", d=16, k=64, t=300, on="cpu")
    said = re.sub(r"\s+", " ", page.run(SAID))
    found = re.search(
        r"Without --variant, kmeans-bench fit runs openmp_best f32: ([\d.]+) times", said
    )
    assert found, said
    assert float(found[1]) == pytest.approx(times["openmp_best"] / times["openmp_exact"], rel=6e-3)
    assert "times as long, scaled from 10 iterations on blobs." in said
    # Where it is the quickest, nothing has to be said.
    for cell in data["cells"]:
        if cell["variant"] == "openmp_best":
            synthetic.resample(
                cell, [[s / 8 for s in one] for one in cell["samples_seconds_per_iteration"]]
            )
    synthetic.write(tmp_path / "m", data)
    index.write_index({tmp_path / "m": load_folder(tmp_path / "m")}, tmp_path)
    page.visit("about:blank")
    _visit(page, tmp_path / "index.html", m="m", n="1e5", d=16, k=64, t=300, on="cpu")
    said = page.run(SAID)
    assert "openmp_best f32 is the quickest exact one" in said
    assert "--variant" not in said


def test_exact_certified_and_approximate_are_apart(page: browser.Browser, results: Path) -> None:
    _visit(page, results / "index.html", m="one", n=100000, d=16, k=64)
    found = {
        kind: {row[0].split()[0] for row in page.run(TABLE % kind)} for kind in leaderboard.KINDS
    }
    assert found == {
        "exact": {"openmp_exact", "cuda_exact"},
        "certified": {"cpu_a", "python_x"},
        "approximate": {"cuda_z"},
    }


def test_another_shape_is_predicted_and_the_nearest_named_with_its_distance(
    page: browser.Browser, results: Path
) -> None:
    _visit(page, results / "index.html", m="one", n="50k", d=32, k=50)
    said = page.run(SAID)
    assert "predicted" in said
    assert "Nothing was measured at exactly this shape" in said
    assert f"100 000 {TIMES} 16, k = 64 (grid, blobs)" in said
    assert "n 2.00 times larger, d 2.00 times smaller, k 1.28 times larger" in said


def test_choice_stays_in_the_address(page: browser.Browser, results: Path) -> None:
    _visit(page, results / "index.html")
    assert page.run("location.hash") == ""  # until something is chosen
    _type(page, "n", "2M")
    _type(page, "on", "cpu")
    kept = page.run("location.href")
    before = page.run(SAID)
    page.visit("about:blank")
    page.visit(kept)
    assert page.run("document.querySelector('#pick [name=n]').value") == "2M"
    assert page.run("document.querySelector('#pick [name=on]').value") == "cpu"
    assert page.run(SAID) == before
    assert page.complaints == []


def test_another_measured_shape_can_be_set_next_to_it(page: browser.Browser, results: Path) -> None:
    _visit(page, results / "index.html", m="one", n=50000, d=32, k=50)
    page.run(
        "(() => { const near = document.getElementById('near'); near.selectedIndex = 3;"
        " near.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    wanted = page.run("document.getElementById('near').selectedOptions[0].text.split(':')[0]")
    assert wanted.replace("\u00a0", " ") in page.run(SAID)
    kept = page.run("location.href")
    page.visit("about:blank")
    page.visit(kept)
    assert page.run("document.getElementById('near').selectedOptions[0].text").startswith(wanted)


def test_filters_and_sorting(page: browser.Browser, results: Path) -> None:
    _visit(page, results / "index.html", m="", n=100000, d=16, k=4)
    rows = page.run(TABLE % "exact")
    assert {row[1] for row in rows} == {
        "one",
        "two",
    }  # a column of machines where there are several
    _type(page, "on", "gpu")
    assert {row[0] for row in page.run(TABLE % "exact")} == {"cuda_exact f32"}
    _type(page, "on", "")
    page.run(
        "(() => { const box = document.querySelector('#ranking-exact input'); box.value = 'two';"
        " box.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    assert {row[1] for row in page.run(TABLE % "exact")} == {"two"}
    heading = "#board-certified thead th:first-child"
    page.click(heading)
    page.run(AFTER)
    names = [row[0] for row in page.run(TABLE % "certified")]
    assert names == sorted(names)
    page.click(heading)
    page.run(AFTER)
    assert [row[0] for row in page.run(TABLE % "certified")] == sorted(names, reverse=True)
    assert page.complaints == []


def test_what_is_not_a_size_is_said(page: browser.Browser, results: Path) -> None:
    _visit(page, results / "index.html", m="one", n=100000, d=16, k=64)
    for name, text in (("n", "many"), ("k", "1e9"), ("d", "0")):
        _type(page, name, text)
        assert "k at most n" in page.run(SAID)
        assert not page.run("document.getElementById('ranking-exact').checkVisibility()")
    for name, text in (("n", "0.1M"), ("k", "64"), ("d", "16")):
        _type(page, name, text)
    assert "Measured at exactly this shape" in page.run(SAID)
    assert page.run("document.getElementById('ranking-exact').checkVisibility()")


def test_names_of_a_result_stay_texts(page: browser.Browser, results: Path) -> None:
    _visit(page, results / "index.html", m="two", n=100000, d=16, k=4)
    assert HOSTILE in page.run(SAID)
    assert page.run("document.title") == "kmeans-bench: all machines"
    assert page.run("document.querySelectorAll('img').length") == 0
    assert page.complaints == []


def test_the_chart_is_drawn_and_reports_what_is_under_the_mouse(
    page: browser.Browser, results: Path
) -> None:
    _visit(page, results / "index.html", m="one", n=100000, d=16, k=64)
    assert page.run(DRAWN)
    box = page.run(
        "(() => { const p = document.querySelector('#chart .mark-symbol.role-mark path');"
        " p.scrollIntoView({block: 'center'}); const b = p.getBoundingClientRect();"
        " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
    )
    page.send("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])
    told = page.run("document.getElementById('vg-tooltip-element').innerText")
    assert re.search(r"k = (4|64)", told)
    assert "limit" in told
    assert page.complaints == []


def test_maps_are_those_of_the_chosen_machine(page: browser.Browser, results: Path) -> None:
    _visit(page, results / "index.html", m="two", n=100000, d=16, k=4)
    shown = "[...document.querySelectorAll('figure[data-machine]')].filter((f) => !f.hidden)"
    assert set(page.run(f"{shown}.map((f) => f.dataset.machine)")) == {"two"}
    _type(page, "m", "")
    assert set(page.run(f"{shown}.map((f) => f.dataset.machine)")) == {"one", "two"}


@pytest.mark.parametrize("width", [390, 1280])
def test_the_answer_fits_the_first_screen(page: browser.Browser, results: Path, width: int) -> None:
    for path in (results / "index.html", results / "one" / "report.html"):
        page.visit(path.as_uri(), width, 844)
        bottom = page.run("document.getElementById('said').getBoundingClientRect().bottom")
        assert 0 < bottom <= 844, path.name
        small = page.run(
            "[...document.querySelectorAll('#answer label, #answer td, #said')]"
            ".map((e) => parseFloat(getComputedStyle(e).fontSize)).reduce((a, b) => Math.min(a, b))"
        )
        assert small >= 12
        assert page.complaints == []


def recommended(told: str) -> str:
    """Whom `advise` names at its end."""
    return re.search(r" --variant (\S+)", told.splitlines()[-1]).group(1)


def test_page_and_program_recommend_the_same(page: browser.Browser, tmp_path: Path) -> None:
    """Over the committed results: shapes on file, shapes between them, and far ones."""
    program = find_program()
    if program is None:
        assert told_to_skip("program"), "KMEANS_BENCH names the program"
        pytest.skip("no program")
    names = ("reference-epyc-2core-avx512", "nvidia-h100-x4")
    folders = {f: load_folder(f) for f in (ROOT / "results" / name for name in names)}
    path = write_page(tmp_path / "index.html", index.render(folders))
    # The first and the last on file, and three others: one near those on file, one far, one small.
    others = [(273_280, 3, 64), (2_000_000, 96, 1000), (500_000, 200, 128), (3_000_000, 3, 9)]
    for folder, results in folders.items():
        shapes = sorted({c.shape for r in results for c in r.cells})
        for n, d, k in [shapes[0], shapes[-1], *others]:
            command = [program, "advise", f"--n={n}", f"--d={d}", f"-k{k}", "--machine", folder]
            told = captured(command, check=True).stdout
            _visit(page, path, m=folder.name, n=n, d=d, k=k)
            said = page.run("document.querySelector('#said .winner')?.innerText")
            first = re.search(r"^Exact.*\n.*\n +(\S+) ", told, re.M)
            named = said.split()[0] if said else None
            # What no file shows, a program that has the variant knows: it says why it is left out.
            left_out = re.findall(r"^  (\w+) \S+: \S", told.partition("\nLeft out\n")[2], re.M)
            if named not in left_out:
                assert named == (first.group(1) if first else None), (folder.name, n, d, k)
            if folder.name == "nvidia-h100-x4":
                # It keeps points on the chip: what is too much for it, files of that chip refused.
                rows = {row[0].split()[0] for row in page.run(TABLE % "exact")}
                assert ("cuda_resident" in rows) == ((n, d, k) in [shapes[0], others[0]])


def test_predictions_are_those_of_advise(page: browser.Browser, results: Path) -> None:
    program = find_program()
    if program is None:
        assert told_to_skip("program"), "KMEANS_BENCH names the program"
        pytest.skip("no program")
    compared = 0
    for n, d, k in ((30_000, 8, 16), (400_000, 100, 30), (1_000_000, 2, 64)):
        folder = results / "one"
        command = [program, "advise", f"--n={n}", f"--d={d}", f"-k{k}", "--machine", folder]
        told = captured(command, check=True).stdout
        _visit(page, results / "index.html", m="one", n=n, d=d, k=k)
        assert page.run(SAID).split(" on ")[1].split(": ")[1].split()[0] == recommended(told)
        for kind in leaderboard.KINDS:
            for row in page.run(TABLE % kind):
                shown = re.match(r"([\d.]+ \S+)\s+predicted, within .([\d.]+)", row[2])
                line = next(x for x in told.splitlines() if x.split()[:2] == row[0].split()[:2])
                if shown is None:  # measured
                    continue
                seconds, factor = shown.groups()
                assert seconds.split()[1].replace("µ", "u") in line
                numbers = [float(x) for x in re.findall(r"(?<= )[\d.]+(?= )", line)]
                assert any(
                    x == pytest.approx(float(seconds.split()[0]), rel=0.006) for x in numbers
                )
                assert any(x == pytest.approx(float(factor), abs=0.011) for x in numbers)
                compared += 1
    assert compared >= 6


def test_page_and_program_agree_on_a_kind_of_data(page: browser.Browser, tmp_path: Path) -> None:
    """Normal points were measured with few clusters alone, in short runs and in long ones."""
    program = find_program()
    if program is None:
        assert told_to_skip("program"), "KMEANS_BENCH names the program"
        pytest.skip("no program")
    synthetic.write(tmp_path / "m", _steady({}))
    normal = EXPERIMENT | {"name": "normal", "data": {"generator": "gaussian", "seed": 1}}
    made = synthetic.result(normal)
    cells = [
        synthetic.cell("normal", c["variant"], c["precision"], (c["n"], c["d"], c["k"]), steps)
        for c in made["cells"]
        if c["k"] == 4
        for steps in (10, 40)
    ]
    synthetic.write(tmp_path / "m", made | {"cells": cells, "planned_cells": len(cells)})
    loaded = load_folder(tmp_path / "m")
    path = write_page(tmp_path / "index.html", index.render({tmp_path / "m": loaded}))
    bases = set()
    for k, steps, kind in (
        (64, 10, "gaussian"),
        (4, 10, "gaussian"),
        (4, 100, "gaussian"),
        (4, 10, "blobs"),
        (16, 100, "gaussian"),
        (16, 100, "blobs"),
    ):
        command = [program, "advise", "--n=1e5", "--d=16", f"-k{k}", "--machine", tmp_path / "m"]
        command += ["--iterations", str(steps), "--data", kind]
        told = captured(command, check=True).stdout
        _visit(page, path, m="m", n=100_000, d=16, k=k, t=steps, kind=kind)
        assert page.run(SAID).split(" on ")[1].split(": ")[1].split()[0] == recommended(told)
        for name, _, _, iteration, factor, *_, basis in (
            re.split(r"\s{2,}", line.strip())
            for line in told.splitlines()
            if re.match(r"  \w+ +(f32|f16) ", line)
        ):
            rows = (row for kind in leaderboard.KINDS for row in page.run(TABLE % kind))
            (shown,) = {row[2] for row in rows if row[0].split()[0] == name}
            seconds, rest = re.fullmatch(r"([\d.]+ \S+)\s+(.*)", shown).groups()
            own = _shown(iteration.replace("us", "µs"))
            assert _shown(seconds) == pytest.approx(own, rel=6e-3), (k, steps, kind, name)
            if basis.startswith(("measured", "scaled")):
                bases.add(basis.split(";")[0])
                assert rest.startswith(basis.split(";")[0])
            else:
                assert rest.startswith("predicted")
            if factor != "-":
                within = float(re.search(rf"within {TIMES}([\d.]+)", rest).group(1))
                assert within == pytest.approx(float(factor), abs=0.011)
    assert bases == {
        "measured",
        "scaled from 10 iterations on blobs",
        "scaled from 40 iterations on gaussian",
    }


# --- The page of the repository --------------------------------------------------------------


def test_the_index_of_the_committed_results_is_small_and_opens_at_once(
    page: browser.Browser, tmp_path: Path
) -> None:
    root = ROOT / "results"
    folders = {f: load_folder(f) for f in machine_folders(root)}
    path = write_page(tmp_path / "index.html", index.render(folders))
    assert path.stat().st_size <= MEGABYTES * 1e6
    page.visit(path.as_uri())
    assert page.run(SAID)
    assert page.complaints == []
    # Work, since a time would be that of the machine: the models of what is shown alone were
    # decomposed, each by a third of the cube of its problems in multiplications.
    answered = "performance.getEntriesByName('answered')[0]"
    models = page.run(f"{answered}.detail")
    assert len({machine for machine, _ in models}) == 1
    steps = sum(problems**3 / 3 for _, problems in models)
    seconds = page.run(f"{answered}.startTime / 1000")
    print(f"{steps:.3g} multiplications until the first answer, {seconds:.2f} s")
    assert 0 < steps < MULTIPLICATIONS
    for width in (390, 1280):
        page.visit(path.as_uri(), width, 844)
        assert page.run("document.scrollingElement.scrollWidth") <= width
    links = "[...document.querySelectorAll('table.board a')].map((a) => a.getAttribute('href'))"
    found = page.run(links)
    assert found
    for link in found:
        assert (root / urllib.parse.unquote(link)).is_file(), link
