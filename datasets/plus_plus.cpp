// SPDX-License-Identifier: Apache-2.0
//
// The game that k-means++ is here; docs/seeding.md shows that its law is that of k-means++.
#include "datasets/plus_plus.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "datasets/random.h"
#include "harness/exact_step.h"
#include "harness/support/faster_seeding.h"
#include "harness/support/gpu_seeding.h"

namespace kmeans {
namespace {

// A stream apart from those of the generators, so that a seed used for both gives unrelated numbers.
constexpr std::uint64_t kPlusPlus = 102;

template <class T>
void append_unused(const SeedingProblem<T>& problem, std::int64_t k,
                   std::vector<std::int64_t>& rows) {
  std::vector<bool> taken(static_cast<std::size_t>(problem.n));
  for (const auto row : rows) taken[static_cast<std::size_t>(row)] = true;
  for (const bool weighted : {true, false}) {
    for (std::int64_t i = 0; i < problem.n && static_cast<std::int64_t>(rows.size()) < k; ++i) {
      const bool has_weight = weight_of(problem, i) > 0;
      if (!taken[static_cast<std::size_t>(i)] && has_weight == weighted) rows.push_back(i);
    }
  }
}

/// In float64 coordinates are multiplied by a power of two first, so that no square overflows.
template <class T>
class PlainSeedDistances final : public SeedDistances<T> {
 public:
  explicit PlainSeedDistances(const SeedingProblem<T>& problem) : SeedDistances<T>(problem) {
    if (std::is_same_v<T, double> && problem.max_abs > 0) {
      factor_ = std::ldexp(1.0, -std::clamp(std::ilogb(problem.max_abs), -1000, 1000));
    }
  }

 private:
  [[nodiscard]] double squared(const T* point, const T* seed) const {
    const std::int64_t d = this->problem_.d;
    if constexpr (std::is_same_v<T, float>) {
      return exact::squared_distance(point, seed, d);
    } else {
      double sum = 0;
      for (std::int64_t t = 0; t < d; ++t) {
        const double difference = point[t] * factor_ - seed[t] * factor_;
        sum += difference * difference;
      }
      return sum;
    }
  }

  void lower(const T* seeds, std::int64_t count, std::int64_t begin, std::int64_t end) override {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t j = 0; j < count; ++j) {
        this->offer(i, squared(this->row(i), seeds + j * this->problem_.d), j);
      }
    }
  }

  [[nodiscard]] double from_recent(const T* point) const override {
    double least = std::numeric_limits<double>::infinity();
    for (std::int64_t j = 0; j < this->recent(); ++j) {
      least = std::min(least, squared(point, this->seeds_.data() + j * this->problem_.d));
    }
    return least;
  }

  double factor_ = 1;
};

/// Darts 0, 1, 2, ... of a stream, until there are k seeds, or no point has a bar any more.
template <class T>
std::vector<std::int64_t> play(SeedingBoard<T>& board, std::int64_t k, std::uint64_t key,
                               const std::function<void()>& between) {
  std::uint64_t dart = 0;
  std::vector<std::int64_t> rows;
  const auto throw_all = [&](std::uint64_t width, std::int64_t hits, std::int64_t misses) {
    while (hits > 0 && misses > 0) {
      if (between) between();
      // Mostly they hit.
      const std::int64_t wanted = std::min(hits + hits / 8 + 16, hits + misses - 1);
      std::vector<std::uint64_t> places(std::min(kDartsAtOnce, wanted));
      for (std::size_t t = 0; t < places.size(); ++t)
        places[t] = place_of_dart(key, dart + t, width);
      const auto some = board.locate(places);
      const auto thrown = board.throw_darts(some, hits, misses);
      dart += thrown.size();
      for (std::size_t t = 0; t < thrown.size(); ++t) {
        --(thrown[t] ? hits : misses);
        if (thrown[t]) rows.push_back(some[t].row);
      }
    }
  };
  // Before the first pass all squared distances are 1, and the bars as high as the weights.
  const std::uint64_t total_weight = board.weigh(1);
  throw_all(total_weight, 1, 1);
  const int weight_bits = std::bit_width(total_weight - 1);
  while (static_cast<std::int64_t>(rows.size()) < k) {
    const double largest = board.pass(between);
    const std::uint64_t width = largest > 0 ? board.weigh(bar_scale(largest, weight_bits)) : 0;
    if (width == 0) break;
    const RoundLimits limits(static_cast<std::int64_t>(rows.size()), k);
    throw_all(width, limits.hits, limits.misses);
  }
  return rows;
}

}  // namespace

template <class T>
std::unique_ptr<SeedDistances<T>> plain_seed_distances(const SeedingProblem<T>& problem) {
  return std::make_unique<PlainSeedDistances<T>>(problem);
}

template <class T>
std::unique_ptr<SeedDistances<T>> seed_distances(const SeedingProblem<T>& problem) {
  if constexpr (std::is_same_v<T, float>) {
    if (const auto faster = faster_seeding().distances) return faster(problem);
  }
  return plain_seed_distances(problem);
}

template <class T>
std::unique_ptr<SeedingBoard<T>> seeding_board(const SeedingProblem<T>& problem,
                                               [[maybe_unused]] std::int64_t most_seeds) {
  if constexpr (std::is_same_v<T, float>) {
    if (problem.gpu && gpu_board_factory() != nullptr) {
      std::string why_not;
      if (auto board = gpu_board_factory()(problem, most_seeds, why_not)) return board;
    }
  }
  SeedingProblem<T> readable = problem;
  if (problem.elsewhere != nullptr) readable.points = problem.elsewhere->host_copy();
  return seed_distances(readable);
}

template <class T>
std::vector<std::int64_t> plus_plus_rows(const SeedingProblem<T>& problem, std::int64_t k,
                                         std::uint64_t seed, SeedingBoard<T>& board,
                                         const std::function<void()>& between) {
  const std::uint64_t key = CounterRandom(seed, kPlusPlus).key();
  auto played = board.play(k, key, between);
  auto rows = played ? std::move(*played) : play(board, k, key, between);
  // Every point with a weight is a seed, or like one.
  if (static_cast<std::int64_t>(rows.size()) < k) append_unused(problem, k, rows);
  return rows;
}

template <class T>
std::vector<std::int64_t> plus_plus_rows(const SeedingProblem<T>& problem, std::int64_t k,
                                         std::uint64_t seed, const std::function<void()>& between) {
  return plus_plus_rows(problem, k, seed, *seeding_board(problem, k), between);
}

template std::vector<std::int64_t> plus_plus_rows(const SeedingProblem<float>&, std::int64_t,
                                                  std::uint64_t, const std::function<void()>&);
template std::vector<std::int64_t> plus_plus_rows(const SeedingProblem<double>&, std::int64_t,
                                                  std::uint64_t, const std::function<void()>&);
template std::vector<std::int64_t> plus_plus_rows(const SeedingProblem<float>&, std::int64_t,
                                                  std::uint64_t, SeedingBoard<float>&,
                                                  const std::function<void()>&);
template std::vector<std::int64_t> plus_plus_rows(const SeedingProblem<double>&, std::int64_t,
                                                  std::uint64_t, SeedingBoard<double>&,
                                                  const std::function<void()>&);
template std::unique_ptr<SeedingBoard<float>> seeding_board(const SeedingProblem<float>&,
                                                            std::int64_t);
template std::unique_ptr<SeedingBoard<double>> seeding_board(const SeedingProblem<double>&,
                                                             std::int64_t);
template std::unique_ptr<SeedDistances<float>> seed_distances(const SeedingProblem<float>&);
template std::unique_ptr<SeedDistances<double>> seed_distances(const SeedingProblem<double>&);
template std::unique_ptr<SeedDistances<float>> plain_seed_distances(const SeedingProblem<float>&);
template std::unique_ptr<SeedDistances<double>> plain_seed_distances(const SeedingProblem<double>&);

}  // namespace kmeans
