// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "implementations/_batch.h"

namespace kmeans::cuda {

/// A batch of which each problem is one block's, that has it in shared memory. Null, and why not: a problem is too
/// large for that, or so large that all of the GPU is faster at one after the other.
std::unique_ptr<BatchAtWork> make_batch(const BatchTask& task, std::string& why_not);

}  // namespace kmeans::cuda
