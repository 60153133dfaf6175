# SPDX-License-Identifier: Apache-2.0
"""`kmeans-bench advise` on the committed results. How good it is, Advice.* in C++ shows."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.support import ROOT, kmeans_bench, needs_program

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}

pytestmark = needs_program


def advise(*options: str | Path, code: int = 0) -> str:
    """Its answer, or its refusal."""
    run = kmeans_bench("advise", *options, status=code)
    return run.stderr if code else run.stdout


def rows_of(output: str) -> dict[str, list[list[str]]]:
    blocks: dict[str, list[list[str]]] = {}
    for part in output.split("\n\n"):
        title, *lines = part.splitlines()
        if title.split(":")[0] in ("Exact", "Certified", "Approximate"):
            columns = [re.split(r"\s{2,}", line.strip()) for line in lines]
            blocks[title.split(":")[0]] = columns[1:]
    return blocks


def seconds(text: str) -> float:
    number, unit = text.split()
    return float(number) * UNITS[unit]


def test_answers_which_variant_for_a_shape_of_another_machine() -> None:
    output = advise(
        "--n", "2e6", "--d", "96", "-k", "1000", "--machine", ROOT / "results/nvidia-h200"
    )
    blocks = rows_of(output)
    assert list(blocks) == ["Exact", "Certified", "Approximate"]
    for rows in blocks.values():
        calls = [(row[6] == "-", seconds(row[3] if row[6] == "-" else row[6])) for row in rows]
        assert calls == sorted(calls)
        for name, _, _, iteration, factor, setup, call, share, shapes, most in rows:
            # Each is shown by three digits.
            if name.startswith("python_"):
                assert call == "-"  # an interpreter's start is no part of a call
            else:
                whole = seconds(setup) + 100 * seconds(iteration)
                assert seconds(call) == pytest.approx(whole, rel=2e-2), name
            assert float(factor) > 1
            assert float(share.split()[0]) > 0
            assert int(shapes) >= 3
            assert ("far from what is on file" in most) == (float(factor) > 2), name
    assert "nothing was run" in output
    # Of the newest file there that has ceilings of the GPU.
    results = [
        json.loads(file.read_text()) for file in (ROOT / "results/nvidia-h200").glob("*.json")
    ]
    newest = max(
        result["context"]["started"]
        for result in results
        if (result["context"]["ceilings"] or {}).get("gpu")
    )
    assert re.search(rf"; limits as \S+\.json has them, of {newest}$", output.splitlines()[0])
    # The last lines are those of the first row, as a command for that machine.
    first = blocks["Exact"][0]
    sentence, command = output.splitlines()[-2:]
    assert sentence.startswith(
        f"{first[0]} {first[1]}: a fit of 100 iterations is expected to take {first[6]} after its "
        f"seeding, {first[3]} an iteration, within a factor of {first[4]}"
    )
    assert f" -k 1000 --variant {first[0]} --precision {first[1]} " in command
    # Whoever does not take 96 coordinates is not ranked.
    assert re.search(r"^  cpu_naive_2d .*: d = 96: ", output, re.M)
    assert not any(row[0] == "cpu_naive_2d" for rows in blocks.values() for row in rows)
    assert re.search(r"predicted from the others: \d+ times, off by [\d.]+ % in the median", output)


def test_a_time_of_a_run_of_other_length_or_data_is_scaled_and_says_so() -> None:
    shape = ("--n", "1e5", "--d", "2", "-k", "5", "--only", "^openmp_exact$")
    machine = ("--machine", ROOT / "results" / "reference-epyc-2core-avx512")

    def row(*options: str) -> tuple[str, str, str]:
        """Factor, basis, last sentence."""
        output = advise(*shape, *machine, *options)
        found = next(row for row in rows_of(output)["Exact"] if row[2] == "2")
        return found[4], found[-1], output.splitlines()[-2]

    factor, basis, sentence = row("--iterations", "30")
    assert (factor, basis) == ("-", "measured")
    assert "a fit of 30 iterations takes " in sentence
    assert "measured at this shape" in sentence
    assert row() == row("--iterations", "100")
    factor, basis, sentence = row()
    assert basis == "scaled from 30 iterations on blobs from -10.0"
    assert 1 < float(factor) < 1.3
    assert "a fit of 100 iterations is expected to take " in sentence
    assert f", {basis} at this shape, within a factor of {factor}. There" in sentence
    short, basis, _ = row("--iterations", "2")
    assert float(short) > float(factor)
    other, basis, _ = row("--data", "uniform from 0.0", "--iterations", "30")
    assert basis == "scaled from 30 iterations on blobs from -10.0"
    assert float(other) > float(factor)
    assert row("--data", "gaussian", "--iterations", "30")[1] == "measured"
    message = advise(*shape, *machine, "--data", "moons", code=2)
    assert re.search(r"--data 'moons': \S+ has blobs from .*, uniform from 0", message)


def test_who_does_not_fit_on_the_chip_is_left_out_without_that_chip() -> None:
    """By what the files refused: (1e6, 12, 30) is on none of this folder."""
    machine = ROOT / "results" / "nvidia-h200"
    options = ("--only", "^cuda_resident$|^cuda_exact$", "--machine", machine)
    output = advise("--n", "2e6", "--d", "3", "-k", "8", *options)
    reason = re.search(r"^  cuda_resident f32: (.*)$", output, re.M).group(1)
    assert re.fullmatch(r"needs about \S+ KiB on each of 132 multiprocessors, .* 227 KiB", reason)
    output = advise("--n", "2e5", "--d", "3", "-k", "8", *options)
    assert rows_of(output)["Exact"][0][0] == "cuda_resident"


def test_more_clusters_take_longer() -> None:
    def time_of(k: str) -> float:
        machine = ROOT / "results" / "reference-epyc-2core-avx512"
        output = advise(
            "--n", "1e5", "--d", "16", "-k", k, "--machine", machine, "--only", "^cpu_scalar$"
        )
        return seconds(rows_of(output)["Certified"][0][3])

    # Plain code: in proportion, within the factor of two points.
    assert time_of("400") / time_of("40") == pytest.approx(10, rel=0.5)


def test_nobody_who_does_all_the_work_is_faster_than_the_machine() -> None:
    machine = ROOT / "results" / "nvidia-h200"
    output = advise("--n", "1e5", "--d", "100", "-k", "900", "--machine", machine)
    brute = "^(openmp_(exact|simd)|blas_gemm|cuda_(cublas|tensor|atomic)|cpu_naive)$"
    bounded = 0
    for rows in rows_of(output).values():
        for name, _, _, _, _, _, _, share, _, most in rows:
            if re.match(brute, name):
                assert float(share.split()[0]) <= 100.01, name
                bounded += most.startswith("the machine's limit; predicted below it")
    assert bounded > 0, "this shape showed nothing"


def test_who_is_left_out_is_named_with_its_threads() -> None:
    machine = ROOT / "results" / "reference-epyc-2core-avx512"
    output = advise("--n", "2e5", "--d", "16", "-k", "40", "--machine", machine)
    few = re.search(r"^  (.*): measured at fewer than 3 shapes$", output, re.M)
    assert few is not None
    assert "openmp_exact f32, 1 thread" in few.group(1)
    assert re.search(r"^  openmp_exact +f32 +2 ", output, re.M)


def test_what_cannot_be_answered_is_refused(tmp_path: Path) -> None:
    shape = ("--n", "1000", "--d", "2")
    machine = ROOT / "results" / "nvidia-h200-x2"
    message = advise(*shape, "-k", "5", "--machine", tmp_path / "absent", code=2)
    assert "absent does not exist" in message
    assert "-k 1001: must be from 1 to n = 1000" in advise(
        *shape, "-k", "1001", "--machine", machine, code=2
    )
    shutil.copy(machine / "zhihu2023.json", tmp_path)
    assert "enough results" in advise(*shape, "-k", "5", "--machine", tmp_path, code=2)
    assert "2e6 is one" in advise("--n", "many", "--d", "2", "-k", "5", code=2)
