# SPDX-License-Identifier: Apache-2.0
"""Faults 31 to 34 of README.md: more than integers, memory or a GPU can hold."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
TRILLION = 10**12


def _sweep(description: dict[str, Any], *shapes: tuple[int, int, int]) -> dict[str, Any]:
    description["scales"]["quick"]["sweep"] = [dict(zip("ndk", s, strict=True)) for s in shapes]
    return description


def _need_and_have(reason: str) -> tuple[float, float]:
    found = re.search(r"needs (\S+) (\w+) of memory, has (\S+) (\w+)$", reason)
    assert found, reason
    return float(found[1]) * UNITS[found[2]], float(found[3]) * UNITS[found[4]]


def _memory_where_8_gb_are_too_much(planned: Any) -> float:
    """What a plan of a small cell and one of 8 GB says that there is."""
    assert planned.returncode == 0, planned.stderr
    assert "run   reference/f32/uniform-100x2-s1" in planned.stdout
    (line,) = (line for line in planned.stdout.splitlines() if line.startswith("  skip"))
    need, have = _need_and_have(line)
    assert need > 8e9
    return have


def test_products_beyond_64_bits_are_refused(bench, write, experiment, tmp_path: Path) -> None:
    description = _sweep(experiment(), (TRILLION, 10**6, 8))
    message = bench.refusal("run", write(description), "--dry-run")
    assert "/data/n: n * d coordinates need more than 2^62 bytes" in message
    points = tmp_path / "x.npy"
    words = ["uniform", "--n", str(TRILLION), "--d", "1000000", "--out", points]
    assert "more than 2^62 bytes" in bench.refusal("data", *words)
    assert not points.exists()


def test_what_does_not_fit_is_skipped_with_need_and_have_before_anything_is_made(
    bench, write, experiment, tmp_path: Path
) -> None:
    # n d beyond 2^31 and 2^32 coordinates, n k beyond 2^31, bytes beyond 2^50.
    shapes = [(TRILLION, 1000, 8), (TRILLION, 1, 2**31 - 1), (2**42 // 1000, 1000, 4)]
    description = _sweep(
        experiment(variants=["reference", "cpu_distance_matrix", "openmp_simd"]), *shapes
    )
    before = set(bench.cache.rglob("*"))
    result = bench.measure(write(description), tmp_path / "out")
    assert result["complete"] is True
    assert len(result["cells"]) == 9
    for cell in result["cells"]:
        assert cell["status"] == "skipped"
        if "of memory" not in cell["reason"]:  # a limit of the variant's own
            continue
        need, have = _need_and_have(cell["reason"])
        assert need > have > 0
        assert need >= 0.99 * 4 * cell["n"] * cell["d"]
        if cell["variant"] == "cpu_distance_matrix":
            assert need >= 0.99 * 4 * cell["n"] * cell["k"]
    assert not [file for file in set(bench.cache.rglob("*")) - before if file.suffix == ".npy"]


def test_a_limit_on_memory_counts(bench, write, experiment) -> None:
    if shutil.which("prlimit") is None:
        pytest.skip("no prlimit here (util-linux)")
    file = write(_sweep(experiment(), (100, 2, 3), (200_000_000, 10, 3)))  # 8 GB of points
    limited = ("prlimit", f"--as={4 << 30}")
    planned = bench("run", file, "--dry-run", before=limited)
    have = _memory_where_8_gb_are_too_much(planned)
    assert have < 4 * 2**30


def test_the_memory_of_a_control_group_counts(bench, write, experiment, control_group) -> None:
    file = write(_sweep(experiment(), (100, 2, 3), (200_000_000, 10, 3)))
    limit = str(1 << 30)
    inside = control_group("memory", {"memory.limit_in_bytes": limit}, {"memory.max": limit})
    planned = bench("run", file, "--dry-run", before=inside)
    have = _memory_where_8_gb_are_too_much(planned)
    assert 2**28 < have < 2**30


def test_every_command_ends_where_there_are_few_addresses(bench, tmp_path: Path) -> None:
    """Each thread of OpenBLAS asks for 128 MiB as it is loaded, again and again: it never ends."""
    if shutil.which("prlimit") is None:
        pytest.skip("no prlimit here (util-linux)")
    file = tmp_path / "points.npy"
    np.save(file, np.random.default_rng(1).normal(size=(500, 3)).astype(np.float32))
    limited = ("prlimit", f"--as={150_000 << 10}")
    for words in (
        ("--version",),
        ("data", "inspect", file),
        ("fit", file, "-k", "3", "--variant", "cpu_naive"),
    ):
        run = bench(*words, before=limited, timeout=900)
        assert run.returncode == 0, run.stderr
    listed = bench("list", "--json").stdout
    if not any(
        one["name"] == "blas_gemm" and one["available"] for one in json.loads(listed)["variants"]
    ):
        return
    words = ("fit", file, "-k", "3", "--variant", "blas_gemm", "--threads", "8")
    message = bench.refusal(*words, code=3, before=limited, timeout=900)
    assert re.search(
        r"OpenBLAS needs [\d.]+ MiB of addresses for 1 thread, has [\d.]+ MiB \(ulimit -v\)",
        message,
    ), message
    assert bench(*words).returncode == 0


def test_running_out_of_memory_ends_with_a_message(bench, tmp_path: Path) -> None:
    if shutil.which("prlimit") is None:
        pytest.skip("no prlimit here (util-linux)")
    file = tmp_path / "points.npy"
    with file.open("wb") as stream:  # 1 GB of zeros that takes no place on the disk
        header = np.lib.format.header_data_from_array_1_0(np.zeros((1, 8), dtype="<f4"))
        np.lib.format.write_array_header_1_0(stream, {**header, "shape": (1 << 25, 8)})
        stream.truncate(stream.tell() + (1 << 30))
    limited = ("prlimit", f"--as={3 << 29}")
    message = bench.refusal("fit", file, "-k", "2", "--precision", "f64", "--variant",
                            "cpu_naive", code=3, before=limited)  # fmt: skip
    assert re.search(
        r"not enough memory: the points need 2 GiB, but only [\d.]+ [MG]iB", message
    ), message
    # Read as it lies, it fits; a copy of it besides does not.
    message = bench.refusal("fit", file, "-k", "2", "--variant", "openmp_exact", code=3,
                            before=limited)  # fmt: skip
    said = re.search(
        r"out of memory: openmp_exact and the points need about ([\d.]+) GiB, "
        r"but only [\d.]+ [MG]iB were free",
        message,
    )
    assert said, message
    assert float(said[1]) > 1
    assert "--variant openmp_blocks" in message
    message = bench.refusal("data", "inspect", file, code=3,
                            before=("prlimit", f"--as={1 << 29}"))  # fmt: skip
    assert re.search(
        r"not enough memory: the file takes 1 GiB of addresses, but only [\d.]+ MiB \(ulimit -v\)",
        message,
    ), message


def test_more_than_2_31_pairs_of_points_and_clusters_are_counted_right(
    bench, write, experiment, tmp_path: Path
) -> None:
    # n k = 2.45e9. Labels at the end would be lost if an index were 32-bit.
    n, k = 70_000, 35_000
    points = np.zeros((n, 1), dtype="<f4")
    points[:k, 0] = np.arange(k)
    points[k:, 0] = np.arange(k)[::-1]
    np.save(tmp_path / "points.npy", points)
    out = tmp_path / "out"
    words = ["-k", str(k), "--init", "first", "--iterations", "1", "--out", out]
    for variant, precision in (
        ("openmp_exact", "f32"),
        ("openmp_simd", "f64"),
        ("blas_gemm", "f64"),
    ):
        run = bench(
            "fit", tmp_path / "points.npy", *words, "--variant", variant, "--precision", precision
        )
        assert run.returncode == 0, run.stderr
        assert (np.load(out / "labels.npy") == points[:, 0].astype(int)).all(), variant
        assert (np.load(out / "centroids.npy") == points[:k]).all(), variant
    description = experiment(
        data={"file": str(tmp_path / "points.npy")},
        init="first",
        variants=["openmp_simd", "cpu_distance_matrix"],
    )
    description["scales"]["quick"]["sweep"] = {"k": [k]}
    if shutil.which("prlimit"):  # its matrix would take 10 GB
        planned = bench(
            "run", write(description), "--dry-run", before=("prlimit", "--as=8000000000")
        )
        need, _ = _need_and_have(
            next(row for row in planned.stdout.splitlines() if "cpu_distance_matrix" in row)
        )
        assert need >= 4.0 * n * k
