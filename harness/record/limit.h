// SPDX-License-Identifier: Apache-2.0
//
// The least time of an iteration by brute force on a machine (docs/metrics.md). plots/metrics.py
// has the same for reports.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "harness/variant.h"

namespace kmeans {

struct Limit {
  double seconds = 0;
  std::string
      binds;  ///< "bandwidth", "arithmetic", "a grid barrier", "the disk" or "the link to the GPU".
  bool from_cache = false;  ///< Of "bandwidth": the points fit into the cache.
};

/// GFLOP/s of the fastest arithmetic of a GPU, matrix units included, by its `ceilings`: of float64 alone for f64, else
/// of all others. 0 where none was measured.
double fastest_of_gpu(const nlohmann::json& ceilings, Precision precision);

/// `ceilings`: `context.ceilings` of a result file; `cache_bytes`: of the processor's last-level cache.
/// `streamed`: of a cell whose points come from a disk, or the host, in every iteration (docs/results.md),
/// or null.
/// Absent where nothing that it takes was measured.
std::optional<Limit> machine_limit(const nlohmann::json& ceilings,
                                   std::optional<double> cache_bytes, const Shape& shape,
                                   int threads, bool gpu, const nlohmann::json& streamed = {});

}  // namespace kmeans
