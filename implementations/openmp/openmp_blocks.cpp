// SPDX-License-Identifier: Apache-2.0
//
// Flags: -ffp-contract=off
//
// Idea:      points that memory need not hold: openmp_exact on one block of rows after the other,
//            from where they lie, which may be a mapped file. A block's sums are added to those of
//            the blocks before it; the centroids move when all have been read
// Parallel:  as openmp_exact within a block; the system reads the next block meanwhile
// Memory:    that of openmp_exact for one block of 64 MiB; all labels; sums and counts once more.
//            All points are read in every iteration, and copied block by block into the order of
//            openmp_exact
// Numerics:  integer sums: equals the exact Lloyd step bit for bit, whatever the blocks
// Source:    ours; docs/scaling.md
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/communicator.h"
#include "harness/exact_step.h"
#include "harness/variant.h"

namespace {

using kmeans::Problem;
using kmeans::Shape;

constexpr const char* kFamily = "openmp_exact";

/// Bytes of a block's points; tests have fewer.
std::int64_t block_bytes() {
  const char* text = std::getenv("KMEANS_BENCH_BLOCK_BYTES");
  return text != nullptr ? std::atoll(text) : std::int64_t{64} << 20;
}

std::int64_t rows_of_block(const Shape& shape) {
  const std::int64_t row = shape.d * static_cast<std::int64_t>(sizeof(float));
  return std::clamp<std::int64_t>(block_bytes() / row, 1, std::max<std::int64_t>(1, shape.n));
}

/// Takes down the sums that a family tells the other ranks, of which it has none.
class Totals final : public kmeans::Communicator {
 public:
  std::vector<std::int64_t> sums;  // k x (d + 1): a cluster's sums, then its count

  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] int ranks_here() const override { return 1; }
  [[nodiscard]] std::string engine() const override { return "blocks"; }
  void barrier() override {}
  void all_reduce_sum(std::int64_t* values, std::int64_t count) override {
    if (count != static_cast<std::int64_t>(sums.size())) {
      throw kmeans::CommunicationError("a block has other sums than all blocks have");
    }
    for (std::int64_t i = 0; i < count; ++i) sums[static_cast<std::size_t>(i)] += values[i];
  }
  double all_reduce_max(double value) override { return value; }
  double all_reduce_min(double value) override { return value; }
  void reduce_scatter_sum(const std::int64_t* /*values*/,
                          const std::vector<std::int64_t>& /*counts*/,
                          std::int64_t* /*own*/) override {
    unexpected();
  }
  void all_gather(void* /*values*/, const std::vector<std::int64_t>& /*bytes*/) override {}
  void gather(const void* /*own*/, const std::vector<std::int64_t>& /*bytes*/,
              void* /*all*/) override {
    unexpected();
  }
  void scatter(const void* /*all*/, const std::vector<std::int64_t>& /*bytes*/,
               void* /*own*/) override {
    unexpected();
  }
  void broadcast(void* /*values*/, std::int64_t /*bytes*/, Wait /*wait*/) override {}
  [[noreturn]] void abort(const std::string& reason, int /*exit_code*/) override {
    throw kmeans::CommunicationError(reason);
  }

 private:
  [[noreturn]] static void unexpected() {
    throw kmeans::CommunicationError("a block alone scatters nothing");
  }
};

/// Tells the system what becomes of these points; of a mapped file that is when it reads them, or whose
/// pages it gives away first. Never more than advice: other memory stays as it is.
void advise(const float* points, std::int64_t count, int advice) {
  if (count <= 0) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(points) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(points + count);
  (void)::madvise(reinterpret_cast<void*>(first), end - first, advice);
}

class OpenmpBlocks final : public kmeans::Variant<float> {
 public:
  void setup(const Problem<float>& problem) override {
    problem_ = problem;
    const auto [n, d, k, precision] = problem.shape;
    rows_ = rows_of_block(problem.shape);
    const int s = kmeans::exact::sum_exponent(problem.whole_n(), problem.max_abs);
    inverse_scale_ = kmeans::exact::power_of_two(-s);
    centroids_.resize(static_cast<std::size_t>(k * d));
    labels_.resize(static_cast<std::size_t>(n));
    totals_.sums.resize(static_cast<std::size_t>(k * (d + 1)));
    if (n <= rows_) family_ = family_of(0, n);  // one block: it stays
  }

  void reset(const float* centroids) override {
    std::copy_n(centroids, centroids_.size(), centroids_.begin());
  }

  void step(std::int64_t iterations) override {
    for (std::int64_t iteration = 0; iteration < iterations; ++iteration) {
      std::fill(totals_.sums.begin(), totals_.sums.end(), 0);
      const std::int64_t n = problem_.shape.n;
      for (std::int64_t first = 0; first < n; first += rows_) {
        label(first, std::min(rows_, n - first));
      }
      if (auto* ranks = problem_.shard.communicator) {
        ranks->all_reduce_sum(totals_.sums.data(), static_cast<std::int64_t>(totals_.sums.size()));
      }
      divide();
    }
  }

  void fetch(float* centroids, std::int32_t* labels) override {
    std::copy(centroids_.begin(), centroids_.end(), centroids);
    std::copy(labels_.begin(), labels_.end(), labels);
  }

 private:
  [[nodiscard]] std::unique_ptr<kmeans::Variant<float>> family_of(std::int64_t first,
                                                                  std::int64_t count) {
    Problem<float> block = problem_;
    block.shape.n = count;
    block.points += first * problem_.shape.d;
    block.points_file.clear();
    block.shard = {.communicator = &totals_,
                   .first = problem_.shard.first + first,
                   .n = problem_.whole_n(),
                   .devices = nullptr};
    auto family = kmeans::registered_variant(kFamily).factory.make_float(problem_.shape.precision);
    family->setup(block);
    return family;
  }

  void label(std::int64_t first, std::int64_t count) {
    const std::int64_t d = problem_.shape.d;
    const float* points = problem_.points + first * d;
    const std::int64_t next = (first + count) % problem_.shape.n;  // of the next iteration too
    advise(problem_.points + next * d, std::min(rows_, problem_.shape.n - next) * d, MADV_WILLNEED);
    std::unique_ptr<kmeans::Variant<float>> own;
    if (!family_) {
      const auto timed = stage("read");
      own = family_of(first, count);
    }
    const auto timed = stage("assign");
    kmeans::Variant<float>& family = family_ ? *family_ : *own;
    family.reset(centroids_.data());
    family.step(1);
    moved_.resize(centroids_.size());
    family.fetch(moved_.data(), labels_.data() + first);  // its centroids are of this block alone
#ifdef MADV_COLD
    if (own) advise(points, count * d, MADV_COLD);
#endif
  }

  void divide() {
    const auto timed = stage("update");
    const std::int64_t d = problem_.shape.d;
    for (std::int64_t j = 0; j < problem_.shape.k; ++j) {
      const std::int64_t* sums = totals_.sums.data() + j * (d + 1);
      if (sums[d] == 0) continue;  // an empty cluster keeps its centroid
      for (std::int64_t t = 0; t < d; ++t) {
        centroids_[static_cast<std::size_t>(j * d + t)] =
            kmeans::exact::mean_of(sums[t], sums[d], inverse_scale_);
      }
    }
  }

  Problem<float> problem_;
  std::int64_t rows_ = 1;  // of a block
  double inverse_scale_ = 1;
  Totals totals_;
  std::unique_ptr<kmeans::Variant<float>> family_;
  std::vector<float> centroids_;  // k x d
  std::vector<float> moved_;      // k x d
  std::vector<std::int32_t> labels_;
};

}  // namespace

KMEANS_VARIANT(
    OpenmpBlocks, .name = "openmp_blocks",
    .summary =
        "the exact Lloyd step on points that memory need not hold: openmp_exact on one block of "
        "rows after the other, integer sums added up",
    .exact = true, .parallel = true, .shards = true, .sums = Sums::wide,
    .timing_note = "all points are read and packed anew in every iteration",
    .supports = [](const Shape& s) { return registered_variant(kFamily).traits.supports(s); },
    .memory_bytes =
        [](const Shape& s, int threads) {
          Shape block = s;
          block.n = rows_of_block(s);
          return registered_variant(kFamily).traits.memory_bytes(block, threads) + 4 * Sizes(s).n +
                 Sizes(s).k * (8 * (Sizes(s).d + 1) + 8 * Sizes(s).d);
        })
