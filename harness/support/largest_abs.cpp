// SPDX-License-Identifier: Apache-2.0
#include "harness/support/largest_abs.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/support/parallel.h"

namespace kmeans {

template <class T>
T largest_abs(const T* points, std::int64_t count, int threads) {
  std::vector<T> largest(block_count(count), T{0});
  for_blocks(count, threads, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    T value = 0;
    for (std::int64_t i = begin; i < end; ++i) value = std::max(value, std::abs(points[i]));
    largest[block] = value;
  });
  return count == 0 ? T{0} : *std::max_element(largest.begin(), largest.end());
}

template float largest_abs<float>(const float*, std::int64_t, int);
template double largest_abs<double>(const double*, std::int64_t, int);

}  // namespace kmeans
