// SPDX-License-Identifier: Apache-2.0
//
// Question:  what does it cost that an empty cluster's centroid goes to the origin, or becomes NaN,
//            instead of staying where it is?
// Method:    many small sets of blobs, near the origin and away from it. First centroids are points
//            drawn with replacement, as the listings in NumPy and C++ draw them: where one is drawn
//            twice, ties leave a cluster empty. Next to it, points drawn without replacement.
//            Lloyd's algorithm to its end with each of three rules
// Source:    goldsborough2017, plain C++, NumPy and CUDA (origin); minnaar2019, zhihu2023 CPU
//            (NaN); zhihu2023 GPU (origin)
#include "experiments/studies/_common.h"

namespace kmeans::studies::empty_cluster {
namespace {

enum Rule { kKeeps, kOrigin, kNan, kRules };
constexpr const char* kRuleNames[] = {"keeps its centroid", "goes to the origin", "becomes NaN"};

struct End {
  bool ever_empty = false;
  double empty = 0;  // clusters, at the end
  double iterations = 0;
  double inertia = 0;
};

End follow(const Table<double>& points, Table<double> centroids, Rule rule, std::int64_t most) {
  End end;
  std::vector<std::int32_t> before;
  for (std::int64_t iteration = 1; iteration <= most; ++iteration) {
    auto labels = assigned(points, centroids);
    std::vector<bool> used(static_cast<std::size_t>(centroids.n));
    for (const auto label : labels) used[label] = true;
    end.empty = static_cast<double>(std::count(used.begin(), used.end(), false));
    end.ever_empty = end.ever_empty || end.empty > 0;
    end.iterations = static_cast<double>(iteration);
    if (labels == before) break;
    update(points, labels, centroids);
    for (std::int64_t j = 0; j < centroids.n && rule != kKeeps; ++j) {
      if (used[j]) continue;
      const double value = rule == kOrigin ? 0 : std::numeric_limits<double>::quiet_NaN();
      std::fill_n(centroids.row(j), points.d, value);
    }
    before = std::move(labels);
  }
  end.inertia = inertia(points, centroids);
  return end;
}

StudyOutput run(const StudyInput& input) {
  Parameters parameters(input);
  const auto n = parameters.integer("n", 100, 2, 1000000);
  const auto ks = parameters.integers("k", {5, 10, 20}, 1, 10000);
  const auto offsets = parameters.reals("offsets", {0, 100}, -1e12, 1e12);
  const auto seeds = parameters.integer("seeds", 300, 1, 1000000);
  const auto most = parameters.integer("iterations", 1000, 1, 1000000);
  parameters.finish();
  std::vector<std::pair<std::int64_t, bool>> starts;  // with each k: drawn with replacement?
  for (const auto k : ks) starts.insert(starts.end(), {{k, true}, {k, false}});

  if (*std::max_element(ks.begin(), ks.end()) > n) throw InputError("empty_cluster: k exceeds n");

  StudyOutput output;
  for (const double offset : offsets) {
    for (const auto& [k, replaced] : starts) {
      std::vector<double> ever[kRules];
      std::vector<double> empty[kRules];
      std::vector<double> inertias[kRules];
      std::vector<double> iterations[kRules];
      for (std::int64_t seed = 1; seed <= seeds; ++seed) {
        auto points =
            generated({{"generator", "blobs"}, {"n", n}, {"d", 2}, {"k", k}, {"seed", seed}});
        for (double& value : points.values) value += offset;
        const CounterRandom random(static_cast<std::uint64_t>(seed), 210);
        std::vector<std::int64_t> rows;
        for (std::int64_t j = 0; j < k && replaced; ++j) {
          rows.push_back(random.below(static_cast<std::uint64_t>(j), n));
        }
        if (!replaced) rows = drawn_rows(n, k, random);
        const auto start = rows_of(points, rows);
        for (int rule = 0; rule < kRules; ++rule) {
          const auto end = follow(points, start, static_cast<Rule>(rule), most);
          ever[rule].push_back(end.ever_empty ? 1 : 0);
          if (!end.ever_empty) continue;  // all rules are one then
          empty[rule].push_back(end.empty);
          inertias[rule].push_back(end.inertia);
          iterations[rule].push_back(end.iterations);
        }
      }
      for (int rule = 0; rule < kRules; ++rule) {
        const bool none = empty[rule].empty() || empty[kKeeps].empty();
        output.rows.push_back(
            {{"offset", offset},
             {"k", k},
             {"start", replaced ? "with replacement" : "without"},
             {"empty_cluster", kRuleNames[rule]},
             {"runs_with_one", mean(ever[rule])},
             {"mean_empty_at_the_end", none ? nlohmann::json() : nlohmann::json(mean(empty[rule]))},
             {"mean_iterations", none ? nlohmann::json() : nlohmann::json(mean(iterations[rule]))},
             {"inertia_ratio",
              none ? nlohmann::json()
                   : nlohmann::json(mean(inertias[rule]) / mean(inertias[kKeeps]))}});
      }
    }
  }
  output.findings = {{"runs", seeds}};
  output.notes = {
      "Empty clusters, iterations and inertia are means over the runs in which a cluster went "
      "empty; "
      "inertia is divided by that of the first rule.",
      "Which rule is best is no question of right and wrong, but the origin is no better a place "
      "than any other, and NaN is none."};
  return output;
}

}  // namespace

KMEANS_STUDY(.name = "empty_cluster",
             .summary = "an empty cluster's centroid stays, goes to the origin or becomes NaN",
             .source = "", .run = run);

}  // namespace kmeans::studies::empty_cluster
