// SPDX-License-Identifier: Apache-2.0
#include "harness/workers.h"

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <system_error>

#include "harness/errors.h"
#include "harness/json_file.h"
#include "harness/process.h"

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

}  // namespace

ScratchFolder::ScratchFolder() {
  std::error_code error;
  auto base = std::filesystem::temp_directory_path(error);
  if (error) base = "/tmp";
  std::string pattern = (base / "kmeans-bench-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw OutputError("cannot create a folder for job files in " + base.string());
  }
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Workers::Reply Workers::run(const char* role, const json& job, int threads,
                            double timeout_seconds) {
  const auto job_file = scratch_.path() / "job.json";
  const auto result_file = scratch_.path() / "result.json";
  std::error_code ignored;
  std::filesystem::remove(result_file, ignored);
  write_json_file(job_file, job);
  ProcessRequest request;
  request.command = command_;
  for (const std::string& argument : {std::string(role), job_file.string(), result_file.string()}) {
    request.command.push_back(argument);
  }
  request.environment = worker_environment(environment_, threads, keep_environment_);
  request.timeout_seconds = timeout_seconds;
  const ProcessOutcome outcome = run_process(request);
  Reply reply;
  reply.wall_seconds = outcome.seconds;
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
