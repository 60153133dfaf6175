// SPDX-License-Identifier: Apache-2.0
//
// Idea:      cuda_hybrid with the CPU's update built as cpu_scalar is, without vectorisation: to be
//            compared with the sequential program of the same build
// Parallel:  as cuda_hybrid
// Memory:    as cuda_hybrid
// Numerics:  as cuda_hybrid, with its bits
// Source:    zechner2009, figure 5: by section VI each compiler built the sequential program and
//            the update of the GPU's program; this is for its Visual C++ build
#include "implementations/_limits.h"
#include "implementations/cuda/_hybrid.cuh"

namespace {

template <class T>
class CudaHybridScalar final : public kmeans::cuda::HybridLloyd<T> {
 public:
  CudaHybridScalar() : kmeans::cuda::HybridLloyd<T>(kmeans::plain::scalar_update<T>) {}
};

}  // namespace

KMEANS_VARIANT(CudaHybridScalar, .name = "cuda_hybrid_scalar",
               .summary = "cuda_hybrid, its update on the CPU built as cpu_scalar is",
               .source = "zechner2009", .precisions = {Precision::f32, Precision::f64},
               .timing_note =
                   "centroids uploaded, labels downloaded, changed labels counted in every "
                   "iteration",
               .supports = sums_fit, .memory_bytes = kmeans::cuda::hybrid_memory_bytes,
               .device_bytes = kmeans::cuda::plain_device_bytes,
               .traffic = kmeans::cuda::hybrid_traffic,
               .stage_work = kmeans::cuda::hybrid_stage_work)
