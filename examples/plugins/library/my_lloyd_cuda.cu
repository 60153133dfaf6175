// SPDX-License-Identifier: Apache-2.0
//
// A variant in CUDA outside of the suite, to start from (docs/plugins.md). `.gpu = true` says where it
// runs. Compiled for compute capability 7.5; run on no GPU yet.
#include <math_constants.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "harness/variant.h"

namespace {

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
  }
}

/// Memory of the GPU that is given back with its owner.
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }
  void allocate(std::int64_t count) {
    check(cudaFree(data_), "cudaFree");
    data_ = nullptr;
    check(cudaMalloc(&data_, count * sizeof(T)), "cudaMalloc");
  }
  T* data() { return data_; }

 private:
  T* data_ = nullptr;
};

__global__ void assign_points(const float* points, std::int64_t n, std::int64_t d, std::int64_t k,
                              const float* centroids, std::int32_t* labels, double* sums,
                              unsigned long long* counts) {
  const std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  float smallest = CUDART_INF_F;
  std::int64_t nearest = 0;
  for (std::int64_t j = 0; j < k; ++j) {
    float distance = 0;
    for (std::int64_t t = 0; t < d; ++t) {
      const float difference = points[i * d + t] - centroids[j * d + t];
      distance += difference * difference;
    }
    if (distance < smallest) {  // strictly: the lowest index wins a tie
      smallest = distance;
      nearest = j;
    }
  }
  labels[i] = static_cast<std::int32_t>(nearest);
  for (std::int64_t t = 0; t < d; ++t) {
    atomicAdd(sums + nearest * d + t, static_cast<double>(points[i * d + t]));
  }
  atomicAdd(counts + nearest, 1ULL);
}

__global__ void move_centroids(std::int64_t d, std::int64_t k, const double* sums,
                               const unsigned long long* counts, float* centroids) {
  const std::int64_t c = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (c >= k * d || counts[c / d] == 0) return;  // an empty cluster keeps its centroid
  centroids[c] = static_cast<float>(sums[c] / static_cast<double>(counts[c / d]));
}

class MyLloydCuda final : public kmeans::Variant<float> {
 public:
  void setup(const kmeans::Problem<float>& problem) override {
    shape_ = problem.shape;
    const auto [n, d, k, precision] = shape_;
    points_.allocate(n * d);
    labels_.allocate(n);
    centroids_.allocate(k * d);
    sums_.allocate(k * d);
    counts_.allocate(k);
    check(cudaMemcpy(points_.data(), problem.points, n * d * sizeof(float), cudaMemcpyDefault),
          "points to the GPU");
  }

  void reset(const float* centroids) override {
    check(cudaMemcpy(centroids_.data(), centroids, shape_.k * shape_.d * sizeof(float),
                     cudaMemcpyDefault),
          "centroids to the GPU");
  }

  void step(std::int64_t iterations) override {
    const auto [n, d, k, precision] = shape_;
    for (std::int64_t iteration = 0; iteration < iterations; ++iteration) {
      check(cudaMemsetAsync(sums_.data(), 0, k * d * sizeof(double)), "sums");
      check(cudaMemsetAsync(counts_.data(), 0, k * sizeof(unsigned long long)), "counts");
      assign_points<<<blocks(n), kThreads>>>(points_.data(), n, d, k, centroids_.data(),
                                             labels_.data(), sums_.data(), counts_.data());
      check(cudaGetLastError(), "assign_points");
      move_centroids<<<blocks(k * d), kThreads>>>(d, k, sums_.data(), counts_.data(),
                                                  centroids_.data());
      check(cudaGetLastError(), "move_centroids");
    }
    check(cudaDeviceSynchronize(), "step");  // it returns only when the work is done
  }

  void fetch(float* centroids, std::int32_t* labels) override {
    check(cudaMemcpy(centroids, centroids_.data(), shape_.k * shape_.d * sizeof(float),
                     cudaMemcpyDefault),
          "centroids from the GPU");
    check(cudaMemcpy(labels, labels_.data(), shape_.n * sizeof(std::int32_t), cudaMemcpyDefault),
          "labels from the GPU");
  }

 private:
  static constexpr unsigned kThreads = 256;
  static unsigned blocks(std::int64_t work) {
    return static_cast<unsigned>((work + kThreads - 1) / kThreads);
  }

  kmeans::Shape shape_;
  DeviceArray<float> points_;               // n x d
  DeviceArray<float> centroids_;            // k x d
  DeviceArray<double> sums_;                // k x d
  DeviceArray<unsigned long long> counts_;  // k
  DeviceArray<std::int32_t> labels_;        // n
};

}  // namespace

KMEANS_VARIANT(
    MyLloydCuda, .name = "my_lloyd_cuda", .summary = "a thread a point, sums by atomic additions",
    .deterministic = false, .sums = Sums::wide, .gpu = true,
    .device_bytes = [](const Sizes& s) { return 4 * s.n * s.d + 4 * s.n + (12 * s.d + 8) * s.k; })
