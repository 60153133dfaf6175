# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest: kmeans_exact.KMeans in the place of scikit-learn's, for its own tests.

They are run with `pytest -p in_place_of_sklearn --pyargs sklearn.cluster.tests.test_k_means`; how
each ended is written to the file that OUTCOMES names, a line of JSON each.
"""

from __future__ import annotations

import json
import os

import kmeans_exact
import sklearn.cluster

_made = False


def _note(cls, *_given, **_named):
    global _made
    _made = True
    return object.__new__(cls)


kmeans_exact.KMeans.__new__ = _note
sklearn.cluster.KMeans = kmeans_exact.KMeans


def pytest_runtest_logreport(report) -> None:
    """How a test's call, or what goes before it, has ended, and whether it made a KMeans."""
    global _made
    if report.when == "setup":
        _made = False
    if report.when != "call" and report.outcome == "passed":
        return
    crash = getattr(report.longrepr, "reprcrash", None)
    line = {
        "test": report.nodeid.rpartition("::")[2],
        "outcome": report.outcome,
        "made": _made,
        "message": crash.message if crash else "",
    }
    with open(os.environ["OUTCOMES"], "a", encoding="utf-8") as outcomes:
        outcomes.write(json.dumps(line) + "\n")
