// SPDX-License-Identifier: Apache-2.0
//
// Idea:      the exact families of this folder, of which setup chooses one: by a model of their
//            times made from what the GPU reports of itself, and where the model cannot decide, by
//            trying in setup those that it cannot separate; in a long run cuda_hamerly goes on after
//            some iterations where trying has shown that this pays
// Parallel:  as the family at work
// Memory:    that of the family at work, and of one more if there is room for it: in setup, and where
//            cuda_hamerly may go on
// Numerics:  equals the exact Lloyd step bit for bit, since every family does: what a clock chooses
//            changes no bit
// Source:    ours; docs/gpu.md has the choice
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/machine/gpu.h"
#include "harness/variant.h"
#include "implementations/cuda/_best_choice.h"
#include "implementations/cuda/_best_run.h"

namespace {

using kmeans::Problem;
using kmeans::Shape;
using kmeans::cuda::BestRun;
using kmeans::cuda::first_gain;
using kmeans::cuda::tried_seconds;
using Family = kmeans::Variant<float>;

double bytes_of(const std::string& family, const Shape& shape) {
  return kmeans::registered_variant(family).traits.device_bytes(shape);
}

/// The families that take the shape.
std::vector<std::string> families_for(const Shape& shape) {
  std::vector<std::string> families;
  for (const char* name : {"cuda_tree", "cuda_resident", "cuda_onepass", "cuda_tensor",
                           "cuda_hamerly", "cuda_int8", "cuda_exact"}) {
    const auto supports = kmeans::registered_variant(name).traits.supports;
    if (!supports || supports(shape).ok) families.emplace_back(name);
  }
  return families;
}

/// The one that needs the least memory.
std::string smallest_of(const std::vector<std::string>& families, const Shape& shape) {
  return *std::min_element(families.begin(), families.end(),
                           [&](const std::string& a, const std::string& b) {
                             return bytes_of(a, shape) < bytes_of(b, shape);
                           });
}

bool has_room(const std::string& family, const Shape& shape) {
  const auto memory = kmeans::gpu_memory();
  return memory && bytes_of(family, shape) <= static_cast<double>(memory->free_bytes);
}

/// Points all over the file as centroids: those of reset() are not known yet.
std::vector<float> spread_out(const Problem<float>& problem) {
  const auto [n, d, k, precision] = problem.shape;
  std::vector<float> centroids;
  centroids.reserve(static_cast<std::size_t>(k * d));
  for (std::int64_t j = 0; j < k; ++j) {
    const float* row = problem.points + j * (n / k) * d;
    centroids.insert(centroids.end(), row, row + d);
  }
  return centroids;
}

/// Runs iterations and says how many seconds they took.
auto timed(Family& family, const std::vector<float>& centroids) {
  return [&family, &centroids, clock = std::shared_ptr(kmeans::make_gpu_clock())](
             bool from_start, std::int64_t iterations) {
    if (from_start) family.reset(centroids.data());
    clock->begin();
    family.step(iterations);
    return clock->end();
  };
}

class CudaBest final : public Family {
 public:
  void setup(const Problem<float>& problem) override {
    run_ = BestRun();
    later_name_.clear();
    auto families = families_for(problem.shape);
    const std::string smallest = smallest_of(families, problem.shape);
    std::erase_if(families, [&](const std::string& family) {
      return family != smallest && !has_room(family, problem.shape);
    });
    families = kmeans::cuda::worth_trying(std::move(families), problem.shape,
                                          kmeans::cuda::limits_of(*kmeans::current_gpu()));
    name_ = families.front();
    run_ = BestRun(make(name_, problem), problem.shape.k, problem.shape.d);
    tried_ = name_;
    if (families.size() > 1) choose(families, problem);
    if (later_name_.empty()) later_name_ = name_;
  }

  void reset(const float* centroids) override { run_.reset(centroids); }
  void step(std::int64_t iterations) override { run_.step(iterations, stage_recorder()); }
  void fetch(float* centroids, std::int32_t* labels) override { run_.fetch(centroids, labels); }
  kmeans::Progress progress() override { return run_.progress(); }

  [[nodiscard]] std::vector<std::pair<std::string, std::string>> library_info() const override {
    auto info = run_.first().library_info();
    info.emplace_back("family", name_);
    info.emplace_back("family of long runs", later_name_);
    info.emplace_back("families tried", tried_);
    return info;
  }

 private:
  static std::unique_ptr<Family> make(const std::string& name, const Problem<float>& problem) {
    auto family = kmeans::registered_variant(name).factory.make_float(problem.shape.precision);
    family->setup(problem);
    return family;
  }

  /// The fastest of these, the first of which is at work. Two are in memory at a time. The one that keeps bounds is
  /// the last: where it is not the fastest of ten iterations, it may be that of later ones.
  void choose(const std::vector<std::string>& families, const Problem<float>& problem) {
    const std::vector<float> centroids = spread_out(problem);
    double least =
        tried_seconds(timed(run_.first(), centroids), std::numeric_limits<double>::infinity());
    for (auto family = families.begin() + 1; family != families.end(); ++family) {
      if (!has_room(*family, problem.shape)) continue;
      auto other = make(*family, problem);
      tried_ += ", " + *family;
      const double its = tried_seconds(timed(*other, centroids), least);
      if (its < least) {
        least = its;
        name_ = *family;
        run_.begin_with(std::move(other));
      } else if (*family == kmeans::cuda::kKeepsBounds && std::isfinite(its)) {
        choose_later(std::move(other), *family, centroids, least);
      }
    }
  }

  /// Does it go on, where the family at work has made some iterations, of which one takes `mean`?
  void choose_later(std::unique_ptr<Family> bounded, const std::string& name,
                    const std::vector<float>& centroids, double mean) {
    const auto gain = first_gain(timed(run_.first(), centroids), timed(*bounded, centroids), mean);
    if (!gain) return;
    // All points are labelled once more, and the centroids go to the host and back.
    const double first = timed(*bounded, centroids)(true, 1);
    std::vector<float> copied(centroids.size());
    const auto begin = std::chrono::steady_clock::now();
    run_.first().fetch(copied.data(), nullptr);
    bounded->reset(copied.data());
    const std::chrono::duration<double> copies = std::chrono::steady_clock::now() - begin;
    later_name_ = name;
    run_.go_on_with(std::move(bounded), {.after = gain->after,
                                         .saved = gain->without - gain->behind,
                                         .start = copies.count() + first - gain->behind});
  }

  BestRun run_;
  std::string name_;        // of the family that begins
  std::string later_name_;  // of the one that may go on, or the same
  std::string tried_;       // in setup, the likeliest first
};

}  // namespace

KMEANS_VARIANT(
    CudaBest, .name = "cuda_best",
    .summary = "the exact Lloyd step by the family of exact variants that suits the shape",
    .exact = true, .skips_work = true, .sums = Sums::wide,
    .setup_note =
        "where a model cannot tell the fastest family, sets up others and times iterations of each",
    .device_bytes = [](const Shape& s) { return bytes_of(smallest_of(families_for(s), s), s); })
