# SPDX-License-Identifier: Apache-2.0
"""Every kind of figure draws from whatever a run may leave behind."""

from __future__ import annotations

import copy
import itertools
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import synthetic
from drawn import (
    Show,
    cell_of,
    figure_of,
    gpu_experiment,
    loaded,
    points_of,
    texts_of,
)
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from synthetic import Json

from plots import figures
from plots.__main__ import main
from plots.figures._fields import ratio_text
from plots.load import Interval
from plots.metrics import speedup
from plots.panels import gap_strip, log_y, spread
from plots.render import draw, encode, settle, with_caption
from plots.words import factor, listed, seconds
from tests.support import captured, says

_OF_STUDIES = ("lines", "rows", "trade-off")

_NOT_CELLS = ("table", "convergence", "scatter", *_OF_STUDIES, "trace-time", "claims")


def test_every_kind_is_covered_here(small_experiment: Json) -> None:
    assert {f["kind"] for f in small_experiment["figures"]} == set(figures.KINDS)


@pytest.mark.parametrize("samples", [9, 3, 1])
def test_draws_with_and_without_a_confidence_interval(
    tmp_path: Path, data: Json, small_experiment: Json, samples: int
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
    result = loaded(tmp_path, data)
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
    tmp_path: Path, data: Json, status: str
) -> None:
    for cell in data["cells"]:
        if cell["variant"] == "openmp_b" and cell["n"] == 100:
            synthetic.fail(cell, status)
    result = loaded(tmp_path, data)
    for figure in result.figures:
        drawing = draw(result, figure)
        assert drawing.picture is not None, drawing.absent
        if figure["kind"] not in _NOT_CELLS:
            caption = " ".join(drawing.caption)
            assert f"No time: openmp_b f32, {status}" in caption
            assert "the reason of the test" in caption


def test_no_cells_no_traces(tmp_path: Path, data: Json) -> None:
    data |= {"cells": [], "traces": [], "studies": [], "complete": False}
    result = loaded(tmp_path, data)
    for figure in result.figures:
        if figure["kind"] not in ("table", "claims"):
            assert draw(result, figure).absent


def test_no_ceilings_no_limit_lines(tmp_path: Path, data: Json) -> None:
    ceilings = data["context"]["ceilings"]
    data["context"]["ceilings"] = dict.fromkeys(ceilings)
    result = loaded(tmp_path, data)
    captions = {f["kind"]: " ".join(draw(result, f).caption) for f in result.figures}
    assert "were not measured" in captions["gflops"]
    assert "were not measured" in captions["gbytes"]
    assert "Limit" not in captions["bars"]


def test_a_speedup_names_its_baseline_threads_and_times(tmp_path: Path, data: Json) -> None:
    result = loaded(tmp_path, data)
    figure = next(f for f in result.figures if f["kind"] == "speedup")
    caption = " ".join(draw(result, figure).caption)
    assert "Baseline: cpu_a f32, 1 thread, per iteration" in caption
    assert "fastest one-thread f32 code" in caption
    assert "never averaged" in caption


def test_a_baseline_on_several_threads_is_ranked_among_codes_on_as_many(
    tmp_path: Path, data: Json
) -> None:
    result = loaded(tmp_path, data)
    figure = next(f for f in result.figures if f["kind"] == "speedup")
    name = next(c.variant for c in result.cells if c.ok and c.threads == 2 and not c.on_gpu)
    caption = " ".join(draw(result, figure | {"baseline": name}).caption)
    assert f"Baseline: {name} f32, 2 threads" in caption
    assert "fastest f32 code on at most 2 threads" in caption
    assert "one-thread" not in caption


def test_without_a_baseline_there_is_no_speedup(tmp_path: Path, data: Json) -> None:
    for cell in data["cells"]:
        if (cell["variant"], cell["precision"]) == ("cpu_a", "f32"):
            synthetic.fail(cell)
    result = loaded(tmp_path, data)
    figure = next(f for f in result.figures if f["kind"] == "speedup")
    assert "baseline has no time" in draw(result, figure).absent


def test_a_baseline_alone_is_no_speedup(tmp_path: Path, data: Json) -> None:
    """As on a machine without the GPU that a figure is about."""
    for cell in data["cells"]:
        if (cell["variant"], cell["precision"]) != ("cpu_a", "f32"):
            synthetic.fail(cell)
    result = loaded(tmp_path, data)
    figure = next(f for f in result.figures if f["kind"] == "speedup")
    absent = draw(result, figure).absent
    assert absent is not None
    assert re.fullmatch(r"none of the \d+ cells .* baseline.*: the reason of the test", absent)


def test_lines_never_join_different_problems(tmp_path: Path, data: Json) -> None:
    """k varies and is not a facet here: it must become one by itself."""
    result = loaded(tmp_path, data)
    picture = draw(result, {"id": "x", "kind": "time", "x": "n", "title": "T"}).picture
    assert [ax.get_title(loc="left") for ax in picture.axes] == ["k = 2", "k = 5"]


def test_the_same_result_gives_the_same_svg(tmp_path: Path, data: Json) -> None:
    result = loaded(tmp_path, data)
    for figure in result.figures:
        encoded = set()
        for _ in range(2):
            picture = with_caption(draw(copy.deepcopy(result), copy.deepcopy(figure)))
            settle(picture)
            encoded.add(encode(picture, "svg"))
        assert len(encoded) == 1, figure["id"]
        assert b"<dc:date>" not in encoded.pop()


def test_odd_names_are_text_and_not_formulas(tmp_path: Path, data: Json) -> None:
    """matplotlib reads $...$ as mathematics and fails on a lone one."""
    data["context"]["machine"]["cpu"]["model"] = "Price $5 \\frac{ $ <b>"
    data["spec"]["figures"][0]["title"] = "a $ b $\\alpha"
    result = loaded(tmp_path, data)
    picture = with_caption(draw(result, result.figures[0]))
    assert encode(picture, "svg").startswith(b"<?xml")


def test_a_figure_without_content_removes_its_older_file(
    tmp_path: Path, data: Json, capsys: pytest.CaptureFixture[str]
) -> None:
    data["spec"]["figures"] = [{"id": "s", "kind": "scatter", "trace": "run", "title": "T"}]
    synthetic.write(tmp_path, data)
    assert main(["figures", str(tmp_path)]) == 0
    assert (tmp_path / "figures" / "small-s.svg").is_file()
    assert not (tmp_path / "report.html").exists()
    data["traces"] = []
    synthetic.write(tmp_path, data)
    assert main(["figures", str(tmp_path)]) == 0
    assert not (tmp_path / "figures" / "small-s.svg").exists()
    assert "not drawn" in capsys.readouterr().out


def test_each_limit_is_drawn_where_its_processor_was_used(
    tmp_path: Path, small_experiment: Json
) -> None:
    data = synthetic.result(gpu_experiment(small_experiment))
    figure = next(f for f in small_experiment["figures"] if f["kind"] == "bars")
    mixed = draw(loaded(tmp_path, data), figure)
    texts = " ".join(t.get_text() for ax in mixed.picture.axes for t in ax.texts)
    assert "CPU's limit" in texts
    assert "GPU's limit 1.00 µs" in texts
    assert "CPU's limit: " in " ".join(mixed.caption)
    data["cells"] = [c for c in data["cells"] if c["backend"] == "cuda"]
    data["planned_cells"] = len(data["cells"])
    # Without a time, and so without a GPU: no reason to draw the processor's limit.
    synthetic.fail(data["cells"][-1], "wrong")
    alone = draw(loaded(tmp_path, data), figure | {"where": {}})
    texts = " ".join(t.get_text() for ax in alone.picture.axes for t in ax.texts)
    assert "limit 1.00 µs" in texts
    assert "CPU's limit" not in texts


def test_bars_of_many_shapes_stand_three_abreast(tmp_path: Path, small_experiment: Json) -> None:
    experiment = gpu_experiment(small_experiment)
    experiment["scales"]["quick"]["sweep"] = {"n": [100, 1000, 10_000], "d": [2, 3], "k": [2, 5]}
    result = loaded(tmp_path, synthetic.result(experiment))
    picture = draw(result, {"id": "x", "kind": "bars", "title": "T"}).picture
    assert picture.axes[0].get_subplotspec().get_gridspec().get_geometry() == (4, 3)
    assert {ax.get_xscale() for ax in picture.axes} == {"log"}  # alike in all panels


def _with_exact(experiment: Json, **shares: Any) -> Json:
    """A result in which an exact variant ran too; `shares` are of cpu_a's certificates."""
    experiment["variants"].append("openmp_exact")
    data = synthetic.result(experiment)
    for index, cell in enumerate(data["cells"]):
        shape = (cell["n"], cell["d"], cell["k"])
        cell = synthetic.cell("small", cell["variant"], cell["precision"], shape, 10)
        if cell["variant"] == "cpu_a":
            cell["verification"].update(shares)
        data["cells"][index] = cell
    return data


def _ordered_names(ax: Any) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


def test_bars_of_exact_variants_stand_apart_and_others_have_their_price(
    tmp_path: Path, small_experiment: Json
) -> None:
    figure = {"id": "x", "kind": "bars", "title": "T"}
    plain = draw(loaded(tmp_path, synthetic.result(small_experiment)), figure)
    assert "wrong" not in texts_of(plain.picture)
    assert not any("exact variants" in sentence for sentence in plain.caption)

    data = _with_exact(small_experiment, labels_differing=0.00052)
    drawing = draw(loaded(tmp_path, data), figure)
    for ax in drawing.picture.axes:
        assert _ordered_names(ax)[0] == "openmp_exact f32"
        prices = [t.get_text() for t in ax.texts if "wrong" in t.get_text()]
        assert len(prices) == 3  # of all but the exact one
        assert sum(text.endswith(", 0.052 % wrong") for text in prices) == 2
    assert any("exact variants" in sentence for sentence in drawing.caption)


def test_no_wrong_label_in_a_sample_reports_the_size_of_the_sample(
    tmp_path: Path, small_experiment: Json
) -> None:
    figure = {"id": "x", "kind": "bars", "title": "T"}
    sample = {"labels_differing": 0.0, "points_checked": 244_140, "points_total": 1_048_576}
    drawing = draw(loaded(tmp_path, _with_exact(small_experiment, **sample)), figure)
    assert "0 of 244k wrong" in " ".join(texts_of(drawing.picture))
    whole = {"labels_differing": 0.0, "points_checked": 100, "points_total": 100}
    small_experiment["variants"].pop()
    drawing = draw(loaded(tmp_path, _with_exact(small_experiment, **whole)), figure)
    assert ", 0 % wrong" in " ".join(texts_of(drawing.picture))
    small_experiment["variants"].pop()
    unknown = _with_exact(small_experiment)
    for cell in unknown["cells"]:
        cell["verification"]["labels_differing"] = None
    drawing = draw(loaded(tmp_path, unknown), figure)
    assert "share wrong unknown" in " ".join(texts_of(drawing.picture))


def test_a_table_of_speedups_has_exact_variants_above_and_the_price_of_others(
    tmp_path: Path, small_experiment: Json
) -> None:
    sweep = [{"n": 100 * (i + 1), "d": i + 1, "k": i + 2} for i in range(8)]
    small_experiment["scales"]["quick"]["sweep"] = sweep
    data = _with_exact(small_experiment, labels_differing=0.0)
    next(c for c in data["cells"] if c["variant"] == "cpu_a")["verification"][
        "labels_differing"
    ] = 0.02
    figure = {"id": "x", "kind": "speedup", "title": "T"}
    drawing = draw(loaded(tmp_path, data), figure)
    names = _ordered_names(drawing.picture.axes[0])
    assert names[0] == "openmp_exact f32"
    assert "cpu_a f32 (\u2264 2.0 % wrong)" in names
    assert "cpu_a f64 (none seen wrong)" in names
    assert "openmp_b f32 (\u2264 0.0030 % wrong)" in names
    assert any("among the exact and among the others" in s for s in drawing.caption)
    bold = [t for t in drawing.picture.axes[0].texts if t.get_fontweight() == "bold"]
    assert len(bold) == 2 * len(sweep)


def test_a_table_of_published_times_has_the_price_next_to_exact_ones(
    tmp_path: Path, small_experiment: Json
) -> None:
    small_experiment["published"] = [
        {
            "label": "theirs",
            "variant": variant,
            "n": 100,
            "d": 2,
            "k": 2,
            "quantity": "seconds_per_iteration",
            "value": 1.0,
            "machine": "an old machine",
            "where": "table 1",
        }
        for variant in ("cpu_a", "openmp_exact")
    ]
    figure = {"id": "x", "kind": "table", "title": "T"}
    data = _with_exact(small_experiment, labels_differing=0.00052)
    drawing = draw(loaded(tmp_path, data), figure)
    assert [t.get_text() for t in drawing.picture.axes[0].texts].count("0.052 % wrong") == 1
    assert any(sentence.startswith("Wrong: the share") for sentence in drawing.caption)


def test_variants_skipped_everywhere_are_in_the_caption_alone(
    tmp_path: Path, small_experiment: Json
) -> None:
    """As on a machine without a GPU."""
    data = synthetic.result(gpu_experiment(small_experiment))
    for cell in data["cells"]:
        if cell["backend"] == "cuda":
            synthetic.fail(cell, "skipped", "no GPU was found")
    result = loaded(tmp_path, data)
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


def test_without_any_time_the_reason_is_reported_instead_of_an_empty_picture(
    tmp_path: Path, small_experiment: Json
) -> None:
    data = synthetic.result(gpu_experiment(small_experiment))
    for cell in data["cells"]:
        synthetic.fail(cell, "skipped", "no GPU was found.")
    result = loaded(tmp_path, data)
    for figure in result.figures:
        drawing = draw(result, figure)
        if figure["kind"] not in _NOT_CELLS:
            assert drawing.picture is None
            assert drawing.absent.endswith("skipped): no GPU was found"), drawing.absent


def test_a_wrong_answer_that_is_kept_says_why(tmp_path: Path, data: Json) -> None:
    for cell in data["cells"]:
        if cell["variant"] == "openmp_b":
            synthetic.fail(cell, "wrong", "labels differ.")
            cell["wrong_because"] = "the source forgets a barrier"
    result = loaded(tmp_path, data)
    figure = next(f for f in result.figures if f["kind"] == "bars")
    drawing = draw(result, figure)
    assert "wrong as expected" in " ".join(t.get_text() for t in drawing.picture.axes[0].texts)
    caption = " ".join(drawing.caption)
    assert "the source forgets a barrier" in caption


def test_stages_stand_in_the_order_of_an_iteration(tmp_path: Path, small_experiment: Json) -> None:
    result = loaded(tmp_path, synthetic.result(gpu_experiment(small_experiment)))
    figure = {"id": "x", "kind": "stages", "x": "k", "title": "T"}
    picture = draw(result, figure | {"where": {"variant": "cuda_hybrid"}}).picture
    names = [t.get_text() for t in picture.legends[0].texts]
    assert names == ["upload", "assign", "download", "update"]


def test_a_baseline_on_the_gpu_is_ranked_among_codes_on_the_gpu(
    tmp_path: Path, small_experiment: Json
) -> None:
    experiment = gpu_experiment(small_experiment) | {"baseline": "cuda_c"}
    result = loaded(tmp_path, synthetic.result(experiment))
    figure = next(f for f in result.figures if f["kind"] == "speedup")
    caption = " ".join(draw(result, figure).caption)
    assert "Baseline: cuda_c f32, on the GPU, per iteration" in caption
    assert "fastest f32 code on the GPU" in caption
    figure = figure | {"baseline": "cpu_a"}
    own = " ".join(draw(result, figure).caption)
    # The GPU's variants report one host thread, and are not rivals of one thread's code.
    assert says(own, "fastest one-thread f32 code", "4 of 4 shapes")


def test_a_kind_with_a_hyphen_is_a_module_with_an_underscore() -> None:
    assert "trace-time" in figures.KINDS
    assert figures.module_of("trace-time").__name__ == "plots.figures.trace_time"
    with pytest.raises(KeyError, match="unknown kind"):
        figures.module_of("_fields")


def test_a_heatmap_writes_each_speedup_into_its_field(tmp_path: Path, data: Json) -> None:
    synthetic.fail(next(c for c in data["cells"] if c["variant"] == "openmp_b"), "wrong")
    result = loaded(tmp_path, data)
    picture = draw(result, figure_of(result, "heatmap", of="openmp_b")).picture
    assert picture.axes[0].get_title(loc="left") == "openmp_b f32"
    places = {t.get_position(): t.get_text() for t in picture.axes[0].texts}
    assert places.pop((0, 1)) == "wrong"  # the smallest n is at the foot, the smallest k left
    assert len(places) == 3
    for (column, row), text in places.items():
        shape = {"n": (1000, 100)[int(row)], "k": (2, 5)[int(column)]}
        ratio = speedup(
            cell_of(result, "cpu_a", "f32", **shape), cell_of(result, "openmp_b", "f32", **shape)
        )
        assert text == ratio_text(ratio)
    hatched = [patch for patch in picture.axes[0].patches if patch.get_hatch()]
    assert len(hatched) == 1


def test_a_heatmap_shows_all_but_the_baseline_unless_asked(show: Show) -> None:
    picture = show("heatmap").picture
    titles = {ax.get_title(loc="left") for ax in picture.axes}
    assert {"openmp_b f32", "cpu_a f64"} <= titles
    assert "cpu_a f32" not in titles
    assert show("heatmap", of=["cuda_z"]).absent
    assert "not 'k' and 'k'" in show("heatmap", y="k").absent


def test_fields_mark_what_may_as_well_be_equal() -> None:
    assert ratio_text(Interval(1.3, 0.9, 1.6, True)) == "~1.3\u00d7"
    assert ratio_text(Interval(1.3, 1.1, 1.6, True)) == "1.3\u00d7"
    assert ratio_text(Interval(1.0, 0.9, 1.1, True)) == "1\u00d7"  # a time over itself
    assert ratio_text(Interval(1.0, 1.0, 1.0, False)) == "1\u00d7"
    assert ratio_text(Interval(123.4, 120, 130, True)) == "123\u00d7"
    assert ratio_text(Interval(12_345.6, 12_000, 13_000, True)) == "12 300\u00d7"


def test_the_winner_of_a_field_is_the_fastest_there(tmp_path: Path, data: Json) -> None:
    result = loaded(tmp_path, data)
    drawing = draw(result, figure_of(result, "winners"))
    fields = {t.get_position(): t.get_text() for t in drawing.picture.axes[0].texts}
    assert len(fields) == 4
    for (column, row), text in fields.items():
        shape = ((1000, 100)[int(row)], (2, 5)[int(column)])
        here = [c for c in result.cells if (c.n, c.k) == shape]
        first, second = sorted(here, key=lambda c: c.seconds.mid)[:2]
        lead = ratio_text(speedup(second, first))
        assert text == f"{first.variant}\n{first.precision}: {seconds(first.seconds.mid)}, {lead}"
    assert "of 4 fields" in " ".join(drawing.caption)
    variants = sorted({cell.variant for cell in result.cells})
    compared = f"Fastest of the {len(variants)} variants compared: {listed(variants)}."
    assert compared in drawing.caption


@pytest.mark.parametrize(
    ("gpus", "says"),
    [
        ([], "Synthetic Processor (synthetic-2core); parallel"),
        (["GPU A"], "Synthetic Processor + GPU A (synthetic-2core); parallel"),
        (["GPU A", "GPU A"], "Synthetic Processor + 2 \u00d7 GPU A (synthetic-2core); parallel"),
    ],
)
def test_several_gpus_of_a_machine_are_counted_and_one_of_them_was_used(
    show: Show, data: Json, gpus: list[str], says: str
) -> None:
    data["context"]["machine"]["gpus"] = [{"name": name} for name in gpus]
    caption = " ".join(show("winners").caption)
    assert f"Machine: {says}" in caption
    assert ("a GPU variant uses one GPU" in caption) == (len(gpus) > 1)


def test_winners_among_a_backend_and_gaps_where_nothing_ran(show: Show, data: Json) -> None:
    for cell in data["cells"]:
        if cell["variant"] == "openmp_b" and cell["n"] == 100:
            synthetic.fail(cell, "error")
    texts = texts_of(show("winners", among=["openmp"]).picture)
    assert texts.count("error") == 2
    assert sum(text.endswith(", alone") for text in texts) == 2
    assert not [text for text in texts if "cpu_a" in text]
    among = [{"variant": "cpu_a", "precision": "f64"}]
    texts = texts_of(show("winners", among=among).picture)
    assert all(text.startswith("cpu_a\nf64: ") for text in texts)


def test_a_ladder_states_what_each_step_gains(tmp_path: Path, small_experiment: Json) -> None:
    data = synthetic.result(gpu_experiment(small_experiment))
    result = loaded(tmp_path, data)
    drawing = draw(result, figure_of(result, "ladder"))
    texts = texts_of(drawing.picture)
    steps = [("cpu_a", "f32"), ("openmp_b", "f32"), ("cuda_c", "f32")]
    cells = [cell_of(result, *step, 100, 2) for step in steps]
    assert all(cell.ok for cell in cells)
    for before, cell in itertools.pairwise(cells):
        assert factor(speedup(before, cell).mid) in texts
        assert factor(speedup(cells[0], cell).mid) in texts
        assert seconds(cell.seconds.mid) in texts
    assert texts.count("CPU") == texts.count("GPU") == 1
    lost = [before for before, cell in itertools.pairwise(cells) if speedup(before, cell).mid < 1]
    assert any(s.startswith("Slower than the step above it") for s in drawing.caption) == bool(lost)


def test_a_step_that_failed_is_a_gap_and_the_next_is_held_against_the_one_before(
    tmp_path: Path, data: Json
) -> None:
    for cell in data["cells"]:
        if (cell["variant"], cell["precision"]) == ("cpu_a", "f32"):
            synthetic.fail(cell, "error")
    result = loaded(tmp_path, data)
    picture = draw(result, figure_of(result, "ladder")).picture
    texts = texts_of(picture)
    assert "error" in texts
    first, last = (
        cell_of(result, *step, 100, 2) for step in (("cpu_a", "f64"), ("openmp_b", "f32"))
    )
    assert texts.count(factor(speedup(first, last).mid)) == 2  # this step, and so far
    assert "GPU" not in texts


def test_points_of_a_roofline_stand_at_intensity_and_rate(
    tmp_path: Path, small_experiment: Json
) -> None:
    result = loaded(tmp_path, synthetic.result(gpu_experiment(small_experiment)))
    drawing = draw(result, figure_of(result, "roofline"))
    cpu, gpu = drawing.picture.axes
    assert [ax.get_title(loc="left") for ax in (cpu, gpu)] == ["CPU", "GPU"]
    for ax, variant, precision in ((cpu, "openmp_b", "f32"), (gpu, "cuda_c", "bf16")):
        cell = cell_of(result, variant, precision, 1000, 5)
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
    tmp_path: Path, data: Json
) -> None:
    result = loaded(tmp_path, data)
    assert len(draw(result, figure_of(result, "roofline")).picture.axes) == 1
    data["context"]["ceilings"] = dict.fromkeys(data["context"]["ceilings"])
    caption = draw(loaded(tmp_path, data), figure_of(result, "roofline")).caption
    assert "The machine's ceilings were not measured." in caption


def test_a_whole_call_is_setup_and_its_iterations(tmp_path: Path, data: Json) -> None:
    for cell in data["cells"]:
        if cell["status"] == "ok":
            own = 5e-3 if cell["variant"] == "openmp_b" else 1e-6
            cell["setup_seconds"] = own
            synthetic.retime(cell, 1e-6 if cell["variant"] == "openmp_b" else 30e-6)
    result = loaded(tmp_path, data)
    figure = {"id": "w", "kind": "whole-call", "title": "W", "where": {"n": [100], "k": [2]}}
    drawing = draw(result, figure | {"where": {"n": [100], "k": [2], "precision": ["f32"]}})
    assert points_of(drawing.picture) >= {(1, 31e-6), (20, 601e-6), (300, 5.3e-3)}
    caption = " ".join(drawing.caption)
    assert "T = 1 cpu_a f32 (31.0 µs)" in caption  # setup decides a short call
    assert "300 openmp_b f32 (5.30 ms)" in caption
    measured = max(cell["iterations"] for cell in data["cells"])
    assert f"Beyond the {measured} iterations that were measured" in caption
    speedups = " ".join(draw(result, figure_of(result, "speedup")).caption)
    assert "5 000 of them (openmp_b f32, " in speedups
    # A library's setup is no part of a call.
    for cell in data["cells"]:
        cell["backend"] = "python" if cell["variant"] == "openmp_b" else cell["backend"]
    drawing = draw(loaded(tmp_path, data), figure)
    caption = " ".join(drawing.caption)
    assert "Without Python libraries: a Python library's setup includes" in caption
    assert "300 cpu_a f32" in caption
    assert "openmp_b" not in caption


def test_every_figure_of_a_narrowed_run_says_that_it_is_partial(tmp_path: Path, data: Json) -> None:
    """As `--only cpu_a` leaves a file: cells of the others are absent."""
    planned = len(data["cells"])
    data["cells"] = [c for c in data["cells"] if c["variant"] == "cpu_a"]
    data |= {"complete": False, "planned_cells": planned}
    result = loaded(tmp_path, data)
    text = f"partial: {len(data['cells'])} of {planned} cells"
    for figure in result.figures:
        drawing = draw(result, figure)
        if drawing.picture is None:
            continue
        picture = with_caption(drawing)
        marks = [t for t in picture.texts if t.get_text() == text]
        assert len(marks) == 1, figure["id"]
        settle(picture)
        foot = min(ax.get_position().y0 for ax in picture.axes if ax.get_visible())
        assert marks[0].get_position()[1] > foot, figure["id"]  # over the panels, not the caption
        assert any(text in sentence for sentence in drawing.caption), figure["id"]
        if figure["kind"] in ("time", "gflops", "stages", "heatmap"):
            absent = "Not in this file, though the experiment has them: openmp_b f32."
            assert absent in drawing.caption, figure["id"]


def test_variants_that_a_figure_would_not_show_are_not_missed(show: Show, data: Json) -> None:
    data["cells"] = [c for c in data["cells"] if c["variant"] == "cpu_a"]
    data["planned_cells"] = len(data["cells"])
    for where in ({"variant": ["cpu_a"]}, {"backend": ["cpu"]}, {"precision": ["f64"]}):
        caption = show("time", where=where).caption
        assert not [s for s in caption if "Not in this file" in s]


def test_references_name_published_numbers_and_highlights_variants() -> None:
    for experiment in synthetic.experiments():
        labels = {p["label"] for p in experiment["published"] if p["quantity"] == "speedup"}
        lists = [experiment["variants"]]
        lists += [scale.get("variants", []) for scale in experiment["scales"].values()]
        variants = {synthetic.named(entry)[0] for entries in lists for entry in entries}
        for figure in experiment["figures"]:
            assert set(figure.get("reference", [])) <= labels, figure["id"]
            assert set(figure.get("highlight", [])) <= variants, figure["id"]


def test_speedups_of_many_scattered_shapes_are_a_table_of_fields(
    tmp_path: Path, small_experiment: Json
) -> None:
    small_experiment["scales"]["quick"]["sweep"] = [
        {"n": 100 * 3**i, "d": 2 + i, "k": 2 + i % 3} for i in range(8)
    ]
    data = synthetic.result(small_experiment)
    synthetic.fail(next(c for c in data["cells"] if c["variant"] == "openmp_b"), "error")
    result = loaded(tmp_path, data)
    drawing = draw(result, figure_of(result, "speedup"))
    ax = drawing.picture.axes[0]
    rows = [t.get_text() for t in ax.get_yticklabels()]
    assert sorted(rows) == ["cpu_a f32", "cpu_a f64", "openmp_b f32"]
    texts = texts_of(drawing.picture)
    assert len(texts) == 24
    assert texts.count("1\u00d7") == 8  # the baseline over itself
    assert "error" in texts
    assert "Bold: the fastest at a shape." in " ".join(drawing.caption)
    bold = [t for t in ax.texts if t.get_fontweight() == "bold"]
    assert len({t.get_position()[0] for t in bold}) == 8


def test_a_stage_looks_the_same_in_every_figure(tmp_path: Path, small_experiment: Json) -> None:
    result = loaded(tmp_path, synthetic.result(gpu_experiment(small_experiment)))
    looks = []
    for variant in ("cuda_hybrid", "openmp_b"):
        figure = {"id": "x", "kind": "stages", "x": "k", "title": "T"}
        picture = draw(result, figure | {"where": {"variant": [variant]}}).picture
        legend = picture.legends[0]
        patch = legend.get_patches()[[t.get_text() for t in legend.texts].index("update")]
        looks.append((patch.get_facecolor(), patch.get_hatch()))
    assert looks[0] == looks[1]


def test_many_gaps_leave_out_their_places(tmp_path: Path, small_experiment: Json) -> None:
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
    result = loaded(tmp_path, data)
    gaps = [s for s in draw(result, figure_of(result, "heatmap")).caption if "No time" in s]
    assert "cpu_c f32 (1), cpu_d f32 (2)" in gaps[-1]
    assert says(gaps[-1], "cpu_j f32 (8), error", "ended by signal 1")


def test_names_next_to_a_panel_never_overlap_nor_leave_it() -> None:
    places = spread([0.1, 0.11, 0.5, 0.97, 0.98, 0.99], 0.06)
    assert all(b - a >= 0.06 - 1e-12 for a, b in itertools.pairwise(places))
    assert places[0] == 0.1
    assert places[-1] <= 1.0
    crowded = spread([0.5] * 40, 0.06)
    assert all(b > a for a, b in itertools.pairwise(crowded))
    assert 0.0 <= crowded[0] < crowded[-1] <= 1.0 + 1e-9


def test_texts_keep_inside_the_file(tmp_path: Path, small_experiment: Json) -> None:
    """At the resolution of the files, which the layout was not made at."""
    result = loaded(tmp_path, synthetic.result(gpu_experiment(small_experiment)))
    for kind in figures.KINDS:
        picture = with_caption(draw(result, figure_of(result, kind)))
        settle(picture)
        picture.set_dpi(200)
        picture.draw_without_rendering()
        renderer = FigureCanvasAgg(picture).get_renderer()
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


def test_figures_need_no_display_and_results_stay_as_they_are(tmp_path: Path, data: Json) -> None:
    """Whatever backend and display the environment names, which may not exist."""
    data["spec"]["figures"] = [f for f in data["spec"]["figures"] if f["id"] == "bars"]
    path = synthetic.write(tmp_path / "machine", data)
    before = path.read_bytes()
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    for more in ({"MPLBACKEND": "TkAgg"}, {"MPLBACKEND": "QtAgg", "DISPLAY": ":77"}):
        done = captured(
            [sys.executable, "-m", "plots", "all", str(path.parent)],
            cwd=synthetic.ROOT,
            env=environment | more,
            timeout=900,
        )
        assert done.returncode == 0, done.stderr
        assert (path.parent / "figures" / "small-bars.png").stat().st_size > 1000
        assert path.read_bytes() == before


def test_without_matplotlib_results_stay_as_they_are(tmp_path: Path, data: Json) -> None:
    path = synthetic.write(tmp_path / "machine", data)
    before = path.read_bytes()
    (tmp_path / "matplotlib").mkdir()
    (tmp_path / "matplotlib" / "__init__.py").write_text(
        "raise ImportError('no module named matplotlib')\n"
    )
    done = captured(
        [sys.executable, "-m", "plots", "all", str(path.parent)],
        cwd=synthetic.ROOT,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        timeout=900,
    )
    assert done.returncode == 3
    assert "matplotlib" in done.stderr
    assert "make setup" in done.stderr
    assert "Traceback" not in done.stderr
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.filterwarnings("ignore:Attempting to set identical low and high ylims")
@pytest.mark.parametrize("value", [1e-4, 3.1e-5])
@pytest.mark.parametrize("steps", [0, 1, 2, 100])
def test_a_value_with_its_rounding_is_drawn_as_one(value: float, steps: int) -> None:
    ax = Figure().subplots()
    ax.plot([1, 1], [value, value * (1 + steps * sys.float_info.epsilon)])
    log_y(ax)
    gap_strip(ax, [(1, (1.0, 0.0, 0.0))])
    low, high = ax.get_ylim()
    assert high > 1.5 * low
    assert low < value < high
