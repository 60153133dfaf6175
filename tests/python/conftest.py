# SPDX-License-Identifier: Apache-2.0
"""The Python package of the library; one small experiment, really run, with known times."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from types import ModuleType

import pytest

from tests.support import ROOT, find_program, set_times, small_experiment


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


@pytest.fixture(scope="session")
def package() -> ModuleType:
    """kmeans_exact as built; installed wheels are tested with KMEANS_EXACT_INSTALLED=1."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # other tests have the processors too
    if os.environ.get("KMEANS_EXACT_INSTALLED"):
        return importlib.import_module("kmeans_exact")
    program = find_program()
    folder = (program.parent if program else ROOT / "build") / "library" / "python"
    if not list(folder.glob("kmeans_exact/_engine*")):
        pytest.skip("this build has no Python package (see the first lines of its configuration)")
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module("kmeans_exact")
    finally:
        sys.path.remove(str(folder))
