// SPDX-License-Identifier: Apache-2.0
//
// The cells of all seeds on a GPU (docs/seeding.md), from their sums to the centroids of what they
// are merged to: the arithmetic of datasets/ward.cpp, without a way through the host.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "harness/support/seed_distances.h"
#include "implementations/cuda/_seed_kernels.cuh"
#include "implementations/cuda/_ward_merges.cuh"

namespace kmeans::cuda {

constexpr int kCellThreads = 256;

/// Of all cells.
struct CellFacts {
  Integer largest;  // |coordinate| of a mean, as bits: these have the order of the numbers
  int some_are_empty;
};

/// A thread a coordinate. dev_sums: count x (d + 1), the weight last.
static __global__ void divide_cells_kernel(const float* __restrict__ dev_seeds,
                                           const Integer* __restrict__ dev_sums, std::int64_t count,
                                           std::int64_t d, double scale,
                                           double* __restrict__ dev_means,
                                           double* __restrict__ dev_weights,
                                           CellFacts* __restrict__ dev_facts) {
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= count * d) return;
  const std::int64_t j = index / d;
  const std::int64_t t = index % d;
  const Integer* sums = dev_sums + j * (d + 1);
  const auto weight = static_cast<double>(sums[d]);
  if (t == 0) {
    dev_weights[j] = weight;
    if (weight == 0) dev_facts->some_are_empty = 1;
  }
  const auto sum = static_cast<double>(static_cast<long long>(sums[t]));
  const double mean = __dadd_rn(dev_seeds[index], __ddiv_rn(__ddiv_rn(sum, weight), scale));
  dev_means[index] = mean;
  const auto bits = static_cast<Integer>(__double_as_longlong(fabs(mean)));
  if (bits > __ldcg(&dev_facts->largest)) atomicMax(&dev_facts->largest, bits);
}

/// A thread a coordinate of a cluster. dev_members: the cells of each cluster, ascending, those of
/// cluster j from dev_begins[j] on.
static __global__ void average_cells_kernel(const double* __restrict__ dev_means,
                                            const double* __restrict__ dev_weights, std::int64_t k,
                                            std::int64_t d,
                                            const std::int32_t* __restrict__ dev_begins,
                                            const std::int32_t* __restrict__ dev_members,
                                            float* __restrict__ dev_centroids) {
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= k * d) return;
  const std::int64_t j = index / d;
  double sum = 0;
  double weight = 0;
  for (int e = dev_begins[j]; e < dev_begins[j + 1]; ++e) {
    const std::int64_t cell = dev_members[e];
    const double its = dev_weights[cell];
    sum = __dadd_rn(sum, __dmul_rn(its, dev_means[cell * d + index % d]));
    weight = __dadd_rn(weight, its);
  }
  dev_centroids[index] = __double2float_rn(__ddiv_rn(sum, weight));
}

class GpuCells final : public kmeans::KeptCells<float> {
 public:
  /// dev_sums: of the cells of these seeds (count x d). weight: of all points.
  GpuCells(const DeviceBuffer<float>& dev_seeds, const DeviceBuffer<Integer>& dev_sums,
           std::int64_t count, double scale, double weight)
      : count_(count),
        d_(dev_seeds.size() / count),
        weight_(weight),
        dev_means_(count * d_),
        dev_weights_(count) {
    const DeviceBuffer<CellFacts> dev_facts(1);
    dev_facts.zero();
    divide_cells_kernel<<<blocks_for(count * d_, kCellThreads), kCellThreads>>>(
        dev_seeds.data(), dev_sums.data(), count, d_, scale, dev_means_.data(), dev_weights_.data(),
        dev_facts.data());
    KMEANS_CUDA_LAUNCHED(divide_cells_kernel);
    dev_facts.download(&facts_);
  }

  [[nodiscard]] bool some_are_empty() const { return facts_.some_are_empty != 0; }

  /// Of GPU memory, with what merges need.
  static double bytes_of(std::int64_t count, std::int64_t d) {
    return WardMerges::bytes_of(count, d) +
           28 * static_cast<double>(count) * static_cast<double>(d + 1);
  }

  std::vector<Merge> merges(std::int64_t wanted, const std::function<void()>& between) override {
    double largest = 0;
    static_assert(sizeof(largest) == sizeof(facts_.largest));
    std::memcpy(&largest, &facts_.largest, sizeof(largest));
    return WardMerges(count_, d_, MergeRounding(count_, d_, largest, weight_), dev_means_.data(),
                      dev_weights_.data())
        .run(wanted, between);
  }

  std::vector<float> centroids(const std::vector<std::int32_t>& numbers, std::int64_t k) override {
    std::vector<std::int32_t> begins(k + 1);
    for (const auto number : numbers) ++begins[number + 1];
    for (std::int64_t j = 0; j < k; ++j) begins[j + 1] += begins[j];
    std::vector<std::int32_t> members(count_);
    auto next = begins;
    for (std::int64_t c = 0; c < count_; ++c) {
      members[next[numbers[c]]++] = static_cast<std::int32_t>(c);
    }
    const DeviceBuffer<std::int32_t> dev_begins(k + 1);
    const DeviceBuffer<std::int32_t> dev_members(count_);
    const DeviceBuffer<float> dev_centroids(k * d_);
    dev_begins.upload(begins.data());
    dev_members.upload(members.data());
    average_cells_kernel<<<blocks_for(k * d_, kCellThreads), kCellThreads>>>(
        dev_means_.data(), dev_weights_.data(), k, d_, dev_begins.data(), dev_members.data(),
        dev_centroids.data());
    KMEANS_CUDA_LAUNCHED(average_cells_kernel);
    std::vector<float> centroids(k * d_);
    dev_centroids.download(centroids.data());
    return centroids;
  }

 private:
  std::int64_t count_;
  std::int64_t d_;
  double weight_;
  DeviceBuffer<double> dev_means_;
  DeviceBuffer<double> dev_weights_;
  CellFacts facts_{};
};

}  // namespace kmeans::cuda
