// SPDX-License-Identifier: Apache-2.0
//
// Which centroids differ from those of the last iteration: what was packed of the rest is still right.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kmeans::openmp {

class Changes {
 public:
  /// All of them.
  Changes() = default;
  /// Those whose flag, of k, is not 0.
  explicit Changes(const char* flags) : flags_(flags) {}

  [[nodiscard]] bool of(std::int64_t centroid) const {
    return flags_ == nullptr || flags_[centroid] != 0;
  }
  [[nodiscard]] bool any_of(std::int64_t begin, std::int64_t end) const {
    return flags_ == nullptr ||
           std::any_of(flags_ + begin, flags_ + end, [](char flag) { return flag != 0; });
  }

 private:
  const char* flags_ = nullptr;
};

}  // namespace kmeans::openmp
