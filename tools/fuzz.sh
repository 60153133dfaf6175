#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Feeds hostile bytes to everything that reads a file: tools/fuzz.sh SECONDS [TARGET...]
#
# Builds the preset `fuzz` and runs each target (all of them by default) for SECONDS or until it
# finds something, as many at a time as there are cores. What breaks a target is kept, with the
# command that replays it. Exit code 1 when something was found.
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
  say "'$seconds' is not a number of seconds; say tools/fuzz.sh SECONDS [TARGET...]"
  exit 2
fi
corpus=$PWD/tests/fuzz/corpus
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(ls "$corpus")
for target in "${targets[@]}"; do
  if [ ! -d "$corpus/$target" ]; then
    say "'$target' is not a target; there are: $(cd "$corpus" && echo *)"
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
# The keys of experiments and results, which flipped bytes would seldom make.
words=$out/words.dict
grep -hoE '"[a-z0-9_]+"' experiments/schema.json results/schema.json | sort -u |
  sed 's/"\(.*\)"/"\\"\1\\""/' >"$words"
# A read beyond a container, an overflow, a leak: everything ends the run and is a finding.
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export LC_ALL=C

fuzz_target() {
  mkdir -p "$out/corpus/$1"
  KMEANS_FUZZ_TARGET=$1 timeout --kill-after 30 $((seconds + 120)) "$program" \
    -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -malloc_limit_mb=1024 \
    -use_value_profile=1 -dict="$words" -artifact_prefix="$out/findings/$1-" \
    "$out/corpus/$1" "$corpus/$1" >"$out/logs/$1.log" 2>&1
  echo "$?" >"$out/logs/$1.status"
}

trap 'kill $(jobs -rp) 2>/dev/null; wait; exit 130' INT TERM
for target in "${targets[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-$(nproc)}" ]; do wait -n; done
  fuzz_target "$target" &
done
wait

result=0
for target in "${targets[@]}"; do
  log=$out/logs/$target.log
  finding=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
  if [ -n "$finding" ]; then
    printf '%-11s broken by what replays with\n  KMEANS_FUZZ_TARGET=%s %s %s\n' \
      "$target" "$target" "$program" "$finding"
    grep -m 1 -E '^kmeans-fuzz |SUMMARY: |runtime error: ' "$log" | sed 's/^/  /'
    result=1
  elif [ "$(cat "$out/logs/$target.status")" -ne 0 ]; then
    say "$target did not run: $(tail -n 1 "$log")"
    [ $result -ne 0 ] || result=3
  else
    printf '%-11s %s\n' "$target" "$(grep '^Done ' "$log" | tail -n 1)"
  fi
done
exit $result
