// SPDX-License-Identifier: Apache-2.0
//
// Idea:      "matrix product, then search" at its best: x.c for a block of points and a block of
//            centroids by BLAS, minima taken from the block while it is in cache. The n x k matrix
//            never exists
// Parallel:  points are divided among threads, each of which calls BLAS single-threaded: no waiting
//            between product and search, and no thread works on another's cache. Each thread has
//            its own sums; merging them is divided by clusters
// Memory:    a thread reads its points once from memory, once per block of centroids and once more
//            to be summed from cache; products go through the block buffer only
// Numerics:  products in the points' scalar in BLAS's order; |c|^2 and sums in float64. Cancels
//            where points lie far from the origin; the same bits for the same number of threads
// Source:    the classical expansion, as in scikit-learn and faiss; OpenBLAS
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "implementations/blas/_products.h"
#include "implementations/blas/_thread_team.h"
#include "implementations/cpu/_cluster_sums.h"
#include "implementations/cpu/_expanded.h"
#include "implementations/cpu/_lloyd.h"

namespace {

constexpr std::int64_t kBlockCentroids = 256;

/// Points in a block. Large enough that packing the operands costs little next to the product, small
/// enough that the block of products stays in a core's own cache. With few, short centroids packing
/// would dominate all the same; there blocks shrink to what BLAS multiplies without packing.
std::int64_t block_points(const kmeans::Shape& s) {
  constexpr std::int64_t kUnpackedProduct = 1 << 17;
  constexpr std::int64_t kLeast = 128;
  constexpr std::int64_t kMax = 512;
  // By division, since this is asked about shapes of any size.
  if (s.k > kUnpackedProduct / kLeast / s.d) return std::min(s.n, kMax);
  // A multiple of any SIMD width's register tile.
  const std::int64_t rows = kUnpackedProduct / (s.k * s.d) / kLeast * kLeast;
  return std::min({s.n, rows, kMax});
}

/// As many threads as have enough to do: these multiply-adds repay waking one more.
int useful_threads(const kmeans::Shape& shape, int threads) {
  constexpr double kWorkPerThread = 1 << 18;
  const kmeans::Sizes s = shape;
  const double worthwhile = std::max(1.0, std::min(s.n * s.k * (s.d + 4) / kWorkPerThread, s.n));
  return worthwhile < threads ? static_cast<int>(worthwhile) : threads;
}

template <class T>
class BlasGemm final : public kmeans::plain::PlainLloyd<T> {
  using Base = kmeans::plain::PlainLloyd<T>;
  using Base::centroid, Base::centroids_, Base::labels_, Base::point, Base::problem_, Base::stage;

 public:
  void setup(const kmeans::Problem<T>& problem) override {
    Base::setup(problem);
    const auto [n, d, k, precision] = problem.shape;
    kmeans::blas::require_openblas(useful_threads(problem.shape, problem.threads));
    team_.resize(useful_threads(problem.shape, problem.threads));
    block_points_ = block_points(problem.shape);
    own_.resize(team_.size());
    for (auto& own : own_) {
      own.products.resize(block_points_ * std::min(k, kBlockCentroids));
      own.nearest.resize(block_points_);
      own.sums.resize(k, d);
    }
  }

  kmeans::Progress progress() override {
    double movement = 0;
    for (const auto& own : own_) movement += own.movement;
    return {.movement = movement, .changed = {}, .loss = {}};
  }

  std::vector<std::pair<std::string, std::string>> library_info() const override {
    return {{"blas", kmeans::blas::openblas().get_config()},
            {"blas_core", kmeans::blas::openblas().get_corename()},
            {"blas_threads_per_call", "1"},
            {"threads", std::to_string(team_.size())}};
  }

 private:
  // What one thread writes; on cache lines of its own.
  struct alignas(128) Own {
    std::vector<T> products;  // block of points x block of centroids: -x.c
    kmeans::plain::NearestInBlock<T> nearest;
    kmeans::plain::ClusterSums<double> sums;
    double movement = 0;
  };

  void iterate() override {
    {
      const auto timed = stage("assign");
      kmeans::plain::half_squared_norms(centroids_.data(), problem_.shape.k, problem_.shape.d,
                                        half_norms_);
      team_.run([this](int rank) { assign_and_accumulate(rank); });
    }
    const auto timed = stage("update");
    team_.run([this](int rank) { merge_and_move(rank); });
  }

  /// Where this rank's part of `count` things begins; that of the next rank is its end.
  [[nodiscard]] std::int64_t part_begin(std::int64_t count, int rank) const {
    return count / team_.size() * rank + std::min<std::int64_t>(rank, count % team_.size());
  }

  void assign_and_accumulate(int rank) {
    const auto [n, d, k, precision] = problem_.shape;
    auto& own = own_[rank];
    own.sums.clear();
    const std::int64_t end = part_begin(n, rank + 1);
    for (std::int64_t begin = part_begin(n, rank); begin < end; begin += block_points_) {
      const std::int64_t rows = std::min(block_points_, end - begin);
      own.nearest.clear(rows);
      for (std::int64_t first = 0; first < k; first += kBlockCentroids) {
        const std::int64_t columns = std::min(kBlockCentroids, k - first);
        kmeans::blas::negated_products(rows, columns, d, point(begin), centroid(first),
                                       own.products.data());
        own.nearest.scan(own.products.data(), half_norms_.data(), first, columns);
      }
      for (std::int64_t row = 0; row < rows; ++row) {
        labels_[begin + row] = own.nearest.label(row);
        own.sums.add(own.nearest.label(row), point(begin + row));
      }
    }
  }

  void merge_and_move(int rank) {
    const std::int64_t begin = part_begin(problem_.shape.k, rank);
    const std::int64_t end = part_begin(problem_.shape.k, rank + 1);
    auto& total = own_[0].sums;
    for (std::size_t other = 1; other < own_.size(); ++other) {
      total.add(own_[other].sums, begin, end);
    }
    own_[rank].movement = total.move(centroids_.data(), begin, end);
  }

  std::int64_t block_points_ = 0;
  std::vector<T> half_norms_;  // k
  std::vector<Own> own_;       // one a thread
  kmeans::blas::ThreadTeam team_;
};

/// Sizes are handed to BLAS as its integers.
kmeans::Support blas_takes(const kmeans::Shape& s) {
  if (const auto& problem = kmeans::blas::openblas().problem; !problem.empty()) {
    return kmeans::Support::no(problem);
  }
  constexpr std::int64_t kMax = std::numeric_limits<blasint>::max();
  if (s.d > kMax) {
    return kmeans::Support::no("d = " + std::to_string(s.d) + " exceeds this BLAS's largest " +
                               "leading dimension, " + std::to_string(kMax));
  }
  return kmeans::Support::yes();
}

}  // namespace

KMEANS_VARIANT(
    BlasGemm, .name = "blas_gemm",
    .summary = "expanded distances through OpenBLAS, block by block, scanned in cache",
    .source = "", .precisions = {Precision::f32, Precision::f64}, .parallel = true,
    .distance = Distance::expanded, .sums = Sums::wide, .supports = blas_takes,
    .memory_bytes =
        [](const Shape& shape, int threads) {
          const Sizes s = shape;
          return 4 * s.n + s.scalar * s.k * (s.d + 1.0) +
                 useful_threads(shape, threads) *
                     (8 * s.k * (s.d + 1.0) + s.scalar * block_points(shape) * kBlockCentroids);
        },
    .traffic =
        [](const Shape& shape) {
          const Sizes s = shape;
          const double points = s.scalar * s.n * s.d;
          const double products = s.scalar * s.n * s.k;
          const double point_blocks = std::ceil(s.n / static_cast<double>(block_points(shape)));
          const double centroid_blocks = std::ceil(s.k / static_cast<double>(kBlockCentroids));
          // Per block of points all centroids, per block of centroids all points, the
          // products written and read; then each point and the float64 sum that it is
          // added to.
          return Traffic{.read_bytes = points * (centroid_blocks + 1) +
                                       point_blocks * s.scalar * s.k * s.d + products +
                                       8 * s.n * s.d,
                         .written_bytes = products + 4 * s.n + 8 * s.n * s.d};
        })
