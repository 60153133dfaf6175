// SPDX-License-Identifier: Apache-2.0
//
// Question:  does an iteration take the nk(3d + 2) + d(n + k) operations of the paper's model?
// Method:    one iteration with a scalar that counts what is done to it, kind by kind. `Algorithm
//            1` as the paper describes it must agree exactly. Two more ways show what the model
//            counts that others leave out: without square roots, sums beginning with their first
//            term, and one comparison less a point; and through the expanded square |c|^2 - 2 c x.
//            Adding to a count is integer work and counted nowhere
// Source:    zechner2009, section II-D, equations 2 to 4
#include <array>

#include "experiments/studies/_common.h"

namespace kmeans::studies::operation_count {
namespace {

enum Kind { kSubtract, kMultiply, kAdd, kRoot, kCompare, kDivide, kKinds };
constexpr std::array<const char*, kKinds> kKindNames = {"subtract",    "multiply", "add",
                                                        "square root", "compare",  "divide"};
using Counts = std::array<std::int64_t, kKinds>;

/// A float64 that counts into the counts in turn.
class Counting {
 public:
  Counting() = default;
  explicit Counting(double value) : value_(value) {}

  friend Counting operator-(Counting a, Counting b) {
    return counted(kSubtract, a.value_ - b.value_);
  }
  friend Counting operator*(Counting a, Counting b) {
    return counted(kMultiply, a.value_ * b.value_);
  }
  friend Counting operator+(Counting a, Counting b) { return counted(kAdd, a.value_ + b.value_); }
  friend Counting operator/(Counting a, Counting b) {
    return counted(kDivide, a.value_ / b.value_);
  }
  friend bool operator<(Counting a, Counting b) {
    ++(*counts_)[kCompare];
    return a.value_ < b.value_;
  }
  friend Counting root(Counting a) { return counted(kRoot, std::sqrt(a.value_)); }

  static void count_into(Counts* counts) { counts_ = counts; }

 private:
  static Counting counted(Kind kind, double value) {
    ++(*counts_)[kind];
    return Counting(value);
  }

  double value_ = 0;
  static inline thread_local Counts* counts_ = nullptr;
};

enum Way { kAlgorithm1, kLean, kExpanded, kWays };
constexpr std::array<const char*, kWays> kWayNames = {"Algorithm 1", "lean", "expanded"};

struct Problem {
  Table<Counting> points;
  Table<Counting> centroids;
};

Counting distance(const Counting* point, const Counting* centroid, std::int64_t d, Way way) {
  Counting sum(0);
  for (std::int64_t t = 0; t < d; ++t) {
    const auto difference = point[t] - centroid[t];
    const auto square = difference * difference;
    sum = way == kLean && t == 0 ? square : sum + square;
  }
  return way == kLean ? sum : root(sum);
}

/// |c|^2 - 2 c x: as near as the distance, less what all centroids share.
Counting expanded(const Counting* point, const Counting* centroid, Counting norm, std::int64_t d) {
  Counting product = point[0] * centroid[0];
  for (std::int64_t t = 1; t < d; ++t) product = product + point[t] * centroid[t];
  return norm - (product + product);
}

std::vector<std::int32_t> label(const Problem& problem, Way way) {
  const auto& [points, centroids] = problem;
  std::vector<Counting> norms;
  for (std::int64_t j = 0; j < centroids.n && way == kExpanded; ++j) {
    const auto* c = centroids.row(j);
    norms.push_back(c[0] * c[0]);
    for (std::int64_t t = 1; t < centroids.d; ++t) norms.back() = norms.back() + c[t] * c[t];
  }
  std::vector<std::int32_t> labels(static_cast<std::size_t>(points.n));
  for (std::int64_t i = 0; i < points.n; ++i) {
    Counting smallest(std::numeric_limits<double>::infinity());
    for (std::int64_t j = 0; j < centroids.n; ++j) {
      const auto one = way == kExpanded
                           ? expanded(points.row(i), centroids.row(j), norms[j], points.d)
                           : distance(points.row(i), centroids.row(j), points.d, way);
      const bool first = way != kAlgorithm1 && j == 0;
      if (!first && !(one < smallest)) continue;
      smallest = one;
      labels[i] = static_cast<std::int32_t>(j);
    }
  }
  return labels;
}

void move(const std::vector<std::int32_t>& labels, Problem& problem) {
  auto& [points, centroids] = problem;
  std::vector<double> sizes(static_cast<std::size_t>(centroids.n));
  std::vector<Counting> sums(centroids.values.size());
  for (std::int64_t i = 0; i < points.n; ++i) {
    sizes[labels[i]] += 1;
    for (std::int64_t t = 0; t < points.d; ++t) {
      auto& sum = sums[labels[i] * points.d + t];
      sum = sum + points.row(i)[t];
    }
  }
  for (std::int64_t j = 0; j < centroids.n; ++j) {
    if (sizes[j] == 0) throw InputError("operation_count: a cluster is empty; change the seed");
    for (std::int64_t t = 0; t < points.d; ++t) {
      centroids.row(j)[t] = sums[j * points.d + t] / Counting(sizes[j]);
    }
  }
}

Counts model(std::int64_t n, std::int64_t d, std::int64_t k) {
  return {n * k * d, n * k * d, n * k * d + n * d, n * k, n * k, k * d};
}

std::int64_t total(const Counts& counts) {
  std::int64_t sum = 0;
  for (const auto count : counts) sum += count;
  return sum;
}

StudyOutput run(const StudyInput& input) {
  Parameters parameters(input);
  const auto sizes = parameters.integers("n", {500, 5000}, 1, 10000000);
  const auto ds = parameters.integers("d", {2, 20, 200}, 1, 100000);
  const auto ks = parameters.integers("k", {2, 8, 32, 128}, 1, 100000);
  const auto seed = parameters.integer("seed", 1, 0, 1 << 30);
  parameters.finish();

  StudyOutput output;
  double largest_deviation = 0;
  double most = 0;
  double least[kWays] = {1, 1, 1};
  double highest[kWays] = {0, 0, 0};
  for (const auto n : sizes) {
    for (const auto d : ds) {
      const auto numbers =
          generated({{"generator", "uniform"}, {"n", n}, {"d", d}, {"seed", seed}});
      Table<Counting> points{n, d, {}};
      for (const double value : numbers.values) points.values.emplace_back(value);
      for (const auto k : ks) {
        if (k > n) throw InputError("operation_count: k exceeds n");
        const auto start =
            rows_of(points, drawn_rows(n, k, CounterRandom(static_cast<std::uint64_t>(seed), 213)));
        const auto wanted = model(n, d, k);
        most =
            std::max(most, static_cast<double>(wanted[kRoot]) / static_cast<double>(total(wanted)));
        std::vector<std::int32_t> judge;
        for (int at = 0; at < kWays; ++at) {
          const auto way = static_cast<Way>(at);
          Counts counts{};
          Counting::count_into(&counts);
          Problem problem{points, start};
          const auto labels = label(problem, way);
          move(labels, problem);
          Counting::count_into(nullptr);
          if (way == kAlgorithm1) {
            judge = labels;
            if (counts != wanted || total(counts) != n * k * (3 * d + 2) + d * (n + k)) {
              output.wrong = "Algorithm 1 does not take the model's operations";
            }
          } else if (way == kLean && labels != judge) {
            output.wrong = "the lean way finds other labels";
          }
          const double ratio =
              static_cast<double>(total(counts)) / static_cast<double>(total(wanted));
          least[at] = std::min(least[at], ratio);
          highest[at] = std::max(highest[at], ratio);
          if (way == kAlgorithm1) {
            largest_deviation = std::max(largest_deviation, std::abs(ratio - 1));
          }
          for (int kind = 0; kind <= kKinds; ++kind) {
            const bool all = kind == kKinds;
            const auto counted = all ? total(counts) : counts[kind];
            const auto expected = all ? total(wanted) : wanted[kind];
            output.rows.push_back(
                {{"n", n},
                 {"d", d},
                 {"k", k},
                 {"way", kWayNames[at]},
                 {"operation", all ? "all" : kKindNames[kind]},
                 {"counted", counted},
                 {"model", expected},
                 {"ratio", static_cast<double>(counted) / static_cast<double>(expected)}});
          }
        }
      }
    }
  }
  output.findings = {{"largest_deviation_algorithm_1", largest_deviation},
                     {"smallest_ratio_lean", least[kLean]},
                     {"largest_ratio_lean", highest[kLean]},
                     {"smallest_ratio_expanded", least[kExpanded]},
                     {"largest_ratio_expanded", highest[kExpanded]},
                     {"largest_share_of_square_roots", most}};
  output.notes = {
      "Labels need no square root, so programs that leave it out do less than the model says; "
      "rates "
      "in GFLOP/s use the model for all of them."};
  return output;
}

}  // namespace

KMEANS_STUDY(.name = "operation_count",
             .summary = "operations of an iteration, counted, against the paper's model",
             .source = "zechner2009", .run = run);

}  // namespace kmeans::studies::operation_count
