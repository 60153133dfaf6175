# SPDX-License-Identifier: Apache-2.0
"""What the estimators of this suite's own library share."""

from __future__ import annotations

import importlib
from typing import Any

TRAITS: dict[str, Any] = {
    "source": "kmeans_exact",
    "exact": True,
    "labels_of": "returned",
    "stops": "labels",
    "takes_init": True,
    "requires": ["numpy", "scikit-learn"],
}


def library(device: str) -> Any:
    """The installed package, or that of the build folder, which the suite puts on the path. Raises
    with the reason where it can use no GPU and one is meant."""
    try:
        package = importlib.import_module("kmeans_exact")
    except ImportError as error:
        raise ImportError(
            f"kmeans_exact cannot be imported ({error}): build it by `make build`, with nanobind "
            "in the project's Python environment, or install it by `pip install .`"
        ) from error
    if device == "gpu" and (problem := package.problem_with_gpu()):
        raise RuntimeError(f"kmeans_exact: {problem}")
    return package


def info(package: Any) -> dict[str, str]:
    return {"kmeans_exact": package.__version__, "instructions": package.instructions()}
