// SPDX-License-Identifier: Apache-2.0
//
// cuda_tensor with a planted error: every length that its bound multiplies is a thousandth of what
// it is, so that points count as decided which rounding to float16 decides. The verifier has to see
// that. The variant's own code is compiled, unchanged, in a namespace of its own.
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <cub/block/block_scan.cuh>
#include <string>
#include <utility>

#include "harness/machine/cuda/device.cuh"
#include "implementations/cuda/_centred.cuh"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_iteration_graph.cuh"
#include "implementations/cuda/_lloyd.cuh"
#include "implementations/cuda/_wgmma.cuh"

namespace kmeans::tight {
using namespace kmeans::cuda;  // NOLINT: what the renamed files below find in theirs
}

// cuda_tensor's object file, with which this is linked, has the kernels of its headers already.
#define cuda tight
#define sqrt(x) (1e-3 * sqrt(x))
#include "implementations/cuda/_tensor_copies.cuh"
#undef sqrt

namespace {
constexpr const char* kThisFile = __FILE__;
}

#undef KMEANS_VARIANT
#define KMEANS_VARIANT(Class, ...)                                                                \
  [[maybe_unused]] const bool registered_tight_bound = [] {                                       \
    using namespace kmeans;                                                                       \
    Traits traits{__VA_ARGS__};                                                                   \
    traits.name = "fault_cuda_tight_bound";                                                       \
    traits.summary = "cuda_tensor with a bound that is too tight";                                \
    traits.gpu = true;                                                                            \
    return register_variant(std::move(traits), ::kmeans::detail::factory_of<Class>(), kThisFile); \
  }();
#include "implementations/cuda/cuda_tensor.cu"
