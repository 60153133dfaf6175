// SPDX-License-Identifier: Apache-2.0
//
// The limits of a GPU, reached by simple kernels (docs/machine.md says how each is measured).
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <exception>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/machine/ceilings.h"
#include "harness/machine/cuda/cublas_library.h"
#include "harness/machine/cuda/device.cuh"
#include "harness/machine/gpu.h"
#include "harness/machine/gpu_state.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using cuda::DeviceBuffer;
using nlohmann::json;

constexpr int kThreads = 256;  // of a block, in every kernel but the empty one
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// -------------------------------------------------------------------------------------------- data

/// Random bits that depend on nothing but their place: the mixing step of splitmix64.
__device__ std::uint64_t random_bits(std::uint64_t place) {
  std::uint64_t bits = (place + 1) * 0x9e3779b97f4a7c15ULL;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
  return bits ^ (bits >> 31);
}

/// Uniform in [-1, 1).
__device__ float uniform(std::uint64_t place) {
  return static_cast<float>(static_cast<std::int32_t>(random_bits(place) >> 32) >> 8) * 0x1p-23F;
}

__device__ void set_random(std::uint64_t& value, std::uint64_t place) {
  value = random_bits(place);
}
__device__ void set_random(double& value, std::uint64_t place) { value = uniform(place); }
__device__ void set_random(float& value, std::uint64_t place) { value = uniform(place); }
__device__ void set_random(__half& value, std::uint64_t place) {
  value = __float2half_rn(uniform(place));
}
__device__ void set_random(__nv_bfloat16& value, std::uint64_t place) {
  value = __float2bfloat16_rn(uniform(place));
}
__device__ void set_random(std::int8_t& value, std::uint64_t place) {
  value = static_cast<std::int8_t>(random_bits(place) >> 56);
}

/// Random values: memory that holds one value throughout may be stored and moved compressed.
template <class T>
__global__ void fill_random_kernel(T* dev_values, std::int64_t count, std::uint64_t first_place) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    set_random(dev_values[i], first_place + static_cast<std::uint64_t>(i));
  }
}

// ------------------------------------------------------------------------------------------ memory

enum class Load { streaming, level2 };

template <Load load>
__device__ uint4 load_word(const uint4* dev_word) {
  if constexpr (load == Load::streaming) {
    return __ldcs(dev_word);  // used once
  } else {
    return __ldcg(dev_word);  // past the first-level cache
  }
}

/// Reads `visits` tiles of kThreads * kLoads words: the blocks go round the `tiles` of the array
/// together, so that a block meets another tile each time. The kLoads loads of a thread do not wait
/// for each other.
template <Load load, int kLoads>
__global__ void __launch_bounds__(kThreads)
    read_words_kernel(const uint4* dev_words, unsigned tiles, unsigned visits, unsigned* dev_sink) {
  unsigned seen = 0;
  for (unsigned visit = blockIdx.x; visit < visits; visit += gridDim.x) {
    const uint4* tile = dev_words + std::int64_t{visit % tiles} * (kThreads * kLoads) + threadIdx.x;
    uint4 words[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) words[i] = load_word<load>(tile + i * kThreads);
#pragma unroll
    for (int i = 0; i < kLoads; ++i) seen ^= words[i].x ^ words[i].y ^ words[i].z ^ words[i].w;
  }
  // Hardly ever true. The compiler cannot know that, so it keeps every load.
  if (seen == 0x5bd1e995U) *dev_sink = seen;
}

/// Copies `tiles` tiles of kThreads * kLoads words.
template <bool kStreaming, int kLoads>
__global__ void __launch_bounds__(kThreads)
    copy_words_kernel(const uint4* __restrict__ dev_from, uint4* __restrict__ dev_to,
                      unsigned tiles) {
  for (unsigned visit = blockIdx.x; visit < tiles; visit += gridDim.x) {
    const std::int64_t first = std::int64_t{visit} * (kThreads * kLoads) + threadIdx.x;
    uint4 words[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const uint4* from = dev_from + first + i * kThreads;
      words[i] = kStreaming ? __ldcs(from) : *from;
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      uint4* to = dev_to + first + i * kThreads;
      if constexpr (kStreaming) {
        __stcs(to, words[i]);
      } else {
        *to = words[i];
      }
    }
  }
}

// -------------------------------------------------------------------------- arithmetic and latency

constexpr int kChains = 8;          // independent multiply-adds of a thread
constexpr int kStepsPerRound = 16;  // of each chain: the loop's own instructions vanish in them

/// `factor` is -1, which the compiler must not know: every value then alternates between two, stays
/// bounded, and never becomes denormal.
template <class T>
__global__ void __launch_bounds__(kThreads)
    multiply_add_kernel(unsigned rounds, T factor, T* dev_sink) {
  const std::uint64_t thread = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  const T addend = static_cast<T>(uniform(2 * thread));
  T chains[kChains];
#pragma unroll
  for (int c = 0; c < kChains; ++c) {
    chains[c] = static_cast<T>(uniform(2 * thread + 1)) + static_cast<T>(c);
  }
  for (unsigned round = 0; round < rounds; ++round) {
#pragma unroll
    for (int step = 0; step < kStepsPerRound; ++step) {
#pragma unroll
      for (int c = 0; c < kChains; ++c) chains[c] = fma(chains[c], factor, addend);
    }
  }
  T sum = 0;
#pragma unroll
  for (int c = 0; c < kChains; ++c) sum += chains[c];
  if (sum == T(123456789)) *dev_sink = sum;  // never true, but the compiler cannot know
}

__global__ void empty_kernel() {}

__global__ void __launch_bounds__(kThreads) pass_barriers_kernel(int barriers) {
  const auto grid = cooperative_groups::this_grid();
  for (int barrier = 0; barrier < barriers; ++barrier) grid.sync();
}

// ------------------------------------------------------------------------------------------- tools

double host_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Stream {
 public:
  Stream() { KMEANS_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { (void)cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }  // NOLINT(google-explicit-constructor)

 private:
  cudaStream_t stream_ = nullptr;
};

/// Seconds between device events around what is put into the stream.
class Stopwatch {
 public:
  explicit Stopwatch(cudaStream_t stream) : stream_(stream) {
    KMEANS_CUDA(cudaEventCreate(&begin_));
    KMEANS_CUDA(cudaEventCreate(&end_));
  }
  ~Stopwatch() {
    (void)cudaEventDestroy(begin_);
    (void)cudaEventDestroy(end_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  template <class Work>
  double seconds(const Work& work) const {
    KMEANS_CUDA(cudaEventRecord(begin_, stream_));
    work();
    KMEANS_CUDA(cudaEventRecord(end_, stream_));
    KMEANS_CUDA(cudaEventSynchronize(end_));
    float milliseconds = 0;
    KMEANS_CUDA(cudaEventElapsedTime(&milliseconds, begin_, end_));
    return std::max(milliseconds * 1e-3, 1e-9);
  }

  /// The shortest of several repetitions; one before them is not counted.
  template <class Work>
  double best_seconds(int repetitions, const Work& work) const {
    work();
    // So that the first repetition does not queue behind the uncounted one.
    KMEANS_CUDA(cudaStreamSynchronize(stream_));
    double best = kInfinite;
    for (int r = 0; r < repetitions; ++r) best = std::min(best, seconds(work));
    return best;
  }

  [[nodiscard]] cudaStream_t stream() const { return stream_; }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

/// Page-locked memory of the host, which the device reads and writes directly.
class PinnedMemory {
 public:
  explicit PinnedMemory(std::size_t bytes) { KMEANS_CUDA(cudaMallocHost(&data_, bytes)); }
  ~PinnedMemory() { (void)cudaFreeHost(data_); }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  [[nodiscard]] void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

/// The sequence of launches that `work` puts into the stream, ready to be launched as one.
class Graph {
 public:
  template <class Work>
  Graph(cudaStream_t stream, const Work& work) {
    KMEANS_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    work();
    cudaGraph_t graph = nullptr;
    KMEANS_CUDA(cudaStreamEndCapture(stream, &graph));
    const cudaError_t outcome = cudaGraphInstantiate(&graph_, graph, 0);
    (void)cudaGraphDestroy(graph);
    KMEANS_CUDA(outcome);
  }
  ~Graph() { (void)cudaGraphExecDestroy(graph_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(cudaStream_t stream) const { KMEANS_CUDA(cudaGraphLaunch(graph_, stream)); }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

template <class Kernel>
unsigned resident_blocks(Kernel kernel, const GpuDevice& gpu) {
  int blocks = 0;
  KMEANS_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, kThreads, 0));
  return static_cast<unsigned>(std::max(blocks, 1) * gpu.multiprocessors);
}

template <class T>
void fill_random(T* dev_values, std::int64_t count, std::uint64_t seed, const GpuDevice& gpu,
                 cudaStream_t stream) {
  const unsigned blocks = resident_blocks(fill_random_kernel<T>, gpu);
  fill_random_kernel<<<blocks, kThreads, 0, stream>>>(dev_values, count, seed << 40);
  KMEANS_CUDA_LAUNCHED(fill_random_kernel);
}

json rate(double amount, double seconds) { return detail::rounded_rate(amount / seconds * 1e-9); }

// -------------------------------------------------------------------------------- the measurements

/// A multiple of every kernel's tile.
constexpr std::int64_t kArrayUnit = std::int64_t{1} << 21;

std::int64_t whole_units(double bytes) {
  return std::max<std::int64_t>(static_cast<std::int64_t>(bytes) / kArrayUnit, 1) * kArrayUnit;
}

/// 4 GiB, or a quarter of the free memory if that is less; but, if memory allows, more than the cache
/// would hold.
std::int64_t array_bytes(double effort, const GpuDevice& gpu) {
  std::size_t free = 0;
  std::size_t total = 0;
  KMEANS_CUDA(cudaMemGetInfo(&free, &total));
  const double wanted = std::max({effort * 0x1p32, 8 * static_cast<double>(gpu.l2_bytes), 0x1p26});
  return whole_units(std::min(wanted, static_cast<double>(free) / 4));
}

class MemoryCeilings {
 public:
  MemoryCeilings(double effort, const GpuDevice& gpu, const Stopwatch& watch)
      : effort_(effort),
        gpu_(gpu),
        watch_(watch),
        array_(array_bytes(effort, gpu) / static_cast<std::int64_t>(sizeof(uint4))),
        sink_(1),
        transfer_bytes_(std::min(bytes(), whole_units(effort * 0x1p28))) {
    fill_random(reinterpret_cast<std::uint64_t*>(array_.data()),
                bytes() / static_cast<std::int64_t>(sizeof(std::uint64_t)), 1, gpu, watch.stream());
  }

  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(array_.bytes()); }
  [[nodiscard]] std::int64_t level2_bytes() const { return level2_bytes_; }
  [[nodiscard]] std::int64_t transfer_bytes() const { return transfer_bytes_; }

  json read() const {
    double best = kInfinite;
    for (int turn = 0; turn < 2; ++turn) {
      best = std::min(best, read_all<4>());
      best = std::min(best, read_all<8>());
    }
    return rate(static_cast<double>(bytes()), best);
  }

  /// From the first half of the array to the second: as much read as written, `bytes()` in all.
  json copy() const {
    double best = kInfinite;
    for (int turn = 0; turn < 2; ++turn) {
      best = std::min(best, copy_half<true, 4>());
      best = std::min(best, copy_half<false, 4>());
      best = std::min(best, copy_half<true, 8>());
      best = std::min(best, watch_.best_seconds(kRepetitions, [&] {
        KMEANS_CUDA(cudaMemcpyAsync(array_.data() + array_.size() / 2, array_.data(),
                                    array_.bytes() / 2, cudaMemcpyDeviceToDevice, watch_.stream()));
      }));
    }
    return rate(static_cast<double>(bytes()), best);
  }

  /// The beginning of the array, half as large as the second-level cache, again and again.
  json read_level2() {
    constexpr int kLoads = 8;
    constexpr std::int64_t kTileBytes = std::int64_t{kThreads} * kLoads * sizeof(uint4);
    const std::int64_t tiles = std::min(gpu_.l2_bytes / 2, bytes()) / kTileBytes;
    if (tiles < 1) throw std::runtime_error("the driver reports no size of the L2 cache");
    level2_bytes_ = tiles * kTileBytes;
    const auto rounds = static_cast<std::int64_t>(
        std::max(effort_ * 0x1p33 / static_cast<double>(level2_bytes_), 8.0));
    const auto visits = static_cast<unsigned>(std::min<std::int64_t>(tiles * rounds, 1 << 30));
    const auto kernel = read_words_kernel<Load::level2, kLoads>;
    const unsigned blocks = resident_blocks(kernel, gpu_);
    const double best = watch_.best_seconds(2 * kRepetitions, [&] {
      kernel<<<blocks, kThreads, 0, watch_.stream()>>>(array_.data(), static_cast<unsigned>(tiles),
                                                       visits, sink_.data());
      KMEANS_CUDA_LAUNCHED(read_words_kernel);
    });
    return rate(static_cast<double>(visits) * kTileBytes, best);
  }

  /// {to the device, from the device} between the array and memory of the host.
  std::pair<json, json> transfer(void* host) const {
    const auto size = static_cast<std::size_t>(transfer_bytes_);
    // From the device first: this fills the host's pages with random values, for the way back.
    const double from = watch_.best_seconds(kRepetitions, [&] {
      KMEANS_CUDA(
          cudaMemcpyAsync(host, array_.data(), size, cudaMemcpyDeviceToHost, watch_.stream()));
    });
    const double to = watch_.best_seconds(kRepetitions, [&] {
      KMEANS_CUDA(
          cudaMemcpyAsync(array_.data(), host, size, cudaMemcpyHostToDevice, watch_.stream()));
    });
    const auto amount = static_cast<double>(transfer_bytes_);
    return {rate(amount, to), rate(amount, from)};
  }

 private:
  static constexpr int kRepetitions = 4;

  /// Few blocks that stay, or a block for every tile: which is faster depends on the GPU.
  template <int kLoads>
  double read_all() const {
    const auto kernel = read_words_kernel<Load::streaming, kLoads>;
    const auto tiles = static_cast<unsigned>(array_.size() / (kThreads * kLoads));
    const unsigned resident = resident_blocks(kernel, gpu_);
    double best = kInfinite;
    for (const unsigned blocks :
         {std::min(resident, tiles), std::min(8 * resident, tiles), tiles}) {
      best = std::min(best, watch_.best_seconds(kRepetitions, [&] {
        kernel<<<blocks, kThreads, 0, watch_.stream()>>>(array_.data(), tiles, tiles, sink_.data());
        KMEANS_CUDA_LAUNCHED(read_words_kernel);
      }));
    }
    return best;
  }

  template <bool kStreaming, int kLoads>
  double copy_half() const {
    const auto kernel = copy_words_kernel<kStreaming, kLoads>;
    const auto tiles = static_cast<unsigned>(array_.size() / 2 / (kThreads * kLoads));
    const unsigned resident = resident_blocks(kernel, gpu_);
    double best = kInfinite;
    for (const unsigned blocks : {std::min(resident, tiles), tiles}) {
      best = std::min(best, watch_.best_seconds(kRepetitions, [&] {
        kernel<<<blocks, kThreads, 0, watch_.stream()>>>(array_.data(),
                                                         array_.data() + array_.size() / 2, tiles);
        KMEANS_CUDA_LAUNCHED(copy_words_kernel);
      }));
    }
    return best;
  }

  double effort_;
  const GpuDevice& gpu_;
  const Stopwatch& watch_;
  DeviceBuffer<uint4> array_;
  DeviceBuffer<unsigned> sink_;
  std::int64_t transfer_bytes_;
  std::int64_t level2_bytes_ = 0;
};

/// Multiply-adds in registers, with as many threads as the GPU holds.
template <class T>
class MultiplyAdds {
 public:
  MultiplyAdds(const GpuDevice& gpu, const Stopwatch& watch)
      : watch_(watch), blocks_(resident_blocks(multiply_add_kernel<T>, gpu)), sink_(1) {}

  void launch(unsigned rounds) const {
    multiply_add_kernel<T><<<blocks_, kThreads, 0, watch_.stream()>>>(rounds, T{-1}, sink_.data());
    KMEANS_CUDA_LAUNCHED(multiply_add_kernel);
  }

  /// How many rounds take this long: what one takes differs a hundredfold between GPUs.
  [[nodiscard]] unsigned rounds_in(double seconds) const {
    unsigned rounds = 16;
    double spent = watch_.best_seconds(1, [&] { launch(rounds); });
    while (spent < seconds / 4 && rounds < (1U << 28)) {
      rounds *= 4;
      spent = watch_.seconds([&] { launch(rounds); });
    }
    return static_cast<unsigned>(std::clamp(rounds * seconds / spent, 1.0, 0x1p30));
  }

  [[nodiscard]] json gflops(double effort) const {
    const unsigned rounds = rounds_in(8e-3 * std::clamp(effort, 0.1, 1.0));
    const double operations = 2.0 * kChains * kStepsPerRound * rounds * blocks_ * kThreads;
    return rate(operations, watch_.best_seconds(8, [&] { launch(rounds); }));
  }

 private:
  const Stopwatch& watch_;
  unsigned blocks_;
  DeviceBuffer<T> sink_;
};

double as_double(double value) { return value; }
double as_double(float value) { return value; }
double as_double(__half value) { return __half2float(value); }
double as_double(__nv_bfloat16 value) { return __bfloat162float(value); }
double as_double(std::int8_t value) { return value; }
double as_double(std::int32_t value) { return value; }

/// Square products A^T B, both factors read along their columns, which is how k-means multiplies
/// points with centroids.
class MatrixProducts {
 public:
  MatrixProducts(double effort, const GpuDevice& gpu, const Stopwatch& watch)
      : gpu_(gpu),
        watch_(watch),
        size_(size_for(effort)),
        a_(size_ * size_),
        b_(size_ * size_),
        c_(size_ * size_),
        cublas_(watch.stream()) {}

  /// n of the n x n matrices. Half of it in float64: many GPUs are slow at that.
  [[nodiscard]] std::int64_t size(Precision precision) const {
    return precision == Precision::f64 ? size_ / 2 : size_;
  }

  /// The best rate for this type of the factors; throws if a product is wrong.
  template <class T>
  json gflops(Precision precision) {
    using cuda::GemmOutput;
    constexpr bool kShort = sizeof(T) < sizeof(float);
    const std::int64_t n = size(precision);
    fill_factors<T>(n);
    const auto into = [&](GemmOutput output) {
      return [this, precision, n, output] {
        cublas_.gemm(precision, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, 1, a_.data(), n, b_.data(), n, 0,
                     c_.data(), n, output);
      };
    };
    double best =
        checked_seconds<T, std::conditional_t<kShort, float, T>>(n, into(GemmOutput::wide));
    if constexpr (kShort) {
      best = std::min(best, checked_seconds<T, T>(n, into(GemmOutput::as_factors)));
    }
    return rate(operations(n), best);
  }

  /// The same of bytes, whose sums are int32: 10^9 operations a second, none of them on
  /// floating-point numbers.
  json int8_gops() {
    const std::int64_t n = size_;
    fill_factors<std::int8_t>(n);
    const auto* dev_a = reinterpret_cast<const std::int8_t*>(a_.data());
    const auto* dev_b = reinterpret_cast<const std::int8_t*>(b_.data());
    auto* dev_c = reinterpret_cast<std::int32_t*>(c_.data());
    const double best = checked_seconds<std::int8_t, std::int32_t>(n, [&] {
      cublas_.gemm_int8(CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, 1, dev_a, n, dev_b, n, 0, dev_c, n);
    });
    return rate(operations(n), best);
  }

 private:
  static constexpr double kSeconds = 0.06;  // of repetitions of one kind: some milliseconds each

  /// 8192, or less if the effort is below 1 or memory is small.
  static std::int64_t size_for(double effort) {
    std::size_t free = 0;
    std::size_t total = 0;
    KMEANS_CUDA(cudaMemGetInfo(&free, &total));
    const double fitting = std::sqrt(static_cast<double>(free) / 2 / (3 * sizeof(float)));
    const double wanted = 8192 * std::cbrt(std::min(effort, 1.0));
    return std::max<std::int64_t>(static_cast<std::int64_t>(std::min(wanted, fitting)) / 256, 2) *
           256;
  }

  static double operations(std::int64_t n) { return 2 * std::pow(static_cast<double>(n), 3); }

  template <class T>
  void fill_factors(std::int64_t n) {
    fill_random(reinterpret_cast<T*>(a_.data()), n * n, 2, gpu_, watch_.stream());
    fill_random(reinterpret_cast<T*>(b_.data()), n * n, 3, gpu_, watch_.stream());
  }

  /// The shortest of some repetitions; throws if the product of factors T that `multiply` writes,
  /// in elements of type Product, is wrong.
  template <class T, class Product, class Multiply>
  double checked_seconds(std::int64_t n, const Multiply& multiply) const {
    multiply();  // loads the kernels
    double best = kInfinite;
    const double began = host_seconds();
    do {
      best = std::min(best, watch_.best_seconds(2, multiply));
    } while (host_seconds() - began < kSeconds);
    check_product(reinterpret_cast<const T*>(a_.data()), reinterpret_cast<const T*>(b_.data()),
                  reinterpret_cast<const Product*>(c_.data()), n);
    return best;
  }

  /// Compares some elements with float64. Rounding stays far below the bound; a wrong sum hardly ever
  /// does. Integer products have no rounding, and float64 holds them exactly.
  template <class T, class Product>
  void check_product(const T* dev_a, const T* dev_b, const Product* dev_c, std::int64_t n) const {
    const auto edge = static_cast<std::size_t>(n);
    std::vector<T> column_a(edge);
    std::vector<T> column_b(edge);
    KMEANS_CUDA(cudaStreamSynchronize(watch_.stream()));
    for (std::size_t spot = 1; spot <= 4; ++spot) {
      const std::size_t i = spot * (edge / 5) + 1;
      const std::size_t j = edge - spot * (edge / 7);
      Product element{};
      KMEANS_CUDA(
          cudaMemcpy(column_a.data(), dev_a + i * edge, edge * sizeof(T), cudaMemcpyDeviceToHost));
      KMEANS_CUDA(
          cudaMemcpy(column_b.data(), dev_b + j * edge, edge * sizeof(T), cudaMemcpyDeviceToHost));
      KMEANS_CUDA(
          cudaMemcpy(&element, dev_c + j * edge + i, sizeof element, cudaMemcpyDeviceToHost));
      double expected = 0;
      for (std::size_t t = 0; t < edge; ++t) {
        expected += as_double(column_a[t]) * as_double(column_b[t]);
      }
      const double bound = std::is_integral_v<T>
                               ? 0
                               : 0.01 * (std::sqrt(static_cast<double>(edge)) + std::abs(expected));
      if (!(std::abs(as_double(element) - expected) <= bound)) {
        throw std::runtime_error("cuBLAS returned a wrong matrix product");
      }
    }
  }

  const GpuDevice& gpu_;
  const Stopwatch& watch_;
  std::int64_t size_;
  DeviceBuffer<float> a_;
  DeviceBuffer<float> b_;
  DeviceBuffer<float> c_;
  cuda::CublasHandle cublas_;
};

constexpr int kLaunches = 1000;

void launch_empty_kernels(cudaStream_t stream) {
  for (int i = 0; i < kLaunches; ++i) empty_kernel<<<1, 32, 0, stream>>>();
  KMEANS_CUDA_LAUNCHED(empty_kernel);
}

json launch_seconds(const Stopwatch& watch) {
  const double best = watch.best_seconds(10, [&] { launch_empty_kernels(watch.stream()); });
  return detail::rounded_rate(best / kLaunches);
}

/// By the host's clock: it is the host that waits.
json launch_and_synchronise_seconds(cudaStream_t stream) {
  constexpr int kCalls = 100;
  double best = kInfinite;
  for (int batch = 0; batch < 10; ++batch) {
    const double began = host_seconds();
    for (int i = 0; i < kCalls; ++i) {
      empty_kernel<<<1, 32, 0, stream>>>();
      KMEANS_CUDA(cudaStreamSynchronize(stream));
    }
    best = std::min(best, (host_seconds() - began) / kCalls);
  }
  KMEANS_CUDA_LAUNCHED(empty_kernel);
  return detail::rounded_rate(best);
}

json graph_node_seconds() {
  const Stream stream;  // of its own: a capture that fails spoils the stream
  const Graph graph(stream, [&] { launch_empty_kernels(stream); });
  const Stopwatch watch(stream);
  return detail::rounded_rate(watch.best_seconds(10, [&] { graph.launch(stream); }) / kLaunches);
}

json grid_barrier_seconds(const GpuDevice& gpu, const Stopwatch& watch) {
  int supported = 0;
  KMEANS_CUDA(cudaDeviceGetAttribute(&supported, cudaDevAttrCooperativeLaunch, gpu.index));
  if (supported == 0) throw std::runtime_error("the GPU launches no cooperative kernels");
  int barriers = 1000;
  void* arguments[] = {&barriers};
  const auto blocks = static_cast<unsigned>(gpu.multiprocessors);
  const double best = watch.best_seconds(10, [&] {
    KMEANS_CUDA(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(pass_barriers_kernel),
                                            dim3(blocks), dim3(kThreads), arguments, 0,
                                            watch.stream()));
  });
  return detail::rounded_rate(best / barriers);
}

}  // namespace

nlohmann::json measure_gpu_ceilings(double effort) {
  const GpuDevice* gpu = current_gpu();
  if (gpu == nullptr) throw std::runtime_error("no GPU can be used: " + gpu_status().problem);
  const double began = host_seconds();
  auto notes = json::array();
  // What fails costs its own figure only; `what` names it in the note.
  const auto attempt = [&](const std::string& what, const auto& measure) -> json {
    try {
      return measure();
    } catch (const std::exception& error) {
      notes.push_back(what + " was not measured: " + error.what());
      return nullptr;
    }
  };

  KMEANS_CUDA(cudaSetDevice(gpu->index));
  const Stream stream;
  const Stopwatch watch(stream);
  const auto before = gpu_state(gpu->uuid);
  // An idle GPU takes a while to raise its clocks, so the work is measured twice and the second time
  // counts. The GPU's state meanwhile is kept.
  const auto under_load = attempt("the GPU's state under load", [&] {
    const MultiplyAdds<float> work(*gpu, watch);
    const double seconds = 0.1 * std::clamp(effort, 0.1, 1.0);
    work.launch(work.rounds_in(seconds));
    work.launch(work.rounds_in(seconds));
    auto state = gpu_state(gpu->uuid);
    KMEANS_CUDA(cudaStreamSynchronize(stream));
    return state;
  });

  json ceilings{{"read_gbytes_per_second", nullptr},
                {"copy_gbytes_per_second", nullptr},
                {"read_gbytes_per_second_l2", nullptr},
                {"host_to_device_gbytes_per_second", {{"pinned", nullptr}, {"pageable", nullptr}}},
                {"device_to_host_gbytes_per_second", {{"pinned", nullptr}, {"pageable", nullptr}}}};
  json bytes{{"array", nullptr}, {"l2", nullptr}, {"transfer", nullptr}};

  ceilings["fma_gflops"] = {
      {"f32",
       attempt("FMA in f32", [&] { return MultiplyAdds<float>(*gpu, watch).gflops(effort); })},
      {"f64",
       attempt("FMA in f64", [&] { return MultiplyAdds<double>(*gpu, watch).gflops(effort); })}};
  ceilings["launch_seconds"] = attempt("the launch", [&] { return launch_seconds(watch); });
  ceilings["launch_and_synchronise_seconds"] = attempt(
      "launching and synchronising", [&] { return launch_and_synchronise_seconds(stream); });
  ceilings["graph_node_seconds"] = attempt("the graph node", [&] { return graph_node_seconds(); });
  ceilings["grid_barrier_seconds"] =
      attempt("the grid barrier", [&] { return grid_barrier_seconds(*gpu, watch); });

  auto& gemm = ceilings["gemm_gflops"];
  gemm = {{"f64", nullptr}, {"f32", nullptr},  {"tf32", nullptr},
          {"f16", nullptr}, {"bf16", nullptr}, {"int8", nullptr}};
  json gemm_size{{"f64", nullptr}, {"others", nullptr}};
  attempt("the matrix product", [&] {
    MatrixProducts products(effort, *gpu, watch);
    gemm_size = {{"f64", products.size(Precision::f64)}, {"others", products.size(Precision::f32)}};
    const auto measure = [&](const char* name, const auto& product) {
      gemm[name] = attempt(std::string("the matrix product in ") + name, product);
    };
    measure("f64", [&] { return products.gflops<double>(Precision::f64); });
    measure("f32", [&] { return products.gflops<float>(Precision::f32); });
    measure("tf32", [&] { return products.gflops<float>(Precision::tf32); });
    measure("f16", [&] { return products.gflops<__half>(Precision::f16); });
    measure("bf16", [&] { return products.gflops<__nv_bfloat16>(Precision::bf16); });
    measure("int8", [&] { return products.int8_gops(); });
    return json();
  });

  attempt("the bandwidth of the memory", [&] {
    MemoryCeilings memory(effort, *gpu, watch);
    bytes["array"] = memory.bytes();
    if (memory.bytes() < 4 * gpu->l2_bytes) {
      notes.push_back(
          "the array is less than four times the second-level cache: part of what is called read "
          "from memory may have come from there");
    }
    ceilings["read_gbytes_per_second"] = attempt("reading", [&] { return memory.read(); });
    ceilings["copy_gbytes_per_second"] = attempt("copying", [&] { return memory.copy(); });
    ceilings["read_gbytes_per_second_l2"] =
        attempt("reading from the second-level cache", [&] { return memory.read_level2(); });
    if (memory.level2_bytes() > 0) bytes["l2"] = memory.level2_bytes();

    bytes["transfer"] = memory.transfer_bytes();
    const auto transfer = [&](const char* kind, void* host) {
      const auto [to_device, to_host] = memory.transfer(host);
      ceilings["host_to_device_gbytes_per_second"][kind] = to_device;
      ceilings["device_to_host_gbytes_per_second"][kind] = to_host;
      return json();
    };
    const auto size = static_cast<std::size_t>(memory.transfer_bytes());
    attempt("copying from and to pinned memory", [&] {
      const PinnedMemory host(size);
      return transfer("pinned", host.data());
    });
    attempt("copying from and to pageable memory", [&] {
      std::vector<unsigned char> host(size);
      return transfer("pageable", host.data());
    });
    return json();
  });

  const auto after = gpu_state(gpu->uuid);
  const auto doubts = gpu_state_doubts(before, after);
  for (const auto& doubt : doubts) notes.push_back(doubt);
  ceilings["details"] = {
      {"name", gpu->name},
      {"uuid", gpu->uuid},
      {"bytes", bytes},
      {"gemm_size", gemm_size},
      {"cublas", cuda::cublas_version().empty() ? json(nullptr) : json(cuda::cublas_version())},
      {"state", {{"before", before}, {"under_load", under_load}, {"after", after}}},
      {"measured", utc_now()},
      {"seconds", std::round((host_seconds() - began) * 100) / 100},
      {"disturbed", !doubts.empty()},
      {"notes", notes}};
  return ceilings;
}

}  // namespace kmeans
