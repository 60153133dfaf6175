// SPDX-License-Identifier: Apache-2.0
#include "harness/run/job.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <limits>
#include <string_view>

#include "harness/run/job_members.h"
#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/support/text.h"

namespace kmeans {
// A number that overflowed is null in JSON, and grants nothing; no scale does neither.
nlohmann::json to_json(const TrajectoryScale& scale) {
  return {{"weight", scale.weight}, {"scatter", scale.scatter}};
}

TrajectoryScale scale_from_json(const nlohmann::json& json) {
  if (!json.is_object()) return {};
  const auto number = [&](const char* key) {
    const auto& value = json.at(key);
    return value.is_number() ? value.get<double>() : std::numeric_limits<double>::infinity();
  };
  return {number("weight"), number("scatter")};
}

nlohmann::json member_to_json(const TrajectoryScale& scale) { return to_json(scale); }
void member_from_json(const nlohmann::json& json, const char* /*key*/, TrajectoryScale& scale) {
  scale = scale_from_json(json);
}
nlohmann::json member_to_json(ScalarType scalar) { return to_string(scalar); }
void member_from_json(const nlohmann::json& json, const char* /*key*/, ScalarType& scalar) {
  scalar = json == "f64" ? ScalarType::f64 : ScalarType::f32;
}
nlohmann::json member_to_json(const Traffic& traffic) { return message_to_json(traffic); }
void member_from_json(const nlohmann::json& json, const char* /*key*/, Traffic& traffic) {
  traffic = message_from_json<Traffic>(json);
}

template <IsA<Traffic> M, class Visit>
void members(M& traffic, const Visit& visit) {
  visit("read_bytes", traffic.read_bytes);
  visit("written_bytes", traffic.written_bytes);
  visit("atomic_bytes", traffic.atomic_bytes);
}

template <IsA<Job> M, class Visit>
void members(M& job, const Visit& visit) {
  variant_members(job, visit);
  visit("ranks", job.ranks, kMayLack);
  visit("gpus", job.gpus, kMayLack);
  visit("repetitions", job.repetitions);
  visit("min_seconds", job.min_seconds);
  visit("best_pace", job.best_pace, kMayLack);
  visit("patience", job.patience, kMayLack);
  visit("beyond_memory", job.beyond_memory, kMayLack);
  visit("profile", job.profile);
  visit("certified_outcomes", job.certified_outcomes);
  visit("exact_inertia", job.exact_inertia);
  visit("exact_had_empty_clusters", job.exact_had_empty_clusters);
  visit("exact_scale", job.exact_scale, kMayLack);
  visit("exact_scalar", job.exact_scalar, kMayLack);
  visit("verify_budget", job.verify_budget);
  visit("verify_seed", job.verify_seed);
}

/// Those that are known where no worker has answered.
template <IsA<JobResult> M, class Visit>
void members_unreported(M& result, const Visit& visit) {
  visit("status", result.status);
  visit("reason", result.reason, kMayLack);
  visit("samples", result.samples);
}

template <IsA<JobResult> M, class Visit>
void members(M& result, const Visit& visit) {
  members_unreported(result, visit);
  visit("stopping", result.stopping);
  visit("setup_seconds", result.setup_seconds);
  visit("stages", result.stages);
  visit("inertia", result.inertia);
  visit("label_hash", result.label_hash);
  visit("centroid_hash", result.centroid_hash);
  visit("empty_clusters", result.empty_clusters);
  visit("any_empty_clusters", result.any_empty_clusters);
  visit("outcome", result.outcome);
  visit("verification", result.verification);
  visit("traffic", result.traffic);
  visit("library", result.library);
  // Journals of earlier builds may lack these.
  visit("executed_iterations", result.executed_iterations, kMayLack);
  visit("computed_distances", result.computed_distances, kMayLack);
  visit("rank_times", result.rank_times, kMayLack);
  visit("streamed", result.streamed, kMayLack);
  visit("scale", result.scale, kMayLack);
  visit("stage_work", result.stage_work, kMayLack);
  visit("device_samples", result.device_samples, kMayLack);
  visit("doubts", result.doubts, kMayLack);
  visit("pace", result.pace, kMayLack);
  visit("gpu", result.gpu, kMayLack);
}

nlohmann::json to_json(const Job& job) { return message_to_json(job); }

Job job_from_json(const nlohmann::json& json) { return message_from_json<Job>(json); }

JobResult unreported(std::string status, std::string reason) {
  JobResult result;
  result.status = std::move(status);
  result.reason = std::move(reason);
  result.unreported = true;
  return result;
}

nlohmann::json to_json(const JobResult& result) {
  nlohmann::json json;
  if (result.unreported) {
    members_unreported(result, MemberWriter(json));
    return json;
  }
  members(result, MemberWriter(json));
  if (result.rank_times.is_null()) json.erase("rank_times");
  if (result.streamed.is_null()) json.erase("streamed");
  return json;
}

JobResult job_result_from_json(const nlohmann::json& json) {
  JobResult result;
  result.unreported = !json.contains("stopping");
  if (result.unreported) {
    members_unreported(result, MemberReader(json));
  } else {
    members(result, MemberReader(json));
  }
  static constexpr std::array<std::string_view, 4> kKnown{"ok", "wrong", "skipped", "error"};
  if (std::find(kKnown.begin(), kKnown.end(), result.status) == kKnown.end()) {
    throw InputError("\"status\" must be ok, wrong, skipped or error, not '" +
                     valid_utf8(result.status) + "'");
  }
  return result;
}

int answer_job(const char* role, const std::string& job_file, const std::string& result_file,
               const std::function<nlohmann::json(const nlohmann::json&)>& answer) {
  try {
    write_json_file(result_file, answer(read_json_file(job_file)));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kmeans-bench %s: %s\n", role, error.what());
    return 1;
  }
}

}  // namespace kmeans
