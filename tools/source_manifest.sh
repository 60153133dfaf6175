#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Writes .source-manifest: the commit, and the SHA-256 sum of every tracked file outside results/ as
# it is in that commit. A copy of the working tree without .git that carries this file can say which
# commit it was built from, and the build checks that it is (cmake/GitInfo.cmake).
set -euo pipefail
cd "$(dirname "$0")/.."

# Unknown files count where the build would compile or load them, as in cmake/GitInfo.cmake.
changes=$(
  git status --porcelain --untracked-files=no -- . ':(exclude)results'
  git status --porcelain --untracked-files=all -- cmake datasets experiments harness implementations |
    grep '^??' || true
)
if [ -n "$changes" ]; then
  printf 'these files differ from the commit, so the copy will count as changed:\n%s\n' "$changes" >&2
fi
{
  printf 'commit %s\n' "$(git rev-parse HEAD)"
  git ls-tree -r -z --name-only HEAD -- . | while IFS= read -r -d '' file; do
    case $file in results/*) continue ;; esac
    printf '%s  %s\n' "$(git cat-file blob "HEAD:$file" | sha256sum | cut -d ' ' -f 1)" "$file"
  done
} >.source-manifest
echo "wrote .source-manifest for $(sed -n 's/^commit //p' .source-manifest)"
