// SPDX-License-Identifier: Apache-2.0
//
// Idea:      cuda_atomic with the centroids in shared memory: a block copies them once, and its
//            threads read them from there
// Parallel:  a thread owns a point in the first kernel, a coordinate of a centroid in the second;
//            all threads of a block copy; the host waits after each kernel
// Memory:    column-major points, read once and kept in registers where d <= 3 (as printed, for
//            d = 2), else once a centroid and for the sums. Centroids that exceed 48 KB pass
//            through shared memory in tiles of whole centroids, a centroid that exceeds them in
//            tiles of coordinates; d + 1 contended atomics a point
// Numerics:  everything in the points' scalar; the order of the atomic additions, and with it the
//            last bits of the centroids, changes from run to run
// Source:    goldsborough2017, its shared-memory version, for any d and k. Corrected: all threads
//            meet at the barrier (printed: those past the last point have left before it) and all
//            copy (printed: the first k, of which some may have left); an empty cluster keeps its
//            centroid. Labels are also written out
#include "implementations/cuda/_centroid_tiles.cuh"
#include "implementations/cuda/_divide_sums.cuh"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code

constexpr int kThreads = 1024;

/// D: see OwnPoint; any_d: d where D is 0.
template <class T, int D>
__global__ void __launch_bounds__(kThreads)
    assign_and_add_kernel(const T* __restrict__ dev_points, std::int64_t n, std::int64_t any_d,
                          const T* __restrict__ dev_centroids, std::int64_t k, CentroidTile tile,
                          std::int32_t* __restrict__ dev_labels, T* __restrict__ dev_sums,
                          std::int64_t pitch, std::int32_t* __restrict__ dev_counts) {
  extern __shared__ double shared[];  // tile.bytes, aligned for either scalar
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t d = D > 0 ? D : any_d;
  const OwnPoint<T, D> point(dev_points, n, i);
  const std::int64_t nearest =
      nearest_through_tiles(point, i < n, d, dev_centroids, k, tile, reinterpret_cast<T*>(shared));
  if (i >= n) return;
  dev_labels[i] = static_cast<std::int32_t>(nearest);
  for (std::int64_t t = 0; t < d; ++t) atomicAdd(&dev_sums[t * pitch + nearest], point[t]);
  atomicAdd(&dev_counts[nearest], 1);
}

template <class T>
class CudaShared final : public CudaLloyd<T> {
 public:
  CudaShared() : CudaLloyd<T>(Layout::columns) {}

 private:
  void prepare() override {
    dev_sums_ = DeviceBuffer<T>(column_pitch(this->shape().k) * this->shape().d);
    dev_counts_ = DeviceBuffer<std::int32_t>(this->shape().k);
    tile_ = centroid_tile<T>(this->shape());
  }

  void iterate() override {
    const auto [n, d, k, precision] = this->shape();
    {
      const auto timed = this->stage("assign");
      dev_counts_.zero();
      dev_sums_.zero();
      with_own_coordinates(d, [&](auto own) {
        assign_and_add_kernel<T, own><<<blocks_for(n, kThreads), kThreads, tile_.bytes>>>(
            this->dev_points_.data(), n, d, this->dev_centroids_.data(), k, tile_,
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
  CentroidTile tile_;
};

}  // namespace

KMEANS_VARIANT(
    CudaShared, .name = "cuda_shared",
    .summary = "one thread a point, centroids from shared memory, global atomics",
    .source = "goldsborough2017", .precisions = {Precision::f32, Precision::f64},
    .deterministic = false, .supports = sums_and_counts_fit, .device_bytes = plain_device_bytes,
    .traffic = [](const Shape& s) {
      const double points = scalar_bytes(s) * s.n * s.d;
      return Traffic{.read_bytes = tiled_assignment_bytes(s, kThreads, 1),
                     .written_bytes = 4.0 * s.n,
                     .atomic_bytes = points + 4.0 * s.n};
    })
