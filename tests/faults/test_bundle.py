# SPDX-License-Identifier: Apache-2.0
"""Results that are handed over: bundle, check-bundle, and what may be wrong with either."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT, small_experiment


@pytest.fixture(scope="module")
def measured(bench, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results: one experiment of two variants of the suite."""
    folder = tmp_path_factory.mktemp("bundle")
    scale = {"sweep": {"n": [300], "d": [3], "k": [4]}, "iterations": 2}
    experiment = small_experiment("demo", ["cpu_naive", "cpu_fused"], scale)
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
        # Uniform, clusters, two kinds of ties, duplicates, empty clusters, an offset; f32 as timed.
        assert f"\n{variant:26} f32 {7:9} {0:7} {0:7}\n" in run.stdout
    assert " f64 " not in run.stdout
    assert f"\n{'demo':26} 3 equal\n" in run.stdout  # with the data
    assert run.stdout.endswith(
        "\nvariants: 2 passed, 0 failed, 0 not run\n"
        "recorded answers: 3 equal, 0 agrees, 0 differs, 0 not run\n"
    )
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
    # Whoever corrects the manifest, too, has answers that cannot be repeated.
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
    assert "not the name of a file" in bench.refusal("check-bundle", bundle)
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
    assert "commit 000000000000" in refused
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


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The template in C, and one that breaks ties to the higher index, each with its source."""
    folder = tmp_path_factory.mktemp("plugins")
    compiler = shutil.which("cc") or "gcc"
    text = (ROOT / "examples" / "plugins" / "lloyd.c").read_text(encoding="utf-8")
    files = {}
    for name, source in (("lloyd", text), ("high_ties", text.replace(TIE, TIE.replace("<", "<=")))):
        (folder / f"{name}.c").write_text(source, encoding="utf-8")
        words = [compiler, "-O2", "-o", folder / name, folder / f"{name}.c", "-lm"]
        subprocess.run(words, check=True)
        files[name] = folder / name
    return files


@pytest.fixture(scope="module")
def plugged(bench, compiled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of both plugins."""
    folder = tmp_path_factory.mktemp("plugged")
    scale = {"sweep": {"n": [100], "d": [2], "k": [3]}, "iterations": 2}
    experiment = small_experiment("demo", list(compiled), scale)
    (folder / "demo.json").write_text(json.dumps(experiment))
    words = [word for file in compiled.values() for word in ("--plugin", str(file))]
    run = bench("run", folder / "demo.json", "--out", folder / "results", *words)
    assert run.returncode == 0, run.stdout + run.stderr
    return folder / "results"


#: Where the template chooses the nearest centroid.
TIE = "distance < nearest"


def test_a_plugin_goes_with_its_source(bench, plugged, compiled, tmp_path: Path) -> None:
    out, lloyd, high = tmp_path / "out", compiled["lloyd"], compiled["high_ties"]
    shutil.copytree(plugged, out)
    words = ("--plugin", lloyd, "--plugin", high)
    bundle = ("bundle", out, "--draft", "--source", lloyd.with_suffix(".c"))
    refused = bench.refusal("bundle", out, "--draft")
    assert "no source of the plugins high_ties, lloyd" in refused
    assert "no source of the plugin high_ties;" in bench.refusal(*bundle)
    other = tmp_path / "other.c"
    shutil.copy(high.with_suffix(".c"), other)
    refused = bench.refusal(*bundle, "--source", other)
    assert "--source NAME=FILE" in refused
    assert "other.c: is the source" in bench.refusal(*bundle, "--source", f"none={other}")
    assert not (out / "sources").exists()
    run = bench(*bundle, "--source", f"high_ties={other}")
    assert run.returncode == 0, run.stdout + run.stderr
    assert (out / "sources" / "lloyd.c").read_bytes() == lloyd.with_suffix(".c").read_bytes()
    variants = json.loads((out / "bundle.manifest").read_text())["variants"]
    assert {name: one["sources"] for name, one in variants.items()} == {
        "lloyd": ["sources/lloyd.c"],
        "high_ties": ["sources/other.c"],
    }
    refused = bench.refusal("check-bundle", out, "--draft", code=3)
    assert "none of the bundle's variants" in refused
    # Its answers on uniform points are right; of ties it is asked all the same.
    run = bench(
        "check-bundle", out, "--draft", "--largest-problem", "600", "--at-most", "0", *words
    )
    assert run.returncode == 1, run.stdout + run.stderr
    assert re.search(r"^high_ties +f32 .*\n +failed \d+ of \d+, first: wrong on", run.stdout, re.M)
    assert re.search(r"^lloyd +f32 +\d+ +0 +0$", run.stdout, re.M)
    assert "\nvariants: 1 passed, 1 failed, 0 not run\n" in run.stdout
    # Alone, without the plugins, they were not run.
    assert "none of the answers could be repeated" in bench.refusal("reproduce", out, code=3)
    run = bench("reproduce", out, *words)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "cells      2 " in run.stdout


def test_a_bundle_without_the_source_of_a_plugin_is_not_for_publication(
    bench, plugged, compiled, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(plugged, out)
    words = [w for file in compiled.values() for w in ("--source", file.with_suffix(".c"))]
    run = bench("bundle", out, "--draft", *words)
    assert run.returncode == 0, run.stdout + run.stderr
    manifest = json.loads((out / "bundle.manifest").read_text())
    del manifest["variants"]["lloyd"]["sources"]
    manifest["draft"] = False
    (out / "bundle.manifest").write_text(json.dumps(manifest))
    run = bench("check-bundle", out, "--at-most", "0")
    assert "lloyd: a plugin without its source\n" in run.stdout
    assert run.returncode == 1
