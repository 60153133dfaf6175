// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "datasets/dataset.h"
#include "harness/run/follow.h"
#include "harness/run/job_members.h"
#include "harness/run/trace_job.h"
#include "harness/support/random.h"
#include "harness/variants/python_backend.h"
#include "harness/verify/session.h"

namespace kmeans {
namespace {

constexpr std::int64_t kWarmUpIterations = 3;

template <class T>
nlohmann::json nested_rows(const T* values, std::int64_t rows, std::int64_t columns) {
  nlohmann::json json = nlohmann::json::array();
  for (std::int64_t row = 0; row < rows; ++row) {
    json.push_back(std::vector<T>(values + row * columns, values + (row + 1) * columns));
  }
  return json;
}

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Infinite next to a known zero, and where what was found is not a number: neither may pass for small.
double relative_error(double found, double known) {
  const double difference = std::abs(found - known);
  if (difference == 0) return 0;
  const double error = difference / std::abs(known);
  return std::isfinite(error) ? error : kInfinite;
}

std::string error_text(double error) {
  return std::isfinite(error) ? nlohmann::json(error).dump()
                              : "infinite (a known value is 0, or a found one is not a number)";
}

// Centroids after an iteration against known ones: the largest error as a share of the tolerance.
template <class T>
void judge_centroids(const nlohmann::json& expected, std::int64_t iteration,
                     const std::vector<T>& centroids, double& worst, std::size_t& judged) {
  for (const auto& known : expected.value("centroids", nlohmann::json::array())) {
    if (known.at("iteration") != iteration) continue;
    ++judged;
    const double tolerance = known.at("absolute_tolerance");
    std::size_t at = 0;
    for (const auto& row : known.at("values")) {
      for (const auto& value : row) {
        const double found = at < centroids.size() ? static_cast<double>(centroids[at]) : kInfinite;
        const double error = std::abs(found - value.get<double>()) / tolerance;
        worst = std::max(worst, std::isnan(error) ? kInfinite : error);
        ++at;
      }
    }
    if (at != centroids.size()) worst = kInfinite;
  }
}

nlohmann::json judge_expected(const nlohmann::json& expected,
                              const std::vector<IterationRecord>& records,
                              const std::vector<std::int32_t>& labels,
                              double centroid_error_of_tolerance, std::size_t centroids_judged) {
  const double tolerance = expected.value("relative_tolerance", 1e-9);
  const auto& inertia = expected.at("inertia");
  double worst = 0;
  bool enough = records.size() >= inertia.size();
  for (std::size_t i = 0; i < std::min(records.size(), inertia.size()); ++i) {
    const double value = inertia[i];
    worst = std::max(worst, relative_error(records[i].inertia, value));
  }
  bool labels_equal = true;
  if (expected.contains("labels_begin")) {
    const auto begin = expected.at("labels_begin").get<std::vector<std::int32_t>>();
    labels_equal =
        begin.size() <= labels.size() && std::equal(begin.begin(), begin.end(), labels.begin());
  }
  const std::size_t centroids = expected.value("centroids", nlohmann::json::array()).size();
  enough = enough && centroids_judged == centroids;
  nlohmann::json judged{
      {"inertia_relative_error", worst},
      {"relative_tolerance", tolerance},
      {"labels_begin_equal", labels_equal},
      {"passed", enough && worst <= tolerance && labels_equal && centroid_error_of_tolerance <= 1}};
  if (centroids > 0) judged["centroid_error_of_tolerance"] = centroid_error_of_tolerance;
  return judged;
}

std::string why_missed(const nlohmann::json& judged) {
  std::string text = "the known answer was missed: largest relative error of the inertia " +
                     error_text(judged.at("inertia_relative_error"));
  if (!judged.at("labels_begin_equal").get<bool>()) text += ", other first labels";
  if (judged.contains("centroid_error_of_tolerance")) {
    text += ", largest error of a centroid as a multiple of its tolerance " +
            error_text(judged.at("centroid_error_of_tolerance"));
  }
  return text;
}

/// Between which centroids the first and the last step of a trace led: what a certificate needs.
template <class T>
struct Ends {
  Outcome<T> first;
  std::vector<T> before;  // centroids that the last step started from
  std::vector<T> latest;  // and those that it led to

  void see(const Session<T>& session, const IterationRecord& record, const Outcome<T>& outcome) {
    if (record.iteration == 1) first = outcome;
    before = record.iteration == 1 ? session.initial() : std::move(latest);
    latest = outcome.centroids;
  }
};

/// The certificate that a cell would need, of the first and the last step.
template <class T>
Certificate certify_ends(const Session<T>& session, const Ends<T>& ends, const Outcome<T>& last,
                         std::size_t iterations) {
  Certificate certificate;
  certificate.merge(
      certify_step(session.traits(), session.evidence(session.initial(), ends.first), {}),
      "first iteration: ");
  if (iterations > 1) {
    certificate.merge(certify_step(session.traits(), session.evidence(ends.before, last), {}),
                      "last iteration: ");
  }
  return certificate;
}

/// Status and reason of a trace by its certificate, the known answer, and what its variant says of
/// itself.
void settle_status(const Certificate& certificate, const Traits& traits, nlohmann::json& trace) {
  if (!certificate.passed) {
    trace["status"] = "wrong";
    trace["reason"] = certificate.failure();
  } else if (trace["expected"].is_object() && !trace["expected"].at("passed").get<bool>()) {
    trace["status"] = "wrong";
    trace["reason"] = why_missed(trace["expected"]);
  } else if (!traits.wrong_because.empty()) {
    trace["status"] = "skipped";
    trace["reason"] =
        "kept although wrong (" + traits.wrong_because + "): right on this input, but never timed";
  }
}

// Rows of a random sample without replacement, in ascending order.
std::vector<std::int64_t> sample_rows(std::int64_t n, std::int64_t count, std::uint64_t seed) {
  count = std::min(n, count);
  std::set<std::int64_t> rows;
  SplitMix64 random(seed);
  while (static_cast<std::int64_t>(rows.size()) < count) rows.insert(random.below(n));
  return {rows.begin(), rows.end()};
}

/// Seconds of whole runs of so many iterations, one after another: as many as asked for, or as fit
/// the budget, but one.
template <class T>
std::vector<double> time_runs(Session<T>& session, std::int64_t iterations, int runs,
                              double max_seconds) {
  std::vector<double> seconds;
  double spent = 0;
  while (seconds.empty() ||
         (static_cast<int>(seconds.size()) < runs && spent + seconds.front() <= max_seconds)) {
    session.reset();
    seconds.push_back(session.step(iterations));
    spent += seconds.back();
  }
  return seconds;
}

template <class T>
nlohmann::json sampled_points(const Problem<T>& problem, const std::vector<std::int32_t>& labels,
                              const TraceJob& job) {
  nlohmann::json coordinates = nlohmann::json::array();
  std::vector<std::int32_t> kept;
  const std::int64_t d = problem.shape.d;
  const auto rows = sample_rows(problem.shape.n, job.keep_points, job.sample_seed);
  for (const std::int64_t row : rows) {
    const T* point = problem.points + row * d;
    coordinates.push_back(std::vector<T>(point, point + d));
    kept.push_back(labels[row]);
  }
  return {{"coordinates", coordinates}, {"labels", kept}, {"rows", rows}};
}

template <class T>
nlohmann::json run_trace_typed(const TraceJob& job, const RegisteredVariant& registered) {
  const Points points = load_made(job.points_file, scalar_of<T>);
  const Points centroids = load_made(job.centroids_file, scalar_of<T>);
  const auto problem = make_problem<T>(points, job.k, job.precision, job.threads, job.points_file);
  nlohmann::json trace{{"variant", job.variant},
                       {"precision", to_string(job.precision)},
                       {"n", points.n()},
                       {"d", points.d()},
                       {"k", job.k},
                       {"status", "ok"},
                       {"reason", nullptr},
                       {"iterations", nlohmann::json::array()},
                       {"expected", nullptr},
                       {"verification", nullptr},
                       {"seconds_per_iteration", nullptr},
                       {"runs_seconds", nullptr},
                       {"label_hash", nullptr},
                       {"labels_begin", nlohmann::json::array()}};
  if (const Support support = supports(registered, problem.shape); !support.ok) {
    trace["status"] = "skipped";
    trace["reason"] = support.reason;
    return trace;
  }
  Session<T> session(registered, problem, centroids.data<T>());
  if (job.runs_of > 0) {
    session.reset();
    session.step(std::min(job.runs_of, kWarmUpIterations));
    return {{"runs_seconds", {time_runs(session, job.runs_of, job.runs, job.max_seconds)}}};
  }
  if (job.verify_threads > 0) session.set_verify_threads(job.verify_threads);
  double centroid_error = 0;
  std::size_t centroids_judged = 0;
  Ends<T> ends;
  const auto followed =
      follow(session, job.iterations, parse_stop(job.stop),
             [&](const IterationRecord& record, const Outcome<T>& outcome) {
               ends.see(session, record, outcome);
               if (!job.expected.is_null()) {
                 judge_centroids(job.expected, record.iteration, outcome.centroids, centroid_error,
                                 centroids_judged);
               }
               nlohmann::json row = to_json(record);
               if (job.keep_centroids) {
                 row["centroids"] = nested_rows(outcome.centroids.data(), job.k, points.d());
               }
               trace["iterations"].push_back(row);
             });
  const auto& labels = followed.outcome.labels;
  trace["label_hash"] = followed.outcome.label_hash();
  trace["labels_begin"] = std::vector<std::int32_t>(
      labels.begin(), labels.begin() + std::min<std::int64_t>(10, points.n()));
  if (!job.expected.is_null()) {
    trace["expected"] =
        judge_expected(job.expected, followed.records, labels, centroid_error, centroids_judged);
  }
  const Certificate certificate =
      certify_ends(session, ends, followed.outcome, followed.records.size());
  trace["verification"] = to_json(certificate);
  trace["trajectory"] = {{"max_abs", problem.max_abs}};
  if (certificate.passed) {  // labels that are none have no scale
    trace["trajectory"]["scale"] =
        to_json(trajectory_scale(ends.before.data(), labels.data(), problem.shape));
  }
  settle_status(certificate, registered.traits, trace);
  if (trace["status"] == "ok") {
    trace["seconds_per_iteration"] =
        followed.step_seconds / static_cast<double>(followed.records.size());
  }
  if (job.runs > 0 && trace["status"] == "ok") {
    const auto executed = static_cast<std::int64_t>(followed.records.size());
    trace["runs_seconds"] = {time_runs(session, executed, job.runs, job.max_seconds)};
  }
  if (job.keep_points > 0) trace["points"] = sampled_points(problem, labels, job);
  return trace;
}

}  // namespace

template <IsA<TraceJob> M, class Visit>
void members(M& job, const Visit& visit) {
  variant_members(job, visit);
  visit("keep_points", job.keep_points);
  visit("keep_centroids", job.keep_centroids);
  visit("sample_seed", job.sample_seed);
  visit("expected", job.expected);
  visit("stop", job.stop);
  visit("runs", job.runs);
  visit("runs_of", job.runs_of);
}

nlohmann::json to_json(const TraceJob& job) { return message_to_json(job); }

TraceJob trace_job_from_json(const nlohmann::json& json) {
  return message_from_json<TraceJob>(json);
}

nlohmann::json run_trace(const TraceJob& job) {
  const RegisteredVariant& registered = require_variant_of_worker(job.variant);
  return job.precision == Precision::f64 ? run_trace_typed<double>(job, registered)
                                         : run_trace_typed<float>(job, registered);
}

int run_trace_worker(const std::string& job_file, const std::string& result_file) {
  return answer_job("trace-worker", job_file, result_file,
                    [](const auto& job) { return run_trace(trace_job_from_json(job)); });
}

}  // namespace kmeans
