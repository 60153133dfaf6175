// SPDX-License-Identifier: Apache-2.0
//
// Ranges of things, and their division among threads.
#pragma once

#include <cstdint>

namespace kmeans::openmp {

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// The part of `count` things that belongs to `thread`: contiguous, and equal but for one.
inline Range part_of(std::int64_t count, int thread, int threads) {
  return {count * thread / threads, count * (thread + 1) / threads};
}

inline std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace kmeans::openmp
