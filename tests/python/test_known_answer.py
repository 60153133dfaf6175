# SPDX-License-Identifier: Apache-2.0
"""Known answers, through the program as a user runs it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support import kmeans_bench, needs_program

np = pytest.importorskip("numpy")

pytestmark = needs_program
ROWS = [1, 3, 6, 8]


def _fit(points: Path, *options: str) -> list[dict[str, Any]]:
    """The JSON lines of `fit`: one per iteration, then the summary."""
    run = kmeans_bench("fit", points, "-k", 4, "--init", "rows:1,3,6,8", "--json", *options)
    return [json.loads(line) for line in run.stdout.splitlines()]


def _lloyd(points: Any, iterations: int) -> tuple[list[float], Any]:
    """Inertia of each iteration (as scikit-learn prints it) and the last labels, by the book."""
    centroids = points[ROWS].copy()
    inertias = []
    for _ in range(iterations):
        differences = points[:, None, :] - centroids[None, :, :]
        squared = np.einsum("njd,njd->nj", differences, differences)
        labels = squared.argmin(axis=1)
        inertias.append(float(squared[np.arange(len(points)), labels].sum()))
        centroids = np.stack([points[labels == j].mean(axis=0) for j in range(4)])
    return inertias, labels


@pytest.fixture(scope="module")
def small_set(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The article's kind of data with 5 000 points, float64."""
    datasets = pytest.importorskip("sklearn.datasets")  # takes a second
    points, _ = datasets.make_classification(
        n_samples=5000,
        n_features=100,
        n_classes=4,
        n_clusters_per_class=4,
        random_state=1024,
        n_informative=8,
    )
    file = tmp_path_factory.mktemp("known") / "points.npy"
    np.save(file, points)
    return file, points


@pytest.mark.parametrize("variant", ["cpu_naive", "cpu_fused", "openmp_simd", "blas_gemm"])
def test_float64_inertia_is_that_of_an_independent_lloyd(
    small_set: tuple[Path, Any], variant: str
) -> None:
    file, points = small_set
    expected, _ = _lloyd(points, 22)
    *iterations, summary = _fit(
        file, "--variant", variant, "--precision", "f64", "--iterations", "22"
    )
    assert [row["iteration"] for row in iterations] == list(range(1, 23))
    assert [row["inertia"] for row in iterations] == pytest.approx(expected, rel=1e-9)
    assert summary["summary"] is True
    assert summary["iterations"] == 22
    assert summary["inertia"] == iterations[-1]["inertia"]
    assert iterations[0]["changed"] == len(points)
    for key in ("loss", "movement", "changed"):
        assert all(key in row for row in iterations)
    for key in ("variant", "label_hash", "empty_clusters", "seconds_per_iteration"):
        assert key in summary
    assert 0 < summary["seconds_per_iteration"] < summary["seconds_per_iteration_with_record"]


def test_exact_variants_agree_to_the_bit(small_set: tuple[Path, Any]) -> None:
    file, _ = small_set
    *first, reference = _fit(file, "--variant", "reference", "--iterations", "8")
    for threads in ("1", "2", "7"):
        *second, exact = _fit(
            file, "--variant", "openmp_exact", "--iterations", "8", "--threads", threads
        )
        assert exact["label_hash"] == reference["label_hash"]
        # What a variant counts for itself stands next to what the harness counts.
        assert [row.pop("own_changed") for row in second] == [row["changed"] for row in first]
        assert second == first


def test_the_articles_22_inertia_values(tmp_path: Path) -> None:
    """Full size, 1 000 000 x 100: the values that the zhihu2023 article prints, to 1e-9."""
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if available < 6 << 30:
        pytest.skip(f"needs 6 GiB of free memory, here {available / 2**30:.1f}")
    kmeans_bench("run", "zhihu2023", "--only", "known-answer", "--out", tmp_path)
    result = json.loads((tmp_path / "zhihu2023.json").read_text())
    (trace,) = result["traces"]
    assert trace["status"] == "ok", trace["reason"]
    assert trace["expected"]["passed"] is True
    assert trace["expected"]["inertia_relative_error"] <= 1e-9
    assert trace["labels_begin"] == [1, 0, 2, 1, 0, 3, 2, 0, 2, 2]
    assert len(trace["iterations"]) == 34  # the last printed centroids are those of the 34th
    assert trace["expected"]["centroid_error_of_tolerance"] <= 1
