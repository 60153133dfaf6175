#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs every experiment, then draws figures and report, also when some cells failed.
# Arguments are passed on to `kmeans-bench run`; BUILD names the build folder.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${BUILD:-build}
machine=$("$build/kmeans-bench" machine --id)
results=results/$machine

experiments=()
for file in experiments/*.json; do
  [ "$file" = experiments/schema.json ] || experiments+=("$file")
done

status=0
"$build/kmeans-bench" run "${experiments[@]}" --out "$results" "$@" || status=$?
# 4: some cells failed; they are rows of the report, with their reasons.
[ $status -eq 0 ] || [ $status -eq 4 ] || exit $status

tools/draw.sh all "$machine"
echo "Open $results/report.html; results/index.html has all machines"
if [ $status -eq 4 ]; then
  echo 'Some cells failed: the report lists them with their reasons.' >&2
fi
exit $status
