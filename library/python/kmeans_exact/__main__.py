# SPDX-License-Identifier: Apache-2.0
"""`python -m kmeans_exact`: what is installed here, and what it uses."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import numpy as np

from . import __version__, _engine, instructions, problem_with_gpu


def main() -> None:
    """Print it, a line each."""
    problem = problem_with_gpu()
    try:
        import sklearn

        estimator = f"KMeans for scikit-learn {sklearn.__version__}"
    except ImportError as error:
        estimator = f"none: {error}; pip install 'kmeans-exact[estimator]'"
    given = os.environ.get("KMEANS_EXACT_GPU")
    gpu_part = Path(given) if given else Path(__file__).parent / "libkmeans_exact_gpu.so"
    part = str(gpu_part) if gpu_part.is_file() else "none"
    built_for, gpus = _engine.gpu_part()
    if built_for:
        part += f", for compute capability {built_for}"
    lines = {
        "kmeans_exact": f"{__version__}, in {Path(__file__).parent}",
        "Python": f"{platform.python_version()}, numpy {np.__version__}, in {sys.prefix}",
        "estimator": estimator,
        "instructions": instructions(),
        "part for GPUs": part,
        "GPU": f"none: {problem}" if problem else gpus,
    }
    for name, value in lines.items():
        print(f"{name + ':':15}{value}")


if __name__ == "__main__":
    main()
