# SPDX-License-Identifier: Apache-2.0
"""One small experiment, really run, whose times are replaced by known ones."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.support import set_times, small_experiment


@pytest.fixture(scope="session")
def small_result(tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder = tmp_path_factory.mktemp("measured")
    quick = {"sweep": [{"n": 300, "d": 4, "k": 3}], "iterations": 2, "repetitions": 2}
    data = {"generator": "gaussian", "seed": 1}
    variants = ["cpu_naive", "cpu_simd", "reference"]
    experiment = small_experiment("small", variants, quick, data=data)
    (folder / "small.json").write_text(json.dumps(experiment), encoding="utf-8")
    run = [os.environ["KMEANS_BENCH"], "run", folder / "small.json", "--out", folder / "out"]
    subprocess.run([*run, "--check-seconds", "0"], capture_output=True, check=True)
    result = json.loads((folder / "out" / "small.json").read_text(encoding="utf-8"))
    for cell in result["cells"]:
        set_times(cell, 0.010)
    # Whatever build and machine this test runs on, the two sides shall differ in nothing.
    result["context"]["suite"] |= {"git_dirty": False, "build_type": "Release", "sanitizers": ""}
    result["context"]["environment"]["warnings"] = []
    result["context"]["conditions"] = []
    return result
