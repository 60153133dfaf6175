// SPDX-License-Identifier: Apache-2.0
#include "harness/record/measures.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "harness/record/agreement.h"

namespace kmeans {

using nlohmann::json;

double percentile(const std::vector<double>& sorted, double p) {
  const double position = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const auto above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double median_of(std::vector<double> values) {
  if (values.empty()) return std::nan("");
  std::sort(values.begin(), values.end());
  return percentile(values, 0.5);
}

std::size_t median_rank(std::size_t count) {
  // The interval [x(r), x(n+1-r)] misses the median when fewer than r samples fall on one side of
  // it: with probability 2 P(B <= r - 1), B binomial with n trials of 1/2.
  const auto n = static_cast<double>(count);
  double tail = 0;
  std::size_t r = 0;
  while (r < count) {
    const auto trial = static_cast<double>(r);
    tail += std::exp(std::lgamma(n + 1) - std::lgamma(trial + 1) - std::lgamma(n - trial + 1) -
                     n * std::log(2.0));
    if (2 * tail > 0.05) break;
    ++r;
  }
  return r;
}

std::optional<std::pair<double, double>> median_ci95(const std::vector<double>& sorted) {
  const std::size_t r = median_rank(sorted.size());
  if (r == 0) return std::nullopt;
  return std::pair{sorted[r - 1], sorted[sorted.size() - r]};
}

json summarise(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto interval = median_ci95(samples);
  const double sum = std::accumulate(samples.begin(), samples.end(), 0.0);
  return {{"median", percentile(samples, 0.5)},
          {"ci95_low", interval ? json(interval->first) : json(nullptr)},
          {"ci95_high", interval ? json(interval->second) : json(nullptr)},
          {"min", samples.front()},
          {"max", samples.back()},
          {"p25", percentile(samples, 0.25)},
          {"p75", percentile(samples, 0.75)},
          {"mean", sum / static_cast<double>(samples.size())}};
}

json summarise_processes(const std::vector<std::vector<double>>& samples) {
  std::vector<double> all;
  for (const auto& process : samples) all.insert(all.end(), process.begin(), process.end());
  json summary = summarise(std::move(all));
  const double median = headline_median(samples);
  summary["median"] = median;
  // The ranks enclose the median of the samples; of few samples it may be another one.
  if (!summary.at("ci95_low").is_null()) {
    summary["ci95_low"] = std::min(median, summary.at("ci95_low").get<double>());
    summary["ci95_high"] = std::max(median, summary.at("ci95_high").get<double>());
  }
  return summary;
}

double operations_zechner(const Shape& shape) {
  const auto n = static_cast<double>(shape.n);
  const auto d = static_cast<double>(shape.d);
  const auto k = static_cast<double>(shape.k);
  return n * k * (3 * d + 2) + d * (n + k);
}

double operations_2nkd(const Shape& shape) {
  return 2 * static_cast<double>(shape.n) * static_cast<double>(shape.k) *
         static_cast<double>(shape.d);
}

double compulsory_bytes(const Shape& shape) {
  const auto n = static_cast<double>(shape.n);
  const auto d = static_cast<double>(shape.d);
  const auto k = static_cast<double>(shape.k);
  const double scalar = Sizes(shape).scalar;
  return n * d * scalar + n * static_cast<double>(sizeof(std::int32_t)) + 2 * k * d * scalar;
}

}  // namespace kmeans
