# SPDX-License-Identifier: Apache-2.0
"""Writes the zhihu2023 data set, 1000000 x 100 float64, as scikit-learn makes it.

The article's call is kept to the letter. Its last bits come from a matrix product, and so from the
kernel that BLAS picks for the processor; asking OpenBLAS for its plainest x86-64 kernel gives the
same bytes on every such machine.
"""

import argparse
import os
import platform
import sys


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="the .npy file to write (800 MB)")
    arguments = parser.parse_args()

    # OpenBLAS reads these when NumPy loads it.
    if platform.machine() in ("x86_64", "AMD64"):
        os.environ["OPENBLAS_CORETYPE"] = "Prescott"
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    try:
        import numpy as np
        from sklearn.datasets import make_classification
    except ImportError as error:
        print(f"{error}", file=sys.stderr)
        return 3

    X, _ = make_classification(
        n_samples=1000000,
        n_features=100,
        n_classes=4,
        n_clusters_per_class=4,
        random_state=1024,
        n_informative=8,
    )
    with open(arguments.out, "wb") as file:
        np.save(file, np.ascontiguousarray(X, dtype="<f8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
