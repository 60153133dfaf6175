// SPDX-License-Identifier: Apache-2.0
//
// Question:  what are the centroids when one block divides before the others have added?
// Method:    a simulation; no GPU runs. Schedules are invented, in whole ticks: at most so many
//            blocks are resident, the next one starts when one ends, each adds its sums 100 to 199
//            ticks after its start. Only threads with a number below k divide, and these are in
//            block 0: it divides 5 ticks after it has added. What is added later comes on top of a
//            mean. Many seeded schedules of the same update; then of the same number of iterations.
//            `cleared`: sums and counts start from 0, as in the program that the article links;
//            `as shown`: from the old centroids and the old counts, as the listing alone would
// Source:    minnaar2019, kMeansCentroidUpdate; cuda_block_serial_as_printed runs it on a GPU
#include <queue>

#include "experiments/studies/_common.h"

namespace kmeans::studies::block_race {
namespace {

constexpr std::int64_t kShortest = 100;  // ticks until a block has added, to below twice that
constexpr std::int64_t kDivision = 5;    // ticks from there to its division

/// Which blocks have added when block 0 divides.
std::vector<bool> added_before_division(std::int64_t blocks, std::int64_t resident,
                                        const CounterRandom& random) {
  std::vector<std::int64_t> added(static_cast<std::size_t>(blocks));
  std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>> ends;
  for (std::int64_t block = 0; block < blocks; ++block) {
    std::int64_t start = 0;
    if (block >= resident) {
      start = ends.top();
      ends.pop();
    }
    added[block] = start + kShortest + random.below(static_cast<std::uint64_t>(block), kShortest);
    ends.push(added[block] + kDivision);
  }
  std::vector<bool> before(static_cast<std::size_t>(blocks));
  for (std::int64_t block = 0; block < blocks; ++block) {
    before[block] = added[block] <= added[0] + kDivision;
  }
  return before;
}

struct Race {
  std::vector<double> centroids;  // k
  std::vector<double> counts;     // k
};

/// One update under a schedule.
void update_in_blocks(const Table<double>& points, std::int64_t threads,
                      const std::vector<bool>& before, bool cleared, Race& race) {
  const auto k = static_cast<std::int64_t>(race.centroids.size());
  const Table<double> centroids{k, 1, race.centroids};
  auto labels = assigned(points, centroids);
  if (cleared) {
    std::fill(race.centroids.begin(), race.centroids.end(), 0.0);
    std::fill(race.counts.begin(), race.counts.end(), 0.0);
  }
  std::vector<double> late(race.centroids.size());
  std::vector<double> late_counts(race.centroids.size());
  for (std::int64_t i = 0; i < points.n; ++i) {
    if (labels[i] < 0) labels[i] = 0;  // all centroids are NaN: the printed search keeps cluster 0
    const bool in_time = before[i / threads];
    (in_time ? race.centroids : late)[labels[i]] += points.values[i];
    (in_time ? race.counts : late_counts)[labels[i]] += 1;
  }
  for (std::int64_t j = 0; j < k; ++j) {
    race.centroids[j] = race.centroids[j] / race.counts[j] + late[j];
    race.counts[j] += late_counts[j];
  }
}

StudyOutput run(const StudyInput& input) {
  Parameters parameters(input);
  const auto threads = parameters.integer("threads_per_block", 32, 1, 1024);
  const auto block_counts = parameters.integers("blocks", {1, 2, 4, 16, 64, 256}, 1, 100000);
  const auto residents = parameters.integers("resident", {1, 8, 64, 1024}, 1, 100000);
  const auto k = parameters.integer("k", 5, 1, 1000);
  const auto seed = parameters.integer("seed", 1, 0, 1 << 30);
  const auto schedules = parameters.integer("schedules", 100, 1, 100000);
  const auto iterations = parameters.integer("iterations", 5, 1, 10000);
  parameters.finish();

  StudyOutput output;
  double one_block = 0;
  double smallest_share = 1;
  double largest_error = 0;
  for (const bool cleared : {true, false}) {
    for (const auto blocks : block_counts) {
      const std::int64_t n = blocks * threads;
      if (k > n || k > threads) throw InputError("block_race: k exceeds a block's threads");
      const auto points =
          generated({{"generator", "line"}, {"n", n}, {"d", 1}, {"k", k}, {"seed", seed}});
      const double unit = spread(points);
      const auto start =
          rows_of(points, drawn_rows(n, k, CounterRandom(static_cast<std::uint64_t>(seed), 209)));
      auto right = start;
      update(points, assigned(points, right), right);
      const auto after_one = right;
      for (std::int64_t t = 1; t < iterations; ++t) update(points, assigned(points, right), right);
      const double right_inertia = inertia(points, right);
      for (const auto resident : residents) {
        double right_schedules = 0;
        double with_nan = 0;
        std::vector<double> errors;
        std::vector<double> ratios;
        std::vector<double> smallest(static_cast<std::size_t>(k),
                                     std::numeric_limits<double>::infinity());
        std::vector<double> most(static_cast<std::size_t>(k),
                                 -std::numeric_limits<double>::infinity());
        double in_time = 0;
        for (std::int64_t schedule = 0; schedule < schedules; ++schedule) {
          Race race{start.values, std::vector<double>(static_cast<std::size_t>(k))};
          double error = 0;
          bool lost = false;
          for (std::int64_t t = 0; t < iterations; ++t) {
            const CounterRandom random(
                static_cast<std::uint64_t>(seed),
                static_cast<std::uint64_t>(1000 + schedule * iterations + t));
            const auto before = added_before_division(blocks, resident, random);
            if (t == 0) {
              in_time += static_cast<double>(std::count(before.begin(), before.end(), true));
            }
            update_in_blocks(points, threads, before, cleared, race);
            if (t > 0) continue;
            for (std::int64_t j = 0; j < k; ++j) {
              if (std::isnan(race.centroids[j])) {  // 0 / 0: no point was added in time
                lost = true;
                continue;
              }
              error = std::max(error, std::abs(race.centroids[j] - after_one.values[j]) / unit);
              smallest[j] = std::min(smallest[j], race.centroids[j]);
              most[j] = std::max(most[j], race.centroids[j]);
            }
          }
          right_schedules += error < 1e-9 && !lost ? 1 : 0;
          with_nan += lost ? 1 : 0;
          errors.push_back(error);
          ratios.push_back(inertia(points, Table<double>{k, 1, race.centroids}) / right_inertia);
        }
        double range = 0;
        for (std::int64_t j = 0; j < k; ++j) range = std::max(range, most[j] - smallest[j]);
        const double share = right_schedules / static_cast<double>(schedules);
        output.rows.push_back(
            {{"start", cleared ? "cleared" : "as shown"},
             {"blocks", blocks},
             {"resident", resident},
             {"n", n},
             {"schedules", schedules},
             {"blocks_in_time", in_time / static_cast<double>(schedules * blocks)},
             {"right_schedules", share},
             {"schedules_with_nan", with_nan / static_cast<double>(schedules)},
             {"median_error", number_or_null(median(errors))},
             {"largest_error", number_or_null(largest(errors))},
             {"range_over_schedules", number_or_null(range / unit)},
             {"median_inertia_ratio", number_or_null(median(ratios))}});
        if (cleared && blocks == 1) one_block = std::max(one_block, largest(errors));
        if (cleared && blocks > 1) {
          smallest_share = std::min(smallest_share, share);
          largest_error = std::max(largest_error, largest(errors));
        }
      }
    }
  }
  output.findings = {{"largest_error_one_block", one_block},
                     {"smallest_share_of_right_schedules", smallest_share},
                     {"largest_error", number_or_null(largest_error)}};
  output.notes = {
      "Errors: of a centroid after one update, over the data's spread; inertia: after all "
      "iterations.",
      "Findings are those of cleared sums: the program that the article links clears them in "
      "every iteration.",
      "Simulated, not measured: a block adds 100 to 199 ticks after its start, at random, and "
      "block 0 divides 5 ticks later. These times are invented; a GPU's are not known, and any "
      "order is allowed."};
  if (one_block > 1e-9) output.wrong = "with one block the centroids must be right";
  return output;
}

}  // namespace

KMEANS_STUDY(.name = "block_race",
             .summary = "simulated: centroids that one block divides before the others have added",
             .source = "minnaar2019", .run = run);

}  // namespace kmeans::studies::block_race
