// SPDX-License-Identifier: Apache-2.0
//
// The loops of cpu_simd for one register width. Deliberately without an include guard: cpu_simd.cpp
// includes this once an instruction set, in a namespace and a region compiled for that set, with
// KMEANS_SIMD_BYTES the width of a register and KMEANS_SIMD_REGISTERS how many of them hold the
// points that are labelled together (they share a centroid's coordinates, and enough of them hide
// the latency of the additions).

template <class T>
struct Block {
  static constexpr int kLanes = KMEANS_SIMD_BYTES / sizeof(T);
  static constexpr int kPoints = kLanes * KMEANS_SIMD_REGISTERS;
  typedef T V __attribute__((vector_size(KMEANS_SIMD_BYTES)));
};

/// Labels one block: points d x kPoints, a lane a point; centroids k x d.
template <class T>
void label_block(const T* points, const T* centroids, std::int64_t d, std::int64_t k,
                 std::int32_t* labels) {
  using V = typename Block<T>::V;
  constexpr int kLanes = Block<T>::kLanes;
  V lowest[KMEANS_SIMD_REGISTERS];
  V nearest[KMEANS_SIMD_REGISTERS];  // indices as numbers in T
#pragma GCC unroll 8
  for (int r = 0; r < KMEANS_SIMD_REGISTERS; ++r) {
    lowest[r] = V{} + std::numeric_limits<T>::infinity();
    nearest[r] = V{};
  }
  for (std::int64_t j = 0; j < k; ++j) {
    V distance[KMEANS_SIMD_REGISTERS];
#pragma GCC unroll 8
    for (int r = 0; r < KMEANS_SIMD_REGISTERS; ++r) distance[r] = V{};
    for (std::int64_t t = 0; t < d; ++t) {
      const V coordinate = V{} + centroids[j * d + t];
#pragma GCC unroll 8
      for (int r = 0; r < KMEANS_SIMD_REGISTERS; ++r) {
        V x;
        // Not std::memcpy: a fortified one is inline code for another target than this function's.
        __builtin_memcpy(&x, points + t * Block<T>::kPoints + r * kLanes, sizeof x);
        const V difference = x - coordinate;
        distance[r] += difference * difference;
      }
    }
    const V index = V{} + static_cast<T>(j);
#pragma GCC unroll 8
    for (int r = 0; r < KMEANS_SIMD_REGISTERS; ++r) {
      const auto nearer = distance[r] < lowest[r];  // strictly: the lowest index wins a tie
      lowest[r] = nearer ? distance[r] : lowest[r];
      nearest[r] = nearer ? index : nearest[r];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < KMEANS_SIMD_REGISTERS; ++r) {
    T indices[kLanes];
    __builtin_memcpy(indices, &nearest[r], sizeof indices);
    for (int lane = 0; lane < kLanes; ++lane) {
      labels[r * kLanes + lane] = static_cast<std::int32_t>(indices[lane]);
    }
  }
}

/// Labels all points, packed in blocks.
template <class T>
void label_points(const T* blocks, std::int64_t block_count, const T* centroids, std::int64_t d,
                  std::int64_t k, std::int32_t* labels) {
  for (std::int64_t block = 0; block < block_count; ++block) {
    label_block(blocks + block * d * Block<T>::kPoints, centroids, d, k,
                labels + block * Block<T>::kPoints);
  }
}

/// Adds each point (n x d, row-major) to the sum of its cluster (k x d).
template <class T>
void sum_points(const T* points, const std::int32_t* labels, std::int64_t n, std::int64_t d,
                T* sums, std::int64_t* counts) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T* point = points + i * d;
    T* __restrict sum = sums + labels[i] * d;
    counts[labels[i]] += 1;
    for (std::int64_t t = 0; t < d; ++t) sum[t] += point[t];
  }
}

template <class T>
inline constexpr Kernel<T> kernel{Block<T>::kPoints, &label_points<T>, &sum_points<T>};
