# SPDX-License-Identifier: Apache-2.0
"""Ranks that differ, die or cannot write: all end soon, with the reason, and nothing is lost."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from tests.support import MPI_ENVIRONMENT, captured

#: Seconds after which a rank that has not ended hangs, however busy the machine.
SOON = 900


def fit_on_three(bench, tmp_path, k: str) -> list:
    """The words after mpirun that cluster points.npy by three ranks of a thread each."""
    points = tmp_path / "points.npy"
    return ["-n", "3", bench.program, "fit", points, "-k", k, "--threads", "1"]


@pytest.fixture(autouse=True)
def _open_mpi(bench) -> None:
    line = next(ln for ln in bench("list").stdout.splitlines() if ln.startswith("mpi_exact"))
    if "unavailable" in line:
        pytest.skip(line)
    if "Open MPI" not in captured([shutil.which("mpirun") or "false", "--version"]).stdout:
        pytest.skip("no mpirun of Open MPI, whose words and variables these tests use")


@pytest.fixture
def mpirun(bench):
    def start(*words: str | Path) -> subprocess.CompletedProcess[str]:
        return captured(
            ["mpirun", *map(str, words)],
            timeout=SOON,
            env=bench.environment(MPI_ENVIRONMENT),
            stdin=subprocess.DEVNULL,
        )

    return start


def save(file: Path, n: int = 5000, seed: int = 1) -> np.ndarray:
    values = np.random.default_rng(seed).normal(size=(n, 4)).astype(np.float32)
    file.parent.mkdir(exist_ok=True)
    np.save(file, values)
    return values


def on_two_hosts(bench, mpirun, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Rank 0 finds the file in a/, rank 1 under the same name in b/, as if on two hosts."""
    words = (
        bench.program,
        "fit",
        "/proc/self/cwd/points.npy",
        "-k",
        "5",
        "--threads",
        "1",
        "--out",
        tmp_path / "out",
    )
    a, b = tmp_path / "a", tmp_path / "b"
    return mpirun("-n", "1", "-wdir", a, *words, ":", "-n", "1", "-wdir", b, *words)


def test_equal_copies_on_two_hosts_are_fine(bench, mpirun, tmp_path):
    for host in "ab":
        save(tmp_path / host / "points.npy")
    run = on_two_hosts(bench, mpirun, tmp_path)
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "out" / "labels.npy").exists()


@pytest.mark.parametrize("difference", ["number", "rows", "largest", "absent", "not finite"])
def test_unequal_data_on_two_ranks(bench, mpirun, tmp_path, difference):
    save(tmp_path / "a" / "points.npy")
    other = tmp_path / "b" / "points.npy"
    values = save(
        other, n=4999 if difference == "number" else 5000, seed=2 if difference == "rows" else 1
    )
    expected = "does not hold the same points on every rank"
    if difference == "number":
        expected = "rank 1 of 2: /proc/self/cwd/points.npy holds 4999 x 4 points here"
    if difference == "largest":
        values[3001, 2] = 1000  # of a row that nobody compares
        np.save(other, values)
    if difference == "not finite":
        values[4000, 3] = np.nan
        np.save(other, values)
        expected = "rank 1 of 2: /proc/self/cwd/points.npy: point 4000, coordinate 3"
    if difference == "absent":
        other.unlink()
        expected = "rank 1 of 2: /proc/self/cwd/points.npy"
    run = on_two_hosts(bench, mpirun, tmp_path)
    assert run.returncode == 2, run.stdout + run.stderr
    assert expected in run.stderr
    assert run.stderr.count("kmeans-bench:") == 1
    assert not any((tmp_path / "out").glob("*.npy"))


def test_other_arguments_on_a_rank(bench, mpirun, tmp_path):
    save(tmp_path / "points.npy")
    words = (bench.program, "fit", tmp_path / "points.npy", "--threads", "1", "-k")
    run = mpirun("-n", "2", *words, "5", ":", "-n", "1", *words, "6")
    assert run.returncode == 2
    assert "rank 2 of 3 was started as" in run.stderr
    assert run.stderr.count("kmeans-bench:") == 1


def test_a_full_disk_under_the_output_of_ranks(bench, mpirun, tmp_path):
    save(tmp_path / "points.npy")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = captured(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", disk])
    if mounted.returncode != 0:
        pytest.skip("no file system can be mounted here")
    try:
        (disk / "labels.npy").write_bytes(b"of before")
        run = mpirun(
            *fit_on_three(bench, tmp_path, "5"),
            "--iterations",
            "3",
            "--out",
            disk,
        )
        assert run.returncode == 5, run.stdout + run.stderr
        assert "labels.npy" in run.stderr
        assert run.stderr.count("kmeans-bench:") == 1
        assert (disk / "labels.npy").read_bytes() == b"of before"
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_killed_rank_ends_all(bench, tmp_path):
    save(tmp_path / "points.npy", n=200_000)
    before = tmp_path / "out" / "labels.npy"
    before.parent.mkdir()
    before.write_bytes(b"of before")
    launcher = subprocess.Popen(
        [
            "mpirun",
            *fit_on_three(bench, tmp_path, "50"),
            "--init",
            "first",
            "--iterations",
            "100000",
            "--out",
            before.parent,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=bench.environment(MPI_ENVIRONMENT),
        stdin=subprocess.DEVNULL,
    )
    try:
        assert launcher.stdout is not None
        while not launcher.stdout.readline().strip().startswith("3 "):  # in the middle of it
            assert launcher.poll() is None, launcher.communicate()
        ranks = ranks_of(launcher.pid)
        assert len(ranks) == 3
        os.kill(ranks[-1], signal.SIGKILL)
        killed = time.monotonic()
        _, errors = launcher.communicate(timeout=SOON)
        assert launcher.returncode != 0
        assert "signal 9" in errors
        while any(Path(f"/proc/{rank}").exists() for rank in ranks):
            assert time.monotonic() - killed < SOON
            time.sleep(0.1)
    finally:
        launcher.kill()
        launcher.wait()
    assert before.read_bytes() == b"of before"


def ranks_of(launcher: int) -> list[int]:
    """The processes that the launcher has started, in the order in which it did."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children")
    if not children.exists():
        pytest.skip("this kernel does not name a process's children")
    return sorted(map(int, children.read_text().split()))


def test_a_launcher_of_another_mpi(bench):
    words = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "0"}
    message = bench.refusal("list", code=3, environment={**MPI_ENVIRONMENT, **words})
    assert "4 ranks, but MPI knows of 1" in message


@pytest.mark.parametrize(
    ("variant", "words"),
    [
        ("fault_rank_throws_in_setup", "rank 1 of 2: nothing to set up with"),
        ("fault_rank_throws", "rank 1 of 2: no such luck"),
        ("fault_ranks_alone", "rank 1 of 2 has other centroids than rank 0"),
    ],
)
def test_a_variant_that_misbehaves_on_one_rank(faults, mpirun, tmp_path, variant, words):
    save(tmp_path / "points.npy", n=100)
    words_of_fit = ("fit", tmp_path / "points.npy", "-k", "3", "--threads", "1")
    out = tmp_path / "out"
    run = mpirun("-n", "2", faults.program, *words_of_fit, "--variant", variant, "--out", out)
    assert run.returncode == 3, run.stdout + run.stderr
    assert words in run.stderr
    assert run.stderr.count("kmeans-bench:") == 1
    assert not any(out.glob("*.npy"))


def test_a_rank_that_fails_under_run_costs_its_cell_alone(faults, experiment, write, tmp_path):
    names = ["fault_rank_throws", "fault_rank_throws_in_setup", "mpi_exact"]
    variants = [{"variant": name, "threads": 1, "ranks": 2} for name in names]
    result = faults.measure(
        write(experiment(variants=variants)),
        tmp_path / "out",
        before=("mpirun", "-n", "2"),
        environment=MPI_ENVIRONMENT,
        code=4,
    )
    assert [cell["status"] for cell in result["cells"]] == ["error", "error", "ok"]
    assert "rank 1 of 2: no such luck" in result["cells"][0]["reason"]


def test_run_that_is_killed_under_mpirun_ends_the_ranks_of_its_cell(
    bench, experiment, write, tmp_path
):
    shape = {"n": [200_000], "d": [8], "k": [50]}
    scale = {"sweep": shape, "iterations": 100, "repetitions": 1000, "min_seconds": 0}
    variants = [{"variant": "mpi_exact", "threads": 1, "ranks": 3}]
    words = ["run", write(experiment(variants=variants, scales={"quick": scale}))]
    launcher = subprocess.Popen(
        ["mpirun", "-n", "2", bench.program, *words, "--out", tmp_path / "out"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=bench.environment(MPI_ENVIRONMENT),
        stdin=subprocess.DEVNULL,
    )
    try:
        processes: list[int] = []
        while len(processes) < 5:  # run, the launcher of the cell, and three ranks
            assert launcher.poll() is None, launcher.communicate()
            time.sleep(0.1)
            processes = ranks_of(launcher.pid)
            for process in processes:
                with contextlib.suppress(FileNotFoundError):
                    processes += ranks_of(process)
        os.kill(processes[0], signal.SIGKILL)
        killed = time.monotonic()
        _, errors = launcher.communicate(timeout=SOON)
        assert "signal 9" in errors
        while any(Path(f"/proc/{process}").exists() for process in processes):
            assert time.monotonic() - killed < SOON
            time.sleep(0.1)
    finally:
        launcher.kill()
        launcher.wait()
