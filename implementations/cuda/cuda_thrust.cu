// SPDX-License-Identifier: Apache-2.0
//
// Idea:      cuda_atomic in Thrust: its vectors own all device memory, its algorithms fill, copy
//            and transpose; the two kernels are the same
// Parallel:  a thread owns a point in the first kernel, a coordinate of a centroid in the second;
//            the host waits after each of them and, inside Thrust, after each fill
// Memory:    as cuda_atomic: column-major points, read once where d <= 3; centroids from global
//            memory; d + 1 contended atomics a point. Without __restrict__, which a device_ptr
//            cannot express
// Numerics:  everything in the points' scalar; the order of the atomic additions, and with it the
//            last bits of the centroids, changes from run to run
// Source:    goldsborough2017, its Thrust version, for any d; the coordinates' sums are one vector,
//            where the source has x and y. Corrected as cuda_atomic. Labels are also written out
#include <thrust/copy.h>
#include <thrust/device_ptr.h>
#include <thrust/device_vector.h>
#include <thrust/fill.h>
#include <thrust/gather.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include "implementations/cuda/_divide_sums.cuh"
#include "implementations/cuda/_own_point.cuh"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code

constexpr int kThreads = 1024;
constexpr int kUpdateThreads = 256;

/// Where the value at an index of the d x n array stands in the n x d array.
struct IndexInRows {
  std::int64_t n;
  std::int64_t d;
  __host__ __device__ std::int64_t operator()(std::int64_t index) const {
    return index % n * d + index / n;
  }
};

/// D: see OwnPoint; any_d: d where D is 0.
template <class T, int D>
__global__ void assign_and_add_kernel(thrust::device_ptr<const T> dev_points, std::int64_t n,
                                      std::int64_t any_d, thrust::device_ptr<const T> dev_centroids,
                                      std::int64_t k, thrust::device_ptr<std::int32_t> dev_labels,
                                      thrust::device_ptr<T> dev_sums, std::int64_t pitch,
                                      thrust::device_ptr<std::int32_t> dev_counts) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const std::int64_t d = D > 0 ? D : any_d;
  const OwnPoint<T, D, thrust::device_ptr<const T>> point(dev_points, n, i);
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
  for (std::int64_t t = 0; t < d; ++t) {
    atomicAdd(thrust::raw_pointer_cast(dev_sums + t * pitch + nearest), point[t]);
  }
  atomicAdd(thrust::raw_pointer_cast(dev_counts + nearest), 1);
}

template <class T>
__global__ void compute_means_kernel(thrust::device_ptr<const T> dev_sums, std::int64_t pitch,
                                     thrust::device_ptr<const std::int32_t> dev_counts,
                                     thrust::device_ptr<T> dev_centroids, std::int64_t k,
                                     std::int64_t d) {
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= k * d) return;
  const std::int64_t j = index / d;
  const std::int32_t count = dev_counts[j];
  if (count > 0) {
    dev_centroids[index] = dev_sums[index % d * pitch + j] / static_cast<T>(count);
  }
}

template <class T>
class CudaThrust final : public kmeans::Variant<T> {
 public:
  void setup(const kmeans::Problem<T>& problem) override {
    shape_ = problem.shape;
    const auto [n, d, k, precision] = shape_;
    const thrust::device_vector<T> dev_rows(problem.points, problem.points + n * d);
    const auto indices = thrust::make_transform_iterator(
        thrust::make_counting_iterator(std::int64_t{0}), IndexInRows{n, d});
    dev_points_.resize(n * d);
    thrust::gather(indices, indices + n * d, dev_rows.begin(), dev_points_.begin());
    dev_centroids_.resize(k * d);
    dev_sums_.resize(column_pitch(k) * d);
    dev_counts_.resize(k);
    dev_labels_.resize(n);
    KMEANS_CUDA(cudaDeviceSynchronize());
  }

  void reset(const T* centroids) override {
    thrust::copy(centroids, centroids + dev_centroids_.size(), dev_centroids_.begin());
    thrust::fill(dev_labels_.begin(), dev_labels_.end(), -1);
    KMEANS_CUDA(cudaDeviceSynchronize());
  }

  void step(std::int64_t iterations) override {
    for (std::int64_t iteration = 0; iteration < iterations; ++iteration) iterate();
  }

  void fetch(T* centroids, std::int32_t* labels) override {
    thrust::copy(dev_centroids_.begin(), dev_centroids_.end(), centroids);
    thrust::copy(dev_labels_.begin(), dev_labels_.end(), labels);
  }

 private:
  void iterate() {
    const auto [n, d, k, precision] = shape_;
    {
      const auto timed = this->stage("assign");
      thrust::fill(dev_sums_.begin(), dev_sums_.end(), T{0});
      thrust::fill(dev_counts_.begin(), dev_counts_.end(), 0);
      with_own_coordinates(d, [&](auto own) {
        assign_and_add_kernel<T, own><<<blocks_for(n, kThreads), kThreads>>>(
            dev_points_.data(), n, d, dev_centroids_.data(), k, dev_labels_.data(),
            dev_sums_.data(), column_pitch(k), dev_counts_.data());
      });
      KMEANS_CUDA_LAUNCHED(assign_and_add_kernel);
      KMEANS_CUDA(cudaDeviceSynchronize());
    }
    const auto timed = this->stage("update");
    compute_means_kernel<T><<<blocks_for(k * d, kUpdateThreads), kUpdateThreads>>>(
        dev_sums_.data(), column_pitch(k), dev_counts_.data(), dev_centroids_.data(), k, d);
    KMEANS_CUDA_LAUNCHED(compute_means_kernel);
    KMEANS_CUDA(cudaDeviceSynchronize());
  }

  kmeans::Shape shape_;
  thrust::device_vector<T> dev_points_;             // d x n
  thrust::device_vector<T> dev_centroids_;          // k x d, row-major
  thrust::device_vector<T> dev_sums_;               // d columns of column_pitch(k)
  thrust::device_vector<std::int32_t> dev_counts_;  // k
  thrust::device_vector<std::int32_t> dev_labels_;  // n
};

}  // namespace

KMEANS_VARIANT(
    CudaThrust, .name = "cuda_thrust",
    .summary = "cuda_atomic with Thrust's vectors and algorithms", .source = "goldsborough2017",
    .precisions = {Precision::f32, Precision::f64}, .deterministic = false,
    .supports = sums_and_counts_fit,
    .device_bytes =
        [](const Shape& s) {
          // Setup transposes from a row-major copy of all points.
          return plain_device_bytes(s) + scalar_bytes(s) * s.n * s.d;
        },
    .traffic =
        [](const Shape& s) {
          const double points = scalar_bytes(s) * s.n * s.d;
          return Traffic{.read_bytes = points * s.k + points * own_point_reads(s, 1),
                         .written_bytes = 4.0 * s.n,
                         .atomic_bytes = points + 4.0 * s.n};
        })
