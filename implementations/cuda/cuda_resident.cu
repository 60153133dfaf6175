// SPDX-License-Identifier: Apache-2.0
//
// Idea:      points never leave the chip: one persistent kernel runs all iterations, each block
//            holding its points and their labels in shared memory
// Parallel:  one block a multiprocessor, its threads own points; a single block where the work is
//            too little for more, and for a hundred points one whose warps each form all sums on
//            matrix units. Every block keeps all centroids and all sums of its own and divides
//            them itself, so that an iteration takes one barrier of the grid
// Memory:    column-major points in shared memory, read from memory once a call. Only points whose
//            label changed touch the sums: in shared memory, then one addition in the L2 cache for
//            each sum that a block changed
// Numerics:  labels by float32 distances, best and second best; where their gap is within the
//            rounding bound, by float64 as defined. Sums are 64-bit integers, so that neither the
//            order of additions nor adding only changes can alter a bit. Equals the reference bit
//            for bit
// Source:    docs/exact-step.md, docs/gpu-bounds.md
#include <atomic>

#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_lloyd.cuh"
#include "implementations/cuda/_pinned.cuh"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code

constexpr int kMaxThreads = 1024;
constexpr int kMaxDimensions = 32;
constexpr int kChangeBuffers = 3;

__host__ __device__ constexpr int even(int count) { return (count + 1) / 2 * 2; }

/// Coordinates between two centroids in shared memory, so that vectors are aligned.
__host__ __device__ constexpr int centroid_stride(int d) { return d <= 2 ? d : (d + 3) / 4 * 4; }

struct Arguments {
  const float* dev_points;  // d x n
  std::int64_t n;
  int d;
  int k;
  int held;            // points of a block, at most
  int copies;          // of a block's changes, a power of two
  std::int64_t first;  // iterations before this call, of this fit
  std::int64_t iterations;
  double scale;
  double inverse_scale;
  float* dev_centroids;      // k x d
  std::int32_t* dev_labels;  // n
  Integer* dev_totals;       // k x (d + 1): fixed-point sums, then the count
  Integer* dev_changes;      // kChangeBuffers x (k (d + 1) + 1): blocks that changed something last
  unsigned* dev_arrivals;
  unsigned* done;  // in memory of the host: becomes `turn` at the end of iterate_few_kernel
  unsigned turn;
};

/// Adds the squared differences of coordinates t and up to three more that lie in one vector.
template <int D, int P>
__device__ void add_squares(const float (&x)[P][D], int t, const float* row, float (&distance)[P]) {
  constexpr int kVector = centroid_stride(D) % 4 == 0 ? 4 : 1;
  float c[kVector];
  if constexpr (kVector == 4) {
    const float4 four = *reinterpret_cast<const float4*>(row + t);
    c[0] = four.x, c[1] = four.y, c[2] = four.z, c[3] = four.w;
  } else {
    c[0] = row[t];
  }
#pragma unroll
  for (int e = 0; e < kVector; ++e) {
    if (t + e >= D) break;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const float difference = __fsub_rn(x[p][t + e], c[e]);
      distance[p] = __fmaf_rn(difference, difference, distance[p]);
    }
  }
}

/// Labels of P points, and whether float32 decides them.
template <int D, int P>
__device__ void nearest_by_float(const float (&x)[P][D], const float* centroids, int k,
                                 int (&nearest)[P], bool (&decided)[P]) {
  float best[P];
  float second[P];
#pragma unroll
  for (int p = 0; p < P; ++p) best[p] = second[p] = INFINITY, nearest[p] = 0;
#pragma unroll(D* P <= 16 ? 4 : 1)
  for (int j = 0; j < k; ++j) {
    float distance[P] = {};
#pragma unroll
    for (int t = 0; t < D; t += centroid_stride(D) % 4 == 0 ? 4 : 1) {
      add_squares<D, P>(x, t, centroids + j * centroid_stride(D), distance);
    }
#pragma unroll
    for (int p = 0; p < P; ++p) {
      nearest[p] = distance[p] < best[p] ? j : nearest[p];
      second[p] = fminf(second[p], fmaxf(best[p], distance[p]));
      best[p] = fminf(best[p], distance[p]);
    }
  }
#pragma unroll
  for (int p = 0; p < P; ++p) {
    decided[p] = k == 1 || second[p] > __fmaf_rn(best[p], filter_factor(D), kFilterTiny);
  }
}

/// The label as defined. Coordinates past d are zero in points and centroids, and add nothing.
template <int D>
__device__ __noinline__ int nearest_exactly(const float* point, int held, const float* centroids,
                                            int k) {
  double nearest_distance = INFINITY;
  int nearest = 0;
  for (int j = 0; j < k; ++j) {
    double distance = 0;
    for (int t = 0; t < D; ++t) {
      distance = add_exact_square(distance, point[t * held], centroids[j * centroid_stride(D) + t]);
    }
    if (distance < nearest_distance) {  // strictly: the lowest index wins a tie
      nearest_distance = distance;
      nearest = j;
    }
  }
  return nearest;
}

/// From a copy of the changes to the next: odd, so that copies begin in different banks.
__host__ __device__ constexpr std::int64_t change_pitch(std::int64_t cells) { return cells | 1; }

/// 64-bit additions from two native 32-bit ones each: whoever makes a lower half wrap carries. Several
/// at once, so that they do not wait for one another.
template <int kCount>
__device__ void add_shared(unsigned* lows, unsigned* highs, const long long (&values)[kCount]) {
  unsigned before[kCount];
#pragma unroll
  for (int a = 0; a < kCount; ++a) {
    before[a] = atomicAdd(&lows[a], static_cast<unsigned>(values[a]));
  }
#pragma unroll
  for (int a = 0; a < kCount; ++a) {
    const unsigned carry = before[a] + static_cast<unsigned>(values[a]) < before[a] ? 1 : 0;
    atomicAdd(&highs[a], static_cast<unsigned>(values[a] >> 32) + carry);
  }
}

/// Compilers merge the loads of neighbouring centroids, also past the last one: floats after it that
/// nobody writes.
constexpr int kGap = 8;

/// What a block keeps in shared memory.
struct Held {
  Integer* totals;   // k x (d + 1): sums of all points, then their count
  unsigned* lows;    // copies x change_pitch(): what this block has not published yet, lower halves
  unsigned* highs;   // upper halves
  float* centroids;  // k rows of centroid_stride(D)
  float* points;     // D columns of task.held
  unsigned* moves;   // points whose label changed: index, and the cluster before + 1
  int* move_count;
  std::uint16_t* labels;  // 0xffff: none yet
  int n;                  // points of this block
};

/// Labels the block's points, and lists those whose label changed. True for warps that found one.
template <int D, int P>
__device__ bool assign(const Arguments& task, const Held& held) {
  const int threads = static_cast<int>(blockDim.x);
  const unsigned lane = threadIdx.x % 32;
  const unsigned below = (1U << lane) - 1;
  bool changed = false;
  for (int first = 0; first < held.n; first += P * threads) {
    float x[P][D];
    int nearest[P];
    bool decided[P];
    const int i = first + static_cast<int>(threadIdx.x);
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int own = min(i + p * threads, held.n - 1);
#pragma unroll
      for (int t = 0; t < D; ++t) x[p][t] = held.points[t * task.held + own];
    }
    nearest_by_float<D, P>(x, held.centroids, task.k, nearest, decided);
    bool open = false;
#pragma unroll
    for (int p = 0; p < P; ++p) open = open || (!decided[p] && i + p * threads < held.n);
    if (__any_sync(kAllLanes, open)) {
#pragma unroll
      for (int p = 0; p < P; ++p) {
        const int own = i + p * threads;
        if (decided[p] || own >= held.n) continue;
        nearest[p] = nearest_exactly<D>(held.points + own, task.held, held.centroids, task.k);
      }
    }
    unsigned before[P];
    unsigned movers[P];
    int all_movers = 0;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int own = i + p * threads;
      before[p] = own < held.n ? held.labels[own] : static_cast<unsigned>(nearest[p]);
      movers[p] = __ballot_sync(kAllLanes, static_cast<unsigned>(nearest[p]) != before[p]);
      all_movers += __popc(movers[p]);
    }
    if (all_movers == 0) continue;
    changed = true;
    int place = 0;
    if (lane == 0) place = atomicAdd(held.move_count, all_movers);
    place = __shfl_sync(kAllLanes, place, 0);
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const auto own = static_cast<unsigned>(i + p * threads);
      if (static_cast<unsigned>(nearest[p]) != before[p]) {
        // None before is 0.
        held.moves[place + __popc(movers[p] & below)] = own | (before[p] + 1) << 16;
        held.labels[own] = static_cast<std::uint16_t>(nearest[p]);
      }
      place += __popc(movers[p]);
    }
  }
  return changed;
}

/// Takes listed points from their cluster before to their new one: a thread for each point where
/// coordinates are few, else for each coordinate and for the count. Copies of the sums keep neighbours
/// from queueing for the same one.
template <int D>
__device__ void move_points(const Arguments& task, const Held& held) {
  constexpr int kOwn = D <= 4 ? D + 1 : 1;  // sums of a thread
  const int width = task.d + 1;
  const int pitch = static_cast<int>(change_pitch(task.k * width));
  const int parts = kOwn > 1 ? 1 : width;
  const int count = *held.move_count * parts;
  for (int e = static_cast<int>(threadIdx.x); e < count; e += static_cast<int>(blockDim.x)) {
    const int move = e / parts;
    const int first = e % parts;
    const unsigned listed = held.moves[move];
    const int own = static_cast<int>(listed & 0xffff);
    const int before = static_cast<int>(listed >> 16) - 1;
    const int place = (move & (task.copies - 1)) * pitch + first;
    const int to = place + held.labels[own] * width;
    const int from = place + before * width;
    long long values[kOwn];
#pragma unroll
    for (int part = 0; part < kOwn; ++part) {
      const int t = first + part;
      values[part] =
          t < task.d ? exact_fixed_point(held.points[t * task.held + own], task.scale) : 1;
    }
    add_shared(held.lows + to, held.highs + to, values);
    if (before < 0) continue;
#pragma unroll
    for (int part = 0; part < kOwn; ++part) values[part] = -values[part];
    add_shared(held.lows + from, held.highs + from, values);
  }
}

/// The change of one sum, from all its copies, which are cleared.
__device__ Integer taken_change(const Arguments& task, const Held& held, int cell) {
  const int pitch = static_cast<int>(change_pitch(task.k * (task.d + 1)));
  Integer change = 0;
#pragma unroll 4
  for (int copy = 0; copy < task.copies; ++copy) {
    const int at = copy * pitch + cell;
    change += Integer{held.highs[at]} << 32 | held.lows[at];
    held.highs[at] = held.lows[at] = 0;
  }
  return change;
}

/// Arrives at the grid's barrier, with all that the block wrote before, and waits for the others.
__device__ void arrive_and_wait(unsigned* dev_arrivals, unsigned all) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(dev_arrivals) : "memory");
  unsigned arrived;
  do {
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(arrived) : "l"(dev_arrivals));
  } while (static_cast<int>(arrived - all) < 0);
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

/// Publishes the block's changes to all blocks, and waits at the grid's barrier.
__device__ void publish(const Arguments& task, std::int64_t iteration, bool changed,
                        const Held& held) {
  const int cells = task.k * (task.d + 1);
  Integer* dev_all = task.dev_changes + iteration % kChangeBuffers * (cells + 1);
  if (changed) {
    for (int e = threadIdx.x; e < cells; e += blockDim.x) {
      const Integer change = taken_change(task, held, e);
      if (change != 0) atomicAdd(&dev_all[e], change);
    }
    if (threadIdx.x == 0) atomicAdd(&dev_all[cells], 1ULL);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    arrive_and_wait(task.dev_arrivals, static_cast<unsigned>((iteration + 1) * gridDim.x));
  }
  __syncthreads();
}

/// Adds this iteration's changes to the block's own totals, and clears the buffer of the iteration
/// after the next: all have read it, since all have arrived at the barrier that followed. True if any
/// block changed anything, when all threads have done so.
__device__ bool take_changes(const Arguments& task, std::int64_t iteration, bool any,
                             const Held& held) {
  const int cells = task.k * (task.d + 1);
  if (gridDim.x == 1) {
    for (int e = threadIdx.x; any && e < cells; e += blockDim.x) {
      held.totals[e] += taken_change(task, held, e);
    }
    return __syncthreads_or(any ? 1 : 0) != 0;
  }
  const Integer* dev_all = task.dev_changes + iteration % kChangeBuffers * (cells + 1);
  Integer* dev_next = task.dev_changes + (iteration + 2) % kChangeBuffers * (cells + 1);
  bool changed = false;
  // The last says whether there are changes: one thread asks, for all that ask wait for one another.
  for (int e = threadIdx.x; e <= cells; e += blockDim.x) {
    const Integer change = __ldcg(&dev_all[e]);
    if (e < cells) {
      held.totals[e] += change;
    } else {
      changed = change != 0;
    }
    if (blockIdx.x == 0) __stcg(&dev_next[e], 0ULL);
  }
  return __syncthreads_or(changed ? 1 : 0) != 0;
}

/// Centroids from the totals; an empty cluster keeps its own.
template <int D>
__device__ void divide(const Arguments& task, const Integer* totals, float* centroids) {
  for (int e = threadIdx.x; e < task.k * task.d; e += blockDim.x) {
    const int j = e / task.d;
    const int t = e % task.d;
    const auto count = static_cast<long long>(totals[j * (task.d + 1) + task.d]);
    if (count == 0) continue;
    centroids[j * centroid_stride(D) + t] =
        exact_mean(static_cast<long long>(totals[j * (task.d + 1) + t]), count, task.inverse_scale);
  }
}

/// Lays out a block's shared memory; placement_of() counts its bytes.
template <int D>
__device__ Held hold(const Arguments& task) {
  extern __shared__ Integer shared[];
  const int cells = task.k * (task.d + 1);
  Held held;
  held.totals = shared;
  const int changes = task.copies * static_cast<int>(change_pitch(cells));
  held.lows = reinterpret_cast<unsigned*>(held.totals + cells);
  held.highs = held.lows + changes;
  held.centroids = reinterpret_cast<float*>(shared + even(cells + changes));
  held.points = held.centroids + task.k * centroid_stride(D) + kGap;
  held.moves = reinterpret_cast<unsigned*>(held.points + D * task.held);
  held.move_count = reinterpret_cast<int*>(held.moves + task.held);
  held.labels = reinterpret_cast<std::uint16_t*>(held.move_count + 1);
  const std::int64_t first = std::int64_t{blockIdx.x} * task.held;
  held.n = static_cast<int>(min(std::int64_t{task.held}, task.n - first));
  return held;
}

/// Fills it: points and labels of this block, centroids and sums of all.
template <int D>
__device__ void load(const Arguments& task, const Held& held) {
  const std::int64_t first = std::int64_t{blockIdx.x} * task.held;
#pragma unroll(D <= 8 ? 4 : 1)
  for (int i = threadIdx.x; i < held.n; i += blockDim.x) {
    for (int t = 0; t < D; ++t) {
      held.points[t * task.held + i] = t < task.d ? task.dev_points[t * task.n + first + i] : 0.0F;
    }
    held.labels[i] = static_cast<std::uint16_t>(task.dev_labels[first + i]);  // -1 becomes 0xffff
  }
  const int cells = task.k * (task.d + 1);
  for (int e = threadIdx.x; e < cells; e += blockDim.x) held.totals[e] = task.dev_totals[e];
  const int changes = task.copies * static_cast<int>(change_pitch(cells));
  for (int e = threadIdx.x; e < changes; e += blockDim.x) held.lows[e] = held.highs[e] = 0;
  for (int e = threadIdx.x; e < task.k * centroid_stride(D); e += blockDim.x) {
    const int t = e % centroid_stride(D);
    held.centroids[e] = t < task.d ? task.dev_centroids[e / centroid_stride(D) * task.d + t] : 0.0F;
  }
  if (threadIdx.x == 0) *held.move_count = 0;
  __syncthreads();
}

template <int D>
__device__ void store(const Arguments& task, const Held& held) {
  const std::int64_t first = std::int64_t{blockIdx.x} * task.held;
  for (int i = threadIdx.x; i < held.n; i += blockDim.x) {
    task.dev_labels[first + i] = held.labels[i];
  }
  if (blockIdx.x != 0) return;
  for (int e = threadIdx.x; e < task.k * (task.d + 1); e += blockDim.x) {
    task.dev_totals[e] = held.totals[e];
  }
  for (int e = threadIdx.x; e < task.k * task.d; e += blockDim.x) {
    task.dev_centroids[e] = held.centroids[e / task.d * centroid_stride(D) + e % task.d];
  }
}

template <int D, int P>
__global__ void __launch_bounds__(kMaxThreads, 1) iterate_resident_kernel(Arguments task) {
  const Held held = hold<D>(task);
  load<D>(task, held);
  for (std::int64_t iteration = task.first; iteration < task.first + task.iterations; ++iteration) {
    bool any = __syncthreads_or(assign<D, P>(task, held) ? 1 : 0) != 0;
    if (any) {
      move_points<D>(task, held);
      __syncthreads();
      if (threadIdx.x == 0) *held.move_count = 0;
    }
    if (gridDim.x > 1) publish(task, iteration, any, held);
    any = take_changes(task, iteration, any, held);
    if (!any) continue;  // the same labels: the same sums, the same centroids
    divide<D>(task, held.totals, held.centroids);
    __syncthreads();
  }
  store<D>(task, held);
}

constexpr int kFewPoints = 256;
constexpr int kFewDimensions = 4;
constexpr int kFewWarps = kFewPoints / kLanes;
constexpr int kFewCentroids = 16;

/// exact_mean() without its division, which takes as long as a label does, unless the result is next to
/// where float32 rounds the other way. reciprocal: inverse_scale by the count, rounded.
__device__ inline float mean_of_few(long long sum, long long count, double reciprocal,
                                    double inverse_scale) {
  // The definition's float64 mean is at most three units in the last place away.
  const double mean = __dmul_rn(__ll2double_rn(sum), reciprocal);
  constexpr int kApart = 64;
  constexpr int kHalfway = 1 << 28;  // between two numbers of float32, in the 29 bits that it drops
  const int from_halfway = (__double2loint(mean) & (2 * kHalfway - 1)) - kHalfway;
  const bool sure = abs(from_halfway) > kApart && fabs(mean) >= 0x1p-125;  // float32: not denormal
  return sure ? __double2float_rn(mean) : exact_mean(sum, count, inverse_scale);
}

/// The least distance, whose it is (the lowest index wins a tie), and the second least.
struct LeastTwo {
  float best = INFINITY;
  float second = INFINITY;
  int index = 0;

  LeastTwo() = default;
  __device__ LeastTwo(float one, float other, int index_of_one)
      : best(fminf(one, other)),
        second(fmaxf(one, other)),
        index(other < one ? index_of_one + 1 : index_of_one) {}
  /// With those of later indices.
  __device__ void join(const LeastTwo& later) {
    if (later.best < best) index = later.index;
    second = fminf(fmaxf(best, later.best), fminf(second, later.second));
    best = fminf(best, later.best);
  }
};

/// D (16 x 8) += A (16 x 32) B (32 x 8), of bytes without sign, as the registers of a warp hold them: lane l
/// has of A row l / 4 and the eighth after it, of B column l / 4, of both the four from 4 (l % 4) on and
/// those 16 after them, of D in these rows columns 2 (l % 4) and the next.
__device__ inline void add_byte_products(int (&d)[4], const unsigned (&a)[4], uint2 b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
  for (int place = 0; place < 4; ++place) {
    unsigned own[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) own[e] = __shfl_sync(kAllLanes, a[e], lane / 4 * 4 + place);
#pragma unroll
    for (int column = 0; column < 2; ++column) {
      const int from = (lane % 4 * 2 + column) * 4 + place;
      const unsigned first = __shfl_sync(kAllLanes, b.x, from);
      const unsigned second = __shfl_sync(kAllLanes, b.y, from);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int& sum = d[2 * half + column];
        sum = static_cast<int>(
            __dp4a(own[half + 2], second, __dp4a(own[half], first, static_cast<unsigned>(sum))));
      }
    }
  }
#else
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
#endif
}

constexpr unsigned kNoLabel = 63;  // in a byte; labels are less
constexpr unsigned kEachByte = 0x01010101;
constexpr int kMemberBit = 6;
/// In each byte that bit if it equals `label`, else 0: neither exceeds kNoLabel.
__device__ inline unsigned members(unsigned labels, unsigned label) {
  constexpr unsigned kMember = kEachByte << kMemberBit;
  return (kMember - (labels ^ kEachByte * label)) & kMember;
}

template <int D>
struct alignas(4 * centroid_stride(D)) Centroid {
  float coordinates[centroid_stride(D)];
};

/// All iterations for a few points, one a lane. Once all labels are known, one barrier an iteration, every
/// warp forms the sums of all clusters for itself, as a product on the matrix units: who belongs to which
/// cluster, times the bytes of the fixed-point numbers, which stay in registers.
template <int D>
__global__ void __launch_bounds__(kFewPoints, 1) iterate_few_kernel(Arguments task) {
  constexpr int kBytes = 8;     // of a number: columns of a product
  constexpr int kTogether = 8;  // centroids of a look
  constexpr int kHalf = kFewCentroids / 2;
  __shared__ __align__(16) std::uint8_t all_labels[2][kFewPoints];
  __shared__ __align__(16) std::uint8_t bytes[D][kBytes][kFewPoints];
  __shared__ __align__(16) Centroid<D> all_centroids[kFewWarps][kFewCentroids];
  __shared__ int4 all_sums[kFewWarps][kFewCentroids][D];  // two bytes' in each
  __shared__ int all_counts[kFewWarps][kFewCentroids];
  __shared__ float points[D * kFewPoints];
  __shared__ double reciprocals[kFewPoints + 1];
  const int i = static_cast<int>(threadIdx.x);
  const int lane = i % kLanes;
  const int warp = i / kLanes;
  const int warps = static_cast<int>(blockDim.x) / kLanes;
  const bool exists = i < task.n;
  int label = exists ? task.dev_labels[i] : -1;
  const bool owns = lane < task.k * D;  // a coordinate of a centroid
  const float centroid = owns ? task.dev_centroids[lane] : 0.0F;
  float x[D];
#pragma unroll
  for (int t = 0; t < D; ++t) x[t] = exists ? task.dev_points[t * task.n + i] : 0.0F;
  if (exists) reciprocals[i + 1] = __ddiv_rn(task.inverse_scale, i + 1);
#pragma unroll
  for (int t = 0; t < D; ++t) {
    points[t * kFewPoints + i] = x[t];
    const auto fixed = static_cast<Integer>(exact_fixed_point(x[t], task.scale));
#pragma unroll
    for (int byte = 0; byte < kBytes; ++byte) {
      bytes[t][byte][i] = static_cast<std::uint8_t>(fixed >> (8 * byte));
    }
  }
  // Past the last there are centroids that are the nearest to no point.
  Centroid<D>* centroids = all_centroids[warp];
  if (lane < kFewCentroids) {
#pragma unroll
    for (float& coordinate : centroids[lane].coordinates) coordinate = INFINITY;
  }
  __syncwarp();
  const int own_cluster = owns ? lane / D : 0;
  const int own_coordinate = lane % D;
  float* own_centroid = &centroids[own_cluster].coordinates[own_coordinate];
  if (owns) *own_centroid = centroid;
  __syncthreads();
  // Of products: this lane's row and column, and which eight points of a warp's.
  const auto row = static_cast<unsigned>(lane) / 4;
  const int place = lane % 4;
  const bool many = task.k > kHalf;
  uint2 own_bytes[kFewWarps][D];
#pragma unroll
  for (int of = 0; of < kFewWarps; ++of) {
    if (of >= warps) break;
#pragma unroll
    for (int t = 0; t < D; ++t) {
      own_bytes[of][t] = *reinterpret_cast<const uint2*>(&bytes[t][row][of * kLanes + place * 8]);
    }
  }
  for (int iteration = 0; iteration < static_cast<int>(task.iterations); ++iteration) {
    LeastTwo least;
    for (int j = 0; j < task.k; j += kTogether) {
      float distances[kTogether] = {};
#pragma unroll
      for (int e = 0; e < kTogether; ++e) {
        const Centroid<D> c = centroids[j + e];
#pragma unroll
        for (int t = 0; t < D; ++t) {
          const float difference = __fsub_rn(x[t], c.coordinates[t]);
          distances[e] = __fmaf_rn(difference, difference, distances[e]);
        }
      }
#pragma unroll
      for (int e = 0; e < kTogether; e += 4) {
        LeastTwo four(distances[e], distances[e + 1], j + e);
        four.join({distances[e + 2], distances[e + 3], j + e + 2});
        least.join(four);
      }
    }
    int nearest = least.index;
    const bool decided = least.second > __fmaf_rn(least.best, filter_factor(D), kFilterTiny);
    if (exists && !decided) {
      nearest = nearest_exactly<D>(points + i, kFewPoints, centroids->coordinates, task.k);
    }
    const bool changed = exists && nearest != label;
    if (exists) label = nearest;
    std::uint8_t* labels = all_labels[iteration % 2];
    labels[i] = static_cast<std::uint8_t>(exists ? static_cast<unsigned>(label) : kNoLabel);
    // The same labels: the same sums, the same centroids.
    if (__syncthreads_or(changed ? 1 : 0) == 0) continue;
    int sums[D][4] = {};
    int counts[4] = {};
#pragma unroll
    for (int of = 0; of < kFewWarps; ++of) {
      if (of >= warps) break;
      const uint2 eight = *reinterpret_cast<const uint2*>(labels + of * kLanes + place * 8);
      unsigned clusters[4] = {members(eight.x, row), 0, members(eight.y, row), 0};
      if (many) {
        clusters[1] = members(eight.x, row + kHalf);
        clusters[3] = members(eight.y, row + kHalf);
      }
#pragma unroll
      for (int t = 0; t < D; ++t) add_byte_products(sums[t], clusters, own_bytes[of][t]);
      add_byte_products(counts, clusters, {kEachByte, kEachByte});
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (half == 1 && !many) break;
      const unsigned cluster = row + half * kHalf;
#pragma unroll
      for (int t = 0; t < D; ++t) {
        reinterpret_cast<int*>(&all_sums[warp][cluster][t])[place] =
            (sums[t][2 * half] + (sums[t][2 * half + 1] << 8)) >> kMemberBit;
      }
      if (place == 0) all_counts[warp][cluster] = counts[2 * half] >> kMemberBit;
    }
    __syncwarp();
    const int count = all_counts[warp][own_cluster];
    const int4 parts = all_sums[warp][own_cluster][own_coordinate];  // 16 bits apart, modulo 2^64
    const Integer sum = (Integer{static_cast<unsigned>(parts.w) << 16} << 32) +
                        (static_cast<Integer>(parts.z) << 32) +
                        (static_cast<Integer>(parts.y) << 16) + static_cast<Integer>(parts.x);
    if (owns && count != 0) {  // else it keeps its centroid
      *own_centroid =
          mean_of_few(static_cast<long long>(sum), count, reciprocals[count], task.inverse_scale);
    }
    __syncwarp();
  }
  if (exists) task.dev_labels[i] = label;
  if (warp == 0 && owns) task.dev_centroids[lane] = *own_centroid;
  __syncthreads();
  if (threadIdx.x != 0) return;
  // They are there for all of the GPU; what copies them to the host comes after the kernel.
  __threadfence();
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(task.done), "r"(task.turn) : "memory");
}

/// How a shape lies on the GPU.
struct Placement {
  int dimensions;  // the kernel's, at least d
  int blocks;
  int threads;
  int copies;
  bool few;  // points, for iterate_few_kernel
  std::int64_t held;
  std::int64_t shared_bytes;
};

constexpr int kDimensions[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};

Placement placement_of(const kmeans::Shape& shape, int multiprocessors) {
  // One block does this much in about the time of the grid's barrier.
  constexpr std::int64_t kWorkOfOneBlock = 200'000;
  const auto [n, d, k, precision] = shape;
  Placement placement{};
  for (const int dimensions : kDimensions) {
    placement.dimensions = dimensions;
    if (dimensions >= d) break;
  }
  const bool few = n <= kFewPoints && d <= kFewDimensions && k <= kFewCentroids && k * d <= kLanes;
  const bool little = few || n * k <= kWorkOfOneBlock / (2 * placement.dimensions + 6);
  const std::int64_t blocks = little ? 1 : std::clamp<std::int64_t>(n / 128, 1, multiprocessors);
  placement.held = ceil_div(n, blocks);
  placement.blocks = static_cast<int>(ceil_div(n, placement.held));
  placement.threads = static_cast<int>(std::clamp<std::int64_t>(
      ceil_div(placement.held, kLanes) * kLanes, few ? kLanes : 128, kMaxThreads));
  constexpr std::int64_t kCells = 1024;  // of all copies of the changes
  const std::int64_t cells = k * (d + 1);
  placement.few = few;
  if (few) return placement;  // what it keeps in shared memory does not depend on the shape
  placement.copies = 1;
  while (placement.copies < 8 && 2 * placement.copies * cells <= kCells) placement.copies *= 2;
  placement.shared_bytes = 8 * (cells + placement.copies * change_pitch(cells) + 1) +
                           4 * (k * centroid_stride(placement.dimensions) + kGap) +
                           placement.held * (4 * placement.dimensions + 6) + 4;
  return placement;
}

using Kernel = void (*)(Arguments);

/// The kernel of P points a thread at a time: several where a block holds so many.
template <int D>
Kernel kernel_of(const Placement& placement) {
  constexpr int kPoints = D <= 4 ? 4 : D <= 8 ? 2 : 1;
  if constexpr (D <= kFewDimensions) {
    if (placement.few) return iterate_few_kernel<D>;
  }
  if (placement.held > placement.threads) return iterate_resident_kernel<D, kPoints>;
  return iterate_resident_kernel<D, 1>;
}

Kernel kernel_of(const Placement& placement) {
  switch (placement.dimensions) {
    case 1: return kernel_of<1>(placement);
    case 2: return kernel_of<2>(placement);
    case 3: return kernel_of<3>(placement);
    case 4: return kernel_of<4>(placement);
    case 6: return kernel_of<6>(placement);
    case 8: return kernel_of<8>(placement);
    case 12: return kernel_of<12>(placement);
    case 16: return kernel_of<16>(placement);
    case 24: return kernel_of<24>(placement);
    default: return kernel_of<32>(placement);
  }
}

kmeans::Support fits_on_chip(const kmeans::Shape& shape) {
  if (shape.d > kMaxDimensions) {
    return kmeans::Support::no("d = " + std::to_string(shape.d) + " exceeds " +
                               std::to_string(kMaxDimensions) +
                               " coordinates that a thread keeps in registers");
  }
  const kmeans::GpuDevice* gpu = kmeans::current_gpu();
  if (gpu == nullptr) return kmeans::Support::yes();
  const Placement placement = placement_of(shape, gpu->multiprocessors);
  if (placement.shared_bytes <= gpu->shared_bytes_per_block) return kmeans::Support::yes();
  return kmeans::Support::no(
      "points, centroids and sums need " + std::to_string(placement.shared_bytes) +
      " bytes of shared memory on each of " + std::to_string(gpu->multiprocessors) +
      " multiprocessors, and there are " + std::to_string(gpu->shared_bytes_per_block));
}

class CudaResident final : public CudaLloyd<float> {
 public:
  CudaResident() : CudaLloyd<float>(Layout::columns) {}

  void step(std::int64_t iterations) override {
    const auto timed = stage("iterations");
    const auto [n, d, k, precision] = shape();
    const std::int64_t buffers = kChangeBuffers * (k * (d + 1) + 1);
    Arguments task{.dev_points = dev_points_.data(),
                   .n = n,
                   .d = static_cast<int>(d),
                   .k = static_cast<int>(k),
                   .held = static_cast<int>(placement_.held),
                   .copies = placement_.copies,
                   .first = iterations_,  // whose buffer's turn it is, how many arrive
                   .iterations = iterations,
                   .scale = scale_,
                   .inverse_scale = inverse_scale_,
                   .dev_centroids = dev_centroids_.data(),
                   .dev_labels = dev_labels_.data(),
                   .dev_totals = dev_totals_.data(),
                   .dev_changes = dev_exchange_.data(),
                   .dev_arrivals = reinterpret_cast<unsigned*>(dev_exchange_.data() + buffers),
                   .done = done_.data(),
                   .turn = ++turn_};
    void* arguments[] = {&task};
    // Cooperative: all blocks run at once, or the launch fails; the barrier needs that.
    const auto kernel = reinterpret_cast<const void*>(kernel_of(placement_));
    const dim3 blocks(static_cast<unsigned>(placement_.blocks));
    const dim3 threads(static_cast<unsigned>(placement_.threads));
    const auto bytes = static_cast<std::size_t>(placement_.shared_bytes);
    KMEANS_CUDA(
        placement_.blocks == 1
            ? cudaLaunchKernel(kernel, blocks, threads, arguments, bytes, nullptr)
            : cudaLaunchCooperativeKernel(kernel, blocks, threads, arguments, bytes, nullptr));
    if (!placement_.few || !is_done()) KMEANS_CUDA(cudaDeviceSynchronize());
    iterations_ += iterations;
  }

 private:
  void prepare() override {
    const auto [n, d, k, precision] = shape();
    const int s = kmeans::exact::sum_exponent(n, problem_.max_abs);
    scale_ = kmeans::exact::power_of_two(s);
    inverse_scale_ = kmeans::exact::power_of_two(-s);
    placement_ = placement_of(shape(), kmeans::current_gpu()->multiprocessors);
    allow_shared_bytes(kernel_of(placement_), static_cast<std::size_t>(placement_.shared_bytes));
    if (placement_.few) {
      done_ = PinnedBuffer<unsigned>(1);
      *done_.data() = turn_;
    }
    dev_totals_ = DeviceBuffer<Integer>(k * (d + 1));
    dev_exchange_ = DeviceBuffer<Integer>(kChangeBuffers * (k * (d + 1) + 1) + 1);
  }

  void restart() override {
    dev_totals_.zero();
    dev_exchange_.zero();
  }

  void iterate() override { step(1); }
  void begin_iteration() override { step(1); }

  /// Waits for what iterate_few_kernel says at its end, when labels and centroids are in memory: to
  /// synchronize takes as long as some iterations. False if it has not said it.
  [[nodiscard]] bool is_done() const {
    constexpr int kLooks = 4096;  // before the stream is asked
    const std::atomic_ref<unsigned> done(*done_.data());
    do {
      for (int look = 0; look < kLooks; ++look) {
        if (done.load(std::memory_order_acquire) == turn_) return true;
      }
    } while (cudaStreamQuery(nullptr) == cudaErrorNotReady);
    return false;
  }

  Placement placement_{};
  PinnedBuffer<unsigned> done_;
  unsigned turn_ = 0;
  double scale_ = 1;
  double inverse_scale_ = 1;
  DeviceBuffer<Integer> dev_totals_;
  DeviceBuffer<Integer> dev_exchange_;  // changes of three iterations, then the arrivals
};

}  // namespace

KMEANS_VARIANT(
    CudaResident, .name = "cuda_resident",
    .summary = "the exact step in one persistent kernel: points and labels stay in shared memory",
    .exact = true, .sums = Sums::wide, .supports = fits_on_chip,
    .device_bytes =
        [](const Shape& s) {
          return plain_device_bytes(s) +
                 32.0 * static_cast<double>(s.k) * (static_cast<double>(s.d) + 1);
        },
    .traffic =
        [](const Shape& s) {
          // Points, labels and centroids stay on the chip: what blocks exchange is all.
          const kmeans::GpuDevice* gpu = kmeans::current_gpu();
          const double blocks = gpu == nullptr ? 1 : placement_of(s, gpu->multiprocessors).blocks;
          const double cells = static_cast<double>(s.k) * (static_cast<double>(s.d) + 1) + 1;
          if (blocks == 1) return Traffic{};
          return Traffic{.read_bytes = 8 * cells * blocks,
                         .written_bytes = 8 * cells,
                         .atomic_bytes = 8 * cells * blocks};
        })
