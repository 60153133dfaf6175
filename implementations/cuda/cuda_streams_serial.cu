// SPDX-License-Identifier: Apache-2.0
//
// Idea:      keep the n x k matrix of distances; one launch a cluster fills it, one after another
//            on the default stream
// Parallel:  a block of 128 threads owns a point, for distances (its threads share the coordinates
//            and reduce in shared memory) and again for the update; a thread owns a point for the
//            search and for counting
// Memory:    row-major points, read k + 1 times; n x k distances written and read, the reads k
//            apart; d + 1 contended atomics a point
// Numerics:  everything in the points' scalar. Distances by a tree over the coordinates, with
//            square root; the loss by a tree over the points; a centroid is the sum of x / count,
//            in an order, and with last bits, that change from run to run
// Source:    zhihu2023, GPU version, with the loop that it compared its streams with. Generalised:
//            any d (printed: at most 128), any k (at most 20), any k * d (at most 1024).
//            Corrected: an empty cluster keeps its centroid (printed: it moves to the origin). The
//            loss alone is downloaded (printed: n values, of which one is used)
#include "implementations/cuda/_per_cluster.cuh"

namespace {

template <class T>
class CudaStreamsSerial final : public kmeans::cuda::PerClusterLloyd<T> {
  void label_points() override {
    for (std::int64_t j = 0; j < this->shape().k; ++j) this->launch_distances(j, nullptr);
    this->launch_nearest();
  }
};

}  // namespace

KMEANS_VARIANT(CudaStreamsSerial, .name = "cuda_streams_serial",
               .summary = "n x k matrix of distances, one launch a cluster, one block a point",
               .source = "zhihu2023", .precisions = {Precision::f32, Precision::f64},
               .deterministic = false,
               .timing_note = "the loss, summed and downloaded in every iteration",
               .supports = kmeans::counts_fit,
               .device_bytes = kmeans::cuda::per_cluster_device_bytes,
               .traffic = kmeans::cuda::per_cluster_traffic)
