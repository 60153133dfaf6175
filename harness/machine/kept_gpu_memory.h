// SPDX-License-Identifier: Apache-2.0
//
// Memory of GPUs from call to call.
#pragma once

namespace kmeans {

/// Whether what is given back is kept for those who ask for as much again; at first it is not. The library keeps it.
void keep_gpu_memory(bool keeps);

}  // namespace kmeans
