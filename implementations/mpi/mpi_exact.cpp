// SPDX-License-Identifier: Apache-2.0
//
// Idea:      openmp_best on contiguous parts of the rows, one a rank: integer sums and counts are
//            added up over the ranks, so that every rank has the same centroids
// Parallel:  a rank owns rows, its threads as in openmp_best; a part of the clusters where there
//            are many sums
// Memory:    that of openmp_best for the rank's own rows; sums and counts once more
// Numerics:  equals the exact Lloyd step bit for bit at any number of ranks and threads
// Source:    ours; docs/scaling.md
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/variant.h"

namespace {

class MpiExact final : public kmeans::Variant<float> {
 public:
  void setup(const kmeans::Problem<float>& problem) override {
    own_ = kmeans::registered_variant("openmp_best").factory.make_float(problem.shape.precision);
    own_->setup(problem);
  }
  void reset(const float* centroids) override { own_->reset(centroids); }
  void step(std::int64_t iterations) override { own_->step(iterations); }
  void fetch(float* centroids, std::int32_t* labels) override { own_->fetch(centroids, labels); }
  kmeans::Progress progress() override { return own_->progress(); }
  [[nodiscard]] std::optional<std::int64_t> computed_distances() const override {
    return own_->computed_distances();
  }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> library_info() const override {
    return own_->library_info();
  }

 private:
  std::unique_ptr<kmeans::Variant<float>> own_;
};

}  // namespace

KMEANS_VARIANT(
    MpiExact, .name = "mpi_exact",
    .summary =
        "the exact Lloyd step on rows shared out among MPI ranks: openmp_best on each rank, "
        "integer "
        "sums added up over all",
    .exact = true, .parallel = true, .shards = true, .weights = true, .spherical = true,
    .skips_work = true, .sums = Sums::wide,
    .setup_note = "sets up the family that begins; the next one is set up on the way",
    .supports = [](const Shape& s) { return registered_variant("openmp_best").traits.supports(s); },
    .memory_bytes =
        [](const Shape& s, int threads) {
          return registered_variant("openmp_best").traits.memory_bytes(s, threads) +
                 8 * Sizes(s).k * (Sizes(s).d + 1);
        })
