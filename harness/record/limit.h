// SPDX-License-Identifier: Apache-2.0
//
// The least time of an iteration by brute force on a machine (docs/metrics.md).
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/result_file.h"
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
/// or null. Of several GPUs, each measured as the first: all that they can do together.
/// Absent where nothing that it takes was measured.
std::optional<Limit> machine_limit(const nlohmann::json& ceilings,
                                   std::optional<double> cache_bytes, const Shape& shape,
                                   int threads, bool gpu, const nlohmann::json& streamed = {},
                                   int gpus = 1);

/// The limit of a cell on the machine of its file.
std::optional<Limit> limit_of(const ResultFile& file, const CellResult& cell);

/// Was it measured on a GPU? (The backend alone does not say: Python libraries do both.)
bool on_gpu(const CellResult& cell);

/// GPUs that shared its points: its own, or one for each rank.
int gpus_of(const CellResult& cell);

/// Bytes of the largest cache of the processor, by the `context` of a result file.
std::optional<double> last_level_cache(const nlohmann::json& context);

/// Measured rates in 10^9 per second of the place where a cell, or a stage of it, ran: of reading memory, or the
/// cache that the points fit into, and of multiply-adds without matrix units. 0 where none was measured.
struct Rates {
  double read_gbytes_per_second = 0;
  double fma_gflops = 0;
};
Rates rates_of(const ResultFile& file, const CellResult& cell, bool gpu);

/// What machine_limit() is the largest of, where nothing is streamed, for whoever predicts many shapes: GFLOP/s, GB/s
/// of memory, GB/s of the cache, its bytes, seconds of a barrier. 0 where that was not measured.
std::array<double, 5> parts_of_limit(const ResultFile& file, Precision precision, int threads,
                                     bool gpu, int gpus);

/// Of a machine's results the last that has measured what it can do, its GPU above all. Not empty.
const ResultFile& with_newest_ceilings(const std::vector<ResultFile>& results);

}  // namespace kmeans
