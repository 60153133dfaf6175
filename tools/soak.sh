#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the experiments in a loop and looks for what grows or changes: tools/soak.sh SECONDS
#
#   EXPERIMENTS  names or files (default: all under experiments/)
#   ONLY         only cells whose key matches, as `kmeans-bench run --only`
#   SOAK_OUT     folder of results, summary and logs (default: $BUILD/soak); emptied first
#   SOAK_ARGS    further options of tools/soak.py, such as --scale paper
#
# Prints a line a round and a verdict; exit status 1 when something was found. BUILD names the build
# folder. docs/ci.md says what is looked at.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${BUILD:-build}
# shellcheck disable=SC2206  # several words in one variable
experiments=(${EXPERIMENTS:-}) more=(${SOAK_ARGS:-})
if [ ${#experiments[@]} -eq 0 ]; then
  for file in experiments/*.json; do
    [ "$file" = experiments/schema.json ] || experiments+=("$file")
  done
fi
exec .venv/bin/python tools/soak.py --seconds "${1:-3600}" --program "$build/kmeans-bench" \
  --out "${SOAK_OUT:-$build/soak}" ${ONLY:+--only "$ONLY"} ${more[@]+"${more[@]}"} \
  "${experiments[@]}"
