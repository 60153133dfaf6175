# SPDX-License-Identifier: Apache-2.0
"""The scripts of examples/sklearn with one import swapped, as library/gallery.py runs them."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.support import ROOT, captured


def test_each_script_has_the_one_line_that_is_swapped() -> None:
    scripts = sorted((ROOT / "examples" / "sklearn").glob("*.py"))
    assert [script.stem for script in scripts] == ["colours", "digits", "patches"]
    first_page = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert "`pip install .`, then `from kmeans_exact import KMeans`" in first_page
    for script in scripts:
        text = script.read_text(encoding="utf-8")
        assert text.count("from sklearn.cluster import KMeans\n") == 1
        assert "kmeans_exact" not in text


def test_digits_with_one_import_swapped(package) -> None:
    pytest.importorskip("sklearn")
    words = [sys.executable, ROOT / "library" / "gallery.py", "--runs", "1", "--only", "digits"]
    folder = str(Path(package.__file__).parent.parent)
    done = captured(list(map(str, words)), env={**os.environ, "PYTHONPATH": folder})
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^digits: (.+?), (\w+)(?: \(s\))? +(\S+) +(\S+) +\S+$", done.stdout, re.M)
    assert len(rows) == 4 * 3
    for start, name, theirs, ours in rows:
        if name == "inertia":
            assert float(ours) == pytest.approx(float(theirs), rel=0.03), start
        if name == "inertia" and start in ("random", "PCA"):  # from the same rows
            assert float(ours) == pytest.approx(float(theirs), rel=1e-4), start
