// SPDX-License-Identifier: Apache-2.0
//
// Threads of OpenMP get the stack that the environment asks for when the program starts: nothing
// can be corrected later in this process, unlike in those that it starts (harness/machine/environment.h).
#pragma once

namespace kmeans {

/// Throws EnvironmentError when the environment asks for a stack that no thread can start on.
void refuse_small_stacks();

}  // namespace kmeans
