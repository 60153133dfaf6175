// SPDX-License-Identifier: Apache-2.0
//
// The verdicts of `reproduce` on cells, traces, studies and fits.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "datasets/points.h"
#include "harness/run/reproduce_parts.h"
#include "harness/support/formatted.h"
#include "harness/support/json_file.h"
#include "harness/support/text.h"
#include "harness/variants/missing_backend.h"
#include "harness/variants/registry.h"

namespace kmeans {
namespace reproduce_parts {
namespace {

using nlohmann::json;

// A value in a sentence: a text without quotes, nothing for null.
std::string shown(const json& value) {
  if (value.is_null()) return "nothing";
  return value.is_string() ? valid_utf8(value.get<std::string>()) : to_line(value);
}

json number_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? json(*value) : json(nullptr);
}

std::vector<std::string> clauses(const std::vector<AnswerDifference>& differences) {
  std::vector<std::string> texts;
  for (const auto& [what, recorded, here] : differences) {
    const bool unsaid = recorded.is_null() && here.is_null();
    texts.push_back(unsaid ? what + " differ" : was_and_is(what, recorded, here));
  }
  return texts;
}

// A result of the same variant that is this far off is another result; the bound is the verifier's.
std::optional<std::string> inertia_beyond_bound(double recorded, double here,
                                                EmptyClusters empty_clusters = EmptyClusters::keep,
                                                bool met_empty_clusters = false,
                                                const InertiaFloor& floor = {}) {
  Traits traits;
  traits.empty_clusters = empty_clusters;
  Certificate certificate;
  certify_trajectory(traits, here, recorded, met_empty_clusters, certificate, floor);
  if (certificate.passed) return std::nullopt;
  return certificate.checks.front().detail;
}

double largest_coordinate(const std::string& points_file, ScalarType scalar) {
  const Points points = load_made(points_file, scalar);
  const std::int64_t count = points.n() * points.d();
  return scalar == ScalarType::f64
             ? largest_abs(points.data<double>(), count, 1)
             : static_cast<double>(largest_abs(points.data<float>(), count, 1));
}

std::string relative_difference(double recorded, double here) {
  return formatted("%.2g", recorded != 0 ? std::abs(here / recorded - 1) : std::abs(here));
}

// Breaking because a limit of this machine was reached says nothing about the answer.
bool is_a_limit(const std::string& problem) {
  return problem.find("timeout after") == 0 || problem.find("killed by SIGKILL") == 0 ||
         problem.find("out of host memory") != std::string::npos ||
         problem.find("out of memory") != std::string::npos;
}

// Rows of a study that its own arithmetic made, without what `varying` names, and the variants of the
// suite and libraries that made others.
std::vector<json> own_rows(const json& study, const json& varying, std::set<std::string>& others) {
  std::vector<json> rows;
  const json all = member(study, "rows");
  if (!all.is_array()) return rows;
  for (const auto& row : all) {
    const std::string by = text_of(member(row, "by"));
    const std::string library = text_of(member(row, "library"));
    if (!by.empty() && is_variant(by)) {
      others.insert(by);
    } else if (!library.empty()) {
      others.insert(library);
    } else {
      rows.push_back(row);
      for (const auto& key : varying) rows.back().erase(text_of(key));
    }
  }
  return rows;
}

// The first members in which two flat objects differ.
std::string object_difference(const json& recorded, const json& here) {
  std::vector<std::string> clauses;
  std::set<std::string> keys;
  for (const json* object : {&recorded, &here}) {
    if (!object->is_object()) continue;
    for (const auto& [key, value] : object->items()) keys.insert(key);
  }
  for (const auto& key : keys) {
    const json before = member(recorded, key.c_str());
    const json now = member(here, key.c_str());
    if (before != now && clauses.size() < 3) clauses.push_back(was_and_is(key, before, now));
  }
  return joined(clauses);
}

}  // namespace

bool is_variant(const std::string& name) {
  return find_variant(name) != nullptr || missing_backend_of(name) != nullptr;
}

std::vector<std::string> exact_estimators(const json& fit) {
  std::vector<std::string> names;
  for (const auto& row : member(fit, "rows")) {
    if (member(row, "status") == "ok" && member(row, "exact") == true) {
      names.push_back(text_of(member(row, "estimator")));
    }
  }
  return names;
}

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::string was_and_is(const std::string& what, const json& recorded, const json& here) {
  return what + ": " + shown(recorded) + " on record, " + shown(here) + " here";
}

std::string joined(const std::vector<std::string>& clauses, const char* between) {
  std::string text;
  for (const auto& clause : clauses) text += (text.empty() ? "" : between) + clause;
  return text;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

Judgement judge_failure(const std::string& problem) {
  const std::string line = first_line(problem);
  if (is_a_limit(problem)) return {Reproduced::not_run, line};
  return {Reproduced::differs, "breaks here: " + line};
}

Judgement judge_certified(const CellResult& cell, const JobResult& here, const Traits& traits,
                          const std::string& points_file) {
  if (here.status == "skipped") return {Reproduced::not_run, first_line(here.reason)};
  if (here.status != "ok") {
    return {Reproduced::differs, "fails its certificate here: " + first_line(here.reason)};
  }
  const auto differences = differences_of(cell, here);
  if (differences.empty()) return {Reproduced::equal, ""};
  // Without what was found there, nothing here can agree with it.
  if (const auto absent = absent_answers(cell); !absent.empty()) {
    return {Reproduced::differs, "not on record: " + joined(absent, ", ")};
  }
  if (!cell.inertia || !std::isfinite(here.inertia)) {
    return {Reproduced::differs,
            was_and_is("inertia", number_or_null(cell.inertia), number_or_null(here.inertia))};
  }
  const bool met_empty_clusters =
      here.any_empty_clusters || (cell.empty_clusters && *cell.empty_clusters > 0);
  const auto beyond_bound = [&](const InertiaFloor& floor) {
    return inertia_beyond_bound(*cell.inertia, here.inertia, traits.empty_clusters,
                                met_empty_clusters, floor);
  };
  const Shape& shape = cell.key.shape;
  if (beyond_bound({})) {
    const double largest = largest_coordinate(points_file, points_scalar(shape.precision));
    if (const auto beyond = beyond_bound(repetition_floor(traits, shape, here.scale, largest))) {
      return {Reproduced::differs, "inertia beyond the bound: " + *beyond};
    }
  }
  const bool labels = cell.label_hash == here.label_hash;
  return {Reproduced::agrees, std::string("certified here; ") +
                                  (labels ? "same labels, other centroids" : "other bits") +
                                  "; inertia differs by a relative " +
                                  relative_difference(*cell.inertia, here.inertia)};
}

}  // namespace reproduce_parts

using namespace reproduce_parts;

InertiaFloor repetition_floor(const Traits& traits, const Shape& shape,
                              const TrajectoryScale& scale, double max_abs) {
  return trajectory_floor(traits, shape, points_scalar(shape.precision), scale, max_abs);
}

std::vector<std::string> differences_of(const CellResult& recorded, const JobResult& here) {
  Answer answer{here.inertia, here.label_hash, here.centroid_hash, here.empty_clusters};
  if (!std::isfinite(here.inertia)) answer.inertia.reset();
  return clauses(answer_differences(recorded, answer));
}

std::vector<std::string> absent_answers(const CellResult& recorded) {
  std::vector<std::string> absent;
  if (!recorded.label_hash) absent.emplace_back("the hash of its labels");
  if (!recorded.centroid_hash) absent.emplace_back("the hash of its centroids");
  if (!recorded.empty_clusters) absent.emplace_back("its empty clusters");
  return absent;
}

Judgement judge_trace(const json& recorded, const json& here, bool promised,
                      const std::function<InertiaFloor()>& floor) {
  const json before = member(recorded, "iterations");
  const json now = member(here, "iterations");
  if (!before.is_array() || !now.is_array() || now.empty()) {
    return {Reproduced::differs,
            "no iterations " + std::string(now.is_array() ? "here" : "at all")};
  }
  if (member(recorded, "label_hash").is_null() && !member(here, "label_hash").is_null()) {
    return {Reproduced::differs, "not on record: the hash of its labels"};
  }
  const auto differences = clauses(trace_differences(recorded, here));
  const std::size_t common = std::min(before.size(), now.size());
  if (differences.empty()) return {Reproduced::equal, ""};
  if (promised) return {Reproduced::differs, joined(differences)};
  double largest = 0;
  for (std::size_t i = 0; i < common; ++i) {
    const json was = member(before[i], "inertia");
    const json is = member(now[i], "inertia");
    if (!was.is_number() || !is.is_number()) {
      if (was != is) return {Reproduced::differs, was_and_is("inertia", was, is)};
      continue;
    }
    auto beyond = inertia_beyond_bound(was.get<double>(), is.get<double>());
    if (beyond && floor) {
      beyond = inertia_beyond_bound(was.get<double>(), is.get<double>(), EmptyClusters::keep, false,
                                    floor());
    }
    if (beyond) {
      return {Reproduced::differs,
              "inertia of iteration " + std::to_string(i + 1) + " beyond the bound: " + *beyond};
    }
    const double scale = was.get<double>() != 0 ? std::abs(was.get<double>()) : 1;
    largest = std::max(largest, std::abs(is.get<double>() - was.get<double>()) / scale);
  }
  return {Reproduced::agrees,
          formatted("inertia within a relative %.2g over %zu iterations; ", largest, common) +
              joined(differences)};
}

Judgement judge_study(const json& recorded, const json& here) {
  std::set<std::string> others;
  const json varying = member(recorded, "varying");
  const auto before = own_rows(recorded, varying, others);
  const auto now = own_rows(here, varying, others);
  if (member(here, "status") != "ok") {
    return {Reproduced::differs, "ok on record, here " + shown(member(here, "status")) + ": " +
                                     shown(member(here, "reason"))};
  }
  if (before.size() != now.size()) {
    return {Reproduced::differs, was_and_is("rows", before.size(), now.size())};
  }
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] != now[i]) {
      return {Reproduced::differs, "row " + std::to_string(i + 1) + " of " +
                                       std::to_string(before.size()) + ": " +
                                       object_difference(before[i], now[i])};
    }
  }
  const json findings = member(recorded, "findings");
  const json findings_here = member(here, "findings");
  if (findings != findings_here) {
    return {Reproduced::differs, "findings: " + object_difference(findings, findings_here)};
  }
  std::vector<std::string> left_out;
  if (!others.empty()) {
    left_out.push_back("the rows of " + joined({others.begin(), others.end()}, ", "));
  }
  if (varying.is_array() && !varying.empty()) {
    left_out.emplace_back("times and what rests on a library's answer");
  }
  return {Reproduced::equal, left_out.empty() ? "" : "without " + joined(left_out, ", and ")};
}

Judgement judge_fit(const json& recorded, const json& here) {
  const auto estimators = exact_estimators(recorded);
  const auto key_of = [](const json& call) {
    return std::pair(text_of(member(call, "estimator")), member(call, "seed"));
  };
  const json now = member(here, "calls");
  std::size_t compared = 0;
  for (const auto& call : member(recorded, "calls")) {
    const auto key = key_of(call);
    if (std::find(estimators.begin(), estimators.end(), key.first) == estimators.end()) continue;
    const auto found = std::find_if(now.begin(), now.end(),
                                    [&](const json& other) { return key_of(other) == key; });
    if (found == now.end()) continue;
    ++compared;
    std::vector<std::string> clauses;
    for (const char* what : {"label_hash", "centroid_hash", "inertia", "iterations"}) {
      const json before = member(call, what);
      const json after = member(*found, what);
      if (before != after) clauses.push_back(was_and_is(what, before, after));
    }
    if (!clauses.empty()) {
      return {Reproduced::differs,
              key.first + ", seed " + shown(key.second) + ": " + joined(clauses)};
    }
  }
  if (compared == 0) {
    const std::string reason = text_of(member(here, "reason"));
    return {Reproduced::differs, "no call of " + joined(estimators, ", ") + " came to an end here" +
                                     (reason.empty() ? "" : ": " + first_line(reason))};
  }
  return {Reproduced::equal, std::to_string(compared) + " fits of " + joined(estimators, ", ") +
                                 "; without those of other libraries, and times"};
}

}  // namespace kmeans
