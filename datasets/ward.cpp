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
#include "harness/support/parallel.h"

namespace kmeans {
namespace {

// So many miss hardly any cluster (docs/seeding.md).
constexpr std::int64_t kSeedsOfACluster = 3;

struct Registers;

/// Clusters on their way to a single one, in slots; the order of the slots is that of their lowest members.
class Agglomeration {
 public:
  Agglomeration(WeightedMeans clusters, int threads, const MakeMergeCosts& make)
      : slots_(std::move(clusters)),
        threads_(threads),
        make_(make),
        ids_(slots_.count()),
        heights_(slots_.count()),
        neighbours_(slots_.count(), kNobody),
        near_(slots_.count()),
        left_(slots_.count()),
        rounding_(slots_) {
    std::iota(ids_.begin(), ids_.end(), 0);
    start_over();
  }

  /// Merges, the `wanted` lowest ones among them, in an order in which a cluster is made before it is merged.
  std::vector<Merge> run(std::int64_t wanted, const std::function<void()>& between) {
    while (left_ > 1) {
      look_for_neighbours(between);
      if (are_lower_than_others(wanted)) break;
      merge_reciprocal();
      if (2 * left_ < slots_.count()) close_gaps();
    }
    return std::move(merges_);
  }

 private:
  using Neighbour = MergeCosts::Neighbour;
  static constexpr std::int64_t kNobody = -1;
  static constexpr std::size_t kMostNear = 48;

  /// With no slot that is empty.
  void start_over() {
    const auto faster = faster_seeding().merge_costs;
    costs_ = make_ ? make_(slots_) : nullptr;
    if (costs_ == nullptr) {
      costs_ = faster != nullptr ? faster(slots_) : BlockedMergeCosts<Registers>::make(slots_);
    }
    into_.resize(slots_.count());
    std::iota(into_.begin(), into_.end(), 0);
  }

  [[nodiscard]] bool alive(std::int64_t c) const { return into_[c] == c; }

  /// The one that a cluster has become part of.
  [[nodiscard]] std::int64_t now(std::int64_t c) const {
    while (into_[c] != c) c = into_[c];
    return c;
  }

  /// For those that have none.
  void look_for_neighbours(const std::function<void()>& between) {
    std::vector<std::int64_t> without;
    for (std::int64_t c = 0; c < slots_.count(); ++c) {
      if (alive(c) && neighbours_[c] == kNobody) without.push_back(c);
    }
    constexpr std::int64_t kEach = 64;
    constexpr double kWorthAThread = 1 << 18;  // coordinates to look at: some 0.2 ms
    const auto count = static_cast<std::int64_t>(without.size());
    std::size_t coordinates = 0;
    for (const auto c : without) coordinates += near_[c].some.size() * slots_.d;
    const int threads = worth_threads(static_cast<double>(coordinates), kWorthAThread, threads_);
    for_each_part((count + kEach - 1) / kEach, threads, [&](std::int64_t part) {
      const std::int64_t end = std::min(count, (part + 1) * kEach);
      for (std::int64_t w = part * kEach; w < end; ++w) choose_from_near(without[w]);
    });
    std::erase_if(without, [&](std::int64_t c) { return neighbours_[c] != kNobody; });
    constexpr std::ptrdiff_t kAtOnce = 1024;  // between two looks at what may end the call
    for (auto begin = without.begin(); begin != without.end();) {
      if (between) between();
      const auto end = begin + std::min(kAtOnce, without.end() - begin);
      auto found = costs_->near({begin, end}, threads_);
      for (auto& near : found) {
        const std::int64_t c = *begin++;
        near_[c] = std::move(near);
        neighbours_[c] = near_[c].some.front().cluster;
      }
    }
  }

  /// The nearest of those that were near when all were last looked at, if it is certain that nobody else is nearer.
  /// Merging brings no one nearer than both parts were, but for rounding: of a cost, and of the means of each merge.
  void choose_from_near(std::int64_t c) {
    MergeCosts::Near& near = near_[c];
    for (Neighbour& one : near.some) {
      one.cluster = now(one.cluster);
      one.cost = costs_->cost(c, one.cluster);
    }
    std::sort(near.some.begin(), near.some.end());
    const auto same = [](const Neighbour& a, const Neighbour& b) { return a.cluster == b.cluster; };
    near.some.erase(std::unique(near.some.begin(), near.some.end(), same), near.some.end());
    if (near.some.size() > kMostNear) {
      near.beyond = std::min(near.beyond, near.some[kMostNear].cost);
      near.some.resize(kMostNear);
    }
    if (near.some.empty()) return;
    const Neighbour& nearest = near.some.front();
    if (rounding_.is_lower(nearest.cost, near.beyond)) neighbours_[c] = nearest.cluster;
  }

  /// So many merges that have been made, than all that could still be made?
  [[nodiscard]] bool are_lower_than_others(std::int64_t wanted) const {
    if (std::ssize(merges_) < wanted) return false;
    std::vector<double> heights;
    for (const Merge& merge : merges_) heights.push_back(merge.height);
    double nearest = std::numeric_limits<double>::infinity();
    for (std::int64_t c = 0; c < slots_.count(); ++c) {
      if (alive(c)) nearest = std::min(nearest, near_[c].some.front().cost);
    }
    return rounding_.are_lower(std::move(heights), wanted, nearest);
  }

  /// All pairs that are each other's nearest. What they become is no nearer to anyone than they were
  /// (Bruynooghe 1977), so who had another neighbour keeps it.
  void merge_reciprocal() {
    std::vector<bool> merged(into_.size());
    bool any = false;
    for (std::int64_t a = 0; a < slots_.count(); ++a) {
      if (!alive(a)) continue;
      const std::int64_t b = neighbours_[a];
      if (b <= a || neighbours_[b] != a) continue;
      merge(a, b);
      merged[a] = merged[b] = any = true;
    }
    for (std::int64_t c = 0; c < slots_.count(); ++c) {
      // None at all: rounding has made a cluster nearer to someone than those that it was made of.
      if (!any || merged[c] || (alive(c) && merged[neighbours_[c]])) neighbours_[c] = kNobody;
      if (!any) near_[c] = {};
    }
  }

  void merge(std::int64_t a, std::int64_t b) {
    heights_[a] = std::max({costs_->cost(a, b), heights_[a], heights_[b]});
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
    into_[b] = a;
    --left_;
    // Near both together are those that were near one of them.
    MergeCosts::Near& near = near_[a];
    near.some.insert(near.some.end(), near_[b].some.begin(), near_[b].some.end());
    near.beyond = std::min(near.beyond, near_[b].beyond);
    std::erase_if(near.some, [&](const Neighbour& n) { return now(n.cluster) == a; });
    near_[b] = {};
  }

  void close_gaps() {
    std::vector<std::int64_t> slot(into_.size(), kNobody);
    std::int64_t next = 0;
    for (std::int64_t c = 0; c < slots_.count(); ++c) {
      if (!alive(c)) continue;
      slot[c] = next++;
      if (slot[c] == c) continue;
      std::copy_n(slots_.means.data() + c * slots_.d, slots_.d,
                  slots_.means.data() + slot[c] * slots_.d);
      slots_.weights[slot[c]] = slots_.weights[c];
      ids_[slot[c]] = ids_[c];
      heights_[slot[c]] = heights_[c];
      neighbours_[slot[c]] = neighbours_[c];
      near_[slot[c]] = std::move(near_[c]);
    }
    slots_.means.resize(next * slots_.d);
    slots_.weights.resize(next);
    neighbours_.resize(next);
    near_.resize(next);
    for (auto& neighbour : neighbours_) {
      if (neighbour != kNobody) neighbour = slot[neighbour];
    }
    for (auto& near : near_) {
      for (Neighbour& one : near.some) one.cluster = slot[now(one.cluster)];
    }
    start_over();
  }

  WeightedMeans slots_;
  int threads_;
  const MakeMergeCosts& make_;
  std::vector<std::int64_t> ids_;  // the lowest member
  std::vector<double> heights_;    // at which it was made; 0: it is a single one
  std::vector<std::int64_t> neighbours_;
  std::vector<MergeCosts::Near> near_;  // of what they were when they were looked at
  std::vector<std::int64_t> into_;      // what a cluster was merged into; itself if it was not
  std::int64_t left_;
  MergeRounding rounding_;
  std::unique_ptr<MergeCosts> costs_;
  std::vector<Merge> merges_;
};

/// By which a board rounds coordinates of cells to integers. largest: squared distance from a seed.
double cell_scale(const SeedingProblem<float>& problem, double largest) {
  // A coordinate lies within sqrt(largest) of its seed's; W times that, and half as much again, below 2^62.
  int exponent = 0;
  std::frexp(std::sqrt(largest), &exponent);
  const int places = largest > 0 ? 61 - std::bit_width(total_weight(problem) - 1) - exponent : 0;
  return exact::power_of_two(places);
}

/// The cells of the seeds on a board: those that have points, means and weights; in the order of the seeds.
WeightedMeans cells_of(const SeedingProblem<float>& problem, const std::vector<float>& seeds,
                       double scale, SeedingBoard<float>& board) {
  const std::int64_t d = problem.d;
  const std::int64_t m = static_cast<std::int64_t>(seeds.size()) / d;
  const auto sums = board.cells(seeds.data(), m, scale);
  WeightedMeans cells;
  cells.d = d;
  std::vector<std::int64_t> seed_of;
  for (std::int64_t j = 0; j < m; ++j) {
    const std::int64_t weight = sums[j * (d + 1) + d];
    if (weight == 0) continue;
    cells.weights.push_back(weight);
    seed_of.push_back(j);
  }
  cells.means.resize(cells.count() * d);
  constexpr std::int64_t kEach = 64;
  const int threads =
      worth_threads(static_cast<double>(cells.count() * d), 1 << 15, problem.threads);
  for_each_part((cells.count() + kEach - 1) / kEach, threads, [&](std::int64_t part) {
    const std::int64_t end = std::min(cells.count(), (part + 1) * kEach);
    for (std::int64_t c = part * kEach; c < end; ++c) {
      const std::int64_t* sum = sums.data() + seed_of[c] * (d + 1);
      const auto weight = static_cast<double>(cells.weights[c]);
      for (std::int64_t t = 0; t < d; ++t) {
        cells.means[c * d + t] = static_cast<double>(seeds[seed_of[c] * d + t]) +
                                 static_cast<double>(sum[t]) / weight / scale;
      }
    }
  });
  return cells;
}

}  // namespace

std::int64_t ward_seeds(std::int64_t n, std::int64_t k) {
  return k > n / kSeedsOfACluster ? n : kSeedsOfACluster * k;
}

std::vector<std::int32_t> ward_clusters(const WeightedMeans& clusters, std::int64_t k, int threads,
                                        const std::function<void()>& between,
                                        const MakeMergeCosts& make) {
  const std::int64_t wanted = clusters.count() - k;
  return clusters_of(Agglomeration(clusters, threads, make).run(wanted, between), clusters.count(),
                     k);
}

std::vector<std::int32_t> clusters_of(std::vector<Merge> merges, std::int64_t count,
                                      std::int64_t k) {
  // The lowest ones; of equal ones those that were made first, so none before what it is made of.
  std::stable_sort(merges.begin(), merges.end(),
                   [](const Merge& a, const Merge& b) { return a.height < b.height; });
  merges.resize(count - k);
  std::vector<std::int64_t> into(count);
  std::iota(into.begin(), into.end(), 0);
  for (const Merge& merge : merges) into[merge.from] = merge.into;
  std::vector<std::int32_t> numbers(count);
  std::int32_t next = 0;
  for (std::int64_t c = 0; c < count; ++c) {
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
  const double scale = cell_scale(problem, board.pass(between));
  const auto m = static_cast<std::int64_t>(rows.size());
  if (const auto kept = board.keep_cells(rows, scale)) {
    return kept->centroids(clusters_of(kept->merges(m - k, between), m, k), k);
  }
  const WeightedMeans cells = cells_of(problem, rows_at(problem, rows), scale, board);
  if (cells.count() < k) return {};
  auto merges = board.merges(cells, cells.count() - k, between);
  const auto numbers = merges ? clusters_of(std::move(*merges), cells.count(), k)
                              : ward_clusters(cells, k, problem.threads, between);
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
  const auto board = seeding_board(problem, ward_seeds(problem.n, k));
  return ward_centroids(problem, k, seed, *board, between);
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
