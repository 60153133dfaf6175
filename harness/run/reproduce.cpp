// SPDX-License-Identifier: Apache-2.0
#include "harness/run/reproduce.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "datasets/dataset.h"
#include "harness/machine/environment.h"
#include "harness/machine/machine.h"
#include "harness/run/coordinator.h"
#include "harness/run/plan_jobs.h"
#include "harness/run/preparation.h"
#include "harness/run/sweep.h"
#include "harness/run/workers.h"
#include "harness/study.h"
#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/support/precision.h"
#include "harness/support/process.h"
#include "harness/support/progress_line.h"
#include "harness/support/text.h"
#include "harness/variants/registry.h"
#include "harness/verify/session.h"
#include "harness/verify/verify.h"

namespace kmeans {
namespace {

using nlohmann::json;

// Rough costs, to leave out what takes long; none of them ends up in a result.
constexpr double kSecondsPerCoordinate = 1e-7;    // of a data set that is made and hashed
constexpr double kExactPerSecondAndThread = 5e9;  // multiply-adds of the fast exact variant
constexpr double kPlainPerSecond = 5e8;           // of a variant whose record has no time
constexpr double kCertifiedFactor = 2;            // a certified run does everything twice
constexpr double kShortestTimeout = 300;          // seconds
constexpr double kTimeoutOfEstimate = 20;
constexpr double kShortRepetition = 1e-9;  // seconds: one repetition is enough

json member(const json& value, const char* key) {
  if (!value.is_object()) return nullptr;
  const auto found = value.find(key);
  return found == value.end() ? json(nullptr) : *found;
}

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

// A value in a sentence: a text without quotes, nothing for null.
std::string shown(const json& value) {
  if (value.is_null()) return "nothing";
  return value.is_string() ? valid_utf8(value.get<std::string>()) : to_line(value);
}

std::string was_and_is(const std::string& what, const json& recorded, const json& here) {
  return what + ": " + shown(recorded) + " on record, " + shown(here) + " here";
}

std::string joined(const std::vector<std::string>& clauses, const char* between = "; ") {
  std::string text;
  for (const auto& clause : clauses) text += (text.empty() ? "" : between) + clause;
  return text;
}

std::vector<std::string> clauses(const std::vector<AnswerDifference>& differences) {
  std::vector<std::string> texts;
  for (const auto& [what, recorded, here] : differences) {
    const bool unsaid = recorded.is_null() && here.is_null();
    texts.push_back(unsaid ? what + " differ" : was_and_is(what, recorded, here));
  }
  return texts;
}

json number_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? json(*value) : json(nullptr);
}

// The first sentence of a longer reason.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

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
  LoadOptions as_stored;
  as_stored.scalar = scalar;
  as_stored.check_finite = false;  // checked when the data set was made
  const Points points = load_points(points_file, as_stored);
  const std::int64_t count = points.n() * points.d();
  return scalar == ScalarType::f64
             ? largest_abs(points.data<double>(), count, 1)
             : static_cast<double>(largest_abs(points.data<float>(), count, 1));
}

std::string relative_difference(double recorded, double here) {
  char text[48];
  std::snprintf(text, sizeof text, "%.2g",
                recorded != 0 ? std::abs(here / recorded - 1) : std::abs(here));
  return text;
}

// Breaking because a limit of this machine was reached says nothing about the answer.
bool is_a_limit(const std::string& problem) {
  return problem.find("timeout after") == 0 || problem.find("killed by SIGKILL") == 0 ||
         problem.find("out of host memory") != std::string::npos ||
         problem.find("out of memory") != std::string::npos;
}

std::vector<std::string> names_of_gpus(const json& gpus) {
  std::vector<std::string> names;
  if (gpus.is_array()) {
    for (const auto& gpu : gpus) names.push_back(text_of(member(gpu, "name")));
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The exact variant that answers for others; empty where the build has none.
const std::string& fast_exact() {
  static const auto* engine = exact_engine(EngineOn::threads);
  static const std::string name = engine != nullptr ? engine->traits.name : "";
  return name;
}

bool is_variant(const std::string& name) {
  if (find_variant(name) != nullptr) return true;
  const auto& missing = missing_backends();
  return std::any_of(missing.begin(), missing.end(), [&](const MissingBackend& backend) {
    return std::find(backend.variants.begin(), backend.variants.end(), name) !=
           backend.variants.end();
  });
}

// Why the variant is not in this build or cannot run on this machine; empty if it can.
std::string reason_unavailable(const std::string& name) {
  const auto* registered = find_variant(name);
  if (registered == nullptr) {
    for (const auto& backend : missing_backends()) {
      if (std::find(backend.variants.begin(), backend.variants.end(), name) !=
          backend.variants.end()) {
        return "not in this build: " + backend.reason;
      }
    }
    return "this build knows no such variant";
  }
  const Support available = availability(*registered);
  return available.ok ? std::string() : available.reason;
}

Finding finding_of(const char* part, const std::string& name) {
  Finding finding;
  finding.part = part;
  finding.name = name;
  return finding;
}

/// Data, first centroids and shape that an answer belongs to.
struct Subject {
  std::string label;  // of the data set in context.datasets
  Task task;
};

class FileReproduction {
 public:
  FileReproduction(const ResultFile& file, const Pattern& only, const ReproduceSettings& settings,
                   const ReproduceProgress& progress)
      : file_(file),
        only_(only),
        settings_(settings),
        progress_(progress),
        preparation_(settings.cache, build_identity()),
        workers_(settings.worker_command, inspect_environment(), false) {
    report_.file = &file;
    report_.surroundings = surroundings_differences(file.context);
    memory_ = static_cast<double>(available_memory());
  }

  FileReport run() {
    collect();
    std::size_t done = 0;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (InterruptGuard::interrupted()) break;
      double left = 0;
      for (std::size_t j = i; j < items_.size(); ++j) left += items_[j].seconds;
      progress_(done++, items_.size(), items_[i].name, left);
      if (auto finding = items_[i].work()) {
        finding->estimated_seconds = items_[i].estimate;
        report_.findings.push_back(std::move(*finding));
      }
    }
    return std::move(report_);
  }

 private:
  struct Item {
    std::string name;
    double estimate = 0;  // seconds
    double seconds = 0;   // the same, 0 where that is left out for being too long
    std::function<std::optional<Finding>()> work;
  };

  // --- What there is to do -------------------------------------------------------------------

  void collect() {
    const bool all = only_.found_in(file_.experiment);
    const auto chosen = [&](const std::string& name) { return all || only_.found_in(name); };
    std::vector<Item> items;
    std::set<std::string> labels;
    for (const auto& cell : file_.cells) {
      if (!chosen(cell.key.text())) continue;
      if (cell.status != "ok" && cell.status != "wrong") {
        ++report_.without_answer;
        continue;
      }
      labels.insert(cell.key.points());
      add(items, cell.key.text(), own_seconds(cell), [this, &cell] { return cell_finding(cell); });
    }
    for (const auto& trace : file_.traces) {
      const std::string name = text_of(member(trace, "name"));
      if (!chosen(name)) continue;
      if (member(trace, "status") != "ok") {
        ++report_.without_answer;
        continue;
      }
      labels.insert(
          points_name(text_of(member(trace, "dataset")), member(trace, "precision") == "f64"));
      add(items, name, trace_seconds(trace), [this, &trace] { return trace_finding(trace); });
    }
    for (const auto& study : file_.studies) {
      const std::string name = text_of(member(study, "name"));
      if (!chosen(name)) continue;
      if (member(study, "status") != "ok") {
        ++report_.without_answer;
        continue;
      }
      if (const std::string label = text_of(member(study, "dataset")); !label.empty()) {
        labels.insert(label);
      }
      add(items, name, study_seconds(study), [this, &study] { return study_finding(study); });
    }
    for (const auto& label : labels) {
      add(items_, label, data_seconds(label), [this, label] { return data_finding(label); });
    }
    std::move(items.begin(), items.end(), std::back_inserter(items_));
  }

  void add(std::vector<Item>& items, const std::string& name, double estimate,
           std::function<std::optional<Finding>()> work) const {
    const bool too_long = estimate > settings_.at_most_seconds;
    items.push_back({name, estimate, too_long ? 0 : estimate, std::move(work)});
  }

  // --- Data ----------------------------------------------------------------------------------

  struct Data {
    Judgement judgement;
    DatasetSpec spec;
    ScalarType scalar = ScalarType::f32;
    std::int64_t n = 0;
    std::int64_t d = 0;
  };

  [[nodiscard]] json data_record(const std::string& label) const {
    return member(member(file_.context, "datasets"), label.c_str());
  }

  [[nodiscard]] double coordinates(const std::string& label) const {
    const json record = data_record(label);
    const json n = member(record, "n");
    const json d = member(record, "d");
    return n.is_number() && d.is_number() ? n.get<double>() * d.get<double>() : 0;
  }

  [[nodiscard]] double data_seconds(const std::string& label) const {
    return coordinates(label) * kSecondsPerCoordinate;
  }

  std::optional<Finding> data_finding(const std::string& label) {
    Finding finding = finding_of("data", label);
    finding.judgement = data(label).judgement;
    finding.promised = true;
    return finding;
  }

  // Makes the data set or finds it in the cache, once, and holds it against the record.
  const Data& data(const std::string& label) {
    const auto known = data_.find(label);
    if (known != data_.end()) return known->second;
    Data& found = data_[label];
    found.judgement = judge_data(label, found);
    return found;
  }

  Judgement judge_data(const std::string& label, Data& found) const {
    const json record = data_record(label);
    if (record.is_null()) {
      return {Reproduced::not_run, "the file does not describe the data set " + label};
    }
    if (const double seconds = data_seconds(label); seconds > settings_.at_most_seconds) {
      return {Reproduced::not_run, too_long()};
    }
    const bool wide = member(record, "scalar") == "f64";
    found.scalar = wide ? ScalarType::f64 : ScalarType::f32;
    const double bytes = coordinates(label) * static_cast<double>(size_of(found.scalar));
    if (bytes > memory_) {
      return {Reproduced::not_run,
              "needs " + format_bytes(bytes) + " of memory, has " + format_bytes(memory_)};
    }
    try {
      found.spec = parse_dataset(member(record, "spec"), "/context/datasets/" + label + "/spec");
      const StoredDataset stored = materialise(found.spec, found.scalar, settings_.cache);
      found.n = stored.n;
      found.d = stored.d;
      if (member(record, "sha256") == stored.sha256) return {Reproduced::equal, ""};
      return {Reproduced::differs, was_and_is("SHA-256", member(record, "sha256"), stored.sha256)};
    } catch (const EnvironmentError& error) {
      // A generator that fails the catalogue's checksum has broken its promise.
      const std::string what = error.what();
      const bool broken = what.find("as the catalogue says") != std::string::npos;
      return {broken ? Reproduced::differs : Reproduced::not_run,
              "the data could not be made: " + what};
    } catch (const InputError& error) {
      return {Reproduced::not_run, std::string("the data are not at hand: ") + error.what()};
    } catch (const std::bad_alloc&) {
      return {Reproduced::not_run, "the data could not be made: out of host memory"};
    }
  }

  // The points and first centroids of an answer. `why_not` says why there are none.
  std::optional<TaskFiles> files(const Subject& subject, ScalarType scalar, std::string& why_not) {
    const Data& found = data(subject.label);
    if (found.judgement.verdict == Reproduced::differs) {
      why_not = "its points are not those of the record";
      return std::nullopt;
    }
    if (found.judgement.verdict == Reproduced::not_run) {
      why_not = found.judgement.detail;
      return std::nullopt;
    }
    Task task = subject.task;
    task.dataset = found.spec;
    if (found.n != task.shape.n || found.d != task.shape.d) {
      why_not = "its data set has another shape than the record says";
      return std::nullopt;
    }
    try {
      return preparation_.files(task, scalar);
    } catch (const NotMeasurable& error) {
      why_not = error.what();
    } catch (const EnvironmentError& error) {
      why_not = error.what();
    } catch (const InputError& error) {
      why_not = error.what();
    }
    return std::nullopt;
  }

  // --- Estimates -----------------------------------------------------------------------------

  [[nodiscard]] std::string too_long() const {
    return "estimated to take more than the " + format_duration(settings_.at_most_seconds) +
           " allowed (--at-most, --all)";
  }

  // How much longer it takes with the threads of this machine.
  [[nodiscard]] double thread_factor(int recorded) const {
    return std::max(1.0, static_cast<double>(recorded) / static_cast<double>(settings_.threads));
  }

  static double work(const CellResult& cell) {
    return static_cast<double>(cell.key.shape.n) * static_cast<double>(cell.key.shape.d) *
           static_cast<double>(cell.key.shape.k) * static_cast<double>(cell.key.iterations + 1);
  }

  // Of the recorded variant, as the record's own times let expect.
  [[nodiscard]] double own_seconds(const CellResult& cell) const {
    if (cell.median) {
      return *cell.median * static_cast<double>(cell.key.iterations + 1) *
             thread_factor(cell.key.threads);
    }
    return work(cell) / kPlainPerSecond;
  }

  [[nodiscard]] double exact_seconds(const CellResult& cell) const {
    return work(cell) / (kExactPerSecondAndThread * settings_.threads);
  }

  [[nodiscard]] double trace_seconds(const json& trace) const {
    const json each = member(trace, "seconds_per_iteration");
    const json iterations = member(trace, "iterations");
    const json n = member(trace, "n");
    const json d = member(trace, "d");
    if (!each.is_number() || !iterations.is_array() || !n.is_number() || !d.is_number()) return 0;
    // Each iteration is looked at in float64, too.
    const double look = n.get<double>() * d.get<double>() * 2e-9;
    return (each.get<double>() * thread_factor(threads_of_run()) + look) *
           static_cast<double>(iterations.size());
  }

  [[nodiscard]] double study_seconds(const json& study) const {
    const json seconds = member(study, "seconds");
    return seconds.is_number() ? seconds.get<double>() * thread_factor(threads_of_run()) : 0;
  }

  [[nodiscard]] int threads_of_run() const {
    const json threads = member(file_.context, "threads");
    return threads.is_number_integer() ? std::max(1, threads.get<int>()) : 1;
  }

  static double timeout(double estimate) {
    return std::max(kShortestTimeout, kTimeoutOfEstimate * estimate);
  }

  // --- Cells ---------------------------------------------------------------------------------

  static Subject subject_of(const CellResult& cell) {
    Subject subject;
    subject.label = cell.key.points();
    subject.task.label = cell.key.dataset;
    subject.task.init = cell.init;
    subject.task.shape = cell.key.shape;
    return subject;
  }

  // Why the variant itself does not run on this shape here; empty if it does.
  [[nodiscard]] std::string reason_not_to_run(const std::string& variant, const Shape& shape,
                                              double seconds) const {
    if (std::string reason = reason_unavailable(variant); !reason.empty()) return reason;
    const auto& registered = *find_variant(variant);
    if (const Support support = supports(registered, shape); !support.ok) return support.reason;
    if (const double need = memory_need(registered, shape, settings_.threads); need > memory_) {
      return "needs " + format_bytes(need) + " of memory, has " + format_bytes(memory_);
    }
    return seconds > settings_.at_most_seconds ? too_long() : std::string();
  }

  std::optional<Finding> cell_finding(const CellResult& cell) {
    Finding finding = finding_of("cell", cell.key.text());
    const Subject subject = subject_of(cell);
    const Shape& shape = subject.task.shape;
    const std::string reason = reason_not_to_run(cell.key.variant, shape, own_seconds(cell));
    const bool answered = cell.status == "ok";
    if (!reason.empty()) {
      finding.judgement = {Reproduced::not_run, reason};
      if (answered && cell.exact) stand_in(cell, subject, finding);
      return finding;
    }
    std::string why_not;
    const auto at_hand = files(subject, points_scalar(shape.precision), why_not);
    if (!at_hand) {
      finding.judgement = {Reproduced::not_run, why_not};
      return finding;
    }
    const Traits& traits = find_variant(cell.key.variant)->traits;
    CellKey key = cell.key;
    key.threads = traits.parallel ? std::min(key.threads, settings_.threads) : 1;
    Job job = untimed_job(key, *at_hand);
    if (!answered) return wrong_cell_finding(cell, subject, job, finding);

    // Variants that are not deterministic promise nothing, so they are certified at once.
    const bool deterministic = cell.exact || traits.deterministic;
    finding.promised = cell.exact || bits_promised(cell, traits, key.threads);
    job.repetitions = deterministic ? 0 : 1;
    auto reply = run_job_here(job, own_seconds(cell), why_not);
    if (!reply) {
      if (InterruptGuard::interrupted()) return std::nullopt;
      finding.judgement = failure(why_not);
      return finding;
    }
    if (reply->status == "ok" || reply->status == "wrong") {
      if (finding.promised && !cell.exact && !same_library(cell, *reply)) finding.promised = false;
      const auto differences = differences_of(cell, *reply);
      if (differences.empty()) {
        finding.judgement = {Reproduced::equal, ""};
        remember_exact(cell, *reply);
        return finding;
      }
      if (finding.promised) {
        finding.judgement = {Reproduced::differs, joined(differences)};
        return finding;
      }
      if (job.repetitions == 0) {
        job.repetitions = 1;
        reply = run_job_here(job, kCertifiedFactor * own_seconds(cell), why_not);
        if (!reply) {
          if (InterruptGuard::interrupted()) return std::nullopt;
          finding.judgement = failure(why_not);
          return finding;
        }
      }
    }
    finding.judgement = judge_certified(cell, *reply, traits, job.points_file);
    return finding;
  }

  // Another variant of the same exact step gives the same bits.
  void stand_in(const CellResult& cell, const Subject& subject, Finding& finding) {
    if (cell.key.variant == fast_exact()) return;
    const double seconds = exact_seconds(cell);
    if (!reason_not_to_run(fast_exact(), subject.task.shape, seconds).empty()) return;
    std::string why_not;
    const auto answer = exact_answer(cell, subject, seconds, why_not);
    finding.by = fast_exact();
    finding.promised = true;
    if (!answer) {
      finding.by.clear();
      finding.judgement.detail += "; nor could " + fast_exact() + ": " + why_not;
      return;
    }
    const auto differences = differences_of(cell, *answer);
    finding.judgement = differences.empty() ? Judgement{Reproduced::equal, ""}
                                            : Judgement{Reproduced::differs, joined(differences)};
  }

  [[nodiscard]] std::string exact_key(const CellResult& cell) const {
    return cell.key.dataset + " k" + std::to_string(cell.key.shape.k) + " T" +
           std::to_string(cell.key.iterations) + " " + cell.init;
  }

  void remember_exact(const CellResult& cell, const JobResult& answer) {
    if (cell.exact) exact_answers_[exact_key(cell)] = answer;
  }

  std::optional<JobResult> exact_answer(const CellResult& cell, Subject subject, double seconds,
                                        std::string& why_not) {
    if (const auto known = exact_answers_.find(exact_key(cell)); known != exact_answers_.end()) {
      return known->second;
    }
    subject.label = cell.key.dataset;
    subject.task.shape.precision = Precision::f32;
    const auto at_hand = files(subject, ScalarType::f32, why_not);
    if (!at_hand) return std::nullopt;
    CellKey key = cell.key;
    key.variant = fast_exact();
    key.shape.precision = Precision::f32;
    key.threads = settings_.threads;
    Job job = untimed_job(key, *at_hand);
    job.repetitions = 0;
    auto answer = run_job_here(job, seconds, why_not);
    if (answer && answer->status != "ok") {
      why_not = first_line(answer->reason);
      return std::nullopt;
    }
    if (answer) exact_answers_[exact_key(cell)] = *answer;
    return answer;
  }

  [[nodiscard]] Job untimed_job(const CellKey& key, const TaskFiles& at_hand) const {
    Job job = job_of(key, at_hand);
    job.min_seconds = kShortRepetition;
    job.verify_threads = settings_.threads;
    return job;
  }

  // Absent when there is no result; `why_not` says why.
  std::optional<JobResult> run_job_here(const Job& job, double estimate, std::string& why_not) {
    auto answer = workers_.run(job, timeout(estimate));
    if (!answer.interrupted && answer.result.status != "error") return std::move(answer.result);
    why_not = answer.interrupted ? "interrupted" : answer.result.reason;
    return std::nullopt;
  }

  static Judgement failure(const std::string& problem) {
    const std::string line = first_line(problem);
    if (is_a_limit(problem)) return {Reproduced::not_run, line};
    return {Reproduced::differs, "breaks here: " + line};
  }

  // Deterministic variants promise bits to the same build, on the same machine, with the same
  // threads, and only if they kept that promise there.
  [[nodiscard]] bool bits_promised(const CellResult& cell, const Traits& traits,
                                   int threads) const {
    return traits.deterministic && report_.surroundings.empty() && threads == cell.key.threads &&
           member(cell.data, "bit_equal_across_processes") != false;
  }

  static bool same_library(const CellResult& cell, const JobResult& here) {
    const json recorded = member(cell.data, "library");
    return std::all_of(here.library.begin(), here.library.end(), [&](const auto& entry) {
      return member(recorded, entry.first.c_str()) == entry.second;
    });
  }

  static Judgement judge_certified(const CellResult& cell, const JobResult& here,
                                   const Traits& traits, const std::string& points_file) {
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

  // A cell that was found wrong must be found wrong again, by the same judge.
  std::optional<Finding> wrong_cell_finding(const CellResult& cell, const Subject& subject, Job job,
                                            Finding finding) {
    std::string why_not;
    if (const double seconds = exact_seconds(cell);
        reason_not_to_run(fast_exact(),
                          {cell.key.shape.n, cell.key.shape.d, cell.key.shape.k, Precision::f32},
                          seconds)
            .empty()) {
      if (const auto exact = exact_answer(cell, subject, seconds, why_not)) {
        compare_with({exact->inertia, exact->any_empty_clusters, exact->scale}, job);
      }
    }
    job.repetitions = 1;
    const auto reply = run_job_here(job, kCertifiedFactor * own_seconds(cell), why_not);
    if (!reply) {
      if (InterruptGuard::interrupted()) return std::nullopt;
      finding.judgement = failure(why_not);
    } else if (reply->status == "wrong") {
      finding.judgement = {Reproduced::agrees,
                           "wrong on record, and here: " + first_line(reply->reason)};
    } else if (reply->status == "skipped" && cell.wrong_because == std::nullopt) {
      finding.judgement = {Reproduced::not_run, first_line(reply->reason)};
    } else if (!job.exact_inertia) {
      finding.judgement = {Reproduced::not_run,
                           "wrong on record; here there is no exact trajectory to judge it by"};
    } else {
      finding.judgement = {Reproduced::differs,
                           "wrong on record (" + first_line(cell.reason) + "), right here"};
    }
    return finding;
  }

  // --- Traces --------------------------------------------------------------------------------

  // What the experiment says about a trace of this name; null when it says nothing.
  [[nodiscard]] json trace_spec(const std::string& name) const {
    const json traces = member(file_.spec, "traces");
    if (!traces.is_array()) return nullptr;
    for (const auto& trace : traces) {
      if (member(trace, "name") == name) return trace;
    }
    return nullptr;
  }

  [[nodiscard]] bool is_exact(const std::string& variant) const {
    if (const auto* registered = find_variant(variant)) return registered->traits.exact;
    return std::any_of(file_.cells.begin(), file_.cells.end(), [&](const CellResult& cell) {
      return cell.key.variant == variant && cell.exact;
    });
  }

  std::optional<Finding> trace_finding(const json& trace) {
    const std::string name = text_of(member(trace, "name"));
    std::string variant = text_of(member(trace, "variant"));
    Finding finding = finding_of("trace", name);
    Subject subject;
    subject.label =
        points_name(text_of(member(trace, "dataset")), member(trace, "precision") == "f64");
    subject.task.label = text_of(member(trace, "dataset"));
    subject.task.init = text_of(member(trace, "init"));
    Shape& shape = subject.task.shape;
    try {
      shape = {trace.at("n").get<std::int64_t>(), trace.at("d").get<std::int64_t>(),
               trace.at("k").get<std::int64_t>(),
               parse_precision(text_of(member(trace, "precision")))};
    } catch (const json::exception&) {
      finding.judgement = {Reproduced::not_run, "the file does not say what ran"};
      return finding;
    }
    const double seconds = trace_seconds(trace);
    const bool exact = is_exact(variant);
    std::string reason = reason_not_to_run(variant, shape, seconds);
    if (!reason.empty() && exact && reason_not_to_run(fast_exact(), shape, 0).empty() &&
        seconds <= settings_.at_most_seconds) {
      variant = fast_exact();
      finding.by = fast_exact();
      reason.clear();
    }
    std::string why_not;
    const auto at_hand = reason.empty() ? files(subject, points_scalar(shape.precision), why_not)
                                        : std::optional<TaskFiles>();
    if (!at_hand) {
      finding.judgement = {Reproduced::not_run, reason.empty() ? why_not : reason};
      return finding;
    }
    const Traits& traits = find_variant(variant)->traits;
    const int recorded_threads = traits.parallel ? threads_of_run() : 1;
    const json spec = trace_spec(name);
    const json& recorded = trace.at("iterations");
    PlannedTrace planned;
    planned.spec.variant.name = variant;
    planned.precision = shape.precision;
    planned.task = subject.task;
    planned.threads = std::min(recorded_threads, settings_.threads);
    // With the limit and the stop rule of the record, which may end it earlier.
    const json limit = member(spec, "iterations");
    planned.spec.iterations = limit.is_number_integer()
                                  ? limit.get<std::int64_t>()
                                  : static_cast<std::int64_t>(recorded.size());
    planned.spec.stop = text_of(trace.contains("stop") ? trace.at("stop") : member(spec, "stop"));
    planned.spec.keep_centroids = !recorded.empty() && recorded.front().contains("centroids");
    const TraceJob job = job_of(planned, *at_hand, settings_.threads);
    finding.promised = exact || (traits.deterministic && report_.surroundings.empty() &&
                                 job.threads == recorded_threads);
    const auto reply = workers_.run(job, timeout(seconds));
    if (reply.interrupted) return std::nullopt;
    if (member(reply.result, "status") == "error") {
      finding.judgement = failure(text_of(member(reply.result, "reason")));
      return finding;
    }
    finding.judgement = judge_trace(trace, reply.result, finding.promised, [&] {
      const json told = member(reply.result, "trajectory");
      const json largest = member(told, "max_abs");
      return repetition_floor(traits, shape, scale_from_json(member(told, "scale")),
                              largest.is_number() ? largest.get<double>() : 0);
    });
    return finding;
  }

  // --- Studies -------------------------------------------------------------------------------

  std::optional<Finding> study_finding(const json& study) {
    Finding finding = finding_of("study", text_of(member(study, "name")));
    finding.promised = true;
    const std::string which = text_of(member(study, "study"));
    const auto& known = all_studies();
    if (std::none_of(known.begin(), known.end(),
                     [&](const Study& one) { return one.name == which; })) {
      finding.judgement = {Reproduced::not_run, "this build knows no study '" + which + "'"};
      return finding;
    }
    const double seconds = study_seconds(study);
    if (seconds > settings_.at_most_seconds) {
      finding.judgement = {Reproduced::not_run, too_long()};
      return finding;
    }
    PlannedStudy planned;
    planned.spec.study = which;
    if (const json given = member(study, "parameters"); given.is_object()) {
      planned.spec.parameters = given;
    }
    std::optional<TaskFiles> at_hand;
    if (const std::string label = text_of(member(study, "dataset")); !label.empty()) {
      Subject subject;
      subject.label = label;
      subject.task.label = label;
      subject.task.init = text_of(member(study, "init"));
      try {
        subject.task.shape = {study.at("n").get<std::int64_t>(), study.at("d").get<std::int64_t>(),
                              study.at("k").get<std::int64_t>(), Precision::f32};
      } catch (const json::exception&) {
        finding.judgement = {Reproduced::not_run, "the file does not say what ran"};
        return finding;
      }
      std::string why_not;
      at_hand = files(subject, ScalarType::f32, why_not);
      if (!at_hand) {
        finding.judgement = {Reproduced::not_run, why_not};
        return finding;
      }
      planned.task = subject.task;
    }
    const auto reply = workers_.run(
        job_of(planned, at_hand ? &*at_hand : nullptr, settings_.threads), timeout(seconds));
    if (reply.interrupted) return std::nullopt;
    if (member(reply.result, "status") == "error") {
      finding.judgement = failure(text_of(member(reply.result, "reason")));
      return finding;
    }
    finding.judgement = judge_study(study, reply.result);
    return finding;
  }

  const ResultFile& file_;
  const Pattern& only_;
  const ReproduceSettings& settings_;
  const ReproduceProgress& progress_;
  Preparation preparation_;
  Workers workers_;
  double memory_ = 0;
  FileReport report_;
  std::vector<Item> items_;
  std::map<std::string, Data> data_;
  std::map<std::string, JobResult> exact_answers_;
};

// Rows of a study that its own arithmetic made, and the variants of the suite that made others.
std::vector<json> own_rows(const json& study, std::set<std::string>& variants) {
  std::vector<json> rows;
  const json all = member(study, "rows");
  if (!all.is_array()) return rows;
  for (const auto& row : all) {
    const std::string by = text_of(member(row, "by"));
    if (!by.empty() && is_variant(by)) {
      variants.insert(by);
    } else {
      rows.push_back(row);
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

constexpr std::array<Reproduced, 4> kVerdicts{Reproduced::equal, Reproduced::agrees,
                                              Reproduced::differs, Reproduced::not_run};

}  // namespace

InertiaFloor repetition_floor(const Traits& traits, const Shape& shape,
                              const TrajectoryScale& scale, double max_abs) {
  return trajectory_floor(traits, shape, points_scalar(shape.precision), scale, max_abs);
}

const char* to_string(Reproduced verdict) {
  switch (verdict) {
    case Reproduced::equal: return "equal";
    case Reproduced::agrees: return "agrees";
    case Reproduced::differs: return "differs";
    case Reproduced::not_run: return "not run";
  }
  return "";
}

std::size_t FileReport::count(const std::string& part, Reproduced verdict) const {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(), [&](const Finding& finding) {
        return finding.part == part && finding.judgement.verdict == verdict;
      }));
}

std::size_t FileReport::count(Reproduced verdict) const {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(),
                    [&](const Finding& finding) { return finding.judgement.verdict == verdict; }));
}

std::vector<std::string> surroundings_differences(const json& context) {
  std::vector<std::string> differences;
  const BuildInfo& build = build_info();
  const json suite = member(context, "suite");
  const auto compare = [&](const std::string& what, const json& recorded, const json& here) {
    if (recorded != here) differences.push_back(was_and_is(what, recorded, here));
  };
  compare("commit", member(suite, "git_commit"), build.git_commit);
  if (member(suite, "git_dirty") != false) differences.emplace_back("local changes on record");
  if (build.git_dirty) differences.emplace_back("local changes here");
  compare("build type", member(suite, "build_type"), build.build_type);
  compare("sanitizers", member(suite, "sanitizers"), build.sanitizers);
  compare("compiler", member(suite, "compiler"), build.compiler);
  compare("options of the variants", member(suite, "variant_flags"), build.variant_flags);
  compare("CUDA", member(suite, "cuda"), build.cuda);
  // What -march=native makes of the code is the processor's affair.
  static const json kMachine = machine_fingerprint();
  const json machine = member(context, "machine");
  compare("processor", member(member(machine, "cpu"), "model"),
          member(member(kMachine, "cpu"), "model"));
  if (member(member(machine, "cpu"), "flags") != member(member(kMachine, "cpu"), "flags")) {
    differences.emplace_back("other instruction sets");
  }
  const auto gpus = names_of_gpus(member(machine, "gpus"));
  const auto gpus_here = names_of_gpus(member(kMachine, "gpus"));
  if (gpus != gpus_here) {
    differences.push_back("GPUs: " + (gpus.empty() ? "none" : joined(gpus, ", ")) + " on record, " +
                          (gpus_here.empty() ? "none" : joined(gpus_here, ", ")) + " here");
  }
  return differences;
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
  char text[96];
  std::snprintf(text, sizeof text, "inertia within a relative %.2g over %zu iterations; ", largest,
                common);
  return {Reproduced::agrees, text + joined(differences)};
}

Judgement judge_study(const json& recorded, const json& here) {
  std::set<std::string> variants;
  const auto before = own_rows(recorded, variants);
  const auto now = own_rows(here, variants);
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
  if (variants.empty()) return {Reproduced::equal, ""};
  return {Reproduced::equal,
          "without the rows of " + joined({variants.begin(), variants.end()}, ", ")};
}

FileReport reproduce(const ResultFile& file, const Pattern& only, const ReproduceSettings& settings,
                     const ReproduceProgress& progress) {
  return FileReproduction(file, only, settings, progress).run();
}

json to_json(const std::vector<FileReport>& reports) {
  json files = json::array();
  json totals = json::object();
  for (const Reproduced verdict : kVerdicts) totals[to_string(verdict)] = 0;
  for (const auto& report : reports) {
    json findings = json::array();
    for (const auto& finding : report.findings) {
      findings.push_back(
          {{"part", finding.part},
           {"name", finding.name},
           {"verdict", to_string(finding.judgement.verdict)},
           {"detail",
            finding.judgement.detail.empty() ? json(nullptr) : json(finding.judgement.detail)},
           {"by", finding.by.empty() ? json(nullptr) : json(finding.by)},
           {"promised", finding.promised},
           {"estimated_seconds", finding.estimated_seconds}});
    }
    json counts = json::object();
    for (const Reproduced verdict : kVerdicts) {
      counts[to_string(verdict)] = report.count(verdict);
      totals[to_string(verdict)] =
          totals[to_string(verdict)].get<std::size_t>() + report.count(verdict);
    }
    const json suite = member(report.file->context, "suite");
    files.push_back({{"file", report.file->path.filename().string()},
                     {"experiment", report.file->experiment},
                     {"scale", report.file->scale},
                     {"machine", report.file->machine},
                     {"git_commit", member(suite, "git_commit")},
                     {"surroundings", report.surroundings},
                     {"counts", std::move(counts)},
                     {"without_answer", report.without_answer},
                     {"findings", std::move(findings)}});
  }
  const BuildInfo& build = build_info();
  return {{"reproduction_version", 1},
          {"here",
           {{"machine", machine_id()},
            {"git_commit", build.git_commit},
            {"git_dirty", build.git_dirty},
            {"compiler", build.compiler},
            {"variant_flags", build.variant_flags}}},
          {"counts", std::move(totals)},
          {"files", std::move(files)}};
}

}  // namespace kmeans
