#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# GPU evidence in one go, on a machine with a GPU and possibly without a network:
#
#   tools/gpu_evidence.sh [STEP...]     default: build tests sanitize experiments
#     build        the suite, for this machine's GPU
#     tests        every test that needs a GPU, the awkward battery as a table, the GPU's faults
#     sanitize     compute-sanitizer (memcheck, racecheck, initcheck) over small problems
#     extremes     experiments/gpu-extremes.json, paper scale
#     sources      the five sources' experiments, CPU and GPU rows, paper scale
#     frontier     experiments/frontier.json, paper scale
#     questions    errata, precision, ladder, map and threads, paper scale
#     experiments  the last four
#     NAME         one experiment of that name, paper scale
#     scaling      what several GPUs show: the next five, after `build`
#     shared-tests    shared points on one, two and, where there are as many, three and four GPUs: the
#                  bits of openmp_exact on the battery and on 100 random problems, by each family,
#                  sums in one call and scattered
#     shared-memcheck compute-sanitizer over small problems on one, two and, where there are, four
#                  GPUs; calls of NCCL that CUDA refuses, as it tries what there is, do not count
#     strong, weak experiments/gpus.json, paper scale: the same points on 1, 2, 4 and 8 GPUs, or as
#                  many a GPU
#     fits-gpus    experiments/fits-gpus.json, paper scale: whole fits
#     reproduce    the answers of this machine's committed results again, of GPU variants (REPRODUCE:
#                  the files, all of them by default; REPRODUCE_SECONDS: interrupted after these)
#
# Result files and one log, evidence.log, go to $OUT (default: results/<machine>, or results/gpu
# before the first build). ONLY narrows the cells (as `kmeans-bench run
# --only`), RUN_OPTIONS adds options to the runs, SANITIZE_ONLY names the variants that
# compute-sanitizer sees. NCCL is looked for among the loader's libraries and Python's packages, unless
# KMEANS_BENCH_NCCL says where it is; its NVLink multicast stays off (docs/scaling.md). Nothing here
# changes a setting of a GPU.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

build=${BUILD:-build}
program=$build/kmeans-bench

steps=()
for step in "${@:-build tests sanitize experiments}"; do
  # shellcheck disable=SC2206  # the default is several words
  steps+=($step)
done
expanded=()
for step in "${steps[@]}"; do
  case $step in
    experiments) expanded+=(extremes sources questions frontier) ;;
    scaling) expanded+=(build shared-tests shared-memcheck strong weak fits-gpus) ;;
    *) expanded+=("$step") ;;
  esac
done

step_build() {
  tools/setup.sh build python gpu >>"$log" 2>&1 &&
    tools/build.sh release >>"$log" 2>&1 || { tail -n 30 "$log"; return 1; }
  "$program" --version
}

step_tests() {
  local status=0 part
  part=$(mktemp)
  ctest --test-dir "$build" --output-on-failure --label-regex '^gpu$' >"$part" 2>&1 || status=1
  cat "$part" >>"$log"
  grep -E 'tests passed|tests failed|\((Failed|Timeout)\)' "$part"
  grep -E 'Failure$|wrong|passed$' -A5 "$part" | head -n 40
  "$program" verify --only '^cuda_' 2>&1 | tee -a "$log" || status=1
  KMEANS_BENCH=$PWD/$program .venv/bin/python -m pytest tests/faults -k gpu -rs >"$part" 2>&1 || status=1
  cat "$part" >>"$log"
  grep -E '^(FAILED|SKIPPED|E  )|passed|failed' "$part"
  "$program" machine --check 2>&1 | tee -a "$log"
  rm -f "$part"
  return $status
}

# Small problems through every kernel, with each of the three tools: one process a variant, several
# at a time, since the tools slow the host's side down most. The race checker gets the smallest.
step_sanitize() {
  local tool work variants variant logs status=0
  logs=$(mktemp -d)
  variants=$("$program" list | sed -nE 's/^(cuda_[a-z0-9_]+) .*/\1/p' | grep -E "${SANITIZE_ONLY:-.}" |
    grep -v '_as_printed$') # kept as printed, uninitialised shared memory included
  for tool in memcheck initcheck racecheck; do
    work=${MEMCHECK_WORK:-1e5}
    [ "$tool" = racecheck ] && work=${RACECHECK_WORK:-2e4}
    for variant in $variants; do
      # initcheck's own memory goes with a stream that is destroyed while it works, as this variant
      # does in every iteration; cuda_streams_serial runs the same kernels.
      [ "$tool-$variant" = initcheck-cuda_streams ] && continue
      while [ "$(jobs -rp | wc -l)" -ge 8 ]; do wait -n; done
      {
        timeout "${SANITIZE_SECONDS:-400}" compute-sanitizer --tool "$tool" --error-exitcode 9 \
          --print-limit 5 "$program" verify --only "^$variant\$" --at-most "$work" --threads 1 \
          >"$logs/$tool-$variant" 2>&1
        echo "exit $?" >>"$logs/$tool-$variant"
      } &
    done
    wait
    printf '%s: ' "$tool"
    if grep -L '^exit 0$' "$logs/$tool"-* | grep -q .; then
      status=1
      echo failed
      for variant in $(grep -L '^exit 0$' "$logs/$tool"-*); do
        echo "-- ${variant#"$logs/"}"
        tail -n 12 "$variant"
      done
    else
      grep -hE 'ERROR SUMMARY|RACECHECK SUMMARY' "$logs/$tool"-* | sort | uniq -c
    fi
  done
  tail -n +1 "$logs"/* >>"$log"
  rm -rf "$logs"
  return $status
}

# measure ONLY EXPERIMENT...
measure() {
  local only=$1 status part
  shift
  part=$(mktemp)
  # shellcheck disable=SC2086  # several options in one variable
  "$program" run "$@" --scale paper --out "$out" ${only:+--only "$only"} ${RUN_OPTIONS:-} \
    >"$part" 2>&1
  status=$?
  cat "$part" >>"$log"
  tail -n 40 "$part" # its times, sorted
  rm -f "$part"
  # Ended, or to be resumed: RUN_OPTIONS=--resume goes on where an interruption left off, `weak` where
  # `strong` ended.
  [ $status -eq 130 ] || [ "$*" = gpus ] || for name in "$@"; do rm -f "$out/$name".journal*.jsonl; done
  return $status
}
step_extremes() { measure "${ONLY:-}" gpu-extremes; }
# With rounded operands the inertia of some cells drifts from the exact trajectory's: these are wrong,
# and say so.
step_frontier() {
  measure "${ONLY:-}" frontier
  local status=$?
  [ $status -eq 0 ] || [ $status -eq 4 ]
}
step_sources() {
  measure "${ONLY:-}" goldsborough2017 goldsborough2017-normal minnaar2019 marinai2023 \
    zhihu2023 zechner2009 zechner2009-layout
}
step_questions() { measure "${ONLY:-}" errata precision ladder map threads; }

find_nccl() {
  export NCCL_NVLS_ENABLE=0
  [ -n "${KMEANS_BENCH_NCCL:-}" ] && return
  ldconfig -p | grep -q 'libnccl\.so\.2 ' && return
  local folder found
  for folder in $(python3 -c 'import site, sys; print(*sys.path, *site.getsitepackages())') \
    .venv/lib/python3*/site-packages; do
    found=$folder/nvidia/nccl/lib/libnccl.so.2
    [ -f "$found" ] && export KMEANS_BENCH_NCCL=$found && return
  done
  echo 'libnccl.so.2 was not found; KMEANS_BENCH_NCCL can say where it is' >&2
  return 1
}

gpus_here() { nvidia-smi --list-gpus | wc -l; }

step_shared-tests() {
  find_nccl || return
  local status=0 part
  part=$(mktemp)
  timeout 420 ctest --test-dir "$build" --output-on-failure -R 'GpuSharing|nccl_exact|^Nccl' \
    >"$part" 2>&1 || status=1
  cat "$part" >>"$log"
  grep -E 'Passed|Skipped|Failed|Timeout|tests passed|tests failed' "$part"
  grep -E 'Failure$' -A5 "$part" | head -n 40
  # Skipping is not passing, on so many GPUs as there are.
  local most
  most=$(gpus_here)
  [ "$most" -le 4 ] || most=4
  if grep -qE "GpuSharing.*/On[1-$most].*Skipped" "$part"; then
    echo 'some did not run: see the log'
    status=1
  fi
  rm -f "$part"
  return $status
}

step_shared-memcheck() {
  find_nccl || return
  local status=0 gpus part
  part=$(mktemp)
  for gpus in 1 2 4; do
    [ "$gpus" -le "$(gpus_here)" ] || continue
    printf '%s GPUs: ' "$gpus"
    if timeout 200 compute-sanitizer --tool memcheck --error-exitcode 9 --print-limit 5 \
      --report-api-errors no \
      "$program" verify --only '^nccl_exact$' --gpus "$gpus" --at-most 2e4 --threads 1 \
      >"$part" 2>&1; then
      echo passed
    else
      echo failed
      status=1
      tail -n 12 "$part"
    fi
    cat "$part" >>"$log"
  done
  rm -f "$part"
  return $status
}

# One result file: --resume adds to what the step before has measured.
measure_gpus() {
  find_nccl && RUN_OPTIONS="--resume ${RUN_OPTIONS:-}" measure "${ONLY:-$1}" gpus
}
step_strong() { measure_gpus '8388608x128|1048576x|16777216x16'; }
step_weak() {
  measure_gpus '(8388608x128|1048576x32).*t1$|(16777216x128|2097152x32).*/g2|(33554432x128|4194304x32).*/g4'
}

step_fits-gpus() { find_nccl && measure "${ONLY:-}" fits-gpus; }

step_reproduce() {
  local status part
  part=$(mktemp)
  # shellcheck disable=SC2046,SC2086  # several files, several options in one variable
  timeout --signal INT "${REPRODUCE_SECONDS:-0}" "$program" reproduce --only "${ONLY:-cuda}" \
    --verbose ${REPRODUCE:-results/$("$program" machine --id)} >"$part" 2>&1
  status=$?
  cat "$part" >>"$log"
  grep -E '\bdiffers\b' "$part"
  tail -n 12 "$part"
  rm -f "$part"
  return $status
}

for step in "${expanded[@]}"; do
  declare -F "step_$step" >/dev/null || [ -f "experiments/$step.json" ] && continue
  echo "unknown step '$step'; the head of $0 lists them" >&2
  exit 2
done
out=${OUT:-}
if [ -z "$out" ]; then
  machine=gpu
  [ -x "$program" ] && machine=$("$program" machine --id)
  out=results/$machine
fi
mkdir -p "$out"
log=$out/evidence.log
failures=()
for step in "${expanded[@]}"; do
  printf '\n== %s (after %s s)\n' "$step" "$SECONDS" | tee -a "$log"
  if declare -F "step_$step" >/dev/null; then
    "step_$step" || failures+=("$step")
  else
    measure "${ONLY:-}" "$step" || failures+=("$step")
  fi
done

printf '\n== summary (after %s s)\n' "$SECONDS"
[ ${#failures[@]} -gt 0 ] || rm -f "$out"/gpus.journal*.jsonl
if [ ${#failures[@]} -gt 0 ]; then
  echo "failed: ${failures[*]}"
  exit 1
fi
echo 'all steps passed'
