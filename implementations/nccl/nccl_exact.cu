// SPDX-License-Identifier: Apache-2.0
//
// Idea:      the exact family for the shape, by a model, on contiguous parts of the rows, one a
//            GPU: integer sums and counts are added up over all, so that each has the same centroids
// Parallel:  a host thread and a part of the rows for each GPU; a block of the clusters where there
//            are many sums
// Memory:    that of the family for the GPU's own rows; sums and counts once more
// Numerics:  equals the exact Lloyd step bit for bit at any number of GPUs
// Source:    ours; docs/scaling.md
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/machine/gpu.h"
#include "implementations/cuda/_best_choice.h"
#include "implementations/cuda/_counted_family.h"
#include "implementations/cuda/_counted_sums.cuh"
#include "implementations/cuda/_make_family.h"
#include "implementations/cuda/_shared_sums.cuh"
#include "implementations/cuda/_upload.cuh"
#include "implementations/nccl/_gpus.h"

namespace {

using namespace kmeans::cuda;  // NOLINT: the shared code of variants on GPUs
using kmeans::NcclRank;
using kmeans::Problem;
using kmeans::Shape;

/// Bytes on each GPU, its points included, of a part that a family labels. `counted`: as Problem::is_counted().
double bytes_of(const kmeans::Registration& family, const Shape& part, bool counted) {
  const double bytes = family.traits.device_bytes(part);
  const int gpus = kmeans::gpus_in_use();
  if (!counted) return bytes + SharedSums::device_bytes(part, gpus);
  return counted_bytes(family.traits.name, bytes, part) + CountedSums::shared_bytes(part, gpus);
}

/// The exact family that takes a part of this shape in the least time, by cuda_best's model alone, of those that
/// fit into a GPU's memory; tests want another one.
kmeans::Registration family_for(const Shape& part, bool counted) {
  const char* wanted = std::getenv("KMEANS_BENCH_GPU_FAMILY");
  const kmeans::GpuDevice* here = kmeans::current_gpu();
  const kmeans::GpuDevice gpu = here == nullptr ? kmeans::GpuDevice() : *here;
  const FamilyTimes times(part, limits_of(gpu));
  std::optional<kmeans::Registration> best;
  double least = std::numeric_limits<double>::infinity();
  for (const char* name : {"cuda_exact", "cuda_tensor", "cuda_onepass", "cuda_int8"}) {
    if (wanted != nullptr && std::strcmp(name, wanted) != 0) continue;
    auto family = kmeans::registered_variant(name);
    if (family.traits.supports && !family.traits.supports(part).ok) continue;
    const bool fits = here == nullptr ||
                      bytes_of(family, part, counted) < 0.9 * static_cast<double>(gpu.memory_bytes);
    const double seconds = times.of(name);
    // If none fits, the first is the one to say so of.
    if (best && (!fits || seconds >= least)) continue;
    least = fits ? seconds : std::numeric_limits<double>::infinity();
    best = std::move(family);
  }
  if (!best) throw std::logic_error("no family of KMEANS_BENCH_GPU_FAMILY takes this shape");
  return *std::move(best);
}

/// A GPU that has no point, where there are fewer than GPUs: it takes part in what all do.
class NoPoints final : public kmeans::Variant<float> {
 public:
  void setup(const Problem<float>& problem) override {
    sums_ = CountedSums(problem);
    dev_centroids_ = DeviceBuffer<float>(problem.shape.k * problem.shape.d);
  }
  void reset(const float* centroids) override { dev_centroids_.upload(centroids); }
  void step(std::int64_t iterations) override {
    for (std::int64_t iteration = 0; iteration < iterations; ++iteration) {
      const auto timed = stage("communication");
      sums_.clear();
      sums_.move_centroids(dev_centroids_.data());
    }
    KMEANS_CUDA(cudaDeviceSynchronize());
  }
  void fetch(float* centroids, std::int32_t* /*labels*/) override {
    dev_centroids_.download(centroids);
  }

 private:
  CountedSums sums_;  // also of points that all count once: they are the same bits
  DeviceBuffer<float> dev_centroids_;
};

/// Says to a variant that it is profiled, and keeps nothing: all GPUs must do what the first one does.
class Silent final : public kmeans::StageRecorder {
  void begin(const char* /*stage*/) override {}
  void end() override {}
};

/// What one GPU has.
struct Part {
  Problem<float> problem;
  std::unique_ptr<kmeans::Variant<float>> variant;
  std::vector<float> centroids;  // k x d, as fetched
  Silent silent;
};

class NcclExact final : public kmeans::Variant<float> {
 public:
  ~NcclExact() override {
    try {
      if (gpus_ != nullptr) gpus_->run([&](int member) { part(member).variant.reset(); });
    } catch (...) {  // of a GPU that has failed, which has been reported
    }
  }

  void setup(const Problem<float>& problem) override {
    auto* ranks = problem.shard.communicator;
    gpus_ = &Gpus::of_process(ranks);
    parts_.resize(static_cast<std::size_t>(gpus_->here()));
    for (int member = 0; member < gpus_->here(); ++member) divide(problem, member);
    meet(ranks);
    gpus_->run([&](int member) { setup_part(member); });
  }

  void reset(const float* centroids) override {
    gpus_->run([&](int member) { part(member).variant->reset(centroids); });
  }

  void step(std::int64_t iterations) override {
    gpus_->run([&](int member) {
      Part& own = part(member);
      own.variant->set_stage_recorder(member == 0 || !profiled() ? stage_recorder() : &own.silent);
      own.variant->step(iterations);
      own.variant->set_stage_recorder(nullptr);
      gpus_->rank(member).check_enqueued();
    });
  }

  kmeans::Progress progress() override {
    std::vector<std::optional<std::int64_t>> changed(parts_.size(), 0);
    gpus_->run([&](int member) {
      if (part(member).problem.shape.n == 0) return;
      changed[static_cast<std::size_t>(member)] = part(member).variant->progress().changed;
    });
    std::int64_t all = 0;
    for (const auto& own : changed) {
      if (!own) return {};
      all += *own;
    }
    return {.movement = {}, .changed = all, .loss = {}};
  }

  void fetch(float* centroids, std::int32_t* labels) override {
    const std::int64_t first = part(0).problem.shard.first;
    gpus_->run([&](int member) {
      Part& own = part(member);
      own.centroids.assign(centroids, centroids + own.problem.shape.k * own.problem.shape.d);
      own.variant->fetch(own.centroids.data(), labels + own.problem.shard.first - first);
    });
    const auto& fetched = part(0).centroids;
    for (int member = 1; member < gpus_->here(); ++member) {
      const auto& other = part(member).centroids;
      if (std::memcmp(fetched.data(), other.data(), fetched.size() * sizeof(float)) == 0) continue;
      throw std::runtime_error("GPU " + std::to_string(member) + " has other centroids than GPU 0");
    }
    std::copy(fetched.begin(), fetched.end(), centroids);
  }

  [[nodiscard]] std::vector<std::pair<std::string, std::string>> library_info() const override {
    const Part& own = parts_.front();
    auto info = own.variant->library_info();
    info.emplace_back("NCCL", kmeans::nccl_version());
    info.emplace_back("GPUs", std::to_string(own.problem.shard.devices->size()));
    info.emplace_back("on each GPU", own.problem.shape.n == 0 ? "no point" : family().traits.name);
    return info;
  }

 private:
  Part& part(int member) { return parts_[static_cast<std::size_t>(member)]; }

  /// The rows of a GPU of this process: some of all that it was given.
  void divide(const Problem<float>& given, int member) {
    const std::int64_t n = given.shape.n;
    const std::int64_t first = kmeans::first_row(n, member, gpus_->here());
    Problem<float>& own = part(member).problem;
    own = given;
    own.shape.n = kmeans::first_row(n, member + 1, gpus_->here()) - first;
    own.points += first * given.shape.d;
    if (own.counted.weights != nullptr) own.counted.weights += first;
    if (own.counted.given != nullptr) own.counted.given += first;
    own.points_file.clear();
    own.shard = {.communicator = nullptr,
                 .first = given.shard.first + first,
                 .n = given.whole_n(),
                 .devices = &gpus_->rank(member)};
  }

  /// All GPUs run the same family, though some have a point less: where one launches a graph that calls NCCL, all must.
  [[nodiscard]] kmeans::Registration family() const {
    const Problem<float>& own = parts_.front().problem;
    Shape largest_part = own.shape;
    largest_part.n = ceil_div(own.whole_n(), own.shard.devices->size());
    return family_for(largest_part, own.is_counted());
  }

  /// The first calls of NCCL of these sizes, for which all wait for each other: while nothing can fail.
  void meet(kmeans::Communicator* ranks) {
    const auto [n, d, k, precision] = part(0).problem.shape;
    const std::vector<float> zeros(static_cast<std::size_t>(k * d));
    Gpus::agreed(ranks, [&] {
      gpus_->run([&](int member) {
        part(member).variant = std::make_unique<NoPoints>();
        part(member).variant->setup(part(member).problem);
        part(member).variant->reset(zeros.data());
        gpus_->rank(member).mute(true);  // as for rehearse()
        part(member).variant->step(1);
        gpus_->rank(member).mute(false);
      });
    });
    gpus_->run([&](int member) {
      part(member).variant->step(1);
      gpus_->rank(member).check_enqueued();
    });
  }

  void setup_part(int member) {
    Part& own = part(member);
    if (own.problem.shape.n == 0) return;  // stays as meet() made it
    own.variant.reset();                   // first: its memory may be needed
    own.variant = make_family(family(), own.problem);
    std::optional<SharedRows::Scope> scope;
    if (own.problem.is_counted()) {  // the rows go to the family, and are added up
      const float* points = own.problem.points;
      const std::int64_t count = own.problem.shape.n * own.problem.shape.d;
      auto rows = SharedRows::of(points, count);
      if (rows == nullptr) rows = SharedRows::send(points, count);
      scope.emplace(points, std::move(rows));
    }
    own.variant->setup(own.problem);
    scope.reset();
    rehearse(own, gpus_->rank(member));
  }

  /// Two iterations, since some families' first one differs, without communication. CUDA loads a kernel
  /// when it is first launched, and may wait for the GPU then; it must not while the GPU waits for another one,
  /// whose thread loads too.
  static void rehearse(Part& own, NcclRank& rank) {
    const auto [n, d, k, precision] = own.problem.shape;
    std::vector<float> centroids;
    for (std::int64_t j = 0; j < k; ++j) {
      const float* row = own.problem.points + (k <= n ? j * (n / k) : j % n) * d;
      centroids.insert(centroids.end(), row, row + d);
    }
    rank.mute(true);
    own.variant->set_stage_recorder(&own.silent);
    own.variant->reset(centroids.data());
    own.variant->step(2);
    own.variant->set_stage_recorder(nullptr);
    rank.mute(false);
  }

  Gpus* gpus_ = nullptr;
  std::vector<Part> parts_;
};

}  // namespace

KMEANS_VARIANT(
    NcclExact, .name = "nccl_exact",
    .summary =
        "the exact Lloyd step on rows shared out among GPUs: a family for the shape on each GPU, "
        "integer sums added up over all",
    .exact = true, .shards = true, .weights = true, .spherical = true, .many_gpus = true,
    .sums = Sums::wide,
    .setup_note = "makes the GPUs known to each other, and runs two iterations on each",
    .memory_bytes =
        [](const Shape& s) {
          return 4 * Sizes(s).n + 8.0 * gpus_in_use() * Sizes(s).k * Sizes(s).d;
        },
    .device_bytes =
        [](const Shape& part) { return bytes_of(family_for(part, false), part, false); },
    .counted_device_bytes =
        [](const Shape& part) { return bytes_of(family_for(part, true), part, true); })
