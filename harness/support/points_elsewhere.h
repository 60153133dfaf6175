// SPDX-License-Identifier: Apache-2.0
//
// Points that lie where the host cannot read them: on a GPU.
#pragma once

#include <cstdint>
#include <vector>

namespace kmeans {

template <class T>
class PointsElsewhere {
 public:
  PointsElsewhere() = default;
  virtual ~PointsElsewhere() = default;
  PointsElsewhere(const PointsElsewhere&) = delete;
  PointsElsewhere& operator=(const PointsElsewhere&) = delete;

  /// `count` coordinates from `first` on of these rows, one row after the other.
  virtual void copy_rows(const std::vector<std::int64_t>& rows, std::int64_t first,
                         std::int64_t count, T* to) const = 0;

  /// All of them in the host's memory: copied at the first call, kept as long as this.
  [[nodiscard]] virtual const T* host_copy() const = 0;
};

}  // namespace kmeans
