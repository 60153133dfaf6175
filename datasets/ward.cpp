// SPDX-License-Identifier: Apache-2.0
#include "datasets/ward.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "datasets/plus_plus.h"
#include "harness/exact_step.h"
#include "harness/support/faster_seeding.h"

namespace kmeans {
namespace {

// So many miss hardly any cluster (docs/seeding.md).
constexpr std::int64_t kSeedsOfACluster = 3;

struct Registers;

/// Merged: `from` into `into`, which is lower. Heights never fall towards the root.
struct Merge {
  std::int64_t into = 0;
  std::int64_t from = 0;
  double height = 0;
};

/// Clusters on their way to a single one, in slots; the order of the slots is that of their lowest members.
class Agglomeration {
 public:
  Agglomeration(WeightedMeans clusters, int threads)
      : slots_(std::move(clusters)),
        threads_(threads),
        ids_(slots_.count()),
        heights_(slots_.count()),
        neighbours_(slots_.count()),
        alive_(slots_.count(), true),
        left_(slots_.count()) {
    std::iota(ids_.begin(), ids_.end(), 0);
    costs_ = make_costs();
  }

  /// All merges, in an order in which a cluster is made before it is merged.
  std::vector<Merge> run(const std::function<void()>& between) {
    while (left_ > 1) {
      look_for_neighbours(between);
      merge_reciprocal();
      if (2 * left_ < slots_.count()) close_gaps();
    }
    return std::move(merges_);
  }

 private:
  [[nodiscard]] std::unique_ptr<MergeCosts> make_costs() const {
    const auto faster = faster_seeding().merge_costs;
    return faster != nullptr ? faster(slots_) : BlockedMergeCosts<Registers>::make(slots_);
  }

  /// For those that have none.
  void look_for_neighbours(const std::function<void()>& between) {
    std::vector<std::int64_t> without;
    for (std::int64_t c = 0; c < slots_.count(); ++c) {
      if (alive_[c] && neighbours_[c].cluster < 0) without.push_back(c);
    }
    constexpr std::ptrdiff_t kAtOnce = 1024;  // between two looks at what may end the call
    for (auto begin = without.begin(); begin != without.end();) {
      if (between) between();
      const auto end = begin + std::min(kAtOnce, without.end() - begin);
      const auto found = costs_->nearest_of({begin, end}, threads_);
      for (const auto& neighbour : found) neighbours_[*begin++] = neighbour;
    }
  }

  /// All pairs that are each other's nearest. What they become is no nearer to anyone than they were
  /// (Bruynooghe 1977), so who had another neighbour keeps it.
  void merge_reciprocal() {
    std::vector<bool> merged(alive_.size());
    bool any = false;
    for (std::int64_t a = 0; a < slots_.count(); ++a) {
      if (!alive_[a]) continue;
      const auto [b, cost] = neighbours_[a];
      if (b <= a || neighbours_[b].cluster != a) continue;
      merge(a, b, cost);
      merged[a] = merged[b] = any = true;
    }
    for (std::int64_t c = 0; c < slots_.count(); ++c) {
      // None at all: rounding has made a cluster nearer to someone than those that it was made of.
      if (!any || merged[c] || (alive_[c] && merged[neighbours_[c].cluster])) neighbours_[c] = {};
    }
  }

  void merge(std::int64_t a, std::int64_t b, double cost) {
    heights_[a] = std::max({cost, heights_[a], heights_[b]});
    merges_.push_back({ids_[a], ids_[b], heights_[a]});
    double* mean = slots_.means.data() + a * slots_.d;
    const double* other = slots_.means.data() + b * slots_.d;
    const auto weight = static_cast<double>(slots_.weights[a]);
    const auto its = static_cast<double>(slots_.weights[b]);
    for (std::int64_t t = 0; t < slots_.d; ++t) {
      mean[t] = (weight * mean[t] + its * other[t]) / (weight + its);
    }
    slots_.weights[a] += slots_.weights[b];
    costs_->replace(a, mean, slots_.weights[a]);
    costs_->remove(b);
    alive_[b] = false;
    --left_;
  }

  void close_gaps() {
    std::vector<std::int64_t> now(alive_.size(), -1);
    std::int64_t next = 0;
    for (std::int64_t c = 0; c < slots_.count(); ++c) {
      if (!alive_[c]) continue;
      std::copy_n(slots_.means.data() + c * slots_.d, slots_.d,
                  slots_.means.data() + next * slots_.d);
      slots_.weights[next] = slots_.weights[c];
      ids_[next] = ids_[c];
      heights_[next] = heights_[c];
      neighbours_[next] = neighbours_[c];
      now[c] = next++;
    }
    slots_.means.resize(next * slots_.d);
    slots_.weights.resize(next);
    neighbours_.resize(next);
    alive_.assign(next, true);
    for (auto& neighbour : neighbours_) {
      if (neighbour.cluster >= 0) neighbour.cluster = now[neighbour.cluster];
    }
    costs_ = make_costs();
  }

  WeightedMeans slots_;
  int threads_;
  std::vector<std::int64_t> ids_;  // the lowest member
  std::vector<double> heights_;    // at which it was made; 0: it is a single one
  std::vector<MergeCosts::Nearest> neighbours_;
  std::vector<bool> alive_;
  std::int64_t left_;
  std::unique_ptr<MergeCosts> costs_;
  std::vector<Merge> merges_;
};

/// The cells of the seeds on a board: those that have points, means and weights; in the order of the seeds.
WeightedMeans cells_of(const SeedingProblem<float>& problem, const std::vector<float>& seeds,
                       double largest, SeedingBoard<float>& board) {
  const std::int64_t d = problem.d;
  const std::int64_t m = static_cast<std::int64_t>(seeds.size()) / d;
  // A coordinate lies within sqrt(largest) of its seed's; W times that, and half as much again, below 2^62.
  std::uint64_t total = 0;
  for (std::int64_t i = 0; i < problem.n; ++i) {
    total += static_cast<std::uint64_t>(weight_of(problem, i));
  }
  int exponent = 0;
  std::frexp(std::sqrt(largest), &exponent);
  const int places = largest > 0 ? 61 - std::bit_width(total - 1) - exponent : 0;
  const double scale = exact::power_of_two(places);
  const auto sums = board.cells(seeds.data(), m, scale);
  WeightedMeans cells;
  cells.d = d;
  for (std::int64_t j = 0; j < m; ++j) {
    const std::int64_t* sum = sums.data() + j * (d + 1);
    if (sum[d] == 0) continue;
    cells.weights.push_back(sum[d]);
    for (std::int64_t t = 0; t < d; ++t) {
      const double mean = static_cast<double>(sum[t]) / static_cast<double>(sum[d]);
      cells.means.push_back(static_cast<double>(seeds[j * d + t]) + mean / scale);
    }
  }
  return cells;
}

std::vector<float> rows_at(const SeedingProblem<float>& problem,
                           const std::vector<std::int64_t>& rows) {
  std::vector<float> all;
  all.reserve(rows.size() * static_cast<std::size_t>(problem.d));
  for (const auto row : rows) {
    const float* point = problem.points + row * problem.d;
    all.insert(all.end(), point, point + problem.d);
  }
  return all;
}

}  // namespace

std::int64_t ward_seeds(std::int64_t n, std::int64_t k) {
  return k > n / kSeedsOfACluster ? n : kSeedsOfACluster * k;
}

std::vector<std::int32_t> ward_clusters(const WeightedMeans& clusters, std::int64_t k, int threads,
                                        const std::function<void()>& between) {
  auto merges = Agglomeration(clusters, threads).run(between);
  // The lowest ones; of equal ones those that were made first, so none before what it is made of.
  std::stable_sort(merges.begin(), merges.end(),
                   [](const Merge& a, const Merge& b) { return a.height < b.height; });
  merges.resize(clusters.count() - k);
  std::vector<std::int64_t> into(clusters.count());
  std::iota(into.begin(), into.end(), 0);
  for (const Merge& merge : merges) into[merge.from] = merge.into;
  std::vector<std::int32_t> numbers(clusters.count());
  std::int32_t next = 0;
  for (std::int64_t c = 0; c < clusters.count(); ++c) {
    // Who merges into a lower one has its number already.
    numbers[c] = into[c] == c ? next++ : numbers[into[c]];
  }
  return numbers;
}

std::vector<float> ward_centroids(const SeedingProblem<float>& problem, std::int64_t k,
                                  std::uint64_t seed, SeedingBoard<float>& board,
                                  const std::function<void()>& between) {
  const std::int64_t d = problem.d;
  board.keep_nearest();
  const auto rows = plus_plus_rows(problem, ward_seeds(problem.n, k), seed, board, between);
  const double largest = board.pass(between);
  const WeightedMeans cells = cells_of(problem, rows_at(problem, rows), largest, board);
  if (cells.count() < k) return {};
  const auto numbers = ward_clusters(cells, k, problem.threads, between);
  std::vector<double> sums(k * d);
  std::vector<double> weights(k);
  for (std::int64_t c = 0; c < cells.count(); ++c) {
    const auto weight = static_cast<double>(cells.weights[c]);
    weights[numbers[c]] += weight;
    for (std::int64_t t = 0; t < d; ++t)
      sums[numbers[c] * d + t] += weight * cells.means[c * d + t];
  }
  std::vector<float> centroids(k * d);
  for (std::int64_t v = 0; v < k * d; ++v) {
    centroids[v] = static_cast<float>(sums[v] / weights[v / d]);
  }
  return centroids;
}

namespace {

/// Of all points; empty where there are fewer cells than k.
std::vector<float> merged_cells(const SeedingProblem<float>& problem, std::int64_t k,
                                std::uint64_t seed, const std::function<void()>& between) {
  return ward_centroids(problem, k, seed, *seed_distances(problem), between);
}

}  // namespace

std::vector<float> ward_centroids(const SeedingProblem<float>& problem, std::int64_t k,
                                  std::uint64_t seed, const std::function<void()>& between) {
  auto centroids = merged_cells(problem, k, seed, between);
  if (!centroids.empty()) return centroids;
  return rows_at(problem, plus_plus_rows(problem, k, seed, between));
}

std::vector<double> ward_centroids(const SeedingProblem<double>& problem, std::int64_t k,
                                   std::uint64_t seed, const std::function<void()>& between) {
  const std::int64_t count = problem.n * problem.d;
  const double* first = problem.points;
  // Halves, whose difference is finite.
  const auto difference = [&](std::int64_t v) {
    return 0.5 * problem.points[v] - 0.5 * first[v % problem.d];
  };
  double largest = 0;
  for (std::int64_t v = 0; v < count; ++v) largest = std::max(largest, std::abs(difference(v)));
  const int exponent = largest > 0 ? std::ilogb(largest) : 0;
  std::vector<float> narrow(count);
  for (std::int64_t v = 0; v < count; ++v) {
    narrow[v] = static_cast<float>(std::ldexp(difference(v), -exponent));
  }
  SeedingProblem<float> scaled{narrow.data(),   problem.n, problem.d,
                               problem.weights, 2,         problem.threads};
  std::vector<double> centroids;
  for (const float value : merged_cells(scaled, k, seed, between)) {
    const auto t = static_cast<std::int64_t>(centroids.size()) % problem.d;
    centroids.push_back(2 * std::ldexp(static_cast<double>(value), exponent) + first[t]);
  }
  if (!centroids.empty()) return centroids;
  for (const auto row : plus_plus_rows(problem, k, seed, between)) {
    centroids.insert(centroids.end(), first + row * problem.d, first + (row + 1) * problem.d);
  }
  return centroids;
}

}  // namespace kmeans
