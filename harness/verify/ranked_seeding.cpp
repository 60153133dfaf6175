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
Dart<T> RankedBoard<T>::locate(std::uint64_t position) {
  const auto owner =
      static_cast<int>(std::upper_bound(ends_.begin(), ends_.end(), position) - ends_.begin());
  Dart<T> dart;
  if (owner == ranks_.rank()) {
    dart = own_.locate(position - (owner == 0 ? 0 : ends_[owner - 1]));
    dart.row += first_;
    std::copy_n(dart.point, point_.size(), point_.begin());
  }
  std::vector<std::int64_t> bytes(ends_.size());
  bytes[owner] = sizeof(dart);
  ranks_.all_gather(&dart, bytes);
  bytes[owner] = static_cast<std::int64_t>(point_.size() * sizeof(T));
  ranks_.all_gather(point_.data(), bytes);
  dart.point = point_.data();
  return dart;
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
                                  const InitSpec& init, T max_abs, int threads) {
  LoadOptions as_stored;
  as_stored.format = FileFormat::npy;
  as_stored.scalar = scalar_of<T>;
  as_stored.check_finite = false;
  const Points points = load_points(file, as_stored);
  SeedingProblem<T> whole{.points = points.data<T>(), .n = points.n(), .d = points.d()};
  whole.max_abs = max_abs;
  whole.threads = threads;
  const std::int64_t first = first_row(whole.n, ranks.rank(), ranks.size());
  SeedingProblem<T> own = whole;
  own.points += first * own.d;
  own.n = first_row(whole.n, ranks.rank() + 1, ranks.size()) - first;
  if constexpr (std::is_same_v<T, float>) {
    if (init.method == InitSpec::Method::ward) {
      const auto distances = seed_distances(own);
      RankedBoard<float> board(ranks, *distances, first, own.d);
      WardPart part{whole, own, *distances, board, [&](std::int64_t* values, std::int64_t count) {
                      ranks.all_reduce_sum(values, count);
                    }};
      auto centroids = ward_centroids(part, k, init.seed);
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
                                               const InitSpec&, float, int);
template std::vector<double> centroids_by_ranks(Communicator&, const std::string&, std::int64_t,
                                                const InitSpec&, double, int);

}  // namespace kmeans
