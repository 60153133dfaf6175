// SPDX-License-Identifier: Apache-2.0
//
// Question:  does the initialisation end when too few points are far enough apart, or does it read
//            past the end of the data?
// Method:    over many seeds of the source's generator and for thresholds of the squared distance
//            from small to large, two walks over the points: as printed, where a point need not be
//            far from the last chosen one, and strict, as the text states the rule. Behind the last
//            point stand rows of zeros: once one of them is refused, so are all others, and a
//            program reads on until it is killed
// Source:    marinai2023, figure 2
#include "experiments/studies/_common.h"

namespace kmeans::studies::threshold_overrun {
namespace {

struct Walk {
  std::int64_t inside = 1;  // chosen in the data
  std::int64_t past = 0;    // chosen behind them
  bool ends = true;
};

Walk walk(const Table<double>& points, std::int64_t k, double threshold, bool printed) {
  const std::vector<double> zeros(static_cast<std::size_t>(points.d), 0.0);
  std::vector<const double*> chosen = {points.row(0)};
  Walk walk;
  for (std::int64_t place = 1; walk.inside + walk.past < k; ++place) {
    const bool in_data = place < points.n;
    const double* row = in_data ? points.row(place) : zeros.data();
    const bool far = std::all_of(
        chosen.begin(), chosen.end() - (printed ? 1 : 0),
        [&](const double* one) { return squared_distance(row, one, points.d) > threshold; });
    if (!far && !in_data) {
      walk.ends = false;
      break;
    }
    if (!far) continue;
    chosen.push_back(row);
    (in_data ? walk.inside : walk.past) += 1;
  }
  return walk;
}

StudyOutput run(const StudyInput& input) {
  Parameters parameters(input);
  const auto n = parameters.integer("n", 10000, 2, 10000000);
  const auto d = parameters.integer("d", 3, 1, 1000);
  const auto k = parameters.integer("k", 10, 2, 10000);
  const auto sigma = parameters.real("sigma", 10, 1e-3, 1e6);
  const auto seeds = parameters.integer("seeds", 20, 1, 100000);
  const auto multiples =
      parameters.reals("thresholds_in_sigma_squared",
                       {0, 1, 4, 16, 64, 100, 200, 400, 800, 1600, 3200, 6400}, 0, 1e12);
  parameters.finish();
  if (k > n) throw InputError("threshold_overrun: k exceeds n");

  std::vector<Table<double>> sets;
  for (std::int64_t seed = 1; seed <= seeds; ++seed) {
    sets.push_back(generated({{"generator", "globular-as-printed"},
                              {"n", n},
                              {"d", d},
                              {"k", k},
                              {"sigma", sigma},
                              {"seed", seed}}));
  }
  StudyOutput output;
  for (const bool printed : {true, false}) {
    json first_overrun;
    for (const double multiple : multiples) {
      double in_the_data = 0;
      double past_the_data = 0;
      double never = 0;
      std::int64_t fewest = k;
      for (const auto& points : sets) {
        const auto found = walk(points, k, multiple * sigma * sigma, printed);
        (!found.ends ? never : found.past > 0 ? past_the_data : in_the_data) += 1;
        fewest = std::min(fewest, found.inside);
      }
      const auto all = static_cast<double>(seeds);
      output.rows.push_back({{"rule", printed ? "as printed" : "strict"},
                             {"threshold_in_sigma_squared", multiple},
                             {"k", k},
                             {"data_sets", seeds},
                             {"ends_in_the_data", in_the_data / all},
                             {"ends_past_the_data", past_the_data / all},
                             {"never_ends", never / all},
                             {"fewest_found_in_the_data", fewest}});
      if (in_the_data < all && first_overrun.is_null()) first_overrun = multiple;
    }
    output.findings[std::string(printed ? "as_printed" : "strict") +
                    "_first_threshold_past_the_end_in_sigma_squared"] = first_overrun;
  }
  return output;
}

}  // namespace

KMEANS_STUDY(.name = "threshold_overrun",
             .summary = "steps past the end of the data in the initialisation",
             .source = "marinai2023", .run = run);

}  // namespace kmeans::studies::threshold_overrun
