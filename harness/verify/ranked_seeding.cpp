// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/ranked_seeding.h"

#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>

#include "datasets/plus_plus.h"
#include "datasets/points.h"
#include "datasets/ward.h"

namespace kmeans {

template <class T>
std::uint64_t RankedBoard<T>::weigh(double scale) {
  ends_[ranks_.rank()] = own_.weigh(scale);
  ranks_.all_gather(ends_.data(), std::vector<std::int64_t>(ends_.size(), sizeof(ends_[0])));
  for (std::size_t r = 1; r < ends_.size(); ++r) ends_[r] += ends_[r - 1];
  return ends_.back();
}

template <class T>
std::vector<Dart<T>> RankedBoard<T>::locate(const std::vector<std::uint64_t>& positions) {
  // Rank by rank, each its own; then in the order of the positions.
  const auto of_rank = positions_by_board(ends_, positions);
  std::vector<std::int64_t> bytes;
  std::size_t before = 0;  // darts of the ranks before this one
  for (std::size_t r = 0; r < ends_.size(); ++r) {
    bytes.push_back(static_cast<std::int64_t>(of_rank[r].size() * sizeof(Dart<T>)));
    if (static_cast<int>(r) < ranks_.rank()) before += of_rank[r].size();
  }
  std::vector<std::uint64_t> own_positions;
  const std::uint64_t own_begin = ranks_.rank() == 0 ? 0 : ends_[ranks_.rank() - 1];
  for (const auto t : of_rank[ranks_.rank()]) own_positions.push_back(positions[t] - own_begin);
  std::vector<Dart<T>> gathered(positions.size());
  points_.resize(positions.size() * d_);
  T* own_points = points_.data() + static_cast<std::int64_t>(before) * d_;
  for (Dart<T> dart : own_.locate(own_positions)) {
    dart.row += first_;
    own_points = std::copy_n(dart.point, d_, own_points);
    gathered[before++] = dart;
  }
  ranks_.all_gather(gathered.data(), bytes);
  for (auto& count : bytes) {
    count = count / static_cast<std::int64_t>(sizeof(Dart<T>)) * d_ *
            static_cast<std::int64_t>(sizeof(T));
  }
  ranks_.all_gather(points_.data(), bytes);
  std::vector<Dart<T>> darts(positions.size());
  std::size_t at = 0;
  for (const auto& its : of_rank) {
    for (const auto t : its) {
      darts[t] = gathered[at];
      darts[t].point = points_.data() + static_cast<std::int64_t>(at++) * d_;
    }
  }
  return darts;
}

template <class T>
std::vector<std::int64_t> RankedBoard<T>::cells(const T* seeds, std::int64_t count, double scale) {
  auto sums = own_.cells(seeds, count, scale);
  ranks_.all_reduce_sum(sums.data(), static_cast<std::int64_t>(sums.size()));
  return sums;
}

template class RankedBoard<float>;
template class RankedBoard<double>;

template <class T>
bool ranks_choose(const InitSpec& init) {
  return init.method == InitSpec::Method::kmeans_plus_plus ||
         (init.method == InitSpec::Method::ward && std::is_same_v<T, float>);
}

template bool ranks_choose<float>(const InitSpec&);
template bool ranks_choose<double>(const InitSpec&);

template <class T>
std::vector<T> centroids_by_ranks(Communicator& ranks, const std::string& file, std::int64_t k,
                                  const InitSpec& init, T max_abs, int threads,
                                  const std::vector<std::int64_t>& weights) {
  LoadOptions as_stored;
  as_stored.format = FileFormat::npy;
  as_stored.scalar = scalar_of<T>;
  as_stored.check_finite = false;
  const Points points = load_points(file, as_stored);
  SeedingProblem<T> whole{.points = points.data<T>(), .n = points.n(), .d = points.d()};
  whole.max_abs = max_abs;
  whole.threads = threads;
  if (!weights.empty()) whole.weights = weights.data();
  const std::int64_t first = first_row(whole.n, ranks.rank(), ranks.size());
  SeedingProblem<T> own = whole;
  own.points += first * own.d;
  if (own.weights != nullptr) own.weights += first;
  own.n = first_row(whole.n, ranks.rank() + 1, ranks.size()) - first;
  if constexpr (std::is_same_v<T, float>) {
    if (init.method == InitSpec::Method::ward) {
      const auto distances = seed_distances(own);
      RankedBoard<float> board(ranks, *distances, first, own.d);
      auto centroids = ward_centroids(whole, k, init.seed, board);
      if (!centroids.empty()) return centroids;
    }
  }
  const auto distances = seed_distances(own);
  RankedBoard<T> board(ranks, *distances, first, own.d);
  std::vector<T> centroids;
  for (const auto row : plus_plus_rows(whole, k, init.seed, board)) {
    const T* point = whole.points + row * whole.d;
    centroids.insert(centroids.end(), point, point + whole.d);
  }
  return centroids;
}

template std::vector<float> centroids_by_ranks(Communicator&, const std::string&, std::int64_t,
                                               const InitSpec&, float, int,
                                               const std::vector<std::int64_t>&);
template std::vector<double> centroids_by_ranks(Communicator&, const std::string&, std::int64_t,
                                                const InitSpec&, double, int,
                                                const std::vector<std::int64_t>&);

}  // namespace kmeans
