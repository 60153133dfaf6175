// SPDX-License-Identifier: Apache-2.0
//
// How the CUDA backend lends a GPU to the choice of seeds (docs/seeding.md): the same bits as on the CPU.
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

}  // namespace kmeans
