// SPDX-License-Identifier: Apache-2.0
//
// The frame of a CUDA variant: points, centroids and labels on the device, and the calls of the
// contract around `iterate()`, which is what a variant is about.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/machine/cuda/device.cuh"
#include "harness/machine/gpu.h"
#include "harness/variant.h"
#include "implementations/_limits.h"

namespace kmeans::cuda {

/// How points lie in device memory: row-major (n x d, a point's coordinates together) or
/// column-major (d x n, a coordinate of all points together: neighbouring threads that own
/// neighbouring points then read neighbouring addresses).
enum class Layout { rows, columns };

/// 13000 as "13.0".
inline std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// For library_info().
inline std::vector<std::pair<std::string, std::string>> cuda_versions() {
  const GpuStatus& gpu = gpu_status();
  return {{"CUDA runtime", version_text(gpu.runtime_version)},
          {"CUDA version of the driver", version_text(gpu.driver_version)}};
}

/// Scalar bytes of the points of a shape.
inline double scalar_bytes(const Shape& shape) {
  return shape.precision == Precision::f64 ? 8.0 : 4.0;
}

/// Device bytes of points, labels, centroids, sums (in columns or not) and counts: what a plain
/// variant needs.
inline double plain_device_bytes(const Shape& shape) {
  const double n = static_cast<double>(shape.n);
  const double d = static_cast<double>(shape.d);
  const double k = static_cast<double>(shape.k);
  // Column-major points are made from row-major pieces of at most 64 MiB.
  // Labels twice: those before are kept once somebody asks for the progress.
  return scalar_bytes(shape) * (n * d + 2 * k * d + 64 * d) + 8 * n + 8 * k + 64 * 1024 * 1024;
}

namespace detail {

inline constexpr int kTransposeTile = 32;

/// rows x d row-major values to columns of length n, beginning at row `first`.
template <class T>
__global__ void transpose_rows_kernel(const T* __restrict__ dev_rows, std::int64_t rows,
                                      std::int64_t first, std::int64_t n, std::int64_t d,
                                      T* __restrict__ dev_columns) {
  __shared__ T tile[kTransposeTile][kTransposeTile + 1];
  const std::int64_t row_tiles = (rows + kTransposeTile - 1) / kTransposeTile;
  const std::int64_t tiles = row_tiles * ((d + kTransposeTile - 1) / kTransposeTile);
  for (std::int64_t index = blockIdx.x; index < tiles; index += gridDim.x) {
    const std::int64_t row0 = index % row_tiles * kTransposeTile;
    const std::int64_t t0 = index / row_tiles * kTransposeTile;
    for (int y = threadIdx.y; y < kTransposeTile; y += blockDim.y) {
      if (row0 + y < rows && t0 + threadIdx.x < d) {
        tile[y][threadIdx.x] = dev_rows[(row0 + y) * d + t0 + threadIdx.x];
      }
    }
    __syncthreads();
    for (int y = threadIdx.y; y < kTransposeTile; y += blockDim.y) {
      if (row0 + threadIdx.x < rows && t0 + y < d) {
        dev_columns[(t0 + y) * n + first + row0 + threadIdx.x] = tile[threadIdx.x][y];
      }
    }
    __syncthreads();
  }
}

/// Adds to dev_changed how many labels differ from those before, which they become.
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    compare_labels_kernel(const std::int32_t* __restrict__ dev_labels, std::int64_t n,
                          std::int32_t* __restrict__ dev_before,
                          unsigned long long* __restrict__ dev_changed) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const bool differs = i < n && dev_labels[i] != dev_before[i];
  if (differs) dev_before[i] = dev_labels[i];
  const int changed = __syncthreads_count(differs ? 1 : 0);
  if (threadIdx.x == 0 && changed != 0) {
    atomicAdd(dev_changed, static_cast<unsigned long long>(changed));
  }
}

}  // namespace detail

/// Uploads n x d row-major points as d columns of n.
template <class T>
void upload_columns(const T* points, std::int64_t n, std::int64_t d,
                    const DeviceBuffer<T>& dev_columns) {
  constexpr std::int64_t kStagingBytes = std::int64_t{64} << 20;
  const std::int64_t row_bytes = d * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t piece = std::clamp<std::int64_t>(kStagingBytes / row_bytes, 1, n);
  const DeviceBuffer<T> dev_rows(piece * d);
  for (std::int64_t first = 0; first < n; first += piece) {
    const std::int64_t rows = std::min(piece, n - first);
    KMEANS_CUDA(cudaMemcpy(dev_rows.data(), points + first * d,
                           static_cast<std::size_t>(rows * row_bytes), cudaMemcpyHostToDevice));
    const std::int64_t tiles =
        ceil_div(rows, detail::kTransposeTile) * ceil_div(d, detail::kTransposeTile);
    const dim3 threads(detail::kTransposeTile, 8);
    const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(tiles, 1 << 20));
    detail::transpose_rows_kernel<<<blocks, threads>>>(dev_rows.data(), rows, first, n, d,
                                                       dev_columns.data());
    KMEANS_CUDA_LAUNCHED(transpose_rows_kernel);
  }
  KMEANS_CUDA(cudaDeviceSynchronize());
}

/// For progress(): who asks after every iteration learns how many labels changed; who does not pays
/// nothing for it.
class ChangedLabels {
 public:
  /// All labels are -1.
  void restart() {
    dev_before_.fill_bytes(0xff);
    compared_ = 0;
    changed_.reset();
  }

  /// How many dev_labels the last of so many iterations since restart() changed; nothing unless those
  /// of the iteration before were compared as well.
  std::optional<std::int64_t> count(const DeviceBuffer<std::int32_t>& dev_labels,
                                    std::int64_t iterations) {
    if (compared_ == iterations) return changed_;
    const std::int64_t changed = compare(dev_labels);
    changed_ = compared_ + 1 == iterations ? std::optional(changed) : std::nullopt;
    compared_ = iterations;
    return changed_;
  }

 private:
  /// Labels that differ from those of the last call, or of restart().
  std::int64_t compare(const DeviceBuffer<std::int32_t>& dev_labels) {
    constexpr int kThreads = 256;
    const std::int64_t n = dev_labels.size();
    if (dev_before_.size() != n) {
      dev_before_ = DeviceBuffer<std::int32_t>(n);
      dev_before_.fill_bytes(0xff);
      dev_changed_ = DeviceBuffer<unsigned long long>(1);
    }
    dev_changed_.zero();
    detail::compare_labels_kernel<kThreads><<<blocks_for(n, kThreads), kThreads>>>(
        dev_labels.data(), n, dev_before_.data(), dev_changed_.data());
    KMEANS_CUDA_LAUNCHED(compare_labels_kernel);
    unsigned long long changed = 0;
    dev_changed_.download(&changed);
    return static_cast<std::int64_t>(changed);
  }

  DeviceBuffer<std::int32_t> dev_before_;         // n, once somebody has asked
  DeviceBuffer<unsigned long long> dev_changed_;  // 1
  std::int64_t compared_ = 0;                     // iterations then
  std::optional<std::int64_t> changed_;           // what that said
};

template <class T>
class CudaLloyd : public Variant<T> {
 public:
  explicit CudaLloyd(Layout layout) : layout_(layout) {}

  void setup(const Problem<T>& problem) override {
    problem_ = problem;
    const std::int64_t n = problem.shape.n;
    const std::int64_t d = problem.shape.d;
    const std::int64_t k = problem.shape.k;
    dev_points_ = DeviceBuffer<T>(n * d);
    dev_labels_ = DeviceBuffer<std::int32_t>(n);
    dev_centroids_ = DeviceBuffer<T>(k * d);
    if (layout_ == Layout::rows) {
      dev_points_.upload(problem.points);
    } else {
      upload_columns(problem.points, n, d, dev_points_);
    }
    prepare();
    KMEANS_CUDA(cudaDeviceSynchronize());
  }

  void reset(const T* centroids) override {
    dev_centroids_.upload(centroids);
    dev_labels_.fill_bytes(0xff);  // label -1: a point that is never labelled is seen
    changed_labels_.restart();
    iterations_ = 0;
    restart();
    KMEANS_CUDA(cudaDeviceSynchronize());
  }

  void step(std::int64_t iterations) override {
    iterate_times(iterations);
    KMEANS_CUDA(cudaDeviceSynchronize());
    iterations_ += iterations;
  }

  Progress progress() override {
    return {.movement = {}, .changed = changed_labels_.count(dev_labels_, iterations_), .loss = {}};
  }

  /// `labels` may be null, within this backend: cuda_best goes on from centroids alone.
  void fetch(T* centroids, std::int32_t* labels) override {
    dev_centroids_.download(centroids);
    if (labels != nullptr) dev_labels_.download(labels);
  }

  std::vector<std::pair<std::string, std::string>> library_info() const override {
    return cuda_versions();
  }

 protected:
  /// One Lloyd iteration from dev_centroids_ to dev_labels_ and dev_centroids_. Need not wait for
  /// the device at its end.
  virtual void iterate() = 0;
  /// So many of them, for variants that launch several at once.
  virtual void iterate_times(std::int64_t iterations) {
    for (std::int64_t iteration = 0; iteration < iterations; ++iteration) iterate();
  }
  /// Allocates what the variant needs besides points, centroids and labels.
  virtual void prepare() {}
  /// Forgets what was kept between iterations.
  virtual void restart() {}

  [[nodiscard]] const Shape& shape() const { return problem_.shape; }

  /// An iteration's end: update(), then divide(add_up()), a stage; where GPUs share the points (`shared`), what
  /// add_up() sends to the others is a stage of its own.
  template <class Update, class AddUp, class Divide>
  void update_in_stages(bool shared, const Update& update, const AddUp& add_up,
                        const Divide& divide) {
    {
      const auto timed = this->stage("update");
      update();
      if (!shared) return divide(add_up());
    }
    const auto dev_totals = [&] {
      const auto timed = this->stage("communication");
      return add_up();
    }();
    const auto timed = this->stage("copy centroids");
    divide(dev_totals);
  }

  Problem<T> problem_;
  DeviceBuffer<T> dev_points_;             // n x d or d x n, see Layout
  DeviceBuffer<T> dev_centroids_;          // k x d, row-major
  DeviceBuffer<std::int32_t> dev_labels_;  // n
  std::int64_t iterations_ = 0;            // since reset(), before this step()

 private:
  Layout layout_;
  ChangedLabels changed_labels_;
};

/// Sums to means: one thread a coordinate of a centroid. An empty cluster keeps its centroid.
template <class T>
__global__ void divide_sums_kernel(const T* __restrict__ dev_sums,
                                   const std::int32_t* __restrict__ dev_counts,
                                   T* __restrict__ dev_centroids, std::int64_t k, std::int64_t d) {
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= k * d) return;
  const std::int32_t count = dev_counts[index / d];
  if (count > 0) dev_centroids[index] = dev_sums[index] / static_cast<T>(count);
}

/// Sums of clusters by coordinate, the sources' arrays sums_x, sums_y, ...: d columns of k values,
/// each column on memory lines of its own. Threads that add to different coordinates then never
/// meet on a line, which is where atomic additions queue.
inline std::int64_t column_pitch(std::int64_t k) { return ceil_div(k, 64) * 64; }

/// divide_sums_kernel for sums in columns.
template <class T>
__global__ void divide_sum_columns_kernel(const T* __restrict__ dev_sums, std::int64_t pitch,
                                          const std::int32_t* __restrict__ dev_counts,
                                          T* __restrict__ dev_centroids, std::int64_t k,
                                          std::int64_t d) {
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= k * d) return;
  const std::int64_t j = index / d;
  const std::int32_t count = dev_counts[j];
  if (count > 0) {
    dev_centroids[index] = dev_sums[index % d * pitch + j] / static_cast<T>(count);
  }
}

/// Launches divide_sum_columns_kernel for d columns of sums and k counts.
template <class T>
void divide_sum_columns(const DeviceBuffer<T>& dev_sums,
                        const DeviceBuffer<std::int32_t>& dev_counts,
                        const DeviceBuffer<T>& dev_centroids, const Shape& shape) {
  constexpr int kThreads = 256;
  divide_sum_columns_kernel<<<blocks_for(shape.k * shape.d, kThreads), kThreads>>>(
      dev_sums.data(), column_pitch(shape.k), dev_counts.data(), dev_centroids.data(), shape.k,
      shape.d);
  KMEANS_CUDA_LAUNCHED(divide_sum_columns_kernel);
}

/// Launches divide_sums_kernel for k x d sums and k counts.
template <class T>
void divide_sums(const DeviceBuffer<T>& dev_sums, const DeviceBuffer<std::int32_t>& dev_counts,
                 const DeviceBuffer<T>& dev_centroids, const Shape& shape) {
  constexpr int kThreads = 256;
  divide_sums_kernel<<<blocks_for(shape.k * shape.d, kThreads), kThreads>>>(
      dev_sums.data(), dev_counts.data(), dev_centroids.data(), shape.k, shape.d);
  KMEANS_CUDA_LAUNCHED(divide_sums_kernel);
}

}  // namespace kmeans::cuda
