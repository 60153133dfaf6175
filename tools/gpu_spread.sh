#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Experiments in parts over all GPUs of a machine, each GPU with processors of its own:
#
#   tools/gpu_spread.sh start EXPERIMENT[:PARTS]...   begins in the background (again: goes on)
#   tools/gpu_spread.sh wait SECONDS                  until all is done, or for so long; joins what is
#                                                     whole and copies it to $OUT
#
# PARTS is 1 if it is left out. A lane for each GPU takes one part after the other (`kmeans-bench run --shard`), in the
# order of the arguments; 'tests' among them runs all conformance tests. Parts that were broken off are resumed by
# another `start`, once no lane works any more. The machine's limits are measured first, with nothing next to them.
# A program built with local changes is refused, since its results would not name their source; LOCAL_CHANGES=1
# measures all the same. BUILD names the build (build), WORK the folder of the parts (build/spread), RUN_OPTIONS
# options of the runs. Lanes share the host's memory, and CPU rows with it; docs/ci.md.
# OpenMP's threads wait without spinning, unless OMP_WAIT_POLICY says otherwise: each lane finds the others' load by
# chance, and parts that waited differently cannot be joined.
set -uo pipefail
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
cd "$(dirname "$0")/.." || exit

program=${BUILD:-build}/kmeans-bench
work=${WORK:-build/spread}
mkdir -p "$work"
gpus=$(nvidia-smi --list-gpus 2>/dev/null | wc -l)
if [ "$gpus" = 0 ] && [ $# -gt 0 ]; then
  echo 'gpu_spread: nvidia-smi lists no GPU here' >&2
  exit 3
fi
lane_cpus=$(($(nproc --all) / (gpus > 0 ? gpus : 1)))

cpus_of() { echo "$(($1 * lane_cpus))-$((($1 + 1) * lane_cpus - 1))"; }

# The first task that nobody has taken.
next_task() {
  exec 9>"$work/lock"
  flock 9
  local task
  while read -r task; do
    if mkdir "$work/taken/$task" 2>/dev/null; then
      echo "$task"
      break
    fi
  done <"$work/tasks"
  exec 9>&-
}

run_task() { # LANE TASK, a task is NAME.PART.PARTS
  local lane=$1 name part parts
  IFS=. read -r name part parts <<<"$2"
  if [ "$name" = tests ]; then
    OUT=$work/tests tools/gpu_evidence.sh tests
    return
  fi
  # shellcheck disable=SC2086  # several options in one variable
  "$program" run "$name" --scale paper --device "$lane" --shard "$part/$parts" --resume \
    --out "$work/$name.$part.$parts" ${RUN_OPTIONS:-}
}

lane() {
  local task begin
  while task=$(next_task) && [ -n "$task" ]; do
    begin=$SECONDS
    run_task "$1" "$task" >"$work/$task.log" 2>&1
    echo "GPU $1: $task ended with $? after $((SECONDS - begin)) s" >>"$work/done"
  done
  echo "GPU $1: idle" >>"$work/done"
}

start() {
  local version
  version=$("$program" --version) || exit
  if [[ $version == *'with local changes'* && -z ${LOCAL_CHANGES:-} ]]; then
    echo "$version: commit the changes, or write .source-manifest again (tools/source_manifest.sh)," \
      'and build; LOCAL_CHANGES=1 measures all the same' >&2
    exit 2
  fi
  local one part parts
  for one in "$@"; do
    if [[ ! $one =~ ^[A-Za-z0-9_-]+(:[1-9][0-9]*)?$ ]]; then
      echo "gpu_spread: '$one' is no EXPERIMENT[:PARTS], such as ladder-gpu:6" >&2
      exit 2
    fi
  done
  exec 8>"$work/start"
  if ! flock --nonblock 8 || ! flock --nonblock "$work/lanes" true; then
    echo 'gpu_spread: lanes of an earlier start still work; wait for them, or end them' >&2
    exit 2
  fi
  rm -rf "$work/taken" "$work/done"
  mkdir -p "$work/taken"
  for one in "$@"; do
    parts=1
    [[ $one == *:* ]] && parts=${one#*:}
    for ((part = 1; part <= parts; ++part)); do echo "${one%:*}.$part.$parts"; done
  done >"$work/tasks"
  local gpu
  for ((gpu = 0; gpu < gpus; ++gpu)); do
    taskset --cpu-list "$(cpus_of "$gpu")" "$program" machine --device "$gpu" \
      >"$work/machine.$gpu.log" 2>&1
  done
  for ((gpu = 0; gpu < gpus; ++gpu)); do
    setsid flock --shared "$work/lanes" taskset --cpu-list "$(cpus_of "$gpu")" \
      tools/gpu_spread.sh lane "$gpu" </dev/null >"$work/lane.$gpu.log" 2>&1 8>&- &
  done
}

join() {
  local out=${OUT:-$work} one name parts
  sed -E 's/\.[0-9]+\./ /' "$work/tasks" | sort -u | while read -r name parts; do
    [ "$name" = tests ] && continue
    one=("$work/$name".*."$parts/$name.json")
    [ -f "${one[0]}" ] || continue
    if [ "$parts" = 1 ]; then
      cp "${one[0]}" "$out/"
    elif [ ${#one[@]} -ge 2 ]; then
      "$program" merge "${one[@]}" --out "$out/$name.json" || tar -czf "$out/$name.tar.gz" "${one[@]}"
    fi
  done
  tail -n +1 "$work"/*.log >"$out/spread.log"
}

wait_for() {
  local until=$((SECONDS + $1))
  while [ "$SECONDS" -lt "$until" ] && [ "$(grep -c idle "$work/done" 2>/dev/null)" != "$gpus" ]; do
    sleep 1
  done
  cat "$work/done" 2>/dev/null
  join
}

case ${1:-} in
  start) shift && start "$@" ;;
  wait) wait_for "$2" ;;
  lane) lane "$2" ;;
  *) sed -n '5,9s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
