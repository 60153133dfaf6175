#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Draws from results that are there:
#   tools/draw.sh all|figures|report|index [FOLDER under results/] [--only REGEX]
# Without a folder: from those of every machine. --only: the figures whose experiment/figure it is
# found in.
set -euo pipefail
cd "$(dirname "$0")/.."

what=$1
shift
folder=
if [ $# -gt 0 ] && [ "$1" != --only ]; then
  folder=$1
  shift
fi
shopt -s nullglob
found=(results/*/*.json)
if [ ${#found[@]} -eq 0 ]; then
  echo "draw: no results yet; 'make run-experiments' makes them" >&2
  exit 2
fi
folders=()
if [ -n "$folder" ]; then
  folder=results/${folder#results/}
  if [ ! -d "$folder" ]; then
    found=(results/*/)
    echo "draw: there is no $folder; there is: ${found[*]:-nothing yet}" >&2
    exit 2
  fi
  folders=("${folder%/}")
fi

.venv/bin/python -m plots "$what" ${folders[@]+"${folders[@]}"} "$@"
