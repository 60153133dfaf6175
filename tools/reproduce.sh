#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Repeats the deterministic part of committed results: tools/reproduce.sh [FOLDER under results/]
# Without a folder: of every machine. REPRODUCE_OPTIONS are passed on to `kmeans-bench reproduce`;
# BUILD names the build folder.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${BUILD:-build}
folder=${1:-}
shopt -s nullglob
folders=()
if [ -n "$folder" ]; then
  folder=results/${folder#results/}
  folder=${folder%/}
  if [ ! -d "$folder" ]; then
    found=(results/*/)
    echo "reproduce: there is no $folder; there is: ${found[*]:-nothing yet}" >&2
    exit 2
  fi
  folders=("$folder")
else
  for file in results/*/*.json; do
    machine=$(dirname "$file")
    [[ " ${folders[*]} " == *" $machine "* ]] || folders+=("$machine")
  done
fi
if [ ${#folders[@]} -eq 0 ]; then
  echo "reproduce: no results yet; 'make run-experiments' makes them" >&2
  exit 2
fi

read -r -a options <<<"${REPRODUCE_OPTIONS:-}"
exec "$build/kmeans-bench" reproduce ${options[@]+"${options[@]}"} "${folders[@]}"
