// SPDX-License-Identifier: Apache-2.0
//
// Idea:      cuda_streams_serial with a stream for every cluster, so that the launches that fill
//            the matrix of distances may overlap; the streams are made and destroyed in every
//            iteration
// Parallel:  as there, and up to k kernels at once
// Memory:    as there
// Numerics:  as there
// Source:    zhihu2023, GPU version. Generalised and corrected as there. Streams are destroyed
//            after the launch of the search (printed: before): the default stream is documented to
//            wait for the streams that exist
#include <memory>
#include <vector>

#include "implementations/cuda/_per_cluster.cuh"
#include "implementations/cuda/_streams.cuh"

namespace {

using kmeans::cuda::make_stream;
using kmeans::cuda::Stream;

template <class T>
class CudaStreams final : public kmeans::cuda::PerClusterLloyd<T> {
  void label_points() override {
    std::vector<Stream> streams(static_cast<std::size_t>(this->shape().k));
    for (Stream& stream : streams) stream = make_stream();
    std::int64_t j = 0;
    for (const Stream& stream : streams) this->launch_distances(j++, stream.get());
    this->launch_nearest();
  }
};

kmeans::Support streams_fit(const kmeans::Shape& shape) {
  constexpr std::int64_t kMaxStreams = 4096;
  if (shape.k <= kMaxStreams) return kmeans::counts_fit(shape);
  return kmeans::Support::no("k = " + std::to_string(shape.k) +
                             ": a stream for every cluster, and at most " +
                             std::to_string(kMaxStreams) + " streams are made in an iteration");
}

}  // namespace

KMEANS_VARIANT(CudaStreams, .name = "cuda_streams",
               .summary = "one stream a cluster fills the n x k matrix of distances",
               .source = "zhihu2023", .precisions = {Precision::f32, Precision::f64},
               .deterministic = false,
               .timing_note =
                   "k streams made and destroyed, and the loss summed and downloaded, in "
                   "every iteration",
               .supports = streams_fit, .device_bytes = kmeans::cuda::per_cluster_device_bytes,
               .traffic = kmeans::cuda::per_cluster_traffic)
