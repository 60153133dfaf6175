// SPDX-License-Identifier: Apache-2.0
//
// A clustering followed iteration by iteration: what the `fit` command prints, and traces of experiments
// record.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "datasets/points.h"
#include "harness/communicator.h"
#include "harness/exact_step.h"
#include "harness/machine/ranks.h"
#include "harness/variant.h"
#include "harness/verify/session.h"

namespace kmeans {

/// When to stop before the given number of iterations: "" never, "labels" when none changes,
/// "movement:E" when the centroids' summed squared movement is at most E, "loss:E" when the loss
/// (sum of distances) changes by less than E. A tolerance is no text of these: its threshold goes by the points
/// (docs/exact-step.md).
struct StopRule {
  enum class Kind { never, labels, movement, loss, tolerance } kind = Kind::never;
  double threshold = 0;
};

/// Throws InputError naming the admitted forms.
StopRule parse_stop(const std::string& text);

/// What one iteration did, computed in float64 from what the variant hands out.
struct IterationRecord {
  std::int64_t iteration = 0;  ///< from 1
  double inertia = 0;   ///< sum of squared distances of the labels found in this iteration to the
                        ///< centroids they were found with
  double loss = 0;      ///< sum of distances, likewise
  double movement = 0;  ///< sum over centroids of their squared movement in this iteration
  double shift = 0;     ///< the same, as a tolerance adds it up: of each centroid, then of all
  std::int64_t changed =
      0;  ///< labels that differ from the iteration before, of points that count; n in
          ///< the first
  std::int64_t empty_clusters = 0;
  Progress own;  ///< what the variant itself says of this iteration; decides where a rule asks
};

nlohmann::json to_json(const IterationRecord& record);

/// Does the run end with this iteration? `before`: the iteration before it; null in the first.
bool stops(const StopRule& rule, const IterationRecord& now, const IterationRecord* before);

/// `known_largest`: the largest |coordinate|, where whoever read the points has looked.
template <class T>
Problem<T> make_problem(const Points& points, std::int64_t k, Precision precision, int threads,
                        const std::string& points_file,
                        std::optional<double> known_largest = std::nullopt) {
  Problem<T> problem;
  problem.shape = {points.n(), points.d(), k, precision};
  problem.points = points.data<T>();
  Communicator& ranks = process_ranks();
  problem.max_abs = ranks.size() > 1 && !points_file.empty()
                        ? survey_rows<T>(ranks, points_file, threads)
                    : known_largest ? static_cast<T>(*known_largest)
                                    : largest_abs(problem.points, points.n() * points.d(), threads);
  problem.threads = threads;
  problem.points_file = points_file;
  return problem;
}

/// Which iterations `seen` gets a record of. Where nobody looks at the others, their inertia and loss, which
/// cost more than many an iteration, are not computed.
enum class Seen { each, last };

// Follows one clustering. `seen` gets each record with the outcome it was computed from.
template <class T>
struct Followed {
  std::vector<IterationRecord> records;
  Outcome<T> outcome;
  double step_seconds = 0;  // of the steps alone
  double seconds = 0;       // with fetching, the records' sums, and `seen`
};

template <class T, class Visit>
Followed<T> follow(Session<T>& session, std::int64_t iterations, const StopRule& rule,
                   const Visit& seen, Seen which = Seen::each) {
  const Shape shape = session.problem().shape;
  Followed<T> followed;
  std::vector<T> starting = session.initial();
  std::vector<std::int32_t> labels_before;
  session.reset();
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t iteration = 1; iteration <= iterations; ++iteration) {
    followed.step_seconds += session.step(1);
    Outcome<T> outcome = session.fetch();
    for (const std::int32_t label : outcome.labels) {
      if (label < 0 || label >= shape.k) {
        throw std::runtime_error(session.traits().name + " gave the label " +
                                 std::to_string(label) + ", outside [0, k)");
      }
    }
    IterationRecord record;
    record.iteration = iteration;
    record.own = session.variant().progress();
    for (std::size_t c = 0; c < starting.size(); ++c) {
      const double moved =
          static_cast<double>(outcome.centroids[c]) - static_cast<double>(starting[c]);
      record.movement += moved * moved;
    }
    for (std::int64_t j = 0; j < shape.k; ++j) {
      record.shift += exact::squared_distance(starting.data() + j * shape.d,
                                              outcome.centroids.data() + j * shape.d, shape.d);
    }
    record.changed = shape.n;
    if (!labels_before.empty()) {
      record.changed = 0;
      for (std::int64_t i = 0; i < shape.n; ++i) {
        if (!session.problem().counted.counts(i)) continue;
        record.changed += outcome.labels[i] != labels_before[i];
      }
    }
    const IterationRecord* before = followed.records.empty() ? nullptr : &followed.records.back();
    const bool by_loss = rule.kind == StopRule::Kind::loss && !record.own.loss;
    const auto add_quality = [&] {
      const bool returned = session.traits().labels_of == LabelsOf::returned;
      const Quality quality =
          session.quality(returned ? outcome.centroids.data() : starting.data(), outcome);
      record.inertia = quality.inertia;
      record.loss = quality.loss;
      record.empty_clusters = quality.empty_clusters;
    };
    const bool looked_at = which == Seen::each || by_loss;
    if (looked_at) add_quality();
    const bool stop = stops(rule, record, before);
    const bool last = stop || iteration == iterations;
    if (last && !looked_at) add_quality();
    labels_before = outcome.labels;
    starting = outcome.centroids;
    if (last || which == Seen::each) seen(record, outcome);
    followed.records.push_back(record);
    followed.outcome = std::move(outcome);
    if (stop) break;
  }
  followed.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return followed;
}

}  // namespace kmeans
