# SPDX-License-Identifier: Apache-2.0
"""README.md and docs/ say what the committed results give: numbers, tables and pictures."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT, small_experiment

sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(ROOT / "tests" / "plots"))

import readme_numbers
import synthetic
import update_readme
from readme_numbers import DescriptionError, Machines
from synthetic import CLAIM

from plots import claims, derived, words

SHAPE = (1000, 2, 5)
SLOW, FAST = {"variant": "python_sklearn_lloyd", "precision": "f32"}, {"variant": "openmp_simd"}
FASTER = {"quantity": "speedup", "variant": "openmp_simd", "baseline": SLOW, "at_least": 1}


# --- What is committed -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def committed() -> Machines:
    return Machines(ROOT / "results")


DOCUMENTS = sorted(readme_numbers.by_document(readme_numbers.description()))


def _text(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_numbers_are_those_of_the_results(committed: Machines, document: str) -> None:
    blocks = readme_numbers.by_document(readme_numbers.description())[document]
    text = _text(document)
    assert readme_numbers.render(text, blocks, committed) == text, "run tools/update_readme.py"


def test_a_changed_digit_is_found(committed: Machines) -> None:
    text = _text("docs/measured.md")
    blocks = readme_numbers.by_document(readme_numbers.description())["docs/measured.md"]
    begin = text.index(readme_numbers.BEGIN.format("tally"))
    end = text.index(readme_numbers.END, begin)
    digit = re.search(r"\| (\d)", text[begin:end])
    place = begin + digit.start(1)
    other = "1" if digit[1] != "1" else "2"
    changed = text[:place] + other + text[place + 1 :]
    assert readme_numbers.render(changed, blocks, committed) == text


def test_derived_facts_are_those_of_the_results() -> None:
    """The file speaks for the program where none is built."""
    files = update_readme.committed_results()
    text = (ROOT / update_readme.DERIVED).read_text(encoding="utf-8")
    assert derived.ask(files) == text, "run tools/update_readme.py"


def test_pictures_are_those_of_the_results(committed: Machines) -> None:
    if why := readme_numbers.why_not_drawn():
        pytest.skip(why)
    pictures = readme_numbers.draw(readme_numbers.description(), committed)
    folder = ROOT / readme_numbers.PICTURES
    assert readme_numbers.stale_pictures(pictures, folder) == [], "run tools/update_readme.py"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_tables_and_pictures_stand_in_blocks_alone(document: str) -> None:
    """No picture and no folder of results is named outside of what is generated."""
    typed = readme_numbers._BLOCK.sub("", _text(document))
    assert "figures/" not in typed
    for folder in (ROOT / "results").iterdir():
        if folder.is_dir():
            assert f"results/{folder.name}`" not in typed


# --- Blocks ----------------------------------------------------------------------------------


def _cell(variant: str, median: float, precision: str = "f32", **changes: Any) -> dict[str, Any]:
    """A cell with this time per iteration, from 9 samples of 3 processes."""
    made = synthetic.cell("trial", variant, precision, SHAPE, 300)
    made["executed_iterations"] = 300
    synthetic.resample(made, [[0.9 * median, median, 1.2 * median]] * 3)
    return made | changes


@pytest.fixture
def place(tmp_path: Path) -> Callable[..., Machines]:
    """Makes a folder of results, and one of experiments, with a single experiment."""
    shape = {"n": 1000, "d": 2, "k": 5}
    spec = small_experiment(
        "trial",
        [SLOW, "openmp_simd", "openmp_exact"],
        {"sweep": [shape], "iterations": 300},
        baseline=SLOW,
        traces=[],
        published=[
            {
                "label": "Theirs",
                "variant": "openmp_simd",
                "quantity": "total_seconds",
                "value": 1.25,
                "iterations": 300,
                "machine": "an abacus",
                "where": "table 3",
            }
        ],
        claims=[CLAIM | {"statement": "It is faster.", "where": "section 1", "tests": [FASTER]}],
        figures=[{"id": "bars", "kind": "bars", "title": "Bars"}],
    )
    experiments = tmp_path / "experiments"
    experiments.mkdir()
    (experiments / "trial.json").write_text(json.dumps(spec))

    def make(cells: list[dict[str, Any]], folder: str = "small-1", **changes: Any) -> Machines:
        """Of these cells, and of usual ones of the other variants."""
        there = {cell["variant"] for cell in cells}
        usual = {SLOW["variant"]: 0.0125, "openmp_simd": 0.00025, "openmp_exact": 0.0005}
        cells = cells + [_cell(name, usual[name]) for name in usual if name not in there]
        data = {
            "schema_version": 2,
            "experiment": "trial",
            "scale": "quick",
            "complete": True,
            "planned_cells": len(cells),
            "context": synthetic.context() | changes.pop("context", {}),
            "spec": spec,
            "cells": cells,
            "traces": [],
        }
        synthetic.write(tmp_path / "results" / folder, data | changes)
        return Machines(tmp_path / "results", experiments)

    return make


TIMES = {
    "kind": "times",
    "machine": "small-*",
    "experiment": "trial",
    "columns": [{"title": "library", **SLOW}, FAST],
}


def test_the_fastest_exact_one_is_the_same_everywhere(place: Callable[..., Machines]) -> None:
    """One that chooses among others counts like any other, in both tables."""
    best = _cell("openmp_best", 0.0001) | {"exact": True}
    machines = place([best])
    row = readme_numbers.times(machines, TIMES).splitlines()[-1]
    assert row.endswith(f"| 125{words.TIMES} `openmp_best` |")
    row = readme_numbers.peers(machines, PEERS).splitlines()[4]
    assert row.startswith("| 1 000 | 2 | 5 | 100 µs | `openmp_best` | 12.5 ms |")


PEERS = {"kind": "peers", "machine": "small-*", "experiment": "trial"}


def test_libraries_stand_next_to_the_exact_one_each_by_itself(
    place: Callable[..., Machines],
) -> None:
    wanted = [{"title": "theirs", **SLOW}, {"title": "none", **FAST}]
    lost = _cell("openmp_simd", 0.1)
    synthetic.fail(lost, "skipped", "too large")
    row = readme_numbers.peers(place([lost]), PEERS | {"libraries": wanted}).splitlines()[4]
    assert row.endswith("| `openmp_exact` | 12.5 ms (0.0030 %), 25.0 | skipped |")


SLOWER = "something made a fixed computation next to it take {} times as long as at its best"
WITHHELD = "the host of this virtual machine withheld {} % of the processor time that was wanted"


def test_times_next_to_other_work_are_counted(place: Callable[..., Machines]) -> None:
    assert "other work" not in readme_numbers.times(place([]), TIMES)
    slow, fast = _cell(SLOW["variant"], 0.0125), _cell("openmp_simd", 0.00025)
    slow["noted"] = [SLOWER.format("1.50"), "samples spread widely", SLOWER.format("2.00")]
    fast["noted"] = [WITHHELD.format("12")]
    machines = place([slow, fast])
    text = readme_numbers.times(machines, TIMES).splitlines()[0]
    assert re.search(r"\b2 of 2 times .* 2\.00 times .*median at 1 of them", text)
    assert readme_numbers.tally(machines, {"kind": "tally"}).splitlines()[-1].endswith("| 2 of 3 |")
    assert "2 of 3 times" in readme_numbers.statements(machines, STATEMENTS)
    fast["noted"] = ["samples spread widely"]
    machines = place([slow, fast])
    assert "1 of 2 times" in readme_numbers.times(machines, TIMES)


def test_a_library_that_ended_early_is_named(place: Callable[..., Machines]) -> None:
    early = _cell(SLOW["variant"], 0.0125, executed_iterations=4)
    text = readme_numbers.times(place([early]), TIMES)
    assert "python_sklearn_lloyd f32" in text
    assert "4 of 300 at n = 1 000, d = 2, k = 5" in text
    assert "does not record" not in text


def test_a_library_that_ran_all_is_not_named(place: Callable[..., Machines]) -> None:
    for ran in (300, None):
        cells = [_cell(SLOW["variant"], 0.0125, executed_iterations=ran)]
        text = readme_numbers.times(place(cells), TIMES)
        assert "stopped before" not in text
        assert "does not record" not in text


def test_files_that_cannot_say_what_a_library_ran_say_so(place: Callable[..., Machines]) -> None:
    cell = _cell(SLOW["variant"], 0.0125)
    cell.pop("executed_iterations", None)
    text = readme_numbers.times(place([cell]), TIMES)
    assert "does not record" in text
    assert "python_sklearn_lloyd f32" in text


def test_what_has_no_time_says_why(place: Callable[..., Machines]) -> None:
    slow = _cell(SLOW["variant"], 0.0125)
    synthetic.fail(slow, "wrong", "labels")
    row = readme_numbers.times(place([slow]), TIMES).splitlines()[-1]
    assert row == "| 1 000 | 2 | 5 | wrong | 0.250 | " + words.NONE + " |"


def test_incomplete_and_modified_runs_are_named(place: Callable[..., Machines]) -> None:
    suite = synthetic.context()["suite"] | {"git_dirty": True}
    machines = place([], complete=False, planned_cells=7, context={"suite": suite})
    about = readme_numbers.times(machines, TIMES).splitlines()[0]
    assert "3 of 7 cells" in about
    assert "Not for publication" in about


TOTALS = {
    "kind": "totals",
    "machine": "small-*",
    "experiments": {"trial": "blobs"},
    "shape": {"n": 1000, "d": 2, "k": 5},
    "variants": ["openmp_simd", "python_sklearn_lloyd"],
}


def test_totals_are_of_all_iterations(place: Callable[..., Machines]) -> None:
    early = _cell(SLOW["variant"], 0.0125, executed_iterations=4)
    machines = place([_cell("openmp_simd", 0.0001), early])
    rows = readme_numbers.totals(machines, TOTALS).splitlines()[4:]
    assert rows == ["| `openmp_simd` | 30.0 ms |", "| `python_sklearn_lloyd` | stopped after 4 |"]


NUMBERS = {
    "kind": "numbers",
    "machine": "small-*",
    "rows": [{"experiment": "trial", "number": {"label": "Theirs"}}],
}
STATEMENTS = {
    "kind": "statements",
    "machine": "small-*",
    "rows": [{"experiment": "trial", "claim": "faster"}],
}


@pytest.mark.parametrize(("fast", "kind"), [(0.001, claims.HOLDS), (0.1, claims.FAILS)])
def test_verdicts_are_those_of_the_claims(
    place: Callable[..., Machines], fast: float, kind: str
) -> None:
    machines = place([_cell(SLOW["variant"], 0.01), _cell("openmp_simd", fast)])
    row = readme_numbers.statements(machines, STATEMENTS).splitlines()[-1]
    assert f"| `trial` | It is faster. | {claims.SIGNS[kind]} {claims.WORDS[kind]}" in row
    assert f": {words.factor(0.01 / fast)} (" in row
    table = readme_numbers.tally(machines, {"kind": "tally"}).splitlines()
    counts = dict(zip(table[0].split(" | ")[3:-1], table[2].split(" | ")[3:-1], strict=True))
    assert counts.pop(f"{claims.SIGNS[kind]} {claims.WORDS[kind]}") == "1"
    assert counts == {}, "a verdict that no statement has gets no column"
    # A folder that no pattern fits, as of who has measured here, does not count.
    others = {"kind": "tally", "machines": ["reference-*", "nvidia-*"]}
    assert len(readme_numbers.tally(machines, others).splitlines()) == 2


PICTURE = {
    "kind": "picture",
    "machine": "small-*",
    "experiment": "trial",
    "figure": "bars",
    "file": "bars.svg",
    "alt": "Bars",
}


def test_a_picture_is_the_file_that_figures_are(
    place: Callable[..., Machines], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    from plots.load import load_folder
    from plots.render import write_figures

    machines = place([_cell(SLOW["variant"], 0.01), _cell("openmp_simd", 0.001)])
    assert readme_numbers.picture(machines, PICTURE) == "![Bars](docs/figures/bars.svg)\n"
    drawn = readme_numbers.draw({"one": PICTURE}, machines)
    write_figures(load_folder(machines.results / "small-1"), tmp_path / "figures")
    assert drawn == {"bars.svg": (tmp_path / "figures" / "trial-bars.svg").read_bytes()}


def test_pictures_are_compared_byte_by_byte(tmp_path: Path) -> None:
    wanted = {"a.svg": b"<svg/>", "b.svg": b"<svg></svg>"}
    assert readme_numbers.stale_pictures(wanted, tmp_path / "none") == ["a.svg", "b.svg"]
    assert readme_numbers.write_pictures(wanted, tmp_path) == ["a.svg", "b.svg"]
    assert readme_numbers.stale_pictures(wanted, tmp_path) == []
    (tmp_path / "a.svg").write_bytes(b"<svg />")
    (tmp_path / "drawn-by-nothing.svg").write_bytes(b"")
    assert readme_numbers.stale_pictures(wanted, tmp_path) == ["a.svg", "drawn-by-nothing.svg"]
    readme_numbers.write_pictures(wanted, tmp_path)
    assert {f.name: f.read_bytes() for f in tmp_path.iterdir()} == wanted


# --- What a description may not ask for -------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "names"),
    [
        (TIMES | {"machine": "other-*"}, "it fits none"),
        (TIMES | {"experiment": "tiral"}, "has no tiral"),
        (TOTALS | {"variants": ["cuda_atmoic"]}, "no cell of cuda_atmoic"),
        (NUMBERS | {"rows": [{"experiment": "trial", "number": {"label": "Ours"}}]}, "0 published"),
        (STATEMENTS | {"rows": [{"experiment": "trial", "claim": "slower"}]}, "no claim slower"),
        (PICTURE | {"figure": "pie"}, "no figure pie"),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_what_is_not_there_is_named(
    place: Callable[..., Machines], block: dict[str, Any], names: str
) -> None:
    page = f"{readme_numbers.BEGIN.format('one')}\n{readme_numbers.END}\n"
    machines, blocks = place([]), {"one": block}
    with pytest.raises(DescriptionError, match=names):
        assert readme_numbers.render(page, blocks, machines) + readme_numbers.draw(blocks, machines)


def test_a_pattern_that_fits_two_machines_is_refused(place: Callable[..., Machines]) -> None:
    place([_cell("openmp_simd", 0.001)])
    machines = place([_cell("openmp_simd", 0.001)], folder="small-2")
    with pytest.raises(DescriptionError, match="small-1 and small-2"):
        readme_numbers.times(machines, TIMES)


def test_of_several_machines_the_first_that_has_an_experiment_counts(
    place: Callable[..., Machines],
) -> None:
    place([_cell("openmp_simd", 0.001)])
    machines = place([_cell("openmp_simd", 0.002)], folder="small-2")
    both = ["small-2", "small-1"]
    assert machines.result(both, "trial").path.parent.name == "small-2"
    assert machines.result(both[::-1], "trial").path.parent.name == "small-1"
    text = readme_numbers.totals(machines, TOTALS | {"machine": both, "variants": ["openmp_simd"]})
    assert "| `openmp_simd` | 600 ms |" in text
    with pytest.raises(DescriptionError, match="small-2 and results/small-1 have no tiral"):
        machines.result(both, "tiral")


def test_blocks_and_description_name_each_other(place: Callable[..., Machines]) -> None:
    readme = f"{readme_numbers.BEGIN.format('one')}\nold\n{readme_numbers.END}\n"
    machines = place([_cell("openmp_simd", 0.001)])
    updated = readme_numbers.render(readme, {"one": TOTALS}, machines)
    assert "old" not in updated
    assert "| `openmp_simd` | 300 ms |" in updated
    assert readme_numbers.render(updated, {"one": TOTALS}, machines) == updated
    with pytest.raises(DescriptionError, match=r"one.*describes one and two"):
        readme_numbers.render(readme, {"one": TOTALS, "two": TIMES}, machines)


BOARD = {
    "kind": "board",
    "runs": [{"machine": "small-*", "experiment": "trial"}],
    "file": "board.svg",
    "alt": "Who is nearest",
}


def test_a_board_for_phones_is_a_picture_of_its_own(place: Callable[..., Machines]) -> None:
    machines = place([_cell("python_sklearn_lloyd", 0.008), _cell("openmp_exact", 0.002)])
    drawn = readme_numbers.draw({"one": BOARD | {"narrow": "narrow.svg"}}, machines)
    wide, narrow = (
        float(re.search(rb'width="([\d.]+)pt"', drawn[name])[1])
        for name in ("board.svg", "narrow.svg")
    )
    assert narrow < wide / 2
    assert b": openmp_exact, 2.00 ms -->" in drawn["narrow.svg"]  # next to its problem


# --- The command -----------------------------------------------------------------------------


@pytest.fixture
def command(
    place: Callable[..., Machines], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., int]:
    """update_readme.py on a small README, without a built program."""
    machines = place([_cell("openmp_simd", 0.001)])
    monkeypatch.setattr(update_readme, "ROOT", tmp_path)
    monkeypatch.setattr(readme_numbers, "description", lambda: {"one": TOTALS})
    monkeypatch.setattr(readme_numbers, "Machines", lambda _: machines)
    monkeypatch.setattr(readme_numbers, "why_not_drawn", lambda: "")

    def run(*options: str) -> int:
        arguments = ["update_readme.py", "--readme", str(tmp_path / "README.md"), *options]
        monkeypatch.setattr(sys, "argv", arguments)
        return update_readme.main()

    return run


def test_the_check_fails_until_the_numbers_are_written(
    command: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"{readme_numbers.BEGIN.format('one')}\n{readme_numbers.END}\n")
    before = readme.read_text()
    assert command("--check") == 1
    assert readme.read_text() == before
    assert "README.md: numbers out of date" in capsys.readouterr().err
    assert command() == 0
    assert command("--check") == 0
    readme.write_text(readme.read_text().replace("300 ms", "299 ms"))
    assert command("--check") == 1


def test_the_check_fails_for_a_picture_that_nothing_draws(
    command: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"{readme_numbers.BEGIN.format('one')}\n{readme_numbers.END}\n")
    assert command() == 0
    figures = tmp_path / readme_numbers.PICTURES
    (figures / "old.svg").write_bytes(b"")
    assert command("--check") == 1
    assert "docs/figures/old.svg out of date" in capsys.readouterr().err
