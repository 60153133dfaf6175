// SPDX-License-Identifier: Apache-2.0
#include "harness/machine/ranks.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "harness/machine/environment.h"
#include "harness/machine/machine.h"
#include "harness/support/errors.h"
#include "harness/support/process.h"

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

/// By which the processes of a launcher find each other; who has it cannot start ranks of its own. What
/// users set of Open MPI (OMPI_MCA_btl, ...) is kept.
bool is_launchers(std::string_view variable) {
  const auto begins = [&](std::string_view prefix) { return variable.rfind(prefix, 0) == 0; };
  for (const char* prefix :
       {"PMIX_", "PMI_", "PRTE_", "OMPI_MCA_ess", "OMPI_MCA_orte_", "OMPI_MCA_pmix"}) {
    if (begins(prefix)) return true;
  }
  return begins("OMPI_") && !begins("OMPI_MCA_") && !begins("OMPI_ALLOW_");
}

/// A rank's host, and the processors that it may use there.
std::string own_place() {
  char name[256] = "";
  (void)::gethostname(name, sizeof name - 1);
  std::string place = name;
  for (const int cpu : allowed_cpus()) place += " " + std::to_string(cpu);
  return place;
}

/// What ranks said of their places.
struct Places {
  std::vector<std::string> hosts;    // in the order of the ranks
  std::map<std::string, int> ranks;  // of each host
  cpu_set_t processors;              // of rank 0's host

  explicit Places(const std::vector<std::string>& said) {
    CPU_ZERO(&processors);
    for (const std::string& place : said) {
      std::istringstream words(place);
      std::string host;
      words >> host;
      if (ranks[host]++ == 0) hosts.push_back(host);
      for (int cpu = 0; host == hosts.front() && words >> cpu;) {
        if (cpu < CPU_SETSIZE) CPU_SET(cpu, &processors);
      }
    }
  }

  /// Empty where there is one host.
  [[nodiscard]] std::string list() const {
    std::string list;
    for (const std::string& host : hosts) {
      list += (list.empty() ? "" : ",") + host + ":" + std::to_string(ranks.at(host));
    }
    return hosts.size() > 1 ? list : "";
  }
};

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

bool launched_by_srun() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr && launched().size > 1 &&
         number_in("SLURM_STEP_NUM_TASKS") == launched().size;
}

void go_on_alone(Communicator& ranks, char** arguments) {
  const Places places(ranks.all_gather_texts(own_place()));
  const bool first = ranks.rank() == 0;
  finish_ranks();
  if (!first) return;
  for (const auto& [name, value] : current_environment()) {
    if (is_launchers(name)) ::unsetenv(name.c_str());
  }
  if (const std::string hosts = places.list(); !hosts.empty()) {
    ::setenv(kHostsOfRanks, hosts.c_str(), 1);
  }
  ::sched_setaffinity(0, sizeof places.processors, &places.processors);
  start_again(arguments);
  throw EnvironmentError("the program could not start itself again");
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
