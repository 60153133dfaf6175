# SPDX-License-Identifier: Apache-2.0
"""Options, outputs and words at the terminal: nothing is lost, cut to fit, or waited for."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from tests.support import ROOT

RECORDED = ROOT / "results" / "nvidia-h200-x2" / "minnaar2019.json"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A copy of a result file."""
    file = tmp_path / "recorded" / "minnaar2019.json"
    file.parent.mkdir()
    file.write_bytes(RECORDED.read_bytes())
    return file


@pytest.fixture
def points(bench, tmp_path: Path) -> Path:
    file = tmp_path / "points.npy"
    made = bench("data", "blobs", "--n", "60", "--d", "2", "--k", "3", "--out", file)
    assert made.returncode == 0, made.stderr
    return file


# --- Outputs --------------------------------------------------------------------------------------


def test_an_output_that_is_not_a_regular_file_is_written_through(
    bench, recorded: Path, tmp_path: Path
) -> None:
    plain = bench("export", recorded, "--format", "csv").stdout
    assert plain.count("\n") > 10
    through = bench("export", recorded, "--format", "csv", "--out", "/dev/stdout")
    assert through.returncode == 0
    assert through.stdout == plain
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_text(encoding="utf-8")))
    reader.start()
    assert bench("export", recorded, "--format", "csv", "--out", fifo).returncode == 0
    reader.join(20)
    assert read == [plain]
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    before = os.stat("/dev/null")
    if os.access("/dev", os.W_OK):  # who may not replace it cannot show that it is not replaced
        pytest.skip("as this user a failure would break the machine; a pipe was tried")
    assert bench("export", recorded, "--format", "csv", "--out", "/dev/null").returncode == 0
    assert os.stat("/dev/null").st_rdev == before.st_rdev


def test_standard_output_is_continued_not_replaced(bench, recorded: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("w", encoding="utf-8") as stream:
        stream.write("before\n")
        stream.flush()
        done = subprocess.run(
            [bench.program, "export", recorded, "--format", "csv", "--out", "/dev/stdout"],
            stdout=stream,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        stream.write("after\n")
    assert done.returncode == 0
    lines = log.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "before"
    assert lines[-1] == "after"
    assert len(lines) > 10


def test_a_link_is_followed(bench, recorded: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere" / "target.csv"
    target.parent.mkdir()
    link = tmp_path / "link.csv"
    link.symlink_to(Path("elsewhere") / "target.csv")
    for old in (None, "old"):  # a link to nothing, then one to a file
        if old is not None:
            target.write_text(old)
            target.chmod(0o640)
        assert bench("export", recorded, "--format", "csv", "--out", link).returncode == 0
        assert link.is_symlink()
        assert target.read_text(encoding="utf-8").startswith("experiment")
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert [file.name for file in target.parent.iterdir()] == ["target.csv"]
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    assert "symbolic links" in bench.refusal(
        "export", recorded, "--format", "csv", "--out", loop, code=5
    )


def test_an_output_that_is_an_input_is_refused(bench, recorded: Path, points: Path) -> None:
    before = recorded.read_bytes()
    name = str(recorded)
    other_name = str(recorded.parent / ".." / "recorded" / recorded.name)
    for words in (
        ("export", name, "--format", "csv", "--out", other_name),
        ("export", str(recorded.parent), "--format", "csv", "--out", name),
        ("compare", name, name, "--json", other_name),
        ("compare", name, name, "--markdown", name),
        ("reproduce", name, "--json", name),
    ):
        assert "would overwrite" in bench.refusal(*words)
    assert recorded.read_bytes() == before
    folder = points.parent
    for taken in ("labels.npy", "centroids.npy", "summary.json"):
        data = folder / taken
        data.write_bytes(points.read_bytes())
        words = ("fit", data, "-k", "2", "--out", folder)
        if taken != "summary.json":  # no points are read from a .json
            assert f"would overwrite {data}, the points" in bench.refusal(*words)
        assert data.read_bytes() == points.read_bytes()
        data.unlink()
    first = folder / "centroids.npy"
    made = bench("data", "uniform", "--n", "2", "--d", "2", "--out", first)
    assert made.returncode == 0
    kept = first.read_bytes()
    words = ("fit", points, "-k", "2", "--init", first, "--out", folder)
    assert "the initial centroids" in bench.refusal(*words)
    assert first.read_bytes() == kept


def test_two_outputs_to_one_file_are_refused(bench, recorded: Path, tmp_path: Path) -> None:
    message = bench.refusal(
        "compare", recorded, recorded, "--json", "a.txt", "--markdown", "./a.txt", cwd=tmp_path
    )
    assert "--json and --markdown would both" in message
    assert not (tmp_path / "a.txt").exists()


def test_results_do_not_replace_their_experiment(bench, write, experiment) -> None:
    file = write(experiment())
    before = file.read_bytes()
    message = bench.refusal("run", file, "--out", file.parent, "--check-seconds", "0")
    assert "the result file would overwrite" in message
    assert file.read_bytes() == before


def test_points_can_go_to_standard_output(bench) -> None:
    done = subprocess.run(
        [bench.program, "data", "uniform", "--n", "3", "--d", "2", "--out", "-"],
        capture_output=True,
        env=bench.environment(),
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout.startswith(b"\x93NUMPY")
    assert len(done.stdout) == 128 + 3 * 2 * 4
    assert b"sha256" in done.stderr


def test_fit_says_where_it_cannot_write(bench, points: Path) -> None:
    message = bench.refusal("fit", points, "-k", "2", "--out", points, code=5)
    assert f"cannot create the folder {points}" in message


# --- Numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fit", "POINTS", "-k", "2", "--threads", "99999"), "from 1 to 4096"),
        (
            ("fit", "POINTS", "-k", "2", "--threads", "0"),
            "'0' is not a whole number from 1 to 4096",
        ),
        (("verify", "--threads", "40000"), "from 1 to 4096"),
        (("reproduce", str(RECORDED), "--threads", "40000"), "from 1 to 4096"),
        (("run", "minnaar2019", "--threads", "40000"), "from 1 to 4096"),
        (("fit", "POINTS", "-k", "9223372036854775808"), "'9223372036854775808' is not"),
        (("fit", "POINTS", "-k", "0x2"), "'0x2' is not a whole number"),
        (("fit", "POINTS", "-k", "2.5"), "'2.5' is not a whole number"),
        (("fit", "POINTS", "-k", "2", "--iterations", "9" * 20), "from 1 to 2^63 - 1"),
        (("verify", "--at-most", "nan"), "'nan' is not a number above 0"),
        (("reproduce", str(RECORDED), "--at-most", "nan"), "'nan' is not a number above 0"),
        (("run", "minnaar2019", "--patience", "nan"), "'nan' is not a number from 0 to 3600"),
        (("run", "minnaar2019", "--max-seconds", "nan"), "'nan' is not a number from 0.001"),
        (("run", "minnaar2019", "--check-seconds", "nan"), "'nan' is not a number from 0 to 600"),
        (("run", "minnaar2019", "--order-seed", "-1"), "from 0 to 9007199254740992"),
        (("run", "minnaar2019", "--order-seed", "9007199254740993"), "from 0 to 9007199254740992"),
        (("compare", str(RECORDED), str(RECORDED), "--effect", "0x5%"), "give a share such as 5%"),
        (("compare", str(RECORDED), str(RECORDED), "--effect", "nan%"), "give a share such as 5%"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(bench, points: Path, words, said: str) -> None:
    message = bench.refusal(*(points if word == "POINTS" else word for word in words))
    assert said in message
    assert not re.search(r"\d{30}", message)


def test_a_leading_zero_is_not_octal(bench, points: Path) -> None:
    done = bench("fit", points, "-k", "010", "--json", "--iterations", "01")
    assert done.returncode == 0
    assert json.loads(done.stdout.splitlines()[-1])["k"] == 10


# --- Regular expressions --------------------------------------------------------------------------


# --- JSON that is too much ------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["0,", '"a":0,', "[],", '{"":0},'])
def test_megabytes_of_values_are_refused_cheaply(bench, tmp_path: Path, value: str) -> None:
    brackets = "{}" if value.startswith('"') else "[]"
    text = brackets[0] + value * ((15 << 20) // len(value)) + value[:-1] + brackets[1]
    experiment = tmp_path / "demo.json"
    experiment.write_text(text)
    results = tmp_path / "results"
    results.mkdir()
    (results / "demo.json").write_text(
        brackets[0] + value * ((40 << 20) // len(value)) + value[:-1] + brackets[1]
    )
    # A tenth of what either took before it was refused by the number of its values.
    limit = ("prlimit", f"--as={2 << 30}")
    message = bench.refusal("run", experiment, "--dry-run", before=limit)
    assert "demo.json: holds more than 250 000 values" in message
    message = bench.refusal("compare", results / "demo.json", results / "demo.json")
    assert "demo.json: holds more than 5 000 000 values" in message


# --- Words ----------------------------------------------------------------------------------------


def test_verify_that_checked_nothing_says_so(bench) -> None:
    message = bench.refusal("verify", "--only", "^cpu_naive$", "--at-most", "1e-300", code=3)
    assert "nothing was verified" in message


def test_verify_ends_with_a_summary(bench, faults) -> None:
    done = bench("verify", "--only", "^(cpu_naive|reference)$", "--at-most", "100")
    assert done.returncode == 0
    assert done.stdout.endswith("\n2 variants passed\n")
    assert "labels" not in done.stdout
    verbose = bench("verify", "--only", "^cpu_naive$", "--at-most", "100", "--verbose")
    assert "explained by rounding" in verbose.stdout
    wrong = faults("verify", "--only", "^(cpu_naive|fault_repeats_itself)$", "--at-most", "1000")
    assert wrong.returncode == 4, wrong.stdout
    assert wrong.stdout.endswith("\n1 of 2 variants failed\n")
    assert len(re.findall(r"failed \d+ of \d+, first: .*; --verbose for all", wrong.stdout)) >= 1


def test_help_is_a_word_too_and_a_slip_is_answered_first(bench) -> None:
    assert bench("help").stdout == bench("--help").stdout
    assert bench("help", "run").stdout == bench("run", "--help").stdout
    assert bench("help").returncode == 0
    slip = bench("rnu")
    assert slip.returncode == 2
    assert slip.stderr.startswith("unknown 'rnu'; did you mean 'run'?")


def test_names_that_turn_a_terminal_round_are_spelled_out(bench) -> None:
    message = bench.refusal("fit", "a\u202egnp.npy", "-k", "2")
    assert "\u202e" not in message
    assert "a\\u202egnp.npy" in message
    message = bench.refusal("run", "--\x1b[2J")
    assert "\x1b" not in message


def test_the_experiments_are_listed(bench) -> None:
    done = bench("run", "--list")
    assert done.returncode == 0
    names = {line.split()[0] for line in done.stdout.splitlines()}
    shipped = {file.stem for file in (ROOT / "experiments").glob("*.json")} - {"schema"}
    assert names == shipped
    assert "name an experiment" in bench.refusal("run")


def test_one_name_for_the_columns_that_are_left_out(bench, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("1,2,cat\n3,4,dog\n5,6,cat\n")
    for name in ("--drop-last", "--drop-last-columns"):
        assert bench("data", "inspect", table, name, "1").returncode == 0
        assert bench("fit", table, "-k", "2", name, "1").returncode == 0


# --- Experiments from the command line ------------------------------------------------------------


def test_a_run_ends_with_its_times_sorted(bench, write, experiment, tmp_path: Path) -> None:
    file = write(experiment(variants=["reference", "cpu_naive"]))
    done = bench("run", file, "--out", tmp_path / "out", "--check-seconds", "0")
    assert done.returncode == 0, done.stderr
    assert "uniform-100x2-s1, k 3, 3 iterations, f32\n" in done.stdout
    rows = re.findall(r"^  (\w+) +([0-9.]+) (ns|us|ms|s) per iteration$", done.stdout, re.M)
    assert sorted(row[0] for row in rows) == ["cpu_naive", "reference"]
    unit = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
    times = [float(value) * unit[name] for _, value, name in rows]
    assert times == sorted(times)
    assert re.search(r"times faster than|take the same time|times as long as", done.stdout)
    assert re.search(r"by 1 process |[0-9] process(es)? with [0-9]+ sample", done.stdout)


def test_axes_and_variants_can_be_given_by_options(
    bench, write, experiment, tmp_path: Path
) -> None:
    file = write(experiment(variants=["reference"]))
    out = tmp_path / "out"
    quiet = ("--out", str(out), "--check-seconds", "0")
    done = bench("run", file, *quiet, "--add-variant", "cpu_naive", "--k", "2,4", "--n", "50")
    assert done.returncode == 0, done.stderr
    assert not (out / "demo.json").exists()
    result = json.loads((out / "demo-changed.json").read_text(encoding="utf-8"))
    assert {cell["variant"] for cell in result["cells"]} == {"reference", "cpu_naive"}
    assert {(cell["n"], cell["k"]) for cell in result["cells"]} == {(50, 2), (50, 4)}
    assert result["experiment"] == result["spec"]["name"] == "demo-changed"
    assert result["spec"]["variants"] == ["reference", "cpu_naive"]
    assert result["spec"]["scales"]["quick"]["sweep"] == {"n": [50], "d": [2], "k": [2, 4]}
    planned = bench("run", file, "--dry-run", "--variant", "cpu_simd", "--d", "7").stdout
    assert re.findall(r"run +(\S+)", planned) == ["cpu_simd/f32/uniform-100x7-s1/k3/T3/t1"]
    assert "did you mean 'cpu_naive'?" in bench.refusal("run", file, "--add-variant", "cpu_naiv")
    assert "is not a whole number" in bench.refusal("run", file, "--k", "0")


def test_what_a_csv_leaves_open_is_said_every_time(
    bench, write, experiment, tmp_path: Path
) -> None:
    """The second run finds the points in the cache."""
    content = experiment(data={"file": "people.csv"}, init="first")
    content["scales"]["quick"]["sweep"] = {"k": [2]}
    file = write(content)
    (file.parent / "people.csv").write_text("age,label\n1,1\n2,0\n8,1\n", encoding="utf-8")
    for _ in range(2):
        planned = bench("run", file, "--dry-run")
        assert planned.returncode == 0, planned.stderr
        assert planned.stderr.count("column 2 is called 'label'") == 1, planned.stderr


def test_paths_are_relative_to_the_experiment(
    bench, write, experiment, points: Path, tmp_path: Path
) -> None:
    content = experiment(data={"file": "points.npy"}, init="first")
    content["scales"]["quick"]["sweep"] = {"k": [2]}
    file = write(content)
    points = points.rename(file.parent / points.name)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    planned = bench("run", file, "--dry-run", cwd=elsewhere)
    assert planned.returncode == 0, planned.stderr
    assert "note:" not in planned.stderr
    points.rename(elsewhere / "points.npy")
    planned = bench("run", file, "--dry-run", cwd=elsewhere)
    assert planned.returncode == 0, planned.stderr
    assert "that of the current folder is read" in planned.stderr


def test_initial_centroids_that_do_not_fit_are_refused(
    bench, write, experiment, points: Path, tmp_path: Path
) -> None:
    bad = {
        "empty.npy": b"",
        "shape.npy": points.read_bytes(),
        "nan.csv": b"nan,1\n2,3\n4,5\n",
    }
    inits = ["rows:0,1,100", "rows:0,1"]
    for name, content in bad.items():
        (tmp_path / name).write_bytes(content)
        inits.append(str(tmp_path / name))
    for init in inits:
        file = write(experiment(init=init))
        out = tmp_path / "out"
        bench.refusal("run", file, "--out", out, "--check-seconds", "0")


def test_npy_headers_of_old_writers_are_read(bench, tmp_path: Path) -> None:
    for header in (
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 2L), }",
        "{'descr':\t'<f4',\t'fortran_order': False, 'shape':\t(3, 2), }",
    ):
        text = header.ljust(117).encode() + b"\n"
        file = tmp_path / "old.npy"
        file.write_bytes(
            b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(3 * 2 * 4)
        )
        done = bench("data", "inspect", file)
        assert done.returncode == 0, done.stderr
        assert "n       3\nd       2\n" in done.stdout
