# SPDX-License-Identifier: Apache-2.0
"""The experiments of this repository: valid, drawable at both scales, naming only what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import synthetic
from synthetic import Json

from plots.experiment import variants_in_the_tree
from plots.load import ROOT, load_result
from plots.render import draw

EXPERIMENTS = synthetic.experiments()
BY_NAME = pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: e["name"])

# What is owed to each source: its tables and figures, and pictures of what it leaves open.
OWED = {
    "minnaar2019": {"convergence", "sweep", "sweep-gpu", "sweep-block"},
    "goldsborough2017": {"table", "scatter", "bars", "speedup"},
    "zechner2009": {"fig02", *(f"fig{i:02}" for i in range(5, 14)), "table1", "operations"},
    "marinai2023": {f"fig{i}" for i in range(11, 16)},
    "zhihu2023": {"runs", "loss", "streams"},
}
# At least so many statements of each source are tested.
CLAIMS = {
    "minnaar2019": 5,
    "goldsborough2017": 15,
    "zechner2009": 15,
    "marinai2023": 6,
    "zhihu2023": 8,
}


def _with_threads(entry: str | Json) -> tuple[str, str, int | None]:
    return *synthetic.named(entry), entry.get("threads") if isinstance(entry, dict) else None


def _measured(experiment: Json, scale: str) -> set[tuple[str, str]]:
    plan = experiment["scales"][scale]
    return {synthetic.named(entry) for entry in plan.get("variants", experiment["variants"])}


def _values(experiment: Json, axis: str) -> set[int]:
    """Those that some scale sweeps."""
    scales = experiment["scales"].values()
    return {shape["ndk".index(axis)] for plan in scales for shape in synthetic.shapes(plan)}


def _asks_for_answers(experiment: Json) -> bool:
    """Nothing sets its times next to others."""
    return not any(experiment.get(key) for key in ("figures", "claims", "published"))


@BY_NAME
@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_every_figure_can_be_drawn(tmp_path: Path, experiment: Json, scale: str) -> None:
    result = load_result(synthetic.write(tmp_path, synthetic.result(experiment, scale)))
    assert result.figures or _asks_for_answers(experiment)
    for figure in result.figures:
        drawing = draw(result, figure)
        assert drawing.picture is not None, f"{figure['id']}: {drawing.absent}"


@BY_NAME
def test_times_that_are_shown_come_from_three_processes(experiment: Json) -> None:
    """Of a cell below a second an iteration: docs/running.md, Budgets."""
    plan = experiment["scales"]["paper"]
    if _asks_for_answers(experiment):
        assert plan["processes"] == plan["repetitions"] == 1
    else:
        assert plan.get("processes", 3) >= 3


@BY_NAME
def test_figures_find_what_they_name(experiment: Json) -> None:
    traces = [trace["name"] for trace in experiment.get("traces", [])]
    groups = {entry["group"] for entry in experiment.get("published", []) if "group" in entry}
    for figure in experiment["figures"]:
        assert "group" not in figure or figure["group"] in groups, figure["id"]
        assert set(figure.get("where", {}).get("variant", [])) <= variants_in_the_tree()
        for pattern in figure.get("traces", []):
            assert any(re.search(pattern, name) for name in traces), pattern
        if figure["kind"] not in ("lines", "rows", "trade-off"):
            for axis in set("ndk") & set(figure.get("where", {})):
                assert set(figure["where"][axis]) <= _values(experiment, axis), figure["id"]


@BY_NAME
def test_claims_ask_what_this_experiment_measures(experiment: Json) -> None:
    measured = _measured(experiment, "quick") | _measured(experiment, "paper")
    for claim in experiment.get("claims", []):
        for test in claim["tests"]:
            for key in ("variant", "baseline"):
                if key in test:
                    assert synthetic.named(test[key]) in measured, claim["id"]
            if test["quantity"] in ("speedup", "extra_seconds"):
                assert {"variant", "baseline"} <= set(test), claim["id"]
                assert _with_threads(test["variant"]) != _with_threads(test["baseline"])
            if test["quantity"] in ("finding", "row"):
                assert "study" in test, claim["id"]
            else:
                for axis in set("ndk") & set(test.get("where", {})):
                    assert set(test["where"][axis]) <= _values(experiment, axis), claim["id"]


@BY_NAME
def test_claims_can_be_judged_at_one_scale(experiment: Json) -> None:
    """Variant and baseline of a test are measured together, where the claim is asked."""
    for claim in experiment.get("claims", []):
        scales = claim.get("scales", ["quick", "paper"])
        for test in claim["tests"]:
            wanted = {synthetic.named(test[key]) for key in ("variant", "baseline") if key in test}
            assert any(wanted <= _measured(experiment, scale) for scale in scales), claim["id"]


@pytest.mark.parametrize("source", OWED)
def test_every_item_of_a_source_has_its_figure(source: str) -> None:
    experiment = next(e for e in EXPERIMENTS if e["name"] == source)
    assert {figure["id"] for figure in experiment["figures"]} >= OWED[source] | {"claims"}
    assert len(experiment["claims"]) >= CLAIMS[source]
    text = (ROOT / "docs" / "sources.md").read_text()
    section = text.split(f"## `{source}`")[1].split("\n## ")[0]
    for name in OWED[source] | {claim["id"] for claim in experiment["claims"]}:
        assert f"`{name}`" in section, f"docs/sources.md does not explain {name} of {source}"


@pytest.mark.parametrize("source", OWED)
def test_published_numbers_say_where_they_stand_and_why_ours_differ(source: str) -> None:
    experiment = next(e for e in EXPERIMENTS if e["name"] == source)
    for entry in experiment.get("published", []):
        assert entry["machine"]
        assert entry["where"]
        if entry["quantity"] not in ("inertia", "loss"):
            assert entry["why"].endswith("."), entry["label"]


@BY_NAME
@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_the_baseline_is_measured(experiment: Json, scale: str) -> None:
    measured = _measured(experiment, scale)
    for owner in [experiment, *experiment["figures"]]:
        if "baseline" in owner and scale in owner.get("scales", [scale]):
            assert synthetic.named(owner["baseline"]) in measured


def test_every_variant_runs_somewhere_at_quick_scale() -> None:
    used = set()
    for experiment in EXPERIMENTS:
        entries = experiment["scales"]["quick"].get("variants", experiment["variants"])
        used |= {synthetic.named(entry)[0] for entry in entries}
    assert variants_in_the_tree() <= used
