# SPDX-License-Identifier: Apache-2.0
"""The reader refuses what it does not know and never invents a time."""

from __future__ import annotations

import copy
from pathlib import Path
from random import Random
from typing import Any

import pytest
import synthetic
from synthetic import Json

from plots import __main__ as command
from plots import derived
from plots.experiment import expanded
from plots.load import (
    EXPERIMENT_SCHEMA_FILE,
    SCHEMA_FILE,
    Interval,
    ResultError,
    _quick_validator,
    _validator,
    load_folder,
    load_result,
    read_json,
)
from plots.select import label_of
from plots.words import TIMES

pytest.importorskip("jsonschema", reason="results are not checked without it")


@pytest.fixture
def data(small_experiment: Json) -> Json:
    return synthetic.result(small_experiment)


def test_a_synthetic_result_satisfies_the_schema(tmp_path: Path, data: Json) -> None:
    result = load_result(synthetic.write(tmp_path, data))
    assert len(result.cells) == 12
    assert result.cells[0].ok
    assert result.cells[0].seconds.low <= result.cells[0].seconds.mid
    assert result.cells[0].sample_count == 9


@pytest.mark.parametrize("version", [0, 3, "1", None, True, 1.5])
def test_refuses_other_versions(tmp_path: Path, data: Json, version: Any) -> None:
    path = synthetic.write(tmp_path, data | {"schema_version": version})
    with pytest.raises(ResultError, match="schema_version"):
        load_result(path)


def test_refuses_a_file_without_version(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(ResultError, match="schema_version"):
        load_result(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"schema_version": 1, "schema_version": 1}', "appears twice"),
        ('{"schema_version": NaN}', "NaN"),
        ('{"schema_version": -1e999}', "-1e999 is more than a float64 can hold"),
        ('{"schema_version": 1', "line 1"),
        ("[1]", "schema_version"),
        ("\udcff", "utf-8"),
    ],
)
def test_refuses_what_is_not_strict_json(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(text.encode("utf-8", errors="surrogateescape"))
    with pytest.raises(ResultError, match=message) as raised:
        load_result(path)
    assert str(path) in str(raised.value)


def test_a_schema_error_names_its_place(tmp_path: Path, data: Json) -> None:
    data["cells"][3]["n"] = "many"
    with pytest.raises(ResultError, match="at /cells/3/n"):
        load_result(synthetic.write(tmp_path, data))


@pytest.mark.parametrize(
    "schema", [SCHEMA_FILE, EXPERIMENT_SCHEMA_FILE], ids=lambda file: file.parent.name
)
def test_both_validators_refuse_the_same(schema: Path) -> None:
    """What the quick one accepts the other does not see: so it may accept no more."""
    pytest.importorskip("jsonschema_rs", reason="the slow validator checks everything")
    slow, quick = _validator(schema), _quick_validator(schema)
    if schema == SCHEMA_FILE:
        data = [read_json(file) for file in sorted(schema.parent.glob("*/*.json"))]
        # Of few cells and so on, so that every place is met.
        lists = ("cells", "traces", "studies")
        data = [whole | {key: whole[key][:2] for key in lists} for whole in data]
    else:
        files = [file for file in sorted(schema.parent.glob("*.json")) if file != schema]
        data = [expanded(read_json(file)) for file in files]
    odd = [None, True, -1, 0, 1.5, 2**70, "", "text\n", [], {}, [None], {"no such key": 1}]
    random = Random(7)
    refused = 0
    for sound in data:
        assert quick.is_valid(sound)
        for _ in range(8):
            damaged = copy.deepcopy(sound)
            holder: Any = damaged
            place: Any = damaged
            while isinstance(place, (dict, list)) and place and random.random() < 0.8:
                holder = place
                key = random.choice(range(len(place)) if isinstance(place, list) else list(place))
                place = holder[key]
            if holder is place:
                continue
            holder[key] = random.choice(odd)
            if quick.is_valid(damaged):
                assert slow.is_valid(damaged), (key, holder[key])
            else:
                refused += 1
    assert refused > 2 * len(data)


def test_below_six_samples_the_interval_is_smallest_to_largest(tmp_path: Path, data: Json) -> None:
    cell = load_result(synthetic.write(tmp_path, data)).cells[5]
    times = data["cells"][5]["seconds_per_iteration"]
    assert times["ci95_low"] is None
    assert not cell.seconds.confident
    assert (cell.seconds.low, cell.seconds.high) == (times["min"], times["max"])


def test_executed_iterations_are_those_that_really_ran(tmp_path: Path, data: Json) -> None:
    library = synthetic.cell("small", "python_x", "f64", (100, 2, 2), 300, executed=184)
    free = synthetic.cell("small", "python_y", "f64", (100, 2, 2), 300)
    old = synthetic.cell("small", "python_z", "f64", (100, 2, 2), 300)
    compiled = synthetic.cell("small", "cpu_z", "f64", (100, 2, 2), 300)
    failed = synthetic.cell(
        "small", "python_f", "f64", (100, 2, 2), 300, status="error", reason="none"
    )
    del old["executed_iterations"], compiled["executed_iterations"]  # of an earlier version
    data["cells"] = [library, free, old, compiled, failed]
    data["planned_cells"] = len(data["cells"])
    cells = load_result(synthetic.write(tmp_path, data)).cells
    assert [c.executed_iterations for c in cells] == [184, 300, None, 300, 300]
    assert [c.stopped_early for c in cells] == [True, False, False, False, False]


def test_a_variant_on_several_numbers_of_threads_is_named_with_them(
    tmp_path: Path, data: Json
) -> None:
    shape = (100, 2, 2)
    cells = [
        synthetic.cell("small", "python_x", "f64", shape, 10, threads=1),
        synthetic.cell("small", "python_x", "f64", shape, 10, threads=16),
        synthetic.cell("small", "python_x", "f32", shape, 10, threads=16),
    ]
    found = load_result(synthetic.write(tmp_path, data | {"cells": cells, "planned_cells": 3}))
    labels = [label_of(cell) for cell in found.cells]
    assert labels == [f"python_x f64 {TIMES}1", f"python_x f64 {TIMES}16", "python_x f32"]


def test_ratios_of_intervals_are_on_the_wide_side() -> None:
    ratio = Interval(6.0, 5.0, 8.0, True).over(Interval(2.0, 1.0, 4.0, False))
    assert ratio == Interval(3.0, 1.25, 8.0, False)
    assert Interval(6.0, 0.0, 8.0, True).over(Interval(2.0, 1.0, 4.0, True)) is None
    assert Interval(1.0, 0.5, 2.0, True).times(4) == Interval(4.0, 2.0, 8.0, True)


def test_a_folder_without_results_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="holds no result file"):
        load_folder(tmp_path)
    with pytest.raises(ResultError, match="no such folder"):
        load_folder(tmp_path / "absent")


def test_variants_of_all_results_share_one_roster(
    tmp_path: Path, data: Json, small_experiment: Json
) -> None:
    synthetic.write(tmp_path, data)
    other = small_experiment | {"name": "other", "variants": ["cpu_z"], "baseline": "cpu_z"}
    synthetic.write(tmp_path, synthetic.result(other))
    small, second = sorted(load_folder(tmp_path), key=lambda r: r.experiment != "small")
    assert small.roster == second.roster
    assert ("cpu", "cpu_z") in small.roster


def test_orders_to_a_terminal_do_not_get_in(tmp_path: Path, data: Json) -> None:
    """Escaped in JSON they are valid, and a figure or a page could not even be written."""
    data["context"]["machine"]["cpu"]["model"] = "CPU\x1b[2J\x07\x9b31m \u202eevil µ\t²"
    data["cells"][0]["noted"] = ["\x1b]0;title\x07"]
    result = load_result(synthetic.write(tmp_path, data))
    model = result.context["machine"]["cpu"]["model"]
    gone = "\N{REPLACEMENT CHARACTER}"
    assert model == f"CPU{gone}[2J{gone}{gone}31m {gone}evil µ\t²"
    assert result.cells[0].data["noted"] == [f"{gone}]0;title{gone}"]


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that goes on replaces files before the program reads them."""
    ask = derived.ask

    def replace_and_ask(paths: list[Path]) -> str:
        for path in paths:
            path.write_text(path.read_text() + "\n")
        return ask(paths)

    monkeypatch.setattr(derived, "ask", replace_and_ask)


@pytest.mark.usefixtures("replaced")
def test_a_file_that_is_replaced_while_it_is_read_is_no_other(tmp_path: Path, data: Json) -> None:
    with pytest.raises(ResultError, match=r"small\.json: replaced while it was read"):
        load_result(synthetic.write(tmp_path, data))


def test_models_are_of_the_files_that_were_read(tmp_path: Path, data: Json) -> None:
    result = load_result(synthetic.write(tmp_path, data))
    result.path.write_text(result.path.read_text() + "\n")
    for asked in (derived.newest_of, derived.models_of):
        with pytest.raises(derived.DerivedError, match=r"a file in .*: replaced"):
            asked({result.path: result.sha256})


def test_a_report_that_cannot_be_written_keeps_no_other_from_it(
    tmp_path: Path,
    data: Json,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        synthetic.write(folder, data)
    newest_of = derived.newest_of

    def fail(hashes: dict[Path, str]) -> str:
        if first / "small.json" in hashes:
            raise derived.DerivedError("small.json: replaced")
        return newest_of(hashes)

    monkeypatch.setattr("plots.report.newest_of", fail)
    assert command.main(["report", str(first), str(second)]) == command.EXIT_BAD_INPUT
    assert capsys.readouterr().err == "error: small.json: replaced\n"
    assert not (first / "report.html").exists()
    assert (second / "report.html").exists()
