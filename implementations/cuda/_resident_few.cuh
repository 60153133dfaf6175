// SPDX-License-Identifier: Apache-2.0
//
// cuda_resident: the kernel of a few points, one a lane. Once all labels are known, one barrier an
// iteration, every warp forms the sums of all clusters for itself, as a product on the matrix
// units: who belongs to which cluster, times the bytes of the fixed-point numbers, which stay in
// registers.
#pragma once

#include <cstdint>

#include "implementations/cuda/_resident.cuh"

namespace kmeans::cuda::resident {

constexpr int kFewPoints = 256;
constexpr int kFewDimensions = 4;
constexpr int kFewWarps = kFewPoints / kLanes;
constexpr int kFewCentroids = 16;

/// exact_mean() without its division, which takes as long as a label does, unless the result is
/// next to where float32 rounds the other way. reciprocal: inverse_scale by the count, rounded.
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

/// D (16 x 8) += A (16 x 32) B (32 x 8), of bytes without sign, as the registers of a warp hold
/// them: lane l has of A row l / 4 and the eighth after it, of B column l / 4, of both the four
/// from 4 (l % 4) on and those 16 after them, of D in these rows columns 2 (l % 4) and the next.
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

constexpr int kNumberBytes = 8;  // of a fixed-point number: columns of a product
constexpr int kHalfOfCentroids = kFewCentroids / 2;

/// The block's shared memory.
template <int D>
struct FewMemory {
  alignas(16) std::uint8_t labels[2][kFewPoints];
  alignas(16) std::uint8_t bytes[D][kNumberBytes][kFewPoints];
  alignas(16) Centroid<D> centroids[kFewWarps][kFewCentroids];
  int4 sums[kFewWarps][kFewCentroids][D];  // two bytes' in each
  int counts[kFewWarps][kFewCentroids];
  float points[D * kFewPoints];
  double reciprocals[kFewPoints + 1];
};

/// A thread's point, and the bytes of its coordinates as fixed-point numbers.
template <int D>
__device__ __forceinline__ void load_point(const ResidentArguments& args, FewMemory<D>& memory,
                                           int i, float (&x)[D]) {
#pragma unroll
  for (int t = 0; t < D; ++t) x[t] = i < args.n ? args.dev_points[t * args.n + i] : 0.0F;
  if (i < args.n) memory.reciprocals[i + 1] = __ddiv_rn(args.inverse_scale, i + 1);
#pragma unroll
  for (int t = 0; t < D; ++t) {
    memory.points[t * kFewPoints + i] = x[t];
    const auto fixed = static_cast<Integer>(exact_fixed_point(x[t], args.scale));
#pragma unroll
    for (int byte = 0; byte < kNumberBytes; ++byte) {
      memory.bytes[t][byte][i] = static_cast<std::uint8_t>(fixed >> (8 * byte));
    }
  }
}

/// Float32 distances from all centroids; past the last there are some that are the nearest to no
/// point.
template <int D>
__device__ __forceinline__ LeastTwo nearest_two(const float (&x)[D], const Centroid<D>* centroids,
                                                int k) {
  constexpr int kTogether = 8;
  LeastTwo least;
  for (int j = 0; j < k; j += kTogether) {
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
  return least;
}

/// A lane's part of the products: its row is a cluster (and the one kHalfOfCentroids after it), its
/// column a byte, and it has eight points of each warp's.
template <int D>
struct ByteProducts {
  unsigned row;
  int place;  // which eight points
  int warps;
  bool many;                // clusters, so that both halves are needed
  uint2 own[kFewWarps][D];  // bytes

  __device__ __forceinline__ ByteProducts(const FewMemory<D>& memory, int k)
      : row(threadIdx.x % kLanes / 4),
        place(static_cast<int>(threadIdx.x) % kLanes % 4),
        warps(static_cast<int>(blockDim.x) / kLanes),
        many(k > kHalfOfCentroids) {
#pragma unroll
    for (int of = 0; of < kFewWarps; ++of) {
      if (of >= warps) break;
#pragma unroll
      for (int t = 0; t < D; ++t) {
        own[of][t] =
            *reinterpret_cast<const uint2*>(&memory.bytes[t][row][of * kLanes + place * 8]);
      }
    }
  }

  /// Sums and counts of all clusters by these labels, to the warp's part of shared memory.
  __device__ __forceinline__ void sum(const std::uint8_t* labels, FewMemory<D>& memory,
                                      int warp) const {
    int sums[D][4] = {};
    int counts[4] = {};
#pragma unroll
    for (int of = 0; of < kFewWarps; ++of) {
      if (of >= warps) break;
      const uint2 eight = *reinterpret_cast<const uint2*>(labels + of * kLanes + place * 8);
      unsigned clusters[4] = {members(eight.x, row), 0, members(eight.y, row), 0};
      if (many) {
        clusters[1] = members(eight.x, row + kHalfOfCentroids);
        clusters[3] = members(eight.y, row + kHalfOfCentroids);
      }
#pragma unroll
      for (int t = 0; t < D; ++t) add_byte_products(sums[t], clusters, own[of][t]);
      add_byte_products(counts, clusters, {kEachByte, kEachByte});
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (half == 1 && !many) break;
      const unsigned cluster = row + half * kHalfOfCentroids;
#pragma unroll
      for (int t = 0; t < D; ++t) {
        reinterpret_cast<int*>(&memory.sums[warp][cluster][t])[place] =
            (sums[t][2 * half] + (sums[t][2 * half + 1] << 8)) >> kMemberBit;
      }
      if (place == 0) memory.counts[warp][cluster] = counts[2 * half] >> kMemberBit;
    }
  }
};

/// A sum of fixed-point numbers from those of their bytes: 16 bits apart, modulo 2^64.
__device__ __forceinline__ long long joined(const int4& parts) {
  return static_cast<long long>((Integer{static_cast<unsigned>(parts.w) << 16} << 32) +
                                (static_cast<Integer>(parts.z) << 32) +
                                (static_cast<Integer>(parts.y) << 16) +
                                static_cast<Integer>(parts.x));
}

/// All iterations. Thread i owns point i; a lane owns a coordinate of a centroid, in each warp the
/// same.
template <int D>
__global__ void __launch_bounds__(kFewPoints, 1) iterate_few_kernel(ResidentArguments args) {
  __shared__ FewMemory<D> memory;
  const int i = static_cast<int>(threadIdx.x);
  const int lane = i % kLanes;
  const int warp = i / kLanes;
  const bool exists = i < args.n;
  int label = exists ? args.dev_labels[i] : -1;
  const bool owns = lane < args.k * D;
  const float centroid = owns ? args.dev_centroids[lane] : 0.0F;
  float x[D];
  load_point<D>(args, memory, i, x);
  Centroid<D>* centroids = memory.centroids[warp];
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
  const ByteProducts<D> products(memory, args.k);
  for (int iteration = 0; iteration < static_cast<int>(args.iterations); ++iteration) {
    const LeastTwo least = nearest_two<D>(x, centroids, args.k);
    int nearest = least.index;
    const bool decided = least.second > __fmaf_rn(least.best, filter_factor(D), kFilterTiny);
    if (exists && !decided) {
      nearest = nearest_exactly<D>(memory.points + i, kFewPoints, centroids->coordinates, args.k);
    }
    const bool changed = exists && nearest != label;
    if (exists) label = nearest;
    std::uint8_t* labels = memory.labels[iteration % 2];
    labels[i] = static_cast<std::uint8_t>(exists ? static_cast<unsigned>(label) : kNoLabel);
    // The same labels: the same sums, the same centroids.
    if (__syncthreads_or(changed ? 1 : 0) == 0) continue;
    products.sum(labels, memory, warp);
    __syncwarp();
    const int count = memory.counts[warp][own_cluster];
    const long long sum = joined(memory.sums[warp][own_cluster][own_coordinate]);
    if (owns && count != 0) {  // else it keeps its centroid
      *own_centroid = mean_of_few(sum, count, memory.reciprocals[count], args.inverse_scale);
    }
    __syncwarp();
  }
  if (exists) args.dev_labels[i] = label;
  if (warp == 0 && owns) args.dev_centroids[lane] = *own_centroid;
  __syncthreads();
  if (threadIdx.x != 0) return;
  // They are there for all of the GPU; what copies them to the host comes after the kernel.
  __threadfence();
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(args.done), "r"(args.turn) : "memory");
}

}  // namespace kmeans::cuda::resident
