// SPDX-License-Identifier: Apache-2.0
//
// Idea:      the exact Lloyd step on plain CUDA cores: cuda_atomic with float64 distances and
//            fixed-point sums. Simple on purpose: it is the GPU's yardstick of truth
// Parallel:  a thread owns a point in both passes over the points, a coordinate of a centroid in
//            the last one
// Memory:    column-major points; sixteen centroids at a time stand in shared memory, as float64,
//            some coordinates of them at a time, so that neither d nor k has a limit; every point
//            is read once per sixteen centroids, and once for the sums; d + 1 atomics a point
// Numerics:  labels by float64 distances, t ascending, each operation rounded on its own (the
//            intrinsics keep the compiler from fusing them); sums are 64-bit integers, so the order
//            of the atomic additions cannot change them. Equals the reference bit for bit
// Source:    docs/exact-step.md
#include "implementations/cuda/_divide_sums.cuh"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_lloyd.cuh"
#include "implementations/cuda/_shared_sums.cuh"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code

constexpr int kThreads = 256;
constexpr int kGroup = 16;        // centroids at a time
constexpr int kCoordinates = 64;  // of each of them in shared memory

__global__ void __launch_bounds__(kThreads)
    assign_exactly_kernel(const float* __restrict__ dev_points, std::int64_t n, std::int64_t d,
                          const float* __restrict__ dev_centroids, std::int64_t k,
                          std::int32_t* __restrict__ dev_labels) {
  __shared__ double group[kCoordinates][kGroup];
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  double nearest_distance = INFINITY;
  std::int64_t nearest = 0;
  for (std::int64_t first_j = 0; first_j < k; first_j += kGroup) {
    const int centroids = static_cast<int>(min(std::int64_t{kGroup}, k - first_j));
    double distances[kGroup] = {};
    for (std::int64_t first_t = 0; first_t < d; first_t += kCoordinates) {
      const int coordinates = static_cast<int>(min(std::int64_t{kCoordinates}, d - first_t));
      __syncthreads();  // all are done with the coordinates before
      for (int e = threadIdx.x; e < kGroup * coordinates; e += kThreads) {
        const int j = e / coordinates;
        const int t = e % coordinates;
        group[t][j] = j < centroids ? dev_centroids[(first_j + j) * d + first_t + t] : 0.0;
      }
      __syncthreads();
      if (i >= n) continue;
      for (int t = 0; t < coordinates; ++t) {
        const double x = dev_points[(first_t + t) * n + i];
#pragma unroll
        for (int j = 0; j < kGroup; ++j) {
          distances[j] = add_exact_square(distances[j], x, group[t][j]);
        }
      }
    }
#pragma unroll
    for (int j = 0; j < kGroup; ++j) {
      // Strictly: the lowest index wins a tie.
      if (j < centroids && distances[j] < nearest_distance) {
        nearest_distance = distances[j];
        nearest = first_j + j;
      }
    }
  }
  if (i < n) dev_labels[i] = static_cast<std::int32_t>(nearest);
}

/// Where the sums and counts of clusters stand, in columns or in rows.
struct SumLayout {
  std::int64_t cluster;     // from a cluster's sum to the next one's
  std::int64_t coordinate;  // from a coordinate's sum to the next one's
  std::int64_t count;       // from a cluster's count to the next one's
};

__global__ void add_exactly_kernel(const float* __restrict__ dev_points, std::int64_t n,
                                   std::int64_t d, const std::int32_t* __restrict__ dev_labels,
                                   double scale, SumLayout at, Integer* __restrict__ dev_sums,
                                   Integer* __restrict__ dev_counts) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const std::int64_t j = dev_labels[i];
  for (std::int64_t t = 0; t < d; ++t) {
    // Unsigned addition of two's complements is signed addition.
    const long long fixed = exact_fixed_point(dev_points[t * n + i], scale);
    atomicAdd(&dev_sums[t * at.coordinate + j * at.cluster], static_cast<Integer>(fixed));
  }
  atomicAdd(&dev_counts[j * at.count], Integer{1});
}

__global__ void divide_exactly_kernel(const Integer* __restrict__ dev_sums, std::int64_t pitch,
                                      const Integer* __restrict__ dev_counts, double inverse_scale,
                                      float* __restrict__ dev_centroids, std::int64_t k,
                                      std::int64_t d) {
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= k * d) return;
  const std::int64_t j = index / d;
  const auto count = static_cast<long long>(dev_counts[j]);
  if (count == 0) return;  // an empty cluster keeps its centroid
  const auto sum = static_cast<long long>(dev_sums[index % d * pitch + j]);
  dev_centroids[index] = exact_mean(sum, count, inverse_scale);
}

class CudaExact final : public CudaLloyd<float> {
 public:
  CudaExact() : CudaLloyd<float>(Layout::columns) {}

 private:
  void prepare() override {
    const auto [n, d, k, precision] = shape();
    const int s = kmeans::exact::sum_exponent(problem_.whole_n(), problem_.max_abs);
    scale_ = kmeans::exact::power_of_two(s);
    inverse_scale_ = kmeans::exact::power_of_two(-s);
    shared_ = SharedSums(problem_);
    if (shared_.shared()) {  // as exchange() takes them
      layout_ = {.cluster = d + 1, .coordinate = 1, .count = d + 1};
      dev_sums_ = DeviceBuffer<Integer>(shared_.length());
    } else {
      layout_ = {.cluster = 1, .coordinate = column_pitch(k), .count = 1};
      dev_sums_ = DeviceBuffer<Integer>(column_pitch(k) * d);
      dev_counts_ = DeviceBuffer<Integer>(k);
    }
  }

  void iterate() override {
    assign();
    update();
    if (!shared_.shared()) return;
    const auto timed = stage("communication");
    shared_.exchange(dev_sums_.data(), dev_centroids_.data(), nullptr);
  }

  void assign() {
    const auto timed = stage("assign");
    const auto [n, d, k, precision] = shape();
    assign_exactly_kernel<<<blocks_for(n, kThreads), kThreads>>>(
        dev_points_.data(), n, d, dev_centroids_.data(), k, dev_labels_.data());
    KMEANS_CUDA_LAUNCHED(assign_exactly_kernel);
  }

  void update() {
    const auto timed = stage("update");
    const auto [n, d, k, precision] = shape();
    dev_sums_.zero();
    dev_counts_.zero();
    Integer* counts = shared_.shared() ? dev_sums_.data() + d : dev_counts_.data();
    add_exactly_kernel<<<blocks_for(n, kThreads), kThreads>>>(
        dev_points_.data(), n, d, dev_labels_.data(), scale_, layout_, dev_sums_.data(), counts);
    KMEANS_CUDA_LAUNCHED(add_exactly_kernel);
    if (shared_.shared()) return;
    divide_exactly_kernel<<<blocks_for(k * d, kThreads), kThreads>>>(
        dev_sums_.data(), column_pitch(k), dev_counts_.data(), inverse_scale_,
        dev_centroids_.data(), k, d);
    KMEANS_CUDA_LAUNCHED(divide_exactly_kernel);
  }

  double scale_ = 1;
  double inverse_scale_ = 1;
  SharedSums shared_;
  SumLayout layout_{};
  DeviceBuffer<Integer> dev_sums_;    // fixed point, by layout_
  DeviceBuffer<Integer> dev_counts_;  // k, unless they stand with the sums
};

}  // namespace

KMEANS_VARIANT(
    CudaExact, .name = "cuda_exact",
    .summary = "the exact Lloyd step on plain CUDA cores: float64 distances, fixed-point sums",
    .exact = true, .engine = true, .gpu_shards = true, .sums = Sums::wide,
    .device_bytes =
        [](const Shape& s) {
          return plain_device_bytes(s) +
                 4.0 * (static_cast<double>(s.k) + 64) * static_cast<double>(s.d);
        },
    .traffic =
        [](const Shape& s) {
          const double points = 4.0 * s.n * s.d;
          const double groups = static_cast<double>(ceil_div(s.k, kGroup));
          const double blocks = static_cast<double>(ceil_div(s.n, kThreads));
          return Traffic{.read_bytes = points * (groups + 1) + 4.0 * blocks * s.k * s.d + 4.0 * s.n,
                         .written_bytes = 4.0 * s.n,
                         .atomic_bytes = 2 * points + 8.0 * s.n};
        })
