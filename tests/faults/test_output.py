# SPDX-License-Identifier: Apache-2.0
"""Disks, folders, terminals, clocks and names that are not what one would wish."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT, captured, small_experiment

sys.path.insert(0, str(ROOT))

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def tiny(experiment, write):
    """Writes an experiment of three small cells and gives its path."""

    def write_tiny(name: str = "demo", **scale: Any) -> Path:
        content = experiment(name=name, variants=["reference", "cpu_naive", "cpu_simd"])
        content["scales"]["quick"].update(scale)
        return write(content)

    return write_tiny


def options(file: Path, out: Path, *more: str) -> list[str]:
    return ["run", str(file), "--out", str(out), "--check-seconds", "0", *more]


def journal_cells(out: Path, name: str = "demo") -> list[str]:
    journal = out / f"{name}.journal.jsonl"
    if not journal.exists():
        return []
    lines = [json.loads(line) for line in journal.read_text().split("\n")[:-1]]
    return [line["cell"] for line in lines if "cell" in line]


def everything_in(folder: Path) -> str:
    return "\n".join(
        file.read_text(encoding="utf-8", errors="replace")
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    )


@contextlib.contextmanager
def mounted(folder: Path, settings: str) -> Iterator[Path]:
    """A file system in memory; skips the test where mounting is not allowed."""
    folder.mkdir(exist_ok=True)
    mount = (
        captured(["mount", "-t", "tmpfs", "-o", settings, "tmpfs", folder])
        if shutil.which("mount")
        else None
    )
    if mount is None or mount.returncode != 0:
        pytest.skip("mounting a file system is not allowed here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=False)


def remount(folder: Path, settings: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{settings}", folder], check=True)


# --- Disks and folders ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def steady(bench, tmp_path_factory) -> tuple[Path, int]:
    """An experiment of a dozen cells, and the bytes of its journal when nothing is in the way."""
    folder = tmp_path_factory.mktemp("steady")
    sweep = {"n": [100], "d": [2], "k": [2, 3, 4, 5]}
    content = small_experiment("demo", ["reference", "cpu_naive", "cpu_simd"], {"sweep": sweep})
    file = folder / "demo.json"
    file.write_text(json.dumps(content))
    bench.measure(file, folder / "out", "--check-seconds", "0")
    return file, (folder / "out" / "demo.journal.jsonl").stat().st_size


def check_resumed(bench, file: Path, out: Path, before: list[str]) -> None:
    """A run that ended for want of space goes on where it was."""
    assert bench(*options(file, out, "--resume")).returncode == 0
    result = json.loads((out / "demo.json").read_text())
    assert result["complete"]
    assert len(result["cells"]) == 12
    assert {cell["status"] for cell in result["cells"]} == {"ok"}
    after = journal_cells(out)
    assert after[: len(before)] == before
    assert len(after) == len(set(after)) == 12


def test_a_full_disk_keeps_what_was_measured(bench, steady, tmp_path):
    file, journal_bytes = steady
    with mounted(tmp_path / "small", f"size={max(3, journal_bytes * 6 // 10 // 4096) * 4}k") as out:
        message = bench.refusal(*options(file, out), code=5)
        assert "No space left on device" in message
        before = journal_cells(out)
        assert 1 <= len(before) < 12
        if (out / "demo.json").exists():
            assert not json.loads((out / "demo.json").read_text())["complete"]
        remount(out, "size=16m")
        check_resumed(bench, file, out, before)


def test_a_limit_on_file_sizes_is_a_full_disk(bench, steady, tmp_path):
    file, journal_bytes = steady
    limit = journal_bytes // 2
    run = captured(
        [bench.program, *options(file, tmp_path / "out")],
        env=bench.environment(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert run.returncode == 5, run.stderr
    assert "File too large" in run.stderr
    before = journal_cells(tmp_path / "out")
    assert 1 <= len(before) < 12
    check_resumed(bench, file, tmp_path / "out", before)


#: What a run says before it measures anything.
MEASURING = "looking up its measured ceilings"


def test_a_file_in_place_of_the_folder_is_found_first(bench, tiny, tmp_path):
    (tmp_path / "occupied").write_text("a file")
    cache = tmp_path / "cache"
    run = bench(
        *options(tiny(), tmp_path / "occupied" / "out"),
        environment={"KMEANS_BENCH_CACHE": str(cache)},
    )
    assert run.returncode == 5, run.stderr
    assert "cannot create the folder" in run.stderr
    assert (tmp_path / "occupied").read_text() == "a file"
    # Nothing was measured: no ceilings, no points, no cell.
    assert MEASURING not in run.stderr
    assert not cache.exists()
    assert run.stdout == ""
    # It would have been: these words are those of a run that measures.
    good = bench(*options(tiny(), tmp_path / "free"))
    assert good.returncode == 0, good.stderr
    assert MEASURING in good.stderr


def test_a_read_only_folder_is_found_first(bench, tiny, tmp_path):
    with mounted(tmp_path / "fixed", "size=1m,ro") as out:
        message = bench.refusal(*options(tiny(), out), code=5)
    assert "Read-only file system" in message
    assert MEASURING not in message  # nothing was measured


def test_a_folder_without_permission_is_found_first(bench, tiny, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    (tmp_path / "closed").mkdir(mode=0o555)
    message = bench.refusal(*options(tiny(), tmp_path / "closed"), code=5)
    assert "Permission denied" in message
    assert MEASURING not in message


def test_a_full_folder_for_job_files_is_reported(bench, tiny, tmp_path):
    file = tiny()
    with mounted(tmp_path / "jobs", "size=4k,nr_inodes=3") as jobs:
        (jobs / "filler").write_text("x")
        run = bench(*options(file, tmp_path / "out"), environment={"TMPDIR": str(jobs)})
    assert run.returncode == 5, run.stderr
    assert "No space left on device" in run.stderr


# --- Terminals ------------------------------------------------------------------------------------


def test_a_reader_that_had_enough_is_not_a_failure(bench):
    for ignored in (False, True):  # as shells leave SIGPIPE, and as some CI systems do
        process = subprocess.Popen(
            [bench.program, "list", "--json"],
            env=bench.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            restore_signals=not ignored,
        )
        process.stdout.close()
        message = process.stderr.read().decode()
        process.wait(60)
        assert message == ""
        assert process.returncode in ((0,) if ignored else (0, -13))


def test_a_run_survives_a_closed_standard_output(bench, tiny, tmp_path):
    process = subprocess.Popen(
        [bench.program, *options(tiny(), tmp_path)],
        env=bench.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    process.stderr.close()  # nobody listens at all
    assert process.wait(120) == 0
    assert json.loads((tmp_path / "demo.json").read_text())["complete"]


def test_output_that_does_not_arrive_is_an_error(bench):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [bench.program, "list", "--json"], env=bench.environment(), stdout=full,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    assert run.returncode == 5
    assert "standard output could not be written" in run.stderr


def test_progress_is_plain_lines_without_a_terminal(bench, tiny, tmp_path):
    run = bench(*options(tiny(), tmp_path))
    assert run.returncode == 0
    assert "\r" not in run.stderr
    assert "\x1b" not in run.stderr
    done = re.findall(r"^\[(\d+)/3\] demo: \S+/f32/", run.stderr, re.MULTILINE)
    assert [int(number) for number in done] == [1, 2, 3]


def test_progress_is_one_line_on_a_terminal(bench, tiny, tmp_path):
    reader, writer = pty.openpty()
    process = subprocess.Popen(
        [bench.program, *options(tiny(), tmp_path)],
        env=bench.environment(),
        stdout=subprocess.DEVNULL,
        stderr=writer,
    )
    os.close(writer)
    shown = b""
    with contextlib.suppress(OSError):  # EIO: the other side was closed
        while part := os.read(reader, 65536):
            shown += part
    os.close(reader)
    assert process.wait(120) == 0
    assert shown.count(b"\r\x1b[K[") >= 3


# --- Clocks ---------------------------------------------------------------------------------------

BACKWARDS = r"""
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
/* A wall clock that goes back by an hour whenever somebody looks at it. */
static long long seconds = 1800000000;
int clock_gettime(clockid_t clock, struct timespec* now) {
  if (clock != CLOCK_REALTIME) return (int)syscall(SYS_clock_gettime, clock, now);
  seconds -= 3600;
  now->tv_sec = seconds;
  now->tv_nsec = 0;
  return 0;
}
time_t time(time_t* now) {
  seconds -= 3600;
  if (now) *now = seconds;
  return seconds;
}
int gettimeofday(struct timeval* now, void* zone) {
  (void)zone;
  now->tv_sec = time(0);
  now->tv_usec = 0;
  return 0;
}
"""


def test_a_wall_clock_that_goes_backwards_changes_no_duration(bench, tiny, tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    source = tmp_path / "backwards.c"
    source.write_text(BACKWARDS)
    shim = tmp_path / "backwards.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", shim, source], check=True)
    file = tiny(processes=2)
    changes = {"LD_PRELOAD": str(shim)}
    for _ in range(2):  # the second moves the first one's journal aside, by its time stamp
        run = bench(*options(file, tmp_path / "out"), environment=changes)
        assert run.returncode == 0, run.stderr
    result = json.loads((tmp_path / "out" / "demo.json").read_text())
    stamp = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    assert re.fullmatch(stamp, result["context"]["started"])
    assert result["context"]["finished"] < result["context"]["started"]  # the clock did go back
    for cell in result["cells"]:
        assert cell["status"] == "ok", cell["reason"]
        samples = cell["samples_seconds_per_iteration"]
        assert all(0 < sample < 3600 for process in samples for sample in process)
    journal = (tmp_path / "out" / "demo.journal.jsonl").read_text().splitlines()
    seconds = [line["wall_seconds"] for line in map(json.loads, journal) if "cell" in line]
    assert all(0 < value < 3600 for value in seconds)


# --- Names, environment ---------------------------------------------------------------------------


def test_a_hostile_host_name_is_never_asked_for(bench, tiny, tmp_path):
    # Not by hostname(1), which refuses such names; the kernel takes them.
    rename = f"printf %s '{HOSTILE}' > /proc/sys/kernel/hostname"
    before = ("unshare", "--uts", "sh", "-c", f'{rename} && exec "$@"', "sh")
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here")
    if subprocess.run([*before, "true"], capture_output=True).returncode != 0:
        pytest.skip("a namespace of its own is not allowed here")
    run = bench(*options(tiny(), tmp_path / "out"), before=before)
    assert run.returncode == 0, run.stderr
    assert "alert(1)" not in everything_in(tmp_path / "out")
    assert "alert(1)" not in run.stdout + run.stderr


SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "xyzzy-cloud",
    "GITHUB_TOKEN": "xyzzy-forge",
    "OPENBLAS_TOKEN": "xyzzy-blas",
    "KMEANS_BENCH_PASSWORD": "xyzzy-own",
    "USER": "xyzzy-user",
    "LOGNAME": "xyzzy-user",
    "SSH_CONNECTION": "xyzzy-address",
    "http_proxy": "http://xyzzy-proxy@example.org",
}


def test_secrets_and_names_of_users_are_not_recorded(bench, tiny, tmp_path):
    home = tmp_path / "xyzzy-home"
    home.mkdir()
    changes = {**SECRETS, "HOME": str(home), "OMP_TOOL_LIBRARIES": f"{home}/lib/tool.so"}
    out = home / "results"
    run = bench(*options(tiny(), out), environment=changes)
    assert run.returncode == 0, run.stderr
    written = everything_in(out)
    assert "xyzzy" not in written
    # What may be recorded is, without its folder.
    variables = json.loads((out / "demo.json").read_text())["context"]["environment"]["variables"]
    assert variables["OMP_TOOL_LIBRARIES"] == "tool.so"
    assert not {name for name in variables if name in SECRETS}


def test_invalid_utf8_in_paths_and_variables_is_replaced(bench, tiny, tmp_path):
    folder = os.fsencode(tmp_path) + b"/caf\xe9\x1b[31m"
    os.mkdir(folder)
    run = subprocess.run(
        [bench.program.encode(), *[os.fsencode(word) for word in options(tiny(), tmp_path)[:2]],
         b"--check-seconds", b"0", b"--out", folder],
        env={**bench.environment(), "OPENBLAS_VERBOSE": "\udcff\udcfe"},
        capture_output=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    text = Path(os.fsdecode(folder), "demo.json").read_bytes().decode("utf-8")  # it is valid
    result = json.loads(text)
    assert result["context"]["environment"]["variables"]["OPENBLAS_VERBOSE"] == "\ufffd\ufffd"
    assert "caf" in result["context"]["command_line"]


def test_control_characters_of_a_path_do_not_reach_the_terminal(bench, tmp_path):
    hostile = "\x1b]0;owned\x07\x9b31m.json"
    for command in (["run", hostile], ["fit", hostile, "-k", "2", "--variant", "reference"]):
        message = bench.refusal(*command, cwd=tmp_path)
        assert "\x1b" not in message
        assert "\x07" not in message
        assert "\\x1b]0;owned" in message


# --- Readers of results ---------------------------------------------------------------------------


def test_results_do_not_need_python_at_all(bench, tiny, tmp_path):
    # No interpreter, no libraries: measuring and its files do not depend on what draws them.
    run = bench(
        *options(tiny(), tmp_path / "out"),
        environment={"PATH": "/nonexistent", "KMEANS_BENCH_PYTHON": "/nonexistent/python3"},
    )
    assert run.returncode == 0, run.stderr
    assert json.loads((tmp_path / "out" / "demo.json").read_text())["complete"]


def test_where_results_last_went_is_kept_for_the_index(bench, tiny, tmp_path):
    """And a cache in which that cannot be written costs nothing."""
    first, second = tmp_path / "first", tmp_path / "second"
    few = ("--processes", "1", "--repetitions", "1")
    assert bench(*options(tiny(), first, *few)).returncode == 0
    kept = bench.cache / "last-measured"
    assert kept.read_text() == f"{first}\n"
    kept.unlink()
    kept.mkdir()
    try:
        assert bench(*options(tiny(), second, *few)).returncode == 0
    finally:
        kept.rmdir()
    assert (second / "demo.json").is_file()
