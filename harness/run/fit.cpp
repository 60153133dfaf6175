// SPDX-License-Identifier: Apache-2.0
#include "harness/run/fit.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <set>

#include "datasets/dataset.h"
#include "harness/machine/gpu_option.h"
#include "harness/machine/machine.h"
#include "harness/machine/ranks.h"
#include "harness/run/job.h"
#include "harness/run/out_folder.h"
#include "harness/support/atomic_file.h"
#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/support/json_members.h"
#include "harness/support/option_checks.h"
#include "harness/support/precision.h"
#include "harness/support/text.h"
#include "harness/variants/plugins.h"
#include "harness/variants/python_backend.h"
#include "harness/verify/resolution.h"
#include "harness/verify/session.h"

namespace kmeans {
namespace {

constexpr std::int64_t kDefaultIterations = 300;
constexpr std::int64_t kWarmUpIterations = 3;

double parse_threshold(const std::string& text, const std::string& rule) {
  double value = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !(value >= 0) || !std::isfinite(value)) {
    throw InputError("--stop " + rule + ":E needs a number E >= 0, not '" + text + "'");
  }
  return value;
}

// By the variant's own sums where it keeps them: a program stops by what it computes, and a loss
// that is added in floats settles elsewhere than a right one (docs/errata.md).
bool stops(const StopRule& rule, const IterationRecord& now, const IterationRecord* before) {
  const auto loss = [](const IterationRecord& record) {
    return record.own.loss.value_or(record.loss);
  };
  switch (rule.kind) {
    case StopRule::Kind::never: return false;
    case StopRule::Kind::labels: return now.own.changed.value_or(now.changed) == 0;
    case StopRule::Kind::movement: return now.own.movement.value_or(now.movement) <= rule.threshold;
    case StopRule::Kind::loss:
      return before != nullptr && std::abs(loss(now) - loss(*before)) < rule.threshold;
  }
  return false;
}

nlohmann::json to_json(const IterationRecord& record) {
  nlohmann::json json{{"iteration", record.iteration}, {"inertia", record.inertia},
                      {"loss", record.loss},           {"movement", record.movement},
                      {"changed", record.changed},     {"empty_clusters", record.empty_clusters}};
  if (record.own.loss) json["own_loss"] = *record.own.loss;
  if (record.own.movement) json["own_movement"] = *record.own.movement;
  if (record.own.changed) json["own_changed"] = *record.own.changed;
  return json;
}

// Follows one clustering. `seen` gets each record with the outcome it was computed from.
template <class T>
struct Followed {
  std::vector<IterationRecord> records;
  Outcome<T> outcome;
  double step_seconds = 0;  // of the steps alone
};

template <class T, class Seen>
Followed<T> follow(Session<T>& session, std::int64_t iterations, const StopRule& rule,
                   const Seen& seen) {
  const Shape shape = session.problem().shape;
  Followed<T> followed;
  std::vector<T> starting = session.initial();
  std::vector<std::int32_t> labels_before;
  session.reset();
  for (std::int64_t iteration = 1; iteration <= iterations; ++iteration) {
    followed.step_seconds += session.step(1);
    Outcome<T> outcome = session.fetch();
    for (const std::int32_t label : outcome.labels) {
      if (label < 0 || label >= shape.k) {
        throw std::runtime_error(session.traits().name + " gave the label " +
                                 std::to_string(label) + ", outside [0, k)");
      }
    }
    const bool returned = session.traits().labels_of == LabelsOf::returned;
    const Quality quality =
        session.quality(returned ? outcome.centroids.data() : starting.data(), outcome);
    IterationRecord record;
    record.iteration = iteration;
    record.inertia = quality.inertia;
    record.loss = quality.loss;
    record.empty_clusters = quality.empty_clusters;
    record.own = session.variant().progress();
    for (std::size_t c = 0; c < starting.size(); ++c) {
      const double moved =
          static_cast<double>(outcome.centroids[c]) - static_cast<double>(starting[c]);
      record.movement += moved * moved;
    }
    record.changed = shape.n;
    if (!labels_before.empty()) {
      record.changed = 0;
      for (std::int64_t i = 0; i < shape.n; ++i) {
        record.changed += outcome.labels[i] != labels_before[i];
      }
    }
    labels_before = outcome.labels;
    starting = outcome.centroids;
    seen(record, outcome);
    const IterationRecord* before = followed.records.empty() ? nullptr : &followed.records.back();
    const bool stop = stops(rule, record, before);
    followed.records.push_back(record);
    followed.outcome = std::move(outcome);
    if (stop) break;
  }
  return followed;
}

template <class T>
nlohmann::json nested_rows(const T* values, std::int64_t rows, std::int64_t columns) {
  nlohmann::json json = nlohmann::json::array();
  for (std::int64_t row = 0; row < rows; ++row) {
    json.push_back(std::vector<T>(values + row * columns, values + (row + 1) * columns));
  }
  return json;
}

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Infinite beside a known zero, and where what was found is not a number: neither may pass for small.
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
  std::uint64_t state = seed;
  while (static_cast<std::int64_t>(rows.size()) < count) {
    state += 0x9E3779B97F4A7C15u;
    std::uint64_t z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    rows.insert(static_cast<std::int64_t>((z ^ (z >> 31)) % static_cast<std::uint64_t>(n)));
  }
  return {rows.begin(), rows.end()};
}

template <class T>
Problem<T> make_problem(const Points& points, std::int64_t k, Precision precision, int threads,
                        const std::string& points_file) {
  Problem<T> problem;
  problem.shape = {points.n(), points.d(), k, precision};
  problem.points = points.data<T>();
  Communicator& ranks = process_ranks();
  problem.max_abs = ranks.size() > 1 && !points_file.empty()
                        ? survey_rows<T>(ranks, points_file, threads)
                        : largest_abs(problem.points, points.n() * points.d(), threads);
  problem.threads = threads;
  problem.points_file = points_file;
  return problem;
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
nlohmann::json run_trace_typed(const TraceJob& job, const RegisteredVariant& registered) {
  LoadOptions as_stored;
  as_stored.scalar = scalar_of<T>;
  as_stored.check_finite = false;  // checked when the data set was made
  const Points points = load_points(job.points_file, as_stored);
  const Points centroids = load_points(job.centroids_file, as_stored);
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
  if (job.keep_points > 0) {
    nlohmann::json coordinates = nlohmann::json::array();
    std::vector<std::int32_t> kept_labels;
    const auto rows = sample_rows(points.n(), job.keep_points, job.sample_seed);
    for (const std::int64_t row : rows) {
      const T* point = problem.points + row * points.d();
      coordinates.push_back(std::vector<T>(point, point + points.d()));
      kept_labels.push_back(labels[row]);
    }
    trace["points"] = {{"coordinates", coordinates}, {"labels", kept_labels}, {"rows", rows}};
  }
  return trace;
}

constexpr const char* kOfGpus = "nccl_exact";
constexpr const char* kOfLittleMemory = "openmp_blocks";

// An exact variant: the fastest that needs no GPU, or the one for several ranks.
std::string default_variant() {
  constexpr const char* kOfRanks = "mpi_exact";
  if (process_ranks().size() > 1 && find_variant(kOfRanks) != nullptr) return kOfRanks;
  const auto* threads = exact_engine(EngineOn::threads);
  return (threads != nullptr ? *threads : definition()).traits.name;
}

struct FitOptions {
  std::string file;
  std::int64_t k = 0;
  std::string variant = default_variant();
  bool variant_is_chosen = false;
  std::string precision;
  std::string init = "kmeans++:1";
  std::int64_t iterations = 0;
  std::string stop;
  int threads = 0;
  std::string out;
  std::int64_t drop_last_columns = 0;
  bool json = false;
};

// Says what the precision, or the exact step, cannot do with these points. Throws InputError where
// the answer would be none.
template <class T>
void check_range(const Problem<T>& problem, const Traits& traits) {
  const auto [n, d, k, precision] = problem.shape;
  if constexpr (std::is_same_v<T, float>) {
    const std::string lost = lost_by_fixed_point_at(problem.points, n, d, problem.max_abs);
    if (!lost.empty() && traits.exact) throw InputError(lost);
    if (!lost.empty()) {
      std::fprintf(stderr, "kmeans-bench: note: %s; %s is none\n", lost.c_str(),
                   traits.name.c_str());
    }
  }
  // Exact variants form distances in float64 whatever their points are.
  const bool wide = traits.exact || precision == Precision::f64;
  const double largest = wide ? std::numeric_limits<double>::max()
                              : static_cast<double>(std::numeric_limits<float>::max());
  const double smallest = wide ? std::numeric_limits<double>::min()
                               : static_cast<double>(std::numeric_limits<float>::min());
  const auto max_abs = static_cast<double>(problem.max_abs);
  // Squared distances are at most d (2 max|x|)^2; where max|x| squared underflows, all do.
  if (max_abs > std::sqrt(largest / static_cast<double>(d)) / 2) {
    std::fprintf(
        stderr,
        "kmeans-bench: warning: coordinates up to %.3g: their squared distances may exceed "
        "the range of %s (%.2g); rescale the points%s\n",
        max_abs, wide ? "float64" : "float32", largest, wide ? "" : ", or use f64");
  } else if (max_abs > 0 && max_abs * 0x1p-12 < std::sqrt(smallest)) {
    std::fprintf(stderr,
                 "kmeans-bench: warning: coordinates of at most %.3g: squares of their differences "
                 "vanish in %s (below %.2g); rescale the points%s\n",
                 max_abs, wide ? "float64" : "float32", smallest, wide ? "" : ", or use f64");
  }
}

// What of an answer is not finite; empty if all is.
template <class T>
std::string not_finite(const IterationRecord& last, const std::vector<T>& centroids) {
  std::string what;
  const auto add = [&](bool finite, const char* name) {
    if (!finite) what += (what.empty() ? "" : ", ") + std::string(name);
  };
  add(std::all_of(centroids.begin(), centroids.end(), [](T c) { return std::isfinite(c); }),
      "centroids");
  add(std::isfinite(last.inertia), "inertia");
  add(std::isfinite(last.loss), "loss");
  return what;
}

/// Nothing that is read may be replaced by what is written.
void check_fit_outputs(const FitOptions& options, const InitSpec& init) {
  if (options.out.empty()) return;
  std::vector<NamedFile> inputs{{"the points", options.file}};
  if (init.method == InitSpec::Method::file) inputs.push_back({"the initial centroids", init.file});
  std::vector<NamedFile> outputs;
  for (const char* name : {"centroids.npy", "labels.npy", "summary.json"}) {
    outputs.push_back({std::string("--out: ") + name, std::filesystem::path(options.out) / name});
  }
  check_outputs(outputs, inputs);
}

/// Where every rank can read its rows by itself. What is in another format, rank 0 reads and sends.
std::string file_for_ranks(const FitOptions& options) {
  const std::filesystem::path file = options.file;
  const bool mapped = process_ranks().size() > 1 && file.extension() == ".npy";
  return mapped ? std::filesystem::absolute(file).string() : "";
}

/// One of several copies that do the same work would be of no use to anyone.
void refuse_idle_ranks(const RegisteredVariant& registered) {
  const int ranks = process_ranks().size();
  if (ranks == 1 || registered.traits.shards) return;
  std::string others;
  for (const auto& variant : all_variants()) {
    if (variant.traits.shards) others += (others.empty() ? "" : ", ") + variant.traits.name;
  }
  throw InputError(registered.traits.name + " takes no part of the points, so " +
                   std::to_string(ranks) + " ranks cannot share its work; these can: " + others);
}

/// The same of GPUs.
void refuse_idle_gpus(const RegisteredVariant& registered) {
  if (gpus_in_use() == 1 || registered.traits.many_gpus) return;
  throw InputError(registered.traits.name + " shares its points among no GPUs, so --gpus " +
                   std::to_string(gpus_in_use()) + " would leave them idle; " + kOfGpus + " does");
}

/// What nobody has chosen must fit: where the default variant's own memory does not, the one that takes the
/// points block by block, and a line says so. A mapped file's pages come and go, and do not count.
const RegisteredVariant& that_fits(const FitOptions& options, const RegisteredVariant& chosen,
                                   const Shape& shape, int threads, double available) {
  const auto* blocks = find_variant(kOfLittleMemory);
  if (options.variant_is_chosen || process_ranks().size() > 1 || blocks == nullptr) return chosen;
  if (!chosen.traits.memory_bytes || !takes(blocks->traits, shape.precision)) return chosen;
  const double need = chosen.traits.memory_bytes(shape, threads) + 12 * Sizes(shape).n;
  if (need <= available) return chosen;
  std::fprintf(stderr,
               "kmeans-bench: note: %s needs %s of memory beside the points, has %s: %s takes the "
               "points from where they lie, block by block, in every iteration\n",
               chosen.traits.name.c_str(), format_bytes(need).c_str(),
               format_bytes(available).c_str(), kOfLittleMemory);
  return *blocks;
}

template <class T>
int fit_typed(const FitOptions& options, const RegisteredVariant& chosen, Precision precision) {
  // Before the file is read: what the system keeps of it may count as taken, and can be taken back.
  const auto available = static_cast<double>(available_memory());
  LoadOptions load;
  load.scalar = scalar_of<T>;
  load.csv_drop_last = options.drop_last_columns;
  const InitSpec init = parse_init(options.init);
  check_fit_outputs(options, init);
  const std::string ranks_file = file_for_ranks(options);
  load.check_finite = ranks_file.empty();  // every rank looks through its own rows
  const Points points = load_points(options.file, load);
  const int threads = options.threads > 0 ? options.threads : threads_per_rank();
  if (options.k < 1 || options.k > points.n()) {
    throw InputError("-k " + std::to_string(options.k) + ": must be from 1 to n = " +
                     std::to_string(points.n()) + " (the points of " + options.file + ")");
  }
  if (!options.out.empty()) check_writable(options.out);
  const RegisteredVariant& registered = that_fits(
      options, chosen, {points.n(), points.d(), options.k, precision}, threads, available);
  const auto problem = make_problem<T>(points, options.k, precision, threads, ranks_file);
  if (const Support support = supports(registered, problem.shape); !support.ok) {
    throw InputError(support.reason);
  }
  check_range(problem, registered.traits);
  const Points initial = initial_centroids(points, options.k, init);

  Session<T> session(registered, problem, initial.data<T>());
  StopRule rule = parse_stop(options.stop);
  std::int64_t iterations = options.iterations;
  if (iterations == 0) {
    iterations = kDefaultIterations;
    if (options.stop.empty()) rule.kind = StopRule::Kind::labels;
  }
  if (!options.json) {
    const int used = registered.traits.parallel ? threads : 1;
    const int ranks = process_ranks().size();
    std::printf("%s: n = %s, d = %lld, k = %lld, %s, %s%d thread%s%s, init %s\n",
                registered.traits.name.c_str(), format_count(points.n()).c_str(),
                static_cast<long long>(points.d()), static_cast<long long>(options.k),
                to_string(precision),
                ranks == 1 ? "" : (std::to_string(ranks) + " ranks of ").c_str(), used,
                used == 1 ? "" : "s", ranks == 1 ? "" : " each", options.init.c_str());
    std::printf("%9s  %22s  %22s  %14s  %12s\n", "iteration", "inertia", "loss", "movement",
                "changed");
  }
  const auto followed =
      follow(session, iterations, rule, [&](const IterationRecord& record, const Outcome<T>&) {
        if (options.json) {
          std::printf("%s\n", to_json(record).dump().c_str());
        } else {
          std::printf("%9lld  %22.17g  %22.17g  %14.6g  %12lld\n",
                      static_cast<long long>(record.iteration), record.inertia, record.loss,
                      record.movement, static_cast<long long>(record.changed));
        }
        std::fflush(stdout);
      });
  const IterationRecord& last = followed.records.back();
  const double seconds = followed.step_seconds / static_cast<double>(followed.records.size());
  const nlohmann::json summary{{"summary", true},
                               {"variant", registered.traits.name},
                               {"precision", to_string(precision)},
                               {"n", points.n()},
                               {"d", points.d()},
                               {"k", options.k},
                               {"init", options.init},
                               {"iterations", last.iteration},
                               {"inertia", last.inertia},
                               {"loss", last.loss},
                               {"label_hash", followed.outcome.label_hash()},
                               {"empty_clusters", last.empty_clusters},
                               {"seconds_per_iteration", seconds}};
  if (!options.out.empty()) {
    const std::filesystem::path folder = options.out;
    write_npy(folder / "centroids.npy",
              make_points(followed.outcome.centroids.data(), options.k, points.d()));
    write_npy_labels(folder / "labels.npy", followed.outcome.labels.data(), points.n());
    write_json_file(folder / "summary.json", summary);
  }
  if (options.json) {
    std::printf("%s\n", summary.dump().c_str());
  } else {
    std::printf(
        "\n%lld iterations, inertia %.17g, %lld empty clusters, labels %s, %s per iteration\n",
        static_cast<long long>(last.iteration), last.inertia,
        static_cast<long long>(last.empty_clusters), followed.outcome.label_hash().c_str(),
        format_seconds(seconds).c_str());
    if (!options.out.empty()) {
      std::printf("wrote centroids.npy, labels.npy and summary.json to %s\n", options.out.c_str());
    }
  }
  if (const std::string what = not_finite(last, followed.outcome.centroids); !what.empty()) {
    std::fprintf(stderr,
                 "kmeans-bench: the answer is none: %s not finite after iteration %lld; the points "
                 "leave the range of %s, or changed meanwhile%s\n",
                 what.c_str(), static_cast<long long>(last.iteration), to_string(precision),
                 options.out.empty() ? "" : "; it was written all the same");
    return kExitCellsFailed;
  }
  return kExitOk;
}

int run_fit(const FitOptions& options) {
  const RegisteredVariant& registered = require_variant(options.variant);
  if (const Support available = availability(registered); !available.ok) {
    throw EnvironmentError(options.variant + " is not available here: " + available.reason);
  }
  refuse_idle_ranks(registered);
  refuse_idle_gpus(registered);
  const Precision precision = options.precision.empty() ? registered.traits.precisions.front()
                                                        : parse_precision(options.precision);
  return precision == Precision::f64 ? fit_typed<double>(options, registered, precision)
                                     : fit_typed<float>(options, registered, precision);
}

}  // namespace

StopRule parse_stop(const std::string& text) {
  if (text.empty()) return {};
  if (text == "labels") return {StopRule::Kind::labels, 0};
  if (text.rfind("movement:", 0) == 0) {
    return {StopRule::Kind::movement, parse_threshold(text.substr(9), "movement")};
  }
  if (text.rfind("loss:", 0) == 0) {
    return {StopRule::Kind::loss, parse_threshold(text.substr(5), "loss")};
  }
  throw InputError("--stop '" + text + "': must be labels, movement:E or loss:E");
}

template <IsA<TraceJob> M, class Visit>
void members(M& job, const Visit& visit) {
  visit("variant", job.variant);
  visit("precision", job.precision);
  visit("points_file", job.points_file);
  visit("centroids_file", job.centroids_file);
  visit("k", job.k);
  visit("iterations", job.iterations);
  visit("threads", job.threads);
  visit("keep_points", job.keep_points);
  visit("keep_centroids", job.keep_centroids);
  visit("sample_seed", job.sample_seed);
  visit("expected", job.expected);
  visit("stop", job.stop);
  visit("runs", job.runs);
  visit("max_seconds", job.max_seconds);
  visit("runs_of", job.runs_of);
  visit("verify_threads", job.verify_threads, kMayLack);
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

void add_fit_command(CLI::App& app, std::function<int()>& action) {
  auto options = std::make_shared<FitOptions>();
  auto* fit = app.add_subcommand("fit", "Cluster one file, printing a line per iteration");
  fit->footer(
      "Example:\n"
      "  kmeans-bench fit data.npy -k 4 --variant cpu_naive --precision f64 \\\n"
      "      --init rows:1,3,6,8 --iterations 22\n\n"
      "Inertia in iteration t is that of the labels found in t against the centroids they were\n"
      "found with; loss is the sum of distances (not squared) likewise.");
  fit->add_option("file", options->file,
                  "Points: npy, csv, fvecs, bvecs, fbin, IDX or LIBSVM (docs/datasets.md)")
      ->required();
  fit->add_option("-k,--clusters", options->k, "Number of clusters, 1 to n")
      ->required()
      ->transform(whole_number(std::numeric_limits<std::int64_t>::min()));
  auto* variant =
      fit->add_option("--variant", options->variant, "Which implementation (`kmeans-bench list`)")
          ->capture_default_str();
  fit->add_option("--precision", options->precision, "f64, f32, ...; default: the variant's first");
  fit->add_option(
         "--init", options->init,
         "first, random:SEED, rows:I,J,..., kmeans++:SEED, threshold:T, or a file of k x d")
      ->capture_default_str();
  fit->add_option("--iterations", options->iterations,
                  "Exactly this many (at most this many with --stop); default: until no label "
                  "changes, at most 300")
      ->transform(whole_number(1));
  fit->add_option("--stop", options->stop,
                  "labels (none changes), movement:E (summed squared movement <= E), loss:E (loss "
                  "changes by less than E)");
  fit->add_option("--threads", options->threads, "CPU threads; default: all usable ones")
      ->transform(whole_number(1, kMaxThreads));
  add_device_option(*fit);
  add_plugin_option(*fit);
  add_gpus_option(*fit);
  fit->add_option("--drop-last,--drop-last-columns", options->drop_last_columns,
                  "Columns of a csv to leave out at the end (1 for a label column)")
      ->transform(whole_number(0));
  fit->add_option("--out", options->out, "Write centroids.npy, labels.npy, summary.json here");
  fit->add_flag("--json", options->json, "JSON lines: one per iteration, then a summary");
  fit->callback([options, variant, &action] {
    options->variant_is_chosen = variant->count() > 0;
    if (gpus_in_use() > 1 && !options->variant_is_chosen) options->variant = kOfGpus;
    action = [options] { return run_fit(*options); };
  });
}

}  // namespace kmeans
