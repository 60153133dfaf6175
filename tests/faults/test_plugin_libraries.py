# SPDX-License-Identifier: Apache-2.0
"""Plugins that are shared libraries: the project of examples/plugins/library, and faulty ones."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.support import ROOT, captured

EXAMPLE = ROOT / "examples" / "plugins" / "library"

#: The contract's number, and the headers that it is the number of, without comments and spaces.
CONTRACT = (6, "2beed1052fc4dff1")

FAULTY = """
#include "harness/variant.h"
#include <cstdlib>
#include <unistd.h>

// As the template, but for one fault.
class Base : public kmeans::Variant<float> {
 public:
  void setup(const kmeans::Problem<float>& problem) override { own_.setup(problem); }
  void reset(const float* centroids) override { own_.reset(centroids); }
  void step(std::int64_t iterations) override { own_.step(iterations); }
  void fetch(float* centroids, std::int32_t* labels) override { own_.fetch(centroids, labels); }
 private:
  MyLloyd own_;
};

class Crashes final : public Base {
  void setup(const kmeans::Problem<float>& problem) override {
    if (problem.shape.n >= 100) std::abort();
    Base::setup(problem);
  }
};

class Lies final : public Base {
  void fetch(float* centroids, std::int32_t* labels) override {
    Base::fetch(centroids, labels);
    labels[0] = 7;  // of 3 clusters
  }
};

class Hangs final : public Base {
  void setup(const kmeans::Problem<float>& problem) override {
    k_ = problem.shape.k;
    Base::setup(problem);
  }
  void step(std::int64_t iterations) override {
    for (volatile bool forever = k_ > 3; forever;) ::usleep(100000);
    Base::step(iterations);
  }
  std::int64_t k_ = 0;
};

class Leaves final : public Base {
  void step(std::int64_t) override { std::_Exit(0); }
};

KMEANS_VARIANT(Leaves, .name = "leaves", .summary = "ends its process with status 0")
KMEANS_VARIANT(Hangs, .name = "hangs", .summary = "loops for k > 3")
KMEANS_VARIANT(Crashes, .name = "crashes", .summary = "crashes at n = 100")
KMEANS_VARIANT(Lies, .name = "lies", .summary = "an invalid label")
"""


def _run(*words: object) -> str:
    outcome = captured([*map(str, words)])
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout


def _with_cuda() -> bool:
    """The example in CUDA takes ten seconds: where it can run, or somebody asks for it."""
    return Path("/dev/nvidiactl").exists() or "KMEANS_TEST_CUDA_PLUGIN" in os.environ


@pytest.fixture(scope="module")
def project(bench, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's project, built against an installed copy of the contract; also `faulty`."""
    folder = tmp_path_factory.mktemp("plugin-libraries")
    prefix, source = folder / "installed", folder / "source"
    build = Path(bench.program).parent
    _run("cmake", "--install", build, "--prefix", prefix, "--component", "plugin")
    shutil.copytree(EXAMPLE, source)
    template = (source / "my_lloyd.cpp").read_text(encoding="utf-8")
    (source / "faulty.cpp").write_text(template.split("KMEANS_VARIANT")[0] + FAULTY)
    with (source / "CMakeLists.txt").open("a") as lines:
        lines.write("kmeans_bench_add_plugin(faulty faulty.cpp)\n")
    options = [f"-DCMAKE_PREFIX_PATH={prefix}"]
    if not _with_cuda():
        options.append("-DCMAKE_CUDA_COMPILER=")
    _run("cmake", "-S", source, "-B", folder / "build", *options)
    _run("cmake", "--build", folder / "build", "-j2")
    return folder / "build"


@pytest.fixture
def library(tmp_path: Path):
    """A shared library of a few lines of C."""

    def compile_library(name: str, text: str) -> Path:
        source, file = tmp_path / f"{name}.c", tmp_path / f"{name}.so"
        source.write_text(text)
        _run(shutil.which("cc") or "gcc", "-shared", "-fPIC", "-o", file, source)
        return file

    return compile_library


def _listed(bench, *plugins: Path) -> dict[str, dict]:
    words = [word for plugin in plugins for word in ("--plugin", plugin)]
    run = bench("list", "--json", *words)
    assert run.returncode == 0, run.stderr
    listed = json.loads(run.stdout)["variants"]
    return {one["name"]: one for one in listed if one["backend"] == "plugin"}


def test_the_example_is_listed_verified_and_run(bench, project: Path, tmp_path: Path) -> None:
    plugin = project / "my_lloyd.so"
    variant = _listed(bench, plugin)["my_lloyd"]
    assert variant["available"]
    digest = hashlib.sha256(plugin.read_bytes()).hexdigest()
    assert variant["source"] == f"my_lloyd.so, sha256 {digest[:16]}"
    run = bench("verify", "--at-most", "3000", "--plugin", plugin)
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"^my_lloyd +f32 +\d+ +0 +0$", run.stdout, re.M), run.stdout
    assert "\n1 variant passed\n" in run.stdout
    points = tmp_path / "points.csv"
    points.write_text("0\n1\n8\n10\n")
    words = ("-k", "2", "--variant", "my_lloyd", "--plugin", plugin, "--init", "first", "--json")
    fitted = bench("fit", points, *words)
    assert json.loads(fitted.stdout.splitlines()[-1])["inertia"] == 2.5, fitted.stderr


def test_the_example_in_cuda_is_listed(bench, project: Path) -> None:
    """Compiled where there is a compiler; run by `verify` where there is a GPU as well."""
    plugin = project / "my_lloyd_cuda.so"
    if not _with_cuda():
        pytest.skip("no GPU here; KMEANS_TEST_CUDA_PLUGIN=1 compiles and lists it even so")
    if not plugin.exists():
        pytest.skip("no CUDA compiler here")
    variant = _listed(bench, plugin)["my_lloyd_cuda"]
    assert variant["gpu"]
    if not variant["available"]:
        pytest.skip(f"compiled and listed, but not run: {variant['reason']}")
    run = bench("verify", "--at-most", "3000", "--plugin", plugin)
    assert run.returncode == 0, run.stdout + run.stderr


def test_best_measures_a_plugin_before_others(bench, project: Path) -> None:
    # By estimates it would come last: it is not known to use threads.
    words = ("--n", "2000", "--d", "2", "-k", "3", "--only", "^(openmp_exact|my_lloyd)$")
    run = bench("best", *words, "--seconds", "120", "--plugin", project / "my_lloyd.so")
    # 3: next to other work no time may be steady, which the order does not depend on.
    assert run.returncode in (0, 3), run.stdout + run.stderr
    assert "] best: my_lloyd/f32/" in run.stderr + run.stdout
    lines = [line for line in (run.stderr + run.stdout).splitlines() if "] best: " in line]
    assert "] best: my_lloyd/f32/" in lines[0], lines


def test_a_crash_and_a_lie_cost_their_own_cells(bench, write, experiment, project, tmp_path):
    mine, faulty = project / "my_lloyd.so", project / "faulty.so"
    words = ("--plugin", mine, "--plugin", faulty)
    run = bench("run", write(experiment()), "--out", tmp_path / "out", *words)
    assert run.returncode == 4, run.stdout + run.stderr
    result = json.loads((tmp_path / "out" / "demo-changed.json").read_text())
    cells = {cell["variant"]: cell for cell in result["cells"]}
    status = {name: cell["status"] for name, cell in cells.items()}
    assert status == {
        "reference": "ok",
        "my_lloyd": "ok",
        "crashes": "error",
        "hangs": "ok",  # k = 3
        "leaves": "error",
        "lies": "wrong",
    }
    assert "SIGABRT" in cells["crashes"]["reason"]
    for name, file in (("my_lloyd", mine), ("lies", faulty)):
        known = cells[name]["library"]
        assert known["plugin"] == file.name
        assert known["plugin sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
        assert re.match(r"(GCC|Clang) \d", known["plugin compiler"])
    assert cells["my_lloyd"]["seconds_per_iteration"]["median"] > 0


def test_verify_outlives_a_plugin_that_crashes(bench, project: Path) -> None:
    words = ("--plugin", project / "faulty.so", "--plugin", project / "my_lloyd.so")
    words = ("--only", "^(crashes|leaves|lies|my_lloyd)$", *words)
    run = bench("verify", "--at-most", "3000", *words)
    assert run.returncode == 4, run.stdout + run.stderr
    assert re.search(r"^crashes +.*SIGABRT.* on '.+'$", run.stdout, re.M), run.stdout
    assert re.search(r"^leaves +exit status 0 on '.+'$", run.stdout, re.M), run.stdout
    assert re.search(r"^my_lloyd +f32 +\d+ +0 +0$", run.stdout, re.M)
    assert "\n3 of 4 variants failed" in run.stdout


def test_verify_ends_a_plugin_that_hangs(bench, project: Path) -> None:
    words = ("--only", "^hangs$", "--timeout", "1", "--plugin", project / "faulty.so")
    run = bench("verify", "--at-most", "300", *words)
    assert run.returncode == 4, run.stdout + run.stderr
    row = r"^hangs +f32 took longer than 1 s \(--timeout\), after \d+ problems? of \d+ on '.+'$"
    assert re.search(row, run.stdout, re.M), run.stdout
    assert run.stdout.endswith("\n1 of 1 variant failed\n")


def test_a_library_that_is_not_a_plugin_is_listed_with_the_reason(bench, library, tmp_path) -> None:
    text = (
        "struct { int contract, layout; } p = {%s}; void *kmeans_bench_plugin(void) { return &p; }"
    )
    nothing = tmp_path / "nothing.so"
    nothing.write_text("no library")
    other_number = CONTRACT[0] + 1
    plugins = {
        "nothing": nothing,
        "plain": library("plain", "int answer = 42;"),
        "newer": library("newer", text % f"{other_number}, 0"),
        "layout": library("layout", text % f"{CONTRACT[0]}, 99"),
        "crash": library(
            "crash", "#include <stdlib.h>\n__attribute__((constructor)) void f(void) { abort(); }"
        ),
        "leaves": library(
            "leaves", "#include <stdlib.h>\n__attribute__((constructor)) void f(void) { exit(0); }"
        ),
    }
    listed = _listed(bench, *plugins.values())
    assert not any(listed[name]["available"] for name in plugins)
    reasons = {name: listed[name]["reason"] for name in plugins}
    assert "cannot be loaded: file too short" in reasons["nothing"]
    assert "exports no kmeans_bench_plugin()" in reasons["plain"]
    assert (
        f"compiled for contract {other_number}, this program has contract {CONTRACT[0]};"
        in reasons["newer"]
    )
    assert "another layout in memory (99, this program's " in reasons["layout"]
    assert "signal 6" in reasons["crash"]
    assert reasons["leaves"] == "a process that loads it ends at once"


def test_the_number_of_the_contract_rises_with_it() -> None:
    """Where this fails: raise kContract in harness/plugin.h, unless only words have changed."""
    text = ""
    for name in ("variant.h", "plugin.h"):
        lines = (ROOT / "harness" / name).read_text(encoding="utf-8")
        text += "".join(re.sub(r"//.*", "", lines).replace("\\\n", "\n").split())
    (number,) = re.findall(r"kContract=(\d+);", text)
    assert (int(number), hashlib.sha256(text.encode()).hexdigest()[:16]) == CONTRACT
