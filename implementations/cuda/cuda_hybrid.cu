// SPDX-License-Identifier: Apache-2.0
//
// Idea:      the GPU labels, the CPU builds the new centroids: centroids go up and labels come down
//            in every iteration, the points never
// Parallel:  blocks of t = 128 threads, each block owning several chunks of t points, as many
//            blocks as leave few of them idle; a thread owns a point of its block's chunk, and all
//            of them measure the distance to the same centroid at a time. One CPU thread updates
// Memory:    column-major points on the device, read once a centroid; a centroid passes through
//            shared memory t coordinates at a time, so that d has no limit. Row-major points on the
//            host, read once. What is transferred lies in pinned memory
// Numerics:  direct differences in the points' scalar, t ascending, with fused multiply-adds; sums
//            in that scalar, i ascending: deterministic, and rounded as in cpu_simd where that one
//            fuses too
// Source:    zechner2009, section V. Labels have an array of their own (there: a component of the
//            points); no square root is taken, the nearest centroid is the same without. Pinned
//            memory is ours: the text does not name it. Not done: the outer loops' counters in
//            shared memory, which freed registers on its GPU (10 a thread, a gain of 25 % there);
//            the compiler allots registers here
#include "implementations/_limits.h"
#include "implementations/cuda/_hybrid.cuh"

namespace {

template <class T>
class CudaHybrid final : public kmeans::cuda::HybridLloyd<T> {
 public:
  CudaHybrid() : kmeans::cuda::HybridLloyd<T>(kmeans::plain::native_update<T>) {}
};

}  // namespace

KMEANS_VARIANT(CudaHybrid, .name = "cuda_hybrid",
               .summary = "the GPU labels chunks of points, one CPU thread updates the centroids",
               .source = "zechner2009", .precisions = {Precision::f32, Precision::f64},
               .timing_note =
                   "centroids uploaded, labels downloaded, changed labels counted in every "
                   "iteration",
               .supports = sums_fit, .memory_bytes = kmeans::cuda::hybrid_memory_bytes,
               .device_bytes = kmeans::cuda::plain_device_bytes,
               .traffic = kmeans::cuda::hybrid_traffic,
               .stage_work = kmeans::cuda::hybrid_stage_work)
