# SPDX-License-Identifier: Apache-2.0
"""library/compare_with_sklearn.py on few points."""

from __future__ import annotations

import json
import os
import statistics
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support import ROOT, captured


def test_both_libraries_fit_the_same_points(package, tmp_path: Path) -> None:
    cluster = pytest.importorskip("sklearn.cluster")
    datasets = pytest.importorskip("sklearn.datasets")
    words = [sys.executable, ROOT / "library" / "compare_with_sklearn.py", "--threads", "2"]
    words += ["--parts", "fits", "small", "--sets", "digits", "--seeds", "2"]
    words += ["--json", tmp_path / "rows.json"]
    folder = str(Path(package.__file__).parent.parent)
    done = captured(words, env={**os.environ, "PYTHONPATH": folder})
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "rows.json").read_text(encoding="utf-8"))
    assert {part: len(of) for part, of in rows.items()} == {"fits": 1, "small": 5}
    x = datasets.load_digits().data.astype(np.float32)
    (digits,) = rows["fits"]
    medians = []
    for library, estimator in (("kmeans_exact", package.KMeans), ("sklearn", cluster.KMeans)):
        models = [estimator(40, random_state=seed).fit(x) for seed in (1, 2)]
        inertias = sorted(model.inertia_ for model in models)
        assert sorted(digits[library]["inertia"]) == pytest.approx(inertias, rel=1e-5)
        assert sorted(digits[library]["iterations"]) == sorted(model.n_iter_ for model in models)
        medians.append(statistics.median(inertias))
    assert digits["inertia_ratio"] == pytest.approx(medians[0] / medians[1], rel=1e-5)
    least = min(row["ratio"] for row in rows["small"])
    assert f"times, least {least:.2f}" in done.stdout


def test_memory_at_the_peak_of_a_fit_counts_the_points(package) -> None:
    pytest.importorskip("sklearn")
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("this system does not forget a process's highest memory")
    words = [sys.executable, ROOT / "library" / "compare_with_sklearn.py"]
    words += ["--peak", "kmeans_exact", "500000", "32", "4", "2"]
    folder = str(Path(package.__file__).parent.parent)
    done = captured(words, env={**os.environ, "PYTHONPATH": folder})
    assert done.returncode == 0, done.stderr
    assert 1 + 1 / 32 <= float(done.stdout) <= 3
