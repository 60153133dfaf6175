// SPDX-License-Identifier: Apache-2.0
//
// Question:  what do first means on the diagonal, and counts that start at one, do to the
//            clustering? Method:    bias: one update of one cluster of m points, counted from one,
//            against its mean. runs: all four combinations of start (k values of the data, each for
//            both coordinates; or k points) and count (from one; from zero) over many seeds of
//            blobs, to the end; inertia over that of points counted from zero. An empty cluster
//            goes to the origin where counts start at one, and keeps its centroid otherwise
// Source:    goldsborough2017, the Eigen listing
#include "experiments/studies/_common.h"

namespace kmeans::studies::eigen_start {
namespace {

/// Means of the labelled points with counts that start at `first_count`.
void update_counting_from(double first_count, const Table<double>& points,
                          const std::vector<std::int32_t>& labels, Table<double>& means) {
  std::vector<double> counts(static_cast<std::size_t>(means.n), first_count);
  std::vector<double> sums(means.values.size());
  for (std::int64_t i = 0; i < points.n; ++i) {
    counts[labels[i]] += 1;
    for (std::int64_t t = 0; t < points.d; ++t) sums[labels[i] * points.d + t] += points.row(i)[t];
  }
  for (std::int64_t j = 0; j < means.n; ++j) {
    if (counts[j] == 0) continue;
    for (std::int64_t t = 0; t < points.d; ++t) {
      means.row(j)[t] = sums[j * points.d + t] / counts[j];
    }
  }
}

double norm(const double* vector, std::int64_t d) {
  double sum = 0;
  for (std::int64_t t = 0; t < d; ++t) sum += vector[t] * vector[t];
  return std::sqrt(sum);
}

nlohmann::json row(const char* part) {
  return {{"part", part},
          {"cluster_size", nullptr},
          {"shrinkage", nullptr},
          {"model", nullptr},
          {"start", nullptr},
          {"counts_from", nullptr},
          {"seeds", nullptr},
          {"median_inertia_ratio", nullptr},
          {"largest_inertia_ratio", nullptr},
          {"share_worse", nullptr},
          {"mean_iterations", nullptr},
          {"mean_offset", nullptr}};
}

StudyOutput run(const StudyInput& input) {
  Parameters parameters(input);
  const auto sizes =
      parameters.integers("cluster_sizes", {1, 2, 5, 10, 100, 1000, 10000}, 1, 10000000);
  const auto n = parameters.integer("n", 1000, 2, 1000000);
  const auto k = parameters.integer("k", 5, 1, 1000);
  const auto seeds = parameters.integer("seeds", 100, 1, 100000);
  const auto iterations = parameters.integer("iterations", 100, 1, 100000);
  parameters.finish();
  if (k > n) throw InputError("eigen_start: k exceeds n");

  StudyOutput output;
  double bias_error = 0;
  for (const auto size : sizes) {
    const auto points =
        generated({{"generator", "blobs"}, {"n", size}, {"d", 2}, {"k", 1}, {"seed", 1}});
    const std::vector<std::int32_t> labels(static_cast<std::size_t>(size), 0);
    Table<double> right{1, 2, {0, 0}};
    auto printed = right;
    update_counting_from(0, points, labels, right);
    update_counting_from(1, points, labels, printed);
    const double shrinkage = 1 - norm(printed.row(0), 2) / norm(right.row(0), 2);
    const double model = 1 / static_cast<double>(size + 1);
    bias_error = std::max(bias_error, std::abs(shrinkage / model - 1));
    auto values = row("bias");
    values["cluster_size"] = size;
    values["shrinkage"] = shrinkage;
    values["model"] = model;
    output.rows.push_back(values);
  }

  struct Runs {
    std::vector<double> ratios;
    std::vector<double> iterations;
    std::vector<double> offsets;
  };
  Runs runs[2][2];  // start on the diagonal, counts from one
  for (std::int64_t seed = 1; seed <= seeds; ++seed) {
    const auto points =
        generated({{"generator", "blobs"}, {"n", n}, {"d", 2}, {"k", k}, {"seed", seed}});
    const double unit = spread(points);
    const CounterRandom rows(static_cast<std::uint64_t>(seed), 201);
    const CounterRandom values(static_cast<std::uint64_t>(seed), 202);
    double right = 0;
    for (const int diagonal : {0, 1}) {
      for (const int from_one : {0, 1}) {
        auto means = rows_of(points, drawn_rows(n, k, rows));
        if (diagonal == 1) {
          for (std::int64_t j = 0; j < k; ++j) {
            const double value = points.values[values.below(static_cast<std::uint64_t>(j), 2 * n)];
            means.row(j)[0] = means.row(j)[1] = value;
          }
        }
        std::vector<std::int32_t> before;
        std::int64_t iteration = 0;
        while (iteration < iterations) {
          ++iteration;
          auto labels = assigned(points, means);
          update_counting_from(from_one, points, labels, means);
          if (labels == before) break;
          before = std::move(labels);
        }
        const double value = inertia(points, means);
        if (diagonal == 0 && from_one == 0) right = value;
        auto mended = means;
        update(points, assigned(points, means), mended);
        double offset = 0;
        for (std::size_t at = 0; at < means.values.size(); ++at) {
          offset = std::max(offset, std::abs(means.values[at] - mended.values[at]));
        }
        auto& own = runs[diagonal][from_one];
        own.ratios.push_back(value / right);
        own.iterations.push_back(static_cast<double>(iteration));
        own.offsets.push_back(offset / unit);
      }
    }
  }
  for (const int diagonal : {0, 1}) {
    for (const int from_one : {0, 1}) {
      const auto& own = runs[diagonal][from_one];
      auto values = row("runs");
      values["start"] = diagonal == 1 ? "diagonal" : "points";
      values["counts_from"] = from_one;
      values["seeds"] = seeds;
      values["median_inertia_ratio"] = median(own.ratios);
      values["largest_inertia_ratio"] = largest(own.ratios);
      values["share_worse"] = share_above(own.ratios, 1.01);
      values["mean_iterations"] = mean(own.iterations);
      values["mean_offset"] = mean(own.offsets);
      output.rows.push_back(values);
    }
  }
  output.findings = {{"largest_error_of_the_model", bias_error},
                     {"share_worse_printed", share_above(runs[1][1].ratios, 1.01)},
                     {"share_worse_counts_alone", share_above(runs[0][1].ratios, 1.01)},
                     {"share_worse_diagonal_alone", share_above(runs[1][0].ratios, 1.01)},
                     {"largest_inertia_ratio_printed", largest(runs[1][1].ratios)}};
  output.notes = {
      "shrinkage: by how much a mean is drawn towards the origin; the model is 1 / (m + 1).",
      "share_worse: runs that end more than 1 % above a start from points, counted from zero.",
      "mean_offset: the largest distance of a coordinate from the mean of the points that the "
      "final "
      "centroid attracts, over the data's spread, averaged over the runs."};
  if (bias_error > 1e-6) output.wrong = "a mean is not drawn to the origin by 1 / (m + 1)";
  return output;
}

}  // namespace

KMEANS_STUDY(.name = "eigen_start",
             .summary = "first means on the diagonal and counts that start at one",
             .source = "goldsborough2017", .run = run);

}  // namespace kmeans::studies::eigen_start
