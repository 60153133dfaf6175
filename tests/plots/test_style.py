# SPDX-License-Identifier: Apache-2.0
"""Series can be distinguished, by colour-blind readers and on a black-and-white printer too."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import synthetic
from matplotlib.colors import to_rgb
from synthetic import Json

from plots import style
from plots.claims import KINDS
from plots.load import ON_GPU, load_result

# Machado, Oliveira and Fernandes (2009), full severity, on linear RGB.
_SIMULATIONS = {
    "none": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
}
_TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
_ARITHMETIC = ("multiply-add", "one thread", "matrix product")
_TOGETHER = ("cpu", "openmp", "python", "cuda", "python" + ON_GPU)


def _lab(color: str, simulation: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of the colour as such a reader sees it."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = _TO_XYZ @ np.clip(simulation @ linear, 0, 1) / (_TO_XYZ @ np.ones(3))
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("reader", sorted(_SIMULATIONS))
def test_families_of_variants_differ_in_colour(reader: str) -> None:
    for one, other in itertools.combinations(_TOGETHER, 2):
        places = [_lab(style.backend_color(f), _SIMULATIONS[reader]) for f in (one, other)]
        assert np.linalg.norm(places[0] - places[1]) > 15, (one, other)


def test_a_library_has_one_colour_on_a_gpu_and_another_on_the_cpu(
    tmp_path: Path, small_experiment: Json
) -> None:
    small_experiment["variants"] = ["cpu_a", "python_b", "python_c"]
    data = synthetic.result(small_experiment)
    for index, cell in enumerate(data["cells"]):
        if cell["variant"] == "python_c":
            shape = (cell["n"], cell["d"], cell["k"])
            data["cells"][index] = synthetic.cell("small", "python_c", "f32", shape, 1, on_gpu=True)
    skipped = next(c for c in data["cells"] if c["variant"] == "python_c")
    synthetic.fail(skipped)
    result = load_result(synthetic.write(tmp_path, data))
    assert ("python" + ON_GPU, "python_c") in result.roster
    assert ("python", "python_b") in result.roster
    looks = {style.look_of(result, c) for c in result.cells if c.variant == "python_c"}
    assert len(looks) == 1  # the skipped cell's too, which does not say where it would have run
    assert looks.isdisjoint(
        style.look_of(result, c) for c in result.cells if c.variant != "python_c"
    )


def test_precisions_of_a_variant_differ_without_colour(
    tmp_path: Path, small_experiment: Json
) -> None:
    result = load_result(synthetic.write(tmp_path, synthetic.result(small_experiment)))
    precisions = ("f32", "f64", "tf32", "f16", "bf16")
    looks = [style.look(result, "cuda", "cuda_c", precision) for precision in precisions]
    for key in ("line", "fill", "hatch"):
        assert len({str(getattr(one, key)) for one in looks}) == len(precisions), key
    assert len({(one.color, one.marker) for one in looks}) == 1


def test_a_dozen_variants_of_one_backend_have_their_own_markers_and_are_no_whiter_than_paper(
    tmp_path: Path, small_experiment: Json
) -> None:
    small_experiment["variants"] = ["cpu_a", *(f"cuda_{letter}" for letter in "abcdefghijkl")]
    result = load_result(synthetic.write(tmp_path, synthetic.result(small_experiment)))
    looks = {c.variant: style.look_of(result, c) for c in result.cells if c.backend == "cuda"}
    assert len({one.marker for one in looks.values()}) == 12
    for one in looks.values():
        assert _lab(one.color, np.eye(3))[0] < 80


def _contrast(one: str, other: str | tuple[float, float, float]) -> float:
    """Of the WCAG: 1 to 21; 4.5 is asked of small text."""
    linear = [
        [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
        for color in (one, other)
    ]
    light, dark = sorted((_TO_XYZ[1] @ np.array(color) for color in linear), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_text_in_a_field_reads_well() -> None:
    colors = [style.warmth(float(ratio), 30.0) for ratio in np.geomspace(1 / 40, 40, 81)]
    colors += [style.backend_color(family) for family in (*_TOGETHER, "eigen", "blas", "nccl")]
    for color in colors:
        assert _contrast(style.ink(color), color) >= 4.5, color


@pytest.mark.parametrize("reader", sorted(_SIMULATIONS))
def test_faster_and_slower_differ_and_get_darker_with_the_factor(reader: str) -> None:
    simulation = _SIMULATIONS[reader]
    assert _lab(style.warmth(1.0, 10.0), simulation)[0] > 99
    for factor in (3.0, 10.0):
        faster, slower = (_lab(style.warmth(r, 10.0), simulation) for r in (factor, 1 / factor))
        assert np.linalg.norm(faster - slower) > 25
    for direction in (1, -1):
        lightness = [_lab(style.warmth(f**direction, 10.0), simulation)[0] for f in (1, 2, 5, 10)]
        assert all(later < earlier - 4 for earlier, later in itertools.pairwise(lightness))
    assert style.warmth(500.0, 10.0) == style.warmth(10.0, 10.0)


def test_every_verdict_has_a_colour_that_reads_on_paper() -> None:
    assert set(style.VERDICTS) == set(KINDS)
    for color in style.VERDICTS.values():
        assert _contrast(color, "white") >= 3.0


def test_measured_limits_differ_without_colour_and_dots_are_the_gpus() -> None:
    """Those that one panel may show."""
    for on_gpu, kinds in (
        (False, ("memory", "copy", "cache")),
        (False, [f"{what} {p}" for what in _ARITHMETIC for p in ("f32", "f64")]),
        (True, ("memory", "cache")),
        (True, ["multiply-add f32", "multiply-add f64"]),
        (True, [f"matrix product {p}" for p in ("f64", "f32", "tf32", "f16", "bf16")]),
    ):
        lines = [str(style.limit(on_gpu, kind)["linestyle"]) for kind in kinds]
        assert len(set(lines)) == len(kinds), kinds
        for kind in kinds:
            _, dashes = style.limit(on_gpu, kind)["linestyle"]
            assert (max(dashes[::2]) == 1) == on_gpu, kind


def test_a_variant_looks_the_same_in_every_experiment_and_on_every_machine(
    tmp_path: Path, small_experiment: Json
) -> None:
    """Whatever else was measured next to it, and whether it ran there."""
    first = small_experiment | {"variants": ["cpu_naive", "cuda_exact", "openmp_simd"]}
    other = ["cpu_naive", "cpu_a", "cuda_atomic", "cuda_exact", "python_torch", "python_z"]
    second = small_experiment | {"variants": other, "baseline": "cpu_naive"}
    first["baseline"] = "cpu_naive"
    data = synthetic.result(second)
    for cell in data["cells"]:
        if cell["variant"] in ("cuda_exact", "python_torch"):
            synthetic.fail(cell)  # a machine without a GPU
    one = load_result(synthetic.write(tmp_path / "one", synthetic.result(first)))
    two = load_result(synthetic.write(tmp_path / "two", data))
    assert one.roster != two.roster
    for backend, variant in (("cpu", "cpu_naive"), ("cuda", "cuda_exact")):
        for precision in ("f32", "f64"):
            assert style.look(one, backend, variant, precision) == style.look(
                two, backend, variant, precision
            )
    # A library for GPUs has its colour even where none was found.
    torch = style.look(two, "python", "python_torch", "f32")
    assert torch.color == to_rgb(style.backend_color("python" + ON_GPU))


def test_the_suites_own_variants_have_places_and_differ() -> None:
    places = style._PLACES
    names = [name for family in places.values() for name in family]
    assert len(set(names)) == len(names)
    sources = (synthetic.ROOT / "implementations").glob("*/*")
    shipped = {
        p.stem
        for p in sources
        if p.suffix in (".cpp", ".cu", ".py")
        and not p.name.startswith("_")
        and p.stem not in ("contract", "worker", "program", "estimator")
        and not p.stem.startswith("fit_")  # whole fits, whose rows are no cells
    }
    assert shipped <= set(names)
    for family in places.values():
        pairs = {(i % len(style._TONES), i % len(style._MARKERS)) for i in range(len(family))}
        assert len(pairs) == len(family)


def test_variants_that_the_table_does_not_have_collide_with_none(
    tmp_path: Path, small_experiment: Json
) -> None:
    own = [f"cuda_{letter}" for letter in "abcdefgh"]
    small_experiment["variants"] = ["cpu_a", "cuda_exact", "cuda_cublas", *own]
    result = load_result(synthetic.write(tmp_path, synthetic.result(small_experiment)))
    looks = [style.look(result, "cuda", v, "f32") for v in ("cuda_exact", "cuda_cublas", *own)]
    assert len({one.marker for one in looks}) == len(looks)
    # Alone, one of them has the place that its name gives it.
    small_experiment["variants"] = ["cpu_a", "cuda_a"]
    alone = load_result(synthetic.write(tmp_path, synthetic.result(small_experiment)))
    again = load_result(synthetic.write(tmp_path, synthetic.result(small_experiment)))
    assert style.look(alone, "cuda", "cuda_a", "f32") == style.look(again, "cuda", "cuda_a", "f32")
