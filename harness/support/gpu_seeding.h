// SPDX-License-Identifier: Apache-2.0
//
// How the CUDA backend lends GPUs to the choice of seeds (docs/seeding.md), with the same bits as on the CPU, and sends
// the points once for seeds and iterations.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "harness/support/seed_distances.h"

namespace kmeans {

/// A new board of these points in the GPU's memory, for a choice of at most so many seeds. Null, and why, if
/// there is no GPU, or it does not take them.
using GpuBoardFactory = std::unique_ptr<SeedingBoard<float>> (*)(
    const SeedingProblem<float>& problem, std::int64_t most_seeds, std::string& why_not);

/// Set by a backend before main() begins; null: there is none.
inline GpuBoardFactory& gpu_board_factory() {
  static GpuBoardFactory factory = nullptr;
  return factory;
}

/// What a backend does with an array of points that is to stay on the GPUs in use: KeptGpuRows.
struct GpuRows {
  void (*keep)(const float* points, std::int64_t count);
  void (*give_up)(const float* points);
};

/// Set as gpu_board_factory().
inline const GpuRows*& gpu_rows() {
  static const GpuRows* rows = nullptr;
  return rows;
}

/// While it lives, what boards and variants send of these n x d points to GPUs is sent once, where there is room.
/// The points must stay as they are.
class KeptGpuRows {
 public:
  KeptGpuRows(const float* points, std::int64_t n, std::int64_t d) : points_(points) {
    if (gpu_rows() != nullptr) gpu_rows()->keep(points, n * d);
  }
  ~KeptGpuRows() {
    if (gpu_rows() != nullptr) gpu_rows()->give_up(points_);
  }
  KeptGpuRows(const KeptGpuRows&) = delete;
  KeptGpuRows& operator=(const KeptGpuRows&) = delete;

 private:
  const float* points_;
};

}  // namespace kmeans
