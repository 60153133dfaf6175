# SPDX-License-Identifier: Apache-2.0
"""Every kind of figure draws from whatever a run may leave behind."""

from __future__ import annotations

import copy
import itertools
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import synthetic
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from plots import figures
from plots.__main__ import main
from plots.claims import verdicts
from plots.figures._fields import ratio_text
from plots.load import Cell, Interval, Result, load_result
from plots.metrics import speedup
from plots.panels import spread
from plots.render import draw, encode, settle, with_caption
from plots.words import factor, seconds

_NOT_CELLS = ("table", "convergence", "scatter", "lines", "rows", "trace-time", "claims")


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
    data |= {"cells": [], "traces": [], "studies": [], "complete": False}
    result = _load(tmp_path, data)
    for figure in result.figures:
        if figure["kind"] not in ("table", "claims"):
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
    ladder = next(f for f in small_experiment["figures"] if f["kind"] == "ladder")
    ladder["steps"].append({"variant": "cuda_c", "text": "a GPU"})
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


def _figure(result: Result, kind: str, **changes: Any) -> dict[str, Any]:
    return next(f for f in result.figures if f["kind"] == kind) | changes


def _texts(picture: Figure) -> list[str]:
    return [t.get_text() for ax in picture.axes for t in ax.texts if t.get_text()]


def _cell_of(result: Result, variant: str, precision: str, n: int, k: int) -> Cell:
    return next(
        c for c in result.cells if (c.variant, c.precision, c.n, c.k) == (variant, precision, n, k)
    )


def test_a_kind_with_a_hyphen_is_a_module_with_an_underscore() -> None:
    assert "trace-time" in figures.KINDS
    assert figures.module_of("trace-time").__name__ == "plots.figures.trace_time"
    with pytest.raises(KeyError, match="unknown kind"):
        figures.module_of("_fields")


def test_a_heatmap_writes_each_speedup_into_its_field(tmp_path: Path, data: dict[str, Any]) -> None:
    synthetic.fail(next(c for c in data["cells"] if c["variant"] == "openmp_b"), "wrong")
    result = _load(tmp_path, data)
    picture = draw(result, _figure(result, "heatmap", of="openmp_b")).picture
    assert picture.axes[0].get_title(loc="left") == "openmp_b f32"
    places = {t.get_position(): t.get_text() for t in picture.axes[0].texts}
    assert places.pop((0, 1)) == "wrong"  # the smallest n is at the foot, the smallest k left
    assert len(places) == 3
    for (column, row), text in places.items():
        shape = {"n": (1000, 100)[int(row)], "k": (2, 5)[int(column)]}
        ratio = speedup(
            _cell_of(result, "cpu_a", "f32", **shape), _cell_of(result, "openmp_b", "f32", **shape)
        )
        assert text == ratio_text(ratio)
    hatched = [patch for patch in picture.axes[0].patches if patch.get_hatch()]
    assert len(hatched) == 1


def test_a_heatmap_shows_all_but_the_baseline_unless_told(
    tmp_path: Path, data: dict[str, Any]
) -> None:
    result = _load(tmp_path, data)
    picture = draw(result, _figure(result, "heatmap")).picture
    titles = {ax.get_title(loc="left") for ax in picture.axes}
    assert {"openmp_b f32", "cpu_a f64"} <= titles
    assert "cpu_a f32" not in titles
    assert draw(result, _figure(result, "heatmap", of=["cuda_z"])).absent
    assert "not 'k' and 'k'" in draw(result, _figure(result, "heatmap", y="k")).absent


def test_fields_mark_what_may_as_well_be_equal() -> None:
    assert ratio_text(Interval(1.3, 0.9, 1.6, True)) == "~1.3\u00d7"
    assert ratio_text(Interval(1.3, 1.1, 1.6, True)) == "1.3\u00d7"
    assert ratio_text(Interval(1.0, 0.9, 1.1, True)) == "1\u00d7"  # a time over itself
    assert ratio_text(Interval(1.0, 1.0, 1.0, False)) == "1\u00d7"
    assert ratio_text(Interval(123.4, 120, 130, True)) == "123\u00d7"
    assert ratio_text(Interval(12_345.6, 12_000, 13_000, True)) == "12 300\u00d7"


def test_the_winner_of_a_field_is_the_fastest_there(tmp_path: Path, data: dict[str, Any]) -> None:
    result = _load(tmp_path, data)
    drawing = draw(result, _figure(result, "winners"))
    fields = {t.get_position(): t.get_text() for t in drawing.picture.axes[0].texts}
    assert len(fields) == 4
    for (column, row), text in fields.items():
        shape = ((1000, 100)[int(row)], (2, 5)[int(column)])
        here = [c for c in result.cells if (c.n, c.k) == shape]
        first, second = sorted(here, key=lambda c: c.seconds.mid)[:2]
        lead = ratio_text(speedup(second, first))
        assert text == f"{first.variant}\n{first.precision}: {seconds(first.seconds.mid)}, {lead}"
    assert "of 4 fields" in " ".join(drawing.caption)


def test_winners_among_a_backend_and_gaps_where_nothing_ran(
    tmp_path: Path, data: dict[str, Any]
) -> None:
    for cell in data["cells"]:
        if cell["variant"] == "openmp_b" and cell["n"] == 100:
            synthetic.fail(cell, "error")
    result = _load(tmp_path, data)
    texts = _texts(draw(result, _figure(result, "winners", among=["openmp"])).picture)
    assert texts.count("error") == 2
    assert sum(text.endswith(", alone") for text in texts) == 2
    assert not [text for text in texts if "cpu_a" in text]
    among = [{"variant": "cpu_a", "precision": "f64"}]
    texts = _texts(draw(result, _figure(result, "winners", among=among)).picture)
    assert all(text.startswith("cpu_a\nf64: ") for text in texts)


def test_a_ladder_states_what_each_step_gains(
    tmp_path: Path, small_experiment: dict[str, Any]
) -> None:
    data = synthetic.result(_gpu_experiment(small_experiment))
    result = _load(tmp_path, data)
    drawing = draw(result, _figure(result, "ladder"))
    texts = _texts(drawing.picture)
    steps = [("cpu_a", "f32"), ("openmp_b", "f32"), ("cuda_c", "f32")]
    cells = [_cell_of(result, *step, 100, 2) for step in steps]
    assert all(cell.ok for cell in cells)
    for before, cell in itertools.pairwise(cells):
        assert factor(speedup(before, cell).mid) in texts
        assert factor(speedup(cells[0], cell).mid) in texts
        assert seconds(cell.seconds.mid) in texts
    assert texts.count("CPU") == texts.count("GPU") == 1
    lost = [before for before, cell in itertools.pairwise(cells) if speedup(before, cell).mid < 1]
    assert any(s.startswith("Slower than the step above it") for s in drawing.caption) == bool(lost)


def test_a_step_that_failed_is_a_gap_and_the_next_is_held_against_the_one_before(
    tmp_path: Path, data: dict[str, Any]
) -> None:
    for cell in data["cells"]:
        if (cell["variant"], cell["precision"]) == ("cpu_a", "f32"):
            synthetic.fail(cell, "error")
    result = _load(tmp_path, data)
    picture = draw(result, _figure(result, "ladder")).picture
    texts = _texts(picture)
    assert "\u00d7 error" in texts
    first, last = (
        _cell_of(result, *step, 100, 2) for step in (("cpu_a", "f64"), ("openmp_b", "f32"))
    )
    assert texts.count(factor(speedup(first, last).mid)) == 2  # this step, and so far
    assert "GPU" not in texts


def test_points_of_a_roofline_stand_at_intensity_and_rate(
    tmp_path: Path, small_experiment: dict[str, Any]
) -> None:
    result = _load(tmp_path, synthetic.result(_gpu_experiment(small_experiment)))
    drawing = draw(result, _figure(result, "roofline"))
    cpu, gpu = drawing.picture.axes
    assert [ax.get_title(loc="left") for ax in (cpu, gpu)] == ["CPU", "GPU"]
    for ax, variant, precision in ((cpu, "openmp_b", "f32"), (gpu, "cuda_c", "bf16")):
        cell = _cell_of(result, variant, precision, 1000, 5)
        n, d, k = cell.shape
        x = (n * k * (3 * d + 2) + d * (n + k)) / (4 * n * d + 4 * n + 8 * k * d)
        points = {
            (round(float(a), 9), round(float(b), 6))
            for container in ax.containers
            for a, b in zip(*container.lines[0].get_data(), strict=True)
        }
        assert (round(x, 9), round(cell.data["gflops"], 6)) in points
    texts = " ".join(t.get_text() for t in cpu.texts)
    for roof in ("multiply-add f32, one thread: 270", "matrix product f32: 476", "cache: 230 GB/s"):
        assert roof in texts
    texts = " ".join(t.get_text() for t in gpu.texts)
    for roof in ("multiply-add f32: 60 000", "matrix product bf16: 800 000", "L2: 8 000 GB/s"):
        assert roof in texts
    assert "matrix product f64" not in texts  # nothing here computes in it
    assert "a: n=100 d=2 k=2; b: n=1000 d=2 k=2; c: " in " ".join(drawing.caption)


def test_a_roofline_without_a_gpu_has_one_panel_and_without_ceilings_says_so(
    tmp_path: Path, data: dict[str, Any]
) -> None:
    result = _load(tmp_path, data)
    assert len(draw(result, _figure(result, "roofline")).picture.axes) == 1
    data["context"]["ceilings"] = dict.fromkeys(data["context"]["ceilings"])
    caption = draw(_load(tmp_path, data), _figure(result, "roofline")).caption
    assert "The machine's ceilings were not measured." in caption


def _with_rows(data: dict[str, Any], rows: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    data["studies"][0] |= {"rows": rows} | changes
    return data


def test_lines_join_the_rows_of_one_series_and_break_where_nothing_is(
    tmp_path: Path, data: dict[str, Any]
) -> None:
    rows = [
        {"arithmetic": a, "length": x, "error": y}
        for a, ys in (("float", (3.0, None, 1.0)), ("double", (0, 0.5, 0.25)))
        for x, y in zip((100, 10, 1), ys, strict=True)
    ]
    result = _load(tmp_path, _with_rows(data, rows))
    figure = _figure(result, "lines", study="spacing", y="error", log=["x", "y"])
    picture = draw(result, figure).picture
    (ax,) = picture.axes
    lines = {line.get_color(): line for line in ax.lines if len(line.get_xdata()) > 1}
    floats, doubles = lines.values()
    assert list(floats.get_xdata()) == [1, 10, 100]
    assert [None if math.isnan(y) else y for y in floats.get_ydata()] == [1.0, None, 3.0]
    assert [None if math.isnan(y) else y for y in doubles.get_ydata()] == [0.25, 0.5, None]
    names = [t.get_text() for t in picture.legends[0].texts]
    assert names == ["float", "double", "no value", "0 (below the axis)"]


def test_rows_that_share_a_place_are_points_without_a_line(
    tmp_path: Path, data: dict[str, Any]
) -> None:
    rows = [{"arithmetic": "float", "length": x, "error": y} for x, y in ((1, 2.0), (9, 3.0))]
    rows += [{"arithmetic": "double", "length": 9, "error": y} for y in (4.0, 5.0)]
    result = _load(tmp_path, _with_rows(data, rows))
    picture = draw(result, _figure(result, "lines", study="spacing", y="error")).picture
    assert [line.get_linestyle() for line in picture.axes[0].lines] == ["-", "None"]


def test_lines_of_two_studies_are_never_joined(tmp_path: Path, data: dict[str, Any]) -> None:
    result = _load(tmp_path, data)
    titles = [
        ax.get_title(loc="left") for ax in draw(result, _figure(result, "lines")).picture.axes
    ]
    assert titles == [
        f"{study}, {y}"
        for study in ("spacing", "other-spacing")
        for y in ("error", "labels changed")
    ]
    alone = draw(result, _figure(result, "lines", series=None, y="error")).picture
    assert [t.get_text() for t in alone.legends[0].texts][:2] == ["spacing", "other-spacing"]


def test_rows_show_what_the_study_found(tmp_path: Path, data: dict[str, Any]) -> None:
    rows = [
        {"arithmetic": "float", "length": 1_000_000, "error": -0.0123456, "right": False},
        {"arithmetic": "double", "length": 10, "error": None, "right": True},
    ]
    result = _load(tmp_path, _with_rows(data, rows, findings={"lost_share": 0.25}))
    drawing = draw(result, _figure(result, "rows"))
    texts = _texts(drawing.picture)
    assert texts[:3] == ["arithmetic", "length", "relative\nerror"]
    assert texts[3:] == ["float", "1 000 000", "\u22120.01235", "double", "10", "\u2014"]
    everything = _texts(draw(result, _figure(result, "rows", columns=None)).picture)
    assert "no" in everything  # a boolean in words
    caption = " ".join(drawing.caption)
    assert "Found: lost share 0.2500." in caption
    assert "n = 100, d = 2, k = 3" in caption
    assert "A note of the study." in caption


def test_a_long_table_is_cut_and_says_so(tmp_path: Path, data: dict[str, Any]) -> None:
    rows = [{"arithmetic": "float", "length": i, "error": 0.5} for i in range(75)]
    result = _load(tmp_path, _with_rows(data, rows))
    drawing = draw(result, _figure(result, "rows"))
    assert _texts(drawing.picture).count("float") == 60
    assert "15 more rows in the result file." in drawing.caption


def test_a_study_that_failed_says_why_instead(tmp_path: Path, data: dict[str, Any]) -> None:
    late = {"status": "error", "reason": "took longer than 5 s", "findings": {}}
    result = _load(tmp_path, _with_rows(data, [], **late))
    figure = _figure(result, "rows")
    assert draw(result, figure).absent == "spacing: error, took longer than 5 s"
    assert draw(result, figure | {"study": "absent"}).absent == "this run has no study 'absent'"
    both = draw(result, _figure(result, "lines"))
    assert "spacing is error: took longer than 5 s." in both.caption


def test_seconds_of_a_trace_are_its_iterations_times_their_seconds(
    tmp_path: Path, data: dict[str, Any]
) -> None:
    traces = {t["name"]: t for t in data["traces"]}
    traces["end-b-100"] |= {"status": "wrong", "reason": "labels differ"}
    result = _load(tmp_path, data)
    drawing = draw(result, _figure(result, "trace-time"))
    (ax,) = drawing.picture.axes
    drawn = {(int(x), float(y)) for line in ax.lines for x, y in zip(*line.get_data(), strict=True)}
    for name in ("end-a-100", "end-a-1000", "end-b-1000"):
        trace = traces[name]
        total = len(trace["iterations"]) * trace["seconds_per_iteration"]
        assert (trace["n"], total) in drawn
        assert str(len(trace["iterations"])) in _texts(drawing.picture)
    assert "No time: end-b-100, wrong: labels differ." in drawing.caption
    assert ax.get_title(loc="left").endswith("until no label changes")
    assert draw(result, _figure(result, "trace-time", traces=["nothing"])).absent


def test_traces_with_other_rules_get_panels_of_their_own(
    tmp_path: Path, data: dict[str, Any]
) -> None:
    for trace in data["traces"]:
        if trace["name"].startswith("end-a"):
            trace["stop"] = None
    result = _load(tmp_path, data)
    axes = draw(result, _figure(result, "trace-time")).picture.axes
    titles = [ax.get_title(loc="left") for ax in axes]
    assert titles == ["fixed iterations", "until no label changes"]


def test_claims_show_statement_verdict_measurement_and_why(
    tmp_path: Path, data: dict[str, Any]
) -> None:
    result = _load(tmp_path, data)
    drawing = draw(result, _figure(result, "claims"))
    text = " ".join(_texts(drawing.picture))
    for claim, verdict in zip(data["spec"]["claims"], verdicts(result), strict=True):
        assert claim["statement"] in text
        assert claim["why"] in text
        assert f"{verdict.sign} {verdict.verdict}" in text
        assert verdict.measured in text
    assert "3 statements" in " ".join(drawing.caption)
    data["spec"]["claims"] = []
    assert draw(_load(tmp_path, data), _figure(result, "claims")).absent


def test_a_table_of_a_group_shows_that_group_and_why(tmp_path: Path, data: dict[str, Any]) -> None:
    result = _load(tmp_path, data)
    texts = _texts(draw(result, _figure(result, "table", group="Table 1")).picture)
    assert "Theirs counts the start of the program." in texts
    assert "their GPU" not in texts
    assert "their GPU" in _texts(draw(result, _figure(result, "table")).picture)
    absent = draw(result, _figure(result, "table", group="Table 9")).absent
    assert absent == "the experiment quotes no published number of the group 'Table 9'"


def test_several_traces_are_drawn_in_the_order_named(tmp_path: Path, data: dict[str, Any]) -> None:
    data["traces"][1]["points"] = data["traces"][0]["points"]
    result = _load(tmp_path, data)
    wanted = ["end-a-100", "run", "absent"]
    drawing = draw(result, _figure(result, "convergence", trace=wanted))
    names = [t.get_text() for t in drawing.picture.legends[0].texts]
    assert [name.split(":")[0] for name in names[:2]] == ["end-a-100", "run"]
    assert "Without a trace in this run: absent." in drawing.caption
    drawing = draw(result, _figure(result, "scatter", trace=wanted))
    titles = [ax.get_title(loc="left") for ax in drawing.picture.axes]
    assert titles == ["end-a-100: cpu_a f32", "run: cpu_a f64"]
    assert draw(result, _figure(result, "convergence", trace=["absent"])).absent == (
        "this run has no trace 'absent'"
    )


def test_speedups_of_many_scattered_shapes_are_a_table_of_fields(
    tmp_path: Path, small_experiment: dict[str, Any]
) -> None:
    small_experiment["scales"]["quick"]["sweep"] = [
        {"n": 100 * 3**i, "d": 2 + i, "k": 2 + i % 3} for i in range(8)
    ]
    data = synthetic.result(small_experiment)
    synthetic.fail(next(c for c in data["cells"] if c["variant"] == "openmp_b"), "error")
    result = _load(tmp_path, data)
    drawing = draw(result, _figure(result, "speedup"))
    ax = drawing.picture.axes[0]
    rows = [t.get_text() for t in ax.get_yticklabels()]
    assert sorted(rows) == ["cpu_a f32", "cpu_a f64", "openmp_b f32"]
    texts = _texts(drawing.picture)
    assert len(texts) == 24
    assert texts.count("1\u00d7") == 8  # the baseline over itself
    assert "error" in texts
    assert "Bold: the fastest at a shape." in " ".join(drawing.caption)
    bold = [t for t in ax.texts if t.get_fontweight() == "bold"]
    assert len({t.get_position()[0] for t in bold}) == 8


def test_a_stage_looks_the_same_in_every_figure(
    tmp_path: Path, small_experiment: dict[str, Any]
) -> None:
    result = _load(tmp_path, synthetic.result(_gpu_experiment(small_experiment)))
    looks = []
    for variant in ("cuda_hybrid", "openmp_b"):
        figure = {"id": "x", "kind": "stages", "x": "k", "title": "T"}
        picture = draw(result, figure | {"where": {"variant": [variant]}}).picture
        legend = picture.legends[0]
        patch = legend.get_patches()[[t.get_text() for t in legend.texts].index("update")]
        looks.append((patch.get_facecolor(), patch.get_hatch()))
    assert looks[0] == looks[1]


def test_many_gaps_leave_out_their_places(tmp_path: Path, small_experiment: dict[str, Any]) -> None:
    """Eight variants that fail at one, two ... eight shapes, for one reason."""
    letters = "cdefghij"
    small_experiment["variants"] += [f"cpu_{letter}" for letter in letters]
    small_experiment["scales"]["quick"]["sweep"] = {"n": [100, 1000], "d": [2], "k": [2, 3, 4, 5]}
    data = synthetic.result(small_experiment)
    seen = dict.fromkeys(letters, 0)
    for index, cell in enumerate(data["cells"]):
        shape, last = (cell["n"], cell["d"], cell["k"]), cell["variant"][-1]
        cell = synthetic.cell("small", cell["variant"], cell["precision"], shape, 10)
        data["cells"][index] = cell
        if last in letters:
            seen[last] += 1
            if seen[last] <= 1 + letters.index(last):
                synthetic.fail(cell, "error", f"ended by signal {seen[last]}")
    result = _load(tmp_path, data)
    gaps = [s for s in draw(result, _figure(result, "heatmap")).caption if "No time" in s]
    assert "cpu_c f32 (1), cpu_d f32 (2)" in gaps[-1]
    assert "cpu_j f32 (8), error, at so many shapes: ended by signal 1, and so on." in gaps[-1]


def test_names_beside_a_panel_never_overlap_nor_leave_it() -> None:
    places = spread([0.1, 0.11, 0.5, 0.97, 0.98, 0.99], 0.06)
    assert all(b - a >= 0.06 - 1e-12 for a, b in itertools.pairwise(places))
    assert places[0] == 0.1
    assert places[-1] <= 1.0
    crowded = spread([0.5] * 40, 0.06)
    assert all(b > a for a, b in itertools.pairwise(crowded))
    assert 0.0 <= crowded[0] < crowded[-1] <= 1.0 + 1e-9


def test_texts_keep_inside_the_file(tmp_path: Path, small_experiment: dict[str, Any]) -> None:
    """At the resolution of the files, which the layout was not made at."""
    result = _load(tmp_path, synthetic.result(_gpu_experiment(small_experiment)))
    for kind in figures.KINDS:
        picture = with_caption(draw(result, _figure(result, kind)))
        settle(picture)
        picture.set_dpi(200)
        canvas = FigureCanvasAgg(picture)
        canvas.draw()
        renderer = canvas.get_renderer()
        width, height = picture.bbox.width, picture.bbox.height
        ticks = {t for ax in picture.axes for t in ax.get_xticklabels() + ax.get_yticklabels()}
        for text in picture.findobj(Text):  # ticks beyond the axis exist, and are not drawn
            if text in ticks or not text.get_visible() or not text.get_text().strip():
                continue
            box = text.get_window_extent(renderer)
            inside = box.x0 >= -2 and box.x1 <= width + 2 and box.y0 >= -2 and box.y1 <= height + 2
            assert inside, (kind, text.get_text(), box)


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


def test_figures_need_no_display_and_results_stay_as_they_are(
    tmp_path: Path, data: dict[str, Any]
) -> None:
    """Whatever backend and display the environment names, which may not exist."""
    data["spec"]["figures"] = [f for f in data["spec"]["figures"] if f["id"] == "bars"]
    path = synthetic.write(tmp_path / "machine", data)
    before = path.read_bytes()
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    for more in ({"MPLBACKEND": "TkAgg"}, {"MPLBACKEND": "QtAgg", "DISPLAY": ":77"}):
        done = subprocess.run(
            [sys.executable, "-m", "plots", "all", str(path.parent)],
            cwd=synthetic.ROOT,
            env=environment | more,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        assert (path.parent / "figures" / "small-bars.png").stat().st_size > 1000
        assert path.read_bytes() == before


def test_without_matplotlib_results_stay_as_they_are(tmp_path: Path, data: dict[str, Any]) -> None:
    path = synthetic.write(tmp_path / "machine", data)
    before = path.read_bytes()
    (tmp_path / "matplotlib").mkdir()
    (tmp_path / "matplotlib" / "__init__.py").write_text(
        "raise ImportError('no module named matplotlib')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "plots", "all", str(path.parent)],
        cwd=synthetic.ROOT,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 3
    assert "matplotlib" in done.stderr
    assert "make setup" in done.stderr
    assert "Traceback" not in done.stderr
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]
