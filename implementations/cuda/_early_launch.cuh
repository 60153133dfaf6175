// SPDX-License-Identifier: Apache-2.0
//
// Kernels of a graph whose blocks take their places while those of the kernel before leave theirs (CUDA's
// programmatic dependent launch, from compute capability 9.0 on).
#pragma once

#include <cstddef>

#include "harness/machine/cuda/device.cuh"
#include "harness/machine/gpu.h"

namespace kmeans::cuda {

/// In a kernel that launch_early() launches, called by all of its threads: the kernels before it have ended.
/// What it does before this depends on nothing that a kernel wrote.
__device__ inline void await_kernels_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Launches a kernel that calls await_kernels_before(). In a stream of its own its blocks may take their
/// places while those of the kernel before it leave theirs.
template <class... Parameters, class... Arguments>
void launch_early(void (*kernel)(Parameters...), unsigned blocks, unsigned threads,
                  std::size_t shared_bytes, cudaStream_t stream, const Arguments&... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t launch{};
  launch.gridDim = dim3(blocks);
  launch.blockDim = dim3(threads);
  launch.dynamicSmemBytes = shared_bytes;
  launch.stream = stream;
  launch.attrs = &attribute;
  launch.numAttrs = stream != nullptr && current_gpu()->major >= 9 ? 1 : 0;
  KMEANS_CUDA(cudaLaunchKernelEx(&launch, kernel, static_cast<Parameters>(arguments)...));
}

}  // namespace kmeans::cuda
