# SPDX-License-Identifier: Apache-2.0
"""What the estimators of this suite's own library share."""

from __future__ import annotations

import importlib.util
from typing import Any

import estimator

TRAITS: dict[str, Any] = {
    "source": "kmeans_exact",
    "exact": True,
    "labels_of": "returned",
    "stops": "labels",
    "takes_init": True,
    "requires": ["numpy", "scikit-learn"],
}


class Estimator(estimator.Estimator):
    """Of the installed package, or that of the build folder, which the suite puts on the path."""

    device = "cpu"

    @staticmethod
    def lacking() -> str:
        # A build folder without the package has the place for it, which Python takes for a package.
        found = importlib.util.find_spec("kmeans_exact")
        if found is not None and found.origin is not None:
            return ""
        return (
            "kmeans_exact is not there: build it by `make build`, with nanobind in the project's "
            "Python environment and Python's headers, or install it by `pip install .`"
        )

    def library(self) -> Any:
        """Raises with the reason where a GPU is meant and it can use none."""
        package = importlib.import_module("kmeans_exact")
        if self.device == "gpu" and (problem := package.problem_with_gpu()):
            raise RuntimeError(f"kmeans_exact: {problem}")
        return package

    def library_info(self) -> dict[str, str]:
        package = self.library()
        return {"kmeans_exact": package.__version__, "instructions": package.instructions()}
