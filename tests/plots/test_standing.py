# SPDX-License-Identifier: Apache-2.0
"""The table of the sources' verdicts on the first screens of report and index: right counts, and
links that open what they point to."""

from __future__ import annotations

import re
from pathlib import Path

import browser
import pytest
import synthetic
from synthetic import CLAIM, Json

from plots import __main__ as command
from plots import claims, index, leaderboard, standing
from plots.load import ResultError, load_folder, load_result
from plots.report import render, write_report
from tests.support import says

NO_GPU = "no NVIDIA driver is installed here (libcuda.so.1 was not found)"


def _claim(name: str, **test: object) -> Json:
    """One of a magnitude, so that the verdict is known: 1e-9 holds, 1e9 does not."""
    own = {"quantity": "speedup", "variant": "openmp_b", "baseline": "cpu_a"} | test
    return CLAIM | {"id": name, "statement": f"It is {name}.", "tests": [own]}


CLAIMS = [
    _claim("true", at_least=1e-9),
    _claim("false", at_least=1e9),
    _claim("untold", at_least=1, variant="cuda_c"),
    _claim("lost", at_least=1, variant="cuda_c"),
]


def _sourced(small: Json, name: str, source: str | None, wanted: list[Json]) -> Json:
    """A run of three variants, one of which needs a GPU that is not here."""
    variants = ["cpu_a", "openmp_b", "cuda_c"]
    own = {"name": name, "title": f"A text of {name} (2009): the sweep", "claims": wanted}
    own |= {"variants": variants, "figures": [], "studies": [], "traces": []}
    own |= {"source": source} if source else {}
    data = synthetic.result({k: v for k, v in small.items() if k != "source"} | own)
    for cell in data["cells"]:
        if cell["variant"] == "cuda_c":
            synthetic.fail(cell, "skipped", NO_GPU)
        else:
            synthetic.agree(cell)
    return data


@pytest.fixture
def folder(tmp_path: Path, small_experiment: Json) -> Path:
    """Two experiments of one source, one of another, one of none, and one that could not run."""
    for name, source, wanted in (
        ("old2009", "old2009", CLAIMS),
        ("again", "old2009", CLAIMS[:1]),
        ("new2020", "new2020", CLAIMS[1:3]),
        ("own", None, CLAIMS[:2]),
    ):
        synthetic.write(tmp_path / "one", _sourced(small_experiment, name, source, wanted))
    idle = _sourced(small_experiment, "idle", None, [])
    for cell in idle["cells"]:
        synthetic.fail(cell, "skipped", NO_GPU)
    synthetic.write(tmp_path / "one", idle)
    return tmp_path / "one"


def _runs(folder: Path) -> list[standing.Run]:
    return [(result, claims.verdicts(result)) for result in load_folder(folder)]


def test_a_source_counts_the_claims_of_all_its_experiments(folder: Path) -> None:
    new, old = standing.sources_of(_runs(folder))
    assert (new.name, old.name) == ("new2020", "old2009")
    assert old.title == "A text of old2009 (2009)"
    assert old.experiments == ["old2009", "again"]  # its own experiment first
    assert old.tally == {kind: 0 for kind in claims.KINDS} | {
        claims.HOLDS: 2,
        claims.FAILS: 1,
        claims.UNTESTED: 2,
    }
    assert [entry.anchor for entry in old.tested] == [
        "claim-old2009-true",
        "claim-old2009-false",
        "claim-again-true",
    ]
    assert standing.kinds_of([new.tally, old.tally]) == [
        kind for kind in claims.KINDS if kind in ("holds", "fails", "partly", "untested")
    ]


def test_what_cannot_be_tested_is_one_line_with_a_count(folder: Path) -> None:
    old = standing.sources_of(_runs(folder))[1]
    assert says(old.untested, "2 of 5 claims", "no NVIDIA driver", "(2)")
    assert standing.untested_text([entry.verdict for entry in old.tested]) is None
    text = render(load_folder(folder))
    rows = re.findall(r"<tr[ >](?:(?!</tr>).)*</tr>", text, re.S)
    assert not [row for row in rows if "NVIDIA driver" in row]
    assert "4 cells skipped: no NVIDIA driver" in text
    assert text.count('href="#idle"') == 1
    assert says(text, "1 of 5 experiments", "no NVIDIA driver")


def test_the_index_has_a_field_of_each_source_and_machine_that_tested_it(
    folder: Path, small_experiment: Json
) -> None:
    root = folder.parent
    synthetic.write(root / "two", _sourced(small_experiment, "new2020", "new2020", CLAIMS[:2]))
    synthetic.write(root / "three", _sourced(small_experiment, "own", None, CLAIMS[:2]))
    write_report(load_folder(folder), folder)
    folders = {root / name: load_folder(root / name) for name in ("one", "three", "two")}
    text = index.render(folders)
    table = re.search(r'<table class="sortable standing">.*?</table>', text, re.S)
    assert table is not None
    assert re.findall(r"<th>([^<]*)</th>", table[0]) == ["source", "one", "two"]
    assert "three" not in table[0]
    assert table[0].count('href="one/report.html#said-') == 2
    assert "two/report.html" not in table[0]  # was not drawn
    assert 'title="2 holds"' in table[0]
    # What no machine tested is one line too.
    assert "2 of 4 are tested on no machine" in text
    rows = re.findall(r"<tr[ >](?:(?!</tr>).)*</tr>", text, re.S)
    assert [row for row in rows if "It is false." in row]
    assert not [row for row in rows if "It is lost." in row]


def _follow(page: browser.Browser, link: str) -> None:
    """Clicks it, and waits until the page has dealt with it."""
    page.run(f"document.querySelector({link!r}).click()")
    page.run(
        "globalThis.unpacked.then(() => new Promise((done) =>"
        " requestAnimationFrame(() => setTimeout(done, 100))))"
    )


def test_a_link_opens_the_fold_that_it_leads_to(page: browser.Browser, folder: Path) -> None:
    report = write_report(load_folder(folder), folder)
    page.visit(report.as_uri())
    for target in ("claim-old2009-false", "said-new2020", "claim-again-true"):
        visible = f"document.getElementById({target!r}).checkVisibility()"
        assert not page.run(visible)
        _follow(page, f'a[href="#{target}"]')
        assert page.run(visible), target
        top = page.run(f"document.getElementById({target!r}).getBoundingClientRect().top")
        assert -1 <= top < page.run("innerHeight"), target
    # A section whose heading is in its fold, and the same link a second time.
    fold = "document.querySelector('#new2020 > details')"
    for _ in range(2):
        page.run(f"{fold}.open = false")
        _follow(page, '#contents a[href="#new2020"]')
        assert page.run(f"{fold}.open")
    assert page.complaints == []


def test_without_script_a_link_opens_its_fold_too(folder: Path) -> None:
    """The browser opens what a target is inside of; a fold's own id would not be."""
    for text in (render(load_folder(folder)), index.render({folder: load_folder(folder)})):
        folds = re.findall(r'<details[^>]* id="([^"]*)"', text)
        assert not [name for name in folds if f'href="#{name}"' in text and "doubts" not in name]


@pytest.mark.parametrize("width", [390, 1280])
def test_the_verdicts_are_on_the_first_screen(
    page: browser.Browser, folder: Path, width: int
) -> None:
    report = write_report(load_folder(folder), folder)
    overview = index.write_index({folder: load_folder(folder)}, folder.parent)
    for path in (report, overview):
        page.visit(path.as_uri(), width, 844)
        bottom = "document.querySelector('table.standing').getBoundingClientRect().bottom"
        assert 0 < page.run(bottom) <= 844
        assert page.run("document.scrollingElement.scrollWidth") <= width
        assert page.complaints == []


def test_the_index_opens_on_the_machine_last_measured_here(
    page: browser.Browser, folder: Path, small_experiment: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = folder.parent
    synthetic.write(root / "two", _sourced(small_experiment, "own", None, []))
    monkeypatch.setenv("KMEANS_BENCH_CACHE", str(root / "cache"))
    folders = {root / name: load_folder(root / name) for name in ("one", "two")}
    chosen = "document.getElementById('pick').elements.m.value"
    for last, opened in ((None, "one"), (root / "two", "two"), (root / "gone", "one")):
        if last:
            (root / "cache").mkdir(exist_ok=True)
            (root / "cache" / "last-measured").write_text(f"{last}\n")
        assert leaderboard.last_measured() == last
        page.visit(index.write_index(folders, root).as_uri())
        assert page.run(chosen) == opened


# --- Two runs in one folder, and one figure ---------------------------------------------------


def test_two_files_of_one_experiment_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = folder / "later.json"
    copy.write_bytes((folder / "own.json").read_bytes())
    assert load_result(copy).experiment == "own"
    with pytest.raises(
        ResultError, match=r"later\.json and own\.json both hold the experiment own"
    ):
        load_folder(folder)
    assert command.main(["report", str(folder)]) == 2
    assert "a folder of its own" in capsys.readouterr().err
    assert not (folder / "report.html").exists()


@pytest.fixture
def drawn(tmp_path: Path, small_experiment: Json) -> Path:
    wanted = [f for f in small_experiment["figures"] if f["id"] in ("one-panel", "bars")]
    synthetic.write(tmp_path / "one", synthetic.result(small_experiment | {"figures": wanted}))
    return tmp_path / "one"


@pytest.mark.parametrize("only", ["small/bars", "^small/b", "^bars$"])
def test_one_figure_is_drawn_alone(drawn: Path, only: str) -> None:
    assert command.main(["figures", "--only", only, str(drawn)]) == 0
    assert sorted(p.name for p in (drawn / "figures").iterdir()) == [
        "small-bars.png",
        "small-bars.svg",
    ]


def test_a_figure_that_is_not_there_is_refused_with_the_nearest(
    drawn: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["figures", str(drawn), "--only", "small/barz"]) == 2
    told = capsys.readouterr().err
    assert "--only 'small/barz' matches nothing" in told
    assert says(told, "2 figures", "\n  small/bars\n")
    assert not (drawn / "figures").exists()
    assert command.main(["figures", str(drawn), "--only", "("]) == 2
    assert "is not a regular expression" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["report", str(drawn), "--only", "bars"])
    assert "python -m plots figures --only 'bars'" in capsys.readouterr().err
