// SPDX-License-Identifier: Apache-2.0
//
// Question:  what does the article's GPU program compute beyond the sizes that its launches cover?
// Method:    its limits emulated in float64, so that nothing else differs: 128 features enter a
//            distance and are added up; 1024 coordinates of centroids and 128 counts are cleared,
//            the rest keep what they had; streams are made into an array of 20. First iteration
//            and, after some, inertia against the right ones from the same start
// Source:    zhihu2023, sections 4.2 to 4.4
#include "experiments/studies/_common.h"

namespace kmeans::studies::silent_limits {
namespace {

constexpr std::int64_t kFeatures = 128;
constexpr std::int64_t kClearedCounts = 128;
constexpr std::int64_t kClearedCoordinates = 1024;
constexpr std::int64_t kStreams = 20;

struct State {
  Table<double> centroids;
  std::vector<double> counts;  // k
};

std::vector<std::int32_t> assign_as_printed(const Table<double>& points,
                                            const Table<double>& centroids) {
  const std::int64_t features = std::min(points.d, kFeatures);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(points.n));
  for (std::int64_t i = 0; i < points.n; ++i) {
    double smallest = std::numeric_limits<double>::infinity();
    for (std::int64_t j = 0; j < centroids.n; ++j) {
      const double distance = squared_distance(points.row(i), centroids.row(j), features);
      if (distance < smallest) {
        smallest = distance;
        labels[i] = static_cast<std::int32_t>(j);
      }
    }
  }
  return labels;
}

void update_as_printed(const Table<double>& points, const std::vector<std::int32_t>& labels,
                       State& state) {
  std::fill_n(state.counts.begin(), std::min(state.centroids.n, kClearedCounts), 0.0);
  auto& values = state.centroids.values;
  std::fill_n(values.begin(),
              std::min<std::int64_t>(static_cast<std::int64_t>(values.size()), kClearedCoordinates),
              0.0);
  for (const auto label : labels) state.counts[label] += 1;
  for (std::int64_t i = 0; i < points.n; ++i) {
    for (std::int64_t t = 0; t < std::min(points.d, kFeatures); ++t) {
      state.centroids.row(labels[i])[t] += points.row(i)[t] / state.counts[labels[i]];
    }
  }
}

StudyOutput run(const StudyInput& input) {
  Parameters parameters(input);
  const auto n = parameters.integer("n", 2000, 2, 10000000);
  const auto ds = parameters.integers("d", {100, 128, 129, 256, 512}, 1, 100000);
  const auto ks = parameters.integers("k", {2, 4, 10, 20, 21, 200}, 1, 100000);
  const auto seed = parameters.integer("seed", 1, 0, 1 << 30);
  const auto iterations = parameters.integer("iterations", 5, 1, 10000);
  parameters.finish();

  StudyOutput output;
  double inside = 0;
  double most_wrong = 0;
  double largest_ratio = 0;
  for (const auto k : ks) {
    if (k > n) throw InputError("silent_limits: k exceeds n");
    for (const auto d : ds) {
      const auto points =
          generated({{"generator", "gaussian"}, {"n", n}, {"d", d}, {"seed", seed}});
      const auto start =
          rows_of(points, drawn_rows(n, k, CounterRandom(static_cast<std::uint64_t>(seed), 212)));
      auto right = start;
      State printed{start, std::vector<double>(static_cast<std::size_t>(k))};
      const auto labels = assigned(points, right);
      const auto printed_labels = assign_as_printed(points, printed.centroids);
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < n; ++i) wrong += labels[i] != printed_labels[i] ? 1 : 0;
      update(points, labels, right);
      update_as_printed(points, printed_labels, printed);
      for (std::int64_t t = 1; t < iterations; ++t) {
        update(points, assigned(points, right), right);
        update_as_printed(points, assign_as_printed(points, printed.centroids), printed);
      }
      const double share = static_cast<double>(wrong) / static_cast<double>(n);
      const double ratio = inertia(points, printed.centroids) / inertia(points, right);
      const bool fits = d <= kFeatures && k <= kClearedCounts && k * d <= kClearedCoordinates;
      const auto beyond = [](std::int64_t value, std::int64_t limit) {
        return std::max<std::int64_t>(0, value - limit);
      };
      output.rows.push_back({{"d", d},
                             {"k", k},
                             {"fits", fits && k <= kStreams},
                             {"features_left_out", beyond(d, kFeatures)},
                             {"coordinates_not_cleared", beyond(k * d, kClearedCoordinates)},
                             {"counts_not_cleared", beyond(k, kClearedCounts)},
                             {"streams_past_the_array", beyond(k, kStreams)},
                             {"wrong_labels", share},
                             {"inertia_ratio", ratio}});
      if (fits) {
        inside = std::max({inside, share, std::abs(ratio - 1)});
      } else {
        most_wrong = std::max(most_wrong, share);
        largest_ratio = std::max(largest_ratio, ratio);
      }
    }
  }
  // Sizes in bytes are kept in an int: negative from 2^31 on, which the allocation refuses, and
  // small again from 2^32 on, which nobody notices. So is the index of a coordinate, in the CPU
  // class as well.
  const std::int64_t features = 100;
  output.findings = {
      {"largest_deviation_inside_the_limits", inside},
      {"largest_share_of_wrong_labels", most_wrong},
      {"largest_inertia_ratio", largest_ratio},
      {"first_n_index_overflows_at_100_features", (std::int64_t{1} << 31) / features + 1},
      {"first_n_refused_at_100_features",
       ((std::int64_t{1} << 31) + 4 * features - 1) / (4 * features)},
      {"first_n_allocated_too_small_at_100_features",
       ((std::int64_t{1} << 32) + 4 * features - 1) / (4 * features)}};
  output.notes = {
      "wrong_labels: in the first iteration. inertia_ratio: after all of them, over all features.",
      "Streams past the array overwrite what lies behind it; that has no emulation, and such rows "
      "show the other limits alone."};
  if (inside > 1e-9) output.wrong = "labels or inertia differ inside the limits";
  return output;
}

}  // namespace

KMEANS_STUDY(.name = "silent_limits",
             .summary = "labels and inertia beyond the sizes that the article's launches cover",
             .source = "zhihu2023", .run = run);

}  // namespace kmeans::studies::silent_limits
