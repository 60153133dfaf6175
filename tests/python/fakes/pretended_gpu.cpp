// SPDX-License-Identifier: Apache-2.0
//
// The GPU's part of the library (library/gpu_engine.h) without a GPU: its memory is the host's, its engine the CPU's.
// Points are looked up by the address by which engines know them, and read nowhere else.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/exact_step.h"
#include "harness/support/parallel.h"
#include "harness/verify/resolution.h"
#include "library/gpu_engine.h"
#include "library/kmeans_exact.h"

namespace {

/// The number of the GPU that all memory is pretended to be of; where the calling thread is, -1: nowhere.
int home() {
  const char* const given = std::getenv("PRETENDED_GPU");
  return given != nullptr ? std::atoi(given) : 0;
}
thread_local int here = -1;

/// Ends the process where work goes to another GPU than that of the memory.
void require_home() {
  if (here == home()) return;
  std::fprintf(stderr, "on GPU %d, where nothing is; all is on GPU %d\n", here, home());
  std::abort();
}

/// The newest by each address.
std::map<const float*, const std::vector<float>*>& all_rows() {
  static std::map<const float*, const std::vector<float>*> rows;
  return rows;
}

/// What is known by an address, or lies there.
const float* readable(const float* address) {
  const auto known = all_rows().find(address);
  return known != all_rows().end() ? known->second->data() : address;
}

class Rows final : public kmeans_exact::SentRows {
 public:
  Rows(const float* known_by, std::vector<float> values, std::int64_t d)
      : known_by_(known_by), values_(std::move(values)), d_(d) {
    all_rows()[known_by] = &values_;
  }
  ~Rows() override {
    if (all_rows()[known_by_] == &values_) all_rows().erase(known_by_);
  }

  [[nodiscard]] const float* place() const override { return values().data(); }
  [[nodiscard]] kmeans::PointFacts facts(std::int64_t problems) const override {
    require_home();
    const std::vector<float> all = largest(problems);
    return {all, surely_resolved(all)};
  }
  [[nodiscard]] bool all_unit() const override {
    require_home();
    for (std::int64_t i = 0; i < n(); ++i) {
      if (!kmeans::exact::is_unit_or_zero(values().data() + i * d_, d_)) return false;
    }
    return true;
  }
  void copy_rows(const std::vector<std::int64_t>& rows, std::int64_t first, std::int64_t count,
                 float* to) const override {
    require_home();
    for (const auto row : rows) to = std::copy_n(values().data() + row * d_ + first, count, to);
  }
  void copy_all(float* to) const override {
    require_home();
    std::copy(values().begin(), values().end(), to);
  }
  [[nodiscard]] std::vector<double> column_parts(std::int64_t problems,
                                                 const double* means) const override {
    require_home();
    const std::int64_t rows = n() / problems;
    const std::int64_t blocks = kmeans::block_count(rows);
    std::vector<double> parts(problems * blocks * d_);
    for (std::int64_t i = 0; i < n(); ++i) {
      const std::int64_t problem = i / rows;
      for (std::int64_t t = 0; t < d_; ++t) {
        const double value = values()[i * d_ + t];
        const double difference = means != nullptr ? value - means[problem * d_ + t] : 0;
        parts[(problem * blocks + i % rows / kmeans::kBlock) * d_ + t] +=
            means != nullptr ? difference * difference : value;
      }
    }
    return parts;
  }
  [[nodiscard]] double inertia(const float* centroids, std::int64_t k,
                               const std::int32_t* labels) const override {
    require_home();
    return kmeans_exact::inertia(values().data(), n(), d_, k, centroids, labels);
  }
  void distances(const float* centroids, std::int64_t k, double* to,
                 const std::function<void()>& between) const override {
    require_home();
    kmeans_exact::distances(values().data(), n(), d_, k, centroids, to, 1, between);
  }
  void distances(const float* centroids, std::int64_t k, float* to,
                 const std::function<void()>& between) const override {
    require_home();
    kmeans_exact::distances(values().data(), n(), d_, k, centroids, to, 1, between);
  }

 private:
  [[nodiscard]] std::vector<float> largest(std::int64_t problems) const {
    std::vector<float> all(problems, 0.0F);
    for (std::size_t at = 0; at < values().size(); ++at) {
      float& largest = all[at * problems / values().size()];
      const float value = std::abs(values()[at]);
      if (largest == largest && !(value <= largest)) largest = value;
    }
    return all;
  }
  [[nodiscard]] std::vector<char> surely_resolved(const std::vector<float>& largest) const {
    const std::int64_t rows = n() / std::ssize(largest);
    std::vector<char> resolved;
    for (const float max_abs : largest) {
      // Half of the time it is not known.
      const float* const own = values().data() + std::ssize(resolved) * rows * d_;
      const bool known = std::isfinite(max_abs) && (rows + std::ssize(resolved)) % 2 == 0;
      resolved.push_back(
          known && kmeans::lost_by_fixed_point_at(own, rows, d_, max_abs, 1).empty() ? 1 : 0);
    }
    return resolved;
  }
  [[nodiscard]] const std::vector<float>& values() const { return values_; }
  [[nodiscard]] std::int64_t n() const { return std::ssize(values()) / d_; }

  const float* known_by_;
  std::vector<float> values_;
  std::int64_t d_;
};

class Engine final : public kmeans_exact::Engine, public kmeans::Stops<float> {
 public:
  void setup(const kmeans::Problem<float>& problem) override {
    require_home();
    shape_ = problem.shape;
    spherical_ = problem.spherical;
    const std::int64_t* const weights = problem.counted.weights;
    weights_.clear();
    if (weights != nullptr) weights_.assign(weights, weights + shape_.n);
    points_ = readable(problem.points);
  }
  void reset(const float* centroids) override {
    require_home();
    centroids_.assign(centroids, centroids + shape_.k * shape_.d);
    labels_.assign(shape_.n, -1);
  }
  void step(std::int64_t iterations) override {
    require_home();
    kmeans_exact::Options options;
    options.iterations = iterations;
    options.stop = kmeans_exact::Stop::never;
    if (!weights_.empty()) options.weights = weights_.data();
    if (spherical_) options.metric = kmeans_exact::Metric::cosine;
    kmeans_exact::lloyd(points_, shape_.n, shape_.d, shape_.k, centroids_.data(), labels_.data(),
                        options);
  }
  kmeans::Stopped step_until(const kmeans::Stopping& when, std::int64_t iterations) override {
    kmeans::Stopped made;
    while (made.iterations < iterations && !made.early()) {
      const auto labels = labels_;
      const auto centroids = centroids_;
      step(1);
      ++made.iterations;
      made.settled = when.settled;
      for (std::int64_t i = 0; i < shape_.n; ++i) {
        const bool counts = weights_.empty() || weights_[i] > 0;
        made.settled = made.settled && (!counts || labels[i] == labels_[i]);
      }
      double moved = 0;
      for (std::int64_t j = 0; j < shape_.k; ++j) {
        const float* const before = centroids.data() + j * shape_.d;
        moved +=
            kmeans::exact::squared_distance(centroids_.data() + j * shape_.d, before, shape_.d);
      }
      made.within_shift = when.looks_at_shift() && moved <= *when.shift;
    }
    return made;
  }
  [[nodiscard]] const float* centroids() const override { return centroids_.data(); }
  void label_again() override {
    require_home();
    kmeans_exact::nearest(points_, shape_.n, shape_.d, shape_.k, centroids_.data(), labels_.data());
  }
  void fetch(float* centroids, std::int32_t* labels) override {
    require_home();
    std::copy(centroids_.begin(), centroids_.end(), centroids);
    std::copy(labels_.begin(), labels_.end(), labels);
  }

 private:
  kmeans::Shape shape_;
  const float* points_ = nullptr;
  std::vector<double> weights_;
  bool spherical_ = false;
  std::vector<float> centroids_;
  std::vector<std::int32_t> labels_;
};

/// Each problem by an engine of its own.
class Batch final : public kmeans::BatchAtWork {
 public:
  explicit Batch(const kmeans::BatchTask& task)
      : task_(task), engines_(task.problems), stopped_(task.problems) {
    for (std::int64_t b = 0; b < task.problems; ++b) {
      kmeans::Problem<float> problem;
      problem.shape = {task.n, task.d, task.k, kmeans::Precision::f32};
      problem.points = readable(task.points) + b * task.n * task.d;
      problem.spherical = task.spherical;
      engines_[b].setup(problem);
      engines_[b].reset(task.centroids + b * task.k * task.d);
    }
  }
  bool step(std::int64_t iterations) override {
    bool goes_on = false;
    for (std::int64_t b = 0; b < task_.problems; ++b) {
      if (stopped_[b].early()) continue;
      kmeans::Stopping when{.settled = task_.settles};
      if (task_.shifts != nullptr) when.shift = task_.shifts[b];
      const auto made = engines_[b].step_until(when, iterations);
      stopped_[b] = {stopped_[b].iterations + made.iterations, made.settled, made.within_shift};
      goes_on = goes_on || !made.early();
    }
    return goes_on;
  }
  void label_again() override {
    require_home();
    for (std::int64_t b = 0; b < task_.problems; ++b) {
      if (!stopped_[b].settled) engines_[b].label_again();
    }
  }
  void fetch(float* centroids, std::int32_t* labels, kmeans::Stopped* stopped) override {
    for (std::int64_t b = 0; b < task_.problems; ++b) {
      engines_[b].fetch(centroids + b * task_.k * task_.d, labels + b * task_.n);
    }
    std::copy(stopped_.begin(), stopped_.end(), stopped);
  }

 private:
  kmeans::BatchTask task_;
  std::vector<Engine> engines_;
  std::vector<kmeans::Stopped> stopped_;
};

std::vector<float> widened(const kmeans_exact::GpuPoints& points) {
  const std::int64_t count = points.n * points.d;
  if (points.numbers == kmeans_exact::GpuNumbers::float16) {
    const auto* const values = static_cast<const _Float16*>(points.dev_points);
    return {values, values + count};
  }
  const auto* const values = static_cast<const float*>(points.dev_points);
  return {values, values + count};
}

}  // namespace

kmeans::BatchAtWork* KMEANS_EXACT_GPU_BATCH(const kmeans::BatchTask& task, std::string& why_not) {
  require_home();
  if (task.n % 2 == 0) return new Batch(task);
  why_not = "an odd number of points is pretended to be too large";
  return nullptr;
}

const char* KMEANS_EXACT_GPU_PROBLEM() { return ""; }
void KMEANS_EXACT_GPU_PART(kmeans_exact::GpuPart& part) {
  part = {.built_for = "7.5, PTX 7.5", .gpus = "Pretended (7.5)"};
}

void KMEANS_EXACT_GPU_ENGINE(const kmeans::Problem<float>& problem, kmeans_exact::MadeEngine& made,
                             std::string& why_not) {
  if (problem.is_counted() && problem.shape.n % 5 == 2) {
    why_not = "it is pretended to need more memory than there is";
    return;
  }
  auto* const engine = new Engine;
  made.engine = engine;
  made.stops = engine;
}

kmeans_exact::SentRows* KMEANS_EXACT_GPU_ROWS(const float* points, std::int64_t n, std::int64_t d) {
  return new Rows(points, {points, points + n * d}, d);
}

kmeans_exact::SentRows* KMEANS_EXACT_GPU_TAKE(const kmeans_exact::GpuPoints& points,
                                              const float* known_by, std::string& why_not) {
  require_home();
  if (points.numbers == kmeans_exact::GpuNumbers::bfloat16) {
    why_not = "are of a type that is not pretended";
    return nullptr;
  }
  return new Rows(known_by, widened(points), points.d);
}

void KMEANS_EXACT_GPU_UNIT(const kmeans_exact::GpuPoints& rows, float* dev_unit,
                           std::string& /*why_not*/) {
  require_home();
  const std::vector<float> wide = widened(rows);
  const float* const given = wide.data();
  for (std::int64_t i = 0; i < rows.n; ++i) {
    const float* const row = given + i * rows.d;
    float* const unit = dev_unit + i * rows.d;
    std::copy_n(row, rows.d, unit);
    const bool finite = std::all_of(row, row + rows.d, [](float x) { return std::isfinite(x); });
    if (finite) kmeans::exact::unit_row(row, rows.d, unit);
  }
}

int KMEANS_EXACT_GPU_OF(const void* /*memory*/) { return home(); }
kmeans_exact_gpu::Before KMEANS_EXACT_GPU_ENTER(int gpu) {
  return {0, std::exchange(here, std::max(gpu, 0))};
}
void KMEANS_EXACT_GPU_LEAVE(kmeans_exact_gpu::Before before) { here = before.in_use; }
void* KMEANS_EXACT_GPU_ALLOCATE(std::size_t bytes) {
  require_home();
  return std::malloc(bytes);
}
void KMEANS_EXACT_GPU_FREE(void* memory) { std::free(memory); }
void KMEANS_EXACT_GPU_COPY(void* to, const void* from, std::size_t bytes, void* /*stream*/) {
  require_home();
  std::memcpy(to, from, bytes);
}
void KMEANS_EXACT_GPU_RELEASE() {}

kmeans::SeedingBoard<float>* KMEANS_EXACT_GPU_BOARD(
    const kmeans::SeedingProblem<float>& /*problem*/, std::int64_t /*most_seeds*/,
    std::string& why_not) {
  require_home();
  why_not = "no seeds are pretended";
  return nullptr;
}
