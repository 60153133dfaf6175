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

/// The hosts of the ranks that go_on_alone() left, as launchers take them ("a:2,b:2"); empty where all
/// were on this one. No variable that results record: they name no hosts.
inline constexpr const char* kHostsOfRanks = "KMEANS_RANK_HOSTS";

/// For a program that starts processes, and ranks, of its own: rank 0 restarts, as if it had been
/// started once, on the processors of all ranks of its host. Returns on the others, which have nothing
/// to do. Throws EnvironmentError.
void go_on_alone(Communicator& ranks, char** arguments);

/// Were ranks started by srun itself? Steps of Slurm cannot start steps on the processors that they hold.
bool launched_by_srun();

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
