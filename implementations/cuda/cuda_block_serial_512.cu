// SPDX-License-Identifier: Apache-2.0
//
// Idea:      cuda_block_serial with 512 threads a block: what does its one adding thread cost in
//            a larger block?
// Parallel:  as there; thread 0 adds up 512 points, and there are 1/16 as many blocks
// Memory:    as there, 1/16 as many atomic additions
// Numerics:  as there
// Source:    minnaar2019, whose blocks have 32 threads; this size is ours
#include "implementations/cuda/_block_serial.cuh"

namespace {

template <class T>
using CudaBlockSerial512 = kmeans::cuda::BlockSerial<T, 512>;

}  // namespace

KMEANS_VARIANT(CudaBlockSerial512, .name = "cuda_block_serial_512",
               .summary = "cuda_block_serial with 512 threads a block", .source = "minnaar2019",
               .precisions = {Precision::f32, Precision::f64}, .deterministic = false,
               .supports = kmeans::cuda::block_serial_limits<512>,
               .device_bytes = kmeans::cuda::plain_device_bytes,
               .traffic = kmeans::cuda::block_serial_traffic<512>)
