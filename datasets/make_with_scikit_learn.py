# SPDX-License-Identifier: Apache-2.0
"""Writes a whole data set that scikit-learn makes or holds, in float64.

The call of the zhihu2023 article is kept to the letter. Its last bits come from a matrix product,
and so from the kernel that BLAS picks for the processor; asking OpenBLAS for its plainest x86-64
kernel gives the same bytes on every such machine.
"""

import argparse
import os
import platform
import sys


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("set", choices=["zhihu2023", "digits", "photograph"])
    parser.add_argument("--out", required=True, help="the .npy file to write (zhihu2023: 800 MB)")
    parser.add_argument("--picture", type=int, default=1, help="1: china.jpg, 2: flower.jpg")
    arguments = parser.parse_args()

    # OpenBLAS reads these when NumPy loads it.
    if platform.machine() in ("x86_64", "AMD64"):
        os.environ["OPENBLAS_CORETYPE"] = "Prescott"
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    try:
        import numpy as np
        from sklearn import datasets

        if arguments.set == "digits":
            X = datasets.load_digits().data
        elif arguments.set == "photograph":  # reads the file by Pillow
            picture = {1: "china.jpg", 2: "flower.jpg"}[arguments.picture]
            X = datasets.load_sample_image(picture).reshape(-1, 3)
        else:
            X, _ = datasets.make_classification(
                n_samples=1000000,
                n_features=100,
                n_classes=4,
                n_clusters_per_class=4,
                random_state=1024,
                n_informative=8,
            )
    except ImportError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 3
    with open(arguments.out, "wb") as file:
        np.save(file, np.ascontiguousarray(X, dtype="<f8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
