// SPDX-License-Identifier: Apache-2.0
//
// Idea:      cuda_block_serial with 256 threads a block: what does its one adding thread cost in
//            a larger block?
// Parallel:  as there; thread 0 adds up 256 points, and there are 1/8 as many blocks
// Memory:    as there, 1/8 as many atomic additions
// Numerics:  as there
// Source:    minnaar2019, whose blocks have 32 threads; this size is ours
#include "implementations/cuda/_block_serial.cuh"

namespace {

template <class T>
using CudaBlockSerial256 = kmeans::cuda::BlockSerial<T, 256>;

}  // namespace

KMEANS_VARIANT(CudaBlockSerial256, .name = "cuda_block_serial_256",
               .summary = "cuda_block_serial with 256 threads a block", .source = "minnaar2019",
               .precisions = {Precision::f32, Precision::f64}, .deterministic = false,
               .supports = kmeans::cuda::block_serial_limits<256>,
               .device_bytes = kmeans::cuda::plain_device_bytes,
               .traffic = kmeans::cuda::block_serial_traffic<256>)
