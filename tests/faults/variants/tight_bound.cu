// SPDX-License-Identifier: Apache-2.0
//
// cuda_tensor, cuda_hamerly, cuda_int8 and cuda_onepass with a planted error: every length that their bounds multiply
// or add is a thousandth of what it is, so that points count as decided which rounding to float16 or bytes decides, or
// which centroids that moved have left behind. The verifier has to see that. The variants' own code is compiled,
// unchanged, in namespaces of its own.
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <cub/block/block_scan.cuh>
#include <string>
#include <type_traits>
#include <utility>

#include "harness/machine/cuda/device.cuh"
#include "implementations/cuda/_block_sums.cuh"
#include "implementations/cuda/_byte_steps.cuh"
#include "implementations/cuda/_centred.cuh"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_graph_lloyd.cuh"
#include "implementations/cuda/_lloyd.cuh"
#include "implementations/cuda/_mma.cuh"
#include "implementations/cuda/_nearest.cuh"
#include "implementations/cuda/_pair.cuh"
#include "implementations/cuda/_tensor_frame.cuh"
#include "implementations/cuda/_tensor_state.h"
#include "implementations/cuda/_wgmma.cuh"

namespace kmeans::tight {
using namespace kmeans::cuda;  // NOLINT: what the renamed files below find in theirs
}

// cuda_tensor's object file, with which this is linked, has the kernels of these headers already.
#define cuda tight
#include "implementations/cuda/_candidates.cuh"
#include "implementations/cuda/_moves.cuh"
#define sqrt(x) (1e-3 * sqrt(x))
#include "implementations/cuda/_byte_copies.cuh"
#include "implementations/cuda/_byte_find.cuh"
#include "implementations/cuda/_byte_lists.cuh"
#include "implementations/cuda/_half_filter.cuh"
#include "implementations/cuda/_onepass_copies.cuh"
#include "implementations/cuda/_onepass_pass.cuh"
// The kernels of _half_filter.cuh.
#include "implementations/cuda/_half_filter.cu"
#include "implementations/cuda/_half_find.cu"
#include "implementations/cuda/_half_find_bounds.cu"

namespace {
constexpr const char* kThisFile = __FILE__;
}

#undef KMEANS_VARIANT
#define KMEANS_VARIANT(Class, ...)                                                                \
  [[maybe_unused]] const bool registered_##Class = [] {                                           \
    using namespace kmeans;                                                                       \
    Traits traits{__VA_ARGS__};                                                                   \
    traits.summary = traits.name + " with a bound that is too tight";                             \
    traits.name = "fault_" + traits.name + "_tight_bound";                                        \
    traits.gpu = true;                                                                            \
    return register_variant(std::move(traits), ::kmeans::detail::factory_of<Class>(), kThisFile); \
  }();

namespace of_tensor {
#include "implementations/cuda/cuda_tensor.cu"
}
namespace of_hamerly {
#include "implementations/cuda/cuda_hamerly.cu"
}
namespace of_int8 {
#include "implementations/cuda/cuda_int8.cu"
}
namespace of_onepass {
#include "implementations/cuda/cuda_onepass.cu"
}
