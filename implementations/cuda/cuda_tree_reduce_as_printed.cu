// SPDX-License-Identifier: Apache-2.0
//
// Idea:      the fine and coarse reduction with the source's fault, to show what its fastest row
//            timed: new means come from the first 1024 points alone; cuda_tree_reduce corrects it
// Parallel:  a thread owns a point in the first kernel; one block of k x blocks threads reduces the
//            blocks' sums in the second, then a thread owns a cluster; the host waits after each
// Memory:    column-major points; centroids, then 3 values a thread, in shared memory; k sums and
//            counts a block
// Numerics:  everything in float; not deterministic, for it reads shared memory that nothing wrote:
//            threads past the last point leave at once, but the trees of the last block still take
//            in their slots; and where fewer threads than clusters stay, that block compares its
//            points with centroids that nobody copied. No such value is used as an index
// Source:    goldsborough2017, fine and coarse reduction. Kept as printed: the above; the second
//            launch never reads the sums that it reduces, nor reduces counts, but divides block 0's
//            sums by block 0's counts; the halved strides mix clusters and lose elements; an empty
//            cluster moves to the origin. Added: labels are written out (-1 where no distance
//            compares as less)
#include <cfloat>

#include "implementations/cuda/_lloyd.cuh"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code

constexpr int kThreads = 1024;

__global__ void fine_reduce_kernel(const float* __restrict__ dev_points, int n,
                                   const float* __restrict__ dev_centroids, int k,
                                   std::int32_t* __restrict__ dev_labels,
                                   float* __restrict__ dev_block_sums_x,
                                   float* __restrict__ dev_block_sums_y,
                                   std::int32_t* __restrict__ dev_block_counts) {
  extern __shared__ float shared[];  // 3 * kThreads; at first k x and k y of the centroids
  const int thread = threadIdx.x;
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;  // later barriers wait for the others only

  if (thread < k) {
    shared[thread] = dev_centroids[2 * thread];
    shared[k + thread] = dev_centroids[2 * thread + 1];
  }
  __syncthreads();
  const float x = dev_points[i];
  const float y = dev_points[n + i];
  float nearest_distance = FLT_MAX;
  int nearest = -1;
  for (int j = 0; j < k; ++j) {
    const float difference_x = x - shared[j];
    const float difference_y = y - shared[k + j];
    const float distance = difference_x * difference_x + difference_y * difference_y;
    if (distance < nearest_distance) {
      nearest_distance = distance;
      nearest = j;
    }
  }
  dev_labels[i] = nearest;
  __syncthreads();

  const int x_slot = thread;
  const int y_slot = kThreads + thread;
  const int count_slot = 2 * kThreads + thread;
  for (int j = 0; j < k; ++j) {
    shared[x_slot] = nearest == j ? x : 0;
    shared[y_slot] = nearest == j ? y : 0;
    shared[count_slot] = nearest == j ? 1 : 0;
    __syncthreads();
    for (int stride = kThreads / 2; stride > 0; stride /= 2) {
      if (thread < stride) {
        shared[x_slot] += shared[x_slot + stride];
        shared[y_slot] += shared[y_slot + stride];
        shared[count_slot] += shared[count_slot + stride];
      }
      __syncthreads();
    }
    if (thread == 0) {
      const int index = static_cast<int>(blockIdx.x) * k + j;
      dev_block_sums_x[index] = shared[x_slot];
      dev_block_sums_y[index] = shared[y_slot];
      dev_block_counts[index] = static_cast<std::int32_t>(shared[count_slot]);
    }
    __syncthreads();
  }
}

/// One block of k * blocks threads.
__global__ void coarse_reduce_kernel(float* __restrict__ dev_centroids, int k,
                                     float* __restrict__ dev_block_sums_x,
                                     float* __restrict__ dev_block_sums_y,
                                     std::int32_t* __restrict__ dev_block_counts) {
  extern __shared__ volatile float reduced[];  // 2 * blockDim.x; volatile, as nothing reads them
  const int index = threadIdx.x;
  const int threads = static_cast<int>(blockDim.x);
  reduced[index] = dev_block_sums_x[index];
  reduced[threads + index] = dev_block_sums_y[index];
  __syncthreads();
  for (int stride = threads / 2; stride >= k; stride /= 2) {
    if (index < stride) {
      reduced[index] = reduced[index] + reduced[index + stride];
      reduced[threads + index] = reduced[threads + index] + reduced[threads + index + stride];
    }
    __syncthreads();
  }
  if (index >= k) return;
  const auto count = static_cast<float>(max(1, dev_block_counts[index]));
  dev_centroids[2 * index] = dev_block_sums_x[index] / count;
  dev_centroids[2 * index + 1] = dev_block_sums_y[index] / count;
  dev_block_sums_x[index] = 0;
  dev_block_sums_y[index] = 0;
  dev_block_counts[index] = 0;
}

class CudaTreeReduceAsPrinted final : public CudaLloyd<float> {
 public:
  CudaTreeReduceAsPrinted() : CudaLloyd<float>(Layout::columns) {}

 private:
  void prepare() override {
    blocks_ = blocks_for(shape().n, kThreads);
    dev_block_sums_x_ = DeviceBuffer<float>(shape().k * blocks_);
    dev_block_sums_y_ = DeviceBuffer<float>(shape().k * blocks_);
    dev_block_counts_ = DeviceBuffer<std::int32_t>(shape().k * blocks_);
  }

  void iterate() override {
    const int n = static_cast<int>(shape().n);
    const int k = static_cast<int>(shape().k);
    {
      const auto timed = stage("assign and reduce");
      fine_reduce_kernel<<<blocks_, kThreads, 3 * kThreads * sizeof(float)>>>(
          dev_points_.data(), n, dev_centroids_.data(), k, dev_labels_.data(),
          dev_block_sums_x_.data(), dev_block_sums_y_.data(), dev_block_counts_.data());
      KMEANS_CUDA_LAUNCHED(fine_reduce_kernel);
      KMEANS_CUDA(cudaDeviceSynchronize());
    }
    const auto timed = stage("update");
    const unsigned threads = k * blocks_;
    coarse_reduce_kernel<<<1, threads, 2 * threads * sizeof(float)>>>(
        dev_centroids_.data(), k, dev_block_sums_x_.data(), dev_block_sums_y_.data(),
        dev_block_counts_.data());
    KMEANS_CUDA_LAUNCHED(coarse_reduce_kernel);
    KMEANS_CUDA(cudaDeviceSynchronize());
  }

  unsigned blocks_ = 0;
  DeviceBuffer<float> dev_block_sums_x_;         // blocks x k
  DeviceBuffer<float> dev_block_sums_y_;         // blocks x k
  DeviceBuffer<std::int32_t> dev_block_counts_;  // blocks x k
};

kmeans::Support limits(const kmeans::Shape& shape) {
  if (shape.d != 2) {
    return kmeans::Support::no("d = " + std::to_string(shape.d) +
                               ": the printed code has coordinates x and y only, d = 2");
  }
  const std::int64_t blocks = ceil_div(shape.n, kThreads);
  if (shape.k > kThreads / blocks) {
    return kmeans::Support::no(
        "the second launch needs a block of k * ceil(n / 1024) = " + std::to_string(shape.k) +
        " * " + std::to_string(blocks) + " threads; a block has at most 1024");
  }
  return kmeans::Support::yes();
}

double block_sums_bytes(const kmeans::Shape& shape) {
  return 12.0 * shape.k * static_cast<double>(ceil_div(shape.n, kThreads));
}

}  // namespace

KMEANS_VARIANT(
    CudaTreeReduceAsPrinted, .name = "cuda_tree_reduce_as_printed",
    .summary = "the printed fine and coarse reduction, whose means ignore all blocks but the first",
    .source = "goldsborough2017", .deterministic = false,
    .wrong_because =
        "the second launch never reads what it reduces: the new means are those of "
        "the first 1024 points",
    .supports = limits,
    .device_bytes = [](const Shape& s) { return plain_device_bytes(s) + block_sums_bytes(s); },
    .traffic =
        [](const Shape& s) {
          const double blocks = static_cast<double>(ceil_div(s.n, kThreads));
          return Traffic{.read_bytes = 8.0 * s.n + 8.0 * blocks * s.k + block_sums_bytes(s),
                         .written_bytes = 4.0 * s.n + block_sums_bytes(s)};
        })
