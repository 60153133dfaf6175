// SPDX-License-Identifier: Apache-2.0
//
// Question:  how often do the article's two versions disagree about a tie, and what becomes of the
//            clusters that lose one?
// Method:    three rules label the same points: the CPU class (squares, <=: the last wins), the GPU
//            class (square roots, <: the first wins, and roots of different squares may be equal),
//            and the lowest index of the squares. ties: points on a grid, from coarse to fine, and
//            continuous ones. duplicates: few distinct points, so that first centroids coincide,
//            and one of each pair is empty; the CPU class divides 0 by 0, the GPU class moves it to
//            the origin. far: the CPU class searches from 1e8, so a point farther than 10 000 from
//            all centroids gets no label
// Source:    zhihu2023, sections 3.3, 3.4 and 4.2.2, 4.3
#include "experiments/studies/_common.h"

namespace kmeans::studies::ties {
namespace {

enum Way { kCpuClass, kGpuClass, kLowest, kWays };
constexpr const char* kWayNames[] = {"CPU class (<=)", "GPU class (<, roots)", "lowest index"};

std::vector<std::int32_t> labelled(const Table<float>& points, const Table<float>& centroids,
                                   Way way) {
  std::vector<std::int32_t> labels(static_cast<std::size_t>(points.n));
  for (std::int64_t i = 0; i < points.n; ++i) {
    float smallest = way == kCpuClass ? 1e8F : std::numeric_limits<float>::infinity();
    std::int32_t label = way == kGpuClass ? 0 : -1;
    for (std::int64_t j = 0; j < centroids.n; ++j) {
      float value = squared_distance(points.row(i), centroids.row(j), points.d);
      if (way == kGpuClass) value = std::sqrt(value);
      if (way == kCpuClass ? value <= smallest : value < smallest) {
        smallest = value;
        label = static_cast<std::int32_t>(j);
      }
    }
    labels[i] = label;
  }
  return labels;
}

struct Count {
  std::int64_t empty = 0;
  std::int64_t nan = 0;
};

/// Means in float64. An empty cluster becomes NaN, goes to the origin, or stays.
Count move(const Table<float>& points, const std::vector<std::int32_t>& labels, Way way,
           Table<float>& centroids) {
  std::vector<bool> used(static_cast<std::size_t>(centroids.n));
  for (const auto label : labels) {
    if (label >= 0) used[label] = true;
  }
  update(points, labels, centroids);
  Count count;
  for (std::int64_t j = 0; j < centroids.n; ++j) {
    if (used[j]) continue;
    count.empty += 1;
    if (way == kLowest) continue;
    const float value = way == kCpuClass ? std::numeric_limits<float>::quiet_NaN() : 0.0F;
    std::fill_n(centroids.row(j), points.d, value);
    count.nan += way == kCpuClass ? 1 : 0;
  }
  return count;
}

double share_that_differs(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
  std::int64_t differ = 0;
  for (std::size_t i = 0; i < a.size(); ++i) differ += a[i] != b[i] ? 1 : 0;
  return static_cast<double>(differ) / static_cast<double>(a.size());
}

struct Problem {
  const char* part;
  std::string data;
  Table<float> points;
  Table<float> centroids;
};

Table<float> floats(const nlohmann::json& spec) {
  const auto table = generated(spec);
  return {table.n, table.d, {table.values.begin(), table.values.end()}};
}

std::vector<nlohmann::json> rows_of_problem(const Problem& problem, std::int64_t iterations) {
  const auto& points = problem.points;
  const auto judge = labelled(points, problem.centroids, kLowest);
  std::vector<nlohmann::json> rows;
  double right = 0;
  for (const Way way : {kLowest, kCpuClass, kGpuClass}) {
    auto centroids = problem.centroids;
    const auto first = labelled(points, centroids, way);
    const auto unlabelled = std::count(first.begin(), first.end(), -1);
    auto labels = first;
    Count count = move(points, labels, way, centroids);
    const Count at_first = count;
    std::int64_t first_nan = count.nan > 0 ? 1 : 0;
    for (std::int64_t t = 2; t <= iterations; ++t) {
      auto next = labelled(points, centroids, way);
      if (next == labels) break;
      labels = std::move(next);
      count = move(points, labels, way, centroids);
      if (count.nan > 0 && first_nan == 0) first_nan = t;
    }
    const double value = inertia(points, centroids);
    if (way == kLowest) right = value;
    const auto share = [](std::int64_t part, std::int64_t all) {
      return static_cast<double>(part) / static_cast<double>(all);
    };
    rows.push_back(
        {{"part", problem.part},
         {"data", problem.data},
         {"way", kWayNames[way]},
         {"labels_that_differ", share_that_differs(first, judge)},
         {"unlabelled", share(unlabelled, points.n)},
         {"empty_in_the_first_iteration", share(at_first.empty, centroids.n)},
         {"empty_at_the_end", share(count.empty, centroids.n)},
         {"nan_at_the_end", share(count.nan, centroids.n)},
         {"first_nan_iteration", first_nan == 0 ? nlohmann::json() : nlohmann::json(first_nan)},
         {"inertia_ratio", number_or_null(value / right)}});
  }
  return rows;
}

StudyOutput run(const StudyInput& input) {
  Parameters parameters(input);
  const auto n = parameters.integer("n", 20000, 2, 100000000);
  const auto k = parameters.integer("k", 16, 2, 10000);
  const auto d = parameters.integer("d", 2, 1, 10000);
  const auto seed = parameters.integer("seed", 1, 0, 1 << 30);
  const auto iterations = parameters.integer("iterations", 50, 1, 100000);
  const auto sides = parameters.integers("sides", {4, 8, 16, 64, 256}, 2, 1 << 20);
  const auto distinct = parameters.integers("distinct", {8, 32, 128}, 1, 1 << 20);
  const auto spreads = parameters.reals("spreads", {1000, 5000, 10000, 20000}, 1, 1e12);
  parameters.finish();
  if (k > n) throw InputError("ties: k exceeds n");

  const CounterRandom random(static_cast<std::uint64_t>(seed), 211);
  const auto with_start = [&](const char* part, std::string data, Table<float> points) {
    auto start = rows_of(points, drawn_rows(points.n, k, random));
    return Problem{part, std::move(data), std::move(points), std::move(start)};
  };
  std::vector<Problem> problems;
  for (const auto side : sides) {
    problems.push_back(with_start(
        "ties", "grid of side " + std::to_string(side),
        floats({{"generator", "grid"}, {"n", n}, {"d", d}, {"seed", seed}, {"side", side}})));
  }
  problems.push_back(
      with_start("ties", "continuous",
                 floats({{"generator", "uniform"}, {"n", n}, {"d", d}, {"seed", seed}})));
  for (const auto number : distinct) {
    problems.push_back(with_start("duplicates", std::to_string(number) + " distinct points",
                                  floats({{"generator", "duplicates"},
                                          {"n", n},
                                          {"d", d},
                                          {"seed", seed},
                                          {"distinct", number}})));
  }
  for (const double scale : spreads) {
    auto points = floats({{"generator", "gaussian"}, {"n", n}, {"d", d}, {"seed", seed}});
    for (float& value : points.values) value *= static_cast<float>(scale);
    problems.push_back(with_start(
        "far", "deviation " + std::to_string(static_cast<std::int64_t>(scale)), std::move(points)));
  }

  StudyOutput output;
  double most_ties = 0;
  double continuous = 0;
  double nan = 0;
  double unlabelled = 0;
  for (const auto& problem : problems) {
    for (auto& row : rows_of_problem(problem, iterations)) {
      const double differ = row["labels_that_differ"];
      if (row["part"] == "ties" && row["way"] == kWayNames[kCpuClass]) {
        most_ties = std::max(most_ties, differ);
        if (row["data"] == "continuous") continuous = differ;
      }
      nan = std::max(nan, row["nan_at_the_end"].get<double>());
      unlabelled = std::max(unlabelled, row["unlabelled"].get<double>());
      output.rows.push_back(std::move(row));
    }
  }
  output.findings = {{"largest_share_of_ties_cpu_class", most_ties},
                     {"share_of_ties_continuous_cpu_class", continuous},
                     {"largest_share_of_nan_centroids", nan},
                     {"largest_share_unlabelled", unlabelled}};
  output.notes = {
      "labels_that_differ: in the first iteration, from the lowest index; all other shares are of "
      "points or of clusters.",
      "Inertia is divided by that of the lowest index and counts every point, labelled or not."};
  return output;
}

}  // namespace

KMEANS_STUDY(.name = "ties",
             .summary = "labels of tied points, and clusters that lose all their ties",
             .source = "zhihu2023", .run = run);

}  // namespace kmeans::studies::ties
