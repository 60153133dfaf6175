// SPDX-License-Identifier: Apache-2.0
//
// Idea:      the exact families of this folder, of which setup chooses one: by a model of their
//            times made from what the GPU reports of itself, and where the model cannot tell, by
//            trying in setup those that it cannot tell apart
// Parallel:  as the family at work
// Memory:    that of the family at work; in setup of one more, if there is room for it
// Numerics:  equals the exact Lloyd step bit for bit, since every family does: what a clock chooses
//            changes no bit
// Source:    ours; docs/gpu.md has the choice
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/machine/gpu.h"
#include "harness/variant.h"
#include "implementations/cuda/_best_choice.h"

namespace {

using kmeans::Problem;
using kmeans::Shape;
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

class CudaBest final : public Family {
 public:
  void setup(const Problem<float>& problem) override {
    auto families = families_for(problem.shape);
    const std::string smallest = smallest_of(families, problem.shape);
    std::erase_if(families, [&](const std::string& family) {
      return family != smallest && !has_room(family, problem.shape);
    });
    families = kmeans::cuda::worth_trying(std::move(families), problem.shape,
                                          kmeans::cuda::limits_of(*kmeans::current_gpu()));
    name_ = families.front();
    at_work_ = make(name_, problem);
    tried_ = name_;
    if (families.size() > 1) choose(families, problem);
  }

  void reset(const float* centroids) override { at_work_->reset(centroids); }

  void step(std::int64_t iterations) override {
    at_work_->set_stage_recorder(stage_recorder());
    at_work_->step(iterations);
    at_work_->set_stage_recorder(nullptr);
  }

  void fetch(float* centroids, std::int32_t* labels) override {
    at_work_->fetch(centroids, labels);
  }

  kmeans::Progress progress() override { return at_work_->progress(); }

  [[nodiscard]] std::optional<std::int64_t> computed_distances() const override {
    return at_work_->computed_distances();
  }

  [[nodiscard]] std::vector<std::pair<std::string, std::string>> library_info() const override {
    auto info = at_work_->library_info();
    info.emplace_back("family", name_);
    info.emplace_back("families tried", tried_);
    return info;
  }

 private:
  static std::unique_ptr<Family> make(const std::string& name, const Problem<float>& problem) {
    auto family = kmeans::registered_variant(name).factory.make_float(problem.shape.precision);
    family->setup(problem);
    return family;
  }

  /// The fastest of these, the first of which is at work. Two are in memory at a time.
  void choose(const std::vector<std::string>& families, const Problem<float>& problem) {
    const std::vector<float> centroids = spread_out(problem);
    double least = seconds(*at_work_, centroids, std::numeric_limits<double>::infinity());
    for (auto family = families.begin() + 1; family != families.end(); ++family) {
      if (!has_room(*family, problem.shape)) continue;
      auto other = make(*family, problem);
      tried_ += ", " + *family;
      const double its = seconds(*other, centroids, least);
      if (its >= least) continue;
      least = its;
      name_ = *family;
      at_work_ = std::move(other);
    }
  }

  /// Points all over the file as centroids: those of reset() are not known yet.
  static std::vector<float> spread_out(const Problem<float>& problem) {
    const auto [n, d, k, precision] = problem.shape;
    std::vector<float> centroids;
    centroids.reserve(static_cast<std::size_t>(k * d));
    for (std::int64_t j = 0; j < k; ++j) {
      const float* row = problem.points + j * (n / k) * d;
      centroids.insert(centroids.end(), row, row + d);
    }
    return centroids;
  }

  static double seconds(Family& family, const std::vector<float>& centroids, double least) {
    const auto clock = kmeans::make_gpu_clock();
    const auto run = [&](bool from_start, std::int64_t iterations) {
      if (from_start) family.reset(centroids.data());
      clock->begin();
      family.step(iterations);
      return clock->end();
    };
    return kmeans::cuda::tried_seconds(run, least);
  }

  std::unique_ptr<Family> at_work_;
  std::string name_;   // of the family at work
  std::string tried_;  // in setup, the likeliest first
};

}  // namespace

KMEANS_VARIANT(
    CudaBest, .name = "cuda_best",
    .summary = "the exact Lloyd step by the family of exact variants that suits the shape",
    .exact = true, .skips_work = true, .sums = Sums::wide,
    .setup_note =
        "where a model cannot tell the fastest family, sets up a second and a third, and times "
        "some iterations of each",
    .device_bytes = [](const Shape& s) { return bytes_of(smallest_of(families_for(s), s), s); })
