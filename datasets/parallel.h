// SPDX-License-Identifier: Apache-2.0
//
// Work split over threads in blocks whose results do not depend on how many threads there are.
#pragma once

#include <cstdint>
#include <functional>

namespace kmeans {

/// Processors that this process may use (its affinity mask), at least 1.
int usable_processors();

/// Calls work(begin, end) for consecutive ranges of at most `grain` that cover [0, count), from
/// several threads where there is more than one range. Ranges depend on count and grain alone.
/// When calls throw, the exception of the lowest range is rethrown, whatever the thread count.
void parallel_ranges(std::int64_t count, std::int64_t grain,
                     const std::function<void(std::int64_t begin, std::int64_t end)>& work);

}  // namespace kmeans
