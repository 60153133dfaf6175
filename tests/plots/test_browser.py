# SPDX-License-Identifier: Apache-2.0
"""Report and index in a real browser: they run under their own policy, sort, and fit a phone."""

from __future__ import annotations

import re
import urllib.parse
from pathlib import Path
from typing import Any

import browser
import pytest
import synthetic
from synthetic import CLAIM

from plots import index
from plots.load import load_folder
from plots.render import write_figures
from plots.report import write_report

LONG = "a machine with a very long name " * 4 + "and_one_word_that_has_no_end" * 4
# Of each picture: its width, and whether there is ink and text in it.
IMAGES = """[...document.querySelectorAll("svg.picture")].map((picture) =>
  picture.querySelector("path") && picture.querySelector("text")
    ? picture.getBoundingClientRect().width : 0)"""
COLUMN = """[...document.querySelector(%r).closest("table").tBodies[0].rows]
  .map((row) => row.cells[%d].dataset.order)"""
WIDTH = "document.scrollingElement.scrollWidth"
OPEN = "document.querySelectorAll('details').forEach((d) => { d.open = true; })"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two machines with figures, reports and index; one experiment has all that a report can show,
    and texts that are too wide for a phone."""
    root = tmp_path_factory.mktemp("results")
    experiments = {e["name"]: e for e in synthetic.experiments()}
    first = experiments["goldsborough2017"]
    first = first | {
        "name": "first",
        "title": LONG,
        "description": LONG,
        "claims": [
            CLAIM | {"statement": f"It is faster. {LONG}"},
            CLAIM | {"id": "absent", "tests": [CLAIM["tests"][0] | {"at_least": 9e9}]},
        ],
        "figures": [f for f in first["figures"] if f["kind"] in ("bars", "scatter", "table")],
    }
    for name in ("one", "two"):
        shown = first if name == "one" else first | {"figures": []}
        data = synthetic.result(shown)
        data["context"]["machine"]["cpu"]["model"] = LONG
        rows = [{"way": f"{LONG}{row}", "error": 1 / (row + 1)} for row in range(20)]
        study = synthetic.study(first, {"name": "sums", "study": "float_sums"})
        data["studies"] = [study | {"summary": LONG, "notes": [LONG], "rows": rows}]
        synthetic.write(root / name, data)
        if name == "one":
            synthetic.write(root / name, synthetic.result(experiments["minnaar2019"]))
    folders = {root / name: load_folder(root / name) for name in ("one", "two")}
    for folder, loaded in folders.items():
        write_figures(loaded, folder / "figures")
        write_report(loaded, folder)
    index.write_index(folders, root)
    return root


def _drawn(folder: Path) -> int:
    """Figures of the folder that a report shows as pictures."""
    tables = ("table", "rows", "claims")
    return sum(
        (folder / "figures" / f"{result.experiment}-{figure['id']}.svg").is_file()
        for result in load_folder(folder)
        for figure in result.figures
        if figure["kind"] not in tables
    )


def test_the_report_runs_without_a_complaint_and_shows_every_figure(
    page: browser.Browser, results: Path
) -> None:
    page.visit((results / "one" / "report.html").as_uri())
    widths = page.run(IMAGES)
    assert len(widths) == _drawn(results / "one") >= 3
    assert all(width > 0 for width in widths)
    assert page.complaints == []
    outside = [url for url in page.requests[1:] if not url.startswith("data:image/png;base64,")]
    assert outside == []


def test_the_report_works_when_copied_alone(
    page: browser.Browser, results: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.html"
    copy.write_bytes((results / "one" / "report.html").read_bytes())
    page.visit(copy.as_uri())
    assert all(width > 0 for width in page.run(IMAGES))
    assert page.complaints == []


def test_the_policy_refuses_what_is_not_the_pages_own(
    page: browser.Browser, results: Path, tmp_path: Path
) -> None:
    """Also shows that the other tests would see a complaint."""
    text = (results / "one" / "report.html").read_text()
    bad = "<script>document.title = 'taken'</script><img src='https://example.invalid/x.png'>"
    copy = tmp_path / "copy.html"
    copy.write_text(text.replace("</main>", f"{bad}</main>"))
    page.visit(copy.as_uri())
    assert page.run("document.title") != "taken"
    assert len([text for text in page.complaints if "Content Security Policy" in text]) >= 2


def _numbers(page: browser.Browser, heading: str, column: int) -> list[float]:
    found: list[Any] = page.run(COLUMN % (heading, column))
    return [float(text) for text in found if text]


def test_a_click_sorts_and_a_key_turns_the_order(page: browser.Browser, results: Path) -> None:
    page.visit((results / "one" / "report.html").as_uri())
    page.run(OPEN)
    column = page.run(
        "(() => { const h = [...document.querySelectorAll('#first th')]"
        ".find((h) => h.textContent === 'median per iteration');"
        " h.id = 'chosen'; return h.cellIndex; })()"
    )
    before = _numbers(page, "#chosen", column)
    assert before != sorted(before)
    page.click("#chosen")
    assert page.run("document.querySelector('#chosen').ariaSort") == "ascending"
    assert _numbers(page, "#chosen", column) == sorted(before)
    # Cells without a time come last both ways.
    rows = page.run(COLUMN % ("#chosen", column))
    assert rows[-1] == ""
    assert len(rows) > len(before)
    page.press("Enter", "\r")
    assert page.run("document.querySelector('#chosen').ariaSort") == "descending"
    assert _numbers(page, "#chosen", column) == sorted(before, reverse=True)
    assert page.run(COLUMN % ("#chosen", column))[-1] == ""


def test_every_heading_of_a_sortable_table_sorts(page: browser.Browser, results: Path) -> None:
    for path in (results / "one" / "report.html", results / "index.html"):
        page.visit(path.as_uri())
        page.run(OPEN)
        assert page.run("""[...document.querySelectorAll("table.sortable")].every((table) => {
          const count = table.tBodies[0].rows.length;
          return [...table.tHead.rows[0].cells].every((heading) => {
            heading.click();
            return heading.tabIndex === 0 && heading.ariaSort === "ascending"
              && table.querySelectorAll("[aria-sort]").length === 1
              && table.tBodies[0].rows.length === count;
          });
        })""")
        assert page.run("document.querySelectorAll('table:not(.board) thead').length") == page.run(
            "document.querySelectorAll('table.sortable').length"
        )
        assert page.complaints == []


@pytest.mark.parametrize("width", [320, 360, 400, 768, 1280])
def test_nothing_is_wider_than_the_screen(page: browser.Browser, results: Path, width: int) -> None:
    for path in (results / "one" / "report.html", results / "index.html"):
        page.visit(path.as_uri(), width, 800)
        page.run(OPEN)
        assert page.run("innerWidth") == width
        assert page.run(WIDTH) <= width, path.name


def test_the_links_of_the_index_lead_somewhere(page: browser.Browser, results: Path) -> None:
    page.visit((results / "index.html").as_uri())
    links = page.run("[...document.links].map((link) => link.href)")
    outside = {link for link in links if "report.html" in link}
    assert len(outside) >= 5  # machines, experiments, verdicts
    for link in sorted(outside):
        page.visit(link)
        assert page.run("document.title").startswith("kmeans-bench on ")
        anchor = link.partition("#")[2]
        # Folded or not: the browser unfolds what a link leads to.
        assert not anchor or page.run(f"document.getElementById({anchor!r}).checkVisibility()"), (
            link
        )
        assert page.complaints == []
    files = [link for link in links if link.endswith(".json")]  # of the leaderboard
    assert files
    assert all(Path(urllib.parse.unquote(link.removeprefix("file://"))).is_file() for link in files)
    inside = [link for link in links if "report.html" not in link and link not in files]
    page.visit((results / "index.html").as_uri())
    for link in inside:
        anchor = link.partition("#")[2]
        assert page.run(f"!!document.getElementById({anchor!r})"), link


def test_the_links_of_a_report_lead_to_files(page: browser.Browser, results: Path) -> None:
    page.visit((results / "one" / "report.html").as_uri())
    links = page.run("[...document.links].map((link) => link.href)")
    files = {link.partition("#")[0].removeprefix("file://") for link in links}
    assert any(name.endswith(".svg") for name in files)
    assert any(name.endswith(".json") for name in files)
    assert all(Path(name).is_file() for name in files)


def test_verdicts_are_words_next_to_their_colours(page: browser.Browser, results: Path) -> None:
    for path in (results / "one" / "report.html", results / "index.html"):
        page.visit(path.as_uri())
        page.run("document.querySelectorAll('details').forEach((folded) => (folded.open = true))")
        texts = page.run("[...document.querySelectorAll('.verdict')].map((v) => v.innerText)")
        assert len(texts) >= 2
        assert all(
            re.fullmatch(r"\S (holds|does not hold|holds in part|undecided|not tested here)", t)
            for t in texts
        )


def test_the_committed_results_fit_too(page: browser.Browser, tmp_path: Path) -> None:
    """A report on one experiment of each machine of the repository, as `make report` draws it."""
    found = sorted((synthetic.ROOT / "results").glob("*-*/minnaar2019.json"))
    for place, path in enumerate(found):
        folder = tmp_path / str(place)
        folder.mkdir()
        (folder / path.name).write_bytes(path.read_bytes())
        report = write_report(load_folder(folder), folder)
        page.visit(report.as_uri(), 360, 800)
        page.run(OPEN)
        assert all(width > 0 for width in page.run(IMAGES))
        assert page.run(WIDTH) <= 360
        assert page.complaints == []
