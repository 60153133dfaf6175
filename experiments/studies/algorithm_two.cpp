// SPDX-License-Identifier: Apache-2.0
//
// Question:  what does Algorithm 2 compute as it is printed, where sums are added to the centroids
//            themselves, nothing is cleared, and no barrier follows the master's update?
// Method:    a simulation; no threads run. Each is played through in whole ticks, by the paper's
//            own operations: k(3d + 2) to label a point, d to add it, d to scale a centroid. Schedules
//            are invented: in every iteration a seed gives every thread a speed, 100 to 199 ticks
//            an operation, and a time below 10 000 ticks at which it leaves the barrier. A slave
//            labels with the centroids as they are at that tick; the master adds what the labels
//            are at that tick, compares them with those that it read before, and stops when none
//            has changed. Five readings: `as printed`; `cleared` sets centroids and counts to 0
//            before the first addition; `second barrier` lets slaves wait for the update, and
//            clears nothing; `own sums` has cleared arrays for sums, so that slaves see old
//            centroids or new ones; and `mended`, with the barrier and such arrays, which is
//            Lloyd's algorithm
// Source:    zechner2009, Algorithm 2 and section II-C
#include "experiments/studies/_common.h"

namespace kmeans::studies::algorithm_two {
namespace {

struct Reading {
  const char* name;
  bool clears = false;
  bool own_sums = false;  // centroids change when they are scaled, not while points are added
  bool barrier = false;   // after the update
};
constexpr Reading kReadings[] = {{"as printed", false, false, false},
                                 {"cleared", true, false, false},
                                 {"second barrier", false, false, true},
                                 {"own sums", true, true, false},
                                 {"mended", true, true, true}};

constexpr std::int64_t kSlowest = 100;  // ticks an operation takes: from here to below twice that
constexpr std::int64_t kWake = 10000;   // ticks within which the threads leave the barrier

struct Team {
  Team(const Table<double>& all, const Table<double>& start, std::int64_t threads)
      : points(all),
        centroids(start),
        sums(start),
        counts(static_cast<std::size_t>(start.n)),
        labels(static_cast<std::size_t>(all.n), -1),
        read(static_cast<std::size_t>(all.n), -1),
        t(threads) {}

  [[nodiscard]] std::int64_t first_of(std::int64_t thread) const { return points.n * thread / t; }

  const Table<double>& points;
  Table<double> centroids;
  Table<double> sums;  // of the readings that have them
  std::vector<double> counts;
  std::vector<std::int32_t> labels;
  std::vector<std::int32_t> read;  // by the master in its last update
  std::int64_t t;
};

void label(Team& team, std::int64_t i) {
  // Where no distance compares the search keeps the cluster that it began with.
  team.labels[i] = std::max(0, nearest(team.points.row(i), team.centroids));
}

void clear(Team& team, const Reading& reading) {
  if (!reading.clears) return;
  auto& sums = reading.own_sums ? team.sums : team.centroids;
  std::fill(sums.values.begin(), sums.values.end(), 0.0);
  std::fill(team.counts.begin(), team.counts.end(), 0.0);
}

/// Adds a point to its cluster; true where its label is another than in the last update.
bool add(Team& team, const Reading& reading, std::int64_t i) {
  const auto j = team.labels[i];
  auto& sums = reading.own_sums ? team.sums : team.centroids;
  for (std::int64_t t = 0; t < sums.d; ++t) sums.row(j)[t] += team.points.row(i)[t];
  team.counts[j] += 1;
  const bool changed = j != team.read[i];
  team.read[i] = j;
  return changed;
}

void scale(Team& team, const Reading& reading, std::int64_t j) {
  if (reading.own_sums && team.counts[j] == 0) return;  // an empty cluster keeps its centroid
  const auto& sums = reading.own_sums ? team.sums : team.centroids;
  for (std::int64_t t = 0; t < sums.d; ++t) {
    team.centroids.row(j)[t] = sums.row(j)[t] / team.counts[j];
  }
}

/// From the barrier after a labelling stage to the one after the next. True when no label changed.
bool update_and_label(Team& team, const Reading& reading, const CounterRandom& random) {
  const std::int64_t n = team.points.n;
  const std::int64_t d = team.points.d;
  const std::int64_t k = team.centroids.n;
  struct Thread {
    std::int64_t at = 0;    // tick at which its next step is done
    std::int64_t next = 0;  // point
    std::int64_t end = 0;
    std::int64_t speed = 0;
  };
  std::vector<Thread> threads(static_cast<std::size_t>(team.t));
  for (std::int64_t p = 0; p < team.t; ++p) {
    const auto number = 2 * static_cast<std::uint64_t>(p);
    const std::int64_t speed = kSlowest + random.below(number, kSlowest);
    threads[p] = {random.below(number + 1, kWake), team.first_of(p), team.first_of(p + 1), speed};
  }
  const std::int64_t label_cost = k * (3 * d + 2);
  const auto slaves_until = [&](std::int64_t tick) {  // all steps done before the master's
    for (;;) {
      std::int64_t first = 0;
      for (std::int64_t p = 1; p < team.t; ++p) {
        const auto& thread = threads[p];
        if (thread.next == thread.end || thread.at + label_cost * thread.speed >= tick) continue;
        if (first == 0 || thread.at + label_cost * thread.speed <
                              threads[first].at + label_cost * threads[first].speed) {
          first = p;
        }
      }
      if (first == 0) return;
      threads[first].at += label_cost * threads[first].speed;
      label(team, threads[first].next++);
    }
  };

  auto& master = threads[0];
  bool changed = false;
  clear(team, reading);
  for (std::int64_t i = 0; i < n; ++i) {
    master.at += d * master.speed;
    if (!reading.barrier) slaves_until(master.at);
    changed = add(team, reading, i) || changed;
  }
  for (std::int64_t j = 0; j < k; ++j) {
    master.at += d * master.speed;
    if (!reading.barrier) slaves_until(master.at);
    scale(team, reading, j);
  }
  if (!changed) return true;
  for (auto& thread : threads) {  // the centroids stand still from here on
    for (; thread.next < thread.end; ++thread.next) label(team, thread.next);
  }
  return false;
}

struct End {
  std::int64_t iterations = 0;
  bool stopped = false;
  Table<double> first;  // centroids after one update
  Table<double> last;
  std::vector<std::int32_t> labels;
};

End follow(const Table<double>& points, const Table<double>& start, const Reading& reading,
           std::int64_t threads, std::int64_t seed, std::int64_t most) {
  Team team(points, start, threads);
  for (std::int64_t i = 0; i < points.n; ++i) label(team, i);
  End end;
  while (!end.stopped && end.iterations < most) {
    end.iterations += 1;
    end.stopped =
        update_and_label(team, reading,
                         CounterRandom(static_cast<std::uint64_t>(seed),
                                       static_cast<std::uint64_t>(3000 + end.iterations)));
    if (end.iterations == 1) end.first = team.centroids;
  }
  end.last = team.centroids;
  end.labels = team.labels;
  return end;
}

/// The largest difference of two coordinates; infinite where one is not a number.
double largest_difference(const Table<double>& a, const Table<double>& b) {
  double most = 0;
  for (std::size_t at = 0; at < a.values.size(); ++at) {
    const double difference = std::abs(a.values[at] - b.values[at]);
    most = std::isfinite(difference) ? std::max(most, difference)
                                     : std::numeric_limits<double>::infinity();
  }
  return most;
}

/// Points, first centroids, and what Lloyd's algorithm makes of them.
struct Problem {
  Problem(std::int64_t n, std::int64_t d, std::int64_t k, std::int64_t seed, std::int64_t most)
      : points(generated({{"generator", "blobs"}, {"n", n}, {"d", d}, {"k", k}, {"seed", seed}})),
        start(rows_of(points,
                      drawn_rows(n, k, CounterRandom(static_cast<std::uint64_t>(seed), 213)))),
        first(start),
        last(start),
        unit(spread(points)) {
    update(points, assigned(points, first), first);
    iterations = settle(points, last, most).iterations;
    labels = assigned(points, last);
    right_inertia = inertia(points, last);
  }

  Table<double> points;
  Table<double> start;
  Table<double> first;  // centroids after one update
  Table<double> last;   // when no label changes
  double unit;
  std::int64_t iterations = 0;
  std::vector<std::int32_t> labels;
  double right_inertia = 0;
};

StudyOutput run(const StudyInput& input) {
  Parameters parameters(input);
  const auto n = parameters.integer("n", 1000, 2, 1000000);
  const auto d = parameters.integer("d", 2, 1, 1000);
  const auto k = parameters.integer("k", 5, 1, 1000);
  const auto thread_counts = parameters.integers("threads", {1, 2, 4, 16, 64}, 1, 10000);
  const auto runs = parameters.integer("runs", 100, 1, 10000);
  const auto most = parameters.integer("iterations", 50, 1, 100000);
  parameters.finish();
  if (k > n) throw InputError("algorithm_two: k exceeds n");

  std::vector<Problem> problems;
  for (std::int64_t seed = 1; seed <= runs; ++seed) problems.emplace_back(n, d, k, seed, most);
  const auto share = [&](double count) { return count / static_cast<double>(runs); };

  StudyOutput output;
  double most_right = 0;
  for (const auto& reading : kReadings) {
    for (const auto threads : thread_counts) {
      std::vector<double> errors;
      std::vector<double> iterations;
      std::vector<double> right_iterations;
      std::vector<double> labels_that_differ;
      std::vector<double> ratios;
      double stopped = 0;
      double right_runs = 0;
      for (std::int64_t seed = 1; seed <= runs; ++seed) {
        const auto& right = problems[seed - 1];
        const auto end = follow(right.points, right.start, reading, threads, seed, most);
        std::int64_t differ = 0;
        for (std::int64_t i = 0; i < n; ++i) differ += end.labels[i] != right.labels[i] ? 1 : 0;
        errors.push_back(largest_difference(end.first, right.first) / right.unit);
        iterations.push_back(static_cast<double>(end.iterations));
        right_iterations.push_back(static_cast<double>(right.iterations));
        labels_that_differ.push_back(static_cast<double>(differ) / static_cast<double>(n));
        ratios.push_back(inertia(right.points, end.last) / right.right_inertia);
        stopped += end.stopped ? 1 : 0;
        const bool same = differ == 0 && end.iterations == right.iterations &&
                          largest_difference(end.last, right.last) < 1e-9 * right.unit;
        right_runs += same ? 1 : 0;
        if (reading.own_sums && reading.barrier && !same) {
          output.wrong = "with sums of their own and a second barrier it is Lloyd's algorithm";
        }
      }
      if (&reading == &kReadings[0]) most_right = std::max(most_right, share(right_runs));
      output.rows.push_back({{"reading", reading.name},
                             {"threads", threads},
                             {"runs", runs},
                             {"right_runs", share(right_runs)},
                             {"median_first_error", number_or_null(median(errors))},
                             {"largest_first_error", number_or_null(largest(errors))},
                             {"runs_that_stop", share(stopped)},
                             {"mean_iterations", mean(iterations)},
                             {"mean_iterations_right", mean(right_iterations)},
                             {"labels_that_differ", mean(labels_that_differ)},
                             {"median_inertia_ratio", number_or_null(median(ratios))},
                             {"largest_inertia_ratio", number_or_null(largest(ratios))}});
    }
  }
  output.findings = {{"largest_share_of_right_runs_as_printed", most_right}};
  output.notes = {
      "A run is right when iterations, labels and centroids are those of Lloyd's algorithm from "
      "the same first centroids. First errors: of a centroid after one update, over the spread.",
      "Counts are taken to be 0 at first; the paper does not say so. A run that does not stop "
      "has the most iterations that were allowed.",
      "Simulated, not measured: in every iteration a thread takes 100 to 199 ticks an operation "
      "and leaves the barrier within 10 000 ticks, at random. These times are invented; those of a "
      "machine are not known, and any order is allowed."};
  return output;
}

}  // namespace

KMEANS_STUDY(.name = "algorithm_two",
             .summary =
                 "simulated: sums that are never cleared, and threads that label while the master "
                 "updates the centroids",
             .source = "zechner2009", .run = run);

}  // namespace kmeans::studies::algorithm_two
