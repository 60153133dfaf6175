// SPDX-License-Identifier: Apache-2.0
//
// Flags: -Wno-uninitialized -Wno-maybe-uninitialized
//
// Idea:      distances through a matrix product: |x - c|^2 = |x|^2 - 2 x.c + |c|^2, with all x.c of
//            a chunk of points from one call of Eigen's product
// Parallel:  none (Eigen's own threads are off)
// Memory:    a chunk of points times all centroids, bounded to some MiB, is written by the product
//            and read once by the search; points are read once, and again from cache to be summed
// Numerics:  products in the points' scalar in Eigen's order; |c|^2 and sums in float64. Cancels
//            where points lie far from the origin; deterministic
// Source:    the classical expansion, as in scikit-learn and faiss
// The flags silence g++ 12 on its own AVX-512 intrinsics, which Eigen calls.
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

#include <algorithm>
#include <vector>

#include "implementations/cpu/_cluster_sums.h"
#include "implementations/cpu/_expanded.h"
#include "implementations/cpu/_lloyd.h"

namespace {

constexpr std::int64_t kChunkBytes = std::int64_t{1} << 20;

template <class T>
class EigenGemm final : public kmeans::plain::PlainLloyd<T> {
  using Base = kmeans::plain::PlainLloyd<T>;
  using Base::centroids_, Base::labels_, Base::point, Base::problem_, Base::stage;

 public:
  void setup(const kmeans::Problem<T>& problem) override {
    Base::setup(problem);
    const auto [n, d, k, precision] = problem.shape;
    chunk_ = chunk_rows(problem.shape);
    products_.resize(chunk_ * k);
    nearest_.resize(chunk_);
    sums_.resize(k, d);
  }

  /// Points per chunk: enough rows to keep the product busy, even if k is large.
  static std::int64_t chunk_rows(const kmeans::Shape& s) {
    const std::int64_t rows = kChunkBytes / static_cast<std::int64_t>(sizeof(T)) / s.k;
    return std::min(s.n, std::clamp<std::int64_t>(rows, 128, 4096));
  }

  kmeans::Progress progress() override {
    return {.movement = movement_, .changed = {}, .loss = {}};
  }

 private:
  using Columns = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
  using Rows = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  void iterate() override {
    assign_and_accumulate();
    const auto timed = stage("update");
    movement_ = sums_.move(centroids_.data(), 0, problem_.shape.k);
  }

  void assign_and_accumulate() {
    const auto timed = stage("assign");
    const auto [n, d, k, precision] = problem_.shape;
    kmeans::plain::half_squared_norms(centroids_.data(), k, d, half_norms_);
    sums_.clear();
    const Eigen::Map<const Rows> centroids(centroids_.data(), k, d);
    for (std::int64_t begin = 0; begin < n; begin += chunk_) {
      const std::int64_t rows = std::min(chunk_, n - begin);
      const Eigen::Map<const Rows> points(point(begin), rows, d);
      Eigen::Map<Columns> products(products_.data(), rows, k);
      products.noalias() = -points * centroids.transpose();
      nearest_.clear(rows);
      nearest_.scan(products_.data(), half_norms_.data(), 0, k);
      for (std::int64_t row = 0; row < rows; ++row) {
        labels_[begin + row] = nearest_.label(row);
        sums_.add(nearest_.label(row), point(begin + row));
      }
    }
  }

  std::int64_t chunk_ = 0;
  std::vector<T> products_;    // chunk x k, one centroid's values side by side: -x.c
  std::vector<T> half_norms_;  // k
  kmeans::plain::NearestInBlock<T> nearest_;
  kmeans::plain::ClusterSums<double> sums_;
  double movement_ = 0;
};

double chunk_values(const kmeans::Shape& shape) {
  const std::int64_t rows = shape.precision == kmeans::Precision::f64
                                ? EigenGemm<double>::chunk_rows(shape)
                                : EigenGemm<float>::chunk_rows(shape);
  return static_cast<double>(rows) * kmeans::Sizes(shape).k;
}

}  // namespace

KMEANS_VARIANT(
    EigenGemm, .name = "eigen_gemm",
    .summary = "expanded distances through Eigen's matrix product, chunk by chunk", .source = "",
    .precisions = {Precision::f32, Precision::f64}, .distance = Distance::expanded,
    .sums = Sums::wide,
    .memory_bytes =
        [](const Shape& shape) {
          const Sizes s = shape;
          return s.scalar * chunk_values(shape) + 4 * s.n +
                 s.k * (s.scalar * (s.d + 1.0) + 8 * s.d + 8.0);
        },
    .traffic =
        [](const Shape& shape) {
          const Sizes s = shape;
          const double points = s.scalar * s.n * s.d;
          const double products = s.scalar * s.n * s.k;
          const double chunks = s.n * s.k / chunk_values(shape);
          // Per chunk the points, all centroids and the products written and read; then
          // each point again, and the float64 sum that it is added to.
          return Traffic{
              .read_bytes = 2 * points + chunks * s.scalar * s.k * s.d + products + 8 * s.n * s.d,
              .written_bytes = products + 4 * s.n + 8 * s.n * s.d};
        })
