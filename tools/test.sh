#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the C++ tests (CTest) and the Python tests (pytest), and ends with both runners' own counts.
# BUILD names the build folder: build, or build-PRESET. A preset knows the environment that its tests
# need. Under sanitizers the C++ tests alone run. A Python test file that was not run fails.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

build=${BUILD:-build}
logs=$build/test-logs
mkdir -p "$logs"

preset=release
[[ $build == build-* ]] && preset=${build#build-}
export KMEANS_BENCH=$PWD/$build/kmeans-bench
# Where there is no browser, the tests in one are left out, and the summary says so.
PYTHONPATH=tests/plots .venv/bin/python -c 'import browser; exit(browser.find() is None)' ||
  export KMEANS_BENCH_SKIP=${KMEANS_BENCH_SKIP:+$KMEANS_BENCH_SKIP,}browser
# Ceilings that something disturbs are not kept, and tests side by side, or a neighbour, disturb them: each
# run of the program would measure them again, ten seconds on all processors. So the tests have a cache of
# their own, with ceilings by a clock after which nothing was disturbed.
case $preset in
  dev | tsan) ;;
  *)
    export KMEANS_BENCH_CACHE=$PWD/$build/test-cache
    LD_PRELOAD=$PWD/$build/tests/libfake_undisturbed.so "$KMEANS_BENCH" machine >"$logs/machine.log" 2>&1
    ;;
esac
# More than most machines of CI have cores: a third of the time is waiting.
ctest --preset "$preset" --no-tests=error --parallel 4 | tee "$logs/ctest.log"
ctest_status=${PIPESTATUS[0]}

# pytest-xdist shares the files out. Ranks of MPI wait by polling, and slow down whatever runs with them: they
# go first, with the figures, which only take longer then. More processes than processors, since each waits
# for a good part of its time, and threads of OpenMP sleep while they wait where others share the cores.
first=(tests/python/test_ranks.py tests/faults/test_rank_faults.py tests/plots/test_figures.py)
# Then those that take longest, which would hold up the end.
longest=(tests/python/test_wheel.py tests/plots/test_pack.py tests/plots/test_leaderboard.py
  tests/python/test_library_process.py tests/plots/test_experiments.py tests/python/test_ci_files.py
  tests/plots/test_comparison.py tests/python/test_library_cosine.py tests/faults/test_best.py
  tests/python/test_setup.py tests/plots/test_browser.py tests/plots/test_report.py tests/faults/test_data.py
  tests/python/test_fits.py tests/faults/test_process.py)
pytest_status=0
run_pytest() {
  local processes=$1 log=$logs/pytest-$2.log
  shift 2
  # A .venv with borrowed packages may lack it: then one after the other.
  .venv/bin/python -c 'import xdist' 2>/dev/null || processes=
  .venv/bin/python -m pytest -rs -p no:cacheprovider \
    ${processes:+-n "$processes" --dist loadfile --no-loadscope-reorder} \
    --ran="$logs/ran" "$@" 2>&1 | tee "$log"
  ((pytest_status |= PIPESTATUS[0]))
}
case $preset in
  dev | tsan) not_run='not run: the C++ tests alone run under sanitizers' ;;
  *)
    rm -f "$logs"/pytest-*.log "$logs/ran"
    run_pytest 3 first "${first[@]}"
    # Files, since a folder would take those within it to its own place in the order.
    mapfile -t others < <(find tests -name 'test_*.py' | sort |
      grep -vxFf <(printf '%s\n' "${first[@]}" "${longest[@]}"))
    run_pytest 4 others "${longest[@]}" "${others[@]}"
    not_run=$(comm -23 <(find tests -name 'test_*.py' | sort) <(sort -u "$logs/ran"))
    [ -z "$not_run" ] || pytest_status=1
    not_run=${not_run:+run by nobody: ${not_run//$'\n'/ }}
    ;;
esac

gpu_tests=$(ctest --test-dir "$build" --show-only --label-regex '^gpu$' 2>/dev/null |
  sed -n 's/^Total Tests: //p')
if [ "${gpu_tests:-0}" -eq 0 ]; then
  gpu_note='0 built'
  if ! command -v nvcc >/dev/null 2>&1; then
    gpu_note+=' (no CUDA compiler here)'
  elif grep -q '^CUDA: no GPU here' "$build/left-out.txt" 2>/dev/null; then
    gpu_note+=' (no GPU here)'
  fi
elif ! command -v nvidia-smi >/dev/null 2>&1; then
  gpu_note="$gpu_tests skipped (no GPU here)"
else
  gpu_note="$gpu_tests run"
fi

echo
echo '== Summary'
grep -E '% tests passed|tests failed out of' "$logs/ctest.log" | sed 's/^/CTest:     /'
for part in first others; do
  [ -f "$logs/pytest-$part.log" ] && printf 'pytest:    %-8s %s\n' "$part" "$(tail -n 1 "$logs/pytest-$part.log")"
done
[ -z "$not_run" ] || echo "pytest:    $not_run"
echo "GPU tests: $gpu_note"
cat "$logs"/pytest-*.log 2>/dev/null | grep -q 'no Chromium here' && echo 'Browser:   skipped (no Chromium here)'
[ "$ctest_status" -eq 0 ] && [ "$pytest_status" -eq 0 ]
