#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Format, lint and types, C++ and Python.
#   tools/check.sh PRESET     report, change nothing; the preset's compile commands are used
#   tools/check.sh --repair   format in place
set -uo pipefail
cd "$(dirname "$0")/.." || exit

# New files count before they are committed; deleted ones do not.
sources() { git ls-files --cached --others --exclude-standard -- "$@" | while IFS= read -r file; do
  [ -f "$file" ] && printf '%s\0' "$file"
done; }
cxx=('*.cpp' '*.h' '*.cu' '*.cuh')
ruff=(.venv/bin/python -m ruff)
# The pinned one, since versions lay out some lines differently.
clang_format=.venv/bin/clang-format
[ -x $clang_format ] || clang_format=clang-format

if [ "$1" = --repair ]; then
  sources "${cxx[@]}" | xargs -0 -r $clang_format -i
  "${ruff[@]}" check --quiet --fix .
  "${ruff[@]}" format --quiet .
  exit
fi

# Else every list of files is empty, or none can be made, and nothing would be checked.
if ! refusal=$(LC_ALL=C git ls-files CMakeLists.txt 2>&1 >/dev/null); then
  printf 'check: git does not list the files: %s\n' "$refusal" >&2
  exit 1
fi

failed=()
step() {
  local name=$1
  shift
  echo "check: $name"
  "$@" || failed+=("$name")
}
check_format() { sources "${cxx[@]}" | xargs -0 -r $clang_format --dry-run --Werror; }
check_tidy() {
  # Generated sources (build_info.cpp and the like) come with the configuration.
  CONFIGURE_ONLY=1 tools/build.sh "$1" >/dev/null && .venv/bin/python tools/tidy.py "$BUILD"
}

step clang-format check_format
step 'ruff check' "${ruff[@]}" check --quiet .
step 'ruff format' "${ruff[@]}" format --quiet --check .
step mypy .venv/bin/python -m mypy
step shellcheck .venv/bin/shellcheck --severity warning tools/*.sh .ci/run
# The schema is part of the package, so no network is asked.
step workflows .venv/bin/check-jsonschema --builtin-schema vendor.github-workflows \
  .github/workflows/*.yml examples/plugins/library/.github/workflows/*.yml
step clang-tidy check_tidy "$1"

if [ ${#failed[@]} -gt 0 ]; then
  printf 'check: failed: %s\n' "${failed[*]}" >&2
  echo "check: 'make format' repairs formatting" >&2
  exit 1
fi
echo 'check: all clean'
