// SPDX-License-Identifier: Apache-2.0
//
// Idea:      cuda_block_serial with the centroids in shared memory, and nothing else changed: what
//            does it cost to read them from global memory?
// Parallel:  as there; in the assignment all threads of a block copy centroids
// Memory:    as there, but a block copies the centroids to shared memory before it compares its
//            points with them, 48 KB of whole centroids at a time
// Numerics:  as there
// Source:    minnaar2019, which calls global memory somewhat slow; this version is ours
#include "implementations/cuda/_block_serial.cuh"

namespace {

template <class T>
using CudaBlockSerialShared = kmeans::cuda::BlockSerial<T, 32, true>;

kmeans::Support limits(const kmeans::Shape& shape) {
  const bool doubles = shape.precision == kmeans::Precision::f64;
  const auto tile = doubles ? kmeans::cuda::centroid_tile<double>(shape)
                            : kmeans::cuda::centroid_tile<float>(shape);
  if (shape.d > tile.coordinates) {
    return kmeans::Support::no("d = " + std::to_string(shape.d) +
                               ": a whole centroid does not fit into 48 KB of shared memory, d at "
                               "most " +
                               std::to_string(tile.coordinates));
  }
  return kmeans::cuda::block_serial_limits<32>(shape);
}

}  // namespace

KMEANS_VARIANT(CudaBlockSerialShared, .name = "cuda_block_serial_shared",
               .summary = "cuda_block_serial with centroids in shared memory",
               .source = "minnaar2019", .precisions = {Precision::f32, Precision::f64},
               .deterministic = false, .supports = limits,
               .device_bytes = kmeans::cuda::plain_device_bytes,
               .traffic = kmeans::cuda::block_serial_traffic<32, true>)
