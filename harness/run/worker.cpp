// SPDX-License-Identifier: Apache-2.0
//
// The worker: one cell's configuration in a process of its own. Certifies first, then times.
#include <algorithm>
#include <cmath>
#include <exception>
#include <new>
#include <optional>

#include "harness/machine/disk_rate.h"
#include "harness/machine/environment.h"
#include "harness/machine/gpu.h"
#include "harness/machine/gpu_state.h"
#include "harness/machine/pace.h"
#include "harness/machine/ranks.h"
#include "harness/record/measures.h"
#include "harness/run/job.h"
#include "harness/run/repetitions.h"
#include "harness/run/timed_checks.h"
#include "harness/support/granted.h"
#include "harness/support/hash.h"
#include "harness/support/json_file.h"
#include "harness/support/memory_left.h"
#include "harness/support/process.h"
#include "harness/support/text.h"
#include "harness/variants/plugins.h"
#include "harness/variants/python_backend.h"
#include "harness/verify/session.h"

namespace kmeans {
namespace {

constexpr double kLongestProfiledSeconds = 10;
// Seconds of an iteration up to which one more is spent on seeing that the timed ones do something.
constexpr double kLongestDisturbance = 2;
constexpr std::size_t kLongestReason = 2048;

// Repetitions that fit the budget, when one repetition of T iterations takes `seconds`.
int affordable_repetitions(const Job& job, double seconds) {
  if (!std::isfinite(seconds)) throw std::runtime_error(kNoDuration);
  const double each = std::max(seconds, job.min_seconds);
  const double affordable = std::floor(job.max_seconds / each);
  return static_cast<int>(std::clamp(affordable, 1.0, static_cast<double>(job.repetitions)));
}

std::vector<double> per_iteration(std::vector<double> seconds, double iterations) {
  for (double& value : seconds) value /= iterations;
  return seconds;
}

// Why the GPU's free memory does not hold the variant; empty if it does.
std::string lacking_device_memory(const RegisteredVariant& registered, const Shape& shape) {
  const double need = device_memory_need(registered, shape, gpus_in_use());
  // A Python library allocates in its own process; a CUDA context here would take memory from it.
  if (need == 0 || registered.backend == "python") return "";
  const auto memory = gpu_memory();
  if (!memory) return "";
  const auto free = static_cast<double>(at_most_granted(kGrantedGpuMemory, memory->free_bytes));
  if (need <= free) return "";
  return "needs " + format_bytes(need) + " of GPU memory, " + format_bytes(free) + " of " +
         format_bytes(static_cast<double>(memory->total_bytes)) + " are free";
}

// No variant: the trajectory that float64 cells are compared with.
JobResult follow_float64(const Job& job) {
  const Points points = load_made(job.points_file, ScalarType::f64);
  const Points initial = load_made(job.centroids_file, ScalarType::f64);
  const Shape shape{points.n(), points.d(), job.k, Precision::f64};
  JobResult result;
  std::vector<double> before;
  std::vector<double> centroids(initial.data<double>(),
                                initial.data<double>() + job.k * points.d());
  std::vector<std::int32_t> labels;
  for (std::int64_t iteration = 0; iteration < job.iterations; ++iteration) {
    if (before == centroids) break;  // nothing changes any more
    before = centroids;
    float64_step(points.data<double>(), shape, job.threads, centroids, labels);
    std::vector<char> used(job.k, 0);
    for (const std::int32_t label : labels) used[label] = 1;
    result.empty_clusters = std::count(used.begin(), used.end(), 0);
    result.any_empty_clusters = result.any_empty_clusters || result.empty_clusters > 0;
  }
  result.inertia =
      quality_of(points.data<double>(), before.data(), labels.data(), shape, job.threads).inertia;
  result.scale = trajectory_scale(before.data(), labels.data(), shape);
  result.status = "ok";
  return result;
}

// No variant: the exact trajectory of points that memory does not hold.
JobResult follow_by_rows(const Job& job) {
  const Points points = load_made(job.points_file, ScalarType::f32);
  const Points initial = load_made(job.centroids_file, ScalarType::f32);
  const Shape shape{points.n(), points.d(), job.k, Precision::f32};
  const auto* rows = points.data<float>();
  const float max_abs = largest_abs(rows, points.n() * points.d(), job.threads);
  JobResult result;
  std::vector<float> before;
  std::vector<float> centroids(initial.data<float>(), initial.data<float>() + job.k * points.d());
  std::vector<std::int32_t> labels;
  for (std::int64_t iteration = 0; iteration < job.iterations; ++iteration) {
    if (before == centroids) break;  // nothing changes any more
    before = centroids;
    exact_step_by_rows(rows, shape, max_abs, job.threads, centroids, labels);
    std::vector<char> used(job.k, 0);
    for (const std::int32_t label : labels) used[label] = 1;
    result.empty_clusters = std::count(used.begin(), used.end(), 0);
    result.any_empty_clusters = result.any_empty_clusters || result.empty_clusters > 0;
  }
  result.inertia = quality_of(rows, before.data(), labels.data(), shape, job.threads).inertia;
  result.scale = trajectory_scale(before.data(), labels.data(), shape);
  result.label_hash = fnv1a_hex(labels.data(), labels.size() * sizeof(std::int32_t));
  result.status = "ok";
  return result;
}

JobResult without_answer(std::string status, std::string reason) {
  JobResult result;
  result.status = std::move(status);
  result.reason = std::move(reason);
  return result;
}

/// What the variant's traits say of its work on this shape.
void tell_model(const Traits& traits, const Shape& shape, JobResult& result) {
  if (traits.traffic) result.traffic = traits.traffic(shape);
  if (!traits.stage_work) return;
  for (const StageWork& work : traits.stage_work(shape)) {
    const Traffic& moved = work.traffic;
    result.stage_work[work.stage] = {
        {"operations", work.operations},
        {"bytes_as_written", moved.read_bytes + moved.written_bytes + moved.atomic_bytes},
        {"gpu", work.gpu}};
  }
}

/// What the certified run came to.
template <class T>
void tell_answer(const CertifiedRun<T>& run, const Shape& shape, JobResult& result) {
  result.label_hash = run.last.label_hash();
  result.centroid_hash = run.last.centroid_hash();
  result.inertia = run.quality.inertia;
  if (run.labels_in_range) {
    result.scale = trajectory_scale(run.before.data(), run.last.labels.data(), shape);
  }
  result.empty_clusters = run.quality.empty_clusters;
  result.any_empty_clusters = run.any_empty;
  result.status = "ok";
}

/// For points that are read or sent again in every iteration. The rate of the disk that they come from, right
/// before and right after the timed part: what a disk that others use gives changes.
class StreamedPoints {
 public:
  explicit StreamedPoints(const Job& job) : job_(job) { measure(); }

  void report(const Traits& traits, const Shape& shape, JobResult& result) {
    if (!job_.beyond_memory && !(traits.gpu && traits.streams)) return;
    measure();
    double bytes = 0;
    for (const DiskRate& rate : rates_) bytes += rate.bytes_per_second;
    result.streamed = {{"bytes_per_iteration", shape.n * shape.d * std::int64_t{4}},
                       {"disk_gbytes_per_second", nullptr},
                       {"direct", nullptr}};
    if (rates_.empty()) return;
    result.streamed["disk_gbytes_per_second"] = bytes / static_cast<double>(rates_.size()) * 1e-9;
    result.streamed["direct"] = rates_.front().direct;
  }

 private:
  void measure() {
    constexpr double kSeconds = 2;
    constexpr double kShortSeconds = 0.1;  // where a repetition is short as well
    if (!job_.beyond_memory) return;
    const double seconds = std::clamp(job_.max_seconds / 8, kShortSeconds, kSeconds);
    if (const auto rate = measure_disk_rate(job_.points_file, seconds)) rates_.push_back(*rate);
  }

  const Job& job_;
  std::vector<DiskRate> rates_;
};

/// The timed part, of a variant that has its certificate. `warm_up`: iterations that it has run.
template <class T>
void time_variant(Session<T>& session, const Job& job, int repetitions, std::int64_t warm_up,
                  JobResult& result) {
  const GpuDevice* gpu = session.traits().gpu ? current_gpu() : nullptr;
  nlohmann::json before = gpu != nullptr ? gpu_state(gpu->uuid) : nullptr;
  StreamedPoints streamed(job);
  QuietMoments moments(job.threads, job.best_pace, job.patience);
  const auto timed =
      time_repetitions(session, job.iterations, repetitions, job.min_seconds, moments);
  result.computed_distances = session.variant().computed_distances();
  if (const auto times = session.rank_times()) {
    const auto iterations = static_cast<double>(job.iterations);
    result.rank_times = {
        {"seconds_per_iteration", per_iteration(times->seconds, iterations)},
        {"communication_seconds_per_iteration", per_iteration(times->communication, iterations)}};
  }
  moments.finish();
  result.pace = moments.paces();
  streamed.report(session.traits(), session.problem().shape, result);
  if (gpu != nullptr) {
    result.gpu = {{"index", gpu->index},
                  {"name", gpu->name},
                  {"uuid", gpu->uuid},
                  {"cache", "warm"},
                  {"warm_up_iterations", warm_up},
                  {"before", std::move(before)},
                  {"after", gpu_state(gpu->uuid)}};
  }
  result.samples = timed.seconds;
  result.device_samples = timed.device_seconds;
  const auto& executed = timed.executed_iterations;
  if (!executed.empty()) result.executed_iterations = *executed.begin();
  if (executed.size() > 1) {
    result.doubts.push_back("the library stopped after " + std::to_string(*executed.begin()) +
                            " to " + std::to_string(*executed.rbegin()) +
                            " iterations: from the same start not always after as many");
  }
}

/// Times what is certified, and looks whether the timed runs did the same.
template <class T>
void measure(Session<T>& session, const Job& job, const VerifyOptions& options,
             CertifiedRun<T>& run, JobResult& result) {
  const bool disturbed = run.seconds <= kLongestDisturbance * static_cast<double>(job.iterations);
  if (disturbed) check_disturbance(session, run, options, run.certificate);
  if (!run.certificate.passed) return;
  const int repetitions = affordable_repetitions(job, run.seconds);
  if (repetitions < job.repetitions) result.stopping = "time budget";
  time_variant(session, job, repetitions,
               (job.iterations > 1 ? job.iterations + 1 : 1) + (disturbed ? 1 : 0), result);
  check_timed_outcome(session, run, options, run.certificate);
  const bool measurable =
      !result.samples.empty() && std::all_of(result.samples.begin(), result.samples.end(),
                                             [](double s) { return std::isfinite(s) && s > 0; });
  if (!measurable) {
    result.status = "error";
    result.reason = kNoDuration;
    result.samples.clear();
  }
  // The profiling pass costs another repetition, too much for cells of that length; of a file's points it
  // alone shows whether disk or cores bind.
  if (job.profile && (run.seconds <= kLongestProfiledSeconds || job.beyond_memory)) {
    result.stages = time_stages(session, job.iterations);
  }
}

// Seconds. Of a shorter setup, what a process does once may be a good part: starting threads, or for a GPU loading
// kernels and page-locking memory.
constexpr double kBriefSetup = 0.05;
constexpr double kBriefSetupForGpu = 1;
// Setups after the first: so many, or of so many seconds in all.
constexpr std::size_t kSetups = 5;
constexpr double kSetupsSeconds = 0.05;

struct SetupTime {
  double seconds = 0;                 // that count
  std::vector<std::string> doubts{};  // of the first, where others count
};

/// Where the first setup in this process was brief, and is of interest, the median of others counts.
template <class T>
SetupTime set_up(const Job& job, const RegisteredVariant& registered, const Problem<T>& problem,
                 const T* centroids, std::optional<Session<T>>& session) {
  session.emplace(registered, problem, centroids);
  const double first = session->setup_seconds();
  const bool has_own_process =
      registered.backend == "python" || registered.backend == kPluginBackend;
  const bool shares = registered.traits.shards && process_ranks().size() > 1;
  // NCCL starts once as well, in about the time that would decide.
  if (has_own_process || shares || problem.beyond_memory || registered.traits.many_gpus) {
    return {.seconds = first};
  }
  const double brief = registered.traits.gpu ? kBriefSetupForGpu : kBriefSetup;
  if (job.repetitions == 0 || first >= brief) return {.seconds = first};
  SetupTime result{.doubts = session->doubts()};
  std::vector<double> others;
  double all = 0;
  while (others.size() < kSetups && all < kSetupsSeconds) {
    session.emplace(registered, problem, centroids);
    others.push_back(session->setup_seconds());
    all += others.back();
  }
  result.seconds = median_of(others);
  return result;
}

template <class T>
JobResult run_typed(const Job& job, const RegisteredVariant& registered) {
  const Points points = load_made(job.points_file, scalar_of<T>);
  const Points centroids = load_made(job.centroids_file, scalar_of<T>);
  if (centroids.n() != job.k || centroids.d() != points.d()) {
    return without_answer("error", job.centroids_file + " holds " + std::to_string(centroids.n()) +
                                       " x " + std::to_string(centroids.d()) +
                                       " coordinates, not k x d");
  }
  const Traits& traits = registered.traits;
  Problem<T> problem;
  problem.shape = {points.n(), points.d(), job.k, job.precision};
  problem.points = points.data<T>();
  problem.threads = job.threads;
  problem.points_file = job.points_file;
  problem.beyond_memory = job.beyond_memory;
  if (const Support support = supports(registered, problem.shape); !support.ok) {
    return without_answer("skipped", support.reason);
  }
  const int verify_threads = job.verify_threads > 0 ? job.verify_threads : job.threads;
  problem.max_abs = largest_abs(problem.points, points.n() * points.d(), verify_threads);
  JobResult result;
  tell_model(traits, problem.shape, result);
  if (std::string lack = lacking_device_memory(registered, problem.shape); !lack.empty()) {
    result.status = "skipped";
    result.reason = std::move(lack);
    return result;
  }

  std::optional<Session<T>> made;
  SetupTime setup = set_up(job, registered, problem, centroids.data<T>(), made);
  result.doubts = std::move(setup.doubts);
  result.setup_seconds = setup.seconds;
  Session<T>& session = *made;
  session.set_verify_threads(verify_threads);
  // Once something has run: a variant may say what.
  const auto note_library = [&] {
    result.library = plugin_info(registered.traits.name);
    for (auto& entry : session.variant().library_info()) result.library.push_back(std::move(entry));
  };

  const bool timed = job.repetitions > 0;
  const VerifyOptions options{job.verify_budget, job.verify_seed};
  bool reused = false;
  auto run = certified_run(
      session, job.iterations, options, result.outcome, [&](const std::string& outcome) {
        reused = std::find(job.certified_outcomes.begin(), job.certified_outcomes.end(), outcome) !=
                 job.certified_outcomes.end();
        return timed && !reused;
      });
  note_library();
  tell_answer(run, problem.shape, result);
  if (!timed) return result;

  if (job.exact_inertia && run.labels_in_range) compare_with_trajectory(job, traits, problem, run);
  if (run.certificate.passed && !traits.wrong_because.empty()) {
    result.status = "skipped";
    result.reason =
        "kept although wrong (" + traits.wrong_because + "): right on this input, but never timed";
    return result;
  }
  if (run.certificate.passed) {
    measure(session, job, options, run, result);
    note_library();
  }
  if (!run.certificate.passed) {
    result.status = "wrong";
    result.reason = run.certificate.failure();
    result.samples.clear();
    result.device_samples.clear();
    result.stages.clear();
  }
  for (const std::string& doubt : session.doubts()) {
    if (std::ranges::count(result.doubts, doubt) == 0) result.doubts.push_back(doubt);
  }
  result.verification = to_json(run.certificate);
  if (reused) result.verification["reused"] = result.outcome;
  return result;
}

}  // namespace

JobResult run_job(const Job& job) {
  JobResult failed;
  failed.status = "error";
  try {
    if (job.variant == kFloat64Trajectory) return follow_float64(job);
    if (job.variant == kExactByRows) return follow_by_rows(job);
    const RegisteredVariant& registered = require_variant_of_worker(job.variant);
    use_gpus(job.gpus);
    return job.precision == Precision::f64 ? run_typed<double>(job, registered)
                                           : run_typed<float>(job, registered);
  } catch (const std::bad_alloc&) {
    failed.reason = "out of host memory: needs more than " + memory_left();
  } catch (const std::exception& error) {
    failed.reason = readable_tail(error.what(), kLongestReason);
  } catch (...) {
    failed.reason = "the variant threw something that is not a std::exception";
  }
  return failed;
}

int run_worker(const std::string& job_file, const std::string& result_file) {
  return answer_job("worker", job_file, result_file,
                    [](const auto& job) { return to_json(run_job(job_from_json(job))); });
}

}  // namespace kmeans
