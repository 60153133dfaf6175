// SPDX-License-Identifier: Apache-2.0
//
// Question:  what does a whole fit gain from several GPUs of a host?
// Method:    the first centroids and Lloyd's iterations by nccl_exact, shared as `fit --gpus` does, on
//            1, 2, 4, ... GPUs: the same points (strong), or as many on each (weak). Seeds, labels
//            and centroids must have the same bits for every number of GPUs, and be those of the CPU
// Time:      from points in the host's pageable memory to labels and centroids there, of a process
//            that has called before; the median of some fits
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "datasets/plus_plus.h"
#include "datasets/points.h"
#include "datasets/ward.h"
#include "experiments/studies/_common.h"
#include "harness/machine/gpu.h"
#include "harness/machine/kept_gpu_memory.h"
#include "harness/machine/machine.h"
#include "harness/support/clock.h"
#include "harness/support/errors.h"
#include "harness/support/gpu_seeding.h"
#include "harness/support/largest_abs.h"
#include "harness/support/parallel.h"
#include "harness/support/text.h"
#include "harness/variants/registry.h"
#include "harness/verify/session.h"
#include "harness/verify/stage_times.h"

namespace kmeans::studies::fit_on_gpus {
namespace {

constexpr const char* kShared = "nccl_exact";
constexpr std::int64_t kWarm = 20000;  // points of the call before
constexpr std::uint64_t kSeed = 1;

struct Plan {
  std::int64_t n = 0;
  std::int64_t d = 0;
  std::int64_t k = 0;
  json data;
  bool ward = false;
  bool weak = false;
  std::vector<std::int64_t> gpus;
  std::int64_t iterations = 0;
  bool settles = false;
  std::int64_t repeats = 0;
  std::int64_t by_cpu = 0;  // iterations
  bool start_by_cpu = false;
};

struct Seconds {
  std::vector<double> upload;
  std::vector<double> seeding;
  std::vector<double> setup;
  std::vector<double> lloyd;
  std::vector<double> fetch;
  std::vector<double> fit;
  std::vector<double> iteration;      // of the first ones
  std::vector<double> communication;  // of one of these, or none
};

struct Fit {
  std::vector<float> start;
  std::vector<float> after_some;  // centroids after `by_cpu` iterations
  std::int64_t iterations = 0;
  bool settled = false;
  kmeans::Outcome<float> end;
  Seconds seconds;
  std::string family;
};

std::vector<float> choose(const SeedingProblem<float>& seeding, std::int64_t k, bool ward,
                          SeedingBoard<float>* board) {
  if (ward) {
    return board != nullptr ? ward_centroids(seeding, k, kSeed, *board)
                            : ward_centroids(seeding, k, kSeed);
  }
  return rows_at(seeding, board != nullptr ? plus_plus_rows(seeding, k, kSeed, *board)
                                           : plus_plus_rows(seeding, k, kSeed));
}

/// The points of a fit, as a board and as an engine want them.
struct Given {
  SeedingProblem<float> seeding;
  Problem<float> lloyd;
};

Given given(const Points& points, std::int64_t n, std::int64_t k, int threads) {
  const auto* data = points.data<float>();
  Given all;
  all.seeding = {.points = data, .n = n, .d = points.d()};
  all.seeding.max_abs = largest_abs(data, n * points.d(), threads);
  all.seeding.threads = threads;
  all.lloyd.shape = {n, points.d(), k};
  all.lloyd.points = data;
  all.lloyd.max_abs = all.seeding.max_abs;
  all.lloyd.threads = threads;
  return all;
}

/// So many iterations, or until no label changes.
void follow(Session<float>& session, const Plan& plan, Fit& fit) {
  session.reset();
  const auto start = Clock::now();
  if (!plan.settles) {
    session.step(plan.iterations);
    fit.iterations = plan.iterations;
  }
  while (fit.iterations < plan.iterations && !fit.settled) {
    session.step(1);
    ++fit.iterations;
    fit.settled = session.variant().progress().changed == 0;
  }
  fit.seconds.lloyd.push_back(seconds_since(start));
}

/// One whole fit; times are appended. Empty, or why it could not be.
std::string run_fit(const Given& all, const Plan& plan, Fit& fit) {
  const auto [points, n, d] = std::tuple(all.seeding.points, all.seeding.n, all.seeding.d);
  const auto begin = Clock::now();
  auto kept = std::make_unique<KeptGpuRows>(points, n, d);
  std::string why_not;
  fit.iterations = 0;
  fit.settled = false;
  {
    const auto board =
        gpu_board_factory()(all.seeding, plan.ward ? ward_seeds(n, plan.k) : plan.k, why_not);
    if (board == nullptr) return why_not;
    fit.seconds.upload.push_back(seconds_since(begin));
    fit.start = choose(all.seeding, plan.k, plan.ward, board.get());
    fit.seconds.seeding.push_back(seconds_since(begin));
  }
  if (fit.start.empty()) return "there are fewer cells than k";
  const auto start = Clock::now();
  Session<float> session(require_variant(kShared), all.lloyd, fit.start.data());
  kept.reset();
  fit.seconds.setup.push_back(seconds_since(start));
  follow(session, plan, fit);
  const auto fetching = Clock::now();
  fit.end = session.fetch();
  fit.seconds.fetch.push_back(seconds_since(fetching));
  fit.seconds.fit.push_back(seconds_since(begin));

  for (const auto& [what, name] : session.variant().library_info()) {
    if (what == "on each GPU") fit.family = name;
  }
  const std::int64_t few = std::min<std::int64_t>(plan.iterations, 10);
  session.reset();
  session.step(1);
  const auto some = Clock::now();
  session.step(few);
  fit.seconds.iteration.push_back(seconds_since(some) / static_cast<double>(few));
  StageTimes stages(true);
  session.variant().set_stage_recorder(&stages);
  session.reset();
  session.step(few);
  session.variant().set_stage_recorder(nullptr);
  const auto times = stages.per_iteration(few);
  if (const auto found = times.find("communication"); found != times.end()) {
    fit.seconds.communication.push_back(found->second);
  }
  if (plan.by_cpu > 0) {
    session.reset();
    session.step(plan.by_cpu);
    fit.after_some = session.fetch().centroids;
  }
  return "";
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Of a fit on GPUs: what differs from the CPU's. Iterations from its start, and from its end one more.
std::string differs_from_cpu(const Given& all, const Plan& plan, const Fit& fit) {
  const RegisteredVariant* engine = exact_engine(EngineOn::threads);
  if (engine == nullptr) engine = &definition();
  if (plan.start_by_cpu && !same_bits(choose(all.seeding, plan.k, plan.ward, nullptr), fit.start)) {
    return "the start";
  }
  Session<float> session(*engine, all.lloyd, fit.start.data());
  session.reset();
  session.step(plan.by_cpu);
  const auto after = session.fetch();
  if (!same_bits(after.centroids, fit.after_some)) return "the centroids";
  if (plan.by_cpu == fit.iterations && after.labels != fit.end.labels) return "the labels";
  if (!fit.settled) return "";
  Session<float> last(*engine, all.lloyd, fit.end.centroids.data());
  last.reset();
  last.step(1);
  const auto again = last.fetch();
  if (again.labels != fit.end.labels) return "the last labels";
  return same_bits(again.centroids, fit.end.centroids) ? "" : "the last centroids";
}

/// As many points as fill a GPU's memory so many times, in whole blocks of 2^16.
std::int64_t points_for(double times, std::int64_t d) {
  const auto memory = gpu_memory();
  const auto total = memory ? static_cast<double>(memory->total_bytes) : 80e9;
  const double rows = times * total / (4.0 * static_cast<double>(d));
  return static_cast<std::int64_t>(rows / 65536) * 65536;
}

Plan read_plan(const StudyInput& input) {
  Parameters parameters(input);
  Plan plan;
  plan.d = parameters.integer("d", 128, 1, 1 << 20);
  plan.k = parameters.integer("k", 1024, 1, 1 << 24);
  const double times = parameters.real("gpu_memories", 0, 0, 1000);
  plan.n = parameters.integer("n", 0, 0, std::int64_t{1} << 40);
  if ((plan.n == 0) == (times == 0)) {
    throw InputError("parameters: one of n and gpu_memories is wanted, and not both");
  }
  if (times > 0) plan.n = points_for(times, plan.d);
  const auto generators =
      parameters.texts("generator", {"gaussian", "uniform", "blobs", "embedding"});
  const auto clusters = parameters.integer("clusters", 0, 0, 1 << 24);
  plan.data = {{"generator", generators.front()}, {"seed", 1}, {"d", plan.d}};
  if (clusters > 0) plan.data["k"] = clusters;
  plan.ward = parameters.texts("init", {"ward", "kmeans++"}).front() == "ward";
  plan.weak = parameters.texts("scaling", {"strong", "weak"}).front() == "weak";
  plan.gpus = parameters.integers("gpus", {1, 2, 4}, 1, 1024);
  plan.settles = parameters.texts("end", {"settled", "iterations"}).front() == "settled";
  plan.iterations = parameters.integer("iterations", 300, 1, 1000000);
  plan.repeats = parameters.integer("repeats", 3, 1, 1000);
  plan.by_cpu = parameters.integer("by_cpu", 2, 0, 1000);
  plan.start_by_cpu = parameters.integer("start_by_cpu", 1, 0, 1) == 1;
  parameters.finish();
  return plan;
}

/// This process has called before.
void warm(const Plan& plan, int threads) {
  json small = plan.data;
  small["n"] = kWarm;
  Plan few = plan;
  few.k = std::min<std::int64_t>(plan.k, 64);
  few.ward = false;
  few.iterations = 2;
  few.settles = false;
  few.by_cpu = 0;
  Fit fit;
  const Points points = generate(parse_dataset(small), ScalarType::f32);
  run_fit(given(points, kWarm, few.k, threads), few, fit);
}

double gained(double one, double now, std::int64_t first, std::int64_t gpus, bool weak) {
  const double more = static_cast<double>(gpus) / static_cast<double>(first);
  return weak ? one / now : one / (now * more);
}

/// `first`: on the fewest GPUs; null: this is it.
json row_of(const Plan& plan, std::int64_t gpus, std::int64_t n, const Fit& fit, const Fit* first,
            std::int64_t first_gpus) {
  const auto one = [](const std::vector<double>& values) { return median(values); };
  const auto gain = [&](const std::vector<double> Seconds::*part) -> json {
    if (first == nullptr) return nullptr;
    return gained(one(first->seconds.*part), one(fit.seconds.*part), first_gpus, gpus, plan.weak);
  };
  const auto& communication = fit.seconds.communication;
  return {
      {"gpus", gpus},
      {"n", n},
      {"d", plan.d},
      {"k", plan.k},
      {"init", plan.ward ? "ward" : "kmeans++"},
      {"iterations", fit.iterations},
      {"settled", fit.settled},
      {"family", fit.family},
      {"labels", fit.end.label_hash()},
      {"centroids", fit.end.centroid_hash()},
      {"fit_seconds", one(fit.seconds.fit)},
      {"fit_seconds_min", *std::min_element(fit.seconds.fit.begin(), fit.seconds.fit.end())},
      {"fit_seconds_max", largest(fit.seconds.fit)},
      {"upload_seconds", one(fit.seconds.upload)},
      {"seeding_seconds", one(fit.seconds.seeding)},
      {"setup_seconds", one(fit.seconds.setup)},
      {"lloyd_seconds", one(fit.seconds.lloyd)},
      {"fetch_seconds", one(fit.seconds.fetch)},
      {"iteration_seconds", one(fit.seconds.iteration)},
      {"communication_seconds", communication.empty() ? json(nullptr) : json(one(communication))},
      {"fit_efficiency", gain(&Seconds::fit)},
      {"seeding_efficiency", gain(&Seconds::seeding)},
      {"lloyd_efficiency", gain(&Seconds::lloyd)},
      {"iteration_efficiency", gain(&Seconds::iteration)}};
}

void leave_out(StudyOutput& output, std::int64_t gpus, const std::string& why) {
  output.notes.push_back("Left out: " + std::to_string(gpus) + (gpus == 1 ? " GPU (" : " GPUs (") +
                         why + ")");
}

/// Of the numbers of GPUs those that this build and this machine have.
std::vector<std::int64_t> counts_here(const Plan& plan, StudyOutput& output) {
  std::string why;
  if (gpu_board_factory() == nullptr) {
    why = "this build has no CUDA";
  } else if (current_gpu() == nullptr) {
    why = gpu_status().problem;
  } else if (const Support there = availability(require_variant(kShared)); !there.ok) {
    why = there.reason;
  }
  if (!why.empty()) {
    leave_out(output, plan.gpus.front(), why);
    return {};
  }
  std::vector<std::int64_t> counts;
  const std::int64_t visible = std::ssize(gpu_status().devices);
  for (const auto gpus : plan.gpus) {
    const std::string problem = gpus > visible ? std::to_string(visible) + " visible here"
                                : gpus > 1     ? problem_with_gpus(static_cast<int>(gpus))
                                               : "";
    if (problem.empty()) {
      counts.push_back(gpus);
    } else {
      leave_out(output, gpus, problem);
    }
  }
  return counts;
}

/// Of these numbers of GPUs those whose points the host's memory holds, with what a CPU needs to compare.
std::vector<std::int64_t> counts_with_memory(const Plan& plan, int threads,
                                             const std::vector<std::int64_t>& counts,
                                             std::int64_t available, StudyOutput& output) {
  const RegisteredVariant* engine = exact_engine(EngineOn::threads);
  if (engine == nullptr) engine = &definition();
  std::vector<std::int64_t> held;
  for (const auto gpus : counts) {
    const Shape shape{plan.weak ? plan.n * gpus : plan.n, plan.d, plan.k};
    const Sizes s = shape;
    const bool compares = plan.by_cpu > 0 && (held.empty() || plan.weak);
    const double need = compares ? memory_need(*engine, shape, threads) : 4 * s.n * (s.d + 4);
    if (need <= static_cast<double>(available)) {
      held.push_back(gpus);
    } else {
      leave_out(output, gpus,
                format_count(shape.n) +
                    (compares ? " points and a CPU's fit need " : " points need ") +
                    format_bytes(need) + " of the host's memory, " +
                    format_bytes(static_cast<double>(available)) + " are free");
    }
  }
  return held;
}

/// What fits' bits are compared with: of the same points those of the first fit, and a CPU's.
class Bits {
 public:
  explicit Bits(const Plan& plan) : plan_(plan) {}

  /// Empty, or what differs. `first`: on so many GPUs, or null.
  std::string compare(const Given& all, const Fit& fit, const Fit* first, std::int64_t first_gpus) {
    if (first != nullptr && !plan_.weak) {
      compared_ = true;
      unseen_ends_ = 0;  // nor is the first one's any more
      const bool same = same_bits(first->start, fit.start) && first->end.labels == fit.end.labels &&
                        same_bits(first->end.centroids, fit.end.centroids);
      return same ? "" : "other bits than on " + std::to_string(first_gpus);
    }
    const bool seen = fit.settled || plan_.by_cpu == fit.iterations;
    if (plan_.by_cpu == 0 || !seen) ++unseen_ends_;
    if (plan_.by_cpu == 0) return "";
    compared_ = true;
    const std::string differs = differs_from_cpu(all, plan_, fit);
    return differs.empty() ? "" : differs + " differs from the CPU's";
  }

  [[nodiscard]] std::string found() const {
    if (!compared_) return "not compared";
    if (unseen_ends_ == 0) return "the same";
    return "the same after " + counted(plan_.by_cpu, "iteration", "iterations") +
           "; ends not compared";
  }

 private:
  const Plan& plan_;
  bool compared_ = false;
  std::int64_t unseen_ends_ = 0;  // of fits, compared with nothing
};

StudyOutput run(const StudyInput& input) {
  const Plan plan = read_plan(input);
  StudyOutput output;
  output.varying = {"fit_seconds",           "fit_seconds_min",     "fit_seconds_max",
                    "upload_seconds",        "seeding_seconds",     "setup_seconds",
                    "lloyd_seconds",         "fetch_seconds",       "iteration_seconds",
                    "communication_seconds", "fit_efficiency",      "seeding_efficiency",
                    "lloyd_efficiency",      "iteration_efficiency"};
  output.notes = {
      "Efficiency: of the same points, time on the fewest GPUs over the time on more and their "
      "number; "
      "of as many points a GPU, the first time over the later one.",
      "Times are " +
          (plan.repeats == 1 ? std::string("of one fit")
                             : "medians of " + std::to_string(plan.repeats) + " fits") +
          ", of a process that has called before and knows the largest coordinate. Seeding "
          "includes "
          "the upload, which upload_seconds are; set-up runs two iterations on each GPU. Times of "
          "an iteration and of communication are of each fit's first iterations."};
  const auto counts = counts_with_memory(plan, input.threads, counts_here(plan, output),
                                         available_memory(), output);
  if (counts.empty()) return output;
  json spec = plan.data;
  spec["n"] = plan.weak ? plan.n * *std::max_element(counts.begin(), counts.end()) : plan.n;
  const Points points = generate(parse_dataset(spec), ScalarType::f32);
  keep_gpu_memory(true);  // as a later call of the library has it
  std::optional<Fit> first;
  std::int64_t first_gpus = 0;
  Bits bits(plan);
  for (const auto gpus : counts) {
    use_gpus(static_cast<int>(gpus));
    const std::int64_t n = plan.weak ? plan.n * gpus : plan.n;
    const double need =
        device_memory_need(require_variant(kShared), {n, plan.d, plan.k}, static_cast<int>(gpus));
    const auto memory = gpu_memory();
    if (memory && need > static_cast<double>(memory->free_bytes)) {
      leave_out(output, gpus, "they do not hold the points");
      continue;
    }
    warm(plan, input.threads);
    const Given all = given(points, n, plan.k, input.threads);
    Fit fit;
    std::string problem;
    for (std::int64_t repeat = 0; repeat < plan.repeats && problem.empty(); ++repeat) {
      problem = run_fit(all, plan, fit);
    }
    keep_gpu_memory(false);  // what other numbers of GPUs do not use
    keep_gpu_memory(true);
    if (!problem.empty()) {
      leave_out(output, gpus, problem);
      continue;
    }
    const Fit* const earlier = first ? &*first : nullptr;
    const std::string differs = bits.compare(all, fit, earlier, first_gpus);
    if (!differs.empty()) output.wrong = std::to_string(gpus) + " GPUs: " + differs;
    output.rows.push_back(row_of(plan, gpus, n, fit, earlier, first_gpus));
    if (!first) {
      first = fit;
      first_gpus = gpus;
    }
  }
  use_gpus(1);
  output.findings["bits"] = output.wrong.empty() ? bits.found() : output.wrong;
  return output;
}

}  // namespace

KMEANS_STUDY(.name = "fit_on_gpus", .summary = "What a whole fit gains from several GPUs of a host",
             .source = "", .run = run);

}  // namespace kmeans::studies::fit_on_gpus
