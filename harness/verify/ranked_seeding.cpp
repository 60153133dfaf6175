// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/ranked_seeding.h"

#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>

#include "datasets/plus_plus.h"
#include "datasets/points.h"

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
std::vector<std::int64_t> plus_plus_rows_of_ranks(Communicator& ranks, const std::string& file,
                                                  std::int64_t k, std::uint64_t seed, T max_abs,
                                                  int threads) {
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
  const auto own_board = seed_distances(own);
  RankedBoard<T> board(ranks, *own_board, first, own.d);
  return plus_plus_rows(whole, k, seed, board);
}

template std::vector<std::int64_t> plus_plus_rows_of_ranks(Communicator&, const std::string&,
                                                           std::int64_t, std::uint64_t, float, int);
template std::vector<std::int64_t> plus_plus_rows_of_ranks(Communicator&, const std::string&,
                                                           std::int64_t, std::uint64_t, double,
                                                           int);

}  // namespace kmeans
