// SPDX-License-Identifier: Apache-2.0
//
// Idea:      cuda_hybrid with the points row-major on the device: the threads of a block then read
//            addresses d values apart, which do not coalesce
// Parallel:  as cuda_hybrid
// Memory:    row-major points on the device; otherwise as cuda_hybrid
// Numerics:  as cuda_hybrid, with its bits
// Source:    zechner2009, section V-C, which stores points column by column instead
#include "implementations/_limits.h"
#include "implementations/cuda/_hybrid.cuh"

namespace {

template <class T>
class CudaHybridRowMajor final : public kmeans::cuda::HybridLloyd<T, kmeans::cuda::Layout::rows> {
 public:
  CudaHybridRowMajor()
      : kmeans::cuda::HybridLloyd<T, kmeans::cuda::Layout::rows>(kmeans::plain::native_update<T>) {}
};

}  // namespace

KMEANS_VARIANT(
    CudaHybridRowMajor, .name = "cuda_hybrid_row_major",
    .summary = "cuda_hybrid with row-major points on the device, whose reads do not coalesce",
    .source = "zechner2009", .precisions = {Precision::f32, Precision::f64},
    .timing_note =
        "centroids uploaded, labels downloaded, changed labels counted in every "
        "iteration",
    .supports = sums_fit, .memory_bytes = kmeans::cuda::hybrid_memory_bytes,
    .device_bytes = kmeans::cuda::plain_device_bytes, .traffic = kmeans::cuda::hybrid_traffic,
    .stage_work = kmeans::cuda::hybrid_stage_work)
