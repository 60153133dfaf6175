# SPDX-License-Identifier: Apache-2.0
"""Figures over rows of studies, traces, claims and published numbers."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from typing import Any

import pytest
from drawn import (
    Show,
    figure_of,
    loaded,
    points_of,
    published_speedup,
    texts_of,
)
from matplotlib.backends.backend_agg import FigureCanvasAgg
from synthetic import Json

from plots.claims import verdicts
from plots.figures import _studies
from plots.figures._tables import Column, Row, draw_table
from plots.figures.convergence import significant_digits
from plots.render import draw, settle
from tests.support import says


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
    result = loaded(tmp_path, _with_rows(data, rows))
    figure = figure_of(result, "lines", study="spacing", y="error", log=["x", "y"])
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
    result = loaded(tmp_path, _with_rows(data, rows))
    figure = figure_of(result, "lines", study="spacing", y="error", log=["x", "y"])
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
    result = loaded(tmp_path, _with_rows(data, rows))
    picture = draw(result, figure_of(result, "lines", study="spacing", y="error", log=[])).picture
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
    result = loaded(tmp_path, _with_rows(data, _ways()))
    drawing = draw(result, figure_of(result, "trade-off", **_WAYS))
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
    assert says(caption, "medians", "from the least to the largest")
    assert "Hollow marks are libraries." in caption
    FigureCanvasAgg(drawing.picture).draw()
    assert "10 ms" in [t.get_text() for t in ax.get_xticklabels()]


def test_no_bar_of_a_trade_off_is_cut_and_a_narrow_axis_has_ticks_between_powers(
    tmp_path: Path, data: Json
) -> None:
    (own, *_) = _ways()
    rows = [own | {"seconds": 0.01, "seconds_min": 0.004, "seconds_max": 0.08}]
    result = loaded(tmp_path, _with_rows(data, rows))
    (ax,) = draw(result, figure_of(result, "trade-off", **_WAYS)).picture.axes
    low, high = ax.get_xlim()
    assert low < 0.004 < 0.08 < high
    FigureCanvasAgg(ax.figure).draw()
    shown = [t.get_text() for t in ax.get_xticklabels() if low < t.get_position()[0] < high]
    assert shown == ["3 ms", "10 ms", "30 ms", "100 ms"]


def test_what_several_studies_have_in_common_is_said_once() -> None:
    def study(name: str, status: str, reason: str | None, *notes: str) -> Json:
        return {
            "name": name,
            "status": status,
            "reason": reason,
            "notes": notes,
            "study": "spacing",
        }

    skipped = [study(name, "skipped", "no data.") for name in ("a", "b")]
    found = [_studies._not_ok(one, [*skipped, study("c", "error", "no data")]) for one in skipped]
    assert found == ["a and b are skipped: no data."] * 2
    assert _studies._not_ok(skipped[0], skipped[:1]) == "a is skipped: no data."
    both = [study("a", "ok", None, "all of it", "ward: late", "x, GPU: late")]
    both += [study("b", "ok", None, "all of it", "ward: late")]
    assert _studies._notes(both) == ["All of it.", "a: ward; x, GPU: late.", "b: ward: late."]


def test_a_trade_off_makes_nothing_of_a_difference_below_its_span(
    tmp_path: Path, data: Json
) -> None:
    rows = [row | {"end": 1.001, "end_min": 1.0, "end_max": 1.002} for row in _ways()]
    result = loaded(tmp_path, _with_rows(data, rows))
    (ax,) = draw(result, figure_of(result, "trade-off", **_WAYS)).picture.axes
    low, high = ax.get_ylim()
    assert low < 1 < 1.05 <= high
    FigureCanvasAgg(ax.figure).draw()
    shown = [t.get_text() for t in ax.get_yticklabels() if t.get_text()]
    assert "1" in shown
    assert len(shown) >= 3


def test_a_trade_off_without_a_number_says_why(tmp_path: Path, data: Json) -> None:
    result = loaded(tmp_path, _with_rows(data, _ways()[2:]))
    absent = draw(result, figure_of(result, "trade-off", **_WAYS)).absent
    assert "seconds and end" in absent


def test_headings_of_a_table_keep_apart(tmp_path: Path, data: Json) -> None:
    """A bold heading that is longer than its column's texts, before one aligned to the right."""
    rows = [{"a": "cpu", "b": "one float", "c": 22, "d": 0.08726}] * 2
    result = loaded(tmp_path, _with_rows(data, rows))
    columns = [
        {"key": "a", "title": "distances and means"},
        {"key": "b", "title": "loss summed in"},
        {"key": "c", "title": "iterations"},
        {"key": "d", "title": "error of the loss"},
    ]
    figure = figure_of(result, "rows", columns=columns, where={})
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
    result = loaded(tmp_path, _with_rows(data, rows))
    picture = draw(result, figure_of(result, "lines", study="spacing", y="error")).picture
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
    result = loaded(tmp_path, _with_rows(data, rows, findings={"lost_share": 0.25}))
    drawing = draw(result, figure_of(result, "rows"))
    texts = texts_of(drawing.picture)
    assert texts[:3] == ["arithmetic", "length", "relative\nerror"]
    assert texts[3:] == ["float", "1 000 000", "\u22120.01235", "double", "10", "\u2014"]
    everything = texts_of(draw(result, figure_of(result, "rows", columns=None)).picture)
    assert "no" in everything  # a boolean in words
    caption = " ".join(drawing.caption)
    assert "Found: lost share 0.2500." in caption
    assert "n = 100, d = 2, k = 3" in caption
    assert "A note of the study." in caption


def test_a_long_table_is_cut_and_says_so(tmp_path: Path, data: Json) -> None:
    rows = [{"arithmetic": "float", "length": i, "error": 0.5} for i in range(75)]
    result = loaded(tmp_path, _with_rows(data, rows))
    drawing = draw(result, figure_of(result, "rows"))
    assert texts_of(drawing.picture).count("float") == 60
    assert "15 more rows in the result file." in drawing.caption


def test_a_study_that_failed_says_why_instead(tmp_path: Path, data: Json) -> None:
    late = {"status": "error", "reason": "took longer than 5 s", "findings": {}}
    result = loaded(tmp_path, _with_rows(data, [], **late))
    figure = figure_of(result, "rows")
    assert draw(result, figure).absent == "spacing: error, took longer than 5 s"
    assert draw(result, figure | {"study": "absent"}).absent == "this run has no study 'absent'"
    both = draw(result, figure_of(result, "lines"))
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
        assert str(len(trace["iterations"])) in texts_of(drawing.picture)
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
    result = loaded(tmp_path, data)
    drawing = draw(result, figure_of(result, "claims"))
    text = " ".join(texts_of(drawing.picture))
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
    drawing = draw(loaded(tmp_path, data), figure_of(result, "claims"))
    assert "3 claims, 1 of them our own questions" in " ".join(drawing.caption)
    for claim in data["spec"]["claims"]:
        claim["of"] = "ours"
    drawing = draw(loaded(tmp_path, data), figure_of(result, "claims"))
    assert "3 questions; " in " ".join(drawing.caption)
    assert "source" not in " ".join(drawing.caption)
    assert "we ask" in texts_of(drawing.picture)
    data["spec"]["claims"] = []
    assert draw(loaded(tmp_path, data), figure_of(result, "claims")).absent


def test_a_table_of_a_group_shows_that_group_and_why(show: Show) -> None:
    texts = texts_of(show("table", group="Table 1").picture)
    assert "Theirs counts the start of the program." in texts
    assert "their GPU" not in texts
    assert "their GPU" in texts_of(show("table").picture)
    absent = show("table", group="Table 9").absent
    assert "'Table 9'" in absent


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
    assert (100, 0.0035) in points_of(drawing.picture)
    assert (100, 9e-3) in [note.xy for note in ax.texts]  # iterations stand above the bar
    text = " ".join(drawing.caption)
    assert says(text, "6 whole runs (2 processes)", "95 %")
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
        published_speedup(label=label, quantity=key, iteration=i, value=v) | {"n": 100, "d": 2}
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
    assert says(text, "theirs", "3 values of 2 digits", "5.0e-02")


def test_the_variants_own_loss_has_a_panel_with_the_printed_values(show: Show, data: Json) -> None:
    trace = data["traces"][0]
    for step in trace["iterations"]:
        step["own_loss"] = step["loss"] * 1.5
    entry = published_speedup(quantity="loss", iteration=1, value=2.0, n=100, d=2, k=3)
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
