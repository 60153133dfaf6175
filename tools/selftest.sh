#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Calibrates `kmeans-bench compare` on this machine (docs/comparing.md): this build against itself,
# and against itself slowed down by 10 % on purpose. Ends with 1 when equal cells are called
# different, or slower cells are not found, too often.
#   EXPERIMENT a file of experiments/selftest, without its ending (default: calibration; for the CUDA
#              variants: calibration-gpu)
#   OUT        folder of the results (default: selftest in the build folder); made anew
#   PATIENCE   seconds that a process may wait for undisturbed cores (default: 1)
#   PROCESSES  processes of a cell (default: as the experiment says)
#   ONLY       regular expression: only these cells, then without the least number of cells
#   BUILD      the build folder
set -euo pipefail
cd "$(dirname "$0")/.."

build=${BUILD:-build}
out=${OUT:-$build/selftest}
bench=$build/kmeans-bench
name=${EXPERIMENT:-calibration}
experiment=experiments/selftest/$name.json
python=.venv/bin/python
[ -x "$python" ] || python=python3

if [ ! -e "$experiment" ]; then
  echo "tools/selftest.sh: there is no $experiment; EXPERIMENT is one of:" \
    "$(basename -s .json -a experiments/selftest/*.json | paste -sd ' ')" >&2
  exit 2
fi
if [ -e "$out" ] && [ ! -e "$out/selftest" ]; then
  echo "tools/selftest.sh: $out exists and is not a folder of this script; set OUT to another" >&2
  exit 2
fi
rm -rf "$out"
mkdir -p "$out"
touch "$out/selftest"

# Cells that fail are told by the summary; anything else ends here.
measure() {
  local status=0
  "$bench" run "$experiment" --out "$@" || status=$?
  [ $status -eq 0 ] || [ $status -eq 4 ] || exit $status
}

options=(--patience "${PATIENCE:-1}")
[ -z "${PROCESSES:-}" ] || options+=(--processes "$PROCESSES")
only=()
[ -z "${ONLY:-}" ] || only=(--only "$ONLY")

unset KMEANS_BENCH_PLANT_SLOWDOWN
measure "$out/a" "${options[@]}" "${only[@]}"
measure "$out/same" "${options[@]}" "${only[@]}"

ten_milliseconds=$("$python" tools/selftest_summary.py --keys "$out/a/$name.json")
KMEANS_BENCH_PLANT_SLOWDOWN=0.10 measure "$out/slower" "${options[@]}" --only "$ten_milliseconds"

echo
echo '== This build against itself'
"$bench" compare "$out/a" "$out/same" --steady-clock --json "$out/same.json" --markdown "$out/same.md"
echo
echo '== This build against itself, slowed down by 10 %'
gate=0
"$bench" compare "$out/a" "$out/slower" --steady-clock --only "$ten_milliseconds" --gate \
  --json "$out/slower.json" --markdown "$out/slower.md" || gate=$?
[ $gate -le 1 ] || exit $gate

echo
"$python" tools/selftest_summary.py "$out" --gate "$gate" ${ONLY:+--part}
