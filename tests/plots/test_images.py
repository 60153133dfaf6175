# SPDX-License-Identifier: Apache-2.0
"""Every kind of figure looks as it did: small pictures next to this file, compared pixel by pixel.

After an intended change, look at what the failing test names, then renew the pictures:

    .venv/bin/python -m pytest tests/plots/test_images.py --renew-images
"""

from __future__ import annotations

import copy
import io
import re
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import synthetic
import synthetic_comparison
from matplotlib.figure import Figure
from PIL import Image
from synthetic import Json

from plots import compare_figures
from plots.comparison import load_comparison
from plots.figures import KINDS
from plots.load import Result, load_result, load_results, together
from plots.render import draw, settle

IMAGES = Path(__file__).parent / "images"
COMPARED = ("ordered", "ratio-small", "ceilings")
# Other faces of a kind: what they change about its figure. Their sweep has three sizes.
FACES = {
    "speedup-lines": (
        "speedup",
        {"reference": ["their GPU"], "highlight": ["openmp_b"], "where": {"k": [2]}},
    ),
    "gbytes-stage": ("gbytes", {"stage": "assign", "x": "n", "where": {"precision": ["f32"]}}),
    "winners-contested": ("winners", {}),
}
DPI = 45
LARGEST_FILE = 40_000  # bytes
# Of 255 levels, over all pixels. Fonts and rasteriser come with matplotlib, so the pinned version
# gives the same pixels but for the last bit of a processor's arithmetic, which may shade some edges
# differently: a twentieth of the pixels by four levels gives 0.9. One changed time gives more than
# 5, as the last test here asserts.
TOLERANCE = 1.0
VISIBLE = 5.0


def _pinned() -> str:
    text = (synthetic.ROOT / "requirements.txt").read_text()
    return re.search(r"^matplotlib==([\w.]+)", text, re.M).group(1)


pytestmark = pytest.mark.skipif(
    matplotlib.__version__ != _pinned(),
    reason=f"the pictures are those of matplotlib {_pinned()}, here is {matplotlib.__version__}",
)


@pytest.fixture
def experiment(small_experiment: Json) -> Json:
    """With a GPU, and a ladder that reaches it."""
    small_experiment["variants"] += ["cuda_c", {"variant": "cuda_c", "precision": "tf32"}]
    ladder = next(f for f in small_experiment["figures"] if f["kind"] == "ladder")
    ladder["steps"].append({"variant": "cuda_c", "precision": "tf32", "text": "a GPU"})
    return small_experiment


@pytest.fixture
def data(experiment: Json) -> Json:
    """One cell failed, one is wrong."""
    found = synthetic.result(experiment)
    for variant, status in (("openmp_b", "error"), ("cuda_c", "wrong")):
        synthetic.fail(next(c for c in found["cells"] if c["variant"] == variant), status)
    return found


def _load(folder: Path, data: Json) -> Result:
    return load_result(synthetic.write(folder, data))


def _pixels(result: Result, kind: str) -> np.ndarray:
    """Height x width x 3, levels of 0 to 255."""
    figure = next(f for f in result.figures if f["kind"] == kind)
    drawing = draw(result, figure)
    assert drawing.picture is not None, drawing.absent
    return _raster(drawing.picture)


def _raster(picture: Figure) -> np.ndarray:
    settle(picture)
    buffer = io.BytesIO()
    picture.savefig(buffer, format="png", dpi=DPI)
    return np.asarray(Image.open(buffer).convert("RGB"))


def _write(path: Path, pixels: np.ndarray) -> Path:
    Image.fromarray(pixels).save(path, optimize=True)
    return path


def _difference(one: np.ndarray, other: np.ndarray) -> float:
    """Root of the mean squared difference of levels; infinite for pictures of other sizes."""
    if one.shape != other.shape:
        return float("inf")
    return float(np.sqrt(np.mean((one.astype(float) - other.astype(float)) ** 2)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_looks_as_it_did(
    tmp_path: Path, data: Json, kind: str, request: pytest.FixtureRequest
) -> None:
    _judge(kind, _pixels(_load(tmp_path, data), kind), tmp_path, request)


@pytest.mark.parametrize("name", sorted(FACES))
def test_another_face_of_a_kind_looks_as_it_did(
    tmp_path: Path, experiment: Json, name: str, request: pytest.FixtureRequest
) -> None:
    """The last is of a run that was narrowed, and so says that it is partial."""
    experiment["scales"]["quick"]["sweep"] = {"n": [100, 1000, 10_000], "d": [2], "k": [2, 5]}
    found = synthetic.result(experiment)
    for cell in found["cells"]:
        if (cell["variant"], cell["n"]) == ("openmp_b", 10_000):
            synthetic.fail(cell, "skipped")
    if name == "winners-contested":
        found |= {"complete": False, "planned_cells": 2 * len(found["cells"])}
    kind, changes = FACES[name]
    figure = next(f for f in experiment["figures"] if f["kind"] == kind) | changes
    drawing = draw(_load(tmp_path, found), figure)
    assert drawing.picture is not None, drawing.absent
    _judge(name, _raster(drawing.picture), tmp_path, request)


@pytest.mark.parametrize("name", COMPARED)
def test_a_figure_of_a_comparison_looks_as_it_did(
    tmp_path: Path, data: Json, name: str, request: pytest.FixtureRequest
) -> None:
    before = synthetic_comparison.of_more_processes([data])
    after = synthetic_comparison.changed(before)
    synthetic.fail(after[0]["cells"][0], "wrong")
    path = synthetic_comparison.compare(tmp_path, before, after)
    sides = [tmp_path / side / f"{data['experiment']}.json" for side in ("a", "b")]
    results = ([result] for result in together(load_results(sides)))
    drawings = compare_figures.draw_all(load_comparison(path), *results)
    drawing = dict(drawings)[name]
    assert drawing.picture is not None, drawing.absent
    _judge(f"compare-{name}", _raster(drawing.picture), tmp_path, request)


def _judge(kind: str, actual: np.ndarray, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    reference = IMAGES / f"{kind}.png"
    if request.config.getoption("--renew-images", default=False):
        IMAGES.mkdir(exist_ok=True)
        _write(reference, actual)
        pytest.skip(f"{reference} was written again")
    assert reference.is_file(), "no reference picture; see this file's head"
    expected = np.asarray(Image.open(reference).convert("RGB"))
    difference = _difference(expected, actual)
    if difference <= TOLERANCE:
        return
    paths = [_write(tmp_path / "expected.png", expected), _write(tmp_path / "actual.png", actual)]
    if expected.shape == actual.shape:
        apart = np.abs(expected.astype(int) - actual.astype(int)).max(axis=2)
        strong = np.clip(255 - 4 * apart, 0, 255).astype(np.uint8)
        paths.append(_write(tmp_path / "difference.png", np.stack([strong] * 3, axis=2)))
    names = "\n".join(str(path) for path in paths)
    pytest.fail(
        f"{kind} differs by {difference:.2f} levels of 255 (tolerance {TOLERANCE}); sizes "
        f"{expected.shape[:2]} and {actual.shape[:2]}. Look at\n{names}\nand renew if it is meant."
    )


def test_pictures_are_small_and_of_kinds_that_exist() -> None:
    files = sorted(IMAGES.glob("*"))
    names = [*KINDS, *FACES, *(f"compare-{name}" for name in COMPARED)]
    assert {f.name for f in files} == {f"{name}.png" for name in names}
    for file in files:
        assert file.stat().st_size < LARGEST_FILE, file.name


@pytest.mark.parametrize(
    "kind", ["time", "speedup", "bars", "heatmap", "winners", "ladder", "roofline"]
)
def test_the_tolerance_sees_one_changed_time(tmp_path: Path, data: Json, kind: str) -> None:
    """Of a cell that every kind shows."""
    slower = copy.deepcopy(data)
    cell = next(
        c
        for c in slower["cells"]
        if (c["variant"], c["precision"], c["n"], c["k"]) == ("cuda_c", "tf32", 100, 2)
    )
    samples = cell["samples_seconds_per_iteration"]
    synthetic.resample(cell, [[3 * x for x in process] for process in samples])
    before = _pixels(_load(tmp_path / "before", data), kind)
    after = _pixels(_load(tmp_path / "after", slower), kind)
    assert _difference(before, after) > VISIBLE
