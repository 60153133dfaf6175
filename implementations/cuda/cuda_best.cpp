// SPDX-License-Identifier: Apache-2.0
//
// Idea:      the exact families of this folder, of which one is at work: at first the one that a model
//            of their times, made from what the GPU reports of itself, finds the fastest; another is
//            tried on the next iterations where what is to come can pay for it
// Parallel:  as the family at work
// Memory:    that of the family at work, and if there is room, of the one for long runs and of one on trial; the
//            points, where families that may be tried keep them in another order
// Numerics:  equals the exact Lloyd step bit for bit, since every family does: what a clock chooses
//            changes no bit
// Source:    ours; docs/gpu.md has the choice
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/machine/gpu.h"
#include "harness/variant.h"
#include "implementations/cuda/_best_choice.h"
#include "implementations/cuda/_best_run.h"
#include "implementations/cuda/_counted_family.h"
#include "implementations/cuda/_make_family.h"
#include "implementations/cuda/_upload.cuh"

namespace {

using kmeans::Problem;
using kmeans::Shape;
using kmeans::Stopped;
using kmeans::Stopping;
using kmeans::cuda::BestRun;
using kmeans::cuda::Candidate;
using kmeans::cuda::SharedRows;
using Family = kmeans::cuda::Family<float>;

/// The families among which it chooses: looked up once, since a search takes as long as an iteration of few points.
const std::vector<kmeans::Registration>& all_families() {
  static const auto all = [] {
    std::vector<kmeans::Registration> families;
    for (const char* name : {"cuda_tree", "cuda_resident", "cuda_onepass", "cuda_tensor",
                             "cuda_hamerly", "cuda_int8", "cuda_exact"}) {
      families.push_back(kmeans::registered_variant(name));
    }
    return families;
  }();
  return all;
}

const kmeans::Registration& family_named(const std::string& name) {
  return *std::find_if(all_families().begin(), all_families().end(),
                       [&](const kmeans::Registration& one) { return one.traits.name == name; });
}

/// `counted`: as Problem::is_counted().
double bytes_of(const std::string& family, const Shape& shape, bool counted) {
  const double bytes = family_named(family).traits.device_bytes(shape);
  return counted ? kmeans::cuda::counted_bytes(family, bytes, shape) : bytes;
}

/// The families that take the shape.
std::vector<std::string> families_for(const Shape& shape) {
  std::vector<std::string> families;
  for (const auto& one : all_families()) {
    const auto& supports = one.traits.supports;
    if (!supports || supports(shape).ok) families.push_back(one.traits.name);
  }
  return families;
}

/// The one that needs the least memory.
std::string smallest_of(const std::vector<std::string>& families, const Shape& shape,
                        bool counted) {
  return *std::min_element(families.begin(), families.end(),
                           [&](const std::string& a, const std::string& b) {
                             return bytes_of(a, shape, counted) < bytes_of(b, shape, counted);
                           });
}

double least_bytes(const Shape& shape, bool counted) {
  return bytes_of(smallest_of(families_for(shape), shape, counted), shape, counted);
}

/// Kernels that this process has loaded, and the time that pays for more, by GPU.
class Kernels {
 public:
  static Kernels& of_process() {
    static auto* const kernels = new Kernels;  // no destructor: problems may live longer
    return *kernels;
  }

  /// That a trial of the family is charged.
  [[nodiscard]] double seconds_to_load(int gpu, const std::string& family) {
    const std::lock_guard lock(mutex_);
    const OfGpu& own = gpus_[gpu];
    if (own.loaded.contains(family)) return 0;
    return kmeans::cuda::load_in_trial(family, own.spent, own.loads);
  }
  void loaded(int gpu, const std::string& family, bool for_trial) {
    const std::lock_guard lock(mutex_);
    OfGpu& own = gpus_[gpu];
    const bool is_new = own.loaded.insert(family).second;
    if (is_new && for_trial) own.loads += kmeans::cuda::load_seconds(family);
  }
  void spent(int gpu, double seconds) {
    const std::lock_guard lock(mutex_);
    gpus_[gpu].spent += seconds;
  }

 private:
  struct OfGpu {
    std::set<std::string> loaded;  // families
    double spent = 0;              // seconds of problems that had several candidates
    double loads = 0;              // seconds to load families for trials
  };

  std::mutex mutex_;
  std::map<int, OfGpu> gpus_;
};

class CudaBest final : public kmeans::Variant<float>, public kmeans::Stops<float> {
 public:
  CudaBest() = default;
  CudaBest(const CudaBest&) = delete;
  CudaBest& operator=(const CudaBest&) = delete;
  ~CudaBest() override { end(); }

  void setup(const Problem<float>& problem) override {
    const double begin = BestRun::seconds_now();
    end();
    problem_ = problem;
    gpu_ = kmeans::current_gpu()->index;
    const Shape& shape = problem.shape;
    rows_ = SharedRows::of(problem.points, shape.n * shape.d);
    const auto chosen = choice();
    std::vector<Candidate> candidates = chosen->candidates;
    const bool several = candidates.size() > 1;
    if (rows_ == nullptr &&
        (problem.is_counted() || (several && kmeans::gpu_has_room(chosen->bytes)))) {
      rows_ = SharedRows::send(problem.points, shape.n * shape.d);  // once for all that are tried
    }
    first_ = candidates.front().name;
    if (several) {
      for (Candidate& one : candidates) {
        one.setup += Kernels::of_process().seconds_to_load(gpu_, one.name);
      }
    }
    run_.emplace(
        std::move(candidates), [this](const std::string& name) { return make(name); },
        BestRun::seconds_now() - begin);
  }

  void reset(const float* centroids) override { run_.value().reset(centroids); }
  void step(std::int64_t iterations) override { run_.value().step(iterations, stage_recorder()); }
  void fetch(float* centroids, std::int32_t* labels) override {
    run_.value().at_work().fetch(centroids, labels);
  }
  kmeans::Progress progress() override { return run_.value().at_work().progress(); }

  Stopped step_until(const Stopping& when, std::int64_t iterations) override {
    return run_.value().step_until(when, iterations);
  }
  [[nodiscard]] const float* centroids() const override {
    return run_.value().at_work().centroids();
  }
  void label_again() override { run_.value().at_work().label_again(); }

  [[nodiscard]] std::vector<std::pair<std::string, std::string>> library_info() const override {
    const BestRun& run = run_.value();
    auto info = run.at_work().library_info();
    info.emplace_back("family", run.family());
    info.emplace_back("family of long runs", run.family_of_long_runs());
    info.emplace_back("families tried", run.tried());
    return info;
  }

 private:
  /// Candidates, with what the model knows of them.
  struct Choice {
    std::vector<Candidate> candidates;
    double bytes = 0;  // of any of them, and of rows besides
    bool all = true;   // every family had room
  };

  /// Gives memory back; what the problem took may pay for loading.
  void end() {
    if (run_ && run_->chooses()) Kernels::of_process().spent(gpu_, run_->seconds());
    run_.reset();
  }

  /// The same problem has the same candidates, as long as there is room for each of these.
  [[nodiscard]] std::shared_ptr<const Choice> choice() const {
    struct Known {
      std::array<std::int64_t, 5> question;
      std::shared_ptr<const Choice> answer;
    };
    static thread_local std::deque<Known> known;  // the last ones
    const Shape& shape = problem_.shape;
    if (problem_.is_counted()) return std::make_shared<Choice>(choose());
    const std::array question{static_cast<std::int64_t>(gpu_), shape.n, shape.d, shape.k,
                              problem_.iterations};
    for (const Known& one : known) {
      if (one.question == question && kmeans::gpu_has_room(one.answer->bytes)) return one.answer;
    }
    auto answer = std::make_shared<const Choice>(choose());
    if (!answer->all) return answer;
    std::erase_if(known, [&](const Known& one) { return one.question == question; });
    constexpr std::size_t kKept = 8;
    if (known.size() == kKept) known.pop_front();
    known.push_back({question, answer});
    return answer;
  }

  [[nodiscard]] Choice choose() const {
    const Shape& shape = problem_.shape;
    const bool counted = problem_.is_counted();
    auto families = families_for(shape);
    const std::size_t all = families.size();
    if (!kmeans::gpu_has_room(most_needed(families))) {
      leave_those_with_room(families, smallest_of(families, shape, counted));
    }
    Choice choice{.candidates = {}, .all = families.size() == all};
    // A family that begins again in each iteration gains nothing from bounds.
    if (counted && families.size() > 1) std::erase(families, kmeans::cuda::kKeepsBounds);
    const auto limits = kmeans::cuda::limits_of(*kmeans::current_gpu());
    families = kmeans::cuda::worth_trying(std::move(families), shape, limits, problem_.iterations);
    choice.bytes = most_needed(families) + kmeans::cuda::bytes_of_rows(shape);
    const kmeans::cuda::FamilyTimes times(shape, limits);
    const bool ahead = kmeans::cuda::bounds_ahead(families, times, problem_.iterations);
    for (const auto& name : families) {
      const bool keeps_bounds = name == kmeans::cuda::kKeepsBounds;
      choice.candidates.push_back({.name = name,
                                   .likely = times.of(name),
                                   .least = kmeans::cuda::surely_least(name, times),
                                   .setup = kmeans::cuda::setup_seconds(name, shape, limits),
                                   .keeps_bounds = keeps_bounds,
                                   .ahead = keeps_bounds && ahead,
                                   .holds_below = kmeans::cuda::holds_below(name, shape)});
    }
    return choice;
  }

  [[nodiscard]] double most_needed(const std::vector<std::string>& families) const {
    double most = 0;
    for (const auto& family : families) most = std::max(most, needed(family));
    return most;
  }
  /// Bytes of GPU memory, besides rows that are there.
  [[nodiscard]] double needed(const std::string& family) const {
    const double bytes = bytes_of(family, problem_.shape, problem_.is_counted());
    return problem_.is_counted() && rows_ != nullptr
               ? bytes - kmeans::cuda::bytes_of_rows(problem_.shape)
               : bytes;
  }

  /// And `smallest`, whatever room there is.
  void leave_those_with_room(std::vector<std::string>& families,
                             const std::string& smallest) const {
    const auto room = static_cast<double>(kmeans::gpu_memory()->free_bytes);
    std::erase_if(families, [&](const std::string& family) {
      return family != smallest && needed(family) > room;
    });
  }

  /// Null if there is no room for it, now or when it asks for memory.
  std::unique_ptr<Family> make(const std::string& name) {
    if (name == first_) return set_up(name);
    if (!kmeans::gpu_has_room(needed(name))) return nullptr;
    try {
      return set_up(name);
    } catch (const kmeans::cuda::Error& error) {
      if (error.code() != cudaErrorMemoryAllocation) throw;
      return nullptr;
    }
  }
  std::unique_ptr<Family> set_up(const std::string& name) {
    auto family = kmeans::cuda::make_family(family_named(name), problem_);
    std::optional<SharedRows::Scope> scope;
    if (rows_ != nullptr) scope.emplace(problem_.points, rows_);
    family->record_late();
    family->setup(problem_);
    Kernels::of_process().loaded(gpu_, name, name != first_);
    return family;
  }

  Problem<float> problem_;
  int gpu_ = 0;
  std::string first_;      // of the families: set up whatever room there is
  SharedRows::Rows rows_;  // null: each family that is set up sends them
  std::optional<BestRun> run_;
};

}  // namespace

KMEANS_VARIANT(
    CudaBest, .name = "cuda_best",
    .summary = "the exact Lloyd step by the family of exact variants that suits the shape",
    .exact = true, .weights = true, .spherical = true, .skips_work = true, .sums = Sums::wide,
    .device_bytes = [](const Shape& s) { return least_bytes(s, false); },
    .counted_device_bytes = [](const Shape& s) { return least_bytes(s, true); })
