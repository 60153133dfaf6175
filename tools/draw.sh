#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Draws from results that are there: tools/draw.sh figures|report|all [FOLDER under results/]
# Without a folder: this machine's own results, or else the reference results of the repository.
set -euo pipefail
cd "$(dirname "$0")/.."

what=$1
folder=${2:-}
folders=()
if [ -n "$folder" ]; then
  folder=results/${folder#results/}
  if [ ! -d "$folder" ]; then
    shopt -s nullglob
    found=(results/*/)
    echo "draw: there is no $folder; there is: ${found[*]:-nothing yet}" >&2
    exit 2
  fi
  folders=("$folder")
else
  machine=$("${BUILD:-build}/kmeans-bench" machine --id 2>/dev/null) || machine=
  if [ -n "$machine" ] && [ -d "results/$machine" ]; then
    folders=("results/$machine")
  else
    shopt -s nullglob
    folders=(results/reference-*/)
  fi
fi
if [ ${#folders[@]} -eq 0 ]; then
  echo "draw: no results yet; 'make run-experiments' makes them" >&2
  exit 2
fi

.venv/bin/python -m plots "$what" "${folders[@]%/}"
