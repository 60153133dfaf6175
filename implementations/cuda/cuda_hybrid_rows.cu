// SPDX-License-Identifier: Apache-2.0
//
// Idea:      cuda_hybrid with the CPU's update built as cpu_simd_rows is, in SSE3 along the
//            coordinates: to be compared with the sequential program of the same build
// Parallel:  as cuda_hybrid
// Memory:    as cuda_hybrid
// Numerics:  as cuda_hybrid, with its bits
// Source:    zechner2009, figures 6 to 13: by section VI each compiler built the sequential program
//            and the update of the GPU's program; this is for its Intel C++ build
#include "implementations/_limits.h"
#include "implementations/cuda/_hybrid.cuh"

namespace {

template <class T>
class CudaHybridRows final : public kmeans::cuda::HybridLloyd<T> {
 public:
  CudaHybridRows() : kmeans::cuda::HybridLloyd<T>(kmeans::plain::rows_update<T>) {}
};

}  // namespace

KMEANS_VARIANT(CudaHybridRows, .name = "cuda_hybrid_rows",
               .summary = "cuda_hybrid, its update on the CPU built as cpu_simd_rows is",
               .source = "zechner2009", .precisions = {Precision::f32, Precision::f64},
               .timing_note =
                   "centroids uploaded, labels downloaded, changed labels counted in every "
                   "iteration",
               .supports = sums_fit, .memory_bytes = kmeans::cuda::hybrid_memory_bytes,
               .device_bytes = kmeans::cuda::plain_device_bytes,
               .traffic = kmeans::cuda::hybrid_traffic,
               .stage_work = kmeans::cuda::hybrid_stage_work)
