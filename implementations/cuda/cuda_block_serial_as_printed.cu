// SPDX-License-Identifier: Apache-2.0
//
// Idea:      cuda_block_serial with the source's faults, to see on a GPU what its race does: block
//            0 divides the sums as soon as it has added its own
// Parallel:  a block has 32 threads and 32 points; a thread owns a point in the assignment; in the
//            update thread 0 of a block adds, and the first k threads of the grid divide
// Memory:    points and centroids from global memory; points and labels of a block in shared memory
// Numerics:  everything in float; not deterministic: what block 0 divides depends on how many
//            blocks have added by then, and thread 0 of a last block that is not full also adds
//            shared memory that nothing wrote. No such value is used as an index
// Source:    minnaar2019, both kernels; sums and counts are set to 0 before the update, as in the
//            program that the article links. Kept as printed: the barrier before the division,
//            which holds one block only; the last block; 0 / 0 for an empty cluster. Printed K is a
//            constant; here k is at most 64
#include "implementations/cuda/_lloyd.cuh"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code

constexpr int kThreads = 32;
constexpr int kMostClusters = 64;

__global__ void __launch_bounds__(kThreads)
    assign_points_kernel(const float* dev_points, int n, const float* dev_centroids, int k,
                         std::int32_t* dev_labels) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= n) return;
  float nearest_distance = INFINITY;
  int nearest = 0;
  for (int j = 0; j < k; ++j) {
    const float difference = dev_centroids[j] - dev_points[i];
    const float distance = sqrt(difference * difference);
    if (distance < nearest_distance) {
      nearest_distance = distance;
      nearest = j;
    }
  }
  dev_labels[i] = nearest;
}

__global__ void __launch_bounds__(kThreads)
    add_and_divide_kernel(const float* dev_points, int n, const std::int32_t* dev_labels, int k,
                          float* dev_centroids, std::int32_t* dev_counts) {
  __shared__ float tile[kThreads];
  __shared__ std::int32_t labels[kThreads];
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= n) return;  // later barriers wait for the others only
  tile[threadIdx.x] = dev_points[i];
  labels[threadIdx.x] = dev_labels[i];
  __syncthreads();
  if (threadIdx.x == 0) {
    float sums[kMostClusters] = {};
    std::int32_t counts[kMostClusters] = {};
    for (int p = 0; p < kThreads; ++p) {
      const std::int32_t j = labels[p];
      if (j < 0 || j >= k) continue;  // never written
      sums[j] += tile[p];
      counts[j] += 1;
    }
    for (int j = 0; j < k; ++j) {
      atomicAdd(&dev_centroids[j], sums[j]);
      atomicAdd(&dev_counts[j], counts[j]);
    }
  }
  __syncthreads();  // of this block
  if (i < k) dev_centroids[i] = dev_centroids[i] / static_cast<float>(dev_counts[i]);
}

class CudaBlockSerialAsPrinted final : public CudaLloyd<float> {
 public:
  CudaBlockSerialAsPrinted() : CudaLloyd<float>(Layout::columns) {}

 private:
  void prepare() override { dev_counts_ = DeviceBuffer<std::int32_t>(shape().k); }

  void iterate() override {
    const int n = static_cast<int>(shape().n);
    const int k = static_cast<int>(shape().k);
    const unsigned blocks = blocks_for(n, kThreads);
    {
      const auto timed = stage("assign");
      assign_points_kernel<<<blocks, kThreads>>>(dev_points_.data(), n, dev_centroids_.data(), k,
                                                 dev_labels_.data());
      KMEANS_CUDA_LAUNCHED(assign_points_kernel);
    }
    const auto timed = stage("update");
    dev_centroids_.zero();
    dev_counts_.zero();
    add_and_divide_kernel<<<blocks, kThreads>>>(dev_points_.data(), n, dev_labels_.data(), k,
                                                dev_centroids_.data(), dev_counts_.data());
    KMEANS_CUDA_LAUNCHED(add_and_divide_kernel);
  }

  DeviceBuffer<std::int32_t> dev_counts_;  // k
};

kmeans::Support limits(const kmeans::Shape& shape) {
  if (shape.d != 1) {
    return kmeans::Support::no("d = " + std::to_string(shape.d) +
                               ": the printed code has points on a line only, d = 1");
  }
  if (shape.k > kMostClusters) {
    return kmeans::Support::no("k = " + std::to_string(shape.k) +
                               ": a thread's own arrays are made for " +
                               std::to_string(kMostClusters) + " clusters");
  }
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - kThreads;  // indices are int
  if (shape.n <= kMost) return kmeans::Support::yes();
  return kmeans::Support::no("n = " + std::to_string(shape.n) +
                             ": the printed code has int indices, n at most " +
                             std::to_string(kMost));
}

}  // namespace

KMEANS_VARIANT(
    CudaBlockSerialAsPrinted, .name = "cuda_block_serial_as_printed",
    .summary = "the printed kernels, in which block 0 divides before other blocks have added",
    .source = "minnaar2019", .deterministic = false,
    .wrong_because =
        "block 0 divides as soon as it has added its own points, while other blocks still add",
    .supports = limits, .device_bytes = plain_device_bytes, .traffic = [](const Shape& s) {
      const double n = static_cast<double>(s.n);
      const double k = static_cast<double>(s.k);
      const double blocks = static_cast<double>(ceil_div(s.n, kThreads));
      return Traffic{.read_bytes = 8 * n * k + 8 * n + 8 * k,
                     .written_bytes = 4 * n + 12 * k,
                     .atomic_bytes = 8 * blocks * k};
    })
