# SPDX-License-Identifier: Apache-2.0
"""Figures of ranks and GPUs that share the points, and the model next to them."""

import re
from pathlib import Path

import pytest
from synthetic import Json

from plots import scaling_model as model
from plots.figures import scaling
from plots.load import Result, load_result
from plots.select import NothingToDraw
from tests.plots import synthetic
from tests.support import ROOT


def _cell(variant: str, shape: tuple[int, int, int], seconds: float, **count: int) -> dict:
    made = synthetic.cell("small", variant, "f32", shape, 10, **({"threads": 1} | count))
    synthetic.retime(made, seconds)
    return made


@pytest.fixture
def result(tmp_path: Path, small_experiment: Json) -> Result:
    """Two panels of strong scaling; of weak scaling one, 1000 points each."""
    data = synthetic.result(small_experiment)
    data["cells"] = [
        _cell("nccl_exact", (1000, 32, 256), 1e-3),
        _cell("nccl_exact", (1000, 32, 256), 0.625e-3, gpus=2),
        _cell("nccl_exact", (2000, 32, 256), 2e-3),
        _cell("nccl_exact", (2000, 32, 256), 1.25e-3, gpus=2),
        _cell("nccl_exact", (4000, 32, 256), 1.6e-3, gpus=4),
    ]
    data["planned_cells"] = len(data["cells"])
    return load_result(synthetic.write(tmp_path, data))


def _efficiencies(result: Result, figure: Json) -> dict[tuple[int, int], float]:
    panels = scaling._groups(figure, list(result.cells), "gpus")
    return {
        (cell.n, cell.gpus): round(found.mid, 6)
        for panel in panels
        for cell in panel.cells
        if (found := scaling._value(figure, panel, "gpus")(cell))
    }


def test_strong_scaling_is_the_time_of_one_over_that_of_all(result: Result) -> None:
    figure = {"x": "gpus", "show": "strong"}
    assert _efficiencies(result, figure) == {
        (1000, 1): 1.0,
        (1000, 2): 0.8,
        (2000, 1): 1.0,
        (2000, 2): 0.8,
    }


def test_a_shape_without_the_time_of_one_has_no_panel_of_strong_scaling(result: Result) -> None:
    cells = list(result.cells)
    panels = scaling._groups({"x": "gpus", "show": "strong"}, cells, "gpus")
    assert [panel.cells[0].n for panel in panels] == [1000, 2000]
    panels = scaling._groups({"x": "gpus", "show": "communication"}, cells, "gpus")
    assert [panel.cells[0].n for panel in panels] == [1000, 2000, 4000]
    several = [cell for cell in cells if cell.gpus != 1]
    with pytest.raises(NothingToDraw, match="no cell says what one of the gpus takes"):
        scaling._groups({"x": "gpus", "show": "strong"}, several, "gpus")


def test_weak_scaling_compares_cells_with_as_many_points_each(result: Result) -> None:
    figure = {"x": "gpus", "show": "weak"}
    assert _efficiencies(result, figure) == {
        (1000, 1): 1.0,
        (2000, 2): 0.8,
        (4000, 4): 0.625,
    }


@pytest.mark.parametrize("show", ["strong", "weak"])
def test_the_model_stands_next_to_what_was_measured(result: Result, show: str) -> None:
    figure = {"id": "s", "kind": "scaling", "x": "gpus", "show": show, "title": "T"}
    drawn = scaling.draw(result, figure)
    names = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert scaling._MODEL in names
    assert any("Model: docs/scaling.md" in text for text in scaling.caption(result, figure))


def test_threads_have_efficiencies_and_no_communication(
    tmp_path: Path, small_experiment: Json
) -> None:
    data = synthetic.result(small_experiment)
    shape = (1000, 3, 4)
    data["cells"] = [
        _cell("openmp_b", shape, 8e-3),
        _cell("openmp_b", shape, 2.5e-3, threads=4),
    ]
    data["planned_cells"] = 2
    found = load_result(synthetic.write(tmp_path, data))
    figure = {"id": "s", "kind": "scaling", "x": "threads", "show": "strong", "title": "T"}
    (panel,) = scaling._groups(figure, list(found.cells), "threads")
    shares = [scaling._value(figure, panel, "threads")(cell) for cell in panel.cells]
    assert [share and share.mid for share in shares] == pytest.approx([1, 0.8])
    scaling.draw(found, figure)
    assert any("the time of one thread over that of p" in t for t in scaling.caption(found, figure))
    with pytest.raises(NothingToDraw, match="x is ranks or gpus, not 'threads'"):
        scaling.draw(found, figure | {"show": "communication"})


def test_without_two_counts_there_is_no_weak_scaling(
    tmp_path: Path, small_experiment: Json
) -> None:
    one = load_result(synthetic.write(tmp_path, synthetic.result(small_experiment)))
    with pytest.raises(NothingToDraw, match="as many points for each"):
        scaling.draw(one, {"x": "ranks", "show": "weak", "title": "T"})


def test_communication_of_ranks_goes_from_the_least_to_the_most(
    tmp_path: Path, small_experiment: Json
) -> None:
    data = synthetic.result(small_experiment)
    shared = _cell("mpi_exact", (1000, 3, 4), 1e-3, ranks=3)
    shared["rank_times"] = {
        "seconds_per_iteration": [1e-3, 1e-3, 1e-3],
        "communication_seconds_per_iteration": [2e-4, 1e-4, 4e-4],
    }
    data["cells"] = [_cell("mpi_exact", (1000, 3, 4), 2e-3), shared]
    data["planned_cells"] = 2
    found = load_result(synthetic.write(tmp_path, data))
    alone, share = (scaling.communication_share(c, "ranks") for c in found.cells)
    assert alone is not None
    assert alone.mid == 0
    assert share is not None
    assert (share.mid, share.low, share.high) == pytest.approx((0.2, 0.1, 0.4))
    figure = {"id": "s", "kind": "scaling", "x": "ranks", "show": "communication", "title": "T"}
    scaling.draw(found, figure)
    assert any("of rank 0" in text for text in scaling.caption(found, figure))


# --- The model -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "measured"),
    [(65536, 11e-6), (1 << 20, 17e-6), (8 << 20, 49e-6), (64 << 20, 250e-6), (256 << 20, 890e-6)],
)
def test_two_gpus_cost_about_what_was_measured(size: int, measured: float) -> None:
    """An all-reduce on two GPUs sends the whole once, as one call of twice the size does half."""
    assert model.call_seconds(2 * size, 2) == pytest.approx(measured, rel=0.25)


@pytest.mark.parametrize(
    ("size", "measured"),
    [
        (65536, 15.6e-6),
        (1 << 20, 21e-6),
        (8 << 20, 63e-6),
        (64 << 20, 326e-6),
        (256 << 20, 1189e-6),
    ],
)
def test_four_gpus_cost_about_what_two_foretell(size: int, measured: float) -> None:
    assert model.call_seconds(2 * size, 4) == pytest.approx(measured, rel=0.3)


def test_one_gpu_sends_nobody_anything() -> None:
    assert model.communication_seconds(128, 1024, 1) == 0
    assert model.step_seconds(5e-3, 128, 1024, 1) == 5e-3
    assert model.strong_efficiency(5e-3, 128, 1024, 1) == 1


def test_known_answers() -> None:
    simple = model.Costs(call=1, link=8, fixed=0, copy=4, gpus_of_host=2, port=2, hop=10)
    # k (d + 1) = 4 sums of 8 bytes, few: one call; on two GPUs it sends all 32 bytes at 8.
    assert model.communication_seconds(1, 2, 2, simple) == 1 + 4
    # On two hosts of two: one hop, and three quarters twice at the port's 2.
    assert model.communication_seconds(1, 2, 4, simple) == 1 + 10 + 2 * 32 * 0.75 / 2
    assert model.step_seconds(100, 1, 2, 4, simple) == 25 + 35
    assert model.strong_efficiency(100, 1, 2, 4, simple) == 100 / (4 * 60)
    assert model.weak_efficiency(35, 1, 2, 4, simple) == 0.5
    # Many sums: scattered, gathered, copied.
    k = model.SUMS_IN_ONE_CALL
    sums, centroids = 16 * k, 4 * k
    expected = (1 + sums / 2 / 8) + (1 + centroids / 2 / 8) + centroids / 4
    assert model.communication_seconds(1, k, 2, simple) == expected


def test_what_is_fixed_is_not_divided() -> None:
    costs = model.Costs(fixed=2)
    alone = model.step_seconds(10, 1, 1, 4, costs) - model.communication_seconds(1, 1, 4, costs)
    assert alone == pytest.approx(2 + 8 / 4)


def test_the_last_count_that_pays_comes_before_the_first_that_does_not() -> None:
    values = {1: 1.0, 2: 0.9, 4: 0.6, 8: 0.4, 16: 0.7, 64: 0.1, 256: 0.0, 1024: 0.0}
    assert model.last_that_pays(values.__getitem__) == 4


def test_the_table_of_the_page_is_the_models() -> None:
    """By each row's own time on one GPU, which is rounded, so that a last digit may differ."""
    text = (ROOT / "docs" / "scaling.md").read_text()
    rows = re.findall(r"^\| [\d ]+ \| \d+ \| [\d ]+ \| \d+\.\d{3} \| \d+ \|.*$", text, re.MULTILINE)
    assert len(rows) == len(model.SHAPES)

    def numbers(line: str) -> list[float]:
        return [float(cell.replace(" ", "")) for cell in line.strip("|").split("|")]

    for line in rows:
        n, d, k, one, *_ = numbers(line)
        computed = numbers(model.row(int(n), int(d), int(k), one * 1e-3))
        assert computed == pytest.approx(numbers(line), abs=1.01), line
