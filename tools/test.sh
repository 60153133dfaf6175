#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the C++ tests (CTest) and the Python tests (pytest), and ends with both runners' own counts.
# BUILD names the build folder: build, or build-PRESET. A preset knows the environment that its tests
# need. Under sanitizers the C++ tests alone run. The Python tests run in two halves side by side: of
# what draws, and of what measures.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

build=${BUILD:-build}
logs=$build/test-logs
mkdir -p "$logs"

preset=release
[[ $build == build-* ]] && preset=${build#build-}
ctest --preset "$preset" --no-tests=error --parallel 2 | tee "$logs/ctest.log"
ctest_status=${PIPESTATUS[0]}

export KMEANS_BENCH=$PWD/$build/kmeans-bench
# Where there is no browser, the tests in one are left out, and the summary says so.
PYTHONPATH=tests/plots .venv/bin/python -c 'import browser; exit(browser.find() is None)' ||
  export KMEANS_BENCH_SKIP=${KMEANS_BENCH_SKIP:+$KMEANS_BENCH_SKIP,}browser
drawing_status=0
measuring_status=0
case $preset in
  dev | tsan)
    echo 'not run: the C++ tests alone run under sanitizers' |
      tee "$logs/pytest-drawing.log" >"$logs/pytest-measuring.log"
    ;;
  *)
    .venv/bin/python -m pytest -rs -p no:cacheprovider tests/plots >"$logs/pytest-drawing.log" 2>&1 &
    drawing=$!
    .venv/bin/python -m pytest -rs --ignore tests/plots tests | tee "$logs/pytest-measuring.log"
    measuring_status=${PIPESTATUS[0]}
    wait "$drawing" || drawing_status=$?
    cat "$logs/pytest-drawing.log"
    ;;
esac

gpu_tests=$(ctest --test-dir "$build" --show-only --label-regex '^gpu$' 2>/dev/null |
  sed -n 's/^Total Tests: //p')
if [ "${gpu_tests:-0}" -eq 0 ]; then
  gpu_note='0 built'
  command -v nvcc >/dev/null 2>&1 || gpu_note+=' (no CUDA compiler here)'
elif ! command -v nvidia-smi >/dev/null 2>&1; then
  gpu_note="$gpu_tests skipped (no GPU here)"
else
  gpu_note="$gpu_tests run"
fi

echo
echo '== Summary'
grep -E '% tests passed|tests failed out of' "$logs/ctest.log" | sed 's/^/CTest:     /'
tail -q -n 1 "$logs/pytest-measuring.log" "$logs/pytest-drawing.log" | sed 's/^/pytest:    /'
echo "GPU tests: $gpu_note"
grep -q "no Chromium here" "$logs/pytest-drawing.log" && echo 'Browser:   skipped (no Chromium here)'
[ "$ctest_status" -eq 0 ] && [ "$measuring_status" -eq 0 ] && [ "$drawing_status" -eq 0 ]
