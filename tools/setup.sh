#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what the suite needs and is not there yet; does nothing, quickly, when all is there.
#
#   tools/setup.sh [--retry] PART...
#     build    compiler, CMake, Ninja and the C++ libraries (apt)
#     python   .venv with the packages of requirements.txt, pinned and hashed (pip)
#     gpu      the packages of requirements-gpu.txt in that .venv, where there is an NVIDIA GPU; what
#              cannot be had is said, and is not an error: the GPU peers in Python are left out
#     data     the packages of requirements-data.txt in that .venv, which hold real points; what cannot
#              be had is said, and is not an error: experiments on these points are skipped
#     browser  Chromium (apt), for the tests that open report and index; without it they are skipped
#     test     Google Benchmark's compare.py (apt), for the test that exports are read by it
#     fuzz     clang and its libFuzzer (apt), for the preset fuzz
#     tsan     clang and LLVM's OpenMP runtime (apt), for the preset tsan
#   --retry    try again to complete a .venv that was made without a package registry
#
# What counts is whether a tool or header is there, not who installed it, so a machine without apt
# or without a network is fine as long as nothing is missing. PYTHON names the interpreter to use.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }

# --- System packages -------------------------------------------------------------------------
# One row a package: name, what proves its presence, and what is lost without it ("-": it is
# required). A proof is tool:NAME, header:PATH, or the name of a function below.
build_packages='
g++                  have_compiler                   -
cmake                have_cmake                      -
ninja-build          tool:ninja                      -
git                  tool:git                        -
make                 tool:make                       -
nlohmann-json3-dev   header:nlohmann/json.hpp        -
libcli11-dev         header:CLI/CLI.hpp              -
libbenchmark-dev     header:benchmark/benchmark.h    -
libgtest-dev         header:gtest/gtest.h            -
libgmock-dev         header:gmock/gmock.h            -
libeigen3-dev        header:eigen3/Eigen/Core        the_eigen_backend
libopenblas-dev      have_openblas                   the_blas_backend
libopenmpi-dev       tool:mpicxx                     the_mpi_backend
openmpi-bin          tool:mpirun                     the_launcher_of_the_mpi_backend
'
python_packages='
python3              have_python                     -
python3-venv         have_venv                       -
python3-dev          have_python_headers             the_Python_package_of_the_library
'
test_packages='
libbenchmark-tools   have_compare_py                 the_test_of_exports_with_compare.py
'
clang_packages='
clang                tool:clang++                    -
libclang-rt-dev      have_clang_runtimes             -
'
tsan_packages='
libomp-dev           have_archer                     -
'

prefixes=(/usr /usr/local)
[ -n "${CONDA_PREFIX:-}" ] && prefixes+=("$CONDA_PREFIX")
IFS=':;' read -r -a more_prefixes <<<"${CMAKE_PREFIX_PATH:-}"
prefixes+=(${more_prefixes[@]+"${more_prefixes[@]}"})

has_tool() { command -v "$1" >/dev/null 2>&1; }

has_header() {
  local prefix
  for prefix in "${prefixes[@]}"; do
    [ -e "$prefix/include/$1" ] && return 0
  done
  return 1
}

have_compiler() { has_tool "${CXX:-c++}" || has_tool g++; }

# version_at_least HAVE WANT, both "major.minor[...]"
version_at_least() {
  local have_major have_minor want_major want_minor
  IFS=. read -r have_major have_minor _ <<<"$1"
  IFS=. read -r want_major want_minor _ <<<"$2"
  ((have_major > want_major || (have_major == want_major && have_minor >= want_minor)))
}

have_cmake() {
  local version
  version=$(cmake --version 2>/dev/null) || return 1
  version=${version#cmake version }
  version_at_least "${version%%[!0-9.]*}" 3.25
}

# By its own header, as cmake/KmeansBlas.cmake looks for it: cblas.h alone may be another library's.
have_openblas() {
  local folder machine
  machine=$(uname -m)-linux-gnu
  for folder in . "$machine" {,"$machine/"}openblas{,-pthread,-openmp,-serial}; do
    has_header "$folder/openblas_config.h" && return 0
  done
  return 1
}

# By any of the names that tests/plots/browser.py looks for, or as CHROMIUM names it.
have_browser() {
  local name
  [ -n "${CHROMIUM:-}" ] && return 0
  for name in chromium chromium-browser google-chrome google-chrome-stable; do
    has_tool "$name" && return 0
  done
  return 1
}

# As tests/python/test_export.py looks for it.
have_compare_py() { [ -f "${COMPARE_PY:-/usr/share/benchmark/compare.py}" ]; }

# Sanitizers and libFuzzer; what informs the thread sanitizer about OpenMP.
have_clang_runtimes() {
  has_tool clang++ && compgen -G "$(clang++ -print-resource-dir)/lib/*/libclang_rt.fuzzer*" >/dev/null
}
have_archer() {
  has_tool clang++ && compgen -G "$(clang++ -print-resource-dir)/../../libarcher.so" >/dev/null
}

# The interpreter that .venv is made from: the first one that is new enough and can make one.
usable_python() {
  local python
  for python in ${PYTHON:+"$PYTHON"} python3 /usr/bin/python3 python3.13 python3.12 python3.11; do
    if "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
      >/dev/null 2>&1; then
      printf '%s\n' "$python"
      return 0
    fi
  done
  return 1
}
have_python() { has_tool python3 || has_tool "${PYTHON:-python3}"; }
# Of the interpreter that .venv is made from, or was.
have_python_headers() {
  local python=.venv/bin/python
  [ -x "$python" ] || python=$(usable_python) || return 1
  "$python" -c 'import pathlib, sys, sysconfig
sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").is_file())' >/dev/null 2>&1
}
have_venv() { [ -x .venv/bin/python ] || usable_python >/dev/null; }

present() {
  case $1 in
    tool:*) has_tool "${1#tool:}" ;;
    header:*) has_header "${1#header:}" ;;
    *) "$1" ;;
  esac
}

# Sets missing (package names) and reads the table on standard input.
collect_missing() {
  local package proof loss
  missing=()
  required=()
  while read -r package proof loss; do
    [ -z "$package" ] && continue
    if ! present "$proof"; then
      missing+=("$package")
      if [ "$loss" = - ]; then
        required+=("$package")
      else
        say "without $package, ${loss//_/ } is left out"
      fi
    fi
  done
}

install_packages() {
  local as_root=(env)
  if ! has_tool apt-get; then
    say "this machine has no apt; the names below are Debian's"
    return 1
  fi
  if [ "$(id -u)" -ne 0 ]; then
    if ! has_tool sudo; then
      say 'neither root nor sudo is available'
      return 1
    fi
    # A terminal may ask for the password; elsewhere sudo must work without one.
    if [ -t 0 ]; then as_root=(sudo env); else as_root=(sudo -n env); fi
  fi
  say "apt-get install $* (log: .setup/apt.log)"
  {
    "${as_root[@]}" apt-get update &&
      "${as_root[@]}" DEBIAN_FRONTEND=noninteractive \
        apt-get install --yes --no-install-recommends "$@"
  } >.setup/apt.log 2>&1 </dev/null || {
    tail -n 5 .setup/apt.log >&2
    return 1
  }
}

setup_system() {
  local table=$1 given_up=.setup/unavailable
  collect_missing <<<"$table" 2>/dev/null
  [ ${#missing[@]} -eq 0 ] && return 0
  # Optional packages that could not be had are not asked for at every call.
  if [ ${#required[@]} -eq 0 ] && [ "$retry" = no ] && [ -f $given_up ] &&
    [ "$(<$given_up)" = "${missing[*]}" ]; then
    return 0
  fi
  mkdir -p .setup
  if install_packages "${missing[@]}"; then
    hash -r
    : >.setup/installed # tools/build.sh configures again
  fi
  collect_missing <<<"$table"
  if [ ${#required[@]} -gt 0 ]; then
    say "missing, and could not be installed from here: ${required[*]}"
    say "as an administrator: apt-get update && apt-get install ${missing[*]}"
    exit 3
  fi
  if [ ${#missing[@]} -gt 0 ]; then printf '%s\n' "${missing[*]}" >$given_up; fi
}

# --- Python ----------------------------------------------------------------------------------
stamp=.venv/.requirements

# wanted_stamp FILE
wanted_stamp() { sha256sum "$1" | cut -d ' ' -f 1; }

registry_answers() {
  local scratch answer=1 package
  package=$(sed -n 's/^\(threadpoolctl==[^ ]*\).*/\1/p' requirements.txt)
  scratch=$(mktemp -d)
  timeout 60 .venv/bin/python -m pip download --quiet --no-deps --timeout 10 --retries 1 \
    --dest "$scratch" "$package" >.setup/pip.log 2>&1 </dev/null && answer=0
  rm -rf "$scratch"
  return $answer
}

# missing_distributions FILE: those it names that .venv lacks, in one line.
missing_distributions() {
  .venv/bin/python - "$1" <<'PYTHON'
import re
import sys
from importlib import metadata

missing = []
for line in open(sys.argv[1], encoding="utf-8"):
    name = re.match(r"[A-Za-z0-9._-]+", line)
    if name:
        try:
            metadata.version(name[0])
        except metadata.PackageNotFoundError:
            missing.append(name[0])
print(" ".join(missing))
PYTHON
}

# Without a registry the interpreter's own packages have to do.
borrow_packages() {
  local python=$1 missing_packages
  "$python" -m venv --clear --without-pip --system-site-packages .venv
  # An interpreter that is itself a virtual environment hands down its base's packages, not its own.
  "$python" -c 'import site, sys
if sys.prefix != sys.base_prefix: print("\n".join(site.getsitepackages()))' \
    >"$(echo .venv/lib/python3*/site-packages)/borrowed.pth"
  missing_packages=$(missing_distributions requirements.in)
  say "no package registry answers (.setup/pip.log), so .venv borrows the packages of $python"
  say "not there: ${missing_packages:-nothing}; what needs them says so when it is used"
  say "versions are not the pinned ones; 'make setup' tries again"
}

# Empty, or the other folder that .venv was made in. Its scripts begin with that absolute path, which a
# copied or moved clone takes along: they would run what lies in the old place, or nothing.
other_place_of_venv() {
  local place
  place=$(sed -n 's/^command = .* -m venv\( --[a-z-]*\)* //p' .venv/pyvenv.cfg 2>/dev/null || true)
  [ -z "$place" ] || [ "$place" -ef .venv ] || printf '%s\n' "$place"
}

# Forgets a .venv of another place, unless it works and there would be nothing to make a new one from.
leave_moved_venv() {
  local given_up=.setup/moved-venv place
  place=$(other_place_of_venv)
  [ -z "$place" ] && return 0
  [ "$retry" = no ] && [ -f $given_up ] && [ "$(<$given_up)" = "$place" ] && return 0
  mkdir -p .setup
  if .venv/bin/python -c '' 2>/dev/null && ! registry_answers; then
    say ".venv was made in $place, with which its scripts begin, and no package registry answers to make"
    say "it again: it stays as it is, and its scripts may run what lies there; 'make setup' tries again"
    printf '%s\n' "$place" >$given_up
    return 0
  fi
  say ".venv was made in $place, with which its scripts begin, so it is made again"
  rm -f .venv/.requirements* $given_up
}

setup_python() {
  local wanted python
  wanted=$(wanted_stamp requirements.txt)
  leave_moved_venv
  if [ -x .venv/bin/python ] && [ -f "$stamp" ]; then
    case $(<"$stamp") in
      "$wanted") return 0 ;;
      "$wanted borrowed") [ "$retry" = no ] && return 0 ;;
    esac
  fi
  if ! python=$(usable_python); then
    say 'no Python of at least 3.11 with the venv module was found (set PYTHON to name one)'
    exit 3
  fi
  mkdir -p .setup
  say "making .venv from $("$python" -c 'import sys; print(sys.executable, sys.version.split()[0])')"
  "$python" -m venv --clear .venv
  if registry_answers; then
    say 'installing the packages of requirements.txt into .venv (log: .setup/pip.log)'
    if ! .venv/bin/python -m pip install --require-hashes --only-binary :all: \
      --disable-pip-version-check -r requirements.txt >.setup/pip.log 2>&1 </dev/null; then
      grep -i -E 'error|hash|no matching' .setup/pip.log | tail -n 8 >&2 || true
      say 'pip could not install requirements.txt; the whole story is in .setup/pip.log'
      say 'if this Python is too new for the pinned versions, name another: PYTHON=python3.12 make setup'
      exit 3
    fi
    printf '%s\n' "$wanted" >"$stamp"
  else
    borrow_packages "$python"
    printf '%s borrowed\n' "$wanted" >"$stamp"
  fi
}

have_gpu() { has_tool nvidia-smi && nvidia-smi --list-gpus 2>/dev/null | grep -q '^GPU '; }

# install_optional NAME WHAT LOSS [OPTION...]: the packages of requirements-NAME.txt, with options of pip.
# Never an error: what needs them is left out, and LOSS says so.
install_optional() {
  local name=$1 what=$2 loss=$3 wanted missing_packages stamp
  local file=requirements-$name.txt log=.setup/pip-$name.log
  shift 3
  stamp=.venv/.requirements-$name
  wanted=$(wanted_stamp "$file")
  if [ -f "$stamp" ]; then
    case $(<"$stamp") in
      "$wanted") return 0 ;;
      "$wanted incomplete") [ "$retry" = no ] && return 0 ;;
    esac
  fi
  mkdir -p .setup
  # A borrowed .venv has no pip of its own; its packages are another interpreter's.
  if .venv/bin/python -m pip --version >/dev/null 2>&1 && registry_answers; then
    say "installing $file ($what) into .venv (log: $log)"
    if .venv/bin/python -m pip install --require-hashes --only-binary :all: "$@" \
      --disable-pip-version-check -r "$file" >"$log" 2>&1 </dev/null; then
      printf '%s\n' "$wanted" >"$stamp"
      return 0
    fi
    grep -i -E 'error|hash|no matching' "$log" | tail -n 8 >&2 || true
    say "pip could not install $file; the whole story is in $log"
  else
    say "no package registry answers, or .venv has no pip, so $file is not installed"
  fi
  missing_packages=$(missing_distributions "requirements-$name.in")
  say "of requirements-$name.in not there: ${missing_packages:-nothing, in versions of its own}"
  say "$loss"
  printf '%s incomplete\n' "$wanted" >"$stamp"
}

setup_gpu() {
  if have_gpu; then
    install_optional gpu 'PyTorch, gigabytes' \
      "GPU variants that need these are left out; 'make setup-gpu' tries again"
  elif [ "$retry" = yes ]; then
    say 'nvidia-smi lists no GPU here, so requirements-gpu.txt is not installed'
  fi
}

# Their files alone are read, so what they would need themselves is not asked for.
setup_data() {
  install_optional data 'real points, 125 MB' \
    "experiments on these points are skipped; 'make setup' tries again" --no-deps
}

# Never an error, and apart from the other packages: not every distribution has it for apt (Ubuntu
# has none), and apt-get installs all of its arguments or nothing.
setup_browser() {
  local given_up=.setup/no-browser
  have_browser && return 0
  [ "$retry" = no ] && [ -f $given_up ] && return 0
  mkdir -p .setup
  if install_packages chromium && hash -r && have_browser; then
    rm -f $given_up
    return 0
  fi
  say 'no Chromium here (package chromium), so the tests that open report and index in a browser are skipped'
  : >$given_up
}

# --- Parts -----------------------------------------------------------------------------------
retry=no
parts=()
for argument in "$@"; do
  case $argument in
    --retry) retry=yes ;;
    build | python | gpu | data | browser | test | fuzz | tsan) parts+=("$argument") ;;
    *)
      say "unknown part '$argument' (build, python, gpu, data, browser, test, fuzz, tsan)"
      exit 2
      ;;
  esac
done
table=
with_python=no
with_gpu=no
with_data=no
with_browser=no
for part in ${parts[@]+"${parts[@]}"}; do
  case $part in
    build) table+=$build_packages ;;
    python)
      table+=$python_packages
      with_python=yes
      ;;
    gpu)
      # Where there is no GPU, not even .venv is made for it.
      with_gpu=yes
      if have_gpu && [ "$with_python" = no ]; then
        table+=$python_packages
        with_python=yes
      fi
      ;;
    data) with_data=yes ;;
    browser) with_browser=yes ;;
    test) table+=$test_packages ;;
    fuzz) table+=$clang_packages ;;
    tsan) table+=$clang_packages$tsan_packages ;;
  esac
done
setup_system "$table"
[ "$with_python" = no ] || setup_python
[ "$with_gpu" = no ] || setup_gpu
[ "$with_data" = no ] || setup_data
[ "$with_browser" = no ] || setup_browser
