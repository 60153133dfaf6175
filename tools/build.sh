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

# A folder that came along with a copied or moved clone would compile the sources of the old place.
if [ -f "$folder/build.ninja" ]; then
  home=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$folder/CMakeCache.txt" 2>/dev/null || true)
  if ! [ "$home" -ef . ]; then
    printf 'build: %s was configured for %s, not for %s, so it is made again; %s\n' \
      "$folder" "${home:-an unknown place}" "$PWD" \
      'options given with CMAKE_ARGS then have to be given again' >&2
    rm -rf "$folder" # of a link only the link
  fi
fi
# What set-up has installed since may be a backend that was left out; and a folder that was configured
# without a GPU in sight is for any GPU, not for the one that is there now (cmake/KmeansCuda.cmake).
gpu_has_come() {
  grep -q '^CUDA: no GPU here' "$folder/left-out.txt" 2>/dev/null &&
    nvidia-smi --list-gpus 2>/dev/null | grep -q '^GPU '
}
# Of a .venv that was made since, the Python package of the library needs nanobind.
forget=()
if [ -f "$folder/build.ninja" ] && [ .venv/.requirements -nt "$folder/build.ninja" ]; then
  forget=(-U 'Python_*' -U '_Python_*')
fi
if [ ! -f "$folder/build.ninja" ] || [ -n "${CMAKE_ARGS:-}" ] || [ ${#forget[@]} -gt 0 ] ||
  [ .setup/installed -nt "$folder/build.ninja" ] || gpu_has_come; then
  # shellcheck disable=SC2086  # several options in one variable
  cmake --preset "$preset" ${forget[@]+"${forget[@]}"} ${CMAKE_ARGS:-}
fi
[ "${CONFIGURE_ONLY:-}" = 1 ] && exit
cmake --build "$folder" --target "$target"
# Said while configuring, minutes ago and maybe days ago.
if [ -s "$folder/left-out.txt" ]; then sed 's/^/build: /' "$folder/left-out.txt" >&2; fi
