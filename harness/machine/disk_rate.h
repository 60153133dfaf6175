// SPDX-License-Identifier: Apache-2.0
//
// How fast a file comes from its disk: the limit of whoever reads all of it again and again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace kmeans {

struct DiskRate {
  double bytes_per_second = 0;
  bool direct = false;  ///< Past the page cache; else each block was asked to be forgotten before.
};

/// Reads the file from its beginning on in large blocks, two at a time, for about so many seconds, a short
/// file several times. Absent where it cannot be read.
std::optional<DiskRate> measure_disk_rate(const std::filesystem::path& file, double seconds);

}  // namespace kmeans
