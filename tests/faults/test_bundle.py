# SPDX-License-Identifier: Apache-2.0
"""Results that are handed over: bundle, check-bundle, and what may be wrong with either."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT


@pytest.fixture(scope="module")
def measured(bench, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results: one experiment of two variants of the suite."""
    folder = tmp_path_factory.mktemp("bundle")
    sweep = {"n": [300], "d": [3], "k": [4]}
    scale = {"sweep": sweep, "iterations": 2, "processes": 1, "repetitions": 1, "min_seconds": 0}
    experiment = {
        "name": "demo",
        "title": "Demo",
        "data": {"generator": "uniform", "seed": 1},
        "init": "random:1",
        "variants": ["cpu_naive", "cpu_fused"],
        "scales": {"quick": scale},
    }
    (folder / "demo.json").write_text(json.dumps(experiment))
    bench.measure(folder / "demo.json", folder / "results")
    return folder / "results"


@pytest.fixture
def bundle(bench, measured: Path, tmp_path: Path) -> Path:
    """The same as a bundle; a draft, since tests run on changes that are not committed."""
    folder = tmp_path / "bundle"
    run = bench("bundle", measured, "--draft", "--out", folder)
    assert run.returncode == 0, run.stdout + run.stderr
    return folder


def test_a_bundle_carries_hashes_sources_and_environment(bundle: Path, measured: Path) -> None:
    manifest = json.loads((bundle / "bundle.manifest").read_text())
    (file,) = manifest["files"]
    text = (bundle / "demo.json").read_bytes()
    assert text == (measured / "demo.json").read_bytes()
    assert file == {
        "name": "demo.json",
        "sha256": hashlib.sha256(text).hexdigest(),
        "bytes": len(text),
    }
    result = json.loads(text)
    assert manifest["machine"] == result["context"]["machine"]
    assert manifest["suite"]["git_commit"] == result["context"]["suite"]["git_commit"]
    for name, variant in manifest["variants"].items():
        source = ROOT / "implementations" / "cpu" / f"{name}.cpp"
        assert variant["file"] == source.relative_to(ROOT).as_posix()
        assert variant["sha256"] == hashlib.sha256(source.read_bytes()).hexdigest()
    assert sorted(manifest["variants"]) == ["cpu_fused", "cpu_naive"]


def test_its_answers_are_run_again(bench, bundle: Path) -> None:
    run = bench("check-bundle", bundle, "--draft", "--seed", "17")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "seed 17 " in run.stdout
    for variant in ("cpu_naive", "cpu_fused"):
        assert f"\n{variant:26} f32 {2:9} {0:7} {0:7}\n" in run.stdout  # uniform and clusters
    assert (
        "demo                       3 equal or certified, 0 differ" in run.stdout
    )  # with the data
    assert " passed, 0 failed, 0 not run\n" in run.stdout
    # What is not for publication is not let through by accident.
    run = bench("check-bundle", bundle, "--at-most", "0")
    assert run.returncode == 1
    assert run.stdout.endswith("not for publication\n")


def test_what_was_changed_is_found(bench, bundle: Path, measured: Path) -> None:
    result = json.loads((bundle / "demo.json").read_text())
    for cell in result["cells"]:
        cell["label_hash"] = "0" * 16
        cell["inertia"] *= 1.1
    (bundle / "demo.json").write_text(json.dumps(result))
    assert "is not as it was bundled" in bench.refusal("check-bundle", bundle)
    # Whoever mends the manifest, too, has answers that cannot be repeated.
    manifest = json.loads((bundle / "bundle.manifest").read_text())
    digest = hashlib.sha256((bundle / "demo.json").read_bytes()).hexdigest()
    manifest["files"][0]["sha256"] = digest
    (bundle / "bundle.manifest").write_text(json.dumps(manifest))
    run = bench("check-bundle", bundle, "--draft")
    assert run.returncode == 1, run.stdout + run.stderr
    assert "differs: cell cpu_naive/" in run.stdout
    shutil.copy(measured / "demo.json", bundle / "more.json")
    manifest["files"][0]["name"] = "../results/demo.json"
    (bundle / "bundle.manifest").write_text(json.dumps(manifest))
    assert "is not the name of a file in the bundle" in bench.refusal("check-bundle", bundle)
    manifest["files"][0]["name"] = "demo.json"
    for spoilt in ({**manifest, "files": 7}, {**manifest, "suite": {"git_commit": 1}}, {}, []):
        (bundle / "bundle.manifest").write_text(json.dumps(spoilt))
        assert "is not the manifest of a bundle" in bench.refusal("check-bundle", bundle)
    manifest["bundle_version"] = 2
    (bundle / "bundle.manifest").write_text(json.dumps(manifest))
    assert "bundle_version is 2, this program reads 1" in bench.refusal("check-bundle", bundle)


def test_what_cannot_be_bundled_is_refused(bench, measured: Path, bundle: Path, tmp_path) -> None:
    result = json.loads((measured / "demo.json").read_text())
    other = tmp_path / "other.json"
    suite = result["context"]["suite"]
    other.write_text(
        json.dumps(
            {**result, "context": {**result["context"], "suite": {**suite, "git_commit": "0" * 40}}}
        )
    )
    out = tmp_path / "out"
    refused = bench.refusal("bundle", other, "--draft", "--out", out)
    assert "was measured by commit 000000000000, this program is of " in refused
    assert not out.exists()
    (bundle / "demo.json").write_text("mine")
    refused = bench.refusal("bundle", measured, "--draft", "--out", bundle)
    assert "is there already and not the same" in refused
    assert (bundle / "demo.json").read_text() == "mine"
    dirty = suite["git_dirty"]
    run = bench("bundle", measured, "--out", out)
    assert run.returncode == (2 if dirty else 0)
    assert ("not committed" in run.stderr) == dirty
    assert "bundle.manifest: there is no such file" in bench.refusal("check-bundle", tmp_path)


def test_a_plugin_goes_with_its_source(bench, write, experiment, tmp_path: Path) -> None:
    compiler = shutil.which("cc") or "gcc"
    source, plugin = ROOT / "examples" / "plugins" / "lloyd.c", tmp_path / "lloyd"
    subprocess.run([compiler, "-O2", "-o", plugin, source, "-lm"], check=True)
    words = ("--variant", "lloyd", "--plugin", plugin)
    run = bench("run", write(experiment()), "--out", tmp_path / "out", *words)
    assert run.returncode == 0, run.stdout + run.stderr
    refused = bench.refusal("bundle", tmp_path / "out", "--draft")
    assert "variant lloyd is a plugin; give its sources with --source" in refused
    run = bench("bundle", tmp_path / "out", "--draft", "--source", source)
    assert run.returncode == 0, run.stdout + run.stderr
    copied = tmp_path / "out" / "sources" / "lloyd.c"
    assert copied.read_bytes() == source.read_bytes()
    refused = bench.refusal("check-bundle", tmp_path / "out", "--draft", code=3)
    assert "none of the bundle's variants could be run here" in refused
    run = bench("check-bundle", tmp_path / "out", "--draft", "--plugin", plugin)
    assert run.returncode == 0, run.stdout + run.stderr
