// SPDX-License-Identifier: Apache-2.0
//
// Idea:      the plainest GPU version: a thread labels its point and adds it to its cluster's sums
//            at once, by atomic additions in global memory
// Parallel:  a thread owns a point in the first kernel, a coordinate of a centroid in the second;
//            the host waits after each of them
// Memory:    column-major points, so that a warp's reads coalesce: read once and kept in registers
//            where d <= 3 (as printed, for d = 2), else once a centroid and for the sums. Every
//            centroid is read from global memory by every thread; d + 1 contended atomics a point
// Numerics:  everything in the points' scalar; the order of the atomic additions, and with it the
//            last bits of the centroids, changes from run to run
// Source:    goldsborough2017, its first CUDA version, for any d. Corrected: an empty cluster keeps
//            its centroid (printed: it moves to the origin); initial centroids are points (printed:
//            x and y are shuffled independently). Labels are also written out
#include "implementations/cuda/_divide_sums.cuh"
#include "implementations/cuda/_own_point.cuh"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code

constexpr int kThreads = 1024;

/// D: see OwnPoint; any_d: d where D is 0.
template <class T, int D>
__global__ void assign_and_add_kernel(const T* __restrict__ dev_points, std::int64_t n,
                                      std::int64_t any_d, const T* __restrict__ dev_centroids,
                                      std::int64_t k, std::int32_t* __restrict__ dev_labels,
                                      T* __restrict__ dev_sums, std::int64_t pitch,
                                      std::int32_t* __restrict__ dev_counts) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const std::int64_t d = D > 0 ? D : any_d;
  const OwnPoint<T, D> point(dev_points, n, i);
  T nearest_distance = INFINITY;
  std::int64_t nearest = 0;
  for (std::int64_t j = 0; j < k; ++j) {
    T distance = 0;
    for (std::int64_t t = 0; t < d; ++t) {
      const T difference = point[t] - dev_centroids[j * d + t];
      distance += difference * difference;
    }
    if (distance < nearest_distance) {  // strictly: the lowest index wins a tie
      nearest_distance = distance;
      nearest = j;
    }
  }
  dev_labels[i] = static_cast<std::int32_t>(nearest);
  for (std::int64_t t = 0; t < d; ++t) atomicAdd(&dev_sums[t * pitch + nearest], point[t]);
  atomicAdd(&dev_counts[nearest], 1);
}

template <class T>
class CudaAtomic final : public CudaLloyd<T> {
 public:
  CudaAtomic() : CudaLloyd<T>(Layout::columns) {}

 private:
  void prepare() override {
    dev_sums_ = DeviceBuffer<T>(column_pitch(this->shape().k) * this->shape().d);
    dev_counts_ = DeviceBuffer<std::int32_t>(this->shape().k);
  }

  void iterate() override {
    const auto [n, d, k, precision] = this->shape();
    {
      const auto timed = this->stage("assign");
      dev_counts_.zero();
      dev_sums_.zero();
      with_own_coordinates(d, [&](auto own) {
        assign_and_add_kernel<T, own><<<blocks_for(n, kThreads), kThreads>>>(
            this->dev_points_.data(), n, d, this->dev_centroids_.data(), k,
            this->dev_labels_.data(), dev_sums_.data(), column_pitch(k), dev_counts_.data());
      });
      KMEANS_CUDA_LAUNCHED(assign_and_add_kernel);
      KMEANS_CUDA(cudaDeviceSynchronize());
    }
    const auto timed = this->stage("update");
    divide_sum_columns(dev_sums_, dev_counts_, this->dev_centroids_, this->shape());
    KMEANS_CUDA(cudaDeviceSynchronize());
  }

  DeviceBuffer<T> dev_sums_;               // d columns of column_pitch(k)
  DeviceBuffer<std::int32_t> dev_counts_;  // k
};

}  // namespace

KMEANS_VARIANT(
    CudaAtomic, .name = "cuda_atomic",
    .summary = "one thread a point, centroids from global memory, global atomics",
    .source = "goldsborough2017", .precisions = {Precision::f32, Precision::f64},
    .deterministic = false, .supports = sums_and_counts_fit, .device_bytes = plain_device_bytes,
    .traffic = [](const Shape& s) {
      const double scalar = scalar_bytes(s);
      const double points = scalar * s.n * s.d;
      // Every centroid for every point; the point for each of them and for the sums.
      return Traffic{.read_bytes = points * s.k + points * own_point_reads(s, 1),
                     .written_bytes = 4.0 * s.n,
                     .atomic_bytes = points + 4.0 * s.n};
    })
