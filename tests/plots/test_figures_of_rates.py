# SPDX-License-Identifier: Apache-2.0
"""Figures of rates, stages and speed-ups, with limits; fields whose contenders are missing."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import pytest
import synthetic
from drawn import (
    Show,
    figure_of,
    gpu_experiment,
    loaded,
    points_of,
    published_speedup,
    texts_of,
)
from synthetic import Json

from plots import style
from plots.metrics import speedup
from plots.render import draw
from plots.words import factor
from tests.support import says


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


@pytest.mark.parametrize("kind", ["gbytes", "gflops"])
def test_rates_of_a_stage_are_its_work_over_its_own_time(
    tmp_path: Path, small_experiment: Json, kind: str
) -> None:
    data = _with_stage_work(synthetic.result(gpu_experiment(small_experiment)))
    result = loaded(tmp_path, data)
    where = {"variant": ["cuda_hybrid", "cpu_a"], "precision": ["f32"]}
    drawing = draw(result, figure_of(result, kind, stage="assign", where=where))
    quantity = "bytes_as_written" if kind == "gbytes" else "operations"
    cells = [c for c in result.cells if c.variant in where["variant"] and c.precision == "f32"]
    expected = set()
    for cell in filter(lambda c: c.ok, cells):
        (name,) = cell.data["stage_work"]
        rate = cell.data["stage_work"][name][quantity] / cell.data["stages"][name] / 1e9
        expected.add((cell.k, round(rate, 9)))
    assert points_of(drawing.picture) == expected
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
    assert says(text, "'assign'", "medians of 3 processes")
    assert "smallest and largest" in text


@pytest.mark.parametrize("kind", ["gbytes", "gflops"])
def test_an_unsteady_cell_has_no_rate_of_a_stage_either(
    tmp_path: Path, small_experiment: Json, kind: str
) -> None:
    data = _with_stage_work(synthetic.result(gpu_experiment(small_experiment)))
    cell = next(c for c in data["cells"] if c["variant"] == "cuda_hybrid" and c["status"] == "ok")
    figure = {"kind": kind, "stage": "assign", "where": {"variant": ["cuda_hybrid"]}}
    figure = figure_of(loaded(tmp_path, data), **figure)
    points = points_of(draw(loaded(tmp_path, data), figure).picture)
    cell["unsteady"] = ["its processes disagree: 1 process at 1 ms, 1 at 2 ms, 1 at 4 ms"]
    drawing = draw(loaded(tmp_path, data), figure)
    assert len(points_of(drawing.picture)) == len(points) - 1
    assert "cuda_hybrid f32, unsteady" in " ".join(drawing.caption)
    assert "no time (see the notes)" in [t.get_text() for t in drawing.picture.legends[0].texts]


def test_a_stage_stands_under_the_limits_of_where_it_runs_alone(
    tmp_path: Path, small_experiment: Json
) -> None:
    """A panel of the CPU's lines has the CPU's ceilings, one of the GPU's the GPU's."""
    data = _with_stage_work(synthetic.result(gpu_experiment(small_experiment)))
    result = loaded(tmp_path, data)
    where = {"variant": ["cuda_hybrid", "cpu_a"], "precision": ["f32"]}
    picture = draw(result, figure_of(result, "gbytes", stage="assign", where=where)).picture
    heights = {
        ax.get_ylabel()[:3]: {
            line.get_ydata()[0] for line in ax.lines if list(line.get_xdata()) == [0, 1]
        }
        for ax in picture.axes
        if ax.get_ylabel()
    }
    assert heights == {"CPU": {72.0, 230.0}, "GPU": {4000.0, 8000.0}}
    alone = draw(
        result, figure_of(result, "gbytes", stage="assign", where={"variant": ["cuda_hybrid"]})
    ).picture
    assert [ax.get_ylabel() for ax in alone.axes] == ["GB/s, as written", ""]
    # The same stage of the same variant, if it declares the CPU: the flag decides, not the backend.
    data = _with_stage_work(synthetic.result(gpu_experiment(small_experiment)), on_gpu=False)
    result = loaded(tmp_path, data)
    figure = figure_of(result, "gbytes", stage="assign", where={"variant": ["cuda_hybrid"]})
    names = [t.get_text() for t in draw(result, figure).picture.legends[0].texts]
    assert [n for n in names if "/s" in n] == [
        "read from memory: 72.0 GB/s",
        "read from cache: 230 GB/s",
    ]


def test_a_stage_without_stated_work_is_not_drawn_and_says_so(tmp_path: Path, data: Json) -> None:
    for cell in data["cells"]:
        cell.pop("stage_work", None)  # as in files of earlier versions
    result = loaded(tmp_path, data)
    absent = draw(result, figure_of(result, "gbytes", stage="assign")).absent
    assert "stage 'assign'" in absent
    for cell in _with_stage_work(data)["cells"]:
        if cell["variant"] == "openmp_b":
            cell["stage_work"] = {}
    drawing = draw(loaded(tmp_path, data), figure_of(result, "gflops", stage="assign"))
    assert "State no work of this stage: openmp_b." in drawing.caption
    assert not [t for t in drawing.picture.legends[0].texts if "openmp" in t.get_text()]


def test_iterations_on_cpu_and_gpu_have_panels_and_ceilings_of_their_own(
    tmp_path: Path, small_experiment: Json
) -> None:
    data = synthetic.result(gpu_experiment(small_experiment))
    picture = draw(loaded(tmp_path, data), figure_of(loaded(tmp_path, data), "gflops")).picture
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
    data = synthetic.result(gpu_experiment(small_experiment))
    sent = {"bytes_per_iteration": 55_000, "gbytes_per_second": None}
    sent |= {"disk_gbytes_per_second": None, "direct": None}
    for cell in data["cells"]:
        if cell["variant"] == "cuda_hybrid" and cell["status"] == "ok":
            cell["streamed"] = sent
    result = loaded(tmp_path, data)
    figure = figure_of(result, "gbytes", where={"variant": ["cuda_hybrid"]})
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
    data = synthetic.result(gpu_experiment(small_experiment))
    for cell in data["cells"]:
        if cell["variant"] == "cuda_hybrid" and cell["status"] == "ok":
            cell["stages"] = {"upload": 1e-6, "label": 3e-6, "update": 4e-6, "download": 2e-6}
            del cell["stage_samples_seconds_per_iteration"]
    figure = {"id": "x", "kind": "stages", "x": "k", "title": "T"}
    figure["where"] = {"variant": ["cuda_hybrid", "cpu_a"], "precision": ["f32"]}
    picture = draw(loaded(tmp_path, data), figure).picture
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
        result = loaded(tmp_path, synthetic.result(_at_sizes(small_experiment, sizes)))
        figure = {"id": "x", "kind": kind, "x": "n", "title": "T"}
        (ax,) = draw(result, figure).picture.axes
        return {container.lines[0].get_linestyle() for container in ax.containers}

    assert styles([100, 1000], "time") == {"None"}
    assert styles([100, 1000, 10_000], "time") == {"-", "--"}
    assert styles([100, 1000, 10_000], "speedup") == {"-", "--"}


def test_speedups_at_two_places_are_bars(tmp_path: Path, small_experiment: Json) -> None:
    result = loaded(tmp_path, synthetic.result(_at_sizes(small_experiment, [100, 1000])))
    figure = {"id": "x", "kind": "speedup", "x": "n", "title": "T"}
    drawing = draw(result, figure)
    titles = [ax.get_title(loc="left") for ax in drawing.picture.axes]
    assert titles == ["n = 100, d = 2, k = 2", "n = 1 000, d = 2, k = 2"]
    cells = {c.variant + c.precision + str(c.n): c for c in result.cells}
    ratio = speedup(cells["cpu_af32100"], cells["openmp_bf32100"])
    assert factor(ratio.mid) in texts_of(drawing.picture)


def test_a_published_speedup_is_a_line_with_its_name(
    tmp_path: Path, small_experiment: Json
) -> None:
    small_experiment["published"] += [
        published_speedup(of="mean", shapes={"n": [100, 1000, 10_000], "k": [2]}),
        published_speedup(label="of others", value=7, shapes={"k": [3]}),
        published_speedup(label="of large ones", value=9, shapes={"n": [1000, 10_000]}),
        published_speedup(label="not asked for", value=8),
    ]
    data = synthetic.result(_at_sizes(small_experiment, [100, 1000, 10_000]))
    result = loaded(tmp_path, data)
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
    texts = texts_of(drawing.picture)
    assert "published mean: 51\u00d7" in texts
    assert "published: 9\u00d7" in texts
    caption = (
        "Published mean: 51\u00d7, drawn as a line: their mean (figure 13; over values that are "
        "not printed)."
    )
    assert caption in drawing.caption
    assert not [s for s in drawing.caption if "of others" in s or "not asked for" in s]


def test_highlighted_variants_stand_out(tmp_path: Path, small_experiment: Json) -> None:
    result = loaded(tmp_path, synthetic.result(_at_sizes(small_experiment, [100, 1000, 10_000])))
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
    result = loaded(tmp_path, data)
    figure = {"id": "x", "kind": "speedup", "x": "threads", "title": "T"}
    figure["baseline"] = {"variant": "openmp_b", "threads": 1}
    picture = draw(result, figure).picture
    assert points_of(picture) == {(1, 1.0), (2, 2.0), (4, 4.0)}
    assert "openmp_b f32" in texts_of(picture)


def test_limits_of_cpu_and_gpu_look_the_same_in_every_bar_chart(
    tmp_path: Path, small_experiment: Json
) -> None:
    """Whichever is the larger, and whether the other is there."""
    data = synthetic.result(gpu_experiment(small_experiment))
    figure = next(f for f in small_experiment["figures"] if f["kind"] == "bars")

    def looks(changed: Json) -> dict[str, str]:
        (ax,) = draw(loaded(tmp_path, changed), figure).picture.axes
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


def test_a_field_whose_contenders_were_left_out_is_hatched(tmp_path: Path, data: Json) -> None:
    places = {}
    for cell in data["cells"]:
        places[cell["variant"], cell["precision"], cell["n"], cell["k"]] = cell
    synthetic.fail(places["cpu_a", "f64", 1000, 5], "skipped", "n k d = 10000 is more than 5")
    synthetic.fail(places["openmp_b", "f32", 100, 2], "wrong", "labels differ")
    result = loaded(tmp_path, data)
    drawing = draw(result, figure_of(result, "winners"))
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
    clean = draw(loaded(tmp_path, synthetic.result(data["spec"])), figure_of(result, "winners"))
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
    result = loaded(tmp_path, more)
    picture = draw(result, figure_of(result, kind)).picture
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
