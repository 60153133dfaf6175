// SPDX-License-Identifier: Apache-2.0
//
// Idea:      cuda_atomic with a separate update, in which a block first adds up its own points, so
//            that contended atomics are paid per block and not per point; but a single thread of
//            the block does all the adding
// Parallel:  a block has 32 threads and 32 points. A thread owns a point in the assignment; in the
//            update the threads fetch the points, then thread 0 adds them up and issues k * (d + 1)
//            atomics while the others wait
// Memory:    column-major points, read again for every centroid and once for the update; centroids
//            from global memory. A block keeps its labels and one coordinate of its points in
//            shared memory. Thread 0 has arrays of its own for the sums and counts of 64 clusters;
//            more clusters are added in several passes over the block's labels
// Numerics:  everything in the points' scalar, the distance with its square root; the order of the
//            blocks' atomics, and with it the last bits of the centroids, changes from run to run
// Source:    minnaar2019, for any d and k; 32 threads are those of the program that the article
//            links. Corrected: a second kernel divides once all blocks have added (printed: blocks
//            divide while others still add, see cuda_block_serial_as_printed); the last block adds
//            only points that exist; an empty cluster keeps its centroid
#include "implementations/cuda/_block_serial.cuh"

namespace {

template <class T>
using CudaBlockSerial = kmeans::cuda::BlockSerial<T, 32>;

}  // namespace

KMEANS_VARIANT(CudaBlockSerial, .name = "cuda_block_serial",
               .summary = "thread 0 of each block sums its 32 points, then k*d atomics a block",
               .source = "minnaar2019", .precisions = {Precision::f32, Precision::f64},
               .deterministic = false, .supports = kmeans::cuda::block_serial_limits<32>,
               .device_bytes = kmeans::cuda::plain_device_bytes,
               .traffic = kmeans::cuda::block_serial_traffic<32>)
