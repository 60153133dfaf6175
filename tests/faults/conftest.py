# SPDX-License-Identifier: Apache-2.0
"""The program as a user runs it, on what a user may get wrong."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import PROGRAM, captured, lend_ceilings, small_experiment


@dataclass(frozen=True)
class Bench:
    """Runs kmeans-bench with a data cache of this test session."""

    program: str
    cache: Path

    def environment(self, changes: Mapping[str, str] | None = None) -> dict[str, str]:
        return {**os.environ, "KMEANS_BENCH_CACHE": str(self.cache), **(changes or {})}

    def other_cache(self, folder: Path) -> dict[str, str]:
        """A data cache without data, but with the machine's ceilings: they take ten seconds."""
        if (self.cache / "machine").is_dir():
            shutil.copytree(self.cache / "machine", folder / "machine")
        return {"KMEANS_BENCH_CACHE": str(folder)}

    def __call__(
        self,
        *arguments: str | Path,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        before: tuple[str, ...] = (),
        timeout: float = 900,  # after which it hangs, however busy the machine
    ) -> subprocess.CompletedProcess[str]:
        """Its outcome; `before` are words ahead of the command, such as prlimit's."""
        return captured(
            [*before, self.program, *map(str, arguments)],
            errors="replace",
            cwd=cwd,
            env=self.environment(environment),
            timeout=timeout,
        )

    def refusal(self, *arguments: str | Path, code: int = 2, **options: Any) -> str:
        """The message of a command that must fail with this exit status."""
        run = self(*arguments, **options)
        assert run.returncode == code, f"exit status {run.returncode}: {run.stdout}{run.stderr}"
        assert "kmeans-bench: unexpected:" not in run.stderr  # an exception that nobody foresaw
        return run.stderr

    def measure(
        self, experiment: Path, out: Path, *options: str, code: int = 0, **more: Any
    ) -> dict[str, Any]:
        """Runs an experiment file for real and gives the result file."""
        run = self("run", experiment, "--out", out, *options, **more)
        assert run.returncode == code, f"exit status {run.returncode}: {run.stdout}{run.stderr}"
        return json.loads((out / f"{experiment.stem}.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    if not PROGRAM:
        pytest.skip("there is no program")
    return Bench(PROGRAM, lend_ceilings(tmp_path_factory.mktemp("cache")))


def _experiment(**changes: Any) -> dict[str, Any]:
    sweep = {"n": [100], "d": [2], "k": [3]}
    return small_experiment("demo", ["reference"], {"sweep": sweep}) | changes


@pytest.fixture
def experiment() -> Callable[..., dict[str, Any]]:
    """A small experiment, good as it is; its top-level keys can be replaced."""
    return _experiment


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes an experiment (its text, or a dict) under its name and gives the path."""

    def write_experiment(content: str | dict[str, Any], name: str = "") -> Path:
        if isinstance(content, dict):
            name = name or str(content["name"])
            content = json.dumps(content, indent=1)
        # Results of the same name may go to the folder itself.
        file = tmp_path / "experiments" / f"{name or 'demo'}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(content, encoding="utf-8")
        return file

    return write_experiment


@pytest.fixture(scope="session")
def faults(bench: Bench) -> Bench:
    """The program with the misbehaving variants."""
    beside = Path(bench.program).with_name("kmeans-bench-faults")
    program = Path(os.environ.get("KMEANS_BENCH_FAULTS") or beside)
    if not program.exists():
        pytest.skip(f"{program.name} is not built")
    if re.search(
        r"^ *build .* with (address|thread|undefined)",
        bench("machine", "--no-ceilings").stdout,
        re.M,
    ):
        pytest.skip("a build with sanitizers ends at such faults itself")
    return replace(bench, program=str(program))


@pytest.fixture
def control_group() -> Iterator[Callable[..., tuple[str, ...]]]:
    """Makes control groups with limits, and gives the words that start a program in one.

    Their files have other names in version 1, where each controller has a folder of its own, and
    in version 2. Skips the test where groups cannot be made or entered.
    """
    made: list[Path] = []

    def make(controller: str, old: Mapping[str, str], new: Mapping[str, str]) -> tuple[str, ...]:
        root = Path("/sys/fs/cgroup")
        first = root / controller
        version_1 = (first / next(iter(old))).exists()
        group = (first if version_1 else root) / f"kmeans-bench-test-{os.getpid()}-{len(made)}"
        try:
            group.mkdir()
            made.append(group)
            for name, value in (old if version_1 else new).items():
                (group / name).write_text(value)
        except OSError:
            pytest.skip("control groups cannot be made here")
        inside = ("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh")
        if subprocess.run([*inside, "true"], capture_output=True).returncode != 0:
            pytest.skip("control groups cannot be entered here")
        return inside

    yield make
    for group in made:
        for _ in range(50):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)
