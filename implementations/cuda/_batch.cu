// SPDX-License-Identifier: Apache-2.0
//
// A problem a block, with all that it needs in shared memory: labels by float32 distances and, where these leave it
// open, as defined; sums of which points that change their cluster are taken from one and added to another.
#include "implementations/cuda/_batch.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/machine/gpu.h"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_upload.cuh"

namespace kmeans::cuda {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int kGroup = 8;               // centroids that a thread forms distances from at a time
constexpr float kTiny = 0x1p-127F;      // kFilterTiny for every d up to kMaxFiltered
constexpr double kShareOfMemory = 0.5;  // that is free

/// Of a problem.
struct State {
  std::int64_t iterations;
  int settled;
  int within_shift;
};

/// A block's arrays in shared memory, one behind the other.
struct Places {
  std::int64_t moved;   // k float64: squares of the distances by which centroids moved
  std::int64_t lows;    // k x (d + 1): sums in fixed point, then the count; lower halves
  std::int64_t highs;   // upper halves
  std::int64_t fresh;   // k x d: new centroids
  std::int64_t points;  // d columns of pitch()
  std::int64_t bytes;
};

/// Odd, so that a row's coordinates lie in different banks.
__host__ __device__ constexpr int pitch_of(int n) { return n | 1; }
/// Centroids with those that fill the last group.
__host__ __device__ constexpr int columns_of(int k) { return (k + kGroup - 1) / kGroup * kGroup; }

Places places_of(std::int64_t n, std::int64_t d, std::int64_t k) {
  Places places{};
  places.moved = 4 * d * ((k + kGroup - 1) / kGroup * kGroup);  // behind d columns of centroids
  places.lows = places.moved + 8 * k;
  places.highs = places.lows + 4 * k * (d + 1);
  places.fresh = places.highs + 4 * k * (d + 1);
  places.points = places.fresh + 4 * k * d;
  places.bytes = places.points + 4 * d * (n | 1);
  return places;
}

struct Arguments {
  const float* dev_points;  // problems x n x d
  int n;
  int d;
  int k;
  Places places;
  std::int64_t iterations;  // at most, of this launch
  bool again;               // labels of the centroids as they are, no iteration
  bool settles;
  bool spherical;
  float factor;                       // as of filter_factor()
  const std::int32_t* dev_exponents;  // problems: of the fixed point
  const double* dev_shifts;           // problems, or null
  float* dev_centroids;               // problems x k x d
  std::int32_t* dev_labels;           // problems x n, at first -1
  State* dev_states;                  // problems
};

struct Held {
  float* centroids;  // d columns of columns_of(k), those behind the last infinite
  double* moved;
  unsigned* lows;
  unsigned* highs;
  float* fresh;
  float* points;
};

/// By native 32-bit additions: whoever makes a lower half wrap carries.
__device__ void add_to_cell(const Held& held, int cell, Integer value) {
  const auto low = static_cast<unsigned>(value);
  const unsigned before = atomicAdd(&held.lows[cell], low);
  const unsigned high = static_cast<unsigned>(value >> 32) + (before + low < before ? 1U : 0U);
  if (high != 0) atomicAdd(&held.highs[cell], high);
}

__device__ long long cell_of(const Held& held, int cell) {
  return static_cast<long long>(Integer{held.highs[cell]} << 32 | held.lows[cell]);
}

/// Point i leaves cluster `from` (-1: none) for cluster `to`.
__device__ void move_point(const Arguments& task, const Held& held, double scale, int i, int from,
                           int to) {
  const int width = task.d + 1;
  for (int t = 0; t < width; ++t) {
    const float x = t < task.d ? held.points[t * pitch_of(task.n) + i] : 0.0F;
    const auto value = static_cast<Integer>(t < task.d ? exact_fixed_point(x, scale) : 1);
    add_to_cell(held, to * width + t, value);
    if (from >= 0) add_to_cell(held, from * width + t, 0 - value);
  }
}

/// The label as defined.
__device__ __noinline__ int nearest_exactly(const Arguments& task, const Held& held, int i) {
  double least = INFINITY;
  int nearest = 0;
  for (int j = 0; j < task.k; ++j) {
    double distance = 0;
    for (int t = 0; t < task.d; ++t) {
      distance = add_exact_square(distance, held.points[t * pitch_of(task.n) + i],
                                  held.centroids[t * columns_of(task.k) + j]);
    }
    if (distance < least) {  // strictly: the lowest index wins a tie
      least = distance;
      nearest = j;
    }
  }
  return nearest;
}

__device__ int nearest_of(const Arguments& task, const Held& held, int i) {
  const int pitch = pitch_of(task.n);
  const int columns = columns_of(task.k);
  float best = INFINITY;
  float second = INFINITY;
  int nearest = 0;
  for (int first = 0; first < columns; first += kGroup) {
    float distance[kGroup] = {};
    for (int t = 0; t < task.d; ++t) {
      const float x = held.points[t * pitch + i];
      const float* const row = held.centroids + t * columns + first;
      const float4 one = *reinterpret_cast<const float4*>(row);
      const float4 other = *reinterpret_cast<const float4*>(row + 4);
      const float c[kGroup] = {one.x, one.y, one.z, one.w, other.x, other.y, other.z, other.w};
#pragma unroll
      for (int e = 0; e < kGroup; ++e) {
        const float difference = __fsub_rn(x, c[e]);
        distance[e] = __fmaf_rn(difference, difference, distance[e]);
      }
    }
#pragma unroll
    for (int e = 0; e < kGroup; ++e) {
      nearest = distance[e] < best ? first + e : nearest;
      second = fminf(second, fmaxf(best, distance[e]));
      best = fminf(best, distance[e]);
    }
  }
  const bool decided = second > __fmaf_rn(best, task.factor, kTiny);
  return decided ? nearest : nearest_exactly(task, held, i);
}

/// Points and centroids of a problem, and the sums by the labels so far.
__device__ void load(const Arguments& task, const Held& held, std::int64_t problem, double scale) {
  const int threads = static_cast<int>(blockDim.x);
  const int thread = static_cast<int>(threadIdx.x);
  const float* const dev_points = task.dev_points + problem * task.n * task.d;
  for (int e = thread; e < task.n * task.d; e += threads) {
    held.points[e % task.d * pitch_of(task.n) + e / task.d] = dev_points[e];
  }
  const int columns = columns_of(task.k);
  const float* const dev_centroids = task.dev_centroids + problem * task.k * task.d;
  for (int e = thread; e < columns * task.d; e += threads) {
    const int j = e % columns;
    held.centroids[e] = j < task.k ? dev_centroids[j * task.d + e / columns] : INFINITY;
  }
  for (int e = thread; e < task.k * (task.d + 1); e += threads) held.lows[e] = held.highs[e] = 0;
  __syncthreads();
  if (task.again) return;
  const std::int32_t* const dev_labels = task.dev_labels + problem * task.n;
  for (int i = thread; i < task.n; i += threads) {
    if (dev_labels[i] >= 0) move_point(task, held, scale, i, -1, dev_labels[i]);
  }
  __syncthreads();
}

/// Labels all points, whose sums follow unless it is `again`. Has any changed?
__device__ bool assign(const Arguments& task, const Held& held, std::int64_t problem,
                       double scale) {
  std::int32_t* const dev_labels = task.dev_labels + problem * task.n;
  bool changed = false;
  for (int i = static_cast<int>(threadIdx.x); i < task.n; i += static_cast<int>(blockDim.x)) {
    const int nearest = nearest_of(task, held, i);
    const int before = dev_labels[i];
    if (nearest == before) continue;
    changed = true;
    dev_labels[i] = nearest;
    if (!task.again) move_point(task, held, scale, i, before, nearest);
  }
  return __syncthreads_or(changed ? 1 : 0) != 0;
}

/// held.fresh: new centroids, of empty clusters those that they have.
__device__ void divide(const Arguments& task, const Held& held, double inverse_scale) {
  const int threads = static_cast<int>(blockDim.x);
  const int thread = static_cast<int>(threadIdx.x);
  const int width = task.d + 1;
  for (int e = thread; e < task.k * task.d; e += threads) {
    const int j = e / task.d;
    const int t = e % task.d;
    const long long count = cell_of(held, j * width + task.d);
    held.fresh[e] = count == 0 || task.spherical
                        ? held.centroids[t * columns_of(task.k) + j]
                        : exact_mean(cell_of(held, j * width + t), count, inverse_scale);
  }
  if (!task.spherical) return;
  __syncthreads();
  for (int j = thread / kLanes; j < task.k; j += threads / kLanes) {  // whole warps
    if (cell_of(held, j * width + task.d) == 0) continue;
    exact_direction([&](std::int64_t t) { return __ll2double_rn(cell_of(held, j * width + t)); },
                    task.d, held.fresh + j * task.d);
  }
}

/// By the whole block: the squares of the distances from the centroids to the fresh ones, added up in their order.
__device__ double moved_by(const Arguments& task, const Held& held) {
  for (int j = static_cast<int>(threadIdx.x); j < task.k; j += static_cast<int>(blockDim.x)) {
    double square = 0;
    for (int t = 0; t < task.d; ++t) {
      square = add_exact_square(square, held.centroids[t * columns_of(task.k) + j],
                                held.fresh[j * task.d + t]);
    }
    held.moved[j] = square;
  }
  __syncthreads();
  double sum = 0;
  for (int j = 0; j < task.k; ++j) sum = __dadd_rn(sum, held.moved[j]);
  return sum;
}

__global__ void __launch_bounds__(kMaxThreads) iterate_batch_kernel(Arguments task) {
  extern __shared__ float4 shared_batch[];
  auto* const base = reinterpret_cast<char*>(shared_batch);
  const Held held{.centroids = reinterpret_cast<float*>(base),
                  .moved = reinterpret_cast<double*>(base + task.places.moved),
                  .lows = reinterpret_cast<unsigned*>(base + task.places.lows),
                  .highs = reinterpret_cast<unsigned*>(base + task.places.highs),
                  .fresh = reinterpret_cast<float*>(base + task.places.fresh),
                  .points = reinterpret_cast<float*>(base + task.places.points)};
  const std::int64_t problem = blockIdx.x;
  State state = task.dev_states[problem];
  if (state.settled != 0 || (state.within_shift != 0 && !task.again)) return;
  const int exponent = task.dev_exponents[problem];
  const double scale = __hiloint2double((1023 + exponent) << 20, 0);
  const double inverse_scale = __hiloint2double((1023 - exponent) << 20, 0);
  load(task, held, problem, scale);
  if (task.again) {
    (void)assign(task, held, problem, scale);
    return;
  }
  const double shift = task.dev_shifts != nullptr ? task.dev_shifts[problem] : -1;
  for (std::int64_t made = 1; made <= task.iterations; ++made) {
    state.iterations += 1;
    if (!assign(task, held, problem, scale)) {
      // The same labels: the same sums, the same centroids, as long as it goes on.
      state.settled = task.settles ? 1 : 0;
      state.within_shift = shift >= 0 ? 1 : 0;
      if (state.settled == 0 && state.within_shift == 0) {
        state.iterations += task.iterations - made;
      }
      break;
    }
    divide(task, held, inverse_scale);
    __syncthreads();
    if (shift >= 0) state.within_shift = moved_by(task, held) <= shift ? 1 : 0;
    for (int e = static_cast<int>(threadIdx.x); e < task.k * task.d;
         e += static_cast<int>(blockDim.x)) {
      held.centroids[e % task.d * columns_of(task.k) + e / task.d] = held.fresh[e];
    }
    __syncthreads();
    if (state.within_shift != 0) break;
  }
  float* const dev_centroids = task.dev_centroids + problem * task.k * task.d;
  for (int e = static_cast<int>(threadIdx.x); e < task.k * task.d;
       e += static_cast<int>(blockDim.x)) {
    dev_centroids[e] = held.centroids[e % task.d * columns_of(task.k) + e / task.d];
  }
  if (threadIdx.x == 0) task.dev_states[problem] = state;
}

/// Those that are on the GPU already, or null.
SharedRows::Rows points_on_gpu(const BatchTask& task) {
  return SharedRows::of(task.points, task.problems * task.n * task.d);
}

SharedRows::Rows points_of(const BatchTask& task) {
  const SharedRows::Rows known = points_on_gpu(task);
  return known != nullptr ? known : SharedRows::send(task.points, task.problems * task.n * task.d);
}

class SharedMemoryBatch final : public BatchAtWork {
 public:
  explicit SharedMemoryBatch(const BatchTask& task)
      : problems_(task.problems),
        points_(points_of(task)),
        dev_exponents_(task.problems),
        dev_shifts_(task.shifts != nullptr ? task.problems : 0),
        dev_centroids_(task.problems * task.k * task.d),
        dev_labels_(task.problems * task.n),
        dev_states_(task.problems),
        states_(task.problems) {
    std::vector<std::int32_t> exponents(problems_);
    for (std::int64_t problem = 0; problem < problems_; ++problem) {
      exponents[problem] = kmeans::exact::sum_exponent(task.n, task.max_abs[problem]);
    }
    dev_exponents_.upload(exponents.data());
    if (task.shifts != nullptr) dev_shifts_.upload(task.shifts);
    dev_centroids_.upload(task.centroids);
    dev_labels_.fill_bytes(0xff);
    dev_states_.zero();
    task_ = {.dev_points = points_->data(),
             .n = static_cast<int>(task.n),
             .d = static_cast<int>(task.d),
             .k = static_cast<int>(task.k),
             .places = places_of(task.n, task.d, task.k),
             .iterations = 0,
             .again = false,
             .settles = task.settles,
             .spherical = task.spherical,
             .factor = filter_factor(task.d),
             .dev_exponents = dev_exponents_.data(),
             .dev_shifts = dev_shifts_.data(),
             .dev_centroids = dev_centroids_.data(),
             .dev_labels = dev_labels_.data(),
             .dev_states = dev_states_.data()};
    threads_ = static_cast<unsigned>(
        std::clamp<std::int64_t>(ceil_div(task.n, kLanes) * kLanes, 128, kMaxThreads));
    allow_shared_bytes(iterate_batch_kernel, shared_bytes());
  }

  bool step(std::int64_t iterations) override {
    launch(iterations, false);
    return std::any_of(states_.begin(), states_.end(), [](const State& state) {
      return state.settled == 0 && state.within_shift == 0;
    });
  }

  void label_again() override { launch(0, true); }

  void fetch(float* centroids, std::int32_t* labels, Stopped* stopped) override {
    dev_centroids_.download(centroids);
    KMEANS_CUDA(cudaMemcpy(labels, dev_labels_.data(), dev_labels_.bytes(), cudaMemcpyDefault));
    KMEANS_CUDA(cudaStreamSynchronize(nullptr));  // within the GPU a copy is not waited for
    for (const State& state : states_) {
      *stopped++ = {.iterations = state.iterations,
                    .settled = state.settled != 0,
                    .within_shift = state.within_shift != 0};
    }
  }

 private:
  [[nodiscard]] std::size_t shared_bytes() const {
    return static_cast<std::size_t>(task_.places.bytes);
  }

  void launch(std::int64_t iterations, bool again) {
    task_.iterations = iterations;
    task_.again = again;
    iterate_batch_kernel<<<static_cast<unsigned>(problems_), threads_, shared_bytes()>>>(task_);
    KMEANS_CUDA_LAUNCHED(iterate_batch_kernel);
    dev_states_.download(states_.data());  // when it is done
  }

  std::int64_t problems_;
  unsigned threads_ = 0;
  Arguments task_{};
  SharedRows::Rows points_;
  DeviceBuffer<std::int32_t> dev_exponents_;
  DeviceBuffer<double> dev_shifts_;
  DeviceBuffer<float> dev_centroids_;
  DeviceBuffer<std::int32_t> dev_labels_;
  DeviceBuffer<State> dev_states_;
  std::vector<State> states_;
};

/// Empty: a block is the right one for a problem.
std::string problem_with(const BatchTask& task, const GpuDevice& gpu) {
  const Sizes s = Shape{task.n, task.d, task.k};
  const std::int64_t room = gpu.shared_bytes_per_block;
  // Beyond which sizes of arrays are no longer looked at one by one.
  if (4 * (s.n + 4 * s.k) * s.d > static_cast<double>(room) ||
      places_of(task.n, task.d, task.k).bytes > room) {
    return "a problem does not fit in the " + std::to_string(room) +
           " bytes of a block's shared memory";
  }
  if (task.problems > 2147483647) return "there are more problems than a grid has blocks";
  // Of a problem's distances: all of the GPU takes for so many as long as to begin another iteration.
  constexpr double kWorthAll = 4e6;
  const auto problems = static_cast<double>(task.problems);
  if (problems < gpu.multiprocessors && s.n * s.d * s.k > kWorthAll * problems) {
    return "all of the GPU is faster at so few problems, one after the other";
  }
  const auto memory = gpu_memory();
  const double of_points = points_on_gpu(task) != nullptr ? 0 : 4 * s.n * s.d;
  const double bytes = problems * (of_points + 4 * s.n + 4 * s.k * s.d + 64);
  if (memory && bytes > kShareOfMemory * static_cast<double>(memory->free_bytes)) {
    return "the GPU's memory does not hold all problems";
  }
  return "";
}

}  // namespace

std::unique_ptr<BatchAtWork> make_batch(const BatchTask& task, std::string& why_not) {
  const GpuDevice* const gpu = current_gpu();
  why_not = gpu != nullptr ? problem_with(task, *gpu) : gpu_status().problem;
  if (!why_not.empty()) return nullptr;
  return std::make_unique<SharedMemoryBatch>(task);
}

}  // namespace kmeans::cuda
