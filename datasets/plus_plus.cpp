// SPDX-License-Identifier: Apache-2.0
#include "datasets/plus_plus.h"

#include <algorithm>
#include <limits>

#include "datasets/random.h"
#include "harness/support/parallel.h"

namespace kmeans {
namespace {

// A stream apart from those of the generators, so that a seed used for both gives unrelated numbers.
constexpr std::uint64_t kPlusPlus = 101;

}  // namespace

template <class T>
std::vector<std::int64_t> plus_plus_rows(const T* x, std::int64_t n, std::int64_t d, std::int64_t k,
                                         std::uint64_t seed, const std::function<void()>& between) {
  const CounterRandom random(seed, kPlusPlus);
  std::vector<double> nearest(static_cast<std::size_t>(n), std::numeric_limits<double>::infinity());
  std::vector<std::int64_t> rows{random.below(0, n)};
  std::vector<double> block_sums(static_cast<std::size_t>(block_count(n)));
  for (std::int64_t j = 1; j < k; ++j) {
    if (between) between();
    const T* chosen = x + rows.back() * d;
    parallel_ranges(n, kBlock, [&](std::int64_t begin, std::int64_t end) {
      double sum = 0;
      for (std::int64_t i = begin; i < end; ++i) {
        double& distance = nearest[static_cast<std::size_t>(i)];
        distance = std::min(distance, squared_distance(x + i * d, chosen, d));
        sum += distance;
      }
      block_sums[static_cast<std::size_t>(begin / kBlock)] = sum;
    });
    double total = 0;
    for (const double sum : block_sums) total += sum;
    if (!(total > 0)) {  // fewer distinct points than k: the first rows not yet taken
      std::vector<bool> taken(static_cast<std::size_t>(n));
      for (const auto row : rows) taken[static_cast<std::size_t>(row)] = true;
      for (std::int64_t i = 0; static_cast<std::int64_t>(rows.size()) < k; ++i) {
        if (!taken[static_cast<std::size_t>(i)]) rows.push_back(i);
      }
      break;
    }
    double remaining = random.uniform(static_cast<std::uint64_t>(j)) * total;
    std::size_t block = 0;
    while (block + 1 < block_sums.size() && remaining >= block_sums[block]) {
      remaining -= block_sums[block++];
    }
    const auto begin = static_cast<std::int64_t>(block) * kBlock;
    const std::int64_t end = std::min(n, begin + kBlock);
    // Rounding may leave a rest after the last row: the last row with a chance at all gets it.
    std::int64_t pick = -1;
    for (std::int64_t i = begin; i < end; ++i) {
      const double distance = nearest[static_cast<std::size_t>(i)];
      if (!(distance > 0)) continue;
      pick = i;
      if (remaining < distance) break;
      remaining -= distance;
    }
    if (pick < 0) {  // such a rest pointed at a block that has no such row
      pick = std::max_element(nearest.begin(), nearest.end()) - nearest.begin();
    }
    rows.push_back(pick);
  }
  return rows;
}

template std::vector<std::int64_t> plus_plus_rows(const float*, std::int64_t, std::int64_t,
                                                  std::int64_t, std::uint64_t,
                                                  const std::function<void()>&);
template std::vector<std::int64_t> plus_plus_rows(const double*, std::int64_t, std::int64_t,
                                                  std::int64_t, std::uint64_t,
                                                  const std::function<void()>&);

}  // namespace kmeans
