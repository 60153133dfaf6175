// SPDX-License-Identifier: Apache-2.0
//
// Question:  what does it cost not to know which exact family is the fastest?
// Method:    whole calls of a variant that chooses and of the families among which it does, in turns: the variant
//            made and set up, T iterations from the same random points, labels and centroids back. What it tries
//            on the way is in its time. All answers must have the same bits
// Time:      of a process that has called before, with its memory and threads kept as the library keeps them;
//            medians of calls in an order that is drawn in each turn. A family that its shorter calls predict to
//            take over 1.5 times as long as the fastest gets one call, cut off at that time, since bounds save more
//            the longer a run is; if it does not finish, it is left out
// Ratio:     median of the ratios within a turn, as a machine is faster at one time than at another, with the order
//            statistics that hold it with 95 % confidence. Turns go on, of the families next to the fastest, while
//            these have 5 % between them
#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "datasets/points.h"
#include "datasets/random.h"
#include "experiments/studies/_common.h"
#include "harness/machine/gpu.h"
#include "harness/machine/kept_gpu_memory.h"
#include "harness/machine/machine.h"
#include "harness/record/measures.h"
#include "harness/support/clock.h"
#include "harness/support/crews_work.h"
#include "harness/support/errors.h"
#include "harness/support/largest_abs.h"
#include "harness/support/text.h"
#include "harness/variants/registry.h"
#include "harness/verify/session.h"

namespace kmeans::studies::family_choice {
namespace {

constexpr double kFarBehind = 1.5;
constexpr std::int64_t kFewestCalls = 3;
constexpr std::int64_t kMostCalls = 15;
constexpr double kInQuestion = 1.05;  // is the chooser further behind?
constexpr std::int64_t kMostCallsInQuestion = 60;
constexpr double kLongerInQuestion = 4;  // than other rows
constexpr double kNext = 1.1;            // to the fastest

struct Plan {
  std::string chooser;
  std::vector<std::string> families;
  std::vector<Shape> shapes;
  std::vector<std::int64_t> iterations;
  std::vector<int> threads;
  double seconds = 0;  // for a shape and T, about
  json data;
};

/// Also of one whose backend this build lacks, as CUDA's where there is no GPU. Throws for a name that nothing has.
Support available_here(const std::string& name) {
  try {
    return availability(require_variant(name));
  } catch (const EnvironmentError& error) {
    return Support::no(error.what());
  }
}

Plan read_plan(const StudyInput& input) {
  Parameters parameters(input);
  Plan plan;
  plan.chooser = parameters.names("chooser", {"openmp_best"}).front();
  plan.families = parameters.names("families", {"openmp_exact"});
  const auto n = parameters.integers("n", {10000}, 1, std::int64_t{1} << 40);
  const auto d = parameters.integers("d", {3}, 1, 1 << 20);
  const auto k = parameters.integers("k", {16}, 1, 1 << 24);
  if (n.size() != d.size() || n.size() != k.size()) {
    throw InputError("parameters: n, d and k list shapes, so they are to be equally long");
  }
  for (std::size_t i = 0; i < n.size(); ++i) plan.shapes.push_back({n[i], d[i], k[i]});
  plan.iterations = parameters.integers("iterations", {10, 50, 300}, 1, 100000);
  std::sort(plan.iterations.begin(), plan.iterations.end());
  for (const auto one : parameters.integers("threads", {input.threads}, 1, 4096)) {
    plan.threads.push_back(static_cast<int>(one));
  }
  plan.seconds = parameters.real("seconds", 1, 0.001, 3600);
  plan.data = {{"generator", parameters.texts("generator", {"gaussian", "embedding"}).front()},
               {"seed", 1}};
  parameters.finish();
  return plan;
}

/// Of one variant at one shape.
struct Row {
  const RegisteredVariant* variant = nullptr;
  std::vector<double> seconds;  // of calls of so many iterations
  std::vector<double> setups;   // in them
  std::int64_t first_turn = 0;  // of the calls
  double whole = 0;             // median of calls of `made` iterations
  double setup = 0;
  std::int64_t made = 0;
  std::string family;  // a chooser's: that it begins with, or those in question

  /// How many times as long it took as the other, in each turn that both had a call in.
  [[nodiscard]] std::vector<double> over(const Row& other) const {
    const auto end_of = [](const Row& row) { return row.first_turn + std::ssize(row.seconds); };
    std::vector<double> ratios;
    for (std::int64_t turn = std::max(first_turn, other.first_turn);
         turn < std::min(end_of(*this), end_of(other)); ++turn) {
      ratios.push_back(seconds[turn - first_turn] / other.seconds[turn - other.first_turn]);
    }
    return ratios;
  }

  /// Of a call of so many iterations, by the one before.
  [[nodiscard]] double predicted(std::int64_t iterations) const {
    if (made == 0) return 0;
    return setup + (whole - setup) * static_cast<double>(iterations) / static_cast<double>(made);
  }
};

struct Answer {
  std::vector<float> centroids;
  std::vector<std::int32_t> labels;

  [[nodiscard]] bool is(const Answer& other) const {
    return labels == other.labels && std::memcmp(centroids.data(), other.centroids.data(),
                                                 centroids.size() * sizeof(float)) == 0;
  }
};

/// A variant that is ready for so many iterations. A chooser makes its family in setup, so making is timed for all.
std::unique_ptr<Variant<float>> ready(const Row& row, Problem<float> problem,
                                      std::int64_t iterations) {
  problem.iterations = iterations;
  auto variant = row.variant->factory.make_float(problem.shape.precision);
  variant->setup(problem);
  return variant;
}

/// Adds a whole call.
void call(Row& row, const Problem<float>& problem, const std::vector<float>& first,
          std::int64_t iterations, Answer& answer) {
  answer.centroids.assign(first.size(), 0);
  answer.labels.assign(problem.shape.n, -1);
  const auto begin = Clock::now();
  const auto variant = ready(row, problem, iterations);
  row.setups.push_back(seconds_since(begin));
  variant->reset(first.data());
  variant->step(iterations);
  variant->fetch(answer.centroids.data(), answer.labels.data());
  row.seconds.push_back(seconds_since(begin));
  for (const auto& [what, name] : variant->library_info()) {
    if (what == "family" || what == "families") row.family = name;
  }
}

/// Does a whole call take no longer than `most`? It is cut off there, or some iterations later.
bool ends_within(double most, const Row& row, const Problem<float>& problem,
                 const std::vector<float>& first, std::int64_t iterations, Answer& answer) {
  const auto begin = Clock::now();
  const auto late = [&] { return seconds_since(begin) > most; };
  const auto variant = ready(row, problem, iterations);
  variant->reset(first.data());
  std::int64_t part = 1;
  for (std::int64_t made = 0; made < iterations; made += part) {
    if (late()) return false;
    part = std::min({2 * part, std::max<std::int64_t>(1, iterations / 10), iterations - made});
    variant->step(part);
  }
  answer.centroids.resize(first.size());
  answer.labels.resize(problem.shape.n);
  variant->fetch(answer.centroids.data(), answer.labels.data());
  return !late();
}

std::string column_of(const std::string& family) { return family + "_seconds"; }

class Choice {
 public:
  Choice(const Plan& plan, StudyOutput& output) : plan_(plan), output_(output) {}

  void look_at(const Shape& shape, int threads) {
    json spec = plan_.data;
    spec["n"] = shape.n;
    spec["d"] = shape.d;
    if (spec.at("generator") == "embedding") spec["k"] = shape.k;
    const Points points = generate(parse_dataset(spec), ScalarType::f32);
    Problem<float> problem;
    problem.shape = shape;
    problem.points = points.data<float>();
    problem.threads = threads;
    problem.max_abs = largest_abs(problem.points, shape.n * shape.d, threads);
    const auto first = first_centroids(problem);
    std::vector<Row> rows = rows_for(shape);
    if (rows.size() < 2 || rows.front().variant->traits.name != plan_.chooser) {
      return leave_out(shape, "fewer than two variants take it");
    }
    Answer answer;
    for (Row& row : rows) call(row, problem, first, 2, answer);  // loads what is loaded once
    for (const std::int64_t iterations : plan_.iterations) {
      time_calls(rows, problem, first, iterations);
    }
  }

  void finish() {
    for (const auto& [iterations, ratios] : ratios_) {
      const std::string end = "_" + std::to_string(iterations);
      output_.findings["most_behind" + end] = largest(ratios);
      output_.findings["median_behind" + end] = median_of(ratios);
      output_.findings["share_over_five_percent_behind" + end] = share_above(ratios, kInQuestion);
      const std::vector<double>& least = surely_.at(iterations);
      output_.findings["most_surely_behind" + end] = largest(least);
      output_.findings["share_surely_over_five_percent_behind" + end] =
          share_above(least, kInQuestion);
    }
    output_.findings["shapes"] = looked_at_;
  }

 private:
  /// k points, drawn at random.
  static std::vector<float> first_centroids(const Problem<float>& problem) {
    const auto [n, d, k, precision] = problem.shape;
    std::vector<float> first;
    first.reserve(k * d);
    for (const std::int64_t row : drawn_rows(n, k, CounterRandom(1, 7))) {
      first.insert(first.end(), problem.points + row * d, problem.points + (row + 1) * d);
    }
    return first;
  }

  /// The chooser first, and the families that take the shape here.
  std::vector<Row> rows_for(const Shape& shape) {
    std::vector<Row> rows;
    std::vector<std::string> names{plan_.chooser};
    names.insert(names.end(), plan_.families.begin(), plan_.families.end());
    for (const std::string& name : names) {
      if (!available_here(name).ok) continue;
      const RegisteredVariant& variant = require_variant(name);
      if (supports(variant, shape).ok) rows.emplace_back().variant = &variant;
    }
    return rows;
  }

  void time_calls(std::vector<Row>& rows, const Problem<float>& problem,
                  const std::vector<float>& first, std::int64_t iterations) {
    std::vector<Row*> running;
    double least = std::numeric_limits<double>::infinity();
    for (auto row = std::next(rows.begin()); row != rows.end(); ++row) {
      least = std::min(least, row->predicted(iterations));
    }
    double all = 0;
    std::vector<Row*> far;
    for (Row& row : rows) {
      const bool near = row.made == 0 || row.predicted(iterations) <= kFarBehind * least;
      (&row == &rows.front() || near ? running : far).push_back(&row);
      row.seconds.clear();
      row.setups.clear();
      row.first_turn = 0;
    }
    Answer known;
    Answer answer;
    std::int64_t fewest = kFewestCalls;
    for (std::int64_t turn = 0;; ++turn) {
      // Who follows whom may matter.
      for (std::size_t place = running.size(); place > 1; --place) {
        const auto other = order_.below(drawn_++, static_cast<std::int64_t>(place));
        std::swap(running[place - 1], running[other]);
      }
      for (Row* const one : running) {
        Row& row = *one;
        const bool begins = known.labels.empty();
        call(row, problem, first, iterations, begins ? known : answer);
        all += row.seconds.back();
        if (!begins && !answer.is(known)) differs(row, problem.shape, iterations);
      }
      if (turn == 0) {
        double best = std::numeric_limits<double>::infinity();
        for (const Row* const one : running) {  // families
          if (one != &rows.front()) best = std::min(best, one->seconds.front());
        }
        for (Row* const one : far) {
          const auto begin = Clock::now();
          if (ends_within(kFarBehind * best, *one, problem, first, iterations, answer)) {
            running.push_back(one);
            one->first_turn = 1;
            fewest = kFewestCalls + 1;
          }
          all += seconds_since(begin);
        }
      }
      const std::int64_t calls = turn + 1;
      if (calls < kMostCalls && (calls < fewest || all < plan_.seconds)) continue;
      const Row& fastest = fastest_of(rows);
      const bool longest =
          calls >= kMostCallsInQuestion || all >= kLongerInQuestion * plan_.seconds;
      if (longest || !is_in_question(rows.front().over(fastest))) break;
      std::erase_if(running, [&](const Row* one) {
        return one != &rows.front() && median_of(one->over(fastest)) > kNext;
      });
    }
    add_row(rows, problem, iterations);
  }

  /// Of the families, the one that the chooser, the first row, takes longer than by most.
  static const Row& fastest_of(const std::vector<Row>& rows) {
    const Row* fastest = nullptr;
    double most = 0;
    for (auto row = std::next(rows.begin()); row != rows.end(); ++row) {
      if (row->seconds.empty()) continue;  // left out
      const double ratio = median_of(rows.front().over(*row));
      if (!(ratio > most)) continue;
      fastest = &*row;
      most = ratio;
    }
    return *fastest;
  }

  /// Would more turns say on which side of 5 % it is? Few of them show that it is not behind, but not that it is.
  static bool is_in_question(std::vector<double> ratios) {
    std::sort(ratios.begin(), ratios.end());
    if (ratios.back() <= kInQuestion) return false;
    const auto interval = median_ci95(ratios);
    return !interval || (interval->first <= kInQuestion && kInQuestion < interval->second);
  }

  void add_row(std::vector<Row>& rows, const Problem<float>& problem, std::int64_t iterations) {
    for (Row& row : rows) {
      if (row.seconds.empty()) continue;
      row.whole = median_of(row.seconds);
      row.setup = median_of(row.setups);
      row.made = iterations;
    }
    const Row& fastest = fastest_of(rows);
    const Row& chooser = rows.front();
    std::vector<double> ratios = chooser.over(fastest);
    std::sort(ratios.begin(), ratios.end());
    const double ratio = median_of(ratios);
    const auto interval = median_ci95(ratios);
    output_.rows.push_back({{"n", problem.shape.n},
                            {"d", problem.shape.d},
                            {"k", problem.shape.k},
                            {"threads", problem.threads},
                            {"iterations", iterations},
                            {"seconds", chooser.whole},
                            {"setup_seconds", chooser.setup},
                            {"family", chooser.family},
                            {"fastest", fastest.variant->traits.name},
                            {"fastest_seconds", fastest.whole},
                            {"fastest_setup_seconds", fastest.setup},
                            {"over_fastest", ratio},
                            {"over_at_least", interval ? json(interval->first) : json(nullptr)},
                            {"over_at_most", interval ? json(interval->second) : json(nullptr)},
                            {"calls", std::ssize(chooser.seconds)}});
    for (const std::string& family : plan_.families) {
      output_.rows.back()[column_of(family)] = nullptr;  // left out
    }
    for (auto row = std::next(rows.begin()); row != rows.end(); ++row) {
      if (row->seconds.empty()) continue;
      output_.rows.back()[column_of(row->variant->traits.name)] = row->whole;
    }
    ratios_[iterations].push_back(ratio);
    surely_[iterations].push_back(interval ? interval->first : 0);
    if (iterations == plan_.iterations.front()) ++looked_at_;
  }

  void differs(const Row& row, const Shape& shape, std::int64_t iterations) {
    output_.wrong = row.variant->traits.name + " has other bits at " + text_of(shape) + ", " +
                    counted(iterations, "iteration", "iterations");
  }
  void leave_out(const Shape& shape, const std::string& why) {
    output_.notes.push_back("Left out: " + text_of(shape) + ", since " + why);
  }
  static std::string text_of(const Shape& shape) {
    return "(" + std::to_string(shape.n) + ", " + std::to_string(shape.d) + ", " +
           std::to_string(shape.k) + ")";
  }

  const Plan& plan_;
  StudyOutput& output_;
  CounterRandom order_{1, 8};
  std::uint64_t drawn_ = 0;
  std::map<std::int64_t, std::vector<double>> ratios_;  // by iterations
  std::map<std::int64_t, std::vector<double>> surely_;  // at least; 0 after too few calls
  std::int64_t looked_at_ = 0;
};

/// Memory and threads that a later call finds, while it lives.
class AsInTheLibrary {
 public:
  explicit AsInTheLibrary(bool gpu) : gpu_(gpu) {
    if (gpu_) keep_gpu_memory(true);
    crews_work() = true;
  }
  AsInTheLibrary(const AsInTheLibrary&) = delete;
  AsInTheLibrary& operator=(const AsInTheLibrary&) = delete;
  ~AsInTheLibrary() {
    crews_work() = false;
    if (gpu_) keep_gpu_memory(false);
  }

 private:
  bool gpu_;
};

StudyOutput run(const StudyInput& input) {
  const Plan plan = read_plan(input);
  StudyOutput output;
  output.varying = {"seconds",      "setup_seconds",   "family",
                    "fastest",      "fastest_seconds", "fastest_setup_seconds",
                    "over_fastest", "over_at_least",   "over_at_most",
                    "calls"};
  for (const std::string& family : plan.families) output.varying.push_back(column_of(family));
  output.notes = {
      "Times are medians of whole calls in turns: a variant is made and set up, iterates, and "
      "labels and centroids come to the host's memory; what is tried on the way is in them. A "
      "family that its shorter calls predict to take over 1.5 times as long as the fastest gets "
      "one call, cut off at that time; if it does not finish, it is left out.",
      "over_fastest is the median of the ratios within a turn, over_at_least and over_at_most hold "
      "it with 95 % confidence, from six turns on. Turns go on while 1.05 lies between them."};
  Choice choice(plan, output);
  if (const Support there = available_here(plan.chooser); !there.ok) {
    output.notes.push_back("Left out: " + plan.chooser + " (" + there.reason + ")");
    return output;
  }
  const bool gpu = require_variant(plan.chooser).traits.gpu;
  if (gpu) bind_gpu();
  const AsInTheLibrary as_in_the_library(gpu);
  for (const int threads : plan.threads) {
    if (threads > usable_threads()) {
      output.notes.push_back("Left out: " + std::to_string(threads) + " threads (" +
                             std::to_string(usable_threads()) + " here)");
      continue;
    }
    for (const Shape& shape : plan.shapes) choice.look_at(shape, threads);
  }
  choice.finish();
  return output;
}

}  // namespace

KMEANS_STUDY(.name = "family_choice",
             .summary = "What a choice of the family costs against the fastest, in whole calls",
             .source = "", .run = run);

}  // namespace kmeans::studies::family_choice
