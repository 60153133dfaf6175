# SPDX-License-Identifier: Apache-2.0
"""Every kind of figure draws from whatever a run may leave behind."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import synthetic
from matplotlib.figure import Figure

from plots import figures
from plots.__main__ import main
from plots.load import Result, load_result
from plots.render import draw, encode, settle, with_caption

_NOT_CELLS = ("table", "convergence", "scatter")


def _load(folder: Path, data: dict[str, Any]) -> Result:
    return load_result(synthetic.write(folder, data))


@pytest.fixture
def data(small_experiment: dict[str, Any]) -> dict[str, Any]:
    return synthetic.result(small_experiment)


def test_every_kind_is_covered_here(small_experiment: dict[str, Any]) -> None:
    assert {f["kind"] for f in small_experiment["figures"]} == set(figures.KINDS)


@pytest.mark.parametrize("samples", [9, 3, 1])
def test_draws_with_and_without_a_confidence_interval(
    tmp_path: Path, data: dict[str, Any], small_experiment: dict[str, Any], samples: int
) -> None:
    for index, cell in enumerate(data["cells"]):
        data["cells"][index] = synthetic.cell(
            "small",
            cell["variant"],
            cell["precision"],
            (cell["n"], cell["d"], cell["k"]),
            10,
            samples=samples,
        )
    result = _load(tmp_path, data)
    for figure in result.figures:
        drawing = draw(result, figure)
        assert isinstance(drawing.picture, Figure), drawing.absent
        caption = " ".join(drawing.caption)
        if figure["kind"] in _NOT_CELLS or figure["kind"] == "stages":
            continue
        assert f"{samples} samples" in caption
        assert ("fewer than 6 samples" in caption) == (samples < 6)
        assert "Synthetic Processor" in caption
        assert "2 threads" in caption


@pytest.mark.parametrize("status", ["skipped", "wrong", "error"])
def test_one_cell_in_two_failed_leaves_gaps_and_says_so(
    tmp_path: Path, data: dict[str, Any], status: str
) -> None:
    for cell in data["cells"]:
        if cell["variant"] == "openmp_b" and cell["n"] == 100:
            synthetic.fail(cell, status)
    result = _load(tmp_path, data)
    for figure in result.figures:
        drawing = draw(result, figure)
        assert drawing.picture is not None, drawing.absent
        if figure["kind"] not in _NOT_CELLS:
            caption = " ".join(drawing.caption)
            assert f"No time: openmp_b f32, {status}" in caption
            assert "the reason of the test" in caption


def test_nothing_but_failures_still_draws_or_gives_a_reason(
    tmp_path: Path, data: dict[str, Any]
) -> None:
    for cell in data["cells"]:
        synthetic.fail(cell, "error")
    result = _load(tmp_path, data)
    for figure in result.figures:
        drawing = draw(result, figure)
        assert drawing.picture is not None or drawing.absent


def test_no_cells_no_traces(tmp_path: Path, data: dict[str, Any]) -> None:
    data |= {"cells": [], "traces": [], "complete": False}
    result = _load(tmp_path, data)
    for figure in result.figures:
        if figure["kind"] != "table":
            assert draw(result, figure).absent


def test_no_ceilings_no_limit_lines(tmp_path: Path, data: dict[str, Any]) -> None:
    ceilings = data["context"]["ceilings"]
    data["context"]["ceilings"] = dict.fromkeys(ceilings)
    result = _load(tmp_path, data)
    captions = {f["kind"]: " ".join(draw(result, f).caption) for f in result.figures}
    assert "were not measured" in captions["gflops"]
    assert "were not measured" in captions["gbytes"]
    assert "Limit" not in captions["bars"]


def test_a_speedup_names_its_baseline_threads_and_times(
    tmp_path: Path, data: dict[str, Any]
) -> None:
    result = _load(tmp_path, data)
    figure = next(f for f in result.figures if f["kind"] == "speedup")
    caption = " ".join(draw(result, figure).caption)
    assert "Baseline: cpu_a f32, 1 thread, per iteration" in caption
    assert "fastest one-thread f32 code of this run at" in caption
    assert "never averaged" in caption


def test_without_a_baseline_there_is_no_speedup(tmp_path: Path, data: dict[str, Any]) -> None:
    for cell in data["cells"]:
        if (cell["variant"], cell["precision"]) == ("cpu_a", "f32"):
            synthetic.fail(cell)
    result = _load(tmp_path, data)
    figure = next(f for f in result.figures if f["kind"] == "speedup")
    assert draw(result, figure).absent == "the baseline has no time in this run"


def test_lines_never_join_different_problems(tmp_path: Path, data: dict[str, Any]) -> None:
    """k varies and is no facet here: it must become one by itself."""
    result = _load(tmp_path, data)
    picture = draw(result, {"id": "x", "kind": "time", "x": "n", "title": "T"}).picture
    assert [ax.get_title(loc="left") for ax in picture.axes] == ["k = 2", "k = 5"]


def test_a_partial_run_is_watermarked(tmp_path: Path, data: dict[str, Any]) -> None:
    data |= {"complete": False, "planned_cells": 40}
    result = _load(tmp_path, data)
    picture = draw(result, result.figures[0]).picture
    assert "partial: 12 of 40 cells" in [text.get_text() for text in picture.texts]


def test_a_modified_build_is_not_for_publication(tmp_path: Path, data: dict[str, Any]) -> None:
    data["context"]["suite"]["git_dirty"] = True
    result = _load(tmp_path, data)
    caption = " ".join(draw(result, result.figures[0]).caption)
    assert "Not for publication: built from a modified working tree." in caption


def test_the_same_result_gives_the_same_svg(tmp_path: Path, data: dict[str, Any]) -> None:
    result = _load(tmp_path, data)
    for figure in result.figures:
        encoded = set()
        for _ in range(2):
            picture = with_caption(draw(copy.deepcopy(result), copy.deepcopy(figure)))
            settle(picture)
            encoded.add(encode(picture, "svg"))
        assert len(encoded) == 1, figure["id"]
        assert b"<dc:date>" not in encoded.pop()


def test_odd_names_are_text_and_not_formulas(tmp_path: Path, data: dict[str, Any]) -> None:
    """matplotlib reads $...$ as mathematics and fails on a lone one."""
    data["context"]["machine"]["cpu"]["model"] = "Price $5 \\frac{ $ <b>"
    data["spec"]["figures"][0]["title"] = "a $ b $\\alpha"
    result = _load(tmp_path, data)
    picture = with_caption(draw(result, result.figures[0]))
    assert encode(picture, "svg").startswith(b"<?xml")


def test_the_command_writes_svg_png_and_report(
    tmp_path: Path, data: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    synthetic.write(tmp_path, data)
    assert main([str(tmp_path)]) == 0
    names = {p.name for p in (tmp_path / "figures").iterdir()}
    assert names == {
        f"small-{f['id']}.{kind}" for f in data["spec"]["figures"] for kind in ("svg", "png")
    }
    assert (tmp_path / "report.html").is_file()
    assert "report.html" in capsys.readouterr().out


def test_a_figure_without_content_removes_its_older_file(
    tmp_path: Path, data: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    data["spec"]["figures"] = [{"id": "s", "kind": "scatter", "trace": "run", "title": "T"}]
    synthetic.write(tmp_path, data)
    assert main(["figures", str(tmp_path)]) == 0
    assert (tmp_path / "figures" / "small-s.svg").is_file()
    assert not (tmp_path / "report.html").exists()
    data["traces"] = []
    synthetic.write(tmp_path, data)
    assert main(["figures", "--results", str(tmp_path)]) == 0
    assert not (tmp_path / "figures" / "small-s.svg").exists()
    assert "not drawn" in capsys.readouterr().out


def test_bad_input_ends_with_exit_code_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.json").write_text("{")
    assert main([str(tmp_path)]) == 2
    assert "x.json" in capsys.readouterr().err


def test_no_drawing_code_names_a_variant() -> None:
    """A new variant is a new file under implementations/ and nothing else."""
    variants = {
        name
        for e in synthetic.experiments()
        for name, _ in map(
            synthetic.named,
            e["variants"] + [v for s in e["scales"].values() for v in s.get("variants", [])],
        )
    }
    for path in (synthetic.ROOT / "plots").rglob("*.py"):
        text = path.read_text()
        assert not [name for name in variants - {"reference"} if name in text], path
