# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's own tests of KMeans, with the library's estimator in its place.

They come with the installed scikit-learn. What they may not pass is listed here, each kind with its
reason; one of the list that passes fails here, so the list stays as short as it can be.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

#: What a test is called, what its failure says, and why it is not passed.
EXCEPTIONS = [
    (r"sparse|X_csr|csr_|input_data[12]", r"is sparse|DID NOT WARN", "sparse points are refused"),
    (
        r"^test_kmeans_relocated_clusters\[.*dense|^test_kmeans_empty_cluster_relocated\[dense",
        r"assert|Not equal",
        "a cluster without points keeps its centroid, by the definition of the exact step",
    ),
    (r"^test_sample_weight_(init|zero)\[", r"_init_centroids", "a private method"),
    (
        r"^test_transform\[.*KMeans\]$",
        r"Mismatched elements: 2 / 300",
        "float64 rows are rounded to float32, and a few distances with them by more than 1e-7",
    ),
]


@pytest.fixture(scope="module")
def outcomes(package, tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    """How each test ended that scikit-learn's KMeans is at work in."""
    sklearn = pytest.importorskip("sklearn")
    if not (Path(sklearn.__file__).parent / "cluster/tests/test_k_means.py").is_file():
        pytest.skip("this scikit-learn came without its tests")
    file = tmp_path_factory.mktemp("outcomes") / "outcomes.jsonl"
    folders = [Path(package.__file__).parents[1], Path(__file__).parent]
    plugin = ["-p", "in_place_of_sklearn", "-p", "no:cacheprovider", "-c", os.devnull]
    which = ["-k", "not minibatch", "--pyargs", "sklearn.cluster.tests.test_k_means"]
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, "--rootdir", file.parent, *which],
        env={
            **os.environ,
            "OUTCOMES": str(file),
            "PYTHONPATH": os.pathsep.join(map(str, folders)),
            "SKLEARN_RUN_FLOAT32_TESTS": "1",
        },
        cwd=file.parent,
        capture_output=True,
    )
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line["made"]]


def _reason(outcome: dict) -> str:
    for name, message, reason in EXCEPTIONS:
        if re.search(name, outcome["test"]) and re.search(message, outcome["message"]):
            return reason
    return ""


def test_scikit_learns_own_tests_pass_but_for_the_listed(outcomes) -> None:
    assert len(outcomes) > 150, outcomes
    wrong = [one for one in outcomes if one["outcome"] == "failed" and not _reason(one)]
    assert [(one["test"], one["message"][:200]) for one in wrong] == []
    assert {one["outcome"] for one in outcomes} == {"passed", "failed"}


def test_nothing_that_passes_is_listed(outcomes) -> None:
    listed = "|".join(name for name, _, _ in EXCEPTIONS)
    passed = [one["test"] for one in outcomes if one["outcome"] == "passed"]
    assert [test for test in passed if re.search(listed, test)] == []
    for name, message, reason in EXCEPTIONS:
        assert any(
            re.search(name, one["test"]) and re.search(message, one["message"])
            for one in outcomes
            if one["outcome"] == "failed"
        ), f"no test fails because {reason}"
