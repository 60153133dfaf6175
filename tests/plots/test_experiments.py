# SPDX-License-Identifier: Apache-2.0
"""The experiments of this repository: valid, drawable at both scales, naming only what exists."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import synthetic

from plots.load import ROOT, load_result
from plots.render import draw

EXPERIMENTS = synthetic.experiments()
BY_NAME = pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: e["name"])


def _names(experiment: dict[str, Any]) -> set[str]:
    lists = [experiment["variants"]]
    lists += [scale.get("variants", []) for scale in experiment["scales"].values()]
    names = {synthetic.named(entry)[0] for entries in lists for entry in entries}
    names |= {trace["variant"] for trace in experiment["traces"]}
    names |= {entry["variant"] for entry in experiment["published"] if "variant" in entry}
    for figure in [experiment, *experiment["figures"]]:
        if "baseline" in figure:
            names.add(synthetic.named(figure["baseline"])[0])
    return names


def _variants_in_the_tree() -> set[str]:
    """By file name: implementations/<backend>/<backend>_<idea>.<suffix>."""
    files = [
        f for f in (ROOT / "implementations").glob("*/*") if f.suffix in (".cpp", ".cu", ".py")
    ]
    named = {f.stem for f in files if f.stem.startswith(f"{f.parent.name}_")}
    return named | {"reference"}


@BY_NAME
def test_is_valid(experiment: dict[str, Any]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "experiments" / "schema.json").read_text())
    jsonschema.validate(experiment, schema)
    assert (ROOT / "experiments" / f"{experiment['name']}.json").is_file()


@BY_NAME
def test_names_only_variants_that_exist(experiment: dict[str, Any]) -> None:
    assert _names(experiment) <= _variants_in_the_tree()


@BY_NAME
def test_names_only_generators_that_exist(experiment: dict[str, Any]) -> None:
    table = (ROOT / "datasets" / "generators.cpp").read_text()
    for data in [experiment["data"], *(t["data"] for t in experiment["traces"] if "data" in t)]:
        assert re.search(rf'\{{"{data["generator"]}",', table), data


@BY_NAME
@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_every_figure_can_be_drawn(tmp_path: Path, experiment: dict[str, Any], scale: str) -> None:
    result = load_result(synthetic.write(tmp_path, synthetic.result(experiment, scale)))
    assert result.figures
    for figure in result.figures:
        drawing = draw(result, figure)
        assert drawing.picture is not None, f"{figure['id']}: {drawing.absent}"


@BY_NAME
def test_figures_have_one_id_each(experiment: dict[str, Any]) -> None:
    ids = [figure["id"] for figure in experiment["figures"]]
    assert len(ids) == len(set(ids))
    traces = {trace["name"] for trace in experiment["traces"]}
    assert {f["trace"] for f in experiment["figures"] if "trace" in f} <= traces


@BY_NAME
@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_the_baseline_is_measured(experiment: dict[str, Any], scale: str) -> None:
    plan = experiment["scales"][scale]
    measured = {synthetic.named(v) for v in plan.get("variants", experiment["variants"])}
    for owner in [experiment, *experiment["figures"]]:
        if "baseline" in owner:
            assert synthetic.named(owner["baseline"]) in measured


def test_every_variant_runs_somewhere_at_quick_scale() -> None:
    used = set()
    for experiment in EXPERIMENTS:
        entries = experiment["scales"]["quick"].get("variants", experiment["variants"])
        used |= {synthetic.named(entry)[0] for entry in entries}
    assert _variants_in_the_tree() <= used


def test_the_known_answer_is_the_printed_one() -> None:
    experiment = next(e for e in EXPERIMENTS if e["name"] == "zhihu2023")
    expected = next(t["expected"] for t in experiment["traces"] if "expected" in t)
    assert len(expected["inertia"]) == 22
    assert expected["inertia"][0] == 208029133.74340856
    assert expected["inertia"][-1] == 118196417.76360503
    assert expected["relative_tolerance"] <= 1e-9
    assert expected["labels_begin"] == [1, 0, 2, 1, 0, 3, 2, 0, 2, 2]
    falling = zip(expected["inertia"], expected["inertia"][1:], strict=False)
    assert all(later < earlier for earlier, later in falling)


def test_sources_are_documented() -> None:
    text = (ROOT / "docs" / "sources.md").read_text()
    for experiment in EXPERIMENTS:
        if "source" in experiment:
            assert f"`{experiment['source']}`" in text


def test_the_program_knows_the_variants() -> None:
    """Against the built program that tools/test.sh names."""
    program = os.environ.get("KMEANS_BENCH")
    if not program:
        pytest.skip("KMEANS_BENCH names no program")
    run = subprocess.run([program, "list", "--json"], capture_output=True, text=True, check=True)
    listed = set(re.findall(r'"([a-z0-9]+(?:_[a-z0-9]+)*)"', run.stdout))
    for experiment in EXPERIMENTS:
        assert _names(experiment) <= listed
