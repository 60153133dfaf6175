// SPDX-License-Identifier: Apache-2.0
//
// Question:  how far past the end of the data does the printed initialisation read when too few
//            points are far enough apart?
// Method:    the printed walk over the points of the source's generator, for thresholds of the
//            squared distance from small to large. Behind the last point stands a guard of rows of
//            zeros; every step into it is counted. The printed walk has no end but the k-th
//            centroid: where it reaches the guard's end, a program goes on until it is killed
// Source:    marinai2023, figure 2
#include "experiments/studies/_common.h"

namespace kmeans::studies::threshold_overrun {
namespace {

StudyOutput run(const StudyInput& input) {
  Parameters parameters(input);
  const auto n = parameters.integer("n", 10000, 2, 10000000);
  const auto d = parameters.integer("d", 3, 1, 1000);
  const auto k = parameters.integer("k", 10, 2, 10000);
  const auto sigma = parameters.real("sigma", 10, 1e-3, 1e6);
  const auto seed = parameters.integer("seed", 1, 0, 1 << 30);
  const auto guard = parameters.integer("guard_rows", 1000000, 1, 1000000000);
  const auto multiples =
      parameters.reals("thresholds_in_sigma_squared",
                       {0, 1, 4, 16, 64, 100, 200, 400, 800, 1600, 3200, 6400}, 0, 1e12);
  parameters.finish();
  if (k > n) throw InputError("threshold_overrun: k exceeds n");

  const auto points = generated(
      {{"generator", "globular"}, {"n", n}, {"d", d}, {"k", k}, {"sigma", sigma}, {"seed", seed}});
  const std::vector<double> zeros(static_cast<std::size_t>(d), 0.0);
  StudyOutput output;
  nlohmann::json first_overrun;
  std::int64_t most_found = 0;
  for (const double multiple : multiples) {
    const double threshold = multiple * sigma * sigma;
    std::vector<const double*> chosen = {points.row(0)};
    std::int64_t found_inside = 1;
    std::int64_t last_row = 0;
    std::int64_t place = 1;
    for (; static_cast<std::int64_t>(chosen.size()) < k && place < n + guard; ++place) {
      const double* row = place < n ? points.row(place) : zeros.data();
      const bool far = std::all_of(chosen.begin(), chosen.end(), [&](const double* one) {
        return squared_distance(row, one, d) > threshold;
      });
      if (!far) continue;
      chosen.push_back(row);
      if (place < n) {
        found_inside += 1;
        last_row = place;
      }
    }
    const std::int64_t steps = std::max<std::int64_t>(0, place - n);
    const bool ends = static_cast<std::int64_t>(chosen.size()) == k;
    output.rows.push_back(
        {{"threshold_in_sigma_squared", multiple},
         {"threshold", threshold},
         {"k", k},
         {"found_in_the_data", found_inside},
         {"last_row", last_row},
         {"steps_past_the_end", steps},
         {"taken_past_the_end", static_cast<std::int64_t>(chosen.size()) - found_inside},
         {"outcome", !ends        ? "runs on"
                     : steps == 0 ? "ends in the data"
                                  : "ends past the data"}});
    if (steps > 0 && first_overrun.is_null()) first_overrun = multiple;
    most_found = std::max(most_found, found_inside);
  }
  output.findings = {{"first_threshold_past_the_end_in_sigma_squared", first_overrun},
                     {"guard_rows", guard},
                     {"most_found", most_found}};
  output.notes = {"Clusters of the generator are more than 100 sigma squared apart."};
  return output;
}

}  // namespace

KMEANS_STUDY(.name = "threshold_overrun",
             .summary = "steps past the end of the data in the printed initialisation",
             .source = "marinai2023", .run = run);

}  // namespace kmeans::studies::threshold_overrun
