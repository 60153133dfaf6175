// SPDX-License-Identifier: Apache-2.0
#include "harness/run/workers.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <sstream>
#include <system_error>

#include "harness/machine/ranks.h"
#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/support/process.h"

namespace kmeans {
namespace {

using nlohmann::json;

constexpr std::size_t kReportedOutput = 2048;
// A result of a worker; a trace with centroids and sample points can be long.
constexpr JsonLimits kResultLimits{std::size_t{1} << 30, 32,
                                   std::numeric_limits<std::size_t>::max()};

/// A message with the scratch folder taken out of file names: it says nothing to a reader.
std::string without_folder(std::string message, const std::filesystem::path& folder) {
  const std::string prefix = folder.string() + "/";
  for (auto at = message.find(prefix); at != std::string::npos; at = message.find(prefix)) {
    message.erase(at, prefix.size());
  }
  return message;
}

constexpr const char* kScratchPrefix = "kmeans-bench-";
constexpr const char* kRanks = "{ranks}";
constexpr const char* kOwnerLock = ".owner";
constexpr const char* kUnnamedLock = ".owner-new";

/// The descriptor of a lock that no other process holds, or -1.
int try_lock(const std::filesystem::path& file, int flags) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
  if (descriptor >= 0 && ::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  if (descriptor >= 0) ::close(descriptor);
  return -1;
}

/// Removes this user's scratch folders whose owners are gone.
void remove_orphaned_folders(const std::filesystem::path& base) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(base, ignored)) {
    struct stat status {};
    if (entry.path().filename().string().rfind(kScratchPrefix, 0) != 0 ||
        ::lstat(entry.path().c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
        status.st_uid != ::geteuid()) {
      continue;
    }
    const int lock = try_lock(entry.path() / kOwnerLock, 0);
    if (lock < 0) continue;  // its owner lives, or it is not ours
    std::filesystem::remove_all(entry.path(), ignored);
    ::close(lock);
  }
}

}  // namespace

ScratchFolder::ScratchFolder() {
  std::error_code error;
  auto base = std::filesystem::temp_directory_path(error);
  if (error) base = "/tmp";
  remove_orphaned_folders(base);
  std::string pattern = (base / (std::string(kScratchPrefix) + "XXXXXX")).string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw OutputError("cannot create a folder for job files in " + base.string());
  }
  path_ = pattern;
  // Locked before it has its name: another process that finds it finds it taken.
  lock_ = try_lock(path_ / kUnnamedLock, O_CREAT);
  std::filesystem::rename(path_ / kUnnamedLock, path_ / kOwnerLock, error);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

std::vector<std::string> launcher_words(int ranks) {
  const char* set = std::getenv("KMEANS_BENCH_LAUNCHER");
  const char* hosts = std::getenv(kHostsOfRanks);
  // Whether to work as root was decided when this program was started so. The cell says how many
  // threads a rank has, which a binding to cores would not know; more than there are get a note.
  std::istringstream words(
      set != nullptr
          ? set
          : "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
            "OMPI_MCA_hwloc_base_binding_policy=none "
            "OMPI_MCA_rmaps_base_oversubscribe=1 mpirun " +
                (hosts != nullptr ? "--host " + std::string(hosts) + " " : "") + "-n {ranks}");
  // It looks for the launcher as a shell does.
  std::vector<std::string> command{"/usr/bin/env"};
  bool placed = false;
  for (std::string word; words >> word;) {
    if (const auto at = word.find(kRanks); at != std::string::npos) {
      word.replace(at, std::strlen(kRanks), std::to_string(ranks));
      placed = true;
    }
    command.push_back(word);
  }
  if (placed) return command;
  throw InputError(std::string("KMEANS_BENCH_LAUNCHER='") + set + "' has no " + kRanks +
                   ", where the number of ranks belongs, as in 'srun --mpi=pmix -n {ranks}'");
}

Workers::Answer Workers::run(const Job& job, double timeout_seconds) {
  const Reply reply = run("worker", to_json(job), job.threads, timeout_seconds, job.ranks);
  Answer answer{{}, reply.wall_seconds, reply.interrupted, reply.timed_out};
  if (reply.result.is_null()) {
    answer.result = unreported("error", reply.problem);
    return answer;
  }
  try {
    answer.result = job_result_from_json(reply.result);
  } catch (const InputError& error) {
    answer.result = unreported("error", std::string("not a worker's result: ") + error.what());
  } catch (const json::exception& error) {
    answer.result = unreported("error", std::string("not a worker's result: ") + error.what());
  }
  return answer;
}

Workers::Record Workers::record_of(const Reply& reply) {
  return {reply.result.is_object() ? reply.result : to_json(unreported("error", reply.problem)),
          reply.interrupted};
}

Workers::Record Workers::run(const TraceJob& job, double timeout_seconds) {
  return record_of(run("trace-worker", to_json(job), job.threads, timeout_seconds));
}

Workers::Record Workers::run(const StudyJob& job, double timeout_seconds) {
  return record_of(run("study-worker", to_json(job), job.threads, timeout_seconds));
}

Workers::Record Workers::run(const FitJob& job, double timeout_seconds) {
  return record_of(run("fit-worker", to_json(job), job.threads, timeout_seconds));
}

Workers::Reply Workers::run(const char* role, const json& job, int threads, double timeout_seconds,
                            int ranks) {
  const auto job_file = scratch_.path() / "job.json";
  const auto result_file = scratch_.path() / "result.json";
  std::error_code ignored;
  std::filesystem::remove(result_file, ignored);
  write_json_file(job_file, job);
  ProcessRequest request;
  if (ranks > 1) request.command = launcher_words(ranks);
  const std::size_t program = request.command.size();
  request.command.insert(request.command.end(), command_.begin(), command_.end());
  // To a launcher /proc/self/exe would be the launcher.
  if (ranks > 1) request.command[program] = std::filesystem::canonical(command_.front()).string();
  for (const std::string& argument : {std::string(role), job_file.string(), result_file.string()}) {
    request.command.push_back(argument);
  }
  request.environment = worker_environment(environment_, threads, keep_environment_);
  request.timeout_seconds = timeout_seconds;
  const ProcessOutcome outcome = run_process(request);
  Reply reply;
  reply.wall_seconds = outcome.seconds;
  reply.timed_out = outcome.end == ProcessOutcome::End::timed_out;
  reply.interrupted = outcome.end == ProcessOutcome::End::interrupted ||
                      (InterruptGuard::interrupted() && !outcome.succeeded());
  if (outcome.succeeded()) {
    try {
      reply.result = read_json_file(result_file, kResultLimits);
      return reply;
    } catch (const InputError& error) {
      reply.problem = "the worker ended without a whole result: " +
                      without_folder(error.what(), scratch_.path());
    }
  } else {
    reply.problem = outcome.describe();
  }
  const std::string tail = readable_tail(outcome.output, kReportedOutput);
  if (!tail.empty()) reply.problem += ": " + tail;
  return reply;
}

}  // namespace kmeans
