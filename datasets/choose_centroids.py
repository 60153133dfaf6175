# SPDX-License-Identifier: Apache-2.0
"""Chooses first centroids by a library's own function, for each seed, and times the choice.

Points lie in memory before the clock starts, and the function has been called on a small array. The
centroids of all seeds stand below each other in one npy, float32, that of seed 1 first; a JSON
object has the rest: {"library": name and version, "seconds": [a list of repeats a seed], "note"}.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

SMALL = (1000, 8)  # points and centroids of the first call, which counts for nothing


def _as_they_are(points: Any, seed: int) -> Any:
    return points


@dataclass
class Way:
    """`place` brings the points to where the library wants them, before the clock starts; `choose`
    takes these, k and the seed."""

    choose: Callable[[Any, int, int], Any]
    note: str
    place: Callable[[Any, int], Any] = _as_they_are


def _scikit_learn(threads: int) -> Way:
    import threadpoolctl
    from sklearn.cluster import kmeans_plusplus

    threadpoolctl.threadpool_limits(limits=threads)
    return Way(
        lambda points, k, seed: kmeans_plusplus(points, k, random_state=seed)[0],
        "is greedy k-means++: of 2 + ln k candidates a seed it keeps the best",
    )


def _faiss(method: str, threads: int) -> Way:
    import faiss
    import numpy as np

    faiss.omp_set_num_threads(threads)
    wanted = getattr(faiss, f"ClusteringInitMethod_{method}")

    def choose(points: Any, k: int, seed: int) -> Any:
        n, d = points.shape
        way = faiss.ClusteringInitialization(d, k)
        way.method, way.seed = wanted, seed
        chosen = np.empty((k, d), dtype=np.float32)
        way.init_centroids(n, faiss.swig_ptr(points), faiss.swig_ptr(chosen))
        return chosen

    if method != "AFK_MC2":
        return Way(choose, "draws one point a seed")
    chain = faiss.ClusteringInitialization(1, 1).afkmc2_chain_length
    return Way(choose, f"approximates k-means++ by chains of faiss's length, {chain}")


def _cuvs(threads: int) -> Way:
    import numpy as np
    import rmm.mr
    import torch
    from cuvs.cluster import kmeans
    from cuvs.common import Resources

    if not torch.cuda.is_available():
        raise ImportError("cuVS needs a GPU, and PyTorch finds none")
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
    resources = Resources()

    def place(points: Any, seed: int) -> Any:
        order = np.random.default_rng(seed).permutation(len(points))
        placed = torch.from_numpy(points[order]).cuda()
        torch.cuda.synchronize()
        return placed

    def choose(points: Any, k: int, seed: int) -> Any:
        parameters = kmeans.KMeansParams(
            n_clusters=k, init_method="KMeansPlusPlus", n_init=1, max_iter=1
        )
        chosen, _, _ = kmeans.fit(parameters, points, resources=resources)
        resources.sync()
        return chosen

    return Way(
        choose,
        "takes no seed in Python and hands out no start: the rows are put in another order for "
        "each seed, and time and centroids are those of k-means|| and one iteration of Lloyd's "
        "algorithm; the points lie on the GPU",
        place,
    )


# Package of the library, and what prepares the way on so many threads.
WAYS: dict[str, tuple[str, Callable[[int], Way]]] = {
    "scikit-learn-greedy": ("scikit-learn", _scikit_learn),
    "faiss-kmeans++": ("faiss-cpu", partial(_faiss, "KMEANS_PLUS_PLUS")),
    "faiss-afk-mc2": ("faiss-cpu", partial(_faiss, "AFK_MC2")),
    "cuvs-kmeans||": ("cuvs-cu13", _cuvs),
}


def _version(package: str) -> str:
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return package


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("points", help="npy, float32")
    parser.add_argument("--way", required=True, choices=WAYS)
    parser.add_argument("--k", type=int, required=True)
    parser.add_argument("--seeds", type=int, required=True, help="1, 2, ... up to this one")
    parser.add_argument("--repeats", type=int, default=1, help="choices a seed")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", required=True, help="the .npy file to write")
    parser.add_argument("--report", required=True, help="the .json file to write")
    arguments = parser.parse_args()

    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # read when the libraries are loaded
        os.environ[name] = str(arguments.threads)
    package, prepare = WAYS[arguments.way]
    try:
        import numpy as np

        way = prepare(arguments.threads)
    except (ImportError, AttributeError) as error:
        print(f"{error}", file=sys.stderr)
        return 3

    points = np.ascontiguousarray(np.load(arguments.points), dtype=np.float32)
    n, k = SMALL
    small = np.random.default_rng(0).random((n, points.shape[1]), dtype=np.float32)
    way.choose(way.place(small, 0), k, 0)
    chosen, seconds = [], []
    for seed in range(1, arguments.seeds + 1):
        placed = way.place(points, seed)
        taken = []
        for _ in range(arguments.repeats):
            start = time.perf_counter()
            found = way.choose(placed, arguments.k, seed)
            taken.append(time.perf_counter() - start)
        if hasattr(found, "copy_to_host"):  # of cuVS: an array on the GPU
            found = found.copy_to_host()
        chosen.append(np.asarray(found, dtype=np.float32))
        seconds.append(taken)
    with open(arguments.out, "wb") as file:
        np.save(file, np.concatenate(chosen))
    with open(arguments.report, "w", encoding="utf-8") as file:
        json.dump({"library": _version(package), "seconds": seconds, "note": way.note}, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
