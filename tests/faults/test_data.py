# SPDX-License-Identifier: Apache-2.0
"""Faults 13 to 30 of README.md: points that are wrong, damaged or awkward."""

from __future__ import annotations

import json
import os
import platform
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plots.load import load_result
from tests.support import ROOT, captured, small_experiment

SIX = np.arange(12, dtype="<f4").reshape(6, 2)


def _npy(header: str, body: bytes = b"") -> bytes:
    text = header.encode("latin1")
    text += b" " * (63 - (len(text) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def _npy_of(points: np.ndarray) -> bytes:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {points.shape}, }}"
    return _npy(header, points.astype("<f4").tobytes())


def _fvecs(points: np.ndarray) -> bytes:
    return b"".join(struct.pack("<i", len(row)) + row.astype("<f4").tobytes() for row in points)


def _fbin(points: np.ndarray) -> bytes:
    return struct.pack("<II", *points.shape) + points.astype("<f4").tobytes()


def _idx(points: np.ndarray) -> bytes:
    return struct.pack(">HBBII", 0, 0x0D, 2, *points.shape) + points.astype(">f4").tobytes()


def _csv(points: np.ndarray) -> bytes:
    return "".join(",".join(map(str, row)) + "\n" for row in points.tolist()).encode()


WRITERS: dict[str, Callable[[np.ndarray], bytes]] = {
    "points.npy": _npy_of,
    "points.fvecs": _fvecs,
    "points.fbin": _fbin,
    "points.idx": _idx,
    "points.csv": _csv,
}


@pytest.fixture
def put(tmp_path: Path) -> Callable[[str, bytes | str], Path]:
    def put_file(name: str, content: bytes | str) -> Path:
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    return put_file


def _inspected(bench, file: Path, *options: str) -> dict[str, str]:
    run = bench("data", "inspect", file, *options)
    assert run.returncode == 0, run.stderr
    return dict(line.split(None, 1) for line in run.stdout.splitlines())


def _refused(bench, file: Path, **options: Any) -> str:
    """Why `data inspect` and `fit` refuse a file; both must, alike."""
    reason = bench.refusal("data", "inspect", file, **options)
    assert reason.startswith(f"kmeans-bench: {file}: ")
    assert bench.refusal("fit", file, "-k", "1", **options) == reason
    return reason


def _from_file(experiment, file: Path, **changes: Any) -> dict[str, Any]:
    described = experiment(data={"file": str(file)}, init="first", **changes)
    described["scales"]["quick"]["sweep"] = {"k": [2]}
    return described


# ---- 13: values that are not numbers ----


def test_nan_is_found_before_anything_is_measured(
    bench, put, write, experiment, tmp_path: Path
) -> None:
    points = SIX.copy()
    points[3, 1] = np.nan
    file = put("points.npy", _npy_of(points))
    out = tmp_path / "out"
    reason = bench.refusal("run", write(_from_file(experiment, file)), "--out", out)
    assert f"{file}: point 3, coordinate 1" in reason
    assert not list(tmp_path.glob("out/*.json"))


def test_points_with_nan_are_left_out_on_request_and_counted(
    bench, put, write, experiment, tmp_path: Path
) -> None:
    points = np.vstack([SIX, SIX + 100])
    whole = points.copy()
    points[3, 1] = np.nan
    points[5] = [np.inf, np.nan]
    kept = put("kept.npy", _npy_of(np.delete(whole, [3, 5], axis=0)))
    for name, writer in WRITERS.items():
        shown = _inspected(bench, put(name, writer(points)), "--drop-nonfinite")
        assert (shown["dropped"], shown["n"]) == ("2", "10")
        if not name.endswith(".csv"):  # float64, so other bytes
            assert shown["sha256"] == _inspected(bench, kept)["sha256"]
    described = _from_file(experiment, put("points.npy", _npy_of(points)))
    described["data"]["drop_nonfinite"] = True
    described["variants"] = ["reference", {"variant": "cpu_naive", "precision": "f64"}]
    result = bench.measure(write(described), tmp_path / "out")
    assert [cell["status"] for cell in result["cells"]] == ["ok", "ok"]
    for dataset in result["context"]["datasets"].values():  # f32 and f64: the same points
        assert dataset["spec"]["drop_nonfinite"] is True
        assert (dataset["n"], dataset["points_dropped"]) == (10, 2)
    none_left = put("none.npy", _npy_of(np.full((3, 2), np.nan)))
    reason = bench.refusal("data", "inspect", none_left, "--drop-nonfinite")
    assert "NaN or infinite; none is left" in reason


# ---- 14 to 21: damaged files; tests/datasets/readers_test.cpp has every message ----

FAULTY = {
    **{
        name: (writer(SIX)[:-5], "cut short")
        for name, writer in WRITERS.items()
        if "csv" not in name
    },
    "type.npy": (_npy("{'descr': '|O', 'fortran_order': False, 'shape': (1, 1), }"), "is not read"),
    "points.csv": (b"1,2\n3\n4,5\n", "line 2: has 1 columns, line 1 has 2"),
    "points.svm": (b"1 1:1\n1 0:1\n", "line 2: '0:1': index 0; indices count from 1"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_damaged_file_is_refused_alike_by_every_command(bench, put, name: str) -> None:
    content, why = FAULTY[name]
    assert why in _refused(bench, put(name, content))


HUGE = {
    "a.npy": _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 1000000), }"),
    "b.npy": _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4), }"),
    "c.npy": _npy("{'descr': '<f4', 'fortran_order': True, 'shape': (3000000000, 3), }"),
    "a.fvecs": struct.pack("<i", 0x7FFFFFFF),
    "a.fbin": struct.pack("<II", 0xFFFFFFFF, 0xFFFFFFFF),
    "a.u8bin": struct.pack("<QQ", 1 << 40, 1 << 20),
    "a.idx": struct.pack(">HBBIII", 0, 0x0E, 3, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
    "a.svm": b"1 4000000000:1\n",
    "a.csv": b"1" + b"," * 100_000 + b"\n" + b"\n" * 100_000 + b"1\n",
}


@pytest.mark.parametrize("name", HUGE)
def test_a_huge_shape_in_a_tiny_file_takes_no_memory(bench, put, name: str) -> None:
    if shutil.which("prlimit") is None:
        pytest.skip("no prlimit here (util-linux)")
    limited = ("prlimit", f"--as={1 << 30}")  # far less than the least that any of them claims
    reason = _refused(bench, put(name, HUGE[name]), before=limited)
    assert "out of memory" not in reason
    assert "not enough memory" not in reason


# ---- 20 and 21: text files ----


# ---- 22 and 23: files ----


def test_only_regular_files_are_read(bench, put, write, experiment, tmp_path: Path) -> None:
    good = put("good.npy", _npy_of(SIX))
    os.mkfifo(tmp_path / "pipe.npy")  # opening one without care would wait for ever
    (tmp_path / "folder.npy").mkdir()
    (tmp_path / "device.npy").symlink_to("/dev/zero")
    (tmp_path / "dangling.npy").symlink_to(tmp_path / "nowhere")
    (tmp_path / "circle.npy").symlink_to(tmp_path / "circle.npy")
    for name, why in {
        "pipe": "is a pipe; only regular files are read",
        "folder": "is a directory; only regular files are read",
        "device": "is a device; only regular files are read",
        "dangling": "cannot be opened: No such file or directory",
        "circle": "cannot be opened: Too many levels of symbolic links",
        "missing": "cannot be opened: No such file or directory",
    }.items():
        file = tmp_path / f"{name}.npy"
        assert why in _refused(bench, file)
        assert why in bench.refusal("fit", good, "-k", "2", "--init", file)
        described = write(_from_file(experiment, file))
        assert why in bench.refusal("run", described, "--dry-run")
    (tmp_path / "link.npy").symlink_to(good)  # a link to a regular file is one
    assert _inspected(bench, tmp_path / "link.npy")["n"] == "6"
    for name in ("pipe.npy", "folder.npy", "device.npy"):  # and as an experiment
        file = (tmp_path / name).rename(tmp_path / f"{name}.json")
        assert f"{file}: not a regular file" in bench.refusal("run", file)


def test_a_damaged_cache_is_made_again(bench, write, experiment, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    own = bench.other_cache(cache)
    described = write(experiment())

    def outcome(number: int) -> tuple[str, str]:
        result = bench.measure(described, tmp_path / f"out{number}", environment=own)
        (dataset,) = result["context"]["datasets"].values()
        return dataset["sha256"], result["cells"][0]["label_hash"]

    first = outcome(0)
    (data,) = cache.glob("uniform-*.npy")
    (record,) = cache.glob("uniform-*.json")
    (centroids,) = cache.glob("centroids/*.npy")
    (trajectory,) = cache.glob("trajectories/*.json")
    whole = {file: file.read_bytes() for file in (data, record, centroids, trajectory)}

    data.write_bytes(whole[data][:-9])  # half a file, as a killed process or a full disk leaves it
    centroids.write_bytes(whole[centroids][:-9])
    trajectory.write_text('{"identity": ', encoding="utf-8")
    assert outcome(1) == first
    flipped = bytearray(whole[data])
    flipped[-2] ^= 1
    before = data.stat()
    data.write_bytes(flipped)  # the same size and, worst of all, the same time
    os.utime(data, ns=(before.st_atime_ns, before.st_mtime_ns))
    record.with_suffix(".tmp-12345").write_bytes(b"half")
    assert outcome(2) == first
    record.write_bytes(whole[record][:40])
    # A bit of a coordinate and a digit of an inertia: both files are as well formed as before.
    flipped = bytearray(whole[centroids])
    flipped[-2] ^= 1
    centroids.write_bytes(flipped)
    inertia = json.loads(whole[trajectory])["inertia"]
    other = whole[trajectory].replace(repr(inertia).encode(), repr(2 * inertia).encode())
    assert other != whole[trajectory]
    trajectory.write_bytes(other)
    assert outcome(3) == first
    made_again = (data, centroids, trajectory)
    assert {file: file.read_bytes() for file in made_again} == {f: whole[f] for f in made_again}


def test_links_to_themselves_and_folders_in_the_cache_make_way(
    bench, write, experiment, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    own = bench.other_cache(cache)
    described = write(experiment())

    def measured(number: int) -> tuple[str, str]:
        out = tmp_path / f"out{number}"
        run = bench("run", described, "--out", out, environment=own, timeout=900)
        assert run.returncode == 0, run.stderr
        cell = json.loads((out / "demo.json").read_text(encoding="utf-8"))["cells"][0]
        return cell["label_hash"], run.stderr

    answer, _ = measured(0)
    (centroids,) = cache.glob("centroids/*.npy")
    entries = [
        *cache.glob("uniform-*.npy"),
        *cache.glob("uniform-*.json"),
        centroids,
        centroids.with_suffix(".sha256"),
        *cache.glob("trajectories/*.json"),
    ]  # and the machine's ceilings: KeptCeilings.WhatIsNotAFileInTheirPlaceIsNotAHindrance
    assert len(entries) >= 5
    for number, make in enumerate((lambda f: f.symlink_to(f), Path.mkdir, os.mkfifo), 1):
        for entry in entries:
            entry.unlink(missing_ok=True)
            make(entry)
        again, said = measured(number)
        assert again == answer
        assert f"{centroids.name} in the cache is made again" in said
        assert all(entry.is_file() for entry in entries)


# ---- 24 to 30: awkward points ----


@pytest.fixture(scope="module")
def awkward(bench, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Cells of every variant that there is, on identical points and on few distinct ones."""
    folder = tmp_path_factory.mktemp("awkward")
    files = []
    for name, data in {
        "identical": {"generator": "identical"},
        "few": {"generator": "duplicates", "distinct": 3},
    }.items():
        files.append(folder / f"{name}.json")
        sampling = {"processes": 1, "repetitions": 1, "min_seconds": 0}
        sweep = {"n": [60], "d": [3], "k": [5]}
        description = {
            "name": name,
            "title": name,
            "data": data,
            "init": "kmeans++:1",
            "variants": ["*"],
            "scales": {"quick": {"sweep": sweep, "iterations": 4, **sampling}},
        }
        files[-1].write_text(json.dumps(description), encoding="utf-8")
    run = bench("run", *files, "--out", folder / "out", timeout=900)
    assert run.returncode == 0, run.stdout + run.stderr
    return {
        file.stem: json.loads((folder / "out" / file.name).read_text(encoding="utf-8"))["cells"]
        for file in files
    }


@pytest.mark.parametrize(("name", "distinct"), [("identical", 1), ("few", 3)])
def test_fewer_distinct_points_than_clusters_leave_empty_ones_with_every_variant(
    awkward, name: str, distinct: int
) -> None:
    cells = [cell for cell in awkward[name] if cell["status"] != "skipped"]
    assert {"reference", "cpu_naive", "cpu_simd", "openmp_exact"} <= {c["variant"] for c in cells}
    for cell in cells:
        assert cell["status"] == "ok", f"{cell['key']}: {cell['reason']}"
        # A library that moves empty clusters may split another with a small push to both halves.
        checks = " ".join(check["detail"] for check in cell["verification"]["checks"])
        moves = "the library moves empty clusters" in checks
        assert cell["inertia"] == pytest.approx(0, abs=1e-2 if moves else 1e-9), cell["key"]
        # k less the empty ones is the number of clusters that there really are: points of one
        # place are never parted.
        assert cell["empty_clusters"] == 5 - distinct, cell["key"]


def test_fit_reports_the_number_of_empty_clusters(bench, put) -> None:
    file = put("same.npy", _npy_of(np.full((40, 2), 0.1)))
    for variant in ("openmp_exact", "cpu_naive", "blas_gemm", "cpu_simd"):
        run = bench("fit", file, "-k", "4", "--variant", variant)
        assert run.returncode == 0, run.stderr
        assert "3 empty clusters" in run.stdout
        (first, *_) = bench("fit", file, "-k", "4", "--json", "--init", "first").stdout.splitlines()
        assert json.loads(first)["empty_clusters"] == 3


def test_ties_go_to_the_lowest_index(bench, put) -> None:
    # Points halfway between centroids, in both precisions; the middle ones must join cluster 0.
    file = put("ties.csv", "0,0\n2,0\n0,2\n1,0\n0,1\n1,0\n")
    out = file.parent / "out"
    for variant, precision in (
        ("reference", "f32"),
        ("openmp_exact", "f32"),
        ("openmp_simd", "f64"),
        ("cpu_naive", "f64"),
        ("cpu_naive", "f32"),
        ("cpu_simd", "f32"),
        ("cpu_fused", "f64"),
    ):
        words = ["--variant", variant, "--precision", precision, "--iterations", "1"]
        run = bench("fit", file, "-k", "3", "--init", "first", *words, "--out", out)
        assert run.returncode == 0, run.stderr
        assert np.load(out / "labels.npy").tolist() == [0, 1, 2, 0, 0, 0], variant


@pytest.fixture
def flushing(tmp_path: Path) -> dict[str, str]:
    """Variables that load a library into every process, which then treats denormals as zero."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or platform.machine() != "x86_64":
        pytest.skip("needs a C compiler and an x86-64 processor")
    source = tmp_path / "flush.c"
    source.write_text(  # what a library built with -ffast-math does when it is loaded
        "#include <xmmintrin.h>\n"
        "__attribute__((constructor)) static void flush(void) {"
        " _mm_setcsr(_mm_getcsr() | 0x8040); }\n",
        encoding="utf-8",
    )
    library = tmp_path / "flush.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return {"LD_PRELOAD": str(library)}


def test_flushed_denormals_are_recorded_and_undone(
    bench, write, experiment, flushing, tmp_path: Path
) -> None:
    def machine(environment: dict[str, str]) -> dict[str, Any]:
        run = bench("machine", "--json", "--no-ceilings", environment=environment)
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout)

    flushed = {"flush_to_zero": True, "denormals_are_zero": True}
    assert machine({})["machine"]["floating_point"] == dict.fromkeys(flushed, False)
    found = machine(flushing)
    assert found["machine"]["floating_point"] == flushed
    assert any("Denormal numbers" in text for text in found["environment"]["warnings"])

    tiny = tmp_path / "tiny.npy"
    np.save(tiny, np.array([[1, 0], [2, 0], [50, 1], [52, 1]], dtype="<f4") * np.float32(1e-42))
    outcomes = {
        bench("fit", tiny, "-k", "2", "--init", "rows:0,2", "--json", environment=environment)
        .stdout.splitlines()[-1]
        .split('"seconds_per_iteration"')[0]
        for environment in ({}, flushing)
    }
    assert len(outcomes) == 1  # flushed, all points would be zero and share a cluster
    assert '"empty_clusters":0' in outcomes.pop()

    # Centroids are chosen by the program that starts the others; and Python has its own processes.
    np.save(tiny, np.random.default_rng(1).uniform(size=(200, 2)).astype("<f4") * np.float32(1e-42))
    described = experiment(
        data={"file": str(tiny)},
        init="kmeans++:1",
        variants=["reference", {"variant": "python_numpy", "precision": "f64"}],
    )
    described["scales"]["quick"]["sweep"] = {"k": [3]}
    answers = []
    for name, environment in (("plain", {}), ("preloaded", flushing)):
        out = tmp_path / name
        cache = bench.other_cache(tmp_path / f"cache-{name}")
        run = bench("run", write(described), "--out", out, environment={**environment, **cache})
        assert run.returncode == 0, run.stdout + run.stderr
        cells = json.loads((out / "demo.json").read_text(encoding="utf-8"))["cells"]
        assert all(cell["inertia"] > 0 for cell in cells if cell["status"] == "ok")
        answers.append([(c["variant"], c["status"], c["label_hash"], c["inertia"]) for c in cells])
    assert answers[0] == answers[1]
    assert answers[0][0][1] == "ok"


def test_python_variants_compute_with_denormals_of_float32(
    bench, write, experiment, flushing, tmp_path: Path
) -> None:
    # The flag is on in every Python process that nobody has freed of it.
    program = "import numpy as np; x = np.full(8, 1e-42, '<f4'); print(np.count_nonzero(x + x))"
    for environment, kept in (({}, "8"), (flushing, "0")):
        command = [sys.executable, "-c", program]
        run = captured(command, env={**os.environ, **environment})
        assert (run.returncode, run.stdout.strip()) == (0, kept), run.stderr

    # The first coordinate is a denormal, and so is its mean. The second is not, but the squares of
    # its differences are, and nothing else separates the clusters. All sums are exact: those of
    # the exact step, too, whose quantum is 2^-130 for twelve points up to 2^-72.
    members = np.arange(12) % 3
    points = np.empty((12, 2), dtype="<f4")
    points[:, 0] = np.random.default_rng(1).integers(1, 16, 12) * 2.0**-130
    points[:, 1] = members * 2.0**-73
    tiny, normal = float(np.finfo(np.float32).tiny), points[:, 1].astype(np.float64)
    assert 0 < points[:, 0].min() <= points[:, 0].max() < tiny
    assert 0 < np.square(normal[1]) < np.square(normal[2]) < tiny
    np.save(tmp_path / "points.npy", points)
    described = experiment(
        data={"file": str(tmp_path / "points.npy")},
        init="rows:0,1,2",
        variants=["reference", {"variant": "python_numpy", "precision": "f32"}],
    )
    described["scales"]["quick"]["sweep"] = {"k": [3]}
    python = {"KMEANS_BENCH_PYTHON": sys.executable}  # it has NumPy: so has this test
    answers = []
    for name, environment in (("plain", {}), ("preloaded", flushing)):
        result = bench.measure(
            write(described), tmp_path / name, environment={**environment, **python}
        )
        cells = {cell["variant"]: cell for cell in result["cells"]}
        assert cells["python_numpy"]["status"] == "ok", (name, cells["python_numpy"]["reason"])
        assert cells["reference"]["status"] == "ok"
        assert cells["python_numpy"]["label_hash"] == cells["reference"]["label_hash"], name
        assert cells["python_numpy"]["empty_clusters"] == 0
        assert cells["python_numpy"]["inertia"] > 0
        hashes = ("label_hash", "centroid_hash")
        answers.append([[cells[v][key] for key in hashes] for v in ("reference", "python_numpy")])
    assert answers[0] == answers[1]

    # The answer itself: the clusters that were made, and their means in denormals.
    out = tmp_path / "fit"
    words = ["--init", "rows:0,1,2", "--variant", "python_numpy", "--precision", "f32"]
    run = bench("fit", tmp_path / "points.npy", "-k", "3", *words, "--out", out,
                environment={**flushing, **python})  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert np.load(out / "labels.npy").tolist() == members.tolist()
    steps = np.array([points[members == j, 0].astype(np.float64).mean() for j in range(3)])
    means = np.load(out / "centroids.npy").astype(np.float64)
    assert means[:, 0].tolist() == (np.rint(steps * 2.0**149) * 2.0**-149).tolist()
    assert means[:, 1].tolist() == [0, 2.0**-73, 2.0**-72]


def test_cancellation_is_verified_against_float64(bench, write, experiment, tmp_path: Path) -> None:
    described = experiment(
        data={"generator": "offset", "offset": 1e6, "sigma": 1},
        variants=[
            "reference",
            {"variant": "cpu_naive", "precision": "f32"},
            {"variant": "eigen_gemm", "precision": "f32"},
            {"variant": "blas_gemm", "precision": "f32"},
            {"variant": "blas_gemm", "precision": "f64"},
        ],
    )
    described["scales"]["quick"]["sweep"] = {"n": [500], "d": [6], "k": [4]}
    run = bench("run", write(described), "--out", tmp_path / "out")
    assert run.returncode == 4, run.stderr
    cells = json.loads((tmp_path / "out" / "demo.json").read_text(encoding="utf-8"))["cells"]
    judged = {
        (cell["variant"], cell["precision"]): cell for cell in cells if cell["status"] != "skipped"
    }
    assert judged["reference", "f32"]["status"] == "ok"
    # Distances about 6 stand amid squares of 6e12, which float32 resolves to 5e5, and sums of
    # 1e8, which it resolves to 8: labels and means within such bounds may be anything, and what
    # comes of them is not k-means.
    for (variant, precision), cell in judged.items():
        if variant == "reference" or precision == "f64":
            continue
        assert cell["status"] == "wrong", variant
        assert "inertia on the exact trajectory" in cell["reason"], variant
        assert cell["seconds_per_iteration"] is None
    if ("blas_gemm", "f64") in judged:
        assert judged["blas_gemm", "f64"]["status"] == "ok"


def test_overflow_is_wrong_and_never_published(
    bench, put, write, experiment, tmp_path: Path
) -> None:
    # Squares of 1e25 are beyond float32, and in range for float64.
    points = np.random.default_rng(1).uniform(-1e25, 1e25, (200, 4)).astype("<f4")
    file = put("large.npy", _npy_of(points))
    described = _from_file(experiment, file)
    described["variants"] = [
        {"variant": variant, "precision": precision}
        for variant in ("cpu_naive", "eigen_gemm", "blas_gemm")
        for precision in ("f32", "f64")
    ]
    out = tmp_path / "out"
    run = bench("run", write(described), "--out", out)
    assert run.returncode == 4, run.stderr
    result = json.loads((out / "demo.json").read_text(encoding="utf-8"))
    assert result["complete"] is True
    for cell in result["cells"]:
        if cell["status"] == "skipped":
            continue
        assert cell["status"] == ("ok" if cell["precision"] == "f64" else "wrong"), cell["key"]
        if cell["precision"] == "f32":
            assert cell["reason"]
            assert cell["seconds_per_iteration"] is None
            assert cell["samples_seconds_per_iteration"] == []


def test_traces_that_are_wrong_have_no_time_and_decide_nothing(
    bench, write, experiment, tmp_path: Path
) -> None:
    # Squares of 1e30 are beyond float32: cpu_naive gives labels that are not the nearest.
    trace = {"n": 1000, "d": 3, "k": 5, "iterations": 30, "stop": "labels"}
    described = experiment(
        data={"generator": "uniform", "seed": 1, "low": -1e30, "high": 1e30},
        traces=[
            {"name": "bad", "variant": "cpu_naive", **trace},
            {"name": "good", "variant": "reference", **trace},
            {
                "name": "missed",
                "variant": "reference",
                **trace,
                "expected": {"inertia": [0], "relative_tolerance": 1},
            },
        ],
        figures=[{"id": "time", "kind": "trace-time", "title": "Time"}],
        claims=[
            {
                "id": "faster",
                "statement": "One is faster.",
                "where": "nowhere",
                "why": "Nothing was wrong with it.",
                "tests": [
                    {
                        "quantity": "trace_speedup",
                        "trace": "good",
                        "baseline_trace": "bad",
                        "at_least": 1,
                    }
                ],
            }
        ],
    )
    out = tmp_path / "some-machine"
    result = bench.measure(write(described), out, "--check-seconds", "0", code=4)
    traces = {trace["name"]: trace for trace in result["traces"]}
    assert {name: trace["status"] for name, trace in traces.items()} == {
        "bad": "wrong",
        "good": "ok",
        "missed": "wrong",
    }
    for name in ("bad", "missed"):
        assert traces[name]["seconds_per_iteration"] is None
        assert traces[name]["runs_seconds"] is None
    assert traces["good"]["seconds_per_iteration"] > 0
    assert not traces["bad"]["verification"]["passed"]
    assert "labels" in traces["bad"]["reason"]
    checks = {check["name"] for check in traces["good"]["verification"]["checks"]}
    assert "inertia on the exact trajectory" in checks
    assert any(name.startswith("last iteration: ") for name in checks)
    assert "null" not in traces["missed"]["reason"]
    assert "infinite" in traces["missed"]["reason"]

    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    drawn = captured(
        [sys.executable, "-m", "plots", "report", out],
        cwd=ROOT,
        env={**os.environ, "MPLCONFIGDIR": str(tmp_path)},
    )
    assert drawn.returncode == 0, drawn.stderr
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "not tested here" in page
    assert "trace bad is wrong" in page
    assert "✓" not in page


# ---- beyond the range of a precision, or of the exact step ----


def _blobs_with_a_fill_value() -> np.ndarray:
    rng = np.random.default_rng(1)
    blobs = [rng.normal(size=(1000, 2)) + 20 * i for i in range(3)]
    return np.concatenate([*blobs, np.array([[0, 9.97e36]])]).astype(np.float32)


def test_an_exact_variant_refuses_points_that_its_integers_cannot_resolve(bench, put) -> None:
    file = put("fill.npy", _npy_of(_blobs_with_a_fill_value()))
    init = ("-k", "4", "--init", "rows:0,1000,2000,3000", "--iterations", "10")
    for variant in ("reference", "openmp_exact"):
        said = bench.refusal("fit", file, *init, "--variant", variant)
        assert "next to the value 9.97e+36 (point 3000, coordinate 1" in said
        assert "round coordinate 0 by up to" in said
        assert "remove that point" in said
    run = bench("fit", file, *init, "--variant", "cpu_naive")
    assert run.returncode == 0, run.stderr
    assert "note: the exact step cannot resolve" in run.stderr


def _cells(bench, folder: Path, data: dict[str, Any], variants: list[Any], k: int) -> list[Any]:
    file = folder / "range.json"
    sweep = {"k": [k]} | ({} if "file" in data else {"n": [1000], "d": [3]})
    scale = {"sweep": sweep, "iterations": 10}
    description = small_experiment("range", variants, scale, data=data)
    file.write_text(json.dumps(description), encoding="utf-8")
    run = bench("run", file, "--out", folder / "out", timeout=900)
    assert run.returncode in (0, 4), run.stdout + run.stderr
    written = json.loads((folder / "out" / "range.json").read_text(encoding="utf-8"))
    cells: list[Any] = written["cells"]
    return cells


def test_cells_on_points_that_nothing_could_certify_are_skipped(bench, tmp_path: Path) -> None:
    """But those in float64, which the float64 trajectory judges: wrong where they are wrong."""
    both = [{"variant": "cpu_naive", "precision": p} for p in ("f32", "f64")]
    variants = [*both, "openmp_exact", {"variant": "openmp_simd", "precision": "f64"}]
    data = {"generator": "outlier", "distance": 1e14}
    cells = {(c["variant"], c["precision"]): c for c in _cells(bench, tmp_path, data, variants, 10)}
    for single in (("cpu_naive", "f32"), ("openmp_exact", "f32")):
        assert cells[single]["status"] == "skipped"
        assert "the exact step cannot resolve these points" in cells[single]["reason"]
    assert cells["cpu_naive", "f64"]["status"] == "ok", cells["cpu_naive", "f64"]["reason"]
    assert cells["cpu_naive", "f64"]["inertia"] == pytest.approx(1002.2, abs=0.1)
    assert cells["openmp_simd", "f64"]["status"] == "wrong"
    assert "inertia on the exact trajectory" in cells["openmp_simd", "f64"]["reason"]


@pytest.mark.parametrize("scale", [1e-50, 1e50])
def test_float64_cells_are_right_where_float32_vanishes_or_overflows(
    bench, tmp_path: Path, scale: float
) -> None:
    file = tmp_path / "range.npy"
    np.save(file, np.random.default_rng(2).random((500, 3)) * scale)
    names = ("cpu_naive", "openmp_simd", "eigen_gemm")
    variants = [{"variant": name, "precision": "f64"} for name in names]
    for cell in _cells(bench, tmp_path, {"file": str(file)}, variants, 4):
        assert cell["status"] == "ok", f"{cell['key']}: {cell['reason']}"
        assert cell["inertia"] > 0


def test_cells_of_points_beyond_float32_are_skipped_and_float64_ones_run(
    bench, tmp_path: Path
) -> None:
    points = np.random.default_rng(2).random((500, 3))
    points[7, 2] = -1e50
    file = tmp_path / "range.npy"
    np.save(file, points)
    both = [{"variant": "cpu_naive", "precision": p} for p in ("f32", "f64")]
    cells = _cells(bench, tmp_path, {"file": str(file)}, [*both, "openmp_exact"], 4)
    status = {(cell["variant"], cell["precision"]): cell for cell in cells}
    assert status["cpu_naive", "f64"]["status"] == "ok", status["cpu_naive", "f64"]["reason"]
    assert status["cpu_naive", "f64"]["inertia"] > 0
    for variant in ("cpu_naive", "openmp_exact"):
        cell = status[variant, "f32"]
        assert cell["status"] == "skipped"
        assert "range.npy: point 7, coordinate 2" in cell["reason"]
        assert "-1e+50 is outside the range of float32" in cell["reason"]
        assert 'load it as f64, with "precision": "f64"' in cell["reason"]
        assert cell["seconds_per_iteration"] is None
    result = tmp_path / "out" / "range.json"
    assert list(json.loads(result.read_text(encoding="utf-8"))["context"]["datasets"]) == [
        status["cpu_naive", "f64"]["dataset"] + "/f64"
    ]
    # Every reader of the file takes it.
    for command in (("export", result, "--format", "csv", "--out", tmp_path / "x.csv"),
                    ("compare", result, result), ("reproduce", result)):  # fmt: skip
        run = bench(*command, timeout=900)
        assert run.returncode == 0, run.stdout + run.stderr
    assert load_result(result).cells


def test_traces_of_points_beyond_float32_are_skipped_and_float64_ones_run(
    bench, write, experiment, tmp_path: Path
) -> None:
    file = tmp_path / "range.npy"
    np.save(file, np.random.default_rng(2).random((200, 2)) * 1e50)
    traces = [
        {"name": p, "variant": "cpu_naive", "precision": p, "k": 3, "iterations": 4}
        for p in ("f32", "f64")
    ]
    described = experiment(data={"file": str(file)}, traces=traces)
    described["variants"] = [{"variant": "cpu_naive", "precision": "f64"}]
    described["scales"]["quick"]["sweep"] = {"k": [3]}
    result = bench.measure(write(described), tmp_path / "out")
    traces = {trace["name"]: trace for trace in result["traces"]}
    assert traces["f32"]["status"] == "skipped"
    assert "is outside the range of float32" in traces["f32"]["reason"]
    assert traces["f64"]["status"] == "ok", traces["f64"]["reason"]
    assert len(traces["f64"]["iterations"]) == 4


def test_an_experiment_of_float32_alone_on_points_beyond_it_is_refused(
    bench, write, experiment, tmp_path: Path
) -> None:
    file = tmp_path / "range.npy"
    np.save(file, np.array([[1, 2], [3, 1e39], [5, 6], [7, 8]]))
    described = experiment(data={"file": str(file)}, variants=["cpu_naive"])
    described["scales"]["quick"]["sweep"] = {"k": [2]}
    said = bench.refusal("run", write(described), "--out", tmp_path / "out")
    assert "1e+39 is outside the range" in said
    assert 'load it as f64, with "precision": "f64"' in said
    assert not (tmp_path / "out" / "demo.json").exists()


def test_a_wrong_inertia_far_from_the_origin_is_called_wrong(bench, tmp_path: Path) -> None:
    """At 1e6 float32 has steps of 1/16, and sums of a thousand points are off by more than one."""
    cells = _cells(bench, tmp_path, {"generator": "offset"}, ["cpu_naive", "openmp_exact"], 10)
    status = {cell["variant"]: cell for cell in cells}
    assert status["openmp_exact"]["status"] == "ok"
    assert status["cpu_naive"]["status"] == "wrong"
    assert "inertia on the exact trajectory" in status["cpu_naive"]["reason"]


def test_fit_says_when_squares_leave_the_range(bench, tmp_path: Path) -> None:
    points = np.random.default_rng(3).normal(size=(200, 2))
    for name, scale, precision, said in (
        ("large", 1e20, "f32", "may exceed the range of float32"),
        ("small", 1e-25, "f32", "vanish in float32"),
        ("huge", 1e155, "f64", "may exceed the range of float64"),
        ("tiny", 1e-170, "f64", "vanish in float64"),
        ("fine", 1.0, "f32", ""),
    ):
        file = tmp_path / f"{name}.npy"
        # What float32 rounds has a note of its own.
        np.save(file, points * scale if said else points.astype(np.float32))
        fit = ("fit", file, "-k", "3", "--variant", "cpu_naive", "--precision", precision)
        run = bench(*fit, "--init", "first")
        assert (said in run.stderr) if said else run.stderr == "", run.stderr
        if name == "huge":
            assert run.returncode == 4
            assert "not finite after iteration" in run.stderr
        else:
            assert run.returncode == 0, run.stderr
