#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Judges NEW by BASE as CI should: tools/ci_gate.sh BASE NEW OUT
#
# `kmeans-bench compare --gate` decides. Cells that it finds slower are measured once more, here and
# now, and count only if they are slower again; a changed answer or a missing cell gets no second
# chance. OUT gets comparison and Markdown, which also goes to the step summary of GitHub.
#
#   WARN_ONLY=1   slower and undecided cells are reported, and do not fail
#   SCALE, ONLY   those of the run (default quick, everything)
#   COMPARE_ARGS  further options of compare, such as --effect 10%
#   BUILD         the build folder
#
# Exit status: 0 passed, 1 failed, 6 undecided (COMPARE_ARGS='--undecided fail' makes that 1, pass 0),
# otherwise that of the command that could not do its work.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

if [ $# -ne 3 ]; then
  echo 'ci_gate: say tools/ci_gate.sh BASE NEW OUT (two result folders, and one to write to)' >&2
  exit 2
fi
base=$1 new=$2 out=$3
program=${BUILD:-build}/kmeans-bench
# shellcheck disable=SC2206  # several options in one variable
more=(${COMPARE_ARGS:-})
summary=${GITHUB_STEP_SUMMARY:-/dev/null}
mkdir -p "$out" || exit 5

# Two tables have to fit into a summary of 1024 KiB.
compare() {
  local name=$1
  shift
  "$program" compare "$@" --gate --json "$out/$name.json" --markdown "$out/$name.md" \
    --markdown-limit 400
}
# publish NAME HEADING
publish() {
  [ -f "$out/$1.md" ] || return 0
  {
    printf '## %s\n\n' "$2"
    cat "$out/$1.md"
    printf '\n'
  } >>"$summary"
}

compare compared "$base" "$new" ${ONLY:+--only "$ONLY"} ${more[@]+"${more[@]}"}
status=$?
publish compared 'Comparison'
if [ $status -eq 6 ]; then
  echo 'ci_gate: undecided: not every cell is decided; measure in turns (compare --run), or longer'
  if [ "${WARN_ONLY:-}" = 1 ]; then
    echo '::warning title=kmeans-bench::the gate is undecided'
    exit 0
  fi
fi
[ $status -eq 1 ] || exit $status

# Experiments and keys of the slower cells, by themselves or with the others of their variant;
# nothing when something else failed, too.
slower=$(python3 - "$out/compared.json" <<'PYTHON'
import json
import sys

comparison = json.load(open(sys.argv[1], encoding="utf-8"))
cells = comparison["cells"]
if not any(cell["correctness_regression"] for cell in cells) and not comparison["missing"]:
    sure = [g for g in comparison["groups"] if g["verdict"] == "slower" and not g["doubtful"]]
    together = {group["variant"] for group in sure if group["variant"]}
    alone = any(cell["outcome"] == "failed" for cell in cells)
    everything = bool(sure) and not together and not alone
    for cell in cells:
        shared = cell["variant"] in together or everything
        if cell["outcome"] == "failed" or (shared and cell["outcome"]):
            print(cell["experiment"], cell["new_key"], sep="\t")
PYTHON
) || exit
if [ -z "$slower" ]; then
  echo 'ci_gate: failed, and not for times alone'
  exit 1
fi
count=$(wc -l <<<"$slower")
if [ "${WARN_ONLY:-}" = 1 ]; then
  echo "::warning title=kmeans-bench::$count cells look slower; on a shared machine this is not a verdict"
  exit 0
fi

echo "ci_gate: $count cells look slower and are measured again"
mapfile -t experiments < <(cut -f 1 <<<"$slower" | sort -u)
# Keys as one expression: what is special in one is taken literally.
expression=$(cut -f 2 <<<"$slower" | sed 's/[][\.*+?^${}()|]/\\&/g' | paste -s -d '|')
expression="^($expression)\$"
"$program" run "${experiments[@]}" --scale "${SCALE:-quick}" --only "$expression" --out "$out/again"
status=$?
[ $status -eq 0 ] || [ $status -eq 4 ] || exit $status
compare compared-again "$base" "$out/again" ${more[@]+"${more[@]}"} --only "$expression" \
  --allow-missing
status=$?
publish compared-again 'Slower cells, measured again'
case $status in
  0) echo 'ci_gate: passed: none was slower both times' ;;
  1) echo 'ci_gate: failed: slower both times' ;;
  6) echo 'ci_gate: undecided: slower once, and the second time decided nothing' ;;
esac
exit $status
