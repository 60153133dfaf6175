// SPDX-License-Identifier: Apache-2.0
//
// What the studies share: checked parameters, a right Lloyd iteration to hold the printed ones
// against, and the summary of many seeds. Nothing here depends on libm (square roots are exact), on
// the number of threads or on the standard library's random numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/random.h"
#include "harness/study.h"
#include "harness/support/json_reader.h"

namespace kmeans::studies {
// Unnamed on purpose, as in implementations/: each study has its own copy.
namespace {

using nlohmann::json;

/// The parameters of a study. finish() refuses what nobody asked for.
class Parameters {
 public:
  explicit Parameters(const StudyInput& input) : given_(input.parameters, "parameters") {}

  [[nodiscard]] std::int64_t integer(const std::string& key, std::int64_t fallback,
                                     std::int64_t smallest, std::int64_t largest) {
    return ask(key).integer(smallest, largest, fallback);
  }

  [[nodiscard]] double real(const std::string& key, double fallback, double smallest,
                            double largest) {
    return ask(key).number(smallest, largest, fallback);
  }

  [[nodiscard]] std::vector<std::int64_t> integers(const std::string& key,
                                                   std::vector<std::int64_t> fallback,
                                                   std::int64_t smallest, std::int64_t largest) {
    return list(key, std::move(fallback),
                [&](const JsonReader& one) { return one.integer(smallest, largest); });
  }

  [[nodiscard]] std::vector<double> reals(const std::string& key, std::vector<double> fallback,
                                          double smallest, double largest) {
    return list(key, std::move(fallback),
                [&](const JsonReader& one) { return one.number(smallest, largest); });
  }

  /// A list of names out of the known ones, which are also the default.
  [[nodiscard]] std::vector<std::string> texts(const std::string& key,
                                               const std::vector<std::string>& known) {
    return list(key, known, [&](const JsonReader& one) { return one.one_of(known); });
  }

  /// A list of names that the study looks at itself.
  [[nodiscard]] std::vector<std::string> names(const std::string& key,
                                               std::vector<std::string> fallback) {
    return list(key, std::move(fallback),
                [](const JsonReader& one) { return one.nonempty_text(); });
  }

  void finish() const { given_.allow_only(asked_); }

 private:
  [[nodiscard]] JsonReader ask(const std::string& key) {
    asked_.push_back(key);
    return given_[key];
  }

  template <class T, class Read>
  [[nodiscard]] std::vector<T> list(const std::string& key, std::vector<T> fallback,
                                    const Read& read) {
    const JsonReader values = ask(key);
    return values.present() ? values.filled().each(read) : fallback;
  }

  JsonReader given_;
  std::vector<std::string> asked_;
};

/// n points of d coordinates, row-major.
template <class T>
struct Table {
  std::int64_t n = 0;
  std::int64_t d = 0;
  std::vector<T> values;

  [[nodiscard]] const T* row(std::int64_t i) const { return values.data() + i * d; }
  [[nodiscard]] T* row(std::int64_t i) { return values.data() + i * d; }
};

/// The points of a generator, in float64.
[[maybe_unused]] Table<double> generated(const json& spec) {
  const auto points = generate(parse_dataset(spec), ScalarType::f64);
  return {
      points.n(), points.d(),
      std::vector<double>(points.data<double>(), points.data<double>() + points.n() * points.d())};
}

template <class T>
[[maybe_unused]] Table<T> rows_of(const Table<T>& points, const std::vector<std::int64_t>& rows) {
  Table<T> chosen{static_cast<std::int64_t>(rows.size()), points.d, {}};
  for (const auto row : rows) {
    chosen.values.insert(chosen.values.end(), points.row(row), points.row(row) + points.d);
  }
  return chosen;
}

/// A permutation of [0, n): Fisher and Yates with the numbers of a stream.
[[maybe_unused]] std::vector<std::int64_t> shuffled(std::int64_t n, const CounterRandom& random) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) order[i] = i;
  for (std::int64_t i = n - 1; i > 0; --i) {
    std::swap(order[i], order[random.below(static_cast<std::uint64_t>(i), i + 1)]);
  }
  return order;
}

/// The first k places of a permutation of [0, n).
[[maybe_unused]] std::vector<std::int64_t> drawn_rows(std::int64_t n, std::int64_t k,
                                                      const CounterRandom& random) {
  auto rows = shuffled(n, random);
  rows.resize(static_cast<std::size_t>(k));
  return rows;
}

template <class T>
T squared_distance(const T* point, const T* centroid, std::int64_t d) {
  T sum = 0;
  for (std::int64_t t = 0; t < d; ++t) {
    const T difference = point[t] - centroid[t];
    sum += difference * difference;
  }
  return sum;
}

/// The nearest centroid, ties to the lowest index; -1 where no distance compares (all are NaN).
template <class T>
std::int32_t nearest(const T* point, const Table<T>& centroids) {
  T smallest = std::numeric_limits<T>::infinity();
  std::int32_t label = -1;
  for (std::int64_t j = 0; j < centroids.n; ++j) {
    const T distance = squared_distance(point, centroids.row(j), centroids.d);
    if (distance < smallest) {
      smallest = distance;
      label = static_cast<std::int32_t>(j);
    }
  }
  return label;
}

template <class T>
std::vector<std::int32_t> assigned(const Table<T>& points, const Table<T>& centroids) {
  std::vector<std::int32_t> labels(static_cast<std::size_t>(points.n));
  for (std::int64_t i = 0; i < points.n; ++i) labels[i] = nearest(points.row(i), centroids);
  return labels;
}

/// Sum of squared distances to the nearest centroid; NaN centroids attract nobody.
template <class T>
double inertia(const Table<T>& points, const Table<T>& centroids) {
  double sum = 0;
  for (std::int64_t i = 0; i < points.n; ++i) {
    double smallest = std::numeric_limits<double>::infinity();
    for (std::int64_t j = 0; j < centroids.n; ++j) {
      double distance = 0;
      for (std::int64_t t = 0; t < points.d; ++t) {
        const double difference =
            static_cast<double>(points.row(i)[t]) - static_cast<double>(centroids.row(j)[t]);
        distance += difference * difference;
      }
      if (distance < smallest) smallest = distance;
    }
    sum += smallest;
  }
  return sum;
}

/// The right update: every centroid becomes its points' mean; an empty cluster keeps its centroid.
/// Returns the sum of squared movements.
template <class T>
double update(const Table<T>& points, const std::vector<std::int32_t>& labels,
              Table<T>& centroids) {
  std::vector<double> sums(centroids.values.size());
  std::vector<std::int64_t> counts(static_cast<std::size_t>(centroids.n));
  for (std::int64_t i = 0; i < points.n; ++i) {
    if (labels[i] < 0) continue;
    counts[labels[i]] += 1;
    for (std::int64_t t = 0; t < points.d; ++t) {
      sums[labels[i] * points.d + t] += static_cast<double>(points.row(i)[t]);
    }
  }
  double movement = 0;
  for (std::int64_t j = 0; j < centroids.n; ++j) {
    if (counts[j] == 0) continue;
    for (std::int64_t t = 0; t < points.d; ++t) {
      const T mean = static_cast<T>(sums[j * points.d + t] / static_cast<double>(counts[j]));
      const double moved = static_cast<double>(mean) - static_cast<double>(centroids.row(j)[t]);
      movement += moved * moved;
      centroids.row(j)[t] = mean;
    }
  }
  return movement;
}

struct Outcome {
  std::int64_t iterations = 0;  ///< Until no label changed, or the most that were allowed.
  bool settled = false;
};

/// Lloyd's algorithm until no label changes.
template <class T>
Outcome settle(const Table<T>& points, Table<T>& centroids, std::int64_t most) {
  std::vector<std::int32_t> before;
  for (std::int64_t iteration = 1; iteration <= most; ++iteration) {
    auto labels = assigned(points, centroids);
    if (labels == before) return {iteration, true};
    update(points, labels, centroids);
    before = std::move(labels);
  }
  return {most, false};
}

/// Root mean square of the coordinates' deviations from their means.
template <class T>
double spread(const Table<T>& points) {
  double sum = 0;
  for (std::int64_t t = 0; t < points.d; ++t) {
    double mean = 0;
    for (std::int64_t i = 0; i < points.n; ++i) mean += static_cast<double>(points.row(i)[t]);
    mean /= static_cast<double>(points.n);
    for (std::int64_t i = 0; i < points.n; ++i) {
      const double difference = static_cast<double>(points.row(i)[t]) - mean;
      sum += difference * difference;
    }
  }
  return std::sqrt(sum / static_cast<double>(points.n * points.d));
}

/// The value below which a share of the values lies (the nearest one, none interpolated).
[[maybe_unused]] double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const auto last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(share * last + 0.5)];
}

[[maybe_unused]] double median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

[[maybe_unused]] double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

[[maybe_unused]] double largest(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

/// Share of the values above a limit.
[[maybe_unused]] double share_above(const std::vector<double>& values, double limit) {
  const auto above =
      std::count_if(values.begin(), values.end(), [&](double value) { return value > limit; });
  return static_cast<double>(above) / static_cast<double>(values.size());
}

/// JSON has no NaN and no infinity: null.
[[maybe_unused]] json number_or_null(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

}  // namespace
}  // namespace kmeans::studies
