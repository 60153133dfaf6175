// SPDX-License-Identifier: Apache-2.0
//
// cuda_resident: what its two kernels share.
#pragma once

#include <cstdint>

#include "implementations/cuda/_exact.cuh"

namespace kmeans::cuda::resident {

/// Floats between two centroids in shared memory, so that vectors are aligned.
__host__ __device__ constexpr int centroid_stride(int d) { return d <= 2 ? d : (d + 3) / 4 * 4; }

struct ResidentArguments {
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

}  // namespace kmeans::cuda::resident
