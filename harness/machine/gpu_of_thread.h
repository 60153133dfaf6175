// SPDX-License-Identifier: Apache-2.0
//
// A GPU for one thread of a process that uses several, as the library does: points may lie on any.
#pragma once

#include <string>

namespace kmeans {

/// What current_gpu(), bind_gpu() and all that follow them mean by the GPU in use, on this thread; -1: that of the
/// process. Returns what it was. The GPU can be used.
int set_gpu_of_thread(int device);

/// Why GPU `device`, as the CUDA runtime counts, cannot be used; empty: it can.
std::string problem_with_gpu(int device);

}  // namespace kmeans
