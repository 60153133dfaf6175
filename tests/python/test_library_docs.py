# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/library.md and of docstrings, run; what the package says of itself."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support import ROOT, captured, find_program

PAGE = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


def test_examples_in_python_run(package) -> None:
    pytest.importorskip("sklearn")
    random = np.random.default_rng(1)
    x = random.normal(size=(500, 5)).astype("f4")
    names = {
        "x": x,
        "stack": x.reshape(5, 100, 5),
        "others": x[:7] + 1,
        "w": random.integers(1, 4, size=500),
    }
    blocks = _blocks("python")
    assert len(blocks) >= 4
    for block in blocks:  # in the order of the page: later ones use what earlier ones made
        exec(compile(block, "docs/library.md", "exec"), names)
    assert names["of_others"].shape == (7,)
    assert names["converged"] is True
    assert len(names["runs"]) == 5
    assert names["model"].labels_.shape == (500,)


AROUND = """
#include <cstdint>
#include <vector>
%s
int main() {
  const std::int64_t n = 500, d = 5, k = 40, m = 7;
  const std::uint64_t seed = 1;
  std::vector<float> x(n * d), c(k * d), cc(2 * k * d);
  for (std::int64_t i = 0; i < n * d; ++i) x[i] = static_cast<float>(i * i %% 1009);
  std::vector<std::int32_t> l(n), o(m);
  std::vector<double> of_others(m * k);
  const float* const points = x.data();
  const float* const others = x.data() + d;
  float* const centroids = c.data();
  float* const twice_centroids = cc.data();
  std::int32_t* const labels = l.data();
  std::int32_t* const labels_of_others = o.data();
  double* const m_by_k = of_others.data();
%s
  const bool made = result.converged && results[1].iterations > 0;
  return made && sum_of_squares > 0 && labels_of_others[0] == labels[1] ? 0 : 1;
}
"""


def test_examples_in_cpp_compile_and_run(tmp_path: Path) -> None:
    program = find_program()
    library = (program.parent if program else ROOT / "build") / "library" / "libkmeans_exact.a"
    if not library.is_file():
        pytest.skip("this build has no library (see the first lines of its configuration)")
    lines = "\n".join(_blocks("cpp")).splitlines()
    includes = [line for line in lines if line.startswith("#include")]
    body = [line for line in lines if not line.startswith("#include")]
    assert len(body) >= 10
    (tmp_path / "page.cpp").write_text(AROUND % ("\n".join(includes), "\n".join(body)))
    words = ["g++", "-std=c++20", "-Wall", "-Werror", "-I", ROOT / "library", "page.cpp"]
    words += [library, "-fopenmp", "-ldl", "-o", "page"]
    done = captured([*map(str, words)], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = captured([str(tmp_path / "page")])
    assert done.returncode == 0, done.stderr


def test_examples_in_docstrings_run(package) -> None:
    pytest.importorskip("sklearn")
    for name in ("kmeans_exact", "kmeans_exact._estimator"):
        found = doctest.testmod(importlib.import_module(name))
        assert (found.failed, found.attempted > 2) == (0, True)


def test_everything_public_is_typed_and_explained(package) -> None:
    pytest.importorskip("sklearn")
    folder = Path(package.__file__).parent
    assert (folder / "py.typed").is_file()
    assert (folder / "_engine.pyi").is_file()
    for name in package.__all__:
        thing = getattr(package, name)
        assert inspect.getdoc(thing), name
        members = vars(thing).items() if inspect.isclass(thing) else [(name, thing)]
        for of, member in members:
            if not inspect.isfunction(member) or of.startswith("_"):
                continue
            assert inspect.getdoc(member), (name, of)
            hints = {*member.__annotations__} - {"return"}
            assert hints == {*inspect.signature(member).parameters} - {"self"}, (name, of)
            assert "return" in member.__annotations__, (name, of)
    # The stub names what the compiled module has.
    stub = (folder / "_engine.pyi").read_text()
    engine = importlib.import_module("kmeans_exact._engine")
    named = set(re.findall(r"^def (\w+)\(", stub, flags=re.MULTILINE))
    assert named == {name for name in vars(engine) if not name.startswith("_")}


def test_python_m_says_what_is_installed(package) -> None:
    folder = Path(package.__file__).parent
    done = captured(
        [sys.executable, "-m", "kmeans_exact"],
        env={"PYTHONPATH": str(folder.parent), "KMEANS_EXACT_GPU": "nowhere.so"},
        check=True,
    )
    said = dict(line.split(":", 1) for line in done.stdout.splitlines())
    assert said["kmeans_exact"].strip() == f"{package.__version__}, in {folder}"
    assert said["instructions"].strip() == package.instructions()
    assert said["GPU"].strip().startswith("none: ")
    assert "nowhere.so" in said["GPU"]
    assert said["part for GPUs"].strip() == "none"
    assert said["estimator"].strip().startswith(("KMeans for scikit-learn ", "none: "))
