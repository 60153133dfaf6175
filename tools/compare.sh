#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compares two results and draws what changed: tools/compare.sh BASE NEW [option of compare ...]
# BASE and NEW are folders of result files or single files; a bare name is one under results/.
# OUT names the folder for comparison.json, summary.md, comparison.html and figures/; by default
# compare-<base> in NEW's folder, where NEW's report finds it. BUILD names the build folder.
# What lies there stays until there is a new comparison: a refusal leaves it alone.
#
# Results of different machines are compared too, which is said; not under a gate, where a machine
# would be taken for a program. The exit status is that of `kmeans-bench compare`: with --gate or
# GATE=1, 1 where the new result is worse. `make compare` ends with 2 instead, whatever failed.
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
for option in "$@"; do [ "$option" != --gate ] || gated=1; done

name=$(basename "$base" .json)
folder=$new
[ -d "$new" ] || folder=$(dirname "$new")
out=${OUT:-$folder/compare-$name}

# Beside the folder to write to, so that moving is renaming, and as an absolute path, which the
# program shortens where it names its file.
beside=$(dirname "$out")
while [ ! -d "$beside" ] && [ ! -e "$beside" ]; do beside=$(dirname "$beside"); done
work=$(mktemp -d "$(realpath "$beside")/.compare-XXXXXX") || exit 5
trap 'rm -rf "$work"' EXIT

compare() {
  "$program" compare "$base" "$new" --json "$work/comparison.json" \
    --markdown "$work/summary.md" "$@"
}

status=0
compare "$@" 2>"$work/refusal" || status=$?
cat "$work/refusal" >&2
if [ "$status" -eq 2 ] && [ -z "$gated" ] && grep -q -e '--cross-hardware' "$work/refusal"; then
  echo 'compare: the machines differ; compared all the same (--cross-hardware): a ratio is then one'
  echo 'compare: of machines and of programs together'
  status=0
  compare "$@" --cross-hardware || status=$?
fi

if [ -f "$work/comparison.json" ]; then
  mkdir -p "$out" || exit 5
  rm -f "$out/comparison.html"
  mv "$work/comparison.json" "$work/summary.md" "$out" || exit 5
  .venv/bin/python -m plots compare "$out/comparison.json" --base "$base" --new "$new" || {
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
