# SPDX-License-Identifier: Apache-2.0
"""Ranks of MPI: started several times by mpirun, the program answers as one, with the same bits."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import (
    MPI_ENVIRONMENT,
    available_here,
    captured,
    find_program,
    lend_ceilings,
    small_experiment,
)

SIZES = (1, 2, 3, 7)


def on_ranks(
    size: int, *arguments: str | Path, timeout: float = 900, **environment: str
) -> subprocess.CompletedProcess[str]:
    """With 0 ranks, without a launcher."""
    launcher = ["mpirun", "-n", str(size)] if size else []
    variables = {**os.environ, **MPI_ENVIRONMENT, **environment}
    return captured(
        [*launcher, variables["KMEANS_BENCH"], *map(str, arguments)],
        timeout=timeout,
        env=variables,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture(scope="module", autouse=True)
def _mpi() -> None:
    program = find_program()
    if program is None:
        pytest.skip("there is no program")
    listed = captured([program, "list"], check=True).stdout
    line = next(line for line in listed.splitlines() if line.startswith("mpi_exact"))
    if "unavailable" in line:
        pytest.skip(line)
    if shutil.which("mpirun") is None:
        pytest.skip("no mpirun")


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(20)
    file = tmp_path_factory.mktemp("points") / "points.npy"
    values = random.normal(size=(9001, 12)) + 4 * random.integers(0, 5, size=(9001, 1))
    np.save(file, values.astype(np.float32))
    return file


def fit(size: int, file: Path, out: Path, *more: str, **environment: str) -> dict[str, object]:
    clusters = () if "-k" in more else ("-k", "17")
    arguments = ("fit", file, *clusters, "--threads", "1", "--out", out, *more)
    run = on_ranks(size, *arguments, **environment)
    assert run.returncode == 0, run.stdout + run.stderr
    # Everything that does not name the variant, the ranks or a time.
    lines = [line for line in run.stdout.splitlines() if line[:9].strip().isdigit()]
    summary = json.loads((out / "summary.json").read_text())
    if size > 1 and "--variant" not in more:
        assert summary["variant"] == "mpi_exact"  # who shares the rows
    for key in ("variant", "seconds_per_iteration", "seconds_per_iteration_with_record"):
        del summary[key]
    return {
        "lines": lines,
        "summary": summary,
        "labels": (out / "labels.npy").read_bytes(),
        "centroids": (out / "centroids.npy").read_bytes(),
    }


@pytest.mark.parametrize("size", SIZES)
def test_the_awkward_problems_pass_on_any_number_of_ranks(size: int) -> None:
    run = on_ranks(size, "verify", "--only", "^mpi_exact$", "--threads", "1")
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("1 variant passed") == 1  # rank 0 speaks, the others do not


def test_the_families_pass_on_ranks_too() -> None:
    run = on_ranks(
        3, "verify", "--only", "^openmp_(int8|tree)$", "--at-most", "20000", "--threads", "1"
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "2 variants passed" in run.stdout


def test_calls_longer_than_mpi_takes_are_divided() -> None:
    # As with counts beyond 2^31, but at 7: every way of dividing a call is taken.
    run = on_ranks(
        3,
        "verify",
        "--only",
        "^mpi_exact$",
        "--at-most",
        "20000",
        "--threads",
        "1",
        KMEANS_BENCH_MPI_MOST="7",
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_fit_gives_the_same_files_and_lines_for_any_number_of_ranks(
    points: Path, tmp_path: Path
) -> None:
    alone = fit(0, points, tmp_path / "alone")
    assert len(alone["lines"]) > 3
    for size in SIZES:
        assert fit(size, points, tmp_path / str(size)) == alone, f"{size} ranks"


def test_cosine_gives_the_same_on_any_number_of_ranks(points: Path, tmp_path: Path) -> None:
    how = ("--metric", "cosine")
    alone = fit(0, points, tmp_path / "alone", *how)
    assert alone["summary"]["metric"] == "cosine"
    assert len(alone["lines"]) > 3
    assert alone["centroids"] != fit(0, points, tmp_path / "other")["centroids"]
    lengths = np.linalg.norm(np.load(tmp_path / "alone" / "centroids.npy"), axis=1)
    assert np.abs(lengths - 1).max() < 1e-6
    for size in SIZES:
        assert fit(size, points, tmp_path / str(size), *how) == alone, f"{size} ranks"
    for variant in ("openmp_exact", "openmp_hamerly"):
        found = fit(2, points, tmp_path / variant, *how, "--variant", variant)
        assert found == alone, variant


#: By kind; of some a whole rank of seven has none.
WEIGHTS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "integers": lambda random, n: random.integers(0, 4, size=n),
    "of all sizes": lambda random, n: np.exp(20 * random.normal(size=n)),
    "in the last third": lambda random, n: np.where(np.arange(n) < n * 2 // 3, 0, random.random(n)),
    "of few": lambda random, n: np.where(np.arange(n) % (n // 20) == 0, 2.0**40, 0),
}


@pytest.mark.parametrize("kind", WEIGHTS)
def test_weights_give_the_same_on_any_number_of_ranks(
    points: Path, tmp_path: Path, kind: str
) -> None:
    weights = WEIGHTS[kind](np.random.default_rng(8), 9001)
    np.save(tmp_path / "weights.npy", weights)
    given = ("--weights", str(tmp_path / "weights.npy"))
    starts: list[tuple[str, ...]] = [(), ("--init", "kmeans++:3", "--iterations", "7")]
    if kind == "integers":
        starts.append(("--metric", "cosine"))
    for start in starts:
        alone = fit(0, points, tmp_path / "alone", *given, *start)
        assert alone["summary"]["weights"] == given[1]
        for size in SIZES if not start else SIZES[-1:]:
            found = fit(size, points, tmp_path / str(size), *given, *start)
            assert found == alone, f"{start}, {size} ranks"


def test_ranks_with_a_gpu_each_give_the_bits_of_one_cpu(points: Path, tmp_path: Path) -> None:
    if not available_here("nccl_exact"):
        pytest.skip("nccl_exact cannot run here")
    if captured(["nvidia-smi", "--list-gpus"]).stdout.count("GPU ") < 2:
        pytest.skip("a GPU for each of two ranks is needed")
    plain: tuple[str, ...] = ()
    for kind, weigh in WEIGHTS.items():
        np.save(tmp_path / "weights.npy", weigh(np.random.default_rng(8), 9001))
        weighted = ("--weights", str(tmp_path / "weights.npy"))
        hows = [weighted, (*weighted, "--init", "kmeans++:3", "--iterations", "7")]
        if kind == "integers":
            cosine = ("--metric", "cosine")
            hows += [plain, cosine, (*weighted, *cosine)]
        for how in hows:
            alone = fit(0, points, tmp_path / "alone", *how)
            found = fit(2, points, tmp_path / "two", "--variant", "nccl_exact", *how)
            assert found == alone, f"{kind}: {how}"


def test_integer_weights_on_ranks_are_repeated_rows(points: Path, tmp_path: Path) -> None:
    weights = WEIGHTS["integers"](np.random.default_rng(9), 9001)
    np.save(tmp_path / "weights.npy", weights)
    np.save(tmp_path / "repeated.npy", np.repeat(np.load(points), weights, axis=0))
    for start in ("ward:2", "kmeans++:2"):
        how = ("--init", start)
        right = fit(0, tmp_path / "repeated.npy", tmp_path / "right", *how)
        found = fit(3, points, tmp_path / "w", "--weights", str(tmp_path / "weights.npy"), *how)
        assert found["centroids"] == right["centroids"], start
        assert found["summary"]["iterations"] == right["summary"]["iterations"]


def test_weights_of_as_many_clusters_as_points(tmp_path: Path) -> None:
    """More ranks than points with a weight; seeds are then chosen of the others too."""
    random = np.random.default_rng(4)
    np.save(tmp_path / "points.npy", random.normal(size=(9, 2)).astype(np.float32))
    np.save(tmp_path / "weights.npy", np.array([0, 0, 3, 0, 0.5, 0, 0, 0, 0]))
    for k, start in (("9", "ward:1"), ("9", "kmeans++:1"), ("3", "ward:1")):
        how = ("-k", k, "--init", start, "--weights", str(tmp_path / "weights.npy"))
        alone = fit(0, tmp_path / "points.npy", tmp_path / "alone", *how)
        for size in SIZES[1:]:
            assert fit(size, tmp_path / "points.npy", tmp_path / "out", *how) == alone, (k, size)


def test_weights_that_are_none_are_refused_once(points: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "weights.npy", np.zeros(9001))
    how = ("fit", points, "-k", "3", "--weights", tmp_path / "weights.npy")
    run = on_ranks(3, *how)
    assert run.returncode == 2
    assert run.stderr.count("all weights are 0, so no point counts") == 1
    run = on_ranks(2, *how, "--variant", "openmp_tree")
    assert run.returncode == 2
    said = run.stderr[run.stderr.index("--weights: openmp_tree takes none; these do: ") :]
    assert "mpi_exact" in said
    assert "reference" not in said  # which takes weights, but not on ranks


def _random_fit(seed: int) -> tuple[np.ndarray, int]:
    """Points of a kind that the seed decides (ties, duplicates, an offset, tiny ones), and k."""
    random = np.random.default_rng(seed)
    n, d = random.integers(2, 400), random.integers(1, 24)
    values = random.normal(size=(n, d))
    kind = seed % 5
    if kind == 1:
        values = random.integers(0, 3, size=(n, d))
    if kind == 2:
        values = values[random.integers(0, max(1, n // 9), size=n)]
    if kind == 3:
        values = 1e6 + values
    if kind == 4:
        values = values * 1e-30
    return values.astype(np.float32), int(random.integers(1, n + 1))


def test_random_problems_have_the_bits_of_one_rank(tmp_path: Path) -> None:
    """KMEANS_RANKS_PROBLEMS=100 for more of them."""
    for seed in range(int(os.environ.get("KMEANS_RANKS_PROBLEMS", "2"))):
        values, k = _random_fit(seed)
        file = tmp_path / "points.npy"
        np.save(file, values)
        options = ("-k", str(k), "--init", f"random:{seed}", "--iterations", "6")
        alone = fit(0, file, tmp_path / "alone", *options, "--variant", "openmp_exact")
        for size in SIZES if seed >= 2 else SIZES[-1:]:
            found = fit(size, file, tmp_path / str(size), *options)
            assert found == alone, f"problem {seed}: {values.shape}, k = {k}, {size} ranks"


def test_fit_of_more_ranks_than_points(tmp_path: Path) -> None:
    file = tmp_path / "few.npy"
    np.save(file, np.array([[0, 0], [1, 0], [10, 1], [11, 1]], np.float32))
    runs = [on_ranks(size, "fit", file, "-k", "2", "--init", "first", "--json") for size in (1, 7)]
    assert [run.returncode for run in runs] == [0, 0], runs[1].stderr
    one, seven = (json.loads(run.stdout.splitlines()[-1]) for run in runs)
    assert one["label_hash"] == seven["label_hash"]
    assert one["inertia"] == seven["inertia"] == 1.0


def test_fit_of_a_text_file_sends_its_rows(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    file = tmp_path / "points.csv"
    np.savetxt(file, random.normal(size=(100, 3)), delimiter=",", fmt="%.6f")
    hashes = {
        json.loads(on_ranks(size, "fit", file, "-k", "5", "--json").stdout.splitlines()[-1])[
            "label_hash"
        ]
        for size in (1, 3)
    }
    assert len(hashes) == 1


def test_a_bad_option_is_said_once_with_its_exit_code(points: Path) -> None:
    run = on_ranks(3, "fit", points, "-k", "100000")
    assert run.returncode == 2
    assert run.stderr.count("must be from 1 to n = 9001") == 1
    assert "iteration" not in run.stdout


def test_a_variant_that_takes_no_part_is_refused(points: Path) -> None:
    run = on_ranks(2, "fit", points, "-k", "3", "--variant", "cpu_naive")
    assert run.returncode == 2
    assert "cpu_naive needs all points" in run.stderr
    assert "mpi_exact" in run.stderr
    run = on_ranks(2, "verify", "--only", "^cpu_naive$")
    assert run.returncode == 3
    assert "nothing was verified" in run.stderr


def test_one_program_is_not_started_several_times() -> None:
    run = on_ranks(2, "machine")
    assert run.returncode == 2
    assert run.stderr.count("start it once, without the launcher") == 1


def test_a_step_of_slurm_is_reported_how_run_is_started(tmp_path: Path) -> None:
    ranks = [{"PMIX_RANK": rank, "SLURM_STEP_NUM_TASKS": "2"} for rank in "01"]
    runs = [on_ranks(0, "run", "ranks", "--out", tmp_path / "out", **rank) for rank in ranks]
    assert [run.returncode for run in runs] == [2, 2]
    assert "KMEANS_BENCH_LAUNCHER='srun --mpi=pmix -n {ranks}'" in runs[0].stderr
    assert runs[1].stderr == ""
    assert not (tmp_path / "out").exists()


@pytest.fixture
def demo(tmp_path: Path) -> Callable[..., tuple[dict[str, Any], str]]:
    """Runs an experiment with these variants: its result, and what was said."""

    def run_demo(
        variants: list[dict[str, Any]], ranks: int = 0, **environment: str
    ) -> tuple[dict[str, Any], str]:
        sweep = {"n": [3000], "d": [9], "k": [7]}
        scale = {"sweep": sweep, "iterations": 4, "repetitions": 2}
        experiment = small_experiment("demo", variants, scale)
        file = tmp_path / "demo.json"
        file.write_text(json.dumps(experiment))
        environment["KMEANS_BENCH_CACHE"] = str(lend_ceilings(tmp_path / "cache"))
        words = ("run", file, "--out", tmp_path / "out", "--check-seconds", "0")
        run = on_ranks(ranks, *words, **environment)
        assert run.returncode == 0, run.stdout + run.stderr
        return json.loads((tmp_path / "out" / "demo.json").read_text()), run.stderr

    return run_demo


def test_run_under_mpirun_goes_on_as_one_program_with_ranks_of_its_own(demo) -> None:
    variants = [
        {"variant": "mpi_exact", "threads": 1, "ranks": 2},
        {"variant": "mpi_exact", "threads": 1, "ranks": 3},
        {"variant": "openmp_exact"},
    ]
    bound = {"OMPI_MCA_hwloc_base_binding_policy": "hwthread"}  # a processor each
    result, said = demo(variants, ranks=2, **bound)
    assert said.count("`run` starts the ranks of each cell by itself") == 1
    assert [cell["status"] for cell in result["cells"]] == ["ok"] * 3
    times = [cell.get("rank_times", {"seconds_per_iteration": []}) for cell in result["cells"]]
    assert [len(time["seconds_per_iteration"]) for time in times] == [2, 3, 0]
    assert len({cell["label_hash"] for cell in result["cells"]}) == 1
    processors = min(2, len(os.sched_getaffinity(0)))  # those of both
    assert result["context"]["machine"]["cpu"]["allowed_cpus"] == processors


def test_cells_of_run_under_mpirun_go_to_the_hosts_of_its_ranks(demo, tmp_path: Path) -> None:
    """What stands in for ssh gives this host another name."""
    if subprocess.run(["unshare", "-u", "hostname", "elsewhere"], capture_output=True).returncode:
        pytest.skip("no host can be given another name here")
    ssh = tmp_path / "ssh"
    ssh.write_text(
        f"""#!/bin/sh
        while [ "${{1#-}}" != "$1" ]; do shift; done
        echo "$1" >> {tmp_path}/called
        name=$1; shift
        exec unshare -u sh -c "hostname $name; $*"
        """
    )
    ssh.chmod(0o755)
    variants = [{"variant": "mpi_exact", "threads": 1, "ranks": ranks} for ranks in (1, 3)]
    hosts = {
        "OMPI_MCA_plm_rsh_agent": str(ssh),
        "OMPI_MCA_orte_default_hostfile": str(tmp_path / "hosts"),
    }
    (tmp_path / "hosts").write_text(f"{socket.gethostname()} slots=1\nelsewhere slots=2\n")
    result, _ = demo(variants, ranks=3, **hosts)
    assert [cell["status"] for cell in result["cells"]] == ["ok", "ok"]
    assert len({cell["label_hash"] for cell in result["cells"]}) == 1
    # By mpirun, and by the one that the cell of three ranks has started.
    assert (tmp_path / "called").read_text() == "elsewhere\n" * 2
    assert "elsewhere" not in json.dumps(result)  # results name no hosts


def test_a_cell_on_ranks_is_measured_with_the_bits_of_one(demo) -> None:
    variants = [
        {"variant": "mpi_exact", "threads": 1},
        {"variant": "mpi_exact", "threads": 1, "ranks": 3},
        {"variant": "openmp_exact", "threads": 1, "ranks": 2},
        {"variant": "cpu_naive", "ranks": 2},
    ]
    result, _ = demo(variants)
    cells = {(cell["variant"], cell.get("ranks", 1)): cell for cell in result["cells"]}
    plain = cells.pop(("cpu_naive", 2))
    assert plain["status"] == "skipped"
    assert "ranks cannot share its work" in plain["reason"]
    assert len(cells) == 3
    for (variant, ranks), cell in cells.items():
        assert cell["status"] == "ok", cell["reason"]
        assert cell["key"] == f"{variant}/f32/{cell['dataset']}/k7/T4/t1" + f"/r{ranks}" * (
            ranks > 1
        )
        if ranks == 1:
            assert "rank_times" not in cell
            continue
        times = cell["rank_times"]
        assert len(times["seconds_per_iteration"]) == ranks
        for whole, part in zip(
            times["seconds_per_iteration"],
            times["communication_seconds_per_iteration"],
            strict=True,
        ):
            assert 0 < part < whole
        assert cell["stages"]["communication"] > 0
    assert len({cell["label_hash"] for cell in cells.values()}) == 1
    assert len({cell["centroid_hash"] for cell in cells.values()}) == 1
