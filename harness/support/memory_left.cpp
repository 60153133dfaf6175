// SPDX-License-Identifier: Apache-2.0
#include "harness/support/memory_left.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "harness/support/text.h"

namespace kmeans {

std::optional<std::int64_t> address_space_left() {
  // A worker is this program again, and takes as much before it holds any points.
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const auto granted = static_cast<std::int64_t>(
      std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<std::int64_t>::max()));
  return std::max<std::int64_t>(granted - pages * ::sysconf(_SC_PAGESIZE), 0);
}

std::string memory_left() {
  double free = static_cast<double>(::sysconf(_SC_AVPHYS_PAGES)) *
                static_cast<double>(::sysconf(_SC_PAGESIZE));
  std::ifstream facts("/proc/meminfo");
  for (std::string name; facts >> name;) {
    double kibibytes = 0;
    if (name == "MemAvailable:" && facts >> kibibytes) free = kibibytes * 1024;
  }
  const auto addresses = address_space_left();
  if (addresses && static_cast<double>(*addresses) < free) {
    return format_bytes(static_cast<double>(*addresses)) + " (ulimit -v)";
  }
  return format_bytes(free);
}

}  // namespace kmeans
