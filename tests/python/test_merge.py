# SPDX-License-Identifier: Apache-2.0
"""Parts of an experiment: measured apart by run --shard, joined by merge."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from plots.captions import partial_sentence, parts_sentence
from plots.load import load_result
from tests.plots import synthetic
from tests.support import kmeans_bench, needs_program, small_experiment

SHAPE = {"n": 60, "d": 2, "k": 3, "iterations": 3}
EXPERIMENT = small_experiment(
    "parts",
    ["cpu_naive", {"variant": "cpu_naive", "precision": "f64"}, "cpu_fused"],
    {
        "sweep": {"n": [60, 90], "d": [2], "k": [3, 100]},
        "iterations": 2,
        "processes": 2,
        "max_seconds": 0.1,
    },
    data={"generator": "gaussian", "seed": 1},
    traces=[
        {"name": "path", "variant": "cpu_fused"} | SHAPE,
        {"name": "other", "variant": "cpu_naive"} | SHAPE,
    ],
    studies=[],
)
# Of the plan above: 4 problems with 3 cells each, 2 of them with more clusters than points.
CELLS, PARTS = 12, 3

pytestmark = needs_program


def read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def names(result: dict[str, Any]) -> list[list[str]]:
    return [[c["key"] for c in result["cells"]], [t["name"] for t in result["traces"]]]


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("experiment") / "parts.json"
    file.write_text(json.dumps(EXPERIMENT), encoding="utf-8")
    return file


def measured(experiment: Path, out: Path, *options: str) -> Path:
    kmeans_bench("run", experiment, "--out", out, "--check-seconds", 0, *options)
    return out / "parts.json"


@pytest.fixture(scope="module")
def whole(experiment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return measured(experiment, tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def parts(experiment: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return [
        measured(experiment, tmp_path_factory.mktemp(f"part{i}"), "--shard", f"{i}/{PARTS}")
        for i in range(1, PARTS + 1)
    ]


def test_parts_share_nothing_and_make_the_whole(
    parts: list[Path], whole: Path, tmp_path: Path
) -> None:
    keys = [set(names(read(part))[0]) for part in parts]
    assert sum(map(len, keys)) == len(set.union(*keys)) == CELLS
    # A problem with all its variants stays together: ratios at a shape are of one machine.
    for part in parts:
        problems = [(c["n"], c["k"]) for c in read(part)["cells"]]
        assert all(problems.count(p) == len(EXPERIMENT["variants"]) for p in problems)

    run = kmeans_bench("merge", *reversed(parts), "--out", tmp_path)
    assert run.stdout.endswith("complete\n")
    joined, expected = read(tmp_path / "parts.json"), read(whole)
    assert names(joined) == names(expected)  # in the order of the whole, not of the arguments
    for ours, theirs in zip(joined["cells"], expected["cells"], strict=True):
        for field in ("status", "reason", "label_hash", "centroid_hash", "inertia"):
            assert ours[field] == theirs[field]
    assert joined["complete"] is True
    assert "planned" not in joined
    told = [p["command_line"].split("--shard ")[1].split()[0] for p in joined["context"]["parts"]]
    assert told == ["3/3", "2/3", "1/3"]
    assert sum(p["cells"] for p in joined["context"]["parts"]) == CELLS
    assert set(joined["context"]["datasets"]) == set(expected["context"]["datasets"])
    assert sorted(joined["context"]["run_order"]) == sorted(expected["context"]["run_order"])


def test_a_joined_result_is_drawn_with_a_word_on_its_parts(
    parts: list[Path], tmp_path: Path
) -> None:
    kmeans_bench("merge", *parts, "--out", tmp_path)
    result = load_result(tmp_path / "parts.json")
    sentence = parts_sentence(result)
    assert sentence is not None
    assert sentence.startswith("Joined from 3 parts")
    assert parts_sentence(load_result(parts[0])) is None
    narrowed = partial_sentence(load_result(parts[1]))
    assert narrowed is not None
    assert "narrowed by --shard 2/3" in narrowed


def test_a_resumed_part_may_say_again_what_cannot_run(
    experiment: Path, parts: list[Path], whole: Path, tmp_path: Path
) -> None:
    """It lists all cells that are skipped, also those of other parts."""
    again = measured(experiment, tmp_path / "again", "--shard", f"1/{PARTS}", "--resume")
    skipped = [c["key"] for c in read(again)["cells"] if c["status"] == "skipped"]
    assert set(skipped) > {c["key"] for c in read(parts[0])["cells"] if c["status"] == "skipped"}
    kmeans_bench("merge", again, *parts[1:], "--out", tmp_path / "all.json")
    assert names(read(tmp_path / "all.json")) == names(read(whole))


def test_parts_that_are_all_there_were_narrowed_by_what_else_was_asked(
    experiment: Path, tmp_path: Path
) -> None:
    only = "--only", "cpu_naive"
    both = [measured(experiment, tmp_path / f"{i}", "--shard", f"{i}/2", *only) for i in (1, 2)]
    kmeans_bench("merge", *both, "--out", tmp_path / "joined.json")
    result = load_result(tmp_path / "joined.json")
    assert not result.complete
    narrowed = partial_sentence(result)
    assert narrowed is not None
    assert "narrowed by --only cpu_naive" in narrowed


def test_some_parts_make_a_partial_result_that_takes_the_rest(
    parts: list[Path], tmp_path: Path
) -> None:
    some = tmp_path / "some.json"
    run = kmeans_bench("merge", parts[0], parts[2], "--out", some)
    missing = names(read(parts[1]))
    assert f"partial: {sum(map(len, missing))} of what the experiment has" in run.stdout
    assert missing[0][0] in run.stdout
    assert read(some)["complete"] is False
    narrowed = partial_sentence(load_result(some))
    assert narrowed is not None
    assert "narrowed by --shard 1/3 and --shard 3/3" in narrowed
    kmeans_bench("merge", some, parts[1], "--out", tmp_path / "all.json")
    joined = read(tmp_path / "all.json")
    assert joined["complete"] is True
    # In the end the context of each part is there, however they came together.
    told = [p["command_line"].split("--shard ")[1].split()[0] for p in joined["context"]["parts"]]
    assert told == ["1/3", "3/3", "2/3"]


def test_an_earlier_result_is_kept_and_a_part_never_replaced(
    parts: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "parts.json"
    out.write_text("{}", encoding="utf-8")
    kmeans_bench("merge", *parts, "--out", out)
    assert [f.read_text() for f in tmp_path.glob("*.before-*")] == ["{}"]
    before = parts[0].read_bytes()
    run = kmeans_bench("merge", *parts, "--out", parts[0], status=2)
    assert "would overwrite" in run.stderr
    assert parts[0].read_bytes() == before


def test_parts_may_take_different_gpus_of_one_kind(parts: list[Path], tmp_path: Path) -> None:
    def on_gpu(which: str) -> Any:
        def edit(data: dict[str, Any]) -> None:
            data["context"]["environment"]["variables"]["CUDA_VISIBLE_DEVICES"] = which

        return edit

    (tmp_path / "a").mkdir()
    one = edited(parts[0], tmp_path / "a", on_gpu("GPU-1"))
    other = edited(parts[1], tmp_path, on_gpu("GPU-2"))
    kmeans_bench("merge", one, other, "--out", tmp_path / "out.json")


def test_one_machine_may_have_two_names(parts: list[Path], tmp_path: Path) -> None:
    """Its GPUs show that it is the same one."""

    def named(name: str, uuid: str) -> Any:
        def edit(data: dict[str, Any]) -> None:
            data["context"]["environment"]["variables"]["KMEANS_BENCH_MACHINE"] = name
            machine = data["context"]["machine"]
            machine["id"] = name
            machine["gpus"] = [{"name": "GPU", "uuid": uuid}]

        return edit

    (tmp_path / "a").mkdir()
    out = tmp_path / "out.json"
    one = edited(parts[0], tmp_path / "a", named("right", "GPU-1"))
    other = edited(parts[1], tmp_path, named("wrong", "GPU-1"))
    told = "A part calls its machine wrong; by the UUIDs of its GPUs it is the machine that"
    assert told in kmeans_bench("merge", one, other, "--out", out).stderr
    context = read(out)["context"]
    assert context["machine"]["id"] == "right"
    assert [part["machine"]["id"] for part in context["parts"]] == ["right", "wrong"]
    assert sum(told in warning for warning in context["environment"]["warnings"]) == 1
    other = edited(parts[1], tmp_path, named("wrong", "GPU-2"))
    run = kmeans_bench("merge", one, other, "--out", tmp_path / "refused.json", status=2)
    assert 'machine/id: "right" and "wrong"' in run.stderr


def test_parts_without_threads_may_wait_differently(parts: list[Path], tmp_path: Path) -> None:
    """Another run on the same host, of a second part, is what makes the first one's look busy."""

    def waiting(how: str) -> Any:
        def edit(data: dict[str, Any]) -> None:
            data["traces"] = []
            data["context"]["environment"]["openmp_waiting"] = how

        return edit

    (tmp_path / "a").mkdir()
    one = edited(parts[0], tmp_path / "a", waiting("default"))
    other = edited(parts[1], tmp_path, waiting("passive"))
    run = kmeans_bench("merge", one, other, "--out", tmp_path / "out.json")
    told = 'waited as "default" in one part and as "passive" in another'
    assert told in run.stderr
    environment = read(tmp_path / "out.json")["context"]["environment"]
    assert environment["openmp_waiting"] == "default"
    assert sum(told in warning for warning in environment["warnings"]) == 1


def test_a_ceiling_that_one_part_lacks_is_no_difference(parts: list[Path], tmp_path: Path) -> None:
    def multiplying(rate: float | None) -> Any:
        def edit(data: dict[str, Any]) -> None:
            gpu = data["context"]["ceilings"]["gpu"] = synthetic.gpu_ceilings()
            del gpu["gemm_gflops"]["int8"]
            if rate is not None:
                gpu["gemm_gflops"]["int8"] = rate

        return edit

    (tmp_path / "a").mkdir()
    one = edited(parts[0], tmp_path / "a", multiplying(1.5e6))
    told = "gpu/gemm_gflops/int8 was 1e+06 on one and 1.5e+06 on another"
    for rate in (None, 1e6):
        other = edited(parts[1], tmp_path, multiplying(rate))
        run = kmeans_bench("merge", one, other, "--out", tmp_path / "out.json")
        assert (told in run.stderr) == (rate is not None)
        gpu = read(tmp_path / "out.json")["context"]["ceilings"]["gpu"]
        assert gpu["gemm_gflops"]["int8"] == 1.5e6


def edited(part: Path, folder: Path, edit: Any) -> Path:
    data = copy.deepcopy(read(part))
    edit(data)
    file = folder / "edited.json"
    file.write_text(json.dumps(data), encoding="utf-8")
    return file


def other_waiting(data: dict[str, Any]) -> None:
    """A trace may be of several threads."""
    environment = data["context"]["environment"]
    own = environment["openmp_waiting"]
    environment["openmp_waiting"] = "default" if own == "passive" else "passive"


def other_points(data: dict[str, Any]) -> None:
    for dataset in data["context"]["datasets"].values():
        dataset["sha256"] = "0" * 64


REFUSED = {
    "another commit": (
        lambda d: d["context"]["suite"].update(git_commit="0" * 40),
        "suite/git_commit",
    ),
    "another machine": (
        lambda d: d["context"]["machine"].update(id="another-machine"),
        "machine/id",
    ),
    "another processor": (
        lambda d: d["context"]["machine"]["cpu"].update(model="another"),
        "machine/cpu/model",
    ),
    "other threads": (lambda d: d["context"].update(threads=77), "threads: "),
    "another variable": (
        lambda d: d["context"]["environment"]["variables"].update(KMEANS_BENCH_SIMD="sse2"),
        "environment/variables/KMEANS_BENCH_SIMD",
    ),
    "other waiting": (other_waiting, "alike if OMP_WAIT_POLICY=passive is set for each run"),
    "another sampling": (
        lambda d: d["context"]["sampling"].update(processes=9),
        "sampling/processes: 2 and 9",
    ),
    "another spec": (lambda d: d["spec"].update(title="Other"), 'spec/title: "parts" and "Other"'),
    "another plan": (lambda d: d["planned"]["traces"].reverse(), "planned: "),
    "an older form": (lambda d: d.pop("planned"), "does not say what the whole experiment has"),
    "an interrupted run": (
        lambda d: d["context"].update(finished=None),
        "interrupted or still goes on",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_belong_together_is_refused(
    case: str, parts: list[Path], tmp_path: Path
) -> None:
    edit, told = REFUSED[case]
    wrong = edited(parts[1], tmp_path, edit)
    run = kmeans_bench("merge", parts[0], wrong, "--out", tmp_path / "out.json", status=2)
    assert told in run.stderr
    assert "edited.json" in run.stderr
    assert not (tmp_path / "out.json").exists()


def test_other_points_under_one_name_are_refused(parts: list[Path], tmp_path: Path) -> None:
    # Both parts of this cut have cells on the data set of 60 points.
    wrong = edited(parts[1], tmp_path, other_points)
    shared = set(read(parts[0])["context"]["datasets"]) & set(read(wrong)["context"]["datasets"])
    assert shared
    run = kmeans_bench("merge", parts[0], wrong, "--out", tmp_path / "out.json", status=2)
    assert f"{min(shared)}/sha256" in run.stderr


def test_a_cell_in_two_files_is_refused(parts: list[Path], whole: Path, tmp_path: Path) -> None:
    run = kmeans_bench("merge", parts[0], whole, "--out", tmp_path / "o.json", status=2)
    assert "is complete" in run.stderr
    again = tmp_path / "again.json"
    again.write_bytes(parts[0].read_bytes())
    run = kmeans_bench("merge", parts[0], again, "--out", tmp_path / "o.json", status=2)
    assert "in two of them" in run.stderr
    assert names(read(again))[0][0] in run.stderr
    run = kmeans_bench("merge", parts[0], parts[0], "--out", tmp_path / "o.json", status=2)
    assert "is named twice" in run.stderr
    run = kmeans_bench("merge", parts[0], "--out", tmp_path / "o.json", status=2)
    assert "name all parts" in run.stderr


def test_a_wrong_variant_is_reported_in_the_cells_of_other_parts(
    parts: list[Path], tmp_path: Path
) -> None:
    first, second = (names(read(part))[0] for part in parts[:2])
    bad = next(key for key in first if key.startswith("cpu_fused"))

    def spoil(data: dict[str, Any]) -> None:
        cell = next(c for c in data["cells"] if c["key"] == bad)
        assert cell["status"] == "ok"
        cell.update(
            status="wrong",
            reason="spoilt",
            samples_seconds_per_iteration=[],
            seconds_per_iteration=None,
            device_seconds_per_iteration=None,
            gflops=None,
            gflops_2nkd=None,
            gbytes_per_second={"compulsory": None, "as_written": None},
            whole_call_seconds={"1": None, "20": None, "300": None},
            stages={},
            stage_samples_seconds_per_iteration={},
            pace=None,
            noted=[],
            unsteady=[],
        )

    wrong = edited(parts[0], tmp_path, spoil)
    kmeans_bench("merge", wrong, parts[1], "--out", tmp_path / "out.json")
    cells = {c["key"]: c for c in read(tmp_path / "out.json")["cells"]}
    for key in second:
        told = [t for t in cells[key]["noted"] if t.startswith(f"the variant is wrong at {bad}")]
        expected = key.startswith("cpu_fused") and cells[key]["status"] == "ok"
        assert len(told) == int(expected)


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "1/", "a/b", "1/2x", "-1/2", "1/99999999"])
def test_what_is_not_a_part_is_refused(shard: str, experiment: Path, tmp_path: Path) -> None:
    run = kmeans_bench("run", experiment, f"--shard={shard}", "--out", tmp_path, status=2)
    assert "is not a part of a whole" in run.stderr


def test_more_parts_than_problems_are_reported(experiment: Path, tmp_path: Path) -> None:
    run = kmeans_bench("run", experiment, "--shard", "9/9", "--out", tmp_path, status=2)
    assert "fewer problems than parts" in run.stderr
