# SPDX-License-Identifier: Apache-2.0
"""A comparison is read strictly, drawn from whatever it may hold, and escaped."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import browser
import pytest
import synthetic
import synthetic_comparison as made
from matplotlib.figure import Figure
from synthetic import Json

from plots import __main__ as command
from plots import compare_figures, index, words
from plots.comparison import load_comparison
from plots.load import ResultError, load_folder
from plots.machines import load_machines
from plots.render import settle, with_caption
from plots.report import render, write_report
from tests.support import PROGRAM, captured, needs_program

HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;\u001b[31m=1+1|`"


@pytest.fixture
def results(small_experiment: Json) -> list[Json]:
    """One experiment; no figures, claims and studies, which are drawn elsewhere."""
    small_experiment |= {"figures": [], "claims": [], "studies": [], "traces": []}
    return made.of_more_processes([synthetic.result(small_experiment)])


def _edit(path: Path, change: Callable[[Json], object]) -> Path:
    """A comparison that has something else to say."""
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    return path


# --- Reading ---------------------------------------------------------------------------------


def test_reads_what_it_holds(tmp_path: Path, results: list[Json]) -> None:
    path = made.compare(tmp_path, results, made.changed(results))
    found, data = load_comparison(path), json.loads(path.read_text())
    assert len(found.pairs) == data["counts"]["cells"] == 12
    pair, cell = found.pairs[0], data["cells"][0]
    assert (pair.ratio.mid, pair.ratio.low) == (cell["ratio"], cell["ratio_low"])
    assert {"slower", "faster", "same"} <= {pair.verdict for pair in found.pairs}
    few = [pair for pair in found.pairs if pair.base["samples"] == 3]
    assert few
    assert not any(pair.ratio.confident for pair in few)


@pytest.mark.parametrize("version", [0, 1, 3, "2", None, True])
def test_refuses_other_versions(tmp_path: Path, version: Any) -> None:
    path = tmp_path / "comparison.json"
    path.write_text(json.dumps({"comparison_version": version}))
    with pytest.raises(ResultError, match="comparison_version"):
        load_comparison(path)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda data: data.update(extra=1), "extra"),
        (lambda data: data["cells"][0].update(verdict="fine"), "/cells/0/verdict"),
        (lambda data: data["cells"][0].update(verdict="untimed"), "/cells/0/ratio"),
        (lambda data: data["cells"][0].update(ratio=None), "/cells/0/ratio"),
        (lambda data: data["cells"][0]["new"].update(status="wrong"), "/cells/0/new"),
    ],
)
def test_refuses_what_leaves_the_schema(
    tmp_path: Path, results: list[Json], change: Callable[[Json], object], place: str
) -> None:
    path = made.compare(tmp_path, results, results)
    with pytest.raises(ResultError, match=place):
        load_comparison(_edit(path, change))


# --- Figures ---------------------------------------------------------------------------------


def _many(results: list[Json], shapes: int) -> list[Json]:
    """A sweep of so many shapes."""
    (one,) = copy.deepcopy(results)
    one["cells"] = [
        synthetic.cell("small", variant, "f32", (100 * (i + 1), 2 + i % 7, 3), 10)
        for i in range(shapes)
        for variant in ("cpu_a", "openmp_b", "cuda_c")
    ]
    one["planned_cells"] = len(one["cells"])
    (known, *_) = one["context"]["datasets"].values()
    one["context"]["datasets"] = {
        cell["dataset"]: known | {"n": cell["n"], "d": cell["d"]} for cell in one["cells"]
    }
    return made.of_more_processes([one])


@pytest.mark.parametrize("shapes", [1, 2, 100])
def test_figures_are_readable_with_few_and_with_many_cells(
    tmp_path: Path, results: list[Json], shapes: int
) -> None:
    base = _many(results, shapes)
    found = load_comparison(made.compare(tmp_path, base, made.changed(base)))
    drawings = dict(
        compare_figures.draw_all(found, load_folder(tmp_path / "a"), load_folder(tmp_path / "b"))
    )
    assert set(drawings) == {"ordered", "ratio-small", "ceilings"}
    for name, drawing in drawings.items():
        assert isinstance(drawing.picture, Figure), drawing.absent
        text = " ".join(drawing.caption)
        assert "ase: a, " in text
        assert "Synthetic Processor" in text
        alone = with_caption(drawing)
        settle(alone)
        width, height = alone.get_size_inches()
        assert width <= 13.5, name
        assert height <= 26, name
    marks = [
        line
        for ax in drawings["ratio-small"].picture.axes
        for line in ax.lines
        if line.get_marker() not in ("None", None, "")
    ]
    timed = sum(pair.ratio is not None for pair in found.pairs)
    assert len(marks) == timed == 3 * shapes


def test_a_very_large_comparison_leaves_the_same_to_the_table(
    tmp_path: Path, results: list[Json]
) -> None:
    base = _many(results, 180)
    found = load_comparison(made.compare(tmp_path, base, made.changed(base)))
    picture, notes = compare_figures.ratios(found, "small")
    same = sum(pair.verdict == "same" for pair in found.pairs)
    assert any(note.startswith(f"{same} cells left out") for note in notes)
    assert isinstance(picture, Figure)


def test_cells_without_a_ratio_say_why(tmp_path: Path, results: list[Json]) -> None:
    new = copy.deepcopy(results)
    synthetic.fail(new[0]["cells"][1], "wrong", "labels differ")
    for group in (results, new):
        for cell in group[0]["cells"]:
            if cell["precision"] == "f64":
                synthetic.fail(cell, "skipped")
    found = load_comparison(made.compare(tmp_path, results, new))
    picture, notes = compare_figures.ratios(found, "small")
    texts = [text.get_text() for ax in picture.axes for text in ax.texts]
    assert "\u00d7 ok, now wrong" in texts
    assert "!" in texts  # next to a regression of correctness
    assert "Skipped on both sides: cpu_a f64." in notes


def test_nothing_timed_is_said(tmp_path: Path, results: list[Json]) -> None:
    for cell in results[0]["cells"]:
        synthetic.fail(cell, "error")
    path = made.compare(tmp_path, results, copy.deepcopy(results))
    drawings = compare_figures.draw_all(load_comparison(path))
    assert all(drawing.absent for _, drawing in drawings)
    assert command.main(["compare", str(path)]) == 0
    assert "Not drawn: " in (path.parent / "comparison.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("far", "names"),
    [
        (1.03, ["-2 %", "-1 %", "1x", "+1 %", "+2 %"]),
        (1.6, ["1/1.5", "-20 %", "1x", "+20 %", "1.5x"]),
        (40, ["1/30", "1/5", "1x", "5x", "30x"]),
    ],
)
def test_ticks_of_ratios_are_round_and_few(far: float, names: list[str]) -> None:
    ticks = compare_figures.ratio_ticks(far)
    found = [compare_figures.ratio_tick(tick) for tick in ticks]
    assert [text.replace(words.TIMES, "x").replace(words.MINUS, "-") for text in found] == names


@pytest.mark.parametrize(
    ("number", "places"),
    [
        (1, [1]),
        (5, [1, 2, 3, 4, 5]),
        (13, [2, 4, 6, 8, 10, 12]),
        (612, [100, 200, 300, 400, 500, 600]),
    ],
)
def test_ticks_of_places_are_regular(number: int, places: list[int]) -> None:
    assert compare_figures.place_ticks(number) == places


# --- Page ------------------------------------------------------------------------------------


class _Text(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]
        self.text += " " if tag in ("td", "th", "li", "p") else ""

    def handle_data(self, data: str) -> None:
        self.text += data


def _page(folder: Path, *more: str) -> str:
    path = folder / "b" / "compare-a"
    assert command.main(["compare", str(path / "comparison.json"), *more]) == 0
    return (path / "comparison.html").read_text(encoding="utf-8")


def test_correctness_comes_first_and_everything_is_there(
    tmp_path: Path, results: list[Json]
) -> None:
    new = made.changed(results)
    new[0]["cells"][2]["label_hash"] = "f" * 16
    synthetic.fail(new[0]["cells"][3], "wrong", "3 labels differ")
    new[0]["cells"][0]["noted"] = ["the GPU was throttled"]
    lost = new[0]["cells"].pop()
    new[0]["planned_cells"] = len(new[0]["cells"])
    path = made.compare(tmp_path, results, new)
    data = json.loads(path.read_text())
    sides = ["--base", str(tmp_path / "a"), "--new", str(tmp_path / "b")]
    write_report(load_folder(tmp_path / "a"), tmp_path / "a")
    html = _page(tmp_path, *sides)
    text = re.sub(r"\s+", " ", _Text(html).text)
    order = ["gate failed", "Why the gate failed", "3 labels differ", "Missing from the new result"]
    order += ["Environment differences", data["differences"][0], "All ratios in order"]
    order += ["The worst first"]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert lost["key"] in text[places[3] : places[4]]
    for name in ("slower", "faster", "same"):
        assert f"{data['counts'][name]} {name}" in text
    for cell in data["cells"]:
        if cell["ratio"]:
            assert f"{cell['ratio']:.3f}" in text
    assert "new: the GPU was throttled" in text
    assert 'href="comparison.json"' in html
    assert 'href="../../a/report.html"' in html
    assert 'href="../small.json"' in html
    assert 'href="../../a/small.json"' in html
    assert "Geometric mean of the ratios" in text


@pytest.mark.parametrize(
    ("outcome", "sign"), [("passed", "✓"), ("failed", "✗"), ("undecided", "?")]
)
def test_the_page_says_the_word_of_the_gate(
    tmp_path: Path, results: list[Json], outcome: str, sign: str
) -> None:
    sentences = {"reasons": [], "undecided": []}
    sentences |= {"failed": {"reasons": ["1 slower"]}, "undecided": {"undecided": ["2 open"]}}.get(
        outcome, {}
    )
    path = made.compare(tmp_path, results, results)
    _edit(path, lambda data: data["gate"].update(outcome=outcome, **sentences))
    html = _page(tmp_path)
    text = re.sub(r"\s+", " ", _Text(html).text)
    assert f"{sign} gate {outcome}" in text
    assert [f"gate {word}" in html for word in ("passed", "failed", "undecided")].count(True) == 1
    for sentence in sentences["reasons"] + sentences["undecided"]:
        assert sentence in text
    assert json.loads(path.read_text())["sees"] in text


def test_head_section_and_column_count_answers_alike(tmp_path: Path, results: list[Json]) -> None:
    new = copy.deepcopy(results)
    certified = [cell for cell in new[0]["cells"] if not cell["exact"]]
    for cell in certified[:2]:
        cell["label_hash"] = "f" * 16
    synthetic.fail(certified[2], "skipped", "no GPU")
    path = made.compare(tmp_path, results, new)
    assert load_comparison(path).answers == "0 answers broken, 1 cell lost, 2 changed but certified"
    text = re.sub(r"\s+", " ", _Text(_page(tmp_path)).text)
    assert "0 answers broken, 1 cell lost, 2 changed but certified, 0 missing" in text
    assert re.search(
        r"answers broken cells lost answers changed otherwise small( \d+){5} 0 1 2", text
    )
    trace = {"experiment": "small", "kind": "trace", "name": "stops"}
    trace |= {"correctness": ["was ok"], "correctness_regression": False, "lost": True}
    _edit(path, lambda data: data.update(records=[trace]))
    assert "1 trace or study lost, 2 changed but certified" in load_comparison(path).answers
    assert "trace stops — was ok" in re.sub(r"\s+", " ", _Text(_page(tmp_path)).text)


def test_page_reports_what_is_broken_on_both_sides_and_which_bits_are_not_compared(
    tmp_path: Path, results: list[Json]
) -> None:
    new = made.changed(results)
    for side, group in (("base", results), ("new", new)):
        synthetic.fail(group[0]["cells"][0], "wrong", f"labels of {side}")
    path = made.compare(tmp_path, results, new)
    _edit(path, lambda data: data.update(bits_vary=3))
    text = re.sub(r"\s+", " ", _Text(_page(tmp_path)).text)
    assert "No answer changed" in text
    assert f"In 3 cells of {len(new[0]['cells'])}" in text
    assert "Wrong or failed on both sides (1)" in text
    assert "wrong labels of new" in text


def test_hostile_texts_stay_texts(tmp_path: Path, results: list[Json]) -> None:
    path = made.compare(tmp_path, results, made.changed(results))
    data = json.loads(path.read_text())
    for side in ("base", "new"):
        data[side] |= {"label": HOSTILE, "machine": HOSTILE, "cpu": HOSTILE, "gpu": HOSTILE}
        data[side]["files"][0] |= {"git_commit": HOSTILE, "started": HOSTILE}
    data["differences"] = [HOSTILE]
    sentences = {key: [HOSTILE] for key in ("reasons", "undecided", "notes")}
    data["gate"] = {"outcome": "failed"} | sentences
    data["sees"] = HOSTILE
    data["groups"][0]["variant"] = HOSTILE
    data["missing"] = [{"experiment": HOSTILE, "key": HOSTILE, "reason": HOSTILE}]
    data["records"] = [
        {
            "experiment": HOSTILE,
            "kind": "trace",
            "name": HOSTILE,
            "correctness": [HOSTILE],
            "correctness_regression": True,
        }
    ]
    data["cells"][0] |= {"why": HOSTILE, "variant": HOSTILE, "correctness": [HOSTILE]}
    data["cells"][0]["base"] |= {"unsteady": [HOSTILE], "noted": [HOSTILE]}
    data["cells"][0]["outcome_why"] = HOSTILE
    data["cells"][0] |= {"still_broken": True}
    data["cells"][0]["new"]["reason"] = HOSTILE
    path.write_text(json.dumps(data))
    html = _page(tmp_path)
    page = _Text(html)
    assert page.tags.count("script") == html.count("</script>") == 1
    assert not {"img", "iframe", "object", "link", "form", "base"} & set(page.tags)
    assert page.text.count("<script>alert(1)</script>") >= 12
    assert "\u001b" not in html  # a copied line commands no terminal
    # The machine's report and the index name the comparison, and escape its label.
    folder = {tmp_path / "b": load_folder(tmp_path / "b")}
    write_report(folder[tmp_path / "b"], tmp_path / "b")
    for text in ((tmp_path / "b" / "report.html").read_text(), index.render(folder)):
        assert _Text(text).tags.count("script") == text.count("</script>") in (4, 7)
        assert "compare-a/comparison.html" in text


def test_the_report_and_the_index_lead_to_comparisons(tmp_path: Path, results: list[Json]) -> None:
    path = made.compare(tmp_path, results, made.changed(results))
    loaded = load_folder(tmp_path / "b")
    assert "compare-a" not in render(loaded)
    write_report(loaded, tmp_path / "b")
    assert "compare-a" not in (tmp_path / "b" / "report.html").read_text()  # no page yet
    _page(tmp_path)
    write_report(loaded, tmp_path / "b")
    report = (tmp_path / "b" / "report.html").read_text()
    assert 'href="compare-a/comparison.html"' in report
    assert "Compared with a" in report
    assert 'href="b/compare-a/comparison.html"' in index.render({tmp_path / "b": loaded})
    path.write_text("{")  # damaged: not named, and nothing else suffers
    write_report(loaded, tmp_path / "b")
    assert "compare-a" not in (tmp_path / "b" / "report.html").read_text()


def test_a_damaged_comparison_ends_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "comparison.json").write_text("[]")
    assert command.main(["compare", str(tmp_path / "comparison.json")]) == 2
    assert "comparison.json: comparison_version" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["comparison.json"]


def test_the_page_sorts_and_fits_a_phone(
    page: browser.Browser, tmp_path: Path, results: list[Json]
) -> None:
    new = made.changed(results)
    synthetic.fail(new[0]["cells"][3], "wrong", "a_reason_without_an_end_" * 12)
    made.compare(tmp_path, results, new)
    _page(tmp_path)
    file = tmp_path / "b" / "compare-a" / "comparison.html"
    for width in (360, 1280):
        page.visit(file.as_uri(), width, 800)
        page.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        assert page.run("document.scrollingElement.scrollWidth") <= width
    column = """[...document.querySelector('#cells tbody').rows]
      .map((row) => row.cells[9].dataset.order)"""
    page.run("[...document.querySelectorAll('#cells th')][9].click()")
    found = page.run(column)
    numbers = [float(text) for text in found if text]
    assert numbers == sorted(numbers)
    assert found[-1] == ""  # no ratio comes last
    links = page.run("[...document.links].map((link) => link.href)")
    files = {link.partition("#")[0].removeprefix("file://") for link in links}
    assert all(Path(name).is_file() for name in files)
    assert page.run("document.querySelectorAll('svg.picture').length") == 2
    assert page.complaints == []


# --- The script ------------------------------------------------------------------------------


def _suite(folder: Path, draws: bool = True) -> Path:
    """The scripts and the Python side, without the results of the repository; where nothing is to
    be drawn, a Python that does nothing saves seconds."""
    root = folder / "suite"
    (root / "results").mkdir(parents=True)
    for name in ("plots", "experiments"):
        (root / name).symlink_to(synthetic.ROOT / name)
    (root / ".venv" / "bin").mkdir(parents=True)
    python = sys.executable if draws else shutil.which("true")
    (root / ".venv" / "bin" / "python").write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    (root / ".venv" / "bin" / "python").chmod(0o755)
    shutil.copytree(synthetic.ROOT / "tools", root / "tools")
    for schema in (synthetic.ROOT / "results").glob("*.json"):
        shutil.copy(schema, root / "results")
    return root


def _compare(root: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    build = Path(PROGRAM).parent
    return captured(
        [str(root / "tools" / "compare.sh"), *words],
        timeout=900,
        env=os.environ | {"BUILD": str(build)} | variables,
    )


@needs_program
def test_the_script_compares_two_folders_and_passes_the_status_on(
    tmp_path: Path, results: list[Json]
) -> None:
    root = _suite(tmp_path)
    new = copy.deepcopy(results)
    synthetic.fail(new[0]["cells"][0], "wrong", "3 labels differ")
    synthetic.write(root / "results" / "a", results[0])
    synthetic.write(root / "results" / "b", new[0])
    done = _compare(root, "a", "results/b")
    assert done.returncode == 0, done.stderr
    out = root / "results" / "b" / "compare-a"
    names = {path.name for path in out.iterdir()}
    assert names == {"comparison.json", "summary.md", "comparison.html", "figures"}
    assert load_comparison(out / "comparison.json").counts["cells"] == 12
    assert "results/index.html" in done.stdout
    text = (root / "results" / "index.html").read_text()
    assert 'href="b/compare-a/comparison.html"' in text
    gated = _compare(root, "a", "b", GATE="1", OUT=str(tmp_path / "elsewhere"))
    assert gated.returncode == 1, gated.stderr
    assert (tmp_path / "elsewhere" / "comparison.html").is_file()
    # A refusal leaves the comparison that is there, and no folder where there was none.
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert _compare(root, "a", "b", "--effect", "much").returncode == 2
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    assert _compare(root, "a", "b", "--nonsense", OUT=str(tmp_path / "x" / "y")).returncode != 0
    assert not (tmp_path / "x").exists()
    assert not [*root.rglob(".compare-*"), *tmp_path.glob(".compare-*")]
    equal = _compare(root, "a", "a", "--gate", OUT=str(tmp_path / "equal"))
    assert equal.returncode == 0, equal.stderr


@needs_program
def test_the_script_says_that_machines_differ(tmp_path: Path, results: list[Json]) -> None:
    root = _suite(tmp_path, draws=False)
    new = copy.deepcopy(results)
    new[0]["context"]["machine"] |= {"id": "other", "cpu": {"model": "Another One", "cores": 8}}
    synthetic.write(root / "results" / "a", results[0])
    synthetic.write(root / "results" / "b", new[0])
    done = _compare(root, "a", "b")
    assert done.returncode == 0, done.stderr
    assert "the machines differ" in done.stdout
    out = root / "results" / "b" / "compare-a"
    assert load_machines(out / "machines.json").pairs[0].counts["timed"] > 0
    assert not (out / "comparison.json").exists()
    assert "from different hardware" not in done.stderr  # the answer, not a list of what differs
    for words_, variables in (((), {"GATE": "1"}), (("--gate",), {})):
        gated = _compare(root, "a", "b", *words_, **variables)
        assert gated.returncode == 2, gated.stdout
        assert "--cross-hardware" in gated.stderr
    assert (out / "machines.json").exists()  # a refusal leaves it alone
    assert _compare(root, "a", "b", "--gate", "--cross-hardware").returncode == 0
    assert load_comparison(out / "comparison.json").settings["cross_hardware"]
    assert not (out / "machines.json").exists()


@needs_program
def test_the_script_refuses_what_is_not_there(tmp_path: Path) -> None:
    root = _suite(tmp_path, draws=False)
    for names in ((), ("a",), ("absent", "b")):
        done = _compare(root, *names)
        assert done.returncode == 2
        assert "make compare BASE=" in done.stderr
