// SPDX-License-Identifier: Apache-2.0
//
// Architectures: 90a-real
//
// The kernels of the float16 filter's first pass.
#include "implementations/cuda/_find_nearest.cuh"
#include "implementations/cuda/_half_filter.cuh"

namespace kmeans::cuda {

template void HalfFilter::allow_first_pass<false>() const;
template void HalfFilter::launch_first_pass<false>(const HalfRows&, const std::int32_t*,
                                                   std::int32_t*, cudaStream_t) const;

}  // namespace kmeans::cuda
