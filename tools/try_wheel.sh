#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What people install: makes an sdist of the library's Python package, from that alone a wheel, and tries the
# wheel in a fresh environment, with the tests that a package as built passes, or those that are named:
# tools/try_wheel.sh [OUT [TEST...]]
# CMAKE_ARGS as for tools/build.sh, e.g. CMAKE_ARGS=-DKMEANS_CUDA=OFF. The environment borrows the packages
# of .venv, so no registry is asked.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

out=${1:-build/wheel}
tests=("${@:2}")
[ ${#tests[@]} -gt 0 ] || tests=(tests/python/test_library*.py)
if [ -e "$out" ] && [ ! -e "$out/scratch" ] && { [ ! -d "$out" ] || [ -n "$(ls -A "$out")" ]; }; then
  echo "try_wheel: $out is there and not of an earlier run; name a folder to be made" >&2
  exit 2
fi
rm -rf "$out"
mkdir -p "$out/scratch"
out=$(cd "$out" && pwd)
python=$root/.venv/bin/python

"$python" -c 'import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])' \
  "$out" >"$out/sdist.log" 2>&1 || { cat "$out/sdist.log" >&2 && exit 1; }
sdist=$(ls "$out"/kmeans_exact-*.tar.gz)
# Elsewhere than in the clone, so that nothing of it is found by chance.
(cd "$out/scratch" && "$python" -m pip wheel "$sdist" --verbose --no-deps --no-build-isolation \
  --disable-pip-version-check --wheel-dir "$out" >"$out/wheel.log" 2>&1) ||
  { tail -n 40 "$out/wheel.log" >&2 && exit 1; }
wheel=$(ls "$out"/kmeans_exact-*.whl)
grep -E '^ *-- kmeans_exact: ' "$out/wheel.log" | sed 's/^ *-- //'

"$python" -m venv "$out/fresh"
"$python" -c 'import site; print(*site.getsitepackages(), sep="\n")' \
  >"$(ls -d "$out"/fresh/lib/python3*/site-packages)/borrowed.pth"
fresh=$out/fresh/bin/python
"$fresh" -m pip install --quiet --no-index --no-deps --disable-pip-version-check "$wheel"
# Of borrowed packages some are there without what they need: real points are read as files.
if "$fresh" -m pip check --disable-pip-version-check | grep -i '^kmeans.exact '; then exit 1; fi
(cd "$out/scratch" && "$fresh" -m kmeans_exact)
for file in "$sdist" "$wheel"; do printf '%s: %s bytes\n' "${file##*/}" "$(stat -c %s "$file")"; done
KMEANS_EXACT_INSTALLED=1 KMEANS_BENCH_SKIP=${KMEANS_BENCH_SKIP:-program,browser} "$fresh" -m pytest -p no:cacheprovider \
  "${tests[@]}"
