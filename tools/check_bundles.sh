#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks every bundle of results/ that differs from a commit: tools/check_bundles.sh COMMIT. Folders that
# had no manifest at that commit either are the maintainers' own.
set -euo pipefail
cd "$(dirname "$0")/.."
program=${KMEANS_BENCH:-build/kmeans-bench}

status=0
while IFS= read -r folder; do
  [ -d "$folder" ] || continue  # taken away
  if [ ! -f "$folder/bundle.manifest" ]; then
    if git cat-file -e "$1:$folder" 2>/dev/null &&
      ! git cat-file -e "$1:$folder/bundle.manifest" 2>/dev/null; then
      echo "$folder: not a bundle, and was not one"
      continue
    fi
    echo "$folder: has no bundle.manifest; 'kmeans-bench bundle $folder' writes it" >&2
    status=2
    continue
  fi
  echo "== $folder"
  code=0
  "$program" check-bundle "$folder" || code=$?
  [ "$code" -eq 0 ] || status=$code
done < <(git diff --name-only "$1" HEAD -- 'results/*/*.json' 'results/*/bundle.manifest' |
         sed 's|/[^/]*$||' | sort -u)
exit "$status"
