# SPDX-License-Identifier: Apache-2.0
"""A comparison of machines is read strictly; its page answers first, and links are found."""

from __future__ import annotations

import json
import re
from pathlib import Path

import browser
import pytest
import synthetic
import synthetic_machines as made
from synthetic import Json

from plots import __main__ as command
from plots import index, machines_figure, machines_page, words
from plots.comparison import comparisons_in
from plots.load import load_folder
from plots.machines import load_machines
from plots.report import render
from tests.support import PROGRAM, kmeans_bench, needs_program, says


@pytest.fixture
def data() -> Json:
    return made.machines(
        [
            made.cell(1_000_000, 1.5),
            made.cell(2_000_000, 1.4),
            made.cell(1_000, 0.8, "launches", dataset="<script>x</script>-1"),
            made.cell(5_000, 1.01, "products"),
            made.cell(7_000, 0.9, "products", fastest=False, exact=False),
        ]
    )


def write(folder: Path, data: Json) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "machines.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def page_of(path: Path, *more: str) -> str:
    assert command.main(["machines", str(path), *more]) == 0
    return (path.parent / "machines.html").read_text(encoding="utf-8")


def test_reads_what_it_holds(tmp_path: Path, data: Json) -> None:
    found = load_machines(write(tmp_path, data))
    pair = found.pairs[0]
    assert found.agree
    assert len(pair.cells) == 5
    assert [cell.n for cell in pair.shapes] == [1_000_000, 2_000_000, 1_000, 5_000]
    assert pair.cells[0].possible == pytest.approx(2)
    assert pair.groups[0].undecided == 0


def test_other_versions_are_refused(tmp_path: Path, data: Json, capsys: object) -> None:
    data["machines_version"] = 2
    path = write(tmp_path, data)
    assert command.main(["machines", str(path)]) == 2
    assert not (tmp_path / "machines.html").exists()


def test_the_answer_comes_first_and_there_is_no_gate(tmp_path: Path, data: Json) -> None:
    page = page_of(write(tmp_path, data))
    answer = page.index("The Two, against the One, is 1.50 times as fast.")
    assert page.index("<h1>") < answer < page.index("<nav")
    assert page.index("<nav") < page.index('id="groups-1"') < page.index('id="figures-1"')
    assert page.index('id="figures-1"') < page.index('id="shapes-1"')
    text = re.sub(r"<style>.*?</style>", "", page, flags=re.S)
    assert "gate" not in text.lower()
    assert "lost" not in text.lower()
    assert "<script>x" not in page
    assert "3 exist for One alone, 4 for Two alone" in page
    assert "4 000 GB/s" in page  # the limits of both, next to the times


def test_what_changed_between_commits_is_marked(tmp_path: Path, data: Json) -> None:
    pair = data["pairs"][0]
    plain = page_of(write(tmp_path / "plain", data))
    assert '<span class="tag warning">changed</span>' not in plain
    pair["cells"][0]["changed"] = True
    pair["notes"] = ["Seen on one alone: e", "Changed between the commits: cuda_<a>"]
    page = page_of(write(tmp_path / "other", data))
    # In the table of shapes and in that of all cells.
    assert page.count('<span class="tag warning">changed</span>') == 2
    assert '<p class="facts">Seen on one alone: e.</p>' in page
    assert "Changed between the commits: cuda_&lt;a&gt;." in page


def test_files_of_before_there_were_notes_are_read(tmp_path: Path, data: Json) -> None:
    del data["pairs"][0]["notes"]
    for cell in data["pairs"][0]["cells"]:
        del cell["changed"]
    pair = load_machines(write(tmp_path, data)).pairs[0]
    assert pair.notes == ()
    assert not any(cell.changed for cell in pair.cells)


def test_disagreeing_answers_are_loud(tmp_path: Path, data: Json) -> None:
    pair = data["pairs"][0]
    pair["answers"] |= {"agree": False, "disagreements": ["e: cuda_a: other labels"]}
    pair["sentences"][-1] = "ANSWERS DISAGREE: 1 finding."
    page = page_of(write(tmp_path, data))
    head = page[: page.index("<nav")]
    assert '<div class="notice"><p><strong>ANSWERS DISAGREE: 1 finding.' in head
    assert "e: cuda_a: other labels" in head


def test_a_figure_has_a_row_per_shape_and_marks_of_the_limits(data: Json, tmp_path: Path) -> None:
    pair = load_machines(write(tmp_path, data)).pairs[0]
    drawing = machines_figure.draw_shapes(pair, 0.05, on_gpu=True)
    axes = drawing.picture.axes
    assert [ax.get_title(loc="left") for ax in axes] == [
        "points read from memory",
        "products bind",
        "launches and barriers bind",
    ]
    assert [len(ax.get_yticks()) for ax in axes] == [2, 1, 1]
    marks = [line.get_xdata()[0] for line in axes[0].lines if line.get_marker() == "|"]
    assert marks == pytest.approx([2, 2])
    caption = " ".join(drawing.caption)
    assert f"By its limits Two is 2.00{words.TIMES} where points are read from memory" in caption
    assert machines_figure.draw_shapes(pair, 0.05, on_gpu=False).absent


def test_many_shapes_are_thinned_and_that_is_said(tmp_path: Path) -> None:
    cells = [made.cell(1000 + n, 1 + n / 1000) for n in range(100)]
    pair = load_machines(write(tmp_path, made.machines(cells))).pairs[0]
    drawing = machines_figure.draw_shapes(pair, 0.05, on_gpu=True)
    rows = drawing.picture.axes[0].get_yticks()
    assert len(rows) == machines_figure.MOST_ROWS
    assert any(sentence.startswith("60 shapes") for sentence in drawing.caption)


def sourced(experiment: Json, faster: bool) -> Json:
    """A result whose one claim holds, or does not."""
    result = synthetic.result(experiment)
    claim = synthetic.CLAIM | {"tests": [dict(synthetic.CLAIM["tests"][0])]}
    claim["tests"][0]["at_least"] = 1e-9 if faster else 1e9
    result["spec"] = experiment | {"claims": [claim], "source": "a text"}
    return result


def test_claims_stand_side_by_side(tmp_path: Path, data: Json, small_experiment: Json) -> None:
    small_experiment |= {"figures": [], "studies": [], "traces": []}
    for name, holds in (("a", True), ("b", False)):
        synthetic.write(tmp_path / name, sourced(small_experiment, holds))
    places = [tmp_path / "a", tmp_path / "b"]
    sources = machines_page.sources_of(*(load_folder(place) for place in places))
    assert [len(source.lines) for source in sources] == [1]
    line = sources[0].lines[0]
    assert line.kinds == ("holds", "fails")
    assert line.moves
    page = page_of(write(tmp_path / "out", data), *map(str, places))
    section = page[page.index('<section id="claims-1">') :]
    assert "The parallel version is faster." in section
    assert section.index("✓") < section.index("✗")
    assert says(section, "1 claim", "both machines, 1 of them differently")
    assert "are not at hand" not in section


def test_what_cannot_be_read_is_said(tmp_path: Path, data: Json, small_experiment: Json) -> None:
    small_experiment |= {"figures": [], "studies": [], "traces": []}
    synthetic.write(tmp_path / "a", sourced(small_experiment, True))
    page = page_of(write(tmp_path / "out", data), str(tmp_path / "a"), str(tmp_path / "b"))
    assert "results/b are not at hand" in page
    assert says(page, "0 claims", "none of them differently")


def test_the_reports_of_both_and_the_index_link_to_it(
    tmp_path: Path, data: Json, small_experiment: Json
) -> None:
    small_experiment |= {"figures": [], "claims": [], "studies": [], "traces": []}
    for name in ("a", "b"):
        synthetic.write(tmp_path / name, synthetic.result(small_experiment))
    path = write(tmp_path / "b" / "compare-a", data)
    assert comparisons_in(tmp_path / "b") == []  # no page yet
    page_of(path)
    links = {name: comparisons_in(tmp_path / name) for name in ("a", "b")}
    assert [link.href for link in links["b"]] == ["compare-a/machines.html"]
    assert [link.href for link in links["a"]] == ["../b/compare-a/machines.html"]
    assert links["b"][0].base == "results/a"
    for name in ("a", "b"):
        text = render(load_folder(tmp_path / name), links[name])
        assert f'<a href="{links[name][0].href}">Compared with ' in text
        assert "is 1.50 times as fast" in text
    listed = index.render({tmp_path / name: load_folder(tmp_path / name) for name in ("a", "b")})
    assert 'href="b/compare-a/machines.html"' in listed


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_its_window(
    tmp_path: Path, data: Json, page: browser.Browser, width: int
) -> None:
    path = write(tmp_path, data)
    page_of(path)
    page.visit((tmp_path / "machines.html").as_uri(), width)
    assert page.complaints == []
    assert page.run("document.documentElement.scrollWidth") <= width
    # A link to what is folded opens it.
    assert not page.run("document.querySelector('#cells-1').open")
    page.click("a[href='#cells-1']")
    page.run("new Promise((done) => setTimeout(done, 300))")  # after the address has changed
    assert page.run("document.querySelector('#cells-1').open")


@needs_program
def test_what_the_program_writes_is_read_and_drawn(tmp_path: Path, small_experiment: Json) -> None:
    assert PROGRAM
    small_experiment |= {"figures": [], "claims": [], "studies": [], "traces": []}
    small_experiment["variants"] = ["cpu_a", "openmp_b"]
    for name in ("a", "b"):
        result = synthetic.result(small_experiment)
        result["context"]["machine"]["cpu"]["model"] = f"Processor {name}"
        synthetic.write(tmp_path / name, result)
    path = tmp_path / "out" / "machines.json"
    path.parent.mkdir()
    kmeans_bench("compare", "--machines", tmp_path / "a", tmp_path / "b", "--json", path)
    assert "The Processor b, against the Processor a," in load_machines(path).pairs[0].sentences[0]
    assert "Processor b" in page_of(path, str(tmp_path / "a"), str(tmp_path / "b"))
