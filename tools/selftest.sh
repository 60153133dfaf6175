#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Calibrates `kmeans-bench compare --run` on this machine (docs/comparing.md): this build in turns
# with itself, and with itself slowed down by 10 % on purpose. Ends with 1 when equal cells are
# called different, or slower cells are not found, too often.
#   EXPERIMENT a file of experiments/selftest, without its ending (default: calibration; for the CUDA
#              variants: calibration-gpu)
#   OUT        folder of the results (default: selftest in the build folder); made anew
#   MINUTES    of each of the two comparisons, at most (default: 10)
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

only=()
[ -z "${ONLY:-}" ] || only=(--only "$ONLY")
turns=(--minutes "${MINUTES:-10}")
unset KMEANS_BENCH_PLANT_SLOWDOWN

echo '== This build against itself'
"$bench" compare --run "$bench" "$bench" "$experiment" "${turns[@]}" "${only[@]}" \
  --out "$out/same" --json "$out/same.json" --markdown "$out/same.md"

ten_milliseconds=$("$python" tools/selftest_summary.py --keys "$out/same/base/$name.json")
# The second program: the same one, in a world in which every timed step takes longer.
printf '#!/bin/sh\nKMEANS_BENCH_PLANT_SLOWDOWN=0.10 exec "%s" "$@"\n' \
  "$(realpath "$bench")" >"$out/slowed-down"
chmod +x "$out/slowed-down"
echo
echo '== This build against itself, slowed down by 10 %'
gate=0
"$bench" compare --run "$bench" "$out/slowed-down" "$experiment" "${turns[@]}" \
  --only "$ten_milliseconds" --out "$out/slower" --gate \
  --json "$out/slower.json" --markdown "$out/slower.md" || gate=$?
[ $gate -le 1 ] || [ $gate -eq 6 ] || exit $gate

echo
"$python" tools/selftest_summary.py "$out" --gate "$gate" ${ONLY:+--part}
