#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The library and the suite's CPU side for aarch64: compiled by Debian's cross compiler, warnings being errors;
# then the battery and the library's example run under qemu-user, on a processor without and one with dot products of
# bytes: tools/aarch64.sh [FOLDER]
# On Debian, as root where a package is missing. What is linked besides comes from Debian's arm64 packages, which
# are unpacked into the folder and not installed.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh build
missing=()
command -v aarch64-linux-gnu-g++ >/dev/null || missing+=(g++-aarch64-linux-gnu)
command -v qemu-aarch64 >/dev/null || missing+=(qemu-user)
if [ ${#missing[@]} -gt 0 ]; then
  [ "$(id -u)" -eq 0 ] || { echo "aarch64: install ${missing[*]}, or run this as root" >&2 && exit 3; }
  apt-get update -q
  apt-get install -y -q --no-install-recommends "${missing[@]}"
fi

folder=${1:-build-aarch64}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
root=$folder/root
libraries=$root/usr/lib/aarch64-linux-gnu
if [ ! -f "$libraries/libbenchmark.so" ]; then
  apt=$folder/apt
  mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$root"
  options=(-q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root
    -o Dir::State="$apt/state" -o Dir::State::status=/dev/null -o Dir::Cache="$apt/cache")
  apt-get "${options[@]}" update
  (cd "$apt" && apt-get "${options[@]}" download libbenchmark-dev libbenchmark1debian)
  for package in "$apt"/*.deb; do dpkg-deb -x "$package" "$root"; done
fi

cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DKMEANS_WERROR=ON -DKMEANS_TESTS=OFF \
  -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64.cmake" -DKMEANS_CUDA=OFF -DKMEANS_MPI=OFF \
  -DKMEANS_SOURCES_AT_ONCE=24 -Dbenchmark_DIR="$libraries/cmake/benchmark"
cmake --build "$folder" --target kmeans-bench --target kmeans-library

emulated() { qemu-aarch64 -cpu "$1" -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$libraries" "${@:2}"; }
bench=$folder/kmeans-bench
emulated max "$bench" verify --only '^(reference|cpu|eigen|openmp)_?'
bytes=(verify --only '^openmp_int8$')
KMEANS_BENCH_INT8=dotprod emulated neoverse-n1 "$bench" "${bytes[@]}"
emulated cortex-a53 "$bench" "${bytes[@]}"
if KMEANS_BENCH_INT8=dotprod emulated cortex-a53 "$bench" "${bytes[@]}"; then
  echo 'aarch64: dot products of bytes where there are none' >&2 && exit 1
fi

# The library's example, next to the suite: the same labels.
aarch64-linux-gnu-g++ -std=c++20 -O2 -Ilibrary examples/library/cluster.cpp \
  "$folder/library/libkmeans_exact.a" -fopenmp -ldl -o "$folder/cluster"
try=$folder/try
rm -rf "$try" && mkdir "$try"
emulated max "$bench" data blobs --n 3000 --d 9 --k 12 --precision f32 --out "$try/x.npy" >/dev/null
emulated max "$bench" fit "$try/x.npy" -k 12 --quiet --out "$try/fit"
tail -c $((3000 * 9 * 4)) "$try/x.npy" >"$try/x.f32"
emulated max "$folder/cluster" "$try/x.f32" 3000 9 12 "$try/labels"
tail -c $((3000 * 4)) "$try/fit/labels.npy" | cmp - "$try/labels"
echo 'aarch64: the battery passed, and the library gives the labels of the suite'
