# SPDX-License-Identifier: Apache-2.0
"""`kmeans-bench best`: a sorted table within a budget, and a command that can be pasted."""

from __future__ import annotations

import json
import re
import resource
import signal
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plots.load import load_result
from tests.support import ROOT, captured

BLOCKS = {"Exact": "exact", "Certified": "certified", "Approximate": "approximate"}
#: A budget that does on any machine: few variants on few points take what they take, not all of it.
PLENTY = "300"
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


@pytest.fixture
def points(bench, tmp_path: Path) -> Path:
    """Points in a folder whose name a shell would take apart."""
    folder = tmp_path / "my points"
    folder.mkdir()
    file = folder / "points.npy"
    made = bench("data", "blobs", "--n", "3000", "--d", "5", "--k", "8", "--out", file)
    assert made.returncode == 0, made.stderr
    return file


def _rows(output: str) -> dict[str, list[list[str]]]:
    """The table's rows by block, each as its columns."""
    blocks: dict[str, list[list[str]]] = {}
    current = None
    for line in output.splitlines():
        title = line.split(":")[0]
        if title in BLOCKS:
            current = blocks.setdefault(title, [])
        elif not line.startswith("  ") or title.startswith("Not measured"):
            current = None
        elif current is not None and not line.startswith("  variant"):
            current.append(re.split(r"\s{2,}", line.strip()))
    return blocks


def _seconds(text: str) -> float:
    number, unit = text.split()
    return float(number) * UNITS[unit]


def _spread(text: str, middle: str) -> list[float]:
    """Both ends, each with a unit of its own or with that of the number before them."""
    if " - " in text:
        return [_seconds(end) for end in text.split(" - ")]
    return [_seconds(f"{end} {middle.split()[1]}") for end in text.split("-")]


def _interval(times: dict[str, Any]) -> list[float]:
    if times["ci95_low"] is None:
        return [times["min"], times["max"]]
    return [times["ci95_low"], times["ci95_high"]]


def _pasted(command: str, folder: Path, bench) -> subprocess.CompletedProcess[str]:
    return captured(["bash", "-c", command], cwd=folder, env=bench.environment(), timeout=900)


def _measured(file: Path) -> dict[str, Any]:
    result = json.loads(file.read_text(encoding="utf-8"))
    schema = json.loads((ROOT / "results" / "schema.json").read_text(encoding="utf-8"))
    jsonschema = pytest.importorskip("jsonschema", reason="without it nothing is checked")
    jsonschema.validate(result, schema)
    return result


def test_the_table_is_sorted_by_kind_and_says_what_the_file_holds(
    bench, points: Path, tmp_path: Path
) -> None:
    file = tmp_path / "best.json"
    chosen = "^(openmp_exact|openmp_hamerly|reference|cpu_naive|cpu_simd|python_sklearn_lloyd)$"
    options = ("--only", chosen, "--seconds", PLENTY, "--iterations", "10")
    run = bench("best", points, "-k", "8", *options, "--json", file)
    assert run.returncode == 0, run.stdout + run.stderr
    result = _measured(file)
    assert result["complete"]
    drawn = load_result(file)
    limits = {cell.variant: cell.limit[0] for cell in drawn.cells}
    cells = {cell["variant"]: cell for cell in result["cells"] if cell["status"] == "ok"}
    # Of processes that disagree the slowest counts.
    counted = {
        name: max(map(statistics.median, cell["samples_seconds_per_iteration"]))
        if cell["unsteady"]
        else cell["seconds_per_iteration"]["median"]
        for name, cell in cells.items()
    }
    fits = {name: cell["setup_seconds"] + 10 * counted[name] for name, cell in cells.items()}

    def fastest(cell: dict[str, Any]) -> float:
        return min(map(statistics.median, cell["samples_seconds_per_iteration"]))

    def by_fit(name: str) -> tuple[bool, float]:
        """Python variants last: theirs is not known."""
        python = name.startswith("python_")
        return python, counted[name] if python else fits[name]

    blocks = _rows(run.stdout)
    assert set(blocks) <= set(BLOCKS)
    assert [row[0] for row in blocks["Exact"]] == sorted(
        (name for name in fits if cells[name]["exact"]), key=by_fit
    )
    assert [row[0] for row in blocks["Certified"]] == sorted(
        (name for name in fits if not cells[name]["exact"]), key=by_fit
    )
    baseline = cells.get("python_sklearn_lloyd")
    for rows in blocks.values():
        for name, precision, iteration, setup, call, share, ratio, processes, answer in rows:
            median = counted[name]
            assert precision == "f32"
            # Three digits are shown.
            form = r"up to (.*) \(from (.*)\)" if cells[name]["unsteady"] else r"(.*) \((.*)\)"
            middle, spread = re.fullmatch(form, iteration).groups()
            assert _seconds(middle) == pytest.approx(median, rel=6e-3)
            if cells[name]["unsteady"]:
                assert _seconds(spread) == pytest.approx(fastest(cells[name]), rel=6e-3)
            else:
                assert _spread(spread, middle) == pytest.approx(
                    _interval(cells[name]["seconds_per_iteration"]), rel=6e-3
                )
            assert _seconds(setup) == pytest.approx(cells[name]["setup_seconds"], rel=6e-3)
            if name.startswith("python_"):
                assert call == "-"
            else:
                assert _seconds(call) == pytest.approx(fits[name], rel=6e-3)
            assert float(share.split()[0]) == pytest.approx(100 * limits[name] / median, rel=6e-3)
            assert int(processes) == cells[name]["processes"]
            assert answer.startswith("exact" if cells[name]["exact"] else "certified, ")
            if baseline is None:
                assert ratio == "-"
            else:
                times = counted["python_sklearn_lloyd"] / median
                assert float(ratio.split()[0]) == pytest.approx(times, rel=6e-3)
    if baseline is None:  # no scikit-learn in this environment: then that is said
        assert "Nothing is held against scikit-learn" in run.stdout
    # What one reads of other runs reads this one too.
    compared = bench("compare", file, file)
    assert compared.returncode == 0, compared.stderr
    # The last line is a command for the first row, with the same problem, and keeps its answer.
    command = run.stdout.splitlines()[-1]
    assert command.endswith(" --out fitted")
    assert f"--variant {blocks['Exact'][0][0]} " in command
    fitted = _pasted(f"{command} --iterations 10 --json", tmp_path, bench)
    assert fitted.returncode == 0, fitted.stderr
    summary = json.loads(fitted.stdout.splitlines()[-1])
    assert summary["label_hash"] == cells[blocks["Exact"][0][0]]["label_hash"]


def test_who_is_unsteady_has_a_row_by_its_slowest_process(
    bench, points: Path, tmp_path: Path
) -> None:
    """Times that are given: by a program whose clock says half as much again in each process."""
    known = tmp_path / "processes"
    known.write_text("")
    clock = f"""
        grep -qx $PPID "{known}" || echo $PPID >>"{known}"
        place=$(grep -nx $PPID "{known}" | cut -d: -f1)
        seconds=$(awk "BEGIN {{ print 0.01 * 1.5 ^ $place }}")
        sleep $seconds
        echo $seconds >"$4/seconds.txt"
    """
    wild = tmp_path / "wild"
    lloyd = ROOT / "examples" / "plugins" / "lloyd.c"
    subprocess.run(["cc", "-O2", "-o", tmp_path / "lloyd", lloyd, "-lm"], check=True)
    wild.write_text(f'#!/bin/sh\n[ $# = 4 ] || exit 2\n"{tmp_path}/lloyd" "$@"\n{clock}\n')
    wild.chmod(0o755)
    file = tmp_path / "best.json"
    options = ("--plugin", wild, "--only", "^wild$", "--seconds", "60", "--iterations", "10")
    run = bench("best", points, "-k", "8", *options, "--json", file)
    assert run.returncode == 0, run.stdout + run.stderr
    (cell,) = _measured(file)["cells"]
    assert cell["unsteady"]
    medians = [statistics.median(one) for one in cell["samples_seconds_per_iteration"]]
    assert len(medians) > 1
    given = [0.01 * 1.5**place / 10 for place in range(1, 20)]
    assert all(any(one == pytest.approx(own, rel=1e-4) for own in given) for one in medians)
    ((name, _, iteration, *_),) = _rows(run.stdout)["Certified"]
    assert name == "wild"
    low, high = min(medians), max(medians)
    found = re.fullmatch(r"up to (.*) \(from (.*)\)", iteration)
    assert found is not None
    assert [_seconds(end) for end in found.groups()] == pytest.approx([high, low], rel=6e-3)
    assert "Its processes disagree (" in run.stdout
    assert "wild: " not in run.stdout.partition("Not measured")[2].partition("\n\n")[0]


def test_it_ranks_by_the_fit_of_these_points(bench, points: Path, tmp_path: Path) -> None:
    """Unless iterations are asked for, as many as `fit` makes until no label changes."""
    file = tmp_path / "best.json"
    options = ("--only", "^(openmp_best|reference)$", "--seconds", PLENTY, "--json", file)
    run = bench("best", points, "-k", "8", *options)
    assert run.returncode == 0, run.stdout + run.stderr
    init = re.search(r", from (\S+), ", run.stdout).group(1)
    fit = bench("fit", points, "-k", "8", "--init", init, "--json")
    summary = json.loads(fit.stdout.splitlines()[-1])
    assert summary["settled"]
    assert summary["variant"] == "openmp_best"  # as `best` says it is without --variant
    length = summary["iterations"]
    assert f"a fit of {length} iterations, after which no label changes" in run.stdout
    cells = json.loads(file.read_text())["cells"]
    assert {cell["iterations"] for cell in cells} == {length}  # small points: time for all of it
    assert {cell["label_hash"] for cell in cells} == {summary["label_hash"]}


def test_generated_points_are_named_and_made_again_by_the_command(bench, tmp_path: Path) -> None:
    options = ("--n", "2e3", "--d", "3", "-k", "6", "--only", "^reference$", "--seconds", PLENTY)
    run = bench("best", *options, "--iterations", "10", "--json", "-", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "generated points, a mixture of overlapping clusters (blobs" in run.stderr
    assert "Only one exact variant was measured, reference (f32): " in run.stderr
    cell = json.loads(run.stdout)["cells"][0]
    pasted = _pasted(run.stderr.splitlines()[-1] + " --iterations 10 --json", tmp_path, bench)
    assert pasted.returncode == 0, pasted.stderr
    assert json.loads(pasted.stdout.splitlines()[-1])["label_hash"] == cell["label_hash"]
    other = bench("best", *options, "--data", "uniform", "--seed", "7", cwd=tmp_path)
    assert "generated points (uniform, high 1.0, low 0.0, seed 7)" in other.stdout


def test_real_points_have_sizes_of_their_own(bench, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    options = ("-k", "10", "--only", "^reference$", "--seconds", PLENTY, "--iterations", "3")
    run = bench("best", "--data", "digits", *options, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "real points (digits): n = 1 797, d = 64, k = 10" in run.stdout.replace("\u00a0", " ")
    some = bench("best", "--data", "digits", "--n", "100", *options, cwd=tmp_path)
    assert "real points (digits): n = 100, d = 64" in some.stdout
    message = bench.refusal("best", "--data", "digits", "-k", "1798")
    assert "-k 1798: must be from 1 to n = 1797 (the points of digits)" in message


def _processor_seconds() -> float:
    """Of all processes that have ended: however busy the machine, it is their own work."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_the_budget_is_kept_and_nobody_is_forgotten(bench, record_property) -> None:
    """How much time each may take, BudgetChooser's tests know by a clock of their own."""
    begin = _processor_seconds()
    size = ("--n", "2e5", "--d", "16", "-k", "50")
    run = bench("best", *size, "--seconds", "4")
    record_property("processor_seconds", _processor_seconds() - begin)
    # So little may suffice for nothing, on a slow machine.
    assert run.returncode in (0, 2), run.stderr
    if run.returncode == 2:
        assert re.search(
            r"nothing was measured within --seconds 4|--seconds 4 is too little", run.stderr
        )
        return
    assert re.search(r": (not reached within|given up after [^:]* end of) --seconds 4", run.stdout)
    known = json.loads(bench("list", "--json").stdout)
    names = {variant["name"] for variant in known["variants"]}
    names |= {name for backend in known["missing_backends"] for name in backend["variants"]}
    words = set(re.findall(r"\w+", run.stdout))
    unnamed = sum(int(count) for count in re.findall(r" and (\d+) more: ", run.stdout))
    assert 0 < len(names - words) <= unnamed


def test_too_little_time_is_refused_with_how_much_would_do(bench) -> None:
    made = set(bench.cache.rglob("*.npy"))
    message = bench.refusal(
        "best", "--n", "5e6", "--d", "64", "-k", "5000", "--seconds", "2", "--only", "cpu_|openmp_"
    )
    assert set(bench.cache.rglob("*.npy")) == made  # neither points nor centroids
    assert re.search(
        r"--seconds 2 .* 1 verified iteration; .*--seconds \d+",
        message,
    )
    assert "is not a number from 1" in bench.refusal("best", "x.npy", "-k", "3", "--seconds", "0")


def test_help_says_that_python_variants_have_no_fit(bench) -> None:
    said = " ".join(bench("best", "--help").stdout.split())
    assert "Python variant" in said
    assert "kmeans-bench run fits" in said


def test_what_is_wrong_is_named_with_what_would_be_right(
    bench, points: Path, tmp_path: Path
) -> None:
    assert "absent.npy" in bench.refusal("best", tmp_path / "absent.npy", "-k", "3")
    message = bench.refusal("best", points, "-k", "3001")
    assert "-k 3001: must be from 1 to n = 3000" in message
    assert "must be from 1 to n = 10" in bench.refusal("best", "--n", "10", "--d", "2", "-k", "11")
    bad = tmp_path / "bad.csv"
    bad.write_text("1,2\n3,nan\n5,6\n", encoding="utf-8")
    assert re.search(r"bad\.csv.*(nan|finite)", bench.refusal("best", bad, "-k", "2"), re.I)
    assert "has its own" in bench.refusal("best", points, "-k", "3", "--d", "5")
    assert "name a file of points" in bench.refusal("best", "-k", "3")
    assert "did you mean 'uniform'" in bench.refusal(
        "best", "--n", "10", "--d", "2", "-k", "2", "--data", "unifrom"
    )
    assert "2e6 is one" in bench.refusal("best", "--n", "1.5", "--d", "2", "-k", "2")
    assert "known: f64" in bench.refusal("best", points, "-k", "2", "--precision", "f31")
    assert "leave no variant" in bench.refusal("best", points, "-k", "2", "--only", "zzz")
    assert "the points" in bench.refusal("best", points, "-k", "2", "--json", points)
    # Of a variant that is not there, the machine lacks something.
    assert "no variant can run" in bench.refusal(
        "best", points, "-k", "2", "--only", "^cpu_naive_2d$", code=3
    )


@pytest.mark.parametrize("lacks", ["tree", "packages"])
def test_without_python_its_variants_are_one_line(
    bench, points: Path, tmp_path: Path, lacks: str
) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n', encoding="utf-8")
    bare.chmod(0o755)
    variable, value, said = {
        "tree": ("KMEANS_BENCH_ROOT", tmp_path / "absent", "Python variants: none, since "),
        "packages": (
            "KMEANS_BENCH_PYTHON",
            bare,
            r"\d+ Python variants \(python_sklearn_lloyd: Python [\d.]+ lacks ",
        ),
    }[lacks]
    only = ("--only", "^reference$|^python_")
    run = bench(
        "best", points, "-k", "8", *only, "--seconds", PLENTY, environment={variable: str(value)}
    )
    assert run.returncode == 0, run.stderr
    listed = (
        run.stdout.split("Not measured (`kmeans-bench list` names all)\n")[1]
        .split("\n\n")[0]
        .splitlines()
    )
    assert len(listed) == 1, listed
    assert re.match(f"  {said}", listed[0])
    assert "Nothing is held against scikit-learn" in run.stdout
    assert run.stdout.splitlines()[-1].startswith(bench.program)


def test_a_quick_look_at_the_ceilings_is_not_kept_for_others(
    bench, points: Path, tmp_path: Path
) -> None:
    file = tmp_path / "best.json"
    cache = tmp_path / "cache"
    only = ("--only", "^reference$", "--seconds", PLENTY, "--json", file)
    run = bench("best", points, "-k", "8", *only, environment={"KMEANS_BENCH_CACHE": str(cache)})
    assert run.returncode == 0, run.stderr
    ceilings = _measured(file)["context"]["ceilings"]
    assert ceilings["fma_gflops"]["f32_all_threads"] > 0
    assert ceilings["gemm_gflops"]["f32"] is None
    assert "quick look" in " ".join(ceilings["details"]["notes"])
    assert not list(cache.glob("machine/*.json"))


def test_a_run_measures_all_ceilings_that_are_not_kept(bench, tmp_path: Path) -> None:
    out, cache = tmp_path / "out", tmp_path / "cache"
    few = ("--only", "^cpu_naive/f32/.*/k5/", "--processes", "1", "--max-seconds", "0.2")
    run = bench(
        "run", "minnaar2019", *few, "--out", out, environment={"KMEANS_BENCH_CACHE": str(cache)}
    )
    assert run.returncode == 0, run.stderr
    context = json.loads((out / "minnaar2019.json").read_text(encoding="utf-8"))["context"]
    assert all(rate > 0 for rate in context["ceilings"]["fma_gflops"].values())
    assert context["ceilings"]["read_gbytes_per_second"] > 0
    assert "quick look" not in " ".join(context["ceilings"]["details"]["notes"])


def test_points_beyond_float32_are_taken_in_float64(bench, tmp_path: Path) -> None:
    file = tmp_path / "large.csv"
    file.write_text("".join(f"{i}e300,{i * i}e300\n" for i in range(40)), encoding="utf-8")
    chosen = ("-k", "4", "--only", "^cpu_naive$", "--seconds", PLENTY)
    message = bench.refusal("best", file, *chosen)
    assert "outside the range of float32" in message
    assert "with --precision f64" in message


def test_points_that_float32_rounds_are_said_to_be_rounded(bench, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    file = tmp_path / "wide.npy"
    np.save(file, rng.random((300, 2)))
    whole = tmp_path / "whole.npy"
    np.save(whole, rng.integers(0, 1000, (300, 2)).astype(np.float64))
    said = "wide.npy holds float64, and is read as float32: point 0 has "
    options = ("-k", "3", "--only", "^cpu_naive$", "--seconds", PLENTY)
    run = bench("best", file, *options, cwd=tmp_path)
    assert said in run.stdout, run.stderr
    assert said in _pasted(run.stdout.splitlines()[-1], tmp_path, bench).stderr
    assert (tmp_path / "fitted" / "labels.npy").exists()
    wide = bench("best", file, *options, "--precision", "f64", cwd=tmp_path)
    assert said not in wide.stdout
    # That folder is somebody's answer now.
    assert wide.stdout.splitlines()[-1].endswith(" --out fitted-2")
    assert "holds float64" not in bench("fit", whole, "-k", "3").stderr


def test_digits_of_a_text_that_float32_rounds_are_said_to_be_rounded(bench, tmp_path: Path) -> None:
    file = tmp_path / "digits.csv"

    def said(*rows: str, drop: str = "0") -> str:
        file.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
        run = bench("fit", file, "-k", "2", "--drop-last", drop)
        assert run.returncode == 0, run.stderr
        return run.stderr

    told = said("0.1,2", "0.25,1.0000001", "123456789,-0.1")
    assert "digits.csv holds more digits than float32" in told
    assert "has 123456789 in column 0, rounded to 123456792" in told
    # Digits by which a float32 is told, few or as many as numpy.savetxt writes.
    assert said("0.1,2.5e-3", f"{np.float32(0.1):.18e},-3.1415927", "7e3,1e-4") == ""
    # What is left out is not looked at.
    assert said("0.1,0.123456789", "2,0.987654321", drop="1") == ""


def test_too_little_time_for_a_small_problem_asks_for_time(bench) -> None:
    run = bench("best", "--n", "1000", "--d", "2", "-k", "3", "--seconds", "1")
    if run.returncode == 2:  # else a second suffices here
        assert re.search(r"--seconds 1; give 15 or more", run.stderr), run.stderr
        assert "fewer" not in run.stderr


def test_an_earlier_file_is_kept(bench, points: Path, tmp_path: Path) -> None:
    file = tmp_path / "best.json"
    file.write_text("mine", encoding="utf-8")
    run = bench(
        "best", points, "-k", "8", "--only", "^reference$", "--seconds", PLENTY, "--json", file
    )
    assert run.returncode == 0, run.stderr
    assert _measured(file)["complete"]
    kept = list(tmp_path.glob("best.json.before-*"))
    assert [one.read_text(encoding="utf-8") for one in kept] == ["mine"]


def test_ctrl_c_ends_with_what_is_known(bench, points: Path, tmp_path: Path) -> None:
    file = tmp_path / "best.json"
    program = subprocess.Popen(
        [bench.program, "best", points, "-k", "8", "--seconds", "300", "--json", file],
        env=bench.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stderr is not None
    for line in program.stderr:  # until one is measured
        if line.startswith("[1/"):
            break
    program.send_signal(signal.SIGINT)
    output, _ = program.communicate(timeout=900)
    assert program.returncode == 130
    blocks = _rows(output)
    result = _measured(file)
    assert not result["complete"]
    timed = [cell["variant"] for cell in result["cells"] if cell["status"] == "ok"]
    assert timed
    assert sorted(row[0] for rows in blocks.values() for row in rows) == sorted(timed)
    assert "not reached: interrupted" in output
    assert " fit " in output.splitlines()[-1]


def test_wrong_answers_hangs_and_crashes_cost_their_line_only(faults, points: Path) -> None:
    only = ("--only", "^(reference|fault_garbage_labels|fault_spins|fault_segfaults)$")
    for seconds in (20, 80, 320):  # the first may not do, where others have the processors
        run = faults("best", points, "-k", "8", *only, "--seconds", str(seconds))
        given_up = rf"^  fault_spins: given up after {seconds // 4} s of --seconds {seconds}$"
        if re.search(given_up, run.stdout, re.M):
            break
    assert run.returncode == 4, run.stdout + run.stderr
    assert re.search(r"^  fault_garbage_labels: WRONG: ", run.stdout, re.M)
    assert re.search(r"^  fault_segfaults: failed: killed by SIGSEGV", run.stdout, re.M)
    assert re.search(given_up, run.stdout, re.M), run.stdout
    timed = [row[0] for rows in _rows(run.stdout).values() for row in rows]
    assert timed == ["reference"]
    assert "--variant reference" in run.stdout.splitlines()[-1]


def test_what_was_measured_is_kept_where_points_are_spoilt(
    faults, points: Path, tmp_path: Path
) -> None:
    file = tmp_path / "best.json"
    message = faults.refusal(
        "best",
        points,
        "-k",
        "8",
        "--seconds",
        PLENTY,
        "--json",
        file,
        "--only",
        "^(reference|fault_writes_its_file)$",
    )
    assert "was written to during the run" in message
    result = _measured(file)
    assert not result["complete"]
    timed = [cell["variant"] for cell in result["cells"] if cell["status"] == "ok"]
    assert timed == ["reference"]
