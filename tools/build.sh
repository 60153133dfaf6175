#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Configures a preset if that has not been done, and builds it: tools/build.sh PRESET [TARGET]
# CMAKE_ARGS holds further options for CMake, e.g. CMAKE_ARGS=-DKMEANS_MARCH=x86-64 make build.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=$1
target=${2:-all}
folder=build-$preset
[ "$preset" = release ] && folder=build

# Presets with a compiler of their own.
case $preset in fuzz | tsan) tools/setup.sh "$preset" ;; esac
if [ ! -f "$folder/build.ninja" ] || [ -n "${CMAKE_ARGS:-}" ]; then
  # shellcheck disable=SC2086  # several options in one variable
  cmake --preset "$preset" ${CMAKE_ARGS:-}
fi
[ "${CONFIGURE_ONLY:-}" = 1 ] || cmake --build "$folder" --target "$target"
