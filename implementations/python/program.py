# SPDX-License-Identifier: Apache-2.0
"""Any program as a variant: files in, files out (docs/plugins.md).

    PROGRAM POINTS.npy CENTROIDS.npy T OUT

reads n x d points and k x d centroids, runs T Lloyd iterations and writes OUT/centroids.npy (k x d)
and OUT/labels.npy (n whole numbers). In OUT/seconds.txt it may say how long the iterations took by
a clock of its own. Asked ``PROGRAM --describe``, it may print the traits of contract.py as JSON.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING, Any

import contract

if TYPE_CHECKING:
    import numpy as np

#: Each of the two looks at a program may take a third of what its description may take in all: the
#: rest is for this interpreter's start.
LOOK_SECONDS = min(10.0, float(os.environ.get("KMEANS_PLUGIN_SECONDS", "30")) / 3)
#: Of what a program said last, in lines and characters: the reason is seldom the very last line.
ERROR_LINES = 4
ERROR_LENGTH = 400

#: What a program that says nothing of itself is taken for.
ASSUMED = {"summary": "a program: files in, files out", "distance": "expanded", "parallel": True}


class ProgramError(RuntimeError):
    """The program failed, or what it answers is not an answer."""


def last_words(stderr: bytes) -> str:
    """The end of what a program said, on one line without control characters."""
    lines = stderr[-20 * ERROR_LENGTH :].decode(errors="replace").splitlines()
    shown = ("".join(c if c.isprintable() else "?" for c in line.strip()) for line in lines)
    text = " | ".join([line for line in shown if line][-ERROR_LINES:])
    return text if len(text) <= ERROR_LENGTH else "..." + text[-ERROR_LENGTH:]


def _look(command: list[Any], **streams: int) -> subprocess.CompletedProcess[bytes]:
    """Runs it, and ends it with all that it started if it takes longer than a look may."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, start_new_session=True, **streams
    ) as process:
        try:
            out, err = process.communicate(timeout=LOOK_SECONDS)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _call(program: pathlib.Path, words: list[str], is_look: bool = False) -> None:
    command = [program, *words]
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    if is_look:
        run = _look(command, **streams)
    else:
        run = subprocess.run(command, stdin=subprocess.DEVNULL, check=False, **streams)
    if run.returncode != 0:
        said = last_words(run.stderr)
        said = f": {said}" if said else ""
        how = f"signal {-run.returncode}" if run.returncode < 0 else f"exit code {run.returncode}"
        raise ProgramError(f"{program.name} ended with {how}{said}")


def own_traits(program: pathlib.Path) -> dict[str, Any]:
    """What the program says of itself, and else what is assumed."""
    try:
        run = _look([program, "--describe"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        said = json.loads(run.stdout) if run.returncode == 0 else {}
    except (ValueError, subprocess.TimeoutExpired):
        said = {}  # it does not know the word
    return ASSUMED | said if isinstance(said, dict) else ASSUMED


def describe(program: pathlib.Path) -> dict[str, Any]:
    """Its traits after a call on four points, which shows what a call takes outside its clock."""
    import numpy as np

    traits = contract.check_traits(own_traits(program))
    variant = Program(program)
    variant.precision = traits["precisions"][0]
    variant.is_look = True
    dtype = np.float64 if variant.precision == "f64" else np.float32
    points = np.array([[0], [1], [8], [10]], dtype)
    try:
        variant.setup(points, 2, 1)
        variant.reset(points[:2].copy())
        begin = time.perf_counter()
        variant.step(1)
        call = time.perf_counter() - begin
        variant.fetch()
    except subprocess.TimeoutExpired:
        # It may be one that takes other shapes: measuring it will show.
        call = None
    finally:
        variant.close()
    if call is None:
        note = f"a program, whose call on four points did not end within {LOOK_SECONDS:.3g} s"
    elif variant.own_seconds is None:
        note = (
            "whole calls of a program, its start and files included; one iteration on four points "
            f"takes {call * 1e3:.3g} ms"
        )
    else:
        note = (
            "by the program's own clock, of which is checked only that it is within the call; on "
            f"four points a call takes {(call - variant.own_seconds) * 1e3:.3g} ms next to it"
        )
    traits["timing_note"] = "; ".join(filter(None, [traits["timing_note"], note]))
    return traits


class Program(contract.Variant):
    """Runs the program once a step, from the centroids where the step before ended."""

    #: Seconds of the last step by the program's own clock; None without one.
    own_seconds: float | None = None
    #: Is a call a look at the program, which may not take long?
    is_look = False

    def __init__(self, program: pathlib.Path) -> None:
        self._program = program
        self._folder: pathlib.Path | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        #: A file that holds exactly the points, where there is one.
        self.points_file: str | None = None

    def setup(self, points: np.ndarray, k: int, threads: int) -> None:
        import numpy as np

        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="kmeans-bench-program-"))
        # This process may be killed at any time: the guard outlives it and clears up.
        self._guard = subprocess.Popen(
            ["sh", "-c", 'cat >/dev/null; rm -rf -- "$1"', "sh", str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._shapes = {"centroids": (k, points.shape[1]), "labels": (points.shape[0],)}
        if self.points_file is None:
            self.points_file = str(self._folder / "points.npy")
            np.save(self.points_file, points)
        os.environ["KMEANS_THREADS"] = str(threads)

    def reset(self, centroids: np.ndarray) -> None:
        self._centroids = centroids

    def step(self, iterations: int) -> None:
        import numpy as np

        out = self._folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        start = self._folder / "centroids.npy"
        np.save(start, self._centroids)
        begin = time.perf_counter()
        words = [self.points_file, str(start), str(iterations), str(out)]
        _call(self._program, words, self.is_look)
        whole = time.perf_counter() - begin
        self.own_seconds = self._read_clock(out / "seconds.txt", whole)
        self._labels = self._read(out / "labels.npy", "labels")
        found = self._read(out / "centroids.npy", "centroids")
        self._centroids = found.astype(self._centroids.dtype)

    def fetch(self) -> tuple[np.ndarray, np.ndarray]:
        return self._centroids, self._labels

    def close(self) -> None:
        """Ends the guard, which removes the folder."""
        if self._guard is not None:
            self._guard.stdin.close()
            self._guard.wait()

    def _read(self, file: pathlib.Path, what: str) -> np.ndarray:
        import numpy as np

        try:
            array = np.load(file, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise ProgramError(f"{self._program.name} left no {file.name}: {error}") from None
        if array.shape != self._shapes[what]:
            raise ProgramError(
                f"{self._program.name}: {file.name} has shape {array.shape}, "
                f"not {self._shapes[what]}"
            )
        if what == "labels":
            if array.dtype.kind not in "iu":
                raise ProgramError(f"{self._program.name}: labels are {array.dtype}, not integers")
            limits = np.iinfo(np.int32)
            array = np.where((array < 0) | (array > limits.max), -1, array).astype(np.int32)
        return array

    def _read_clock(self, file: pathlib.Path, whole: float) -> float | None:
        if not file.exists():
            return None
        try:
            seconds = float(file.read_text(encoding="utf-8"))
        except ValueError:
            raise ProgramError(f"{self._program.name}: {file.name} is not a number") from None
        if not 0 < seconds <= whole:
            raise ProgramError(
                f"{self._program.name}: its clock says {seconds:g} s of a call that took "
                f"{whole:g} s"
            )
        return seconds
