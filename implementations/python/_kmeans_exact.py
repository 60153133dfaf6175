# SPDX-License-Identifier: Apache-2.0
"""What the estimators of this suite's own library share."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import estimator

if TYPE_CHECKING:
    import numpy as np

TRAITS: dict[str, Any] = {
    "source": "kmeans_exact",
    "exact": True,
    "labels_of": "returned",
    "stops": "labels",
    "takes_init": True,
    "requires": ["numpy", "scikit-learn"],
}


def library() -> Any:
    """The installed package, or that of the build folder, which the suite puts on the path."""
    try:
        return importlib.import_module("kmeans_exact")
    except ImportError as error:
        raise ImportError(
            f"kmeans_exact cannot be imported ({error}): build it by `make build`, with nanobind "
            "in the project's Python environment, or install it by `pip install .`"
        ) from error


def from_given(
    package: Any, points: np.ndarray, centroids: np.ndarray, iterations: int, **how: Any
) -> estimator.Fitted:
    """Exactly so many iterations from given centroids."""
    run = package.lloyd(
        points, centroids, iterations=iterations, stop=None, labels_of="returned", **how
    )
    return estimator.Fitted(run.centroids, run.labels, run.iterations)


def require_gpu(package: Any) -> None:
    """Raises with the reason where the library can use no GPU."""
    problem = package.problem_with_gpu()
    if problem:
        raise RuntimeError(f"kmeans_exact: {problem}")


def info(package: Any) -> dict[str, str]:
    return {"kmeans_exact": package.__version__, "instructions": package.instructions()}
