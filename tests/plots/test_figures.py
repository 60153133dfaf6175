# SPDX-License-Identifier: Apache-2.0
"""Every kind of figure draws from whatever a run may leave behind."""

from __future__ import annotations

import copy
import itertools
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import synthetic
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from synthetic import Json

from plots import figures, style
from plots.__main__ import main
from plots.claims import verdicts
from plots.figures._fields import ratio_text
from plots.figures._tables import Column, Row, draw_table
from plots.figures.convergence import significant_digits
from plots.load import Cell, Interval, Result, load_result
from plots.metrics import speedup
from plots.panels import spread
from plots.render import Drawing, draw, encode, settle, with_caption
from plots.words import factor, listed, seconds

_OF_STUDIES = ("lines", "rows", "trade-off")
_NOT_CELLS = ("table", "convergence", "scatter", *_OF_STUDIES, "trace-time", "claims")


def _load(folder: Path, data: Json) -> Result:
    return load_result(synthetic.write(folder, data))


@pytest.fixture
def data(small_experiment: Json) -> Json:
    return synthetic.result(small_experiment)


Show = Callable[..., Drawing]


@pytest.fixture
def show(tmp_path: Path, data: Json) -> Show:
    """Draws a figure of `data`, as the test has left it."""

    def drawn(kind: str, **changes: Any) -> Drawing:
        result = _load(tmp_path, data)
        return draw(result, _figure(result, kind, **changes))

    return drawn


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
    tmp_path: Path, data: Json, status: str
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


def test_no_cells_no_traces(tmp_path: Path, data: Json) -> None:
    data |= {"cells": [], "traces": [], "studies": [], "complete": False}
    result = _load(tmp_path, data)
    for figure in result.figures:
        if figure["kind"] not in ("table", "claims"):
            assert draw(result, figure).absent


def test_no_ceilings_no_limit_lines(tmp_path: Path, data: Json) -> None:
    ceilings = data["context"]["ceilings"]
    data["context"]["ceilings"] = dict.fromkeys(ceilings)
    result = _load(tmp_path, data)
    captions = {f["kind"]: " ".join(draw(result, f).caption) for f in result.figures}
    assert "were not measured" in captions["gflops"]
    assert "were not measured" in captions["gbytes"]
    assert "Limit" not in captions["bars"]


def test_a_speedup_names_its_baseline_threads_and_times(tmp_path: Path, data: Json) -> None:
    result = _load(tmp_path, data)
    figure = next(f for f in result.figures if f["kind"] == "speedup")
    caption = " ".join(draw(result, figure).caption)
    assert "Baseline: cpu_a f32, 1 thread, per iteration" in caption
    assert "fastest one-thread f32 code of this run at" in caption
    assert "never averaged" in caption


def test_a_baseline_on_several_threads_is_ranked_among_codes_on_as_many(
    tmp_path: Path, data: Json
) -> None:
    result = _load(tmp_path, data)
    figure = next(f for f in result.figures if f["kind"] == "speedup")
    name = next(c.variant for c in result.cells if c.ok and c.threads == 2 and not c.on_gpu)
    caption = " ".join(draw(result, figure | {"baseline": name}).caption)
    assert f"Baseline: {name} f32, 2 threads" in caption
    assert "It is the fastest f32 code on at most 2 threads of this run at " in caption
    assert "one-thread" not in caption


def test_without_a_baseline_there_is_no_speedup(tmp_path: Path, data: Json) -> None:
    for cell in data["cells"]:
        if (cell["variant"], cell["precision"]) == ("cpu_a", "f32"):
            synthetic.fail(cell)
    result = _load(tmp_path, data)
    figure = next(f for f in result.figures if f["kind"] == "speedup")
    assert draw(result, figure).absent == "the baseline has no time in this run"


def test_a_baseline_alone_is_no_speedup(tmp_path: Path, data: Json) -> None:
    """As on a machine without the GPU that a figure is about."""
    for cell in data["cells"]:
        if (cell["variant"], cell["precision"]) != ("cpu_a", "f32"):
            synthetic.fail(cell)
    result = _load(tmp_path, data)
    figure = next(f for f in result.figures if f["kind"] == "speedup")
    absent = draw(result, figure).absent
    assert absent is not None
    assert re.fullmatch(
        r"none of the \d+ cells besides the baseline's has a time .*: the reason of the test",
        absent,
    )


def test_lines_never_join_different_problems(tmp_path: Path, data: Json) -> None:
    """k varies and is not a facet here: it must become one by itself."""
    result = _load(tmp_path, data)
    picture = draw(result, {"id": "x", "kind": "time", "x": "n", "title": "T"}).picture
    assert [ax.get_title(loc="left") for ax in picture.axes] == ["k = 2", "k = 5"]


def test_the_same_result_gives_the_same_svg(tmp_path: Path, data: Json) -> None:
    result = _load(tmp_path, data)
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
    result = _load(tmp_path, data)
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


def _gpu_experiment(small_experiment: Json) -> Json:
    names = [{"variant": "cuda_c", "precision": p} for p in ("f32", "tf32", "f16", "bf16")]
    ladder = next(f for f in small_experiment["figures"] if f["kind"] == "ladder")
    ladder["steps"].append({"variant": "cuda_c", "text": "a GPU"})
    return small_experiment | {"variants": ["cpu_a", "openmp_b", *names, "cuda_hybrid"]}


def test_each_limit_is_drawn_where_its_processor_was_used(
    tmp_path: Path, small_experiment: Json
) -> None:
    data = synthetic.result(_gpu_experiment(small_experiment))
    figure = next(f for f in small_experiment["figures"] if f["kind"] == "bars")
    mixed = draw(_load(tmp_path, data), figure)
    texts = " ".join(t.get_text() for ax in mixed.picture.axes for t in ax.texts)
    assert "CPU's limit" in texts
    assert "GPU's limit 1.00 µs" in texts
    assert "CPU's limit: " in " ".join(mixed.caption)
    data["cells"] = [c for c in data["cells"] if c["backend"] == "cuda"]
    data["planned_cells"] = len(data["cells"])
    # Without a time, and so without a GPU: no reason to draw the processor's limit.
    synthetic.fail(data["cells"][-1], "wrong")
    alone = draw(_load(tmp_path, data), figure | {"where": {}})
    texts = " ".join(t.get_text() for ax in alone.picture.axes for t in ax.texts)
    assert "limit 1.00 µs" in texts
    assert "CPU's limit" not in texts


def test_bars_of_many_shapes_stand_three_abreast(tmp_path: Path, small_experiment: Json) -> None:
    experiment = _gpu_experiment(small_experiment)
    experiment["scales"]["quick"]["sweep"] = {"n": [100, 1000, 10_000], "d": [2, 3], "k": [2, 5]}
    result = _load(tmp_path, synthetic.result(experiment))
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
    plain = draw(_load(tmp_path, synthetic.result(small_experiment)), figure)
    assert "wrong" not in _texts(plain.picture)
    assert not any("exact variants" in sentence for sentence in plain.caption)

    data = _with_exact(small_experiment, labels_differing=0.00052)
    drawing = draw(_load(tmp_path, data), figure)
    for ax in drawing.picture.axes:
        assert _ordered_names(ax)[0] == "openmp_exact f32"
        prices = [t.get_text() for t in ax.texts if "wrong" in t.get_text()]
        assert len(prices) == 3  # of all but the exact one
        assert sum(text.endswith(", 0.052 % wrong") for text in prices) == 2
    assert any("exact variants" in sentence for sentence in drawing.caption)


def test_no_wrong_label_in_a_sample_tells_the_size_of_the_sample(
    tmp_path: Path, small_experiment: Json
) -> None:
    figure = {"id": "x", "kind": "bars", "title": "T"}
    sample = {"labels_differing": 0.0, "points_checked": 244_140, "points_total": 1_048_576}
    drawing = draw(_load(tmp_path, _with_exact(small_experiment, **sample)), figure)
    assert "0 of 244k wrong" in " ".join(_texts(drawing.picture))
    whole = {"labels_differing": 0.0, "points_checked": 100, "points_total": 100}
    small_experiment["variants"].pop()
    drawing = draw(_load(tmp_path, _with_exact(small_experiment, **whole)), figure)
    assert ", 0 % wrong" in " ".join(_texts(drawing.picture))
    small_experiment["variants"].pop()
    unknown = _with_exact(small_experiment)
    for cell in unknown["cells"]:
        cell["verification"]["labels_differing"] = None
    drawing = draw(_load(tmp_path, unknown), figure)
    assert "share wrong unknown" in " ".join(_texts(drawing.picture))


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
    drawing = draw(_load(tmp_path, data), figure)
    names = _ordered_names(drawing.picture.axes[0])
    assert names[0] == "openmp_exact f32"
    assert "cpu_a f32 (\u2264 2.0 % wrong)" in names
    assert "cpu_a f64 (none seen wrong)" in names
    assert "openmp_b f32 (\u2264 0.0030 % wrong)" in names
    assert any("among the exact and among the others" in s for s in drawing.caption)
    bold = [t for t in drawing.picture.axes[0].texts if t.get_fontweight() == "bold"]
    assert len(bold) == 2 * len(sweep)


def test_a_table_of_published_times_has_the_price_beside_exact_ones(
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
    drawing = draw(_load(tmp_path, data), figure)
    assert [t.get_text() for t in drawing.picture.axes[0].texts].count("0.052 % wrong") == 1
    assert any(sentence.startswith("Wrong: the share") for sentence in drawing.caption)


def test_variants_skipped_everywhere_are_in_the_caption_alone(
    tmp_path: Path, small_experiment: Json
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
    tmp_path: Path, small_experiment: Json
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


def test_a_wrong_answer_that_is_kept_says_why(tmp_path: Path, data: Json) -> None:
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


def test_stages_stand_in_the_order_of_an_iteration(tmp_path: Path, small_experiment: Json) -> None:
    result = _load(tmp_path, synthetic.result(_gpu_experiment(small_experiment)))
    figure = {"id": "x", "kind": "stages", "x": "k", "title": "T"}
    picture = draw(result, figure | {"where": {"variant": "cuda_hybrid"}}).picture
    names = [t.get_text() for t in picture.legends[0].texts]
    assert names == ["upload", "assign", "download", "update"]


def test_a_baseline_on_the_gpu_is_ranked_among_codes_on_the_gpu(
    tmp_path: Path, small_experiment: Json
) -> None:
    experiment = _gpu_experiment(small_experiment) | {"baseline": "cuda_c"}
    result = _load(tmp_path, synthetic.result(experiment))
    figure = next(f for f in result.figures if f["kind"] == "speedup")
    caption = " ".join(draw(result, figure).caption)
    assert "Baseline: cuda_c f32, on the GPU, per iteration" in caption
    assert "fastest f32 code on the GPU of this run at" in caption
    figure = figure | {"baseline": "cpu_a"}
    own = " ".join(draw(result, figure).caption)
    # The GPU's variants report one host thread, and are not rivals of one thread's code.
    assert "It is the fastest one-thread f32 code of this run at 4 of 4 shapes." in own


def _figure(result: Result, kind: str, **changes: Any) -> Json:
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


def test_a_heatmap_writes_each_speedup_into_its_field(tmp_path: Path, data: Json) -> None:
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


def test_a_heatmap_shows_all_but_the_baseline_unless_told(show: Show) -> None:
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
    texts = _texts(show("winners", among=["openmp"]).picture)
    assert texts.count("error") == 2
    assert sum(text.endswith(", alone") for text in texts) == 2
    assert not [text for text in texts if "cpu_a" in text]
    among = [{"variant": "cpu_a", "precision": "f64"}]
    texts = _texts(show("winners", among=among).picture)
    assert all(text.startswith("cpu_a\nf64: ") for text in texts)


def test_a_ladder_states_what_each_step_gains(tmp_path: Path, small_experiment: Json) -> None:
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
    tmp_path: Path, data: Json
) -> None:
    for cell in data["cells"]:
        if (cell["variant"], cell["precision"]) == ("cpu_a", "f32"):
            synthetic.fail(cell, "error")
    result = _load(tmp_path, data)
    picture = draw(result, _figure(result, "ladder")).picture
    texts = _texts(picture)
    assert "error" in texts
    first, last = (
        _cell_of(result, *step, 100, 2) for step in (("cpu_a", "f64"), ("openmp_b", "f32"))
    )
    assert texts.count(factor(speedup(first, last).mid)) == 2  # this step, and so far
    assert "GPU" not in texts


def test_points_of_a_roofline_stand_at_intensity_and_rate(
    tmp_path: Path, small_experiment: Json
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
    tmp_path: Path, data: Json
) -> None:
    result = _load(tmp_path, data)
    assert len(draw(result, _figure(result, "roofline")).picture.axes) == 1
    data["context"]["ceilings"] = dict.fromkeys(data["context"]["ceilings"])
    caption = draw(_load(tmp_path, data), _figure(result, "roofline")).caption
    assert "The machine's ceilings were not measured." in caption


def _with_rows(data: Json, rows: list[Json], **changes: Any) -> Json:
    data["studies"][0] |= {"rows": rows} | changes
    return data


def test_lines_join_the_rows_of_one_series_and_break_where_nothing_is(
    tmp_path: Path, data: Json
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
    lines = {line.get_color(): line for line in ax.lines if len(line.get_xdata()) == 3}
    floats, doubles = lines.values()
    assert list(floats.get_xdata()) == [1, 10, 100]
    assert [None if math.isnan(y) else y for y in floats.get_ydata()] == [1.0, None, 3.0]
    assert [None if math.isnan(y) else y for y in doubles.get_ydata()] == [0.25, 0.5, None]
    names = [t.get_text() for t in picture.legends[0].texts]
    assert names == ["float", "double", "no value"]


def test_a_zero_stands_on_a_strip_below_the_axis_and_over_no_line(
    tmp_path: Path, data: Json
) -> None:
    """Nine series that are 0 at every place but one: once these stood over the lines."""
    rows = [
        {"arithmetic": f"way {i}", "length": x, "error": 0 if x < 100 else 0.1 * (i + 1)}
        for i in range(9)
        for x in (1, 10, 100)
    ]
    result = _load(tmp_path, _with_rows(data, rows))
    figure = _figure(result, "lines", study="spacing", y="error", log=["x", "y"])
    picture = draw(result, figure).picture
    settle(picture)
    (ax,) = picture.axes
    (edge,) = (lines.get_segments()[0] for lines in ax.collections)
    (boundary, _) = edge[:, 1]
    height = ax.transData + ax.transAxes.inverted()
    border = height.transform((10, boundary))[1]
    zeros = [line for line in ax.lines if line.get_linestyle() == "None"]
    values = [y for line in ax.lines if line.get_linestyle() != "None" for y in line.get_ydata()]
    assert len(zeros) == 9
    assert [list(line.get_xdata()) for line in zeros] == [[1, 10]] * 9
    rows_of_marks = [height.transform((10, line.get_ydata()[0]))[1] for line in zeros]
    assert len(set(rows_of_marks)) == 9
    assert 0 < min(rows_of_marks) < max(rows_of_marks) < border  # in parts of the panel's height
    assert all(y >= boundary for y in values if not math.isnan(y))
    labels = [t.get_text() for t in ax.get_yticklabels()]
    assert labels.count("0") == 1
    ticks = ax.get_yticks()
    assert [t for t in ticks if t < boundary] == [ticks[labels.index("0")]]


@pytest.mark.parametrize(
    ("values", "expected"),
    [((0.2, 0.4, 0.8), "0.6"), ((-1.0, 0.5, 1.0), "\u22120.8"), ((1e5, 2e5, 3e5), "200 000")],
)
def test_ticks_of_a_linear_axis_have_no_needless_digits(
    tmp_path: Path, data: Json, values: tuple[float, ...], expected: str
) -> None:
    rows = [
        {"arithmetic": "float", "length": x, "error": y}
        for x, y in zip((1, 10, 100), values, strict=True)
    ]
    result = _load(tmp_path, _with_rows(data, rows))
    picture = draw(result, _figure(result, "lines", study="spacing", y="error", log=[])).picture
    FigureCanvasAgg(picture).draw()
    labels = [t.get_text() for t in picture.axes[0].get_yticklabels()]
    assert expected in labels
    assert not [label for label in labels if label.endswith("00") and "." in label]


def _ways() -> list[Json]:
    ways = [
        ("own", None, {"seconds": 0.01, "seconds_min": 0.005, "seconds_max": 0.04}, 1.5, 2.0),
        (
            "theirs",
            "a library",
            {"seconds": 1.0, "seconds_min": 1.0, "seconds_max": 1.0},
            1.0,
            1.01,
        ),
        ("absent", "another", dict.fromkeys(("seconds", "seconds_min", "seconds_max")), None, None),
    ]
    return [
        {"way": way, "library": library, **times, "end": end, "end_min": end, "end_max": worst}
        for way, library, times, end, worst in ways
    ]


_WAYS: Json = {"study": "spacing", "x": "seconds", "y": "end", "series": "way", "log": ["x", "y"]}


def test_a_trade_off_has_bars_to_least_and_largest_and_hollow_marks_for_libraries(
    tmp_path: Path, data: Json
) -> None:
    result = _load(tmp_path, _with_rows(data, _ways()))
    drawing = draw(result, _figure(result, "trade-off", **_WAYS))
    (ax,) = drawing.picture.axes
    own, theirs = (container for container in ax.containers)
    ends = [lines.get_segments()[0].tolist() for lines in own.lines[2]]
    expected = [[[0.005, 1.5], [0.04, 1.5]], [[0.01, 1.5], [0.01, 2.0]]]
    for segment, wanted in zip(ends, expected, strict=True):
        assert segment == [pytest.approx(point) for point in wanted]
    assert own.lines[0].get_markerfacecolor() == own.lines[0].get_color()
    assert theirs.lines[0].get_markerfacecolor() == "white"
    names = [t.get_text() for t in drawing.picture.legends[0].texts]
    assert names == ["own", "theirs", "absent (left out)"]
    caption = " ".join(drawing.caption)
    assert "Marks are medians, bars go from the least to the largest." in caption
    assert "Hollow marks are libraries." in caption
    FigureCanvasAgg(drawing.picture).draw()
    assert "10 ms" in [t.get_text() for t in ax.get_xticklabels()]


def test_a_trade_off_makes_nothing_of_a_difference_below_its_span(
    tmp_path: Path, data: Json
) -> None:
    rows = [row | {"end": 1.001, "end_min": 1.0, "end_max": 1.002} for row in _ways()]
    result = _load(tmp_path, _with_rows(data, rows))
    (ax,) = draw(result, _figure(result, "trade-off", **_WAYS)).picture.axes
    low, high = ax.get_ylim()
    assert low < 1 < 1.05 <= high
    FigureCanvasAgg(ax.figure).draw()
    shown = [t.get_text() for t in ax.get_yticklabels() if t.get_text()]
    assert "1" in shown
    assert len(shown) >= 3


def test_a_trade_off_without_a_number_says_why(tmp_path: Path, data: Json) -> None:
    result = _load(tmp_path, _with_rows(data, _ways()[2:]))
    absent = draw(result, _figure(result, "trade-off", **_WAYS)).absent
    assert absent == "no row of the study has numbers for seconds and end"


def test_headings_of_a_table_keep_apart(tmp_path: Path, data: Json) -> None:
    """A bold heading that is longer than its column's texts, before one aligned to the right."""
    rows = [{"a": "cpu", "b": "one float", "c": 22, "d": 0.08726}] * 2
    result = _load(tmp_path, _with_rows(data, rows))
    columns = [
        {"key": "a", "title": "distances and means"},
        {"key": "b", "title": "loss summed in"},
        {"key": "c", "title": "iterations"},
        {"key": "d", "title": "error of the loss"},
    ]
    figure = _figure(result, "rows", columns=columns, where={})
    picture = draw(result, figure).picture
    canvas = FigureCanvasAgg(picture)
    canvas.draw()
    heads = [t for t in picture.axes[0].texts if t.get_fontweight() == "bold"]
    boxes = [t.get_window_extent(canvas.get_renderer()) for t in heads]
    assert len(boxes) == 4
    letter = 0.06 * picture.dpi
    assert all(right.x0 - left.x1 > letter for left, right in itertools.pairwise(boxes))


def test_coloured_texts_of_a_table_keep_their_column_and_numbers_stay_whole() -> None:
    """Verdicts are bold, so fewer of their letters fit; half of 500 000 is another number."""
    verdict = (
        "\N{CIRCLE WITH LEFT HALF BLACK} holds in part: faster, but 23.8\N{MULTIPLICATION SIGN}, "
    )
    verdict += (
        "not about 60.5\N{MULTIPLICATION SIGN} (n = 100 000); falls from n = 50 000 to 500 000"
    )
    columns = (Column("here", 26), Column("measured", 48))
    picture = draw_table(columns, [Row((verdict, "speed-up"), colors=("#123456", None))])
    canvas = FigureCanvasAgg(picture)
    canvas.draw()
    texts = picture.axes[0].texts
    right = next(t for t in texts if t.get_text() == "speed-up").get_window_extent().x0
    lines = [t for t in texts if t.get_color() == "#123456"]
    assert " ".join(t.get_text() for t in lines) == verdict
    assert all(right - t.get_window_extent().x1 > 0.1 * picture.dpi for t in lines)
    assert any("n = 50 000" in t.get_text() for t in lines)
    assert not any(re.search(r"[ =]$|\d$", t.get_text()) for t in lines[:-1])


def test_rows_that_share_a_place_are_points_without_a_line(tmp_path: Path, data: Json) -> None:
    rows = [{"arithmetic": "float", "length": x, "error": y} for x, y in ((1, 2.0), (9, 3.0))]
    rows += [{"arithmetic": "double", "length": 9, "error": y} for y in (4.0, 5.0)]
    result = _load(tmp_path, _with_rows(data, rows))
    picture = draw(result, _figure(result, "lines", study="spacing", y="error")).picture
    assert [line.get_linestyle() for line in picture.axes[0].lines] == ["-", "None"]


def test_lines_of_two_studies_are_never_joined(show: Show) -> None:
    titles = [ax.get_title(loc="left") for ax in show("lines").picture.axes]
    assert titles == [
        f"{study}, {y}"
        for study in ("spacing", "other-spacing")
        for y in ("error", "labels changed")
    ]
    alone = show("lines", series=None, y="error").picture
    assert [t.get_text() for t in alone.legends[0].texts][:2] == ["spacing", "other-spacing"]


def test_rows_show_what_the_study_found(tmp_path: Path, data: Json) -> None:
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


def test_a_long_table_is_cut_and_says_so(tmp_path: Path, data: Json) -> None:
    rows = [{"arithmetic": "float", "length": i, "error": 0.5} for i in range(75)]
    result = _load(tmp_path, _with_rows(data, rows))
    drawing = draw(result, _figure(result, "rows"))
    assert _texts(drawing.picture).count("float") == 60
    assert "15 more rows in the result file." in drawing.caption


def test_a_study_that_failed_says_why_instead(tmp_path: Path, data: Json) -> None:
    late = {"status": "error", "reason": "took longer than 5 s", "findings": {}}
    result = _load(tmp_path, _with_rows(data, [], **late))
    figure = _figure(result, "rows")
    assert draw(result, figure).absent == "spacing: error, took longer than 5 s"
    assert draw(result, figure | {"study": "absent"}).absent == "this run has no study 'absent'"
    both = draw(result, _figure(result, "lines"))
    assert "spacing is error: took longer than 5 s." in both.caption


def test_seconds_of_a_trace_are_its_iterations_times_their_seconds(show: Show, data: Json) -> None:
    traces = {t["name"]: t for t in data["traces"]}
    traces["end-b-100"] |= {"status": "wrong", "reason": "labels differ"}
    drawing = show("trace-time")
    (ax,) = drawing.picture.axes
    drawn = {(int(x), float(y)) for line in ax.lines for x, y in zip(*line.get_data(), strict=True)}
    for name in ("end-a-100", "end-a-1000", "end-b-1000"):
        trace = traces[name]
        total = len(trace["iterations"]) * trace["seconds_per_iteration"]
        assert (trace["n"], total) in drawn
        assert str(len(trace["iterations"])) in _texts(drawing.picture)
    assert "No time: end-b-100, wrong: labels differ." in drawing.caption
    assert ax.get_title(loc="left").endswith("until no label changes")
    assert show("trace-time", traces=["nothing"]).absent


def test_traces_with_other_rules_get_panels_of_their_own(show: Show, data: Json) -> None:
    for trace in data["traces"]:
        if trace["name"].startswith("end-a"):
            trace["stop"] = None
    axes = show("trace-time").picture.axes
    titles = [ax.get_title(loc="left") for ax in axes]
    assert titles == ["fixed iterations", "until no label changes"]


def test_claims_show_statement_verdict_measurement_and_why(tmp_path: Path, data: Json) -> None:
    result = _load(tmp_path, data)
    drawing = draw(result, _figure(result, "claims"))
    text = " ".join(_texts(drawing.picture))
    found = verdicts(result)
    assert [verdict.kind == "untested" for verdict in found] == [False, False, True]
    assert data["spec"]["claims"][2]["statement"] not in text  # of those a count and the reason
    assert "1 of 3 claims cannot be tested here: " in text
    for claim, verdict in zip(data["spec"]["claims"][:2], found[:2], strict=True):
        assert claim["statement"] in text
        assert claim["why"] in text
        assert f"{verdict.sign} {verdict.verdict}" in text
        assert verdict.measured in text
    assert "3 claims" in " ".join(drawing.caption)
    data["spec"]["claims"][0]["of"] = "ours"
    drawing = draw(_load(tmp_path, data), _figure(result, "claims"))
    assert "3 claims, 1 of them our own questions" in " ".join(drawing.caption)
    for claim in data["spec"]["claims"]:
        claim["of"] = "ours"
    drawing = draw(_load(tmp_path, data), _figure(result, "claims"))
    assert "3 questions; " in " ".join(drawing.caption)
    assert "source" not in " ".join(drawing.caption)
    assert "we ask" in _texts(drawing.picture)
    data["spec"]["claims"] = []
    assert draw(_load(tmp_path, data), _figure(result, "claims")).absent


def test_a_table_of_a_group_shows_that_group_and_why(show: Show) -> None:
    texts = _texts(show("table", group="Table 1").picture)
    assert "Theirs counts the start of the program." in texts
    assert "their GPU" not in texts
    assert "their GPU" in _texts(show("table").picture)
    absent = show("table", group="Table 9").absent
    assert absent == "the experiment quotes no published number of the group 'Table 9'"


def _with_stage_work(data: Json, on_gpu: bool = True) -> Json:
    """Every cell with a time states what its labelling does, three processes have timed it."""
    for cell in data["cells"]:
        if cell["status"] != "ok":
            continue
        name = "label" if "label" in cell["stages"] else "assign"  # as in files of all versions
        n, d, k = cell["n"], cell["d"], cell["k"]
        seconds = cell["stages"][name]
        cell["stage_samples_seconds_per_iteration"] = {
            stage: [value, 2 * value, 4 * value] for stage, value in cell["stages"].items()
        }
        cell["stages"] = {stage: 2 * value for stage, value in cell["stages"].items()}
        assert cell["stages"][name] == 2 * seconds
        cell["stage_work"] = {
            name: {
                "operations": n * k * (3.0 * d + 2),
                "bytes_as_written": 4.0 * n * k * d,
                "gpu": on_gpu and cell["gpu"] is not None,
            }
        }
    return data


def _points(picture: Figure) -> set[tuple[int, float]]:
    """Of lines with error bars."""
    return {
        (round(float(x)), round(float(y), 9))
        for ax in picture.axes
        for container in ax.containers
        for x, y in zip(*container.lines[0].get_data(), strict=True)
        if not math.isnan(y)
    }


@pytest.mark.parametrize("kind", ["gbytes", "gflops"])
def test_rates_of_a_stage_are_its_work_over_its_own_time(
    tmp_path: Path, small_experiment: Json, kind: str
) -> None:
    data = _with_stage_work(synthetic.result(_gpu_experiment(small_experiment)))
    result = _load(tmp_path, data)
    where = {"variant": ["cuda_hybrid", "cpu_a"], "precision": ["f32"]}
    drawing = draw(result, _figure(result, kind, stage="assign", where=where))
    quantity = "bytes_as_written" if kind == "gbytes" else "operations"
    cells = [c for c in result.cells if c.variant in where["variant"] and c.precision == "f32"]
    expected = set()
    for cell in filter(lambda c: c.ok, cells):
        (name,) = cell.data["stage_work"]
        rate = cell.data["stage_work"][name][quantity] / cell.data["stages"][name] / 1e9
        expected.add((cell.k, round(rate, 9)))
    assert _points(drawing.picture) == expected
    assert len(expected) >= len(cells) - 1 == 7
    names = [t.get_text() for t in drawing.picture.legends[0].texts]
    ceilings = {
        "gbytes": [
            "read from memory: 72.0 GB/s",
            "read from cache: 230 GB/s",
            "GPU, read from memory: 4 000 GB/s",
            "GPU, read from L2: 8 000 GB/s",
        ],
        "gflops": [
            "multiply-add f32, one thread: 270 GFLOP/s",
            "GPU, multiply-add f32: 60 000 GFLOP/s",
        ],
    }
    assert [name for name in names if "/s" in name] == ceilings[kind]
    text = " ".join(drawing.caption)
    assert "The stage 'assign' alone, in the profiling pass: medians of 3 processes" in text
    assert "smallest and largest" in text


@pytest.mark.parametrize("kind", ["gbytes", "gflops"])
def test_an_unsteady_cell_has_no_rate_of_a_stage_either(
    tmp_path: Path, small_experiment: Json, kind: str
) -> None:
    data = _with_stage_work(synthetic.result(_gpu_experiment(small_experiment)))
    cell = next(c for c in data["cells"] if c["variant"] == "cuda_hybrid" and c["status"] == "ok")
    figure = {"kind": kind, "stage": "assign", "where": {"variant": ["cuda_hybrid"]}}
    figure = _figure(_load(tmp_path, data), **figure)
    points = _points(draw(_load(tmp_path, data), figure).picture)
    cell["unsteady"] = ["its processes disagree: 1 process at 1 ms, 1 at 2 ms, 1 at 4 ms"]
    drawing = draw(_load(tmp_path, data), figure)
    assert len(_points(drawing.picture)) == len(points) - 1
    assert "cuda_hybrid f32, unsteady" in " ".join(drawing.caption)
    assert "no time (see the notes)" in [t.get_text() for t in drawing.picture.legends[0].texts]


def test_a_stage_stands_under_the_limits_of_where_it_runs_alone(
    tmp_path: Path, small_experiment: Json
) -> None:
    """A panel of the CPU's lines has the CPU's ceilings, one of the GPU's the GPU's."""
    data = _with_stage_work(synthetic.result(_gpu_experiment(small_experiment)))
    result = _load(tmp_path, data)
    where = {"variant": ["cuda_hybrid", "cpu_a"], "precision": ["f32"]}
    picture = draw(result, _figure(result, "gbytes", stage="assign", where=where)).picture
    heights = {
        ax.get_ylabel()[:3]: {
            line.get_ydata()[0] for line in ax.lines if list(line.get_xdata()) == [0, 1]
        }
        for ax in picture.axes
        if ax.get_ylabel()
    }
    assert heights == {"CPU": {72.0, 230.0}, "GPU": {4000.0, 8000.0}}
    alone = draw(
        result, _figure(result, "gbytes", stage="assign", where={"variant": ["cuda_hybrid"]})
    ).picture
    assert [ax.get_ylabel() for ax in alone.axes] == ["GB/s, as written", ""]
    # The same stage of the same variant, if it declares the CPU: the flag decides, not the backend.
    data = _with_stage_work(synthetic.result(_gpu_experiment(small_experiment)), on_gpu=False)
    result = _load(tmp_path, data)
    figure = _figure(result, "gbytes", stage="assign", where={"variant": ["cuda_hybrid"]})
    names = [t.get_text() for t in draw(result, figure).picture.legends[0].texts]
    assert [n for n in names if "/s" in n] == [
        "read from memory: 72.0 GB/s",
        "read from cache: 230 GB/s",
    ]


def test_a_stage_without_stated_work_is_not_drawn_and_says_so(tmp_path: Path, data: Json) -> None:
    for cell in data["cells"]:
        cell.pop("stage_work", None)  # as in files of earlier versions
    result = _load(tmp_path, data)
    absent = draw(result, _figure(result, "gbytes", stage="assign")).absent
    assert absent == "no cell of this figure states the work of its stage 'assign'"
    for cell in _with_stage_work(data)["cells"]:
        if cell["variant"] == "openmp_b":
            cell["stage_work"] = {}
    drawing = draw(_load(tmp_path, data), _figure(result, "gflops", stage="assign"))
    assert "State no work of this stage: openmp_b." in drawing.caption
    assert not [t for t in drawing.picture.legends[0].texts if "openmp" in t.get_text()]


def test_iterations_on_cpu_and_gpu_have_panels_and_ceilings_of_their_own(
    tmp_path: Path, small_experiment: Json
) -> None:
    data = synthetic.result(_gpu_experiment(small_experiment))
    picture = draw(_load(tmp_path, data), _figure(_load(tmp_path, data), "gflops")).picture
    for ax in picture.axes:
        label = ax.get_ylabel()
        limits = {line.get_ydata()[0] for line in ax.lines if list(line.get_xdata()) == [0, 1]}
        if label.startswith("CPU"):
            assert limits == {538.0, 270.0, 476.0}
        elif label.startswith("GPU"):
            assert limits == {60_000.0, 51_000.0, 400_000.0, 700_000.0, 800_000.0}


def test_points_sent_to_a_gpu_stand_under_the_link_once_a_point(
    tmp_path: Path, small_experiment: Json
) -> None:
    data = synthetic.result(_gpu_experiment(small_experiment))
    sent = {"bytes_per_iteration": 55_000, "gbytes_per_second": None}
    sent |= {"disk_gbytes_per_second": None, "direct": None}
    for cell in data["cells"]:
        if cell["variant"] == "cuda_hybrid" and cell["status"] == "ok":
            cell["streamed"] = sent
    result = _load(tmp_path, data)
    figure = _figure(result, "gbytes", where={"variant": ["cuda_hybrid"]})
    picture = draw(result, figure).picture
    gpu = data["context"]["ceilings"]["gpu"]
    limits = {
        ax.get_ylabel(): {
            line.get_ydata()[0] for line in ax.lines if list(line.get_xdata()) == [0, 1]
        }
        for ax in picture.axes
    }
    assert limits["GB/s, compulsory"] == {gpu["host_to_device_gbytes_per_second"]["pinned"]}
    written = {gpu["read_gbytes_per_second"], gpu["read_gbytes_per_second_l2"]}
    assert limits.get("GB/s, as written", written) == written
    for ax in picture.axes:  # no marker is cut
        rates = [y for line in ax.lines for y in line.get_ydata()]
        assert max(rates) < ax.get_ylim()[1]


def test_one_stage_under_two_names_is_one(tmp_path: Path, small_experiment: Json) -> None:
    """Files of earlier versions call the labelling of a hybrid `label`."""
    data = synthetic.result(_gpu_experiment(small_experiment))
    for cell in data["cells"]:
        if cell["variant"] == "cuda_hybrid" and cell["status"] == "ok":
            cell["stages"] = {"upload": 1e-6, "label": 3e-6, "update": 4e-6, "download": 2e-6}
    figure = {"id": "x", "kind": "stages", "x": "k", "title": "T"}
    figure["where"] = {"variant": ["cuda_hybrid", "cpu_a"], "precision": ["f32"]}
    picture = draw(_load(tmp_path, data), figure).picture
    legend = picture.legends[0]
    names = [t.get_text() for t in legend.texts]
    assert names == ["upload", "assign", "download", "update"]
    color = legend.get_patches()[1].get_facecolor()
    bars = [p for ax in picture.axes for p in ax.patches if p.get_facecolor() == color]
    shares = {round(bar.get_height(), 9) for bar in bars}
    assert shares == {0.3, 0.9}


def _at_sizes(experiment: Json, sizes: list[int]) -> Json:
    experiment["scales"]["quick"]["sweep"] = {"n": sizes, "d": [2], "k": [2]}
    return experiment


def test_no_line_joins_fewer_than_three_places(tmp_path: Path, small_experiment: Json) -> None:
    def styles(sizes: list[int], kind: str) -> set[str]:
        result = _load(tmp_path, synthetic.result(_at_sizes(small_experiment, sizes)))
        figure = {"id": "x", "kind": kind, "x": "n", "title": "T"}
        (ax,) = draw(result, figure).picture.axes
        return {container.lines[0].get_linestyle() for container in ax.containers}

    assert styles([100, 1000], "time") == {"None"}
    assert styles([100, 1000, 10_000], "time") == {"-", "--"}
    assert styles([100, 1000, 10_000], "speedup") == {"-", "--"}


def test_speedups_at_two_places_are_bars(tmp_path: Path, small_experiment: Json) -> None:
    result = _load(tmp_path, synthetic.result(_at_sizes(small_experiment, [100, 1000])))
    figure = {"id": "x", "kind": "speedup", "x": "n", "title": "T"}
    drawing = draw(result, figure)
    titles = [ax.get_title(loc="left") for ax in drawing.picture.axes]
    assert titles == ["n = 100, d = 2, k = 2", "n = 1 000, d = 2, k = 2"]
    cells = {c.variant + c.precision + str(c.n): c for c in result.cells}
    ratio = speedup(cells["cpu_af32100"], cells["openmp_bf32100"])
    assert factor(ratio.mid) in _texts(drawing.picture)


def _published_speedup(**changes: Any) -> Json:
    return {
        "label": "their mean",
        "variant": "openmp_b",
        "quantity": "speedup",
        "value": 51,
        "machine": "an old machine",
        "where": "figure 13",
        "note": "over values that are not printed",
    } | changes


def test_a_published_speedup_is_a_line_with_its_name(
    tmp_path: Path, small_experiment: Json
) -> None:
    small_experiment["published"] += [
        _published_speedup(of="mean", shapes={"n": [100, 1000, 10_000], "k": [2]}),
        _published_speedup(label="of others", value=7, shapes={"k": [3]}),
        _published_speedup(label="of large ones", value=9, shapes={"n": [1000, 10_000]}),
        _published_speedup(label="not asked for", value=8),
    ]
    data = synthetic.result(_at_sizes(small_experiment, [100, 1000, 10_000]))
    result = _load(tmp_path, data)
    figure = {"id": "x", "kind": "speedup", "x": "n", "title": "T"}
    figure["reference"] = ["their mean", "of others", "of large ones"]
    drawing = draw(result, figure)
    (ax,) = drawing.picture.axes
    lines = {
        tuple(map(float, line.get_xdata())): float(line.get_ydata()[0])
        for line in ax.lines
        if float(line.get_ydata()[0]) in (51.0, 9.0, 8.0, 7.0)
        and line.get_transform() != ax.transAxes
    }
    assert lines == {(0.0, 1.0): 51.0, (1000.0, 10_000.0): 9.0}
    texts = _texts(drawing.picture)
    assert "published mean: 51\u00d7" in texts
    assert "published: 9\u00d7" in texts
    caption = (
        "Published mean: 51\u00d7, drawn as a line: their mean (figure 13; over values that are "
        "not printed)."
    )
    assert caption in drawing.caption
    assert not [s for s in drawing.caption if "of others" in s or "not asked for" in s]


def test_highlighted_variants_stand_out(tmp_path: Path, small_experiment: Json) -> None:
    result = _load(tmp_path, synthetic.result(_at_sizes(small_experiment, [100, 1000, 10_000])))
    for kind in ("speedup", "time"):
        figure = {"id": "x", "kind": kind, "x": "n", "title": "T", "highlight": ["openmp_b"]}
        drawing = draw(result, figure)
        (ax,) = drawing.picture.axes
        widths = [container.lines[0].get_linewidth() for container in ax.containers]
        assert max(widths) > 2 * sorted(widths)[-2]
        bold = [t.get_text() for t in ax.texts if t.get_fontweight() == "bold"]
        assert bold == ["openmp_b f32"]
        assert "Thick: openmp_b." in drawing.caption


def test_a_speedup_over_threads_joins_the_threads_of_a_variant(
    tmp_path: Path, small_experiment: Json
) -> None:
    data = synthetic.result(_at_sizes(small_experiment, [1000]))
    first = next(c for c in data["cells"] if c["variant"] == "openmp_b")
    data["cells"] = []
    for threads in (1, 2, 4):
        cell = copy.deepcopy(first) | {"threads": threads}
        samples = cell["samples_seconds_per_iteration"]
        synthetic.resample(cell, [[x / threads for x in process] for process in samples])
        data["cells"].append(cell)
    data["planned_cells"] = len(data["cells"])
    result = _load(tmp_path, data)
    figure = {"id": "x", "kind": "speedup", "x": "threads", "title": "T"}
    figure["baseline"] = {"variant": "openmp_b", "threads": 1}
    picture = draw(result, figure).picture
    assert _points(picture) == {(1, 1.0), (2, 2.0), (4, 4.0)}
    assert "openmp_b f32" in _texts(picture)


def test_limits_of_cpu_and_gpu_look_the_same_in_every_bar_chart(
    tmp_path: Path, small_experiment: Json
) -> None:
    """Whichever is the larger, and whether the other is there."""
    data = synthetic.result(_gpu_experiment(small_experiment))
    figure = next(f for f in small_experiment["figures"] if f["kind"] == "bars")

    def looks(changed: Json) -> dict[str, str]:
        (ax,) = draw(_load(tmp_path, changed), figure).picture.axes
        found = [line for line in ax.lines if list(line.get_ydata()) == [0, 1]]
        names = [t.get_text() for t in ax.texts if "limit" in t.get_text()]
        assert len(found) == len(names)
        # Names stand in the order of the places, from the right.
        found.sort(key=lambda line: -line.get_xdata()[0])
        return dict(
            zip(
                [n.split("'")[0] for n in names],
                [str(line._unscaled_dash_pattern) for line in found],
                strict=True,
            )
        )

    both = looks(copy.deepcopy(data))
    assert set(both) == {"CPU", "GPU"}
    assert both["CPU"] != both["GPU"]
    slow = copy.deepcopy(data)
    slow["context"]["ceilings"]["gpu"]["grid_barrier_seconds"] = 1e-3
    assert looks(slow) == both
    alone = copy.deepcopy(data)
    alone["cells"] = [c for c in alone["cells"] if c["backend"] == "cuda"]
    alone["planned_cells"] = len(alone["cells"])
    (look,) = looks(alone).values()
    assert look == both["GPU"]


def test_runs_of_a_trace_give_its_time_an_interval(show: Show, data: Json) -> None:
    traces = {t["name"]: t for t in data["traces"]}
    for trace in traces.values():
        trace["runs_seconds"] = None
    steps = len(traces["end-a-100"]["iterations"])
    runs = [[5e-3, 1e-3, 2e-3], [3e-3, 9e-3, 4e-3]]
    traces["end-a-100"] |= {"runs_seconds": runs, "seconds_per_iteration": 3.5e-3 / steps}
    drawing = show("trace-time")
    (ax,) = drawing.picture.axes
    segments = {
        tuple(round(float(y), 9) for y in segment[:, 1])
        for container in ax.containers
        for bars in container.lines[2]
        for segment in bars.get_segments()
        if len(segment)
    }
    assert (1e-3, 9e-3) in segments  # of six samples, the interval of the median is all of them
    assert (100, 0.0035) in _points(drawing.picture)
    assert (100, 9e-3) in [note.xy for note in ax.texts]  # iterations stand above the bar
    text = " ".join(drawing.caption)
    assert "Medians of 6 whole runs (2 processes), bars: 95 % confidence interval" in text
    assert "3 of 4 points is one run" in text


def test_a_convergence_shows_every_printed_value_and_what_is_zero(show: Show, data: Json) -> None:
    trace = data["traces"][0]
    trace["iterations"] = [
        {
            "iteration": i,
            "inertia": v,
            "loss": v,
            "movement": 0.0,
            "changed": c,
            "empty_clusters": 0,
        }
        for i, v, c in ((1, 4.0, 9), (2, 2.0, 0), (3, 2.0, 0))
    ]
    trace.pop("points", None)
    printed = [("theirs", "inertia", i, v) for i, v in ((1, 4.0), (2, 2.1), (7, 2.0))]
    printed += [("others'", "loss", i, v) for i, v in ((1, 4.01), (2, 2.02))]
    data["spec"]["published"] = [
        _published_speedup(label=label, quantity=key, iteration=i, value=v) | {"n": 100, "d": 2}
        for label, key, i, v in printed
    ]
    for entry in data["spec"]["published"]:
        entry["k"] = 3
    drawing = show("convergence", trace="run")
    axes = {ax.get_title(loc="left").split(":")[0]: ax for ax in drawing.picture.axes}
    low, high = axes["inertia"].get_xlim()
    assert low < 1
    assert high > 7
    crosses = [line for line in axes["inertia"].lines if line.get_marker() == "x"]
    assert {float(x) for line in crosses for x in line.get_xdata()} == {1.0, 2.0, 7.0}
    strip = [line for line in axes["inertia"].lines if line.get_transform() != crosses]
    zeros = [line for line in strip if line.get_markerfacecolor() == "white"]
    assert [list(line.get_xdata()) for line in zeros] == [[2, 3], [7]]
    changed = [
        line for line in axes["labels changed"].lines if line.get_markerfacecolor() == "white"
    ]
    assert [list(line.get_xdata()) for line in changed] == [[2, 3]]
    handles = drawing.picture.legends[0].legend_handles
    markers = {h.get_label(): h.get_marker() for h in handles}
    assert markers["printed: theirs"] != markers["printed: others'"]
    text = " ".join(drawing.caption)
    assert "Printed theirs: 3 values of 2 digits, so their steps are 5.0e-02 of the value" in text


def test_the_variants_own_loss_has_a_panel_with_the_printed_values(show: Show, data: Json) -> None:
    trace = data["traces"][0]
    for step in trace["iterations"]:
        step["own_loss"] = step["loss"] * 1.5
    entry = _published_speedup(quantity="loss", iteration=1, value=2.0, n=100, d=2, k=3)
    data["spec"]["published"] = [entry]
    picture = show("convergence", trace="run").picture
    axes = {ax.get_title(loc="left").split(":")[0]: ax for ax in picture.axes}
    own, loss = axes["loss as the variant sums it"], axes["loss"]
    assert [line for line in own.lines if line.get_marker() == "x"]
    assert not [line for line in loss.lines if line.get_marker() == "x"]


def test_digits_of_printed_values() -> None:
    assert significant_digits([1.08259e7, 1.0826e7]) == 6
    assert significant_digits([100.0]) == 1
    assert significant_digits([208029133.74340856]) == 17


def test_a_field_whose_contenders_were_left_out_is_hatched(tmp_path: Path, data: Json) -> None:
    places = {}
    for cell in data["cells"]:
        places[cell["variant"], cell["precision"], cell["n"], cell["k"]] = cell
    synthetic.fail(places["cpu_a", "f64", 1000, 5], "skipped", "n k d = 10000 is more than 5")
    synthetic.fail(places["openmp_b", "f32", 100, 2], "wrong", "labels differ")
    result = _load(tmp_path, data)
    drawing = draw(result, _figure(result, "winners"))
    ax = drawing.picture.axes[0]
    hatched = {p.get_xy(): p.get_hatch() for p in ax.patches if p.get_hatch()}
    right, left, top, bottom = 1 - 0.48, 0 - 0.48, 0 - 0.47, 1 - 0.47  # k = 5, 2; n = 1 000, 100
    assert hatched == {(right, top): style.LEFT_OUT, (left, bottom): style.LEFT_OUT_WRONG}
    sentence = (
        "Hatched: the fastest of those that are steady, without openmp_b f32 (wrong) at n=100, "
        "d=2, k=2; without cpu_a f64 (skipped) at n=1000, d=2, k=5."
    )
    assert sentence in drawing.caption
    legend = [t.get_text() for t in drawing.picture.legends[0].texts]
    assert legend[-2:] == ["another is wrong there", "left out there:\nskipped"]
    clean = draw(_load(tmp_path, synthetic.result(data["spec"])), _figure(result, "winners"))
    assert not [s for s in clean.caption if s.startswith("Hatched")]


def test_unsteady_and_unmeasured_contenders_are_left_out_of_a_map(show: Show, data: Json) -> None:
    places = {(c["variant"], c["precision"], c["n"], c["k"]): c for c in data["cells"]}
    shaky = places["openmp_b", "f32", 100, 2]
    synthetic.resample(shaky, [[1e-8], [2e-8], [4e-8]])
    shaky["unsteady"] = ["its processes disagree: 1 process at 10.0 ns, 1 at 20.0 ns, 1 at 40.0 ns"]
    data["cells"].remove(places["cpu_a", "f64", 1000, 5])
    data |= {"complete": False}
    drawing = show("winners")
    field = next(t.get_text() for t in drawing.picture.axes[0].texts if t.get_position() == (0, 1))
    assert "openmp_b" not in field  # by far the least time wins nothing
    hatched = {p.get_xy() for p in drawing.picture.axes[0].patches if p.get_hatch()}
    assert {(-0.48, 0.53), (0.52, -0.47)} <= hatched
    caption = " ".join(drawing.caption)
    assert "without openmp_b f32 (unsteady) at n=100, d=2, k=2" in caption
    assert "without cpu_a f64 (not measured) at n=1000, d=2, k=5" in caption
    assert "No one number: openmp_b f32, unsteady, at (n = 100, d = 2, k = 2)" in caption
    legend = [t.get_text() for t in drawing.picture.legends[0].texts]
    assert any(text.startswith("left out there:\nunsteady, not measured") for text in legend)


@pytest.mark.parametrize("kind", ["time", "speedup", "gflops", "trace-time"])
def test_the_mark_of_a_value_that_is_missing_stands_below_the_axis(
    tmp_path: Path, data: Json, kind: str
) -> None:
    """At the foot of a panel it would read as the least time, or the fastest."""
    experiment = _at_sizes(data["spec"], [100, 1000, 10_000])
    more = synthetic.result(experiment)
    synthetic.fail(next(c for c in more["cells"] if c["variant"] == "openmp_b"), "wrong")
    broken = next(t for t in more["traces"] if t["name"] == "end-b-100")
    broken |= {"status": "wrong", "reason": "labels differ"}
    result = _load(tmp_path, more)
    picture = draw(result, _figure(result, kind)).picture
    crosses = 0
    for ax in picture.axes:
        for line in ax.lines:
            if line.get_marker() != "x" or line.get_transform() != ax.transData:
                continue
            crosses += 1
            (place,) = line.get_ydata()
            others = [
                one
                for one in ax.lines
                if one.get_marker() != "x" and one.get_transform() == ax.transData
            ]
            values = [y for one in others for y in one.get_ydata() if not math.isnan(y)]
            assert place < min(values)
            tick = ax.yaxis.get_major_formatter()(ax.yaxis.get_major_locator()()[0], 0)
            assert tick == "no time"
    assert crosses


def test_a_whole_call_is_setup_and_its_iterations(tmp_path: Path, data: Json) -> None:
    for cell in data["cells"]:
        if cell["status"] == "ok":
            own = 5e-3 if cell["variant"] == "openmp_b" else 1e-6
            cell["setup_seconds"] = own
            synthetic.retime(cell, 1e-6 if cell["variant"] == "openmp_b" else 30e-6)
    result = _load(tmp_path, data)
    figure = {"id": "w", "kind": "whole-call", "title": "W", "where": {"n": [100], "k": [2]}}
    drawing = draw(result, figure | {"where": {"n": [100], "k": [2], "precision": ["f32"]}})
    assert _points(drawing.picture) >= {(1, 31e-6), (20, 601e-6), (300, 5.3e-3)}
    caption = " ".join(drawing.caption)
    assert "T = 1 cpu_a f32 (31.0 µs)" in caption  # setup decides a short call
    assert "300 openmp_b f32 (5.30 ms)" in caption
    measured = max(cell["iterations"] for cell in data["cells"])
    assert f"Beyond the {measured} iterations that were measured" in caption
    speedups = " ".join(draw(result, _figure(result, "speedup")).caption)
    assert "at most as long as 5 000 of them (openmp_b f32, " in speedups
    # A library's setup is no part of a call.
    for cell in data["cells"]:
        cell["backend"] = "python" if cell["variant"] == "openmp_b" else cell["backend"]
    drawing = draw(_load(tmp_path, data), figure)
    caption = " ".join(drawing.caption)
    assert "Without Python libraries: a Python library's setup includes" in caption
    assert "300 cpu_a f32" in caption
    assert "openmp_b" not in caption


def test_every_figure_of_a_narrowed_run_says_that_it_is_partial(tmp_path: Path, data: Json) -> None:
    """As `--only cpu_a` leaves a file: cells of the others are absent."""
    planned = len(data["cells"])
    data["cells"] = [c for c in data["cells"] if c["variant"] == "cpu_a"]
    data |= {"complete": False, "planned_cells": planned}
    result = _load(tmp_path, data)
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


def test_several_traces_are_drawn_in_the_order_named(show: Show, data: Json) -> None:
    data["traces"][1]["points"] = data["traces"][0]["points"]
    wanted = ["end-a-100", "run", "absent"]
    drawing = show("convergence", trace=wanted)
    names = [t.get_text() for t in drawing.picture.legends[0].texts]
    assert [name.split(":")[0] for name in names[:2]] == ["end-a-100", "run"]
    assert "Without a trace in this run: absent." in drawing.caption
    # Where two traces have the same value, the one below shows around the other.
    for ax in drawing.picture.axes:
        below, above = [line for line in ax.get_lines() if line.get_linestyle() != "None"][:2]
        assert below.get_zorder() < above.get_zorder()
        assert below.get_markersize() > above.get_markersize() + 1
    drawing = show("scatter", trace=wanted)
    titles = [ax.get_title(loc="left") for ax in drawing.picture.axes]
    assert titles == ["end-a-100: cpu_a f32", "run: cpu_a f64"]
    assert show("convergence", trace=["absent"]).absent == ("this run has no trace 'absent'")


def test_speedups_of_many_scattered_shapes_are_a_table_of_fields(
    tmp_path: Path, small_experiment: Json
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


def test_a_stage_looks_the_same_in_every_figure(tmp_path: Path, small_experiment: Json) -> None:
    result = _load(tmp_path, synthetic.result(_gpu_experiment(small_experiment)))
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


def test_texts_keep_inside_the_file(tmp_path: Path, small_experiment: Json) -> None:
    """At the resolution of the files, which the layout was not made at."""
    result = _load(tmp_path, synthetic.result(_gpu_experiment(small_experiment)))
    for kind in figures.KINDS:
        picture = with_caption(draw(result, _figure(result, kind)))
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
        done = subprocess.run(
            [sys.executable, "-m", "plots", "all", str(path.parent)],
            cwd=synthetic.ROOT,
            env=environment | more,
            capture_output=True,
            text=True,
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
    done = subprocess.run(
        [sys.executable, "-m", "plots", "all", str(path.parent)],
        cwd=synthetic.ROOT,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 3
    assert "matplotlib" in done.stderr
    assert "make setup" in done.stderr
    assert "Traceback" not in done.stderr
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]
