#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compares two results and draws what changed: tools/compare.sh BASE NEW [option of compare ...]
# BASE and NEW are folders of result files or single files; a bare name is one under results/.
# OUT names the folder for comparison.json, summary.md, comparison.html and figures/; by default
# compare-<base> in NEW's folder, where NEW's report finds it. BUILD names the build folder.
# What lies there stays until there is a new comparison: a refusal leaves it alone.
#
# Results of different machines are compared as machines (`compare --machines`), which is said; not
# under a gate, where a machine would be taken for a program. Then the files are machines.json,
# summary.md, machines.html and figures/. The exit status is that of `kmeans-bench compare`: with
# --gate or GATE=1, 1 where the new result is worse; of machines, 4 where exact answers disagree.
# `make compare` ends with 2 instead, whatever failed.
set -euo pipefail
cd "$(dirname "$0")/.."

program=${BUILD:-build}/kmeans-bench

usage() {
  echo "compare: $1; make compare BASE=<folder> NEW=<folder>" >&2
  shopt -s nullglob
  local found=(results/*/)
  echo "compare: under results/ there is: ${found[*]:-nothing yet}" >&2
  exit 2
}

# The folder or file that a name means.
place_of() {
  local name=${1%/}
  if [ -e "$name" ]; then
    echo "$name"
  elif [ -e "results/$name" ]; then
    echo "results/$name"
  else
    usage "there is no '$1' and no 'results/$1'"
  fi
}

if [ -z "${1:-}" ] || [ -z "${2:-}" ]; then usage 'BASE and NEW are needed'; fi
base=$(place_of "$1")
new=$(place_of "$2")
shift 2
[ -z "${GATE:-}" ] || set -- --gate "$@"
gated=
machines=
for option in "$@"; do
  [ "$option" != --gate ] || gated=1
  [ "$option" != --machines ] || machines=1
done

name=$(basename "$base" .json)
folder=$new
[ -d "$new" ] || folder=$(dirname "$new")
out=${OUT:-$folder/compare-$name}

# Next to the folder to write to, so that moving is renaming, and as an absolute path, which the
# program shortens where it names its file.
beside=$(dirname "$out")
while [ ! -d "$beside" ] && [ ! -e "$beside" ]; do beside=$(dirname "$beside"); done
work=$(mktemp -d "$(realpath "$beside")/.compare-XXXXXX") || exit 5
trap 'rm -rf "$work"' EXIT

compare() {
  "$program" compare "$base" "$new" --json "$work/$1.json" --markdown "$work/summary.md" "${@:2}"
}

status=0
if [ -z "$machines" ]; then
  compare comparison "$@" 2>"$work/refusal" || status=$?
  if [ "$status" -eq 2 ] && [ -z "$gated" ] && grep -q -e '--cross-hardware' "$work/refusal"; then
    echo 'compare: the machines differ, so they are compared as machines (compare --machines)'
    machines=1
    set -- --machines "$@"
  else
    cat "$work/refusal" >&2
  fi
fi
if [ -n "$machines" ]; then
  status=0
  compare machines "$@" || status=$?
fi

kind=comparison
[ -z "$machines" ] || kind=machines
if [ -f "$work/$kind.json" ]; then
  mkdir -p "$out" || exit 5
  rm -f "$out"/{comparison,machines}.{html,json}
  mv "$work/$kind.json" "$work/summary.md" "$out" || exit 5
  if [ -n "$machines" ]; then
    draw=(machines "$out/machines.json" "$base" "$new")
  else
    draw=(compare "$out/comparison.json" --base "$base" --new "$new")
  fi
  .venv/bin/python -m plots "${draw[@]}" || {
    drawn=$?
    [ "$status" -ne 0 ] || status=$drawn
  }
  case $out in
    results/*/compare-*)
      .venv/bin/python -m plots index "$folder" >/dev/null &&
        echo "compare: results/index.html names it; the machine's report does when it is drawn again"
      ;;
  esac
fi
exit "$status"
