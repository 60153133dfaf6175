// SPDX-License-Identifier: Apache-2.0
#include "harness/record/limit.h"

#include <algorithm>
#include <tuple>

#include "harness/record/measures.h"
#include "harness/support/json_member.h"

namespace kmeans {
namespace {

using nlohmann::json;

/// 0 where there is no such number.
double number(const json& object, const char* key) { return number_in(object, key).value_or(0); }

double point_bytes(const Shape& shape) {
  const Sizes sizes(shape);
  return sizes.scalar * sizes.n * sizes.d;
}

bool is_filled(const json& value) { return value.is_object() && !value.empty(); }

struct Bandwidth {
  double gbytes_per_second = 0;
  bool from_cache = false;
};

Bandwidth gpu_bandwidth(const json& ceilings, const Shape& shape, int gpus) {
  // The array that the cache's bandwidth is measured on is half as large as the cache.
  const double cache = 2 * number(member(member(ceilings, "details"), "bytes"), "l2");
  const double cached = number(ceilings, "read_gbytes_per_second_l2");
  if (cached > 0 && point_bytes(shape) / gpus <= cache) return {cached, true};
  return {number(ceilings, "read_gbytes_per_second"), false};
}

Bandwidth cpu_bandwidth(const json& ceilings, std::optional<double> cache_bytes,
                        const Shape& shape) {
  const double cached = number(ceilings, "read_gbytes_per_second_cache");
  if (cached > 0 && cache_bytes && point_bytes(shape) <= *cache_bytes) return {cached, true};
  return {number(ceilings, "read_gbytes_per_second"), false};
}

double cpu_arithmetic(const json& ceilings, Precision precision, int threads) {
  const bool wide = precision == Precision::f64;
  const char* one = wide ? "f64_one_thread" : "f32_one_thread";
  const char* all = wide ? "f64_all_threads" : "f32_all_threads";
  return number(member(ceilings, "fma_gflops"), threads == 1 ? one : all);
}

}  // namespace

double fastest_of_gpu(const json& ceilings, Precision precision) {
  double fastest = 0;
  for (const char* group : {"fma_gflops", "gemm_gflops"}) {
    const json rates = member(ceilings, group);
    for (const auto& [kind, rate] : rates.items()) {
      if (rate.is_number() && (kind == "f64") == (precision == Precision::f64)) {
        fastest = std::max(fastest, rate.get<double>());
      }
    }
  }
  return fastest;
}

std::optional<Limit> machine_limit(const json& ceilings, std::optional<double> cache_bytes,
                                   const Shape& shape, int threads, bool gpu, const json& streamed,
                                   int gpus) {
  const json& own = gpu ? member(ceilings, "gpu") : ceilings;
  const auto [bandwidth, from_cache] =
      gpu ? gpu_bandwidth(own, shape, gpus) : cpu_bandwidth(own, cache_bytes, shape);
  const double arithmetic =
      gpu ? fastest_of_gpu(own, shape.precision) : cpu_arithmetic(own, shape.precision, threads);
  Limit limit;
  const auto bound = [&](double seconds, const char* by) {
    if (seconds > limit.seconds) limit = {seconds, by, false};
  };
  if (bandwidth > 0) {
    limit = {compulsory_bytes(shape) / (gpus * bandwidth * 1e9), "bandwidth", from_cache};
  }
  if (arithmetic > 0) bound(operations_2nkd(shape) / gpus / (arithmetic * 1e9), "arithmetic");
  const double sent = number(streamed, "bytes_per_iteration");
  const double disk = number(streamed, "disk_gbytes_per_second");
  const double link = number(member(own, "host_to_device_gbytes_per_second"), "pinned");
  if (disk > 0) bound(sent / (disk * 1e9), "the disk");
  if (gpu && link > 0) bound(sent / (link * 1e9), "the link to the GPU");
  if (gpu) bound(number(own, "grid_barrier_seconds"), "a grid barrier");
  if (limit.seconds <= 0) return std::nullopt;
  return limit;
}

bool on_gpu(const CellResult& cell) { return member(cell.data, "gpu").is_object(); }

int gpus_of(const CellResult& cell) {
  return on_gpu(cell) ? std::max(cell.key.gpus, cell.key.ranks) : 1;
}

std::optional<double> last_level_cache(const json& context) {
  double largest = 0;
  for (const auto& cache : member(context, {"machine", "cpu", "caches"})) {
    largest = std::max(largest, number(cache, "bytes"));
  }
  return largest > 0 ? std::optional(largest) : std::nullopt;
}

std::optional<Limit> limit_of(const ResultFile& file, const CellResult& cell) {
  return machine_limit(member(file.context, "ceilings"), last_level_cache(file.context),
                       cell.key.shape, cell.key.threads, on_gpu(cell),
                       member(cell.data, "streamed"), gpus_of(cell));
}

Rates rates_of(const ResultFile& file, const CellResult& cell, bool gpu) {
  const json& ceilings = member(file.context, "ceilings");
  const Shape& shape = cell.key.shape;
  if (gpu) {
    const json& own = member(ceilings, "gpu");
    return {gpu_bandwidth(own, shape, gpus_of(cell)).gbytes_per_second,
            number(member(own, "fma_gflops"), to_string(shape.precision))};
  }
  return {cpu_bandwidth(ceilings, last_level_cache(file.context), shape).gbytes_per_second,
          cpu_arithmetic(ceilings, shape.precision, cell.key.threads)};
}

std::array<double, 5> parts_of_limit(const ResultFile& file, Precision precision, int threads,
                                     bool gpu, int gpus) {
  const json& ceilings = member(file.context, "ceilings");
  const json& own = gpu ? member(ceilings, "gpu") : ceilings;
  const char* cached = gpu ? "read_gbytes_per_second_l2" : "read_gbytes_per_second_cache";
  const double rate =
      gpu ? fastest_of_gpu(own, precision) : cpu_arithmetic(own, precision, threads);
  const double cache = gpu ? 2 * number(member(own, {"details", "bytes"}), "l2")
                           : last_level_cache(file.context).value_or(0);
  return {gpus * rate, gpus * number(own, "read_gbytes_per_second"), gpus * number(own, cached),
          gpus * cache, gpu ? number(own, "grid_barrier_seconds") : 0};
}

const ResultFile& with_newest_ceilings(const std::vector<ResultFile>& results) {
  const auto rank = [](const ResultFile& file) {
    const json& ceilings = member(file.context, "ceilings");
    return std::tuple(is_filled(member(ceilings, "gpu")), is_filled(member(ceilings, "fma_gflops")),
                      text_in(file.context, "started"), file.path.filename());
  };
  return *std::ranges::max_element(results, {}, rank);
}

}  // namespace kmeans
