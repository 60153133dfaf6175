// SPDX-License-Identifier: Apache-2.0
//
// The ranks that a launcher (mpirun, srun) started this program as. Without one there is a single rank,
// and no MPI is ever begun.
#pragma once

#include "harness/communicator.h"

namespace kmeans {

/// What the launcher says in the environment of its processes.
struct Launched {
  int rank = 0;
  int size = 1;  ///< 1 also where there is no launcher.
};
Launched launched();

/// All ranks of this program; begins MPI at the first call if there are several. Throws EnvironmentError
/// where this build cannot talk to them.
Communicator& process_ranks();

/// Ends MPI, if it was begun; the last thing that a rank does.
void finish_ranks();

/// Threads for each rank of this machine, so that all of them can run at once; at least 1. For a single
/// rank, usable_threads().
int threads_per_rank();

/// What this build can talk to: "Open MPI 4.1.4, ..."; empty without MPI.
std::string ranks_library();

// Of the build with MPI or of that without.

/// Begins MPI. Never called twice, nor for a single rank.
Communicator& begin_ranks(const Launched& launched);
void end_ranks_library();

}  // namespace kmeans
