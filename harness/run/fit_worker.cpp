// SPDX-License-Identifier: Apache-2.0
//
// Whole fits: each estimator has a Python process of its own; they take turns seed by seed. Every answer is judged
// before its time counts.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "datasets/dataset.h"
#include "harness/machine/gpu.h"
#include "harness/run/estimators.h"
#include "harness/run/fit_job.h"
#include "harness/run/fit_rows.h"
#include "harness/run/job_members.h"
#include "harness/support/errors.h"
#include "harness/support/process.h"
#include "harness/support/text.h"
#include "harness/variants/python_backend.h"
#include "harness/variants/python_connection.h"
#include "harness/verify/fit_answer.h"
#include "harness/verify/session.h"

namespace kmeans {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestFailure = 2048;
constexpr std::size_t kLabelsAlignment = 64;  // as in worker.py
// A call may take so many times its estimator's whole budget, and so long at least.
constexpr double kPatience = 10;
constexpr double kShortestPatience = 60;
constexpr double kSetupSeconds = 300;
// Of one call alone nothing would show how much calls differ.
constexpr std::size_t kFewestCalls = 2;
constexpr std::ptrdiff_t kSeedings = 3;
// After the suite's own threads have worked they wait for more for a while, which costs cores.
constexpr std::chrono::milliseconds kRest{20};

Traits traits_of(const json& said) {
  Traits traits;
  traits.exact = said.at("exact").get<bool>();
  traits.centres = said.at("centres").get<bool>();
  traits.distance = said.at("distance") == "direct" ? Distance::direct : Distance::expanded;
  traits.labels_of = said.at("labels_of") == "returned" ? LabelsOf::returned : LabelsOf::starting;
  traits.gpu = said.at("gpu").get<bool>();
  traits.source = said.at("source").get<std::string>();
  return traits;
}

template <class T>
std::optional<T> optional_of(const json& answer, const char* key) {
  const auto found = answer.find(key);
  if (found == answer.end() || found->is_null()) return std::nullopt;
  return found->get<T>();
}

/// Seconds that a call may take.
double patience_with(const FitJob& job) {
  return std::max(kShortestPatience, kPatience * job.max_seconds);
}

/// Why a GPU that is asked for cannot be had; empty: there is one.
std::string lacking_gpu() {
  if (current_gpu() != nullptr) return "";
  const std::string& problem = gpu_status().problem;
  return "needs a GPU" + (problem.empty() ? "" : ": " + problem);
}

/// A library's process with the points in its memory.
class Library {
 public:
  Library(const PythonLocation& python, const std::string& estimator, const FitJob& job,
          const Shape& shape)
      : shape_(shape), patience_(patience_with(job)) {
    // k x d floats, whether they are of one problem or of several that share the columns.
    const std::size_t centroid_bytes = shape.k * shape.d * sizeof(float);
    labels_offset_ = (centroid_bytes + kLabelsAlignment - 1) / kLabelsAlignment * kLabelsAlignment;
    exchange_ = std::make_unique<SharedMemory>(labels_offset_ +
                                               job.problems * shape.n * sizeof(std::int32_t));
    const std::filesystem::path folder = python.folder;
    std::error_code ignored;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
    std::vector<std::string> words{
        python.interpreter,        "-u",         (folder / "fit_server.py").string(),    "--serve",
        estimator_file(estimator), "--exchange", std::to_string(exchange_->descriptor())};
    // This build's own library, unless one is installed.
    if (const auto built = program / "library" / "python";
        std::filesystem::exists(built, ignored)) {
      words.insert(words.end(), {"--path", built.string()});
    }
    connection_ = std::make_unique<PythonConnection>(estimator_name(estimator), std::move(words),
                                                     std::vector<int>{exchange_->descriptor()});
  }

  json describe() { return connection_->call("describe", json::object(), kSetupSeconds); }

  /// Returns seconds of its imports.
  double setup(const FitJob& job) {
    const json answer = connection_->call("setup",
                                          {{"n", shape_.n},
                                           {"d", shape_.d},
                                           {"k", shape_.k},
                                           {"threads", job.threads},
                                           {"starts", job.starts},
                                           {"problems", job.problems},
                                           {"points_file", job.points_file}},
                                          kSetupSeconds);
    return answer.at("import_seconds").get<double>();
  }

  json fit(std::int64_t seed, std::int64_t iterations, const float* from, bool watch_gpu) {
    if (from != nullptr) {
      std::memcpy(exchange_->data(), from, shape_.k * shape_.d * sizeof(float));
    }
    return connection_->call(
        "fit", {{"seed", seed}, {"iterations", iterations}, {"watch_gpu", watch_gpu}}, patience_);
  }

  json seed(std::int64_t seed) { return connection_->call("seed", {{"seed", seed}}, patience_); }

  json library() {
    return connection_->call("library", json::object(), kSetupSeconds).at("library");
  }

  [[nodiscard]] const float* centroids() const {
    return reinterpret_cast<const float*>(exchange_->data());
  }
  [[nodiscard]] const std::int32_t* labels() const {
    return reinterpret_cast<const std::int32_t*>(exchange_->data() + labels_offset_);
  }

 private:
  Shape shape_;
  double patience_;
  std::size_t labels_offset_ = 0;
  std::unique_ptr<SharedMemory> exchange_;
  std::unique_ptr<PythonConnection> connection_;
};

class Fits {
 public:
  Fits(const FitJob& job, const Points& points)
      : job_(job),
        points_(points),
        shape_{points.n(), points.d(), job.k, Precision::f32},
        part_{points.n(), points.d() / job.problems, job.k, Precision::f32},
        python_(find_python()) {
    if (shape_.d % job.problems != 0) {
      throw InputError("d = " + std::to_string(shape_.d) + " is no multiple of " +
                       std::to_string(job.problems) + " problems");
    }
    for (int problem = 0; problem < job.problems; ++problem) {
      judges_.push_back(std::make_unique<FitJudge>(rows_of(problem), part_, job.threads));
    }
    for (const auto& name : job.estimators) {
      FitRow row;
      row.estimator = estimator_name(name);
      rows_.push_back(std::move(row));
    }
  }

  std::vector<FitRow> run() {
    if (python_.interpreter.empty()) throw EnvironmentError(python_.missing);
    for (int process = 0; process < job_.processes; ++process) {
      begin_process(process);
      for (std::int64_t seed = 1 + process; seed <= job_.seeds; seed += job_.processes) {
        // Each seed begins with another, so that none always follows the same neighbour.
        for (std::size_t turn = 0; turn < rows_.size(); ++turn) {
          take_turn((turn + seed) % rows_.size(), process, seed);
        }
      }
      each_at_once([&](std::size_t i) { libraries_[i].reset(); });
    }
    return std::move(rows_);
  }

 private:
  void begin_process(int process) {
    libraries_.resize(rows_.size());
    // All by this thread, since they are killed with the one that started them.
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i].status != "ok") continue;
      if (!affords(rows_[i], process)) {
        rows_[i].cut_short = true;
        continue;
      }
      attempt(i, [&] {
        libraries_[i] = std::make_unique<Library>(python_, job_.estimators[i], job_, shape_);
      });
    }
    if (process == 0) {
      begin_first();
    } else {
      each_at_once([&](std::size_t i) { attempt(i, [&] { libraries_[i]->setup(job_); }); });
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        if (libraries_[i]) attempt(i, [&] { call(i, process, 1 + process, true); });
      }
    }
  }

  /// One by one: imports are timed, and a GPU's memory is looked at, which others would take up meanwhile.
  void begin_first() {
    std::vector<json> said(rows_.size());
    each_at_once([&](std::size_t i) { attempt(i, [&] { said[i] = libraries_[i]->describe(); }); });
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (!libraries_[i]) continue;
      attempt(i, [&] {
        if (!accepts(i, said[i])) return;
        rows_[i].import_seconds = libraries_[i]->setup(job_);
        call(i, 0, 1, true);
      });
    }
  }

  /// Calls `act` with each estimator that has a process, at the same time.
  template <class Act>
  void each_at_once(const Act& act) {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < libraries_.size(); ++i) {
      if (libraries_[i]) threads.emplace_back([&act, i] { act(i); });
    }
  }

  /// Reads what the estimator says of itself. False: it does not run here, and the row says why.
  bool accepts(std::size_t i, const json& said) {
    FitRow& row = rows_[i];
    const json& traits = said.at("traits");
    row.claims.traits = traits_of(traits);
    row.claims.precision = parse_precision(traits.at("precision").get<std::string>());
    row.promises_fixed_point = traits.at("stops") == "labels";
    for (const char* key : {"summary", "defaults", "outside", "objective", "requires", "seeding"}) {
      row.said[key] = traits.at(key);
    }
    const auto skip = [&](const std::string& reason) {
      row.status = "skipped";
      row.reason = reason;
      libraries_[i].reset();
      return false;
    };
    if (const auto reason = said.at("reason").get<std::string>(); !reason.empty()) {
      return skip(reason);
    }
    if (row.claims.traits.gpu) {
      if (const std::string lack = lacking_gpu(); !lack.empty()) return skip(lack);
    }
    if (job_.iterations > 0 && !traits.at("takes_init").get<bool>()) {
      return skip("it takes no first centroids");
    }
    if (job_.problems > 1) {
      const auto own = traits.at("takes_problems").get<std::string>();
      if (own.empty()) return skip("it takes one problem at a time");
      row.said["summary"] = own;  // the call that is timed
    }
    if (job_.starts > 0 && !traits.at("takes_starts").get<bool>()) {
      return skip("it takes no number of starts");
    }
    return true;
  }

  void take_turn(std::size_t i, int process, std::int64_t seed) {
    FitRow& row = rows_[i];
    if (row.status != "ok" || libraries_[i] == nullptr) return;
    if (!affords(row, process)) {
      row.cut_short = true;
      return;
    }
    attempt(i, [&] { call(i, process, seed, false); });
  }

  /// Is there budget for one more call? Each process may use its share, and what earlier ones left.
  [[nodiscard]] bool affords(const FitRow& row, int process) const {
    // One is enough if the first call, which may have compiled something, took longer than the whole budget.
    const bool slow = !row.first_calls.empty() && row.first_calls.front() > job_.max_seconds;
    if (row.calls.size() < (slow ? 1 : kFewestCalls)) return true;
    double spent = 0;
    for (const auto& call : row.calls) spent += call.seconds;
    const double each = spent / static_cast<double>(row.calls.size());
    return spent + each <= job_.max_seconds * (process + 1) / job_.processes;
  }

  /// One call, and what the suite finds of its answer.
  void call(std::size_t i, int process, std::int64_t seed, bool is_first) {
    FitRow& row = rows_[i];
    Library& library = *libraries_[i];
    const float* from = nullptr;
    if (job_.iterations > 0) from = first_centroids(seed);
    std::this_thread::sleep_for(kRest);
    const bool watch_gpu = is_first && process == 0 && row.claims.traits.gpu;
    const json answer = library.fit(seed, job_.iterations, from, watch_gpu);
    FitCall made;
    made.seed = seed;
    made.process = process;
    made.seconds = answer.at("seconds").get<double>();
    made.iterations = optional_of<std::int64_t>(answer, "iterations");
    made.converged = optional_of<bool>(answer, "converged");
    made.objective = optional_of<double>(answer, "objective");
    if (const auto peak = optional_of<double>(answer, "peak_bytes")) {
      if (!is_first) row.peak_bytes = std::max(row.peak_bytes.value_or(0), *peak);
    }
    if (const auto peak = optional_of<double>(answer, "device_peak_bytes")) {
      row.device_peak_bytes = *peak;
    }
    if (is_first && process == 0) row.said["library"] = library.library();
    const std::string which = "seed " + std::to_string(seed) + ": ";
    if (answer.at("points_changed").get<bool>()) {
      return refuse(row, which + "it changed the points that it was given");
    }
    if (!std::isfinite(made.seconds) || made.seconds <= 0) {
      row.status = "error";
      row.reason = which + "its clock measured no duration";
      return;
    }
    if (job_.iterations > 0 && made.iterations && *made.iterations > job_.iterations) {
      return refuse(row, which + "it ran " + std::to_string(*made.iterations) + " iterations of " +
                             std::to_string(job_.iterations));
    }
    FitClaims claims = row.claims;
    claims.settled = row.promises_fixed_point && made.converged.value_or(false);
    made.judgement = judge(claims, library);
    note(made.judgement.certificate, which, row.certificate);
    if (!made.judgement.certificate.passed) {
      return refuse(row, which + made.judgement.certificate.failure());
    }
    if (!is_first && !add_seeding(row, library, made)) return;
    if (is_first) {
      row.first_calls.push_back(made.seconds);
      row.first_answers.push_back(std::move(made));
    } else {
      row.calls.push_back(std::move(made));
    }
  }

  /// The points of one problem: some of the columns.
  const float* rows_of(int problem) {
    const float* all = points_.data<float>();
    if (job_.problems == 1) return all;
    std::vector<float>& own = parts_.emplace_back();
    own.reserve(shape_.n * part_.d);
    for (std::int64_t i = 0; i < shape_.n; ++i) {
      const float* row = all + i * shape_.d + problem * part_.d;
      own.insert(own.end(), row, row + part_.d);
    }
    return own.data();
  }

  FitJudgement judge(const FitClaims& claims, const Library& library) {
    std::vector<FitJudgement> each;
    for (std::size_t problem = 0; problem < judges_.size(); ++problem) {
      each.push_back(judges_[problem]->judge(claims,
                                             library.centroids() + problem * part_.k * part_.d,
                                             library.labels() + problem * part_.n));
    }
    return joined(each);
  }

  /// Of as many calls as show how long it takes: not where others gave the centroids, or a fit has several.
  bool add_seeding(FitRow& row, Library& library, FitCall& made) const {
    const bool has_one = !row.said.value("seeding", "").empty();
    if (!has_one || job_.iterations > 0 || job_.starts > 0 || job_.problems > 1) return true;
    const auto timed = std::ranges::count_if(
        row.calls, [](const FitCall& call) { return call.seeding_seconds.has_value(); });
    if (timed >= kSeedings) return true;
    std::this_thread::sleep_for(kRest);
    const json answer = library.seed(made.seed);
    made.seeding_seconds = answer.at("seconds").get<double>();
    if (!answer.at("points_changed").get<bool>()) return true;
    refuse(row, "seed " + std::to_string(made.seed) +
                    ": its seeding changed the points that it was given");
    return false;
  }

  /// The figures of all answers, and the sentences of the worst.
  static void note(const Certificate& own, const std::string& which, Certificate& all) {
    Certificate merged;
    const bool worse = all.checks.empty() || !own.passed ||
                       std::pair(own.largest_excess_of_bound, own.labels_differing) >
                           std::pair(all.largest_excess_of_bound, all.labels_differing);
    merged.merge(own, which);
    const auto sentences = worse ? merged.checks : all.checks;
    merged.merge(all, "");
    merged.checks = sentences;
    all = std::move(merged);
  }

  static void refuse(FitRow& row, std::string reason) {
    row.status = "wrong";
    row.reason = std::move(reason);
  }

  /// What goes wrong costs the estimator its row, and no other.
  template <class Act>
  void attempt(std::size_t i, const Act& act) {
    FitRow& row = rows_[i];
    try {
      act();
    } catch (const NoAnswerInTime& late) {
      row.status = "skipped";
      row.reason = std::string(late.what()) + ", which is " + formatted_times() +
                   " times the budget of its calls (max_seconds)";
    } catch (const std::exception& error) {
      row.status = "error";
      row.reason = readable_tail(error.what(), kLongestFailure);
    }
    if (row.status != "ok") libraries_[i].reset();
  }

  [[nodiscard]] std::string formatted_times() const {
    return std::to_string(static_cast<int>(std::round(patience_with(job_) / job_.max_seconds)));
  }

  const float* first_centroids(std::int64_t seed) {
    auto found = starts_.find(seed);
    if (found == starts_.end()) {
      const auto spec = parse_init(job_.from + ":" + std::to_string(seed));
      found = starts_.emplace(seed, initial_centroids(points_, job_.k, spec)).first;
    }
    return found->second.data<float>();
  }

  const FitJob& job_;
  const Points& points_;
  Shape shape_;
  Shape part_;  ///< Of one problem: the same, unless there are several.
  PythonLocation python_;
  std::list<std::vector<float>> parts_;  ///< Their points.
  std::vector<std::unique_ptr<FitJudge>> judges_;
  std::vector<FitRow> rows_;
  std::vector<std::unique_ptr<Library>> libraries_;
  std::map<std::int64_t, Points> starts_;
};

}  // namespace

template <IsA<FitJob> M, class Visit>
void members(M& job, const Visit& visit) {
  data_members(job, visit);
  visit("estimators", job.estimators);
  visit("seeds", job.seeds);
  visit("processes", job.processes);
  visit("max_seconds", job.max_seconds);
  visit("from", job.from);
  visit("iterations", job.iterations);
  visit("starts", job.starts);
  visit("problems", job.problems);
  visit("known_inertia", job.known_inertia);
}

json to_json(const FitJob& job) { return message_to_json(job); }

FitJob fit_job_from_json(const json& json) { return message_from_json<FitJob>(json); }

json run_fits(const FitJob& job) {
  const auto started = std::chrono::steady_clock::now();
  const Points points = load_made(job.points_file, ScalarType::f32);
  Fits fits(job, points);
  json result = fit_result(fits.run(), job);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - started;
  result["seconds"] = taken.count();
  return result;
}

int run_fit_worker(const std::string& job_file, const std::string& result_file) {
  return answer_job("fit-worker", job_file, result_file,
                    [](const json& job) { return run_fits(fit_job_from_json(job)); });
}

}  // namespace kmeans
