// SPDX-License-Identifier: Apache-2.0
#include "harness/machine/ranks.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "harness/machine/machine.h"

namespace kmeans {
namespace {

std::optional<int> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  int number = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  if (error != std::errc() || stop != end || number < 0) return std::nullopt;
  return number;
}

bool begun = false;

}  // namespace

Launched launched() {
  struct Names {
    const char* rank;
    const char* size;
  };
  // Open MPI's mpirun; MPICH's, and srun with PMI; srun with PMIx, which names no size of its own.
  constexpr Names kLaunchers[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                  {"PMI_RANK", "PMI_SIZE"},
                                  {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"}};
  for (const Names& names : kLaunchers) {
    const auto rank = number_in(names.rank);
    const auto size = number_in(names.size);
    if (rank && size && *size > *rank) return {*rank, *size};
  }
  return {};
}

Communicator& process_ranks() {
  static SingleRank alone;
  static Communicator& ranks = [&]() -> Communicator& {
    const Launched by_launcher = launched();
    if (by_launcher.size == 1) return alone;
    Communicator& found = begin_ranks(by_launcher);
    begun = true;
    return found;
  }();
  return ranks;
}

void finish_ranks() {
  if (begun) end_ranks_library();
  begun = false;
}

int threads_per_rank() {
  const int usable = usable_threads();
  const int here = process_ranks().ranks_here();
  if (here == 1) return usable;
  // A launcher that binds its ranks has divided the processors; one that does not, or that binds to
  // whole sockets, leaves some to several ranks.
  auto processors = static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  if (const auto quota = cgroup_limits().cpus) processors = std::min(processors, *quota);
  return std::max(1, std::min(usable, static_cast<int>(processors) / here));
}

}  // namespace kmeans
