#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Feeds hostile bytes to everything that reads a file: tools/fuzz.sh SECONDS [TARGET...]
#
# Builds the preset `fuzz` and runs each target (all of them by default) for SECONDS, as many at a
# time as there are cores. What breaks a target is kept, with the command that replays it. Exit code
# 1 when something was found.
#   JOBS                 so many targets at a time
#   KMEANS_FUZZ_PROGRAM  the program, built elsewhere: nothing is built here
#   FUZZ_OUT             folder of findings, logs and new inputs (default build-fuzz/fuzzing); inputs
#                        of earlier runs are started from
set -uo pipefail
cd "$(dirname "$0")/.." || exit

say() { printf 'fuzz: %s\n' "$*" >&2; }

seconds=${1:-60}
shift
if ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then
  say "'$seconds' is no number of seconds; say tools/fuzz.sh SECONDS [TARGET...]"
  exit 2
fi
corpus=$PWD/tests/fuzz/corpus
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(ls "$corpus")
for target in "${targets[@]}"; do
  if [ ! -d "$corpus/$target" ]; then
    say "'$target' is no target; there are: $(cd "$corpus" && echo *)"
    exit 2
  fi
done

program=${KMEANS_FUZZ_PROGRAM:-}
if [ -z "$program" ]; then
  tools/build.sh fuzz kmeans-fuzz || exit 3
  program=$PWD/build-fuzz/tests/fuzz/kmeans-fuzz
fi
if [ ! -x "$program" ]; then
  say "$program cannot be run"
  exit 3
fi
out=${FUZZ_OUT:-build-fuzz/fuzzing}
mkdir -p "$out/findings" "$out/logs" || exit 5
out=$(cd "$out" && pwd)
jobs=${JOBS:-$(nproc)}
# A read beyond a container, an overflow, a leak: everything ends the run and is a finding.
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export LC_ALL=C

# A finding ends libFuzzer; the rest of the time is spent on looking for another one.
most_findings=5
fuzz_target() {
  local target=$1 end=$((SECONDS + seconds)) log=$out/logs/$1.log found=0 status
  local dictionary=$PWD/tests/fuzz/dictionaries/$target.dict
  mkdir -p "$out/corpus/$target"
  : >"$log"
  while [ $found -lt $most_findings ] && [ $SECONDS -lt $end ]; do
    KMEANS_FUZZ_TARGET=$target timeout --kill-after 30 $((seconds + 120)) "$program" \
      -max_total_time=$((end - SECONDS)) -timeout=20 -rss_limit_mb=2048 -malloc_limit_mb=1024 \
      -print_final_stats=1 -dict="$dictionary" -artifact_prefix="$out/findings/$target-" \
      "$out/corpus/$target" "$corpus/$target" >>"$log" 2>&1
    status=$?
    [ $status -eq 0 ] && return 0
    found=$((found + 1))
  done
  return $status
}

started=$(mktemp)
trap 'rm -f "$started"' EXIT
running=()
trap 'kill ${running[@]+"${running[@]}"} 2>/dev/null; wait; exit 130' INT TERM
for target in "${targets[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  fuzz_target "$target" &
  running+=($!)
done
wait "${running[@]}"

broken=0
printf '%-11s %12s %8s %9s %9s %9s %9s\n' target runs runs/s edges features inputs findings
for target in "${targets[@]}"; do
  log=$out/logs/$target.log
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" |
    awk '{ sum += $1 } END { printf "%d", sum }')
  last=$(grep -E 'cov: [0-9]+ ft: [0-9]+' "$log" | tail -n 1)
  edges=$(sed -n 's/.*cov: \([0-9]*\).*/\1/p' <<<"$last")
  features=$(sed -n 's/.* ft: \([0-9]*\).*/\1/p' <<<"$last")
  inputs=$(sed -n 's/.* corp: \([0-9]*\).*/\1/p' <<<"$last")
  findings=$(find "$out/findings" -name "$target-*" -newer "$started" | wc -l)
  printf '%-11s %12s %8s %9s %9s %9s %9s\n' "$target" "${runs:-0}" $((${runs:-0} / seconds)) \
    "${edges:--}" "${features:--}" "${inputs:--}" "$findings"
  # A target that ran nothing says why in its log.
  if [ "${runs:-0}" -eq 0 ] && [ "$findings" -eq 0 ]; then
    say "$target did not run: $(tail -n 1 "$log")"
    broken=1
  fi
done
found=0
while read -r finding; do
  [ $found -eq 0 ] && echo && echo 'Findings, and what replays them:'
  found=1
  target=${finding##*/}
  echo "  KMEANS_FUZZ_TARGET=${target%%-*} $program $finding"
  grep -h -m 1 -E '^kmeans-fuzz |SUMMARY: |runtime error: ' "$out/logs/${target%%-*}.log" |
    sed 's/^/    /' | head -n 1
done < <(find "$out/findings" -type f -newer "$started" | sort)
[ $found -eq 0 ] || exit 1
[ $broken -eq 0 ] || exit 3
