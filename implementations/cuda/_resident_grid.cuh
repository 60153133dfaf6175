// SPDX-License-Identifier: Apache-2.0
//
// cuda_resident: the persistent kernel whose blocks exchange the changes of their sums.
#pragma once

#include <cstdint>

#include "implementations/cuda/_resident.cuh"

namespace kmeans::cuda::resident {

constexpr int kMaxThreads = 1024;
constexpr int kChangeBuffers = 3;

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

/// From a copy of the changes to the next: odd, so that copies begin in different banks.
__host__ __device__ constexpr std::int64_t change_pitch(std::int64_t cells) { return cells | 1; }

/// 64-bit additions from two native 32-bit ones each: whoever makes a lower half wrap carries.
/// Several at once, so that they do not wait for one another.
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

/// Floats after the last centroid that nobody writes: compilers merge the loads of neighbouring
/// centroids, also past the last one.
constexpr int kGap = 8;

/// Where a block's arrays begin in shared memory: bytes.
template <class Int>
struct SharedLayout {
  Int lows;  // after the totals
  Int highs;
  Int centroids;
  Int points;
  Int moves;
  Int move_count;
  Int labels;
  Int bytes;  // in all

  /// dimensions: the kernel's. copies: of the changes. held: points.
  __host__ __device__ SharedLayout(Int k, Int d, Int dimensions, Int copies, Int held) {
    const Int cells = k * (d + 1);
    const Int changes = copies * static_cast<Int>(change_pitch(cells));
    lows = 8 * cells;
    highs = lows + 4 * changes;
    centroids = (highs + 4 * changes + 15) / 16 * 16;
    points = centroids + 4 * (k * centroid_stride(static_cast<int>(dimensions)) + kGap);
    moves = points + 4 * dimensions * held;
    move_count = moves + 4 * held;
    labels = move_count + 4;
    bytes = labels + 2 * held;
  }
};

/// What a block keeps there.
struct BlockState {
  Integer* totals;   // k x (d + 1): sums of all points, then their count
  unsigned* lows;    // copies x change_pitch(): what this block has not published yet, lower halves
  unsigned* highs;   // upper halves
  float* centroids;  // k rows of centroid_stride(D)
  float* points;     // D columns of args.held
  unsigned* moves;   // points whose label changed: index, and the cluster before + 1
  int* move_count;
  std::uint16_t* labels;  // 0xffff: none yet
  int n;                  // points of this block
};

template <int D>
__device__ BlockState block_state(const ResidentArguments& args) {
  extern __shared__ Integer shared[];
  const SharedLayout<int> at(args.k, args.d, D, args.copies, args.held);
  auto* memory = reinterpret_cast<unsigned char*>(shared);
  const std::int64_t first = std::int64_t{blockIdx.x} * args.held;
  return {.totals = shared,
          .lows = reinterpret_cast<unsigned*>(memory + at.lows),
          .highs = reinterpret_cast<unsigned*>(memory + at.highs),
          .centroids = reinterpret_cast<float*>(memory + at.centroids),
          .points = reinterpret_cast<float*>(memory + at.points),
          .moves = reinterpret_cast<unsigned*>(memory + at.moves),
          .move_count = reinterpret_cast<int*>(memory + at.move_count),
          .labels = reinterpret_cast<std::uint16_t*>(memory + at.labels),
          .n = static_cast<int>(min(std::int64_t{args.held}, args.n - first))};
}

/// Labels the block's points, and lists those whose label changed. True for warps that found one.
template <int D, int P>
__device__ bool assign(const ResidentArguments& args, const BlockState& block) {
  const int threads = static_cast<int>(blockDim.x);
  const unsigned lane = threadIdx.x % 32;
  const unsigned below = (1U << lane) - 1;
  bool changed = false;
  for (int first = 0; first < block.n; first += P * threads) {
    float x[P][D];
    int nearest[P];
    bool decided[P];
    const int i = first + static_cast<int>(threadIdx.x);
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int own = min(i + p * threads, block.n - 1);
#pragma unroll
      for (int t = 0; t < D; ++t) x[p][t] = block.points[t * args.held + own];
    }
    nearest_by_float<D, P>(x, block.centroids, args.k, nearest, decided);
    bool undecided = false;
#pragma unroll
    for (int p = 0; p < P; ++p) undecided = undecided || (!decided[p] && i + p * threads < block.n);
    if (__any_sync(kAllLanes, undecided)) {
#pragma unroll
      for (int p = 0; p < P; ++p) {
        const int own = i + p * threads;
        if (decided[p] || own >= block.n) continue;
        nearest[p] = nearest_exactly<D>(block.points + own, args.held, block.centroids, args.k);
      }
    }
    unsigned before[P];
    unsigned movers[P];
    int all_movers = 0;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int own = i + p * threads;
      before[p] = own < block.n ? block.labels[own] : static_cast<unsigned>(nearest[p]);
      movers[p] = __ballot_sync(kAllLanes, static_cast<unsigned>(nearest[p]) != before[p]);
      all_movers += __popc(movers[p]);
    }
    if (all_movers == 0) continue;
    changed = true;
    int place = 0;
    if (lane == 0) place = atomicAdd(block.move_count, all_movers);
    place = __shfl_sync(kAllLanes, place, 0);
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const auto own = static_cast<unsigned>(i + p * threads);
      if (static_cast<unsigned>(nearest[p]) != before[p]) {
        // None before is 0.
        block.moves[place + __popc(movers[p] & below)] = own | (before[p] + 1) << 16;
        block.labels[own] = static_cast<std::uint16_t>(nearest[p]);
      }
      place += __popc(movers[p]);
    }
  }
  return changed;
}

/// Takes listed points from their cluster before to their new one: a thread for each point where
/// coordinates are few, else for each coordinate and for the count. Copies of the sums keep
/// neighbours from queueing for the same one.
template <int D>
__device__ void move_points(const ResidentArguments& args, const BlockState& block) {
  constexpr int kOwn = D <= 4 ? D + 1 : 1;  // sums of a thread
  const int width = args.d + 1;
  const int pitch = static_cast<int>(change_pitch(args.k * width));
  const int parts = kOwn > 1 ? 1 : width;
  const int count = *block.move_count * parts;
  for (int e = static_cast<int>(threadIdx.x); e < count; e += static_cast<int>(blockDim.x)) {
    const int move = e / parts;
    const int first = e % parts;
    const unsigned listed = block.moves[move];
    const int own = static_cast<int>(listed & 0xffff);
    const int before = static_cast<int>(listed >> 16) - 1;
    const int place = (move & (args.copies - 1)) * pitch + first;
    const int to = place + block.labels[own] * width;
    const int from = place + before * width;
    long long values[kOwn];
#pragma unroll
    for (int part = 0; part < kOwn; ++part) {
      const int t = first + part;
      values[part] =
          t < args.d ? exact_fixed_point(block.points[t * args.held + own], args.scale) : 1;
    }
    add_shared(block.lows + to, block.highs + to, values);
    if (before < 0) continue;
#pragma unroll
    for (int part = 0; part < kOwn; ++part) values[part] = -values[part];
    add_shared(block.lows + from, block.highs + from, values);
  }
}

/// The change of one sum, from all its copies, which are cleared.
__device__ Integer taken_change(const ResidentArguments& args, const BlockState& block, int cell) {
  const int pitch = static_cast<int>(change_pitch(args.k * (args.d + 1)));
  Integer change = 0;
#pragma unroll 4
  for (int copy = 0; copy < args.copies; ++copy) {
    const int at = copy * pitch + cell;
    change += Integer{block.highs[at]} << 32 | block.lows[at];
    block.highs[at] = block.lows[at] = 0;
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
__device__ void publish(const ResidentArguments& args, std::int64_t iteration, bool changed,
                        const BlockState& block) {
  const int cells = args.k * (args.d + 1);
  Integer* dev_all = args.dev_changes + iteration % kChangeBuffers * (cells + 1);
  if (changed) {
    for (int e = threadIdx.x; e < cells; e += blockDim.x) {
      const Integer change = taken_change(args, block, e);
      if (change != 0) atomicAdd(&dev_all[e], change);
    }
    if (threadIdx.x == 0) atomicAdd(&dev_all[cells], 1ULL);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    arrive_and_wait(args.dev_arrivals, static_cast<unsigned>((iteration + 1) * gridDim.x));
  }
  __syncthreads();
}

/// Adds this iteration's changes to the block's own totals, and clears the buffer of the iteration
/// after the next: all have read it, since all have arrived at the barrier that followed. True if
/// any block changed anything, when all threads have done so.
__device__ bool take_changes(const ResidentArguments& args, std::int64_t iteration, bool any,
                             const BlockState& block) {
  const int cells = args.k * (args.d + 1);
  if (gridDim.x == 1) {
    for (int e = threadIdx.x; any && e < cells; e += blockDim.x) {
      block.totals[e] += taken_change(args, block, e);
    }
    return __syncthreads_or(any ? 1 : 0) != 0;
  }
  const Integer* dev_all = args.dev_changes + iteration % kChangeBuffers * (cells + 1);
  Integer* dev_next = args.dev_changes + (iteration + 2) % kChangeBuffers * (cells + 1);
  bool changed = false;
  // The last says whether there are changes: one thread asks, for all that ask wait for one
  // another.
  for (int e = threadIdx.x; e <= cells; e += blockDim.x) {
    const Integer change = __ldcg(&dev_all[e]);
    if (e < cells) {
      block.totals[e] += change;
    } else {
      changed = change != 0;
    }
    if (blockIdx.x == 0) __stcg(&dev_next[e], 0ULL);
  }
  return __syncthreads_or(changed ? 1 : 0) != 0;
}

/// Centroids from the totals; an empty cluster keeps its own.
template <int D>
__device__ void divide(const ResidentArguments& args, const Integer* totals, float* centroids) {
  for (int e = threadIdx.x; e < args.k * args.d; e += blockDim.x) {
    const int j = e / args.d;
    const int t = e % args.d;
    const auto count = static_cast<long long>(totals[j * (args.d + 1) + args.d]);
    if (count == 0) continue;
    centroids[j * centroid_stride(D) + t] =
        exact_mean(static_cast<long long>(totals[j * (args.d + 1) + t]), count, args.inverse_scale);
  }
}

/// Prologue: points and labels of this block, centroids and sums of all.
template <int D>
__device__ void load(const ResidentArguments& args, const BlockState& block) {
  const std::int64_t first = std::int64_t{blockIdx.x} * args.held;
#pragma unroll(D <= 8 ? 4 : 1)
  for (int i = threadIdx.x; i < block.n; i += blockDim.x) {
    for (int t = 0; t < D; ++t) {
      block.points[t * args.held + i] = t < args.d ? args.dev_points[t * args.n + first + i] : 0.0F;
    }
    block.labels[i] = static_cast<std::uint16_t>(args.dev_labels[first + i]);  // -1 becomes 0xffff
  }
  const int cells = args.k * (args.d + 1);
  for (int e = threadIdx.x; e < cells; e += blockDim.x) block.totals[e] = args.dev_totals[e];
  const int changes = args.copies * static_cast<int>(change_pitch(cells));
  for (int e = threadIdx.x; e < changes; e += blockDim.x) block.lows[e] = block.highs[e] = 0;
  for (int e = threadIdx.x; e < args.k * centroid_stride(D); e += blockDim.x) {
    const int t = e % centroid_stride(D);
    block.centroids[e] =
        t < args.d ? args.dev_centroids[e / centroid_stride(D) * args.d + t] : 0.0F;
  }
  if (threadIdx.x == 0) *block.move_count = 0;
  __syncthreads();
}

/// Epilogue: labels of this block; block 0 writes centroids and sums.
template <int D>
__device__ void store(const ResidentArguments& args, const BlockState& block) {
  const std::int64_t first = std::int64_t{blockIdx.x} * args.held;
  for (int i = threadIdx.x; i < block.n; i += blockDim.x) {
    args.dev_labels[first + i] = block.labels[i];
  }
  if (blockIdx.x != 0) return;
  for (int e = threadIdx.x; e < args.k * (args.d + 1); e += blockDim.x) {
    args.dev_totals[e] = block.totals[e];
  }
  for (int e = threadIdx.x; e < args.k * args.d; e += blockDim.x) {
    args.dev_centroids[e] = block.centroids[e / args.d * centroid_stride(D) + e % args.d];
  }
}

template <int D, int P>
__global__ void __launch_bounds__(kMaxThreads, 1) iterate_grid_kernel(ResidentArguments args) {
  const BlockState block = block_state<D>(args);
  load<D>(args, block);
  for (std::int64_t iteration = args.first; iteration < args.first + args.iterations; ++iteration) {
    bool any = __syncthreads_or(assign<D, P>(args, block) ? 1 : 0) != 0;
    if (any) {
      move_points<D>(args, block);
      __syncthreads();
      if (threadIdx.x == 0) *block.move_count = 0;
    }
    if (gridDim.x > 1) publish(args, iteration, any, block);
    any = take_changes(args, iteration, any, block);
    if (!any) continue;  // the same labels: the same sums, the same centroids
    divide<D>(args, block.totals, block.centroids);
    __syncthreads();
  }
  store<D>(args, block);
}

}  // namespace kmeans::cuda::resident
