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


def _gpu_experiment(small_experiment: dict[str, Any]) -> dict[str, Any]:
    names = [{"variant": "cuda_c", "precision": p} for p in ("f32", "tf32", "f16", "bf16")]
    return small_experiment | {"variants": ["cpu_a", "openmp_b", *names, "cuda_hybrid"]}


def test_each_limit_is_drawn_where_its_processor_was_used(
    tmp_path: Path, small_experiment: dict[str, Any]
) -> None:
    data = synthetic.result(_gpu_experiment(small_experiment))
    figure = next(f for f in small_experiment["figures"] if f["kind"] == "bars")
    mixed = draw(_load(tmp_path, data), figure)
    texts = " ".join(t.get_text() for ax in mixed.picture.axes for t in ax.texts)
    assert "CPU's limit" in texts
    assert "GPU's limit 1.00 µs" in texts
    assert "CPU's limit: " in " ".join(mixed.caption)
    data["cells"] = [c for c in data["cells"] if c["backend"] == "cuda"]
    # Without a time, and so without a GPU: no reason to draw the processor's limit.
    synthetic.fail(data["cells"][-1], "wrong")
    alone = draw(_load(tmp_path, data), figure | {"where": {}})
    texts = " ".join(t.get_text() for ax in alone.picture.axes for t in ax.texts)
    assert "limit 1.00 µs" in texts
    assert "CPU's limit" not in texts


def test_bars_of_many_shapes_stand_three_abreast(
    tmp_path: Path, small_experiment: dict[str, Any]
) -> None:
    experiment = _gpu_experiment(small_experiment)
    experiment["scales"]["quick"]["sweep"] = {"n": [100, 1000, 10_000], "d": [2, 3], "k": [2, 5]}
    result = _load(tmp_path, synthetic.result(experiment))
    picture = draw(result, {"id": "x", "kind": "bars", "title": "T"}).picture
    assert picture.axes[0].get_subplotspec().get_gridspec().get_geometry() == (4, 3)
    assert {ax.get_xscale() for ax in picture.axes} == {"log"}  # alike in all panels


def test_variants_skipped_everywhere_are_in_the_caption_alone(
    tmp_path: Path, small_experiment: dict[str, Any]
) -> None:
    """As on a machine without a GPU."""
    data = synthetic.result(_gpu_experiment(small_experiment))
    for cell in data["cells"]:
        if cell["backend"] == "cuda":
            synthetic.fail(cell, "skipped", "no GPU was found")
    result = _load(tmp_path, data)
    for figure in result.figures:
        drawing = draw(result, figure)
        assert drawing.picture is not None, drawing.absent
        if figure["kind"] in _NOT_CELLS:
            continue
        labels = [t.get_text() for ax in drawing.picture.axes for t in ax.get_yticklabels()]
        labels += [t.get_text() for legend in drawing.picture.legends for t in legend.texts]
        labels += [t.get_text() for ax in drawing.picture.axes for t in ax.texts]
        assert not [label for label in labels if "cuda" in label], figure["kind"]
        missing = [s for s in drawing.caption if "cuda" in s]
        assert len(missing) == 1
        assert "no GPU was found." in missing[0]


def test_without_any_time_the_reason_is_told_instead_of_an_empty_picture(
    tmp_path: Path, small_experiment: dict[str, Any]
) -> None:
    data = synthetic.result(_gpu_experiment(small_experiment))
    for cell in data["cells"]:
        synthetic.fail(cell, "skipped", "no GPU was found.")
    result = _load(tmp_path, data)
    for figure in result.figures:
        drawing = draw(result, figure)
        if figure["kind"] not in _NOT_CELLS:
            assert drawing.picture is None
            assert drawing.absent.endswith("skipped): no GPU was found"), drawing.absent


def test_a_wrong_answer_that_is_kept_says_why(tmp_path: Path, data: dict[str, Any]) -> None:
    for cell in data["cells"]:
        if cell["variant"] == "openmp_b":
            synthetic.fail(cell, "wrong", "labels differ.")
            cell["wrong_because"] = "the source forgets a barrier"
    result = _load(tmp_path, data)
    figure = next(f for f in result.figures if f["kind"] == "bars")
    drawing = draw(result, figure)
    assert "wrong as expected" in " ".join(t.get_text() for t in drawing.picture.axes[0].texts)
    caption = " ".join(drawing.caption)
    assert "labels differ (kept as printed: the source forgets a barrier)." in caption


def test_stages_stand_in_the_order_of_an_iteration(
    tmp_path: Path, small_experiment: dict[str, Any]
) -> None:
    result = _load(tmp_path, synthetic.result(_gpu_experiment(small_experiment)))
    figure = {"id": "x", "kind": "stages", "x": "k", "title": "T"}
    picture = draw(result, figure | {"where": {"variant": "cuda_hybrid"}}).picture
    names = [t.get_text() for t in picture.legends[0].texts]
    assert names == ["upload", "label", "download", "update"]


def test_a_baseline_on_the_gpu_is_ranked_among_codes_on_the_gpu(
    tmp_path: Path, small_experiment: dict[str, Any]
) -> None:
    experiment = _gpu_experiment(small_experiment) | {"baseline": "cuda_c"}
    result = _load(tmp_path, synthetic.result(experiment))
    figure = next(f for f in result.figures if f["kind"] == "speedup")
    caption = " ".join(draw(result, figure).caption)
    assert "Baseline: cuda_c f32, on the GPU, per iteration" in caption
    assert "fastest f32 code on the GPU of this run at" in caption
    figure = figure | {"baseline": "cpu_a"}
    own = " ".join(draw(result, figure).caption)
    # The GPU's variants report one host thread, and are no rivals of one thread's code.
    assert "It is the fastest one-thread f32 code of this run at 4 of 4 shapes." in own


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
