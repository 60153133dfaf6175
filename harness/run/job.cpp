// SPDX-License-Identifier: Apache-2.0
#include "harness/run/job.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "harness/support/errors.h"
#include "harness/support/json_integer.h"
#include "harness/support/precision.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

/// Null is what became of a NaN or an infinity.
double number_of(const nlohmann::json& value) {
  return value.is_null() ? std::nan("") : value.get<double>();
}

std::vector<double> numbers_of(const nlohmann::json& values) {
  std::vector<double> numbers;
  for (const auto& value : values) numbers.push_back(number_of(value));
  return numbers;
}

}  // namespace

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

nlohmann::json to_json(const Job& job) {
  nlohmann::json json{
      {"variant", job.variant},
      {"precision", to_string(job.precision)},
      {"points_file", job.points_file},
      {"centroids_file", job.centroids_file},
      {"k", job.k},
      {"iterations", job.iterations},
      {"threads", job.threads},
      {"ranks", job.ranks},
      {"gpus", job.gpus},
      {"repetitions", job.repetitions},
      {"min_seconds", job.min_seconds},
      {"max_seconds", job.max_seconds},
      {"best_pace", job.best_pace},
      {"patience", job.patience},
      {"profile", job.profile},
      {"certified_outcomes", job.certified_outcomes},
      {"exact_had_empty_clusters", job.exact_had_empty_clusters},
      {"verify_threads", job.verify_threads},
      {"verify_budget", job.verify_budget},
      {"verify_seed", job.verify_seed},
  };
  json["exact_scale"] = to_json(job.exact_scale);
  json["exact_scalar"] = to_string(job.exact_scalar);
  json["exact_inertia"] = job.exact_inertia ? nlohmann::json(*job.exact_inertia) : nullptr;
  return json;
}

Job job_from_json(const nlohmann::json& json) {
  Job job;
  json.at("variant").get_to(job.variant);
  job.precision = parse_precision(json.at("precision").get<std::string>());
  json.at("points_file").get_to(job.points_file);
  json.at("centroids_file").get_to(job.centroids_file);
  job.k = integer_at<std::int64_t>(json, "k");
  job.iterations = integer_at<std::int64_t>(json, "iterations");
  job.threads = integer_at<int>(json, "threads");
  if (json.contains("ranks")) job.ranks = integer_at<int>(json, "ranks");
  if (json.contains("gpus")) job.gpus = integer_at<int>(json, "gpus");
  job.repetitions = integer_at<int>(json, "repetitions");
  json.at("min_seconds").get_to(job.min_seconds);
  json.at("max_seconds").get_to(job.max_seconds);
  job.best_pace = json.value("best_pace", 0.0);
  job.patience = json.value("patience", 0.0);
  json.at("profile").get_to(job.profile);
  json.at("certified_outcomes").get_to(job.certified_outcomes);
  json.at("exact_had_empty_clusters").get_to(job.exact_had_empty_clusters);
  job.verify_threads = integer_at<int>(json, "verify_threads");
  json.at("verify_budget").get_to(job.verify_budget);
  job.verify_seed = integer_at<std::uint64_t>(json, "verify_seed");
  job.exact_scale = scale_from_json(json.value("exact_scale", nlohmann::json()));
  job.exact_scalar = json.value("exact_scalar", "f32") == "f64" ? ScalarType::f64 : ScalarType::f32;
  if (!json.at("exact_inertia").is_null()) job.exact_inertia = json.at("exact_inertia");
  return job;
}

JobResult unreported(std::string status, std::string reason) {
  JobResult result;
  result.status = std::move(status);
  result.reason = std::move(reason);
  result.unreported = true;
  return result;
}

nlohmann::json to_json(const JobResult& result) {
  nlohmann::json json{{"status", result.status},
                      {"reason", valid_utf8(result.reason)},
                      {"samples", result.samples}};
  if (result.unreported) return json;
  nlohmann::json library = nlohmann::json::object();
  for (const auto& [key, value] : result.library) library[valid_utf8(key)] = valid_utf8(value);
  json.update({
      {"stopping", result.stopping},
      {"setup_seconds", result.setup_seconds},
      {"stages", result.stages},
      {"inertia", result.inertia},
      {"label_hash", result.label_hash},
      {"centroid_hash", result.centroid_hash},
      {"empty_clusters", result.empty_clusters},
      {"any_empty_clusters", result.any_empty_clusters},
      {"scale", to_json(result.scale)},
      {"outcome", result.outcome},
      {"verification", result.verification},
      {"library", library},
      {"device_samples", result.device_samples},
      {"doubts", result.doubts},
      {"pace", result.pace},
      {"gpu", result.gpu},
      {"stage_work", result.stage_work},
  });
  json["executed_iterations"] =
      result.executed_iterations ? nlohmann::json(*result.executed_iterations) : nullptr;
  json["computed_distances"] =
      result.computed_distances ? nlohmann::json(*result.computed_distances) : nullptr;
  if (!result.rank_times.is_null()) json["rank_times"] = result.rank_times;
  json["traffic"] = nullptr;
  if (result.traffic) {
    json["traffic"] = {{"read_bytes", result.traffic->read_bytes},
                       {"written_bytes", result.traffic->written_bytes},
                       {"atomic_bytes", result.traffic->atomic_bytes}};
  }
  return json;
}

JobResult job_result_from_json(const nlohmann::json& json) {
  JobResult result;
  json.at("status").get_to(result.status);
  static constexpr std::array<std::string_view, 4> kKnown{"ok", "wrong", "skipped", "error"};
  if (std::find(kKnown.begin(), kKnown.end(), result.status) == kKnown.end()) {
    throw InputError("\"status\" must be ok, wrong, skipped or error, not '" +
                     valid_utf8(result.status) + "'");
  }
  result.reason = json.value("reason", std::string());
  result.samples = numbers_of(json.at("samples"));
  result.unreported = !json.contains("stopping");
  if (result.unreported) return result;
  json.at("stopping").get_to(result.stopping);
  result.setup_seconds = number_of(json.at("setup_seconds"));
  for (const auto& [stage, seconds] : json.at("stages").items()) {
    if (seconds.is_number()) result.stages[stage] = seconds.get<double>();
  }
  result.inertia = number_of(json.at("inertia"));
  json.at("label_hash").get_to(result.label_hash);
  json.at("centroid_hash").get_to(result.centroid_hash);
  result.empty_clusters = integer_at<std::int64_t>(json, "empty_clusters");
  json.at("any_empty_clusters").get_to(result.any_empty_clusters);
  json.at("outcome").get_to(result.outcome);
  result.verification = json.at("verification");
  for (const auto& [key, value] : json.at("library").items()) {
    result.library.emplace_back(key, value.get<std::string>());
  }
  if (const auto& traffic = json.at("traffic"); !traffic.is_null()) {
    result.traffic =
        Traffic{number_of(traffic.at("read_bytes")), number_of(traffic.at("written_bytes")),
                number_of(traffic.at("atomic_bytes"))};
  }
  // Journals of earlier builds may lack these.
  const auto optional = [&](const char* key) { return json.value(key, nlohmann::json()); };
  result.scale = scale_from_json(optional("scale"));
  result.device_samples = numbers_of(optional("device_samples"));
  result.doubts = json.value("doubts", std::vector<std::string>{});
  result.pace = numbers_of(optional("pace"));
  result.gpu = optional("gpu");
  result.stage_work = json.value("stage_work", nlohmann::json::object());
  if (!optional("executed_iterations").is_null()) {
    result.executed_iterations = integer_at<std::int64_t>(json, "executed_iterations");
  }
  result.rank_times = optional("rank_times");
  if (!optional("computed_distances").is_null()) {
    result.computed_distances = integer_at<std::int64_t>(json, "computed_distances");
  }
  return result;
}

}  // namespace kmeans
