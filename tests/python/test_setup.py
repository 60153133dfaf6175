# SPDX-License-Identifier: Apache-2.0
"""What set-up takes for OpenBLAS, which GPUs are compiled for, and a .venv that was moved."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import ROOT, captured

NINJA = shutil.which("ninja")
needs_cmake = pytest.mark.skipif(
    shutil.which("cmake") is None or NINJA is None, reason="needs cmake and ninja"
)

NETLIB = "enum CBLAS_ORDER {CblasRowMajor = 101};\n"
OPENBLAS = '#include "openblas_config.h"\n' + NETLIB

# What a machine has under include/ and lib/, and what CMake then says is missing.
MACHINES = {
    "nothing": ({}, "OpenBLAS (openblas_config.h) was not found"),
    "netlib": (
        {"include/cblas.h": NETLIB, "lib/libblas.so": ""},
        "OpenBLAS (openblas_config.h) was not found",
    ),
    "netlib's header among openblas's": (
        {
            "include/cblas.h": NETLIB,
            "include/openblas_config.h": "",
            "lib/libopenblas.so": "",
        },
        "OpenBLAS's own cblas.h, next to openblas_config.h, was not found",
    ),
    "no library": (
        {"include/openblas/cblas.h": OPENBLAS, "include/openblas/openblas_config.h": ""},
        "OpenBLAS's library (libopenblas) was not found",
    ),
    "both": (
        {
            "include/cblas.h": NETLIB,
            "include/openblas_config.h": "",  # Debian's alternatives, of two libraries
            "lib/libblas.so": "",
            "include/openblas-pthread/cblas.h": OPENBLAS,
            "include/openblas-pthread/openblas_config.h": "",
            "lib/openblas-pthread/libopenblas.so": "",
        },
        "",
    ),
}


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    files, missing = MACHINES[request.param]
    prefix = tmp_path / "usr"
    prefix.mkdir()
    for name, content in files.items():
        (prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (prefix / name).write_text(content, encoding="utf-8")
    return prefix, missing


def run(*command: str | Path, cwd: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    return captured(command, cwd=cwd, env={**os.environ, **changes})


@needs_cmake
def test_cmake_takes_openblas_alone_for_openblas(machine: tuple[Path, str]) -> None:
    prefix, missing = machine
    source = prefix.parent / "source"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(
        f"""cmake_minimum_required(VERSION 3.25)
project(test LANGUAGES NONE)
set(CMAKE_FIND_LIBRARY_PREFIXES lib)
set(CMAKE_FIND_LIBRARY_SUFFIXES .so)
include("{ROOT}/cmake/KmeansBlas.cmake")
message("missing: <${{kmeans_blas_missing}}>")
if(TARGET OpenBLAS::OpenBLAS)
  get_target_property(folder OpenBLAS::OpenBLAS INTERFACE_INCLUDE_DIRECTORIES)
  message("found: <${{folder}}>")
endif()
""",
        encoding="utf-8",
    )
    ran = run(
        "cmake",
        "-GNinja",
        f"-DCMAKE_MAKE_PROGRAM={NINJA}",
        "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF",
        "-DCMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH=OFF",
        "-DCMAKE_FIND_USE_CMAKE_ENVIRONMENT_PATH=OFF",
        f"-DCMAKE_PREFIX_PATH={prefix}",
        source,
        cwd=source,
    )
    assert ran.returncode == 0, ran.stderr
    if missing:
        assert f"missing: <{missing} when the suite was configured" in ran.stderr
        assert "libopenblas-dev" in ran.stderr
        assert "found:" not in ran.stderr
    else:
        assert "missing: <>" in ran.stderr
        assert f"found: <{prefix}/include/openblas-pthread>" in ran.stderr


def test_set_up_installs_openblas_where_only_another_is(machine: tuple[Path, str]) -> None:
    prefix, missing = machine
    script = 'source ./setup.sh --retry; prefixes=("$1"); have_openblas'
    ran = run("bash", "-c", script, "bash", prefix, cwd=ROOT / "tools")
    has_header = list(prefix.glob("include/**/openblas_config.h")) != []
    assert (ran.returncode == 0) == has_header, ran.stderr
    assert has_header or missing


@needs_cmake
def test_what_is_left_out_is_said_at_the_end_of_a_build(tmp_path: Path) -> None:
    (tmp_path / "source" / "blas").mkdir(parents=True)
    (tmp_path / "source" / "blas" / "blas_x.cpp").touch()
    (tmp_path / "source" / "CMakeLists.txt").write_text(
        f"""cmake_minimum_required(VERSION 3.25)
project(kmeans-bench LANGUAGES NONE)
include("{ROOT}/cmake/KmeansBackend.cmake")
kmeans_backend(blas REQUIRES No::Such MISSING "there is none")
kmeans_print_summary()
""",
        encoding="utf-8",
    )
    build = tmp_path / "build"
    configured = run("cmake", "-S", tmp_path / "source", "-B", build, cwd=tmp_path)
    assert configured.returncode == 0, configured.stderr
    assert (build / "left-out.txt").read_text() == "left out: blas, since there is none\n"

    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "build.sh", tmp_path / "tools" / "build.sh")
    (build / "build.ninja").touch()
    (build / "CMakeCache.txt").write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={tmp_path}\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cmake").write_text("#!/bin/sh\necho 'all is built' >&2\n")
    (tmp_path / "bin" / "cmake").chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    built = run("bash", "tools/build.sh", "release", cwd=tmp_path, PATH=path)
    assert built.stderr == "all is built\nbuild: left out: blas, since there is none\n"


# --- For which GPUs kernels are compiled ---------------------------------------------------------

NVCC = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"


@pytest.fixture(scope="module")
def configured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build folder that knows its compilers already: looking at them takes seconds."""
    return tmp_path_factory.mktemp("configured")


needs_nvcc = pytest.mark.skipif(not Path(NVCC).exists(), reason="no CUDA compiler here")


def look_for_cuda(
    folder: Path,
    build: Path,
    *options: str,
    gpus: Sequence[str] = (),
    compiler: str | Path = NVCC,
) -> subprocess.CompletedProcess:
    """cmake/KmeansCuda.cmake alone, on a machine with GPUs of these capabilities."""
    (folder / "bin").mkdir(exist_ok=True)
    smi = folder / "bin" / "nvidia-smi"
    lines = "".join(f"echo {capability}\n" for capability in gpus)
    smi.write_text(f"#!/bin/sh\n{lines or 'exit 9'}\n")
    smi.chmod(0o755)
    (folder / "CMakeLists.txt").write_text(
        f"""cmake_minimum_required(VERSION 3.25)
project(test LANGUAGES CXX)
include("{ROOT}/cmake/KmeansCuda.cmake")
message("cuda: <${{kmeans_has_cuda}}> missing: <${{kmeans_cuda_missing}}>")
message("compiled: <${{CMAKE_CUDA_ARCHITECTURES}}> note: <${{kmeans_cuda_note}}>")
message("flags: <${{kmeans_cuda_quick_flags}}>")
""",
        encoding="utf-8",
    )
    path = f"{smi.parent}:{os.environ['PATH']}"
    return run("cmake", "-B", build, *options, folder, cwd=folder, PATH=path, CUDACXX=compiler)


@needs_cmake
@needs_nvcc
@pytest.mark.parametrize(
    ("gpus", "asked", "compiled"),
    [
        ([], "auto", "75"),
        (["9.0", "9.0", "8.0"], "auto", "90;80"),
        (["9.0"], "80-real;90", "80-real;90"),
    ],
)
def test_kernels_are_for_the_gpus_here_or_for_one_architecture(
    configured: Path, gpus: list[str], asked: str, compiled: str
) -> None:
    options = [f"-DKMEANS_CUDA_ARCHITECTURES={asked}", "-DKMEANS_CUDA_QUICK=ON"]
    ran = look_for_cuda(configured, configured / "b", *options, gpus=gpus)
    assert ran.returncode == 0, ran.stderr
    assert f"compiled: <{compiled}>" in ran.stderr
    assert ("note: <CUDA: no GPU here" in ran.stderr) == (gpus == [])
    if gpus:  # what runs is optimised
        assert "flags: <>" in ran.stderr


@needs_cmake
@needs_nvcc
@pytest.mark.parametrize(
    ("options", "cuda"),
    [
        ([], False),
        (["-DKMEANS_CUDA=ON"], True),
        (["-DKMEANS_CUDA_QUICK=ON"], True),
        (["-DKMEANS_CUDA_ARCHITECTURES=80"], True),
        (["-DKMEANS_LIBRARY_ONLY=ON"], True),
        (["-DKMEANS_CUDA=OFF"], False),
    ],
)
def test_without_a_gpu_cuda_is_compiled_only_if_somebody_asks(
    configured: Path, tmp_path: Path, options: list[str], cuda: bool
) -> None:
    ran = look_for_cuda(configured, tmp_path / "whole", *options)
    assert ran.returncode == 0, ran.stderr
    assert f"cuda: <{'ON' if cuda else 'OFF'}> missing: <" in ran.stderr
    # A compiler that does not work is none, unless CUDA has to be there.
    broken = tmp_path / "nvcc"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    ran = look_for_cuda(configured, tmp_path / "broken", *options, compiler=broken)
    assert (ran.returncode == 0) == ("-DKMEANS_CUDA=ON" not in options), ran.stderr
    assert ran.returncode != 0 or "cuda: <OFF> missing: <" in ran.stderr


# --- .venv --------------------------------------------------------------------------------------


def make_wheel(folder: Path) -> str:
    """A package that installs a script; the line for requirements.txt."""
    folder.mkdir()
    wheel = folder / "threadpoolctl-1.0-py3-none-any.whl"
    info = "threadpoolctl-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("threadpoolctl.py", "def main():\n    print('run')\n")
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: threadpoolctl\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(
            f"{info}/entry_points.txt", "[console_scripts]\nscript = threadpoolctl:main\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return f"threadpoolctl==1.0 \\\n    --hash=sha256:{digest}\n"


def test_venv_of_a_moved_clone_is_made_again_or_kept_with_a_word(tmp_path: Path) -> None:
    clone = tmp_path / "a clone"
    (clone / "tools").mkdir(parents=True)
    shutil.copy(ROOT / "tools" / "setup.sh", clone / "tools" / "setup.sh")
    (clone / "requirements.txt").write_text(make_wheel(tmp_path / "wheels"))
    (clone / "requirements.in").write_text("threadpoolctl\n")

    def set_up(clone: Path, registry: str, *options: str) -> str:
        ran = run(
            "bash",
            "tools/setup.sh",
            *options,
            "python",
            cwd=clone,
            PIP_NO_INDEX="1",
            PIP_FIND_LINKS=registry,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stderr

    wheels = str(tmp_path / "wheels")
    assert "installing the packages" in set_up(clone, wheels)
    assert set_up(clone, wheels) == ""

    moved = tmp_path / "elsewhere"
    clone.rename(moved)
    # Nothing to make it from: it stays, which is said once.
    nothing = str(tmp_path / "nothing")
    assert "it stays as it is" in set_up(moved, nothing)
    assert set_up(moved, nothing) == ""
    assert (moved / ".venv" / "bin" / "script").exists()
    # 'make setup' tries again.
    said = set_up(moved, wheels, "--retry")
    assert f".venv was made in {clone}/.venv" in said
    assert "made again" in said
    assert run(moved / ".venv" / "bin" / "script", cwd=moved).stdout == "run\n"
    assert set_up(moved, wheels) == ""
