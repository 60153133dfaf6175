// SPDX-License-Identifier: Apache-2.0
#include "harness/record/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "harness/record/measures.h"

namespace kmeans {
namespace {

// Beyond, the normal approximation differs from the exact p in the third digit at most.
constexpr std::size_t kLargestExact = 40;

/// Twice the mid-rank of every value of a and then b: integers, also with ties.
std::vector<std::int64_t> doubled_ranks(const std::vector<double>& a,
                                        const std::vector<double>& b) {
  std::vector<double> values = a;
  values.insert(values.end(), b.begin(), b.end());
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t i, std::size_t j) { return values[i] < values[j]; });
  std::vector<std::int64_t> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    while (last + 1 < order.size() && values[order[last + 1]] == values[order[first]]) ++last;
    // Ranks first + 1 ... last + 1 share their mean.
    for (std::size_t i = first; i <= last; ++i) {
      ranks[order[i]] = static_cast<std::int64_t>(first + last) + 2;
    }
    first = last + 1;
  }
  return ranks;
}

/// The chances of all sums of `chosen` of the ranks, by sum.
std::vector<double> sum_distribution(const std::vector<std::int64_t>& ranks, std::size_t chosen) {
  const auto total =
      static_cast<std::size_t>(std::accumulate(ranks.begin(), ranks.end(), std::int64_t{0}));
  // ways[c][s]: ways to choose c of the ranks seen so far with sum s. Counts beyond 2^53 are
  // rounded, which no p can show.
  std::vector<std::vector<double>> ways(chosen + 1, std::vector<double>(total + 1, 0.0));
  ways[0][0] = 1;
  std::size_t seen = 0;
  std::size_t reach = 0;
  for (const std::int64_t rank : ranks) {
    const auto step = static_cast<std::size_t>(rank);
    reach += step;
    ++seen;
    for (std::size_t c = std::min(seen, chosen); c >= 1; --c) {
      for (std::size_t s = reach; s + 1 > step; --s) ways[c][s] += ways[c - 1][s - step];
    }
  }
  std::vector<double> chances = std::move(ways[chosen]);
  const double all = std::accumulate(chances.begin(), chances.end(), 0.0);
  for (double& chance : chances) chance /= all;
  return chances;
}

/// Pairs in which the second sample is larger, ties counted half.
double mann_whitney_u(const std::vector<double>& a, const std::vector<double>& b) {
  double u = 0;
  for (const double first : a) {
    for (const double second : b) u += second > first ? 1 : second == first ? 0.5 : 0;
  }
  return u;
}

double normal_tail(double z) { return 0.5 * std::erfc(z / std::sqrt(2.0)); }

/// p of the normal approximation, corrected for ties and continuity.
double approximate_p(const std::vector<std::int64_t>& ranks, double m, double n, double u) {
  auto sorted = ranks;
  std::sort(sorted.begin(), sorted.end());
  double ties = 0;
  for (std::size_t first = 0; first < sorted.size();) {
    const auto last = static_cast<std::size_t>(
        std::upper_bound(sorted.begin(), sorted.end(), sorted[first]) - sorted.begin());
    const auto t = static_cast<double>(last - first);
    ties += t * t * t - t;
    first = last;
  }
  const double all = m + n;
  const double variance = m * n / 12 * (all + 1 - ties / (all * (all - 1)));
  if (!(variance > 0)) return 1;
  const double z = (std::abs(u - m * n / 2) - 0.5) / std::sqrt(variance);
  return std::min(1.0, 2 * normal_tail(z));
}

/// Quantile of the standard normal distribution above 1/2, by bisection.
double normal_quantile(double probability) {
  double low = 0;
  double high = 40;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (1 - normal_tail(middle) < probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

/// The largest number of pairs c such that P(U < c) is at most `tail`, without ties.
std::size_t critical_pairs(std::size_t m, std::size_t n, double tail) {
  const double pairs = static_cast<double>(m) * static_cast<double>(n);
  if (m + n > kLargestExact) {
    const double spread = std::sqrt(pairs * static_cast<double>(m + n + 1) / 12);
    const double bound = pairs / 2 - normal_quantile(1 - tail) * spread;
    return bound < 1 ? 0 : static_cast<std::size_t>(bound);
  }
  std::vector<std::int64_t> ranks(m + n);
  std::iota(ranks.begin(), ranks.end(), std::int64_t{1});
  const auto chances = sum_distribution(ranks, m);
  const std::size_t lowest = m * (m + 1) / 2;
  double below = 0;
  std::size_t c = 0;
  while (c < m * n) {
    below += chances[lowest + c];  // P(U <= c)
    if (below > tail) break;
    ++c;
  }
  return c;
}

/// P(heads = i) of so many tosses, for all i.
std::vector<double> coin_chances(std::size_t tosses) {
  const auto n = static_cast<double>(tosses);
  std::vector<double> chances(tosses + 1);
  for (std::size_t i = 0; i <= tosses; ++i) {
    const auto heads = static_cast<double>(i);
    chances[i] = std::exp(std::lgamma(n + 1) - std::lgamma(heads + 1) - std::lgamma(n - heads + 1) -
                          n * std::log(2.0));
  }
  return chances;
}

// Up to so many processes in all strata the chances of a stratified sum are exact. Beyond, its
// normal approximation puts more into the tails than there is: a bounded sum has light ones.
constexpr std::size_t kLargestExactStrata = 240;
constexpr double kWeightScale = 60;

/// Van Elteren's weight 1 / (m + n + 1), in steps that keep all sums whole. Any weights that do not
/// look at the times give a valid test.
std::size_t weight_of(const Stratum& stratum) {
  const auto all = static_cast<double>(stratum.base.size() + stratum.changed.size());
  return static_cast<std::size_t>(std::max(1.0, std::round(kWeightScale / (all + 1))));
}

/// The chances of the weighted sum of U over all strata, without ties (with them it varies less).
class StratifiedNull {
 public:
  explicit StratifiedNull(const std::vector<Stratum>& strata) {
    std::size_t processes = 0;
    double variance = 0;
    for (const auto& stratum : strata) {
      const std::size_t pairs = stratum.base.size() * stratum.changed.size();
      const std::size_t all = stratum.base.size() + stratum.changed.size();
      const std::size_t weight = weight_of(stratum);
      processes += all;
      largest_ += weight * pairs;
      step_ = step_ == 0 ? weight : std::min(step_, weight);
      variance += static_cast<double>(weight * weight * pairs * (all + 1)) / 12;
    }
    deviation_ = std::sqrt(variance);
    if (processes > kLargestExactStrata) return;
    chances_ = {1};
    for (const auto& stratum : strata) add(stratum);
  }

  [[nodiscard]] std::size_t largest() const { return largest_; }

  /// P(sum <= at most).
  [[nodiscard]] double at_most(std::size_t most) const {
    if (most >= largest_) return 1;
    if (chances_.empty()) {
      const double from = static_cast<double>(largest_) / 2 - static_cast<double>(most) -
                          static_cast<double>(step_) / 2;
      return from > 0 ? normal_tail(from / deviation_) : 1 - normal_tail(-from / deviation_);
    }
    const auto end = chances_.begin() + static_cast<std::ptrdiff_t>(most) + 1;
    return std::accumulate(chances_.begin(), end, 0.0);
  }

  /// The largest sum s such that P(sum < s) is at most `tail`.
  [[nodiscard]] std::size_t critical(double tail) const {
    std::size_t low = 0;  // P(sum < 0) = 0
    std::size_t high = largest_ + 1;
    while (high - low > 1) {
      const std::size_t middle = low + (high - low) / 2;
      (at_most(middle - 1) <= tail ? low : high) = middle;
    }
    return low;
  }

 private:
  void add(const Stratum& stratum) {
    const std::size_t m = stratum.base.size();
    const std::size_t n = stratum.changed.size();
    const std::size_t weight = weight_of(stratum);
    std::vector<std::int64_t> ranks(m + n);
    std::iota(ranks.begin(), ranks.end(), std::int64_t{1});
    const auto own = sum_distribution(ranks, m);
    const std::size_t lowest = m * (m + 1) / 2;
    std::vector<double> sums(chances_.size() + weight * m * n, 0.0);
    for (std::size_t u = 0; u <= m * n; ++u) {
      for (std::size_t s = 0; s < chances_.size(); ++s) {
        sums[s + weight * u] += chances_[s] * own[lowest + u];
      }
    }
    chances_ = std::move(sums);
  }

  std::vector<double> chances_;  // empty: approximate
  std::size_t largest_ = 0;
  std::size_t step_ = 0;
  double deviation_ = 0;
};

/// Every quotient of a new process over a base process of its cell, ascending, with its weight.
std::vector<std::pair<double, std::size_t>> weighted_ratios(const std::vector<Stratum>& strata) {
  std::vector<std::pair<double, std::size_t>> ratios;
  for (const auto& stratum : strata) {
    for (const double before : stratum.base) {
      for (const double after : stratum.changed) {
        ratios.emplace_back(after / before, weight_of(stratum));
      }
    }
  }
  std::sort(ratios.begin(), ratios.end());
  return ratios;
}

/// The first ratio up to which the weights add up to `wanted`.
double ratio_at(const std::vector<std::pair<double, std::size_t>>& ratios, std::size_t wanted) {
  std::size_t sum = 0;
  for (const auto& [ratio, weight] : ratios) {
    sum += weight;
    if (sum >= wanted) return ratio;
  }
  return ratios.back().first;
}

}  // namespace

std::vector<double> process_medians(const std::vector<std::vector<double>>& samples) {
  std::vector<double> medians;
  medians.reserve(samples.size());
  for (auto process : samples) {
    std::sort(process.begin(), process.end());
    medians.push_back(percentile(process, 0.5));
  }
  return medians;
}

std::vector<double> process_minima(const std::vector<std::vector<double>>& samples) {
  std::vector<double> minima;
  minima.reserve(samples.size());
  for (const auto& process : samples) {
    minima.push_back(*std::min_element(process.begin(), process.end()));
  }
  return minima;
}

RankTest mann_whitney(const std::vector<double>& a, const std::vector<double>& b) {
  const auto ranks = doubled_ranks(a, b);
  const auto m = static_cast<double>(a.size());
  const auto n = static_cast<double>(b.size());
  const auto middle = ranks.begin() + static_cast<std::ptrdiff_t>(a.size());
  const auto sum = std::accumulate(middle, ranks.end(), std::int64_t{0});
  RankTest test;
  test.u = static_cast<double>(sum) / 2 - n * (n + 1) / 2;
  test.exact = ranks.size() <= kLargestExact;
  if (!test.exact) {
    test.p = approximate_p(ranks, m, n, test.u);
    return test;
  }
  const auto chances = sum_distribution(ranks, b.size());
  const auto at = static_cast<std::ptrdiff_t>(sum);
  const double at_most = std::accumulate(chances.begin(), chances.begin() + at + 1, 0.0);
  const double at_least = std::accumulate(chances.begin() + at, chances.end(), 0.0);
  test.p = std::min(1.0, 2 * std::min(at_most, at_least));
  return test;
}

double smallest_p(std::size_t m, std::size_t n) {
  const auto a = static_cast<double>(m);
  const auto b = static_cast<double>(n);
  const double ways = std::exp(std::lgamma(a + b + 1) - std::lgamma(a + 1) - std::lgamma(b + 1));
  return std::min(1.0, 2 / ways);
}

std::size_t processes_needed(std::size_t cells, double rate) {
  std::size_t processes = 1;
  while (smallest_p(processes, processes) * static_cast<double>(cells) > rate) ++processes;
  return processes;
}

std::vector<double> benjamini_hochberg(const std::vector<double>& p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) { return p[i] > p[j]; });
  std::vector<double> adjusted(p.size());
  double least = 1;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto rank = static_cast<double>(p.size() - i);
    least = std::min(least, p[order[i]] * static_cast<double>(p.size()) / rank);
    adjusted[order[i]] = least;
  }
  return adjusted;
}

std::optional<std::pair<double, double>> ratio_interval(const std::vector<double>& base,
                                                        const std::vector<double>& changed,
                                                        double confidence) {
  const std::size_t c = critical_pairs(base.size(), changed.size(), (1 - confidence) / 2);
  if (c == 0) return std::nullopt;
  std::vector<double> ratios;
  ratios.reserve(base.size() * changed.size());
  for (const double before : base) {
    for (const double after : changed) ratios.push_back(after / before);
  }
  std::sort(ratios.begin(), ratios.end());
  return std::pair{ratios[c - 1], ratios[ratios.size() - c]};
}

double sign_test_p(const std::vector<double>& ratios) {
  std::size_t above = 0;
  std::size_t below = 0;
  for (const double ratio : ratios) {
    if (ratio > 1) ++above;
    if (ratio < 1) ++below;
  }
  const auto chances = coin_chances(above + below);
  const auto end = chances.begin() + static_cast<std::ptrdiff_t>(std::min(above, below)) + 1;
  return std::min(1.0, 2 * std::accumulate(chances.begin(), end, 0.0));
}

double paired_ratio(std::vector<double> ratios) {
  std::sort(ratios.begin(), ratios.end());
  return percentile(ratios, 0.5);
}

std::optional<std::pair<double, double>> paired_interval(std::vector<double> ratios,
                                                         double confidence) {
  const auto chances = coin_chances(ratios.size());
  double below = 0;
  std::size_t c = 0;
  while (c < ratios.size()) {
    below += chances[c];  // P(heads <= c)
    if (below > (1 - confidence) / 2) break;
    ++c;
  }
  if (c == 0) return std::nullopt;
  std::sort(ratios.begin(), ratios.end());
  return std::pair{ratios[c - 1], ratios[ratios.size() - c]};
}

StratifiedTest stratified_test(const std::vector<Stratum>& strata) {
  const StratifiedNull null(strata);
  double sum = 0;
  for (const auto& stratum : strata) {
    sum += static_cast<double>(weight_of(stratum)) * mann_whitney_u(stratum.base, stratum.changed);
  }
  // Half a count, of ties, is rounded towards the middle.
  const double away = std::max(sum, static_cast<double>(null.largest()) - sum);
  const auto nearer =
      static_cast<std::size_t>(std::ceil(static_cast<double>(null.largest()) - away));
  StratifiedTest test;
  test.p = std::min(1.0, 2 * null.at_most(nearer));
  const auto ratios = weighted_ratios(strata);
  const std::size_t half = null.largest() / 2;
  test.ratio = std::sqrt(ratio_at(ratios, half + null.largest() % 2) * ratio_at(ratios, half + 1));
  return test;
}

std::optional<std::pair<double, double>> stratified_interval(const std::vector<Stratum>& strata,
                                                             double confidence) {
  const StratifiedNull null(strata);
  const std::size_t sum = null.critical((1 - confidence) / 2);
  if (sum == 0) return std::nullopt;
  const auto ratios = weighted_ratios(strata);
  const double low = ratio_at(ratios, sum);
  return std::pair{low, ratio_at(ratios, null.largest() - sum + 1)};
}

}  // namespace kmeans
