#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Calibrates `kmeans-bench compare --run` on this machine (docs/comparing.md): this build in turns
# with itself, and with itself slowed down on purpose, by 10 % and by 30 %. Ends with 1 when equal
# cells are called different, or slower cells are not found, too often.
#   EXPERIMENT a file of experiments/selftest, without its ending (default: calibration; for the CUDA
#              variants: calibration-gpu)
#   OUT        folder of the results (default: selftest in the build folder); replaced
#   MINUTES    of each of the three comparisons, at most (default: 10)
#   NEIGHBOUR  1: a neighbour burns a core half of the time next to them (tools/neighbour.py)
#   ONLY       regular expression: only these cells, then without the least number of cells
#   BUILD      the build folder
set -euo pipefail
cd "$(dirname "$0")/.."

build=${BUILD:-build}
out=${OUT:-$build/selftest}
bench=$build/kmeans-bench-faults # the same as kmeans-bench, and its steps can be slowed down
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
unset KMEANS_FAULTS_SLOWDOWN

neighbour=
disturb() {  # SEED
  [ -n "${NEIGHBOUR:-}" ] || return 0
  "$python" tools/neighbour.py --seed "$1" &
  neighbour=$!
}
quieten() {
  [ -n "$neighbour" ] || return 0
  kill "$neighbour" && wait "$neighbour" || true
  neighbour=
}
trap quieten EXIT

echo '== This build against itself'
disturb 1
"$bench" compare --run "$bench" "$bench" "$experiment" "${turns[@]}" "${only[@]}" \
  --out "$out/same" --json "$out/same.json" --markdown "$out/same.md"
quieten

ten_milliseconds=$("$python" tools/selftest_summary.py --keys "$out/same/base/$name.json")
gates=()
for slowdown in 10 30; do
  # The second program: the same one, in a world in which every timed step takes longer.
  slowed=$out/slowed-down-$slowdown
  printf '#!/bin/sh\nKMEANS_FAULTS_SLOWDOWN=0.%s exec "%s" "$@"\n' \
    "$slowdown" "$(realpath "$bench")" >"$slowed"
  chmod +x "$slowed"
  echo
  echo "== This build against itself, slowed down by $slowdown %"
  disturb "$slowdown"
  gate=0
  "$bench" compare --run "$bench" "$slowed" "$experiment" "${turns[@]}" \
    --only "$ten_milliseconds" --out "$out/slower-$slowdown" --gate \
    --json "$out/slower-$slowdown.json" --markdown "$out/slower-$slowdown.md" || gate=$?
  quieten
  [ $gate -le 1 ] || [ $gate -eq 6 ] || exit $gate
  gates+=("$gate")
done

echo
"$python" tools/selftest_summary.py "$out" --gates "${gates[@]}" \
  ${NEIGHBOUR:+--neighbour} ${ONLY:+--part}
