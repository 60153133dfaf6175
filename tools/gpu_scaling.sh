#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What several GPUs of a machine show, in one go, possibly without a network:
#
#   tools/gpu_scaling.sh [STEP...]     default: build tests memcheck strong weak
#     build     the suite, for this machine's GPUs
#     tests     shared points on one and two GPUs: the bits of openmp_exact on the battery and on 100
#               random problems, by each family, sums in one call and scattered
#     memcheck  compute-sanitizer over small problems on one and two GPUs; calls of NCCL that CUDA
#               refuses, as it tries what there is, do not count
#     strong    experiments/gpus.json, paper scale: the same points on 1, 2, 4 and 8 GPUs
#     weak      the same: as many points a GPU
#
# The result file gpus.json and one log, scaling.log, go to $OUT (default: results/<machine>). ONLY
# narrows the cells of both experiments further, RUN_OPTIONS adds options to the runs. NCCL is looked for
# among the loader's libraries and Python's packages, unless KMEANS_BENCH_NCCL says where it is. NVLink
# multicast stays off (docs/scaling.md). Nothing here changes a setting of a GPU.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

build=${BUILD:-build}
program=$build/kmeans-bench
export NCCL_NVLS_ENABLE=0

find_nccl() {
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

step_build() {
  tools/setup.sh build python gpu >>"$log" 2>&1 &&
    tools/build.sh release >>"$log" 2>&1 || { tail -n 30 "$log"; return 1; }
  "$program" --version
  "$program" list | grep -E 'nccl|^GPU'
}

step_tests() {
  local status=0 part
  part=$(mktemp)
  timeout 420 ctest --test-dir "$build" --output-on-failure -R 'GpuSharing|nccl_exact|^Nccl' \
    >"$part" 2>&1 || status=1
  cat "$part" >>"$log"
  grep -E 'Passed|Skipped|Failed|Timeout|tests passed|tests failed' "$part"
  grep -E 'Failure$' -A5 "$part" | head -n 40
  # Skipping is not passing.
  if grep -qE 'GpuSharing.*Skipped' "$part"; then
    echo 'some did not run: see the log'
    status=1
  fi
  rm -f "$part"
  return $status
}

step_memcheck() {
  local status=0 gpus
  for gpus in 1 2; do
    printf '%s GPUs: ' "$gpus"
    timeout 200 compute-sanitizer --tool memcheck --error-exitcode 9 --print-limit 5 \
      --report-api-errors no \
      "$program" verify --only '^nccl_exact$' --gpus "$gpus" --at-most 2e4 --threads 1 \
      >"$out/memcheck" 2>&1
    case $? in
      0) echo passed ;;
      *)
        echo failed
        status=1
        tail -n 12 "$out/memcheck"
        ;;
    esac
    cat "$out/memcheck" >>"$log"
    rm -f "$out/memcheck"
  done
  return $status
}

# measure PATTERN
measure() {
  local status part
  part=$(mktemp)
  # shellcheck disable=SC2086  # several options in one variable
  "$program" run gpus --scale paper --out "$out" --resume --only "${ONLY:-$1}" ${RUN_OPTIONS:-} \
    >"$part" 2>&1
  status=$?
  cat "$part" >>"$log"
  tail -n 40 "$part"
  rm -f "$part"
  return $status
}
# One experiment, so one result file: --resume adds to what the step before has measured.
step_strong() { measure '8388608x128|1048576x|16777216x16'; }
step_weak() {
  measure '(8388608x128|1048576x32).*t1$|(16777216x128|2097152x32).*/g2|(33554432x128|4194304x32).*/g4'
}

steps=("$@")
[ ${#steps[@]} -eq 0 ] && steps=(build tests memcheck strong weak)
for step in "${steps[@]}"; do
  declare -F "step_$step" >/dev/null && continue
  echo "unknown step '$step'; the head of $0 lists them" >&2
  exit 2
done
out=${OUT:-}
if [ -z "$out" ]; then
  machine=gpus
  [ -x "$program" ] && machine=$("$program" machine --id)
  out=results/$machine
fi
mkdir -p "$out"
log=$out/scaling.log
find_nccl || exit 3
failures=()
for step in "${steps[@]}"; do
  printf '\n== %s (after %s s)\n' "$step" "$SECONDS" | tee -a "$log"
  "step_$step" || failures+=("$step")
done
# Of use only where a run was broken off.
[ ${#failures[@]} -gt 0 ] || rm -f "$out"/gpus.journal*.jsonl
if [ ${#failures[@]} -gt 0 ]; then
  echo "failed: ${failures[*]}"
  exit 1
fi
echo 'all steps passed'
