// SPDX-License-Identifier: Apache-2.0
#include "harness/run/fit_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/record/measures.h"
#include "harness/support/formatted.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

// Medians of few seeds that are nearer to each other say nothing of which library is better.
constexpr double kEqualExcess = 1e-4;
// A float32 sum over all points is off by less, mostly; beyond, another number is reported.
constexpr double kEqualObjective = 1e-3;

json finite_or_null(double value) { return std::isfinite(value) ? json(value) : json(); }

struct Best {
  double inertia = std::numeric_limits<double>::infinity();
  std::string estimator;  // empty: it was known before
  std::int64_t seed = 0;
};

Best best_of(const std::vector<FitRow>& rows, const FitJob& job) {
  Best best;
  if (job.known_inertia) best.inertia = *job.known_inertia;
  for (const auto& row : rows) {
    if (row.status != "ok") continue;
    for (const auto* calls : {&row.first_answers, &row.calls}) {
      for (const auto& call : *calls) {
        if (call.judgement.inertia >= best.inertia) continue;
        best = {call.judgement.inertia, row.estimator, call.seed};
      }
    }
  }
  return best;
}

/// inertia / best - 1. Where k centroids hold all points, 0 for the same and infinite for more.
double excess_of(double inertia, double best) {
  if (inertia <= best) return 0;
  return best > 0 ? inertia / best - 1 : std::numeric_limits<double>::infinity();
}

template <class Value>
std::vector<double> each(const std::vector<FitCall>& calls, const Value& value) {
  std::vector<double> values;
  for (const auto& call : calls) {
    const std::optional<double> one = value(call);
    if (one) values.push_back(*one);
  }
  std::sort(values.begin(), values.end());
  return values;
}

/// The median and its interval under key, key_low and key_high; null where there is none.
void add(json& row, const std::string& key, const std::vector<double>& sorted) {
  row[key] = sorted.empty() ? json() : finite_or_null(percentile(sorted, 0.5));
  const auto interval = sorted.empty() ? std::nullopt : median_ci95(sorted);
  row[key + "_low"] = interval ? finite_or_null(interval->first) : json();
  row[key + "_high"] = interval ? finite_or_null(interval->second) : json();
}

json median_or_null(const std::vector<double>& sorted) {
  return sorted.empty() ? json() : finite_or_null(percentile(sorted, 0.5));
}

/// "scikit-learn 1.9.1", as far as the estimator says.
std::string library_of(const FitRow& row) {
  const json library = row.said.value("library", json::object());
  const std::string own = row.claims.traits.source;
  std::vector<std::string> names{own};
  for (const auto& package : row.said.value("requires", json::array())) names.push_back(package);
  for (const auto& name : names) {
    const auto version = library.find(name);
    if (version == library.end() || !version->is_string()) continue;
    return name + " " + version->get<std::string>();
  }
  return own;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

/// What is known of a row that has times.
struct Standing {
  std::size_t row = 0;
  double seconds = 0;
  double excess = 0;
  bool outside = false;                ///< Part of what a fit needs lies outside its clock.
  std::optional<double> to_near_best;  ///< Seconds, expected.
};

json row_of(const FitRow& row, const Best& best, const FitJob& job) {
  const std::string outside = row.said.value("outside", "");
  json result{{"estimator", row.estimator},
              {"status", row.status},
              {"reason", row.status == "ok" ? json() : json(valid_utf8(row.reason))},
              {"library", library_of(row).empty() ? json() : json(library_of(row))},
              {"exact", row.claims.traits.exact},
              {"defaults", row.said.value("defaults", json())},
              {"outside", outside.empty() ? json() : json(outside)},
              {"seeds", row.status == "ok" ? row.calls.size() : 0},
              {"seeds_asked", job.seeds}};
  for (const char* absent : {"seconds",
                             "seconds_low",
                             "seconds_high",
                             "first_call_seconds",
                             "import_seconds",
                             "seeding_seconds",
                             "iterating_seconds",
                             "inertia",
                             "excess",
                             "excess_low",
                             "excess_high",
                             "excess_worst",
                             "near_best",
                             "seconds_to_near_best",
                             "over_quickest",
                             "front",
                             "iterations",
                             "converged",
                             "left",
                             "reported_over_inertia",
                             "labels_of",
                             "labels_differing",
                             "largest_excess_of_bound",
                             "empty_clusters",
                             "peak_bytes",
                             "device_peak_bytes"}) {
    result[absent] = nullptr;
  }
  if (row.status != "ok") return result;
  const auto& calls = row.calls;
  const auto seconds = each(calls, [](const FitCall& call) { return std::optional(call.seconds); });
  const auto excess = each(calls, [&](const FitCall& call) {
    return std::optional(excess_of(call.judgement.inertia, best.inertia));
  });
  add(result, "seconds", seconds);
  result["first_call_seconds"] = finite_or_null(median_of(row.first_calls));
  result["import_seconds"] = row.import_seconds;
  result["seeding_seconds"] =
      median_or_null(each(calls, [](const FitCall& call) { return call.seeding_seconds; }));
  result["iterating_seconds"] =
      median_or_null(each(calls, [](const FitCall& call) -> std::optional<double> {
        if (!call.seeding_seconds) return std::nullopt;
        return std::max(0.0, call.seconds - *call.seeding_seconds);
      }));
  result["inertia"] = median_or_null(
      each(calls, [](const FitCall& call) { return std::optional(call.judgement.inertia); }));
  add(result, "excess", excess);
  result["excess_worst"] = finite_or_null(excess.back());
  const auto near = static_cast<double>(
      std::count_if(excess.begin(), excess.end(), [](double value) { return value <= kNearBest; }));
  const double share = near / static_cast<double>(excess.size());
  result["near_best"] = share;
  if (near > 0) result["seconds_to_near_best"] = mean_of(seconds) / share;
  result["iterations"] = median_or_null(each(calls, [](const FitCall& call) {
    return call.iterations ? std::optional(static_cast<double>(*call.iterations)) : std::nullopt;
  }));
  const auto converged = each(calls, [](const FitCall& call) {
    return call.converged ? std::optional(*call.converged ? 1.0 : 0.0) : std::nullopt;
  });
  if (!converged.empty()) result["converged"] = mean_of(converged);
  result["left"] = median_or_null(
      each(calls, [](const FitCall& call) { return std::optional(call.judgement.left); }));
  result["reported_over_inertia"] =
      median_or_null(each(calls, [](const FitCall& call) -> std::optional<double> {
        if (!call.objective || !(call.judgement.inertia > 0)) return std::nullopt;
        return *call.objective / call.judgement.inertia;
      }));
  const bool starting = std::any_of(calls.begin(), calls.end(), [](const FitCall& call) {
    return call.judgement.labels_of == LabelsOf::starting;
  });
  result["labels_of"] = starting ? "iteration before" : "returned centroids";
  result["labels_differing"] = finite_or_null(row.certificate.labels_differing);
  result["largest_excess_of_bound"] = finite_or_null(row.certificate.largest_excess_of_bound);
  std::int64_t empty = 0;
  for (const auto& call : calls) empty = std::max(empty, call.judgement.empty_clusters);
  result["empty_clusters"] = empty;
  if (row.peak_bytes) result["peak_bytes"] = *row.peak_bytes;
  if (row.device_peak_bytes) result["device_peak_bytes"] = *row.device_peak_bytes;
  return result;
}

/// Does `a` do at least as well in both, and better in one? What leaves work outside its clock beats nobody
/// who does not.
bool beats(const Standing& a, const Standing& b) {
  if (a.outside && !b.outside) return false;
  const bool as_good = a.excess <= b.excess + kEqualExcess;
  const bool better = a.excess < b.excess - kEqualExcess;
  return as_good && a.seconds <= b.seconds && (better || a.seconds < b.seconds);
}

void compare(json& rows) {
  std::vector<Standing> standings;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const json& row = rows[i];
    if (row.at("status") != "ok") continue;
    Standing standing;
    standing.row = i;
    standing.seconds = row.at("seconds").get<double>();
    const json& excess = row.at("excess");
    standing.excess =
        excess.is_number() ? excess.get<double>() : std::numeric_limits<double>::infinity();
    standing.outside = !row.at("outside").is_null();
    if (const json& to = row.at("seconds_to_near_best"); to.is_number()) {
      standing.to_near_best = to.get<double>();
    }
    standings.push_back(standing);
  }
  std::optional<double> quickest;
  for (const auto& standing : standings) {
    if (!standing.to_near_best || standing.outside) continue;
    quickest = std::min(quickest.value_or(*standing.to_near_best), *standing.to_near_best);
  }
  for (const auto& standing : standings) {
    json& row = rows[standing.row];
    row["front"] = std::none_of(standings.begin(), standings.end(),
                                [&](const Standing& other) { return beats(other, standing); });
    if (quickest && standing.to_near_best)
      row["over_quickest"] = *standing.to_near_best / *quickest;
  }
}

json calls_of(const std::vector<FitRow>& rows) {
  json calls = json::array();
  for (const auto& row : rows) {
    if (row.status != "ok") continue;
    for (const auto& call : row.calls) {
      calls.push_back({{"estimator", row.estimator},
                       {"seed", call.seed},
                       {"process", call.process},
                       {"seconds", call.seconds},
                       {"inertia", finite_or_null(call.judgement.inertia)},
                       {"iterations", call.iterations ? json(*call.iterations) : json()},
                       {"converged", call.converged ? json(*call.converged) : json()},
                       {"objective", call.objective ? finite_or_null(*call.objective) : json()},
                       {"left", finite_or_null(call.judgement.left)},
                       {"label_hash", call.judgement.label_hash},
                       {"centroid_hash", call.judgement.centroid_hash}});
    }
  }
  return calls;
}

std::vector<std::string> notes_on(const std::vector<FitRow>& rows, const json& results,
                                  const FitJob& job) {
  std::vector<std::string> notes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const FitRow& row = rows[i];
    if (row.status != "ok") continue;
    if (row.cut_short) {
      notes.push_back(row.estimator + ": " + std::to_string(row.calls.size()) + " of " +
                      std::to_string(job.seeds) + " seeds, which is what " +
                      format_seconds(job.max_seconds) + " allow.");
    }
    const json& reported = results[i].at("reported_over_inertia");
    const std::string of = row.said.value("objective", "");
    if (reported.is_number() && std::abs(reported.get<double>() - 1) > kEqualObjective) {
      notes.push_back(row.estimator + " reports " + formatted("%.4g", reported.get<double>()) +
                      " times the inertia of its answer" +
                      (of.empty() ? "." : ": that of " + of + "."));
    }
    if (results[i].at("labels_of") == "iteration before") {
      notes.push_back(row.estimator +
                      ": labels are those of the iteration before; the centroids are the means of "
                      "the points that carry them.");
    }
    if (!results[i].at("outside").is_null()) {
      notes.push_back(row.estimator +
                      ": outside the clock: " + results[i].at("outside").get<std::string>() + ".");
    }
  }
  return notes;
}

/// Of the unit: a wrong answer counts for more than a failure, and both for more than what was measured.
std::string status_among(const std::vector<FitRow>& rows, std::string& reason) {
  for (const char* status : {"wrong", "error"}) {
    for (const auto& row : rows) {
      if (row.status != status) continue;
      reason = row.estimator + ": " + row.reason;
      return status;
    }
  }
  for (const auto& row : rows) {
    if (row.status == "ok") return "ok";
  }
  reason = "no estimator runs here: " + rows.front().estimator + ": " + rows.front().reason;
  return "skipped";
}

}  // namespace

json fit_result(const std::vector<FitRow>& given, const FitJob& job) {
  std::vector<FitRow> rows = given;
  for (auto& row : rows) {
    if (row.status != "ok" || !row.calls.empty()) continue;
    row.status = "error";
    row.reason = "no call came to an end";
  }
  const Best best = best_of(rows, job);
  json table = json::array();
  json libraries = json::object();
  for (const auto& row : rows) {
    table.push_back(row_of(row, best, job));
    const json library = row.said.value("library", json::object());
    libraries[row.estimator] = {{"call", row.said.value("summary", json())},
                                {"library", library},
                                {"seeding", row.said.value("seeding", json())},
                                {"verification", to_json(row.certificate)}};
  }
  compare(table);
  std::string reason;
  const std::string status = status_among(rows, reason);
  json found = nullptr;
  if (std::isfinite(best.inertia)) {
    found = {{"inertia", best.inertia},
             {"estimator", best.estimator.empty() ? json() : json(best.estimator)},
             {"seed", best.estimator.empty() ? json() : json(best.seed)}};
  }
  return {{"status", status},
          {"reason", reason.empty() ? json() : json(valid_utf8(reason))},
          {"best", found},
          {"notes", notes_on(rows, table, job)},
          {"rows", std::move(table)},
          {"calls", calls_of(rows)},
          {"estimators", std::move(libraries)}};
}

}  // namespace kmeans
