// SPDX-License-Identifier: Apache-2.0
//
// Many problems of one shape, each run to its own end, where one call has all of them at work.
#pragma once

#include <cstdint>

#include "implementations/_stops.h"

namespace kmeans {

/// One problem lies behind the other.
struct BatchTask {
  /// problems x n x d, row-major, finite; of a GPU, which may have them, the address that they are known by.
  const float* points = nullptr;
  std::int64_t problems = 0;
  std::int64_t n = 0;
  std::int64_t d = 0;
  std::int64_t k = 0;
  const float* centroids = nullptr;  ///< problems x k x d: where to begin.
  const float* max_abs = nullptr;    ///< problems: the largest |coordinate| of the points.
  bool settles = false;              ///< As Stopping::settled.
  const double* shifts = nullptr;    ///< problems: as Stopping::shift, or null.
  bool spherical = false;            ///< As Problem::spherical.
};

class BatchAtWork {
 public:
  BatchAtWork() = default;
  virtual ~BatchAtWork() = default;
  BatchAtWork(const BatchAtWork&) = delete;
  BatchAtWork& operator=(const BatchAtWork&) = delete;

  /// At most so many more iterations of each problem that has not stopped. False: all have.
  virtual bool step(std::int64_t iterations) = 0;
  /// The labels become those of the centroids as they are. Only fetch() may follow.
  virtual void label_again() = 0;
  /// problems x k x d, problems x n, problems; labels, of a GPU, in the memory of either.
  virtual void fetch(float* centroids, std::int32_t* labels, Stopped* stopped) = 0;
};

}  // namespace kmeans
