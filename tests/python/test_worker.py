# SPDX-License-Identifier: Apache-2.0
"""The Python side of the suite: traits, the worker's protocol, and every variant by itself.

The oracle is a Lloyd iteration in float64 written with plain loops over clusters. Points are small
integers, so that every sum is exact and a label can only differ where two distances are equal.
"""

from __future__ import annotations

import functools
import pathlib
import re
import sys
import warnings
from collections.abc import Iterator

import pytest

np = pytest.importorskip("numpy")

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "implementations" / "python"
sys.path.insert(0, str(FOLDER))

import contract  # noqa: E402
import worker  # noqa: E402

from tests.support import captured  # noqa: E402

NAMES = sorted(file.stem for file in FOLDER.glob("python_*.py"))
DESCRIPTIONS = {entry["name"]: entry for entry in worker.describe(FOLDER)["variants"]}
THREADS = 2


@pytest.fixture(scope="module", autouse=True)
def patient_threads() -> Iterator[None]:
    """Other tests have the processors too; OpenMP reads it when a library is loaded first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_WAIT_POLICY", "passive")
        yield


@functools.cache
def why_no_gpu() -> str:
    """Empty where PyTorch can use a GPU."""
    import torch

    return "" if torch.cuda.is_available() else "PyTorch finds no GPU that it can use"


def traits_of(name: str) -> dict:
    """The variant's traits; skips the test where the variant cannot run."""
    description = DESCRIPTIONS[name]
    if description["reason"]:
        pytest.skip(description["reason"])
    if description["traits"]["gpu"] and why_no_gpu():
        pytest.skip(why_no_gpu())
    return description["traits"]


def make_variant(name: str, precision: str, points: np.ndarray, k: int) -> contract.Variant:
    """A variant after setup, as the worker makes it; skips the test outside its limits."""
    if not admits(traits_of(name), precision, *points.shape, k):
        pytest.skip("outside the variant's limits")
    variant = worker.variant_class(worker.load_module(FOLDER / f"{name}.py"))()
    variant.precision = precision
    points = np.array(points, dtype="float64" if precision == "f64" else "float32")
    points.flags.writeable = False
    variant.setup(points, k, THREADS)
    worker.limit_threads(THREADS)
    return variant


def run(variant: contract.Variant, centroids: np.ndarray, iterations: int):
    """Centroids and labels after a reset and this many iterations."""
    variant.reset(np.array(centroids, dtype="float64" if variant.precision == "f64" else "float32"))
    variant.step(iterations)
    found, labels = variant.fetch()
    return np.array(found, dtype=np.float64), np.array(labels)


def squared_distances(points: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """n x k squared distances in float64."""
    points = np.asarray(points, dtype=np.float64)
    return np.stack([((points - row) ** 2).sum(axis=1) for row in centroids], axis=1)


def lloyd(points: np.ndarray, centroids: np.ndarray, iterations: int):
    """Centroids and labels of plain Lloyd, where an empty cluster keeps its centroid."""
    centroids = np.array(centroids, dtype=np.float64)
    for _ in range(iterations):
        labels = squared_distances(points, centroids).argmin(axis=1)
        for j in range(len(centroids)):
            if (labels == j).any():
                centroids[j] = points[labels == j].mean(axis=0)
    return centroids, labels


def groups(n: int, d: int, k: int) -> np.ndarray:
    """n points of integer coordinates around k centres that are far apart."""
    random = np.random.RandomState(7)
    return (np.arange(n)[:, None] % k) * 64 + random.randint(0, 16, size=(n, d))


#: Each variant with each of its precisions.
CASES = [
    pytest.param(name, precision, id=f"{name}-{precision}")
    for name in NAMES
    for precision in (DESCRIPTIONS[name]["traits"] or {"precisions": ["f32"]})["precisions"]
]
every_variant = pytest.mark.parametrize(("name", "precision"), CASES)


def admits(traits: dict, precision: str, n: int, d: int, k: int) -> bool:
    """Do the variant's limits allow this shape?"""
    sizes = {"n": n, "d": d, "k": k, "scalar": 8 if precision == "f64" else 4, "1": 1}

    def total(terms: dict) -> float:
        return sum(
            factor * np.prod([float(sizes[name]) for name in product.split("*")])
            for product, factor in terms.items()
        )

    def admitted(limit: dict) -> bool:
        if precision not in limit.get("precisions", [precision]):
            return True
        if "multiple_of" in limit:
            return total(limit["terms"]) % limit["multiple_of"] == 0
        return total(limit["terms"]) <= limit["at_most"]

    return all(admitted(limit) for limit in traits["limits"])


#: Unit roundoff of the operands of products that matrix units form; 0: that of the points.
OPERAND_UNITS = {"f64": 0, "f32": 0, "tf32": 2.0**-11, "f16": 2.0**-11, "bf16": 2.0**-8}


# --- Variants -------------------------------------------------------------------------------------


@every_variant
@pytest.mark.parametrize(
    ("n", "d", "k"),
    [
        (1, 1, 1),
        (2, 1, 1),
        (7, 3, 7),
        (101, 2, 5),
        (257, 5, 3),  # SciPy changes its method at d = 5
        (1031, 17, 13),
        (2000, 1, 2),
        (600, 130, 4),
    ],
)
def test_labels_and_centroids_are_those_of_lloyd(name, precision, n, d, k):
    points = groups(n, d, k)
    start = points[:k] + 0.25
    expected_centroids, expected_labels = lloyd(points, start, 3)
    centroids, labels = run(make_variant(name, precision, points, k), start, 3)
    assert centroids.shape == (k, d)
    assert labels.shape == (n,)
    # The groups are found in the first iteration, so it does not matter which centroids labels
    # belong to. n/k coordinates below 64 k + 16 round in each addition once their origin has moved.
    assert np.array_equal(labels, expected_labels)
    unit = 2.0**-52 if precision == "f64" else 2.0**-23
    assert np.abs(centroids - expected_centroids).max() <= (8 + n / k) * unit * 64 * (k + 1)


@every_variant
def test_labels_belong_to_the_declared_centroids(name, precision):
    traits = traits_of(name)
    random = np.random.RandomState(3)
    points = random.randint(0, 1000, size=(400, 3)).astype(np.float64)
    start = points[:6]
    variant = make_variant(name, precision, points, 6)
    before, _ = run(variant, start, 2)
    after, labels = run(variant, start, 3)
    assert not np.array_equal(before, after)
    owner = after if traits["labels_of"] == "returned" else before
    distances = squared_distances(points, owner)
    chosen = distances[np.arange(len(points)), labels]
    # Rounding of an expanded square of norms up to 1733 in float32 is below 4 * 2^-23 * 4 * 1733^2;
    # rounded operands add (2 u + u^2) (2 * 1733)^2 to each of the two distances.
    unit = OPERAND_UNITS[precision]
    allowed = 8 + 2 * (2 * unit + unit**2) * (2 * 1733) ** 2
    assert (chosen - distances.min(axis=1)).max() <= allowed
    other = before if traits["labels_of"] == "returned" else after
    distances = squared_distances(points, other)
    assert (distances.argmin(axis=1) != labels).any(), "the case does not distinguish the two"


@every_variant
def test_steps_add_up_and_reset_forgets(name, precision):
    traits_of(name)
    points = np.random.RandomState(5).randint(0, 512, size=(500, 4)).astype(np.float64)
    start = points[:8]
    variant = make_variant(name, precision, points, 8)
    whole, whole_labels = run(variant, start, 5)
    run(variant, points[100:108], 2)
    run(variant, start, 2)
    variant.step(1)
    variant.step(2)
    parts, part_labels = variant.fetch()
    # scikit-learn moves the points' mean to the origin and back in every run.
    assert np.abs(whole - parts).max() <= (1e-9 if precision == "f64" else 1e-2)
    assert (whole_labels != part_labels).mean() <= (0 if precision == "f64" else 0.01)


@every_variant
def test_an_empty_cluster_is_treated_as_declared(name, precision):
    traits = traits_of(name)
    points = groups(60, 2, 2).astype(np.float64)
    start = np.array([points[0], points[1], [5000.0, 5000.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        variant = make_variant(name, precision, points, 3)
        centroids, labels = run(variant, start, 2)
    assert np.isfinite(centroids).all()
    assert labels.min() >= 0
    assert labels.max() < 3
    if traits["empty_clusters"] == "keep":
        assert centroids[2].tolist() == [5000, 5000]
        assert set(labels) == {0, 1}
    else:
        assert np.abs(centroids[2]).max() < 200
        assert set(labels) == {0, 1, 2}


@every_variant
def test_duplicates_and_identical_points(name, precision):
    traits_of(name)
    points = np.full((50, 3), 7.0)
    points[25:] = 9.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        variant = make_variant(name, precision, points, 2)
        centroids, labels = run(variant, points[[0, 49]], 4)
        assert np.allclose(centroids, [[7] * 3, [9] * 3], rtol=1e-6)
        assert labels.tolist() == [0] * 25 + [1] * 25
        same = np.full((30, 2), 3.0)
        centroids, labels = run(make_variant(name, precision, same, 4), same[:4], 3)
    assert np.isfinite(centroids).all()
    assert labels.min() >= 0
    assert labels.max() < 4


@every_variant
def test_points_are_left_alone(name, precision):
    if not admits(traits_of(name), precision, 200, 6, 4):
        pytest.skip("outside the variant's limits")
    points = groups(200, 6, 4)
    variant = worker.variant_class(worker.load_module(FOLDER / f"{name}.py"))()
    variant.precision = precision
    given = np.array(points, dtype="float64" if precision == "f64" else "float32")
    given.flags.writeable = False
    variant.setup(given, 4, THREADS)
    run(variant, points[:4], 3)
    assert np.array_equal(given, points)


def test_sklearn_reports_how_many_iterations_it_ran():
    for name in ("python_sklearn_lloyd", "python_sklearn_elkan"):
        traits_of(name)
        points = groups(90, 2, 3)
        variant = make_variant(name, "f64", points, 3)
        variant.reset(points[:3].astype(np.float64))
        executed = variant.step(50)
        assert 1 <= executed < 50


def test_faiss_runs_as_many_iterations_as_it_is_asked_for():
    # By default it stops once its objective stays the same, and does not report it.
    traits_of("python_faiss")
    points = groups(90, 2, 3)
    variant = make_variant("python_faiss", "f32", points, 3)
    variant.reset(points[:3].astype(np.float32))
    assert variant.step(50) == 50


# The product of rounded halves exists on a GPU only, the other precisions anywhere.
@pytest.mark.parametrize(
    ("name", "precision"),
    [("python_torch", "f64"), ("python_torch", "f32"), ("python_fastkmeans", "f32")],
)
def test_pytorch_variants_are_right_on_the_cpu_too(name, precision):
    if DESCRIPTIONS[name]["reason"]:
        pytest.skip(DESCRIPTIONS[name]["reason"])
    module = worker.load_module(FOLDER / f"{name}.py")
    module.PRODUCT_BYTES = 4096  # of python_torch: several chunks of points, the last one shorter
    variant_on_the_cpu = worker.variant_class(module)
    variant_on_the_cpu.device = "cpu"

    def make(points: np.ndarray, k: int) -> contract.Variant:
        variant = variant_on_the_cpu()
        variant.precision = precision
        variant.setup(points.astype("float64" if precision == "f64" else "float32"), k, THREADS)
        return variant

    points = groups(1031, 17, 13)
    start = points[:13] + 0.25
    variant = make(points, 13)
    assert variant.device_clock() is None
    centroids, labels = run(variant, start, 3)
    expected_centroids, expected_labels = lloyd(points, start, 3)
    assert np.array_equal(labels, expected_labels)
    assert np.abs(centroids - expected_centroids).max() <= 1e-3

    if DESCRIPTIONS[name]["traits"]["empty_clusters"] == "keep":
        start = points[[0, 0, 1, 1]]  # ties go to the lower index, which leaves two clusters empty
        centroids, labels = run(make(points, 4), start, 1)
        assert set(labels) == {0, 2}
        assert np.array_equal(centroids[[1, 3]], start[[1, 3]])


# --- Traits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_file_describes_itself(name):
    traits = DESCRIPTIONS[name]["traits"]
    assert traits is not None, DESCRIPTIONS[name]["reason"]
    assert set(traits) == set(contract.DEFAULTS)
    assert "\n" not in traits["summary"]


def test_describing_imports_no_library():
    code = (
        "import sys, pathlib, worker; worker.describe(pathlib.Path(worker.__file__).parent); "
        "print(sorted({'numpy', 'scipy', 'sklearn', 'faiss', 'torch', 'triton', 'flash_kmeans', "
        "'fastkmeans', 'flashlib', 'cuvs', 'rmm'} & set(sys.modules)))"
    )
    done = captured([sys.executable, "-c", code], cwd=FOLDER, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("version", "oldest", "older"),
    [
        ("26.6.0", "26.10", True),
        ("26.10", "26.10", False),
        ("26.10.0", "26.10", False),
        ("26", "26.10", True),
        ("3.0", "26.10", True),
        ("26.10.0a1", "26.10", False),
        ("1.2.3", "0", False),
    ],
)
def test_versions_are_compared_number_by_number(version, oldest, older):
    assert worker.is_older(version, oldest) == older


LIMIT = {"terms": {"k": 1}, "multiple_of": 4, "reason": "x"}


def test_limits_may_be_multiples_and_of_some_precisions():
    limit = LIMIT | {"precisions": ["f16"]}
    traits = contract.check_traits({"summary": "x", "limits": [limit]})
    assert admits(traits, "f16", 9, 1, 8)
    assert not admits(traits, "f16", 9, 1, 6)
    assert admits(traits, "f32", 9, 1, 6)


@pytest.mark.parametrize("gpu", [True, False])
def test_a_missing_package_names_the_file_that_brings_it(tmp_path, gpu):
    traits = {"summary": "x", "gpu": gpu, "requires": ["no-such-distribution"]}
    file = tmp_path / "python_needy.py"
    file.write_text(
        f"import contract\nTRAITS = {traits!r}\nclass Needy(contract.Variant):\n    pass\n"
    )
    reason = worker.describe_variant(file)["reason"]
    assert "lacks no-such-distribution" in reason
    assert ("requirements-gpu.txt" in reason) == gpu
    assert ("make setup-gpu" in reason) == gpu


def test_a_variant_outside_the_common_file_names_the_one_that_pins_what_it_needs(tmp_path):
    for name, entry in DESCRIPTIONS.items():
        file = ROOT / entry["traits"]["requirements"]
        assert file.is_file(), name
    pinned = (ROOT / "requirements-onedal.txt").read_text(encoding="utf-8")
    assert re.search(r"^scikit-learn-intelex==[\d.]+ \\\n +--hash=sha256:", pinned, re.M)
    common = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    for line in re.findall(r"^[\w.-]+==\S+", pinned, re.M):  # one environment holds both
        assert line in common or f"\n{line.split('==')[0]}==" not in common, line
    traits = {
        "summary": "x",
        "requires": ["no-such-one"],
        "requirements": "requirements-onedal.txt",
    }
    file = tmp_path / "python_needy.py"
    file.write_text(
        f"import contract\nTRAITS = {traits!r}\nclass Needy(contract.Variant):\n    pass\n"
    )
    reason = worker.describe_variant(file)["reason"]
    assert "lacks no-such-one" in reason
    assert "requirements-onedal.txt" in reason


def test_what_gpu_variants_need_is_pinned_with_hashes():
    text = (ROOT / "requirements-gpu.txt").read_text(encoding="utf-8")
    pinned = {
        match[1]
        for block in re.split(r"\n(?=\S)", text)
        if (match := re.match(r"([\w.-]+)==[\w.]+ .*\\\n +--hash=sha256:", block))
    }
    needed = {
        distribution
        for entry in DESCRIPTIONS.values()
        if entry["traits"]["gpu"]
        for distribution in entry["traits"]["requires"]
    }
    assert {"torch", "triton", "flash-kmeans", "fastkmeans", "flashlib", "cuvs-cu13"} <= needed
    assert needed <= pinned
    # One environment holds both files.
    versions = re.compile(r"^([\w.-]+)==([\w.]+)", re.MULTILINE)
    others = dict(versions.findall((ROOT / "requirements.txt").read_text(encoding="utf-8")))
    for name, version in versions.findall(text):
        assert others.get(name, version) == version, name


@pytest.mark.parametrize(
    ("traits", "message"),
    [
        (None, "not a dictionary"),
        ({"summary": "x", "paralel": True}, "did you mean 'parallel'"),
        ({}, "summary"),
        ({"summary": 3}, "must be a str"),
        ({"summary": "x", "exact": 1}, "must be a bool"),
        ({"summary": "x", "precisions": ["f33"]}, "must list some of f64"),
        ({"summary": "x", "precisions": []}, "must list some of f64"),
        ({"summary": "x", "distance": "cosine"}, "direct, expanded"),
        ({"summary": "x", "memory_bytes": {"n*m": 1}}, "'n*m' is not a product"),
        ({"summary": "x", "memory_bytes": {"n": "8"}}, "must be a number"),
        ({"summary": "x", "limits": [{"terms": {}}]}, "at_most (or multiple_of) and reason"),
        ({"summary": "x", "limits": [LIMIT | {"at_most": 1}]}, "at_most (or multiple_of)"),
        ({"summary": "x", "limits": [LIMIT | {"multiple_of": 0}]}, "at least 1"),
        ({"summary": "x", "limits": [LIMIT | {"precisions": ["half"]}]}, "some of f64"),
        ({"summary": "x", "gpu": 1}, "must be a bool"),
        ({"summary": "x", "gpu": True, "device_bytes": {"m": 1}}, "'m' is not a product"),
        ({"summary": "x", "device_bytes": {"n": 1}}, "for variants with 'gpu': True"),
        ({"summary": "x", "many_gpus": True}, "for variants with 'gpu': True"),
        ({"summary": "x", "at_least": {"numpy": "2"}}, "which 'requires' does not"),
        ({"summary": "x", "requires": ["a"], "at_least": {"a": ">=2"}}, "must be as '26.10'"),
        ({"summary": "x", "requires": ["a"], "at_least": {"a": 2}}, "must be as '26.10'"),
    ],
)
def test_wrong_traits_are_refused(traits, message):
    with pytest.raises(contract.TraitsError) as refusal:
        contract.check_traits(traits)
    assert message in str(refusal.value)


# --- Protocol -------------------------------------------------------------------------------------
