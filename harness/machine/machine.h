// SPDX-License-Identifier: Apache-2.0
//
// What this machine is, as far as it matters to a measurement. Everything here is taken from an
// allow-list: no host name, user name, network address or path ends up in a fingerprint.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kmeans {

/// The `context.machine` of a result file (docs/machine.md): id, cpu, memory, gpus, os, libraries,
/// floating_point. Facts that the machine does not report are null.
nlohmann::json machine_fingerprint();

/// Hash of those parts of a fingerprint that stay the same on an unchanged machine: available
/// memory, present clock rates and the like are left out. 16 hexadecimal digits.
std::string fingerprint_hash(const nlohmann::json& fingerprint);

/// A short name of the machine, [a-z0-9-], fit for a folder: "xeon-2core-avx512",
/// "epyc-9654-96core-avx512-4xh200". $KMEANS_BENCH_MACHINE replaces it; throws InputError if that
/// is not [a-z0-9][a-z0-9-]*, at most 64 characters.
std::string machine_id();

/// Threads that can really run at once: CPUs of the affinity mask, at most the whole CPUs of the
/// cgroup's quota, at least 1.
int usable_threads();

/// What the control groups above this process grant; absent where there is no limit.
struct CgroupLimits {
  std::optional<double> cpus;
  std::optional<std::int64_t> memory_bytes;
  std::optional<std::int64_t> memory_used_bytes;  ///< of the group that sets memory_bytes
};

/// A folder of a control group that this process is in, with a slash at its end.
struct CgroupFolder {
  std::string controller;  ///< "cpu", "memory", ...; empty: version 2, all of them.
  std::string folder;
};

/// Those of every hierarchy, the innermost group first, up to the mount point. `root` is put before
/// every absolute path.
std::vector<CgroupFolder> cgroup_folders(const std::string& root = "");

/// Reads version 1 and version 2 control groups. `root` is put before every absolute path.
CgroupLimits cgroup_limits(const std::string& root = "");

/// Bytes that can still be allocated without swapping: MemAvailable, or what the control group or
/// the limit on address space (`ulimit -v`) has left if that is less; at most $KMEANS_BENCH_MEMORY. Throws
/// InputError where that is not an amount.
std::int64_t available_memory();

/// Size of the largest data cache that an allowed CPU sees, and of its level 2 cache divided by the
/// number of threads that share it; absent if the system says nothing, or 0, of their size. `root`
/// is put before every absolute path.
struct DataCaches {
  std::optional<std::int64_t> last_level_bytes;
  std::optional<std::int64_t> level2_bytes_per_thread;
};
DataCaches data_caches(const std::string& root = "");

/// CPUs that this process was given when it started, in ascending order.
std::vector<int> allowed_cpus();

/// Lets the calling thread, and whatever it starts, run on all of them again. With OMP_PROC_BIND or
/// GOMP_CPU_AFFINITY an OpenMP runtime binds the first thread to one CPU before main(), and worker
/// processes would inherit that even after the variable is removed from their environment.
void undo_thread_binding();

struct GpuQuery {
  nlohmann::json gpus = nlohmann::json::array();
  std::string problem;  ///< why the list may be incomplete; empty when all is well
};

/// Asks nvidia-smi, which must answer within the time limit.
GpuQuery query_gpus(double timeout_seconds = 10);

/// Are denormal numbers treated as zero in the calling thread? (FTZ: results, DAZ: operands.)
struct DenormalMode {
  bool flush_to_zero = false;
  bool denormals_are_zero = false;
};
DenormalMode denormal_mode();

/// Turns both off in the calling thread and in threads that it starts later. A library that was
/// linked with -ffast-math turns them on as it is loaded.
void honour_denormals();

/// The same as the program begins, before it computes anything; what was found is remembered for
/// the fingerprint and the warning.
void honour_denormals_from_the_start();

/// What the program found at its start, or finds in the calling thread now.
DenormalMode found_denormal_mode();

namespace detail {
/// machine_id() without $KMEANS_BENCH_MACHINE: from the CPU's model name as the vendor prints it.
std::string compose_machine_id(const std::string& cpu_model, int cores,
                               const std::string& instructions,
                               const std::vector<std::string>& gpu_names);
}  // namespace detail

}  // namespace kmeans
