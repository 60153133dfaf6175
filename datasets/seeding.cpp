// SPDX-License-Identifier: Apache-2.0
//
// Initial centroids; k-means++: plus_plus.cpp, the default: ward.cpp.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "datasets/dataset.h"
#include "datasets/plus_plus.h"
#include "datasets/random.h"
#include "datasets/readers.h"
#include "datasets/ward.h"
#include "harness/support/errors.h"
#include "harness/support/largest_abs.h"
#include "harness/support/parallel.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

constexpr const char* kForms =
    "admitted: first, random:SEED, rows:1,3,6,8, kmeans++:SEED, ward:SEED, threshold:T, "
    "threshold-as-printed:T, or the path of a file";

// A stream apart from those of the generators, so that a seed used for both gives unrelated numbers;
// 102 is that of plus_plus_rows().
constexpr std::uint64_t kRandomRows = 100;

template <class T>
bool parse_whole(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<std::int64_t> parse_rows(std::string_view text) {
  std::vector<std::int64_t> rows;
  while (true) {
    const auto comma = std::min(text.find(','), text.size());
    std::int64_t row = 0;
    if (!parse_whole(text.substr(0, comma), row) || row < 0) {
      throw InputError("initial rows: '" + excerpt(text.substr(0, comma)) +
                       "' is not a row number; rows count from 0, as in rows:1,3,6,8");
    }
    rows.push_back(row);
    if (comma == text.size()) return rows;
    text.remove_prefix(comma + 1);
  }
}

std::vector<std::int64_t> first_rows(std::int64_t k) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(k));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  return rows;
}

// The first k places of a Fisher-Yates shuffle of all rows, of which only the moved ones are kept.
std::vector<std::int64_t> random_rows(std::int64_t n, std::int64_t k, std::uint64_t seed) {
  const CounterRandom random(seed, kRandomRows);
  std::unordered_map<std::int64_t, std::int64_t> moved;
  std::vector<std::int64_t> rows;
  const auto at = [&](std::int64_t place) {
    const auto found = moved.find(place);
    return found == moved.end() ? place : found->second;
  };
  for (std::int64_t j = 0; j < k; ++j) {
    const std::int64_t place = j + random.below(static_cast<std::uint64_t>(j), n - j);
    rows.push_back(at(place));
    moved[place] = at(j);
  }
  return rows;
}

/// Eight partial sums in a fixed order: vector instructions without a change of the result.
template <class T>
double squared_distance(const T* a, const T* b, std::int64_t d) {
  constexpr std::int64_t kLanes = 8;
  std::array<double, kLanes> sums{};
  std::int64_t t = 0;
  for (; t + kLanes <= d; t += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const double difference = static_cast<double>(a[t + lane]) - static_cast<double>(b[t + lane]);
      sums[static_cast<std::size_t>(lane)] += difference * difference;
    }
  }
  for (std::int64_t lane = 0; t < d; ++t, ++lane) {
    const double difference = static_cast<double>(a[t]) - static_cast<double>(b[t]);
    sums[static_cast<std::size_t>(lane)] += difference * difference;
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// marinai2023, section 2: the first row, then each next one that is farther than the threshold from
// all chosen. Its figure 2 counts the comparison with the last chosen as passed, whatever the
// distance: as printed, all but that one. The source reads past the end when the rows run out; here
// that is an error.
template <class T>
std::vector<std::int64_t> threshold_rows(const Points& points, std::int64_t k,
                                         const InitSpec& init) {
  const T* x = points.data<T>();
  const std::int64_t d = points.d();
  const bool as_printed = init.method == InitSpec::Method::threshold_as_printed;
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < points.n() && static_cast<std::int64_t>(rows.size()) < k; ++i) {
    const auto tested = rows.end() - (as_printed && !rows.empty() ? 1 : 0);
    const bool far = std::all_of(rows.begin(), tested, [&](std::int64_t row) {
      return squared_distance(x + i * d, x + row * d, d) > init.threshold;
    });
    if (far) rows.push_back(i);
  }
  if (static_cast<std::int64_t>(rows.size()) < k) {
    throw InputError("initial centroids: only " + std::to_string(rows.size()) + " of " +
                     std::to_string(k) + " points have a squared distance above " +
                     nlohmann::json(init.threshold).dump() + " from all others chosen" +
                     (as_printed ? " but the last" : "") + "; lower the threshold or k");
  }
  return rows;
}

template <class T>
SeedingProblem<T> seeding_problem(const Points& points, const std::int64_t* weights, bool gpu,
                                  std::optional<double> largest) {
  const int threads = usable_processors();
  const T* x = points.data<T>();
  return {.points = x,
          .n = points.n(),
          .d = points.d(),
          .weights = weights,
          .max_abs =
              largest ? static_cast<T>(*largest) : largest_abs(x, points.n() * points.d(), threads),
          .threads = threads,
          .gpu = gpu};
}

template <class T>
Points gather(const Points& points, const std::vector<std::int64_t>& rows) {
  const std::int64_t d = points.d();
  std::vector<T> centroids;
  centroids.reserve(rows.size() * static_cast<std::size_t>(d));
  for (const auto row : rows) {
    const T* point = points.data<T>() + row * d;
    centroids.insert(centroids.end(), point, point + d);
  }
  return make_points(centroids.data(), static_cast<std::int64_t>(rows.size()), d);
}

Points centroids_from_file(const Points& points, std::int64_t k, const InitSpec& init) {
  Points centroids = load_points(init.file, {.scalar = points.scalar()});
  if (centroids.n() != k || centroids.d() != points.d()) {
    throw InputError(init.file.string() + ": has " + std::to_string(centroids.n()) + " x " +
                     std::to_string(centroids.d()) + " coordinates; k x d = " + std::to_string(k) +
                     " x " + std::to_string(points.d()) + " initial centroids are needed");
  }
  return centroids;
}

template <class T>
Points choose(const Points& points, std::int64_t k, const InitSpec& init,
              const std::int64_t* weights, bool gpu, std::optional<double> largest) {
  const auto problem = [&] { return seeding_problem<T>(points, weights, gpu, largest); };
  switch (init.method) {
    case InitSpec::Method::random: return gather<T>(points, random_rows(points.n(), k, init.seed));
    case InitSpec::Method::rows: {
      if (static_cast<std::int64_t>(init.rows.size()) != k) {
        throw InputError("initial rows: " + std::to_string(init.rows.size()) +
                         " rows are given, k = " + std::to_string(k) + " are needed");
      }
      for (const auto row : init.rows) {
        if (row < 0 || row >= points.n()) {
          throw InputError("initial rows: row " + std::to_string(row) + " is outside [0, " +
                           std::to_string(points.n()) + ")");
        }
      }
      return gather<T>(points, init.rows);
    }
    case InitSpec::Method::kmeans_plus_plus:
      return gather<T>(points, plus_plus_rows(problem(), k, init.seed));
    case InitSpec::Method::ward: {
      const auto centroids = ward_centroids(problem(), k, init.seed);
      return make_points(centroids.data(), k, points.d());
    }
    case InitSpec::Method::threshold:
    case InitSpec::Method::threshold_as_printed:
      return gather<T>(points, threshold_rows<T>(points, k, init));
    case InitSpec::Method::file: return centroids_from_file(points, k, init);
    case InitSpec::Method::first: break;
  }
  return gather<T>(points, first_rows(k));
}

}  // namespace

InitSpec parse_init(const std::string& text) {
  InitSpec init{};
  const auto colon = text.find(':');
  const bool has_argument = colon != std::string::npos;
  const std::string method = text.substr(0, colon);
  const std::string argument = has_argument ? text.substr(colon + 1) : "";
  if (method == "first" && !has_argument) {
    init.method = InitSpec::Method::first;
    return init;
  }
  if (method == "random" || method == "kmeans++" || method == "ward") {
    init.method = method == "random" ? InitSpec::Method::random
                  : method == "ward" ? InitSpec::Method::ward
                                     : InitSpec::Method::kmeans_plus_plus;
    if (has_argument && !parse_whole(argument, init.seed)) {
      throw InputError("initial centroids: '" + excerpt(argument) +
                       "' is not a seed; an integer in [0, 2^64) is needed, as in " + method +
                       ":1");
    }
    return init;
  }
  if (method == "rows" && has_argument) {
    init.method = InitSpec::Method::rows;
    init.rows = parse_rows(argument);
    return init;
  }
  if ((method == "threshold" || method == "threshold-as-printed") && has_argument) {
    init.method = method == "threshold" ? InitSpec::Method::threshold
                                        : InitSpec::Method::threshold_as_printed;
    if (!parse_whole(argument, init.threshold) || !std::isfinite(init.threshold) ||
        init.threshold < 0) {
      throw InputError("initial centroids: '" + excerpt(argument) +
                       "' is not a squared distance; a number of at least 0 is needed");
    }
    return init;
  }
  const bool path = text.find_first_of("/.") != std::string::npos;
  std::error_code ignored;
  if (text.empty() || (!path && !std::filesystem::exists(text, ignored))) {
    throw InputError("initial centroids: '" + valid_utf8(text) +
                     "' is neither a method nor a file; " +
                     closest_names(method, {"first", "random", "rows", "kmeans++", "ward",
                                            "threshold", "threshold-as-printed"}) +
                     " (" + kForms + ")");
  }
  init.method = InitSpec::Method::file;
  init.file = text;
  return init;
}

Points initial_centroids(const Points& points, std::int64_t k, const InitSpec& init,
                         const std::int64_t* weights, bool gpu, std::optional<double> largest) {
  if (k < 1) throw InputError("k = " + std::to_string(k) + " must be at least 1");
  if (k > points.n()) {
    throw InputError("k = " + std::to_string(k) + " exceeds the number of points, " +
                     std::to_string(points.n()));
  }
  return points.scalar() == ScalarType::f32
             ? choose<float>(points, k, init, weights, gpu, largest)
             : choose<double>(points, k, init, weights, gpu, largest);
}

}  // namespace kmeans
