#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the C++ tests (CTest) and the Python tests (pytest), and ends with both runners' own counts.
# BUILD names the build folder: build, or build-PRESET. A preset knows the environment that its tests
# need. Under sanitizers the C++ tests alone run. The Python tests run in parts side by side, since some
# mostly wait.
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

# Ranks of MPI wait by polling, and slow down whatever is beside them: they go first, beside figures,
# which only take longer then. The others are of about the same length.
declare -A files=(
  [ranks]='tests/python/test_ranks.py'
  [ranks-2]='tests/faults/test_rank_faults.py'
  [faults]='tests/faults/test_[a-d]*.py'
  [faults-2]='tests/faults/test_[e-q]*.py tests/faults/test_r[!a]*.py tests/faults/test_[s-z]*.py'
  [plots]='tests/plots/test_[!cefp]*.py'
  [plots-2]='tests/plots/test_[ce]*.py'
  [plots-3]='tests/plots/test_[fp]*.py'
  [python]='tests/python/test_[a-q]*.py'
  [python-2]='tests/python/test_r[!a]*.py tests/python/test_[s-z]*.py'
)
first=(ranks ranks-2 plots-3)
then=(faults faults-2 plots plots-2 python python-2)
parts=("${first[@]}" "${then[@]}")
shopt -s nullglob # of some patterns there may be no file
declare -A running
pytest_status=0
# With job control their programs do not ignore SIGINT, as some tests expect, and are ended together.
set -m
end_all() {
  local group
  for group in "${running[@]}"; do kill -TERM -- "-$group" 2>/dev/null; done
  exit 130
}
trap end_all INT TERM
run_parts() {
  local part
  for part in "$@"; do
    case $preset in
      dev | tsan) echo 'not run: the C++ tests alone run under sanitizers' >"$logs/pytest-$part.log" ;;
      *)
        # shellcheck disable=SC2086  # patterns
        .venv/bin/python -m pytest -rs -p no:cacheprovider ${files[$part]} >"$logs/pytest-$part.log" 2>&1 &
        running[$part]=$!
        ;;
    esac
  done
  for part in "$@"; do
    [ -z "${running[$part]:-}" ] || wait "${running[$part]}" || pytest_status=$?
  done
  running=()
}
# Side by side: each waits for a good part of its time, and threads of OpenMP sleep while they wait where
# others share the cores.
echo "pytest: ${first[*]}, then ${then[*]}, side by side; what they say so far is in $logs"
run_parts "${first[@]}"
run_parts "${then[@]}"
for part in "${parts[@]}"; do cat "$logs/pytest-$part.log"; done
set +m
trap - INT TERM

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
for part in "${parts[@]}"; do
  printf 'pytest:    %-8s %s\n' "$part" "$(tail -n 1 "$logs/pytest-$part.log")"
done
echo "GPU tests: $gpu_note"
grep -q "no Chromium here" "$logs/pytest-plots.log" && echo 'Browser:   skipped (no Chromium here)'
[ "$ctest_status" -eq 0 ] && [ "$pytest_status" -eq 0 ]
