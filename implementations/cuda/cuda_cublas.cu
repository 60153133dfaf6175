// SPDX-License-Identifier: Apache-2.0
//
// Idea:      distances as a matrix product: |c|^2 - 2 x.c orders a point's centroids as the
//            distance does, and cuBLAS computes the x.c of a chunk of points with all centroids at
//            once
// Parallel:  cuBLAS's own; then some lanes of a warp share a point, first along its k products,
//            then along its d coordinates
// Memory:    row-major points; the products of a chunk are written out and read again, in a buffer
//            of 256 MiB that is used for every chunk; d + 1 atomics a point
// Numerics:  by precision: float64, float32, or rounded operands (tf32, f16, bf16) with float32
//            sums. f16 operands are scaled by a power of two that brings the largest point near the
//            end of their range. Sums are atomic, in the points' scalar: run to run their last bits
//            differ
// Source:    the usual way of libraries (faiss, RAFT); ours
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <memory>
#include <type_traits>

#include "harness/machine/cuda/cublas_library.h"
#include "implementations/cuda/_divide_sums.cuh"
#include "implementations/cuda/_lloyd.cuh"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code
using kmeans::Precision;
using kmeans::Shape;

constexpr int kThreads = 256;
constexpr double kProductBytes = 256.0 * 1024 * 1024;

/// Points whose products with all centroids fit the buffer.
std::int64_t chunk_points(const Shape& shape) {
  const double bytes = scalar_bytes(shape) * static_cast<double>(shape.k);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(kProductBytes / bytes), 1, shape.n);
}

bool has_half_operands(Precision precision) {
  return precision == Precision::f16 || precision == Precision::bf16;
}

/// The least power of two, at most a warp, of lanes that `items` keep busy.
int lanes_for(std::int64_t items) {
  int lanes = 1;
  while (lanes < 32 && lanes < items) lanes *= 2;
  return lanes;
}

template <class Operand>
__device__ Operand to_operand(double value);
template <>
__device__ __half to_operand<__half>(double value) {
  // A centroid far outside the points must not become infinite: its products would not be numbers.
  return __double2half(fmin(fmax(value, -65504.0), 65504.0));
}
template <>
__device__ __nv_bfloat16 to_operand<__nv_bfloat16>(double value) {
  return __double2bfloat16(value);
}

template <class Operand>
__global__ void round_operands_kernel(const float* __restrict__ dev_values, std::int64_t count,
                                      double scale, Operand* __restrict__ dev_operands) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t e = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < count;
       e += stride) {
    dev_operands[e] = to_operand<Operand>(dev_values[e] * scale);
  }
}

/// Squared norms of k centroids, a warp each. `scale` is that of the operands.
template <class T>
__global__ void norm_centroids_kernel(const T* __restrict__ dev_centroids, std::int64_t k,
                                      std::int64_t d, double scale, T* __restrict__ dev_norms) {
  const std::int64_t j = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (j >= k) return;  // whole warps
  const int lane = threadIdx.x % 32;
  T sum = 0;
  for (std::int64_t t = lane; t < d; t += 32) {
    // A scale that lifts denormal points is beyond float32.
    const T value = static_cast<T>(dev_centroids[j * d + t] * scale);
    sum += value * value;
  }
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffU, sum, offset);
  if (lane == 0) dev_norms[j] = sum;
}

/// Sixteen bytes of consecutive values.
template <class T>
struct alignas(16) Pack {
  T values[16 / sizeof(T)];
};

/// The lowest of norm + product for each of `count` points, `lanes` threads a point. With packs,
/// which need rows of a whole number of them, a thread has more bytes on the way at a time.
template <class T, bool kPacked>
__global__ void choose_nearest_kernel(const T* __restrict__ dev_products, std::int64_t count,
                                      std::int64_t k, const T* __restrict__ dev_norms, int lanes,
                                      std::int32_t* __restrict__ dev_labels) {
  constexpr int kWidth = kPacked ? 16 / sizeof(T) : 1;
  using Word = std::conditional_t<kPacked, Pack<T>, T>;
  const std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / lanes;
  const int lane = threadIdx.x % lanes;
  T lowest = INFINITY;
  int nearest = 2147483647;
  if (i < count) {
    const auto* __restrict__ products = reinterpret_cast<const Word*>(dev_products + i * k);
    const auto* __restrict__ norms = reinterpret_cast<const Word*>(dev_norms);
    const int words = static_cast<int>(k) / kWidth;
#pragma unroll 8
    for (int word = lane; word < words; word += lanes) {
      const Word product = products[word];
      const Word norm = norms[word];
#pragma unroll
      for (int part = 0; part < kWidth; ++part) {
        const T value =
            reinterpret_cast<const T*>(&norm)[part] + reinterpret_cast<const T*>(&product)[part];
        if (value < lowest) {
          lowest = value;
          nearest = word * kWidth + part;
        }
      }
    }
  }
  for (int offset = lanes / 2; offset > 0; offset /= 2) {
    const T other = __shfl_xor_sync(0xffffffffU, lowest, offset);
    const int other_nearest = __shfl_xor_sync(0xffffffffU, nearest, offset);
    if (other < lowest || (other == lowest && other_nearest < nearest)) {
      lowest = other;
      nearest = other_nearest;
    }
  }
  if (i < count && lane == 0) dev_labels[i] = nearest < k ? nearest : 0;
}

/// Adds every point to its cluster's sums, `lanes` threads a point.
template <class T>
__global__ void add_points_kernel(const T* __restrict__ dev_points, std::int64_t n, std::int64_t d,
                                  const std::int32_t* __restrict__ dev_labels, int lanes,
                                  T* __restrict__ dev_sums, std::int32_t* __restrict__ dev_counts) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / lanes;
  if (i >= n) return;
  const int lane = threadIdx.x % lanes;
  const std::int64_t j = dev_labels[i];
  for (std::int64_t t = lane; t < d; t += lanes) {
    atomicAdd(&dev_sums[j * d + t], dev_points[i * d + t]);
  }
  if (lane == 0) atomicAdd(&dev_counts[j], 1);
}

template <class T>
class CudaCublas final : public CudaLloyd<T> {
 public:
  CudaCublas() : CudaLloyd<T>(Layout::rows) {}

  std::vector<std::pair<std::string, std::string>> library_info() const override {
    auto info = CudaLloyd<T>::library_info();
    info.emplace_back("cuBLAS", cublas_version());
    return info;
  }

 private:
  void prepare() override {
    const auto [n, d, k, precision] = this->shape();
    chunk_ = chunk_points(this->shape());
    cublas_ = std::make_unique<CublasHandle>();
    dev_products_ = DeviceBuffer<T>(chunk_ * k);
    dev_norms_ = DeviceBuffer<T>(k);
    dev_sums_ = DeviceBuffer<T>(k * d);
    dev_counts_ = DeviceBuffer<std::int32_t>(k);
    scale_ = 1;
    if (precision == Precision::f16 && this->problem_.max_abs > 0) {
      scale_ = std::ldexp(1.0, 14 - std::ilogb(this->problem_.max_abs));  // into [2^14, 2^15)
    }
    if (has_half_operands(precision)) {
      dev_half_points_ = DeviceBuffer<std::uint16_t>(n * d);
      dev_half_centroids_ = DeviceBuffer<std::uint16_t>(k * d);
      round_operands(this->dev_points_, dev_half_points_);
    }
  }

  void iterate() override {
    assign();
    update();
  }

  void assign() {
    const auto timed = this->stage("assign");
    const auto [n, d, k, precision] = this->shape();
    const void* dev_points = this->dev_points_.data();
    const void* dev_centroids = this->dev_centroids_.data();
    std::int64_t operand_bytes = sizeof(T);
    if (has_half_operands(precision)) {
      round_operands(this->dev_centroids_, dev_half_centroids_);
      dev_points = dev_half_points_.data();
      dev_centroids = dev_half_centroids_.data();
      operand_bytes = 2;
    }
    norm_centroids_kernel<<<blocks_for(k * 32, kThreads), kThreads>>>(
        this->dev_centroids_.data(), k, d, scale_, dev_norms_.data());
    KMEANS_CUDA_LAUNCHED(norm_centroids_kernel);
    constexpr int kWidth = 16 / sizeof(T);
    const bool packed = k % kWidth == 0;
    const int lanes = lanes_for(packed ? k / kWidth : k);
    const auto choose_nearest =
        packed ? choose_nearest_kernel<T, true> : choose_nearest_kernel<T, false>;
    for (std::int64_t first = 0; first < n; first += chunk_) {
      const std::int64_t count = std::min(chunk_, n - first);
      // cuBLAS thinks in columns: row-major points and centroids are d x n and d x k to it.
      cublas_->gemm(precision, CUBLAS_OP_T, CUBLAS_OP_N, k, count, d, -2.0, dev_centroids, d,
                    static_cast<const char*>(dev_points) + first * d * operand_bytes, d, 0.0,
                    dev_products_.data(), k);
      choose_nearest<<<blocks_for(count * lanes, kThreads), kThreads>>>(
          dev_products_.data(), count, k, dev_norms_.data(), lanes,
          this->dev_labels_.data() + first);
      KMEANS_CUDA_LAUNCHED(choose_nearest_kernel);
    }
  }

  void update() {
    const auto timed = this->stage("update");
    const auto [n, d, k, precision] = this->shape();
    dev_sums_.zero();
    dev_counts_.zero();
    const int lanes = lanes_for(d);
    add_points_kernel<<<blocks_for(n * lanes, kThreads), kThreads>>>(
        this->dev_points_.data(), n, d, this->dev_labels_.data(), lanes, dev_sums_.data(),
        dev_counts_.data());
    KMEANS_CUDA_LAUNCHED(add_points_kernel);
    divide_sums(dev_sums_, dev_counts_, this->dev_centroids_, this->shape());
  }

  /// float32 values to f16 or bf16, scaled.
  void round_operands(const DeviceBuffer<T>& dev_values,
                      const DeviceBuffer<std::uint16_t>& dev_operands) {
    if constexpr (std::is_same_v<T, float>) {
      const std::int64_t count = dev_values.size();
      const auto blocks =
          static_cast<unsigned>(std::min<std::int64_t>(ceil_div(count, kThreads), 1 << 16));
      if (this->shape().precision == Precision::f16) {
        round_operands_kernel<<<blocks, kThreads>>>(dev_values.data(), count, scale_,
                                                    reinterpret_cast<__half*>(dev_operands.data()));
      } else {
        round_operands_kernel<<<blocks, kThreads>>>(
            dev_values.data(), count, scale_,
            reinterpret_cast<__nv_bfloat16*>(dev_operands.data()));
      }
      KMEANS_CUDA_LAUNCHED(round_operands_kernel);
    }
  }

  std::unique_ptr<CublasHandle> cublas_;
  std::int64_t chunk_ = 0;
  double scale_ = 1;
  DeviceBuffer<T> dev_products_;                    // chunk x k
  DeviceBuffer<T> dev_norms_;                       // k
  DeviceBuffer<T> dev_sums_;                        // k x d
  DeviceBuffer<std::int32_t> dev_counts_;           // k
  DeviceBuffer<std::uint16_t> dev_half_points_;     // n x d, only for f16 and bf16
  DeviceBuffer<std::uint16_t> dev_half_centroids_;  // k x d, likewise
};

kmeans::Support cublas_takes(const Shape& shape) {
  if (kmeans::current_gpu() != nullptr && !cublas_problem().empty()) {
    return kmeans::Support::no(cublas_problem());
  }
  if (shape.k > 2147483647 || shape.d > 2147483647) {
    return kmeans::Support::no("cuBLAS takes matrices of at most 2147483647 rows and columns");
  }
  return sums_and_counts_fit(shape);
}

}  // namespace

KMEANS_VARIANT(
    CudaCublas, .name = "cuda_cublas",
    .summary = "norm expansion: cuBLAS product in chunks, argmin kernel, atomic sums",
    .source = "cuBLAS",
    .precisions = {Precision::f32, Precision::f64, Precision::tf32, Precision::f16,
                   Precision::bf16},
    .deterministic = false, .distance = Distance::expanded, .supports = cublas_takes,
    .device_bytes =
        [](const Shape& s) {
          const double values = static_cast<double>(s.n + s.k) * static_cast<double>(s.d);
          // cuBLAS keeps a work space of its own.
          return plain_device_bytes(s) + kProductBytes + 64e6 +
                 scalar_bytes(s) * static_cast<double>(s.k) +
                 (has_half_operands(s.precision) ? 2 * values : 0);
        },
    .traffic =
        [](const Shape& s) {
          const double points = scalar_bytes(s) * s.n * s.d;
          const double operands = has_half_operands(s.precision) ? points / 2 : points;
          const double products = scalar_bytes(s) * s.n * s.k;
          const double chunks = static_cast<double>(ceil_div(s.n, chunk_points(s)));
          return Traffic{
              .read_bytes = operands + points + products + chunks * scalar_bytes(s) * s.k * s.d,
              .written_bytes = products + 4.0 * s.n,
              .atomic_bytes = points + 4.0 * s.n};
        })
