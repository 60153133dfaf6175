// SPDX-License-Identifier: Apache-2.0
//
// The studies of the sources' errata, on sizes where the answer is known beforehand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "datasets/dataset.h"
#include "harness/study.h"
#include "harness/support/errors.h"

namespace kmeans {
namespace {

using nlohmann::json;

StudyOutput run_study(const std::string& name, const json& parameters, int threads = 2) {
  StudyInput input;
  input.parameters = parameters;
  input.threads = threads;
  return require_study(name).run(input);
}

/// With data of its own: n x d points and k x d first centroids.
StudyOutput run_study(const std::string& name, const json& parameters, std::int64_t d,
                      const std::vector<float>& points, const std::vector<float>& centroids,
                      int threads = 2) {
  StudyInput input;
  input.parameters = parameters;
  input.threads = threads;
  input.d = d;
  input.n = static_cast<std::int64_t>(points.size()) / d;
  input.k = static_cast<std::int64_t>(centroids.size()) / d;
  input.points = points.data();
  input.centroids = centroids.data();
  return require_study(name).run(input);
}

/// The rows that have all values of `match`.
std::vector<json> rows_with(const StudyOutput& output, const json& match) {
  std::vector<json> found;
  for (const auto& row : output.rows) {
    bool same = true;
    for (const auto& [key, value] : match.items()) same = same && row.at(key) == value;
    if (same) found.push_back(row);
  }
  return found;
}

json only_row(const StudyOutput& output, const json& match) {
  const auto found = rows_with(output, match);
  EXPECT_EQ(found.size(), 1U) << match;
  return found.empty() ? json() : found.front();
}

const std::vector<std::string>& errata_studies() {
  static const std::vector<std::string> names = {
      "algorithm_two", "block_race",    "chunk_index",    "eigen_start",     "empty_cluster",
      "fine_coarse",   "float_loss",    "label_in_float", "operation_count", "printed_start",
      "running_sums",  "silent_limits", "split_shuffle",  "stale_centroid",  "threshold_overrun",
      "ties",          "zero_count"};
  return names;
}

/// Small parameters, so that all studies together take a moment.
json small(const std::string& name) {
  if (name == "algorithm_two")
    return {{"n", 60}, {"k", 3}, {"threads", {1, 4}}, {"runs", 4}, {"iterations", 20}};
  if (name == "chunk_index") return {{"n", {500}}, {"blocks", {1, 8}}};
  if (name == "block_race") return {{"blocks", {1, 4}}, {"schedules", 5}, {"iterations", 2}};
  if (name == "eigen_start") return {{"n", 60}, {"seeds", 3}, {"cluster_sizes", {1, 9}}};
  if (name == "empty_cluster") return {{"n", 30}, {"k", {5}}, {"seeds", 20}};
  if (name == "fine_coarse")
    return {{"n", {1000, 3000}}, {"k", {4}}, {"seeds", 1}, {"iterations", 2}};
  if (name == "label_in_float") return {{"most_clusters", 1000}};
  if (name == "operation_count") return {{"n", {50}}, {"d", {3}}, {"k", {4}}};
  if (name == "printed_start") return {{"n", 200}, {"k", {3}}, {"sigma", {10}}, {"seeds", 3}};
  if (name == "running_sums") return {{"n", 200}, {"k", {4}}, {"seeds", 2}, {"tolerances", {0.1}}};
  if (name == "silent_limits") return {{"n", 50}, {"d", {4, 130}}, {"k", {3}}};
  if (name == "split_shuffle") return {{"n", 60}, {"k", {3}}, {"seeds", 3}};
  if (name == "stale_centroid") return {{"n", 40}, {"k", {10}}, {"runs", 5}};
  if (name == "threshold_overrun") return {{"n", 100}, {"seeds", 3}};
  if (name == "ties") return {{"n", 100}, {"k", 4}};
  if (name == "zero_count") return {{"n", 100}, {"iterations", 2}};
  return json::object();
}

StudyOutput run_small(const std::string& name, int threads) {
  if (name != "float_loss") return run_study(name, small(name), threads);
  std::vector<float> points;
  for (int i = 0; i < 600; ++i) points.push_back(static_cast<float>((i * 37) % 101) / 7);
  return run_study(name, {{"iterations", 5}}, 2, points, {0, 0, 10, 10}, threads);
}

TEST(Studies, AreThereWithASummaryAndRefuseWhatTheyDoNotKnow) {
  for (const auto& name : errata_studies()) {
    SCOPED_TRACE(name);
    const auto& study = require_study(name);
    EXPECT_FALSE(study.summary.empty());
    EXPECT_EQ(study.needs_data, name == "float_loss");
    if (study.needs_data) continue;
    EXPECT_THROW(run_study(name, {{"no such parameter", 1}}), InputError);
    EXPECT_THROW(run_study(name, json::array({1})), InputError);
  }
  EXPECT_THROW(run_study("zero_count", {{"n", "many"}}), InputError);
  EXPECT_THROW(run_study("zero_count", {{"n", 1}}), InputError);
  EXPECT_THROW(run_study("zero_count", {{"zeros", json::array()}}), InputError);
}

TEST(Studies, GiveTheSameFlatRowsWithAnyNumberOfThreads) {
  for (const auto& name : errata_studies()) {
    SCOPED_TRACE(name);
    const auto one = run_small(name, 1);
    const auto three = run_small(name, 3);
    EXPECT_EQ(one.rows, three.rows);
    EXPECT_EQ(one.findings, three.findings);
    EXPECT_EQ(one.wrong, "");
    ASSERT_FALSE(one.rows.empty());
    for (const auto& row : one.rows) {
      ASSERT_EQ(row.size(), one.rows.front().size());
      for (const auto& [key, value] : row.items()) {
        EXPECT_TRUE(one.rows.front().contains(key)) << key;
        EXPECT_FALSE(value.is_structured()) << key;
        EXPECT_TRUE(!value.is_number() || std::isfinite(value.get<double>())) << key;
      }
    }
  }
}

// Distances from the centroid 0 are the points themselves: 2^24, then ones that one float cannot
// add.
TEST(FloatLoss, OneFloatLosesWhatOtherWaysKeep) {
  std::vector<float> points = {16777216.0F / 4096};
  // Scaled so that no distance exceeds what the printed search admits (10^4).
  for (int i = 0; i < 64; ++i) points.push_back(1.0F / 4096);
  const auto output =
      run_study("float_loss", {{"iterations", 1}, {"trajectories", {"cpu"}}}, 1, points, {0.0F});
  const auto loss = [&](const char* way) {
    return only_row(output, {{"way", way}})["loss"].get<double>() * 4096;
  };
  EXPECT_EQ(loss("double"), 16777216 + 64);
  EXPECT_EQ(loss("one float"), 16777216);  // every 1 is half a unit, and rounds to even
  EXPECT_EQ(loss("Kahan"), 16777216 + 64);
  // Pairs: 2^24 meets a sum of ones that is 32 long at the last step.
  EXPECT_GT(loss("pairwise"), 16777216);
  EXPECT_EQ(only_row(output, {{"way", "one float"}})["absolute_error"].get<double>() * 4096, 64);
}

// Two points and two centroids on top of them: nothing moves, so the loss is 0 from the start.
TEST(FloatLoss, StopsWhereTheChangeIsBelowTheThreshold) {
  const auto output = run_study("float_loss", json::object(), 1, {0, 8}, {0, 8});
  // The CPU class starts from a loss of 1e7, the GPU class from 0, as printed. The iteration that
  // stops the loop is executed and has no line.
  EXPECT_EQ(output.findings["executed_iterations_cpu_one_float"], 2);
  EXPECT_EQ(output.findings["lines_cpu_one_float"], 1);
  EXPECT_EQ(output.findings["executed_iterations_gpu_two_steps"], 1);
  EXPECT_EQ(output.findings["lines_gpu_two_steps"], 0);
  EXPECT_EQ(output.findings["labels_settled_cpu"], 2);
  const auto stop =
      only_row(output, {{"trajectory", "cpu"}, {"way", "one float"}, {"stops_here", true}});
  EXPECT_EQ(stop["iteration"], 2);
  EXPECT_EQ(stop["executed_iterations"], 2);
  EXPECT_EQ(stop["lines"], 1);
  const auto never =
      run_study("float_loss", {{"threshold", 0}, {"iterations", 4}}, 1, {0, 8}, {0, 8});
  EXPECT_TRUE(never.findings["executed_iterations_cpu_one_float"].is_null());
  EXPECT_TRUE(never.findings["lines_cpu_one_float"].is_null());
}

TEST(FloatLoss, ComparesWithPrintedValuesInSixDigits) {
  // Twice the distance 1234567 / 1024: a loss of 2411.263...
  const float x = 1234567.0F / 1024;
  const auto output =
      run_study("float_loss",
                {{"iterations", 2}, {"trajectories", {"cpu"}}, {"printed_cpu", {2411.26, 2411.27}}},
                1, {x, -x}, {0.0F});
  EXPECT_EQ(output.findings["losses_compared_cpu"], 2);
  EXPECT_EQ(output.findings["losses_equal_cpu"], 1);
  EXPECT_THROW(run_study("float_loss", json::object(), 200, std::vector<float>(400),
                         std::vector<float>(200)),
               InputError);
}

// The centroids 0 and 8 move to 1 and 9, the means of {0, 2} and {8, 10}, in the first iteration.
TEST(FloatLoss, FindsTheIterationOfThePrintedCentroids) {
  const std::vector<float> points = {0, 2, 8, 10};
  const auto findings = [&](const json& printed_cpu) {
    return run_study("float_loss",
                     {{"iterations", 1},
                      {"trajectories", {"cpu", "gpu", "float64"}},
                      {"printed_centroids_cpu", printed_cpu},
                      {"printed_centroids_gpu", {1, 9.5}}},
                     1, points, {0, 8})
        .findings;
  };
  const auto same = findings({1, 9});
  EXPECT_EQ(same["centroids_nearest_cpu"], 1);
  EXPECT_EQ(same["centroids_off_cpu"], 0);
  EXPECT_EQ(same["coordinates_equal_cpu"], 2);
  EXPECT_EQ(same["centroids_off_gpu"], 0.5);
  EXPECT_EQ(same["coordinates_equal_gpu"], 1);
  EXPECT_FALSE(same.contains("centroids_off_float64"));
  const auto sixth_digit = findings({1, 9.00001});
  EXPECT_EQ(sixth_digit["coordinates_equal_cpu"], 1);
  EXPECT_EQ(findings({1, 9.000001})["coordinates_equal_cpu"], 2);  // the seventh
  EXPECT_THROW(findings({1, 9, 17}), InputError);
}

TEST(FineCoarse, OneBlockIsRightAndMoreAreTheFirst1024Points) {
  const auto output = run_study(
      "fine_coarse", {{"n", {1000, 4096, 5000}}, {"k", {4}}, {"seeds", 1}, {"iterations", 3}});
  for (const char* order : {"as drawn", "sorted by x"}) {
    const auto error = [&](std::int64_t n, const char* way) {
      return only_row(output, {{"order", order}, {"n", n}, {"way", way}})["largest_mean_error"]
          .get<double>();
    };
    for (const char* way : {"as printed", "reduced values read", "mended"}) {
      EXPECT_LT(error(1000, way), 1e-5) << way;
    }
    EXPECT_GT(error(4096, "as printed"), 1e-3);
    EXPECT_LT(error(4096, "reduced values read"), 1e-5);  // four blocks: a power of two
    EXPECT_GT(error(5000, "reduced values read"), 1e-3);  // five: clusters are mixed
    EXPECT_LT(error(5000, "mended"), 1e-5);
  }
  const auto printed =
      only_row(output, {{"order", "as drawn"}, {"n", 4096}, {"way", "as printed"}});
  EXPECT_EQ(printed["points_used"], 0.25);
  // The end of sorted points says little about the rest.
  EXPECT_GT(only_row(output, {{"order", "sorted by x"},
                              {"n", 4096},
                              {"way", "as printed"}})["largest_mean_error"],
            printed["largest_mean_error"]);
}

TEST(FineCoarse, SecondLaunchFailsBeyond1024Threads) {
  const auto output = run_study(
      "fine_coarse", {{"n", {4096, 4097}}, {"k", {256}}, {"seeds", 1}, {"iterations", 1}});
  EXPECT_EQ(only_row(output,
                     {{"order", "as drawn"}, {"n", 4096}, {"way", "as printed"}})["second_launch"],
            "runs");
  const auto failed = only_row(output, {{"order", "as drawn"}, {"n", 4097}, {"way", "as printed"}});
  EXPECT_EQ(failed["second_launch"], "fails");
  EXPECT_EQ(failed["points_used"], 0);
}

TEST(EigenStart, CountsFromOneShrinkAMeanByOneInMPlusOne) {
  const auto output =
      run_study("eigen_start", {{"cluster_sizes", {1, 9, 99}}, {"n", 60}, {"seeds", 4}});
  for (const auto& [size, share] : {std::pair(1, 0.5), std::pair(9, 0.1), std::pair(99, 0.01)}) {
    EXPECT_NEAR(only_row(output, {{"cluster_size", size}})["shrinkage"].get<double>(), share,
                1e-12);
  }
  const auto right = only_row(output, {{"part", "runs"}, {"start", "points"}, {"counts_from", 0}});
  EXPECT_EQ(right["median_inertia_ratio"], 1);
  EXPECT_LT(right["mean_offset"].get<double>(), 1e-12);
  EXPECT_GT(
      only_row(output, {{"part", "runs"}, {"start", "points"}, {"counts_from", 1}})["mean_offset"]
          .get<double>(),
      1e-3);
}

TEST(SplitShuffle, PairsAreNotPoints) {
  const auto output = run_study("split_shuffle", {{"n", 200}, {"k", {5}}, {"seeds", 10}});
  EXPECT_EQ(only_row(output, {{"start", "points"}})["largest_distance"], 0);
  EXPECT_EQ(only_row(output, {{"start", "points"}})["mean_inertia_ratio"], 1);
  EXPECT_GT(only_row(output, {{"start", "x and y shuffled apart"}})["median_distance"], 0.01);
}

TEST(ZeroCount, IsWrongWithZerosAlone) {
  const auto output =
      run_study("zero_count", {{"n", 2000}, {"zeros", {0, 0.5}}, {"iterations", 5}});
  const auto none = only_row(output, {{"zeros_wanted", 0.0}});
  EXPECT_EQ(none["largest_mean_error"], 0);
  EXPECT_EQ(none["inertia_ratio"], 1);
  const auto half = only_row(output, {{"zeros_wanted", 0.5}});
  EXPECT_NEAR(half["zeros"].get<double>(), 0.5, 0.05);
  EXPECT_GT(half["stretch"], 1.05);
  EXPECT_GT(half["inertia_ratio"], 1.01);
}

TEST(EmptyCluster, TheOriginIsASecondChanceOnlyInsideTheData) {
  const auto output = run_study("empty_cluster", {{"k", {10}}, {"seeds", 60}});
  const auto value = [&](double offset, const char* rule, const char* key,
                         const char* start = "with replacement") {
    return only_row(output, {{"offset", offset}, {"empty_cluster", rule}, {"start", start}})[key]
        .get<double>();
  };
  for (const double offset : {0.0, 100.0}) {
    EXPECT_EQ(value(offset, "keeps its centroid", "inertia_ratio"), 1);
    EXPECT_GE(value(offset, "becomes NaN", "mean_empty_at_the_end"), 1);
    EXPECT_GT(value(offset, "becomes NaN", "inertia_ratio"), 1);
  }
  EXPECT_LT(value(0, "goes to the origin", "mean_empty_at_the_end"),
            value(100, "goes to the origin", "mean_empty_at_the_end"));
  // Far from the data the origin attracts nobody, as NaN does.
  EXPECT_EQ(value(100, "goes to the origin", "inertia_ratio"),
            value(100, "becomes NaN", "inertia_ratio"));
  // Ten of a hundred points are all different with probability 0.99 ... 0.91 = 0.63; without
  // replacement they always are, and a cluster goes empty by chance alone.
  EXPECT_GT(value(0, "keeps its centroid", "runs_with_one"), 0.15);
  EXPECT_LT(value(0, "keeps its centroid", "runs_with_one", "without"), 0.1);
}

TEST(BlockRace, OneBlockIsRightAndOneAtATimeIsNever) {
  const auto output = run_study(
      "block_race",
      {{"blocks", {1, 2, 8}}, {"resident", {1, 8}}, {"schedules", 40}, {"iterations", 2}});
  for (const int resident : {1, 8}) {
    const auto one =
        only_row(output, {{"start", "cleared"}, {"blocks", 1}, {"resident", resident}});
    EXPECT_EQ(one["right_schedules"], 1);
    EXPECT_EQ(one["range_over_schedules"], 0);
    EXPECT_EQ(one["blocks_in_time"], 1);
    // Sums that start from the old centroids are wrong with one block as well.
    EXPECT_EQ(
        only_row(output,
                 {{"start", "as shown"}, {"blocks", 1}, {"resident", resident}})["right_schedules"],
        0);
  }
  // Block 0 comes first and divides before any other has begun.
  const auto serial = only_row(output, {{"start", "cleared"}, {"blocks", 8}, {"resident", 1}});
  EXPECT_EQ(serial["right_schedules"], 0);
  EXPECT_EQ(serial["blocks_in_time"], 0.125);
  // All at once: right only when block 0 is among the last.
  const auto together = only_row(output, {{"start", "cleared"}, {"blocks", 2}, {"resident", 8}});
  EXPECT_GT(together["right_schedules"], 0.2);
  EXPECT_LT(together["right_schedules"], 0.9);
}

TEST(StaleCentroid, OnlyRunsWithAnEmptiedClusterNeverStop) {
  const auto output = run_study(
      "stale_centroid",
      {{"n", 200}, {"k", {2, 100}}, {"runs", 200}, {"tolerances", {1e-6}}, {"iterations", 300}});
  const auto few = only_row(output, {{"k", 2}});
  EXPECT_EQ(few["never_stops"], 0);
  EXPECT_EQ(few["mean_iterations_printed"], few["mean_iterations_right"]);
  const auto many = only_row(output, {{"k", 100}});
  const double share = many["never_stops"];
  EXPECT_GT(share, 0);
  EXPECT_LT(share, 0.5);
  // Those run to the maximum; all others stop where the right loop does.
  EXPECT_GT(many["mean_iterations_printed"].get<double>(),
            many["mean_iterations_right"].get<double>() + share * 200);
  EXPECT_GT(output.findings["largest_movement_left"], 0);
}

TEST(ThresholdOverrun, RunsOnWhereTooFewPointsAreFarApart) {
  const auto output = run_study(
      "threshold_overrun",
      {{"n", 500}, {"k", 4}, {"seeds", 5}, {"thresholds_in_sigma_squared", {0, 50, 1e9}}});
  const auto at = [&](const char* rule, double threshold) {
    return only_row(output, {{"rule", rule}, {"threshold_in_sigma_squared", threshold}});
  };
  for (const char* rule : {"as printed", "strict"}) {
    EXPECT_EQ(at(rule, 0)["ends_in_the_data"], 1);  // any four different points
    EXPECT_EQ(at(rule, 1e9)["never_ends"], 1);
  }
  EXPECT_EQ(at("as printed", 50)["ends_in_the_data"], 1);
  // No two points are so far apart; the second is not compared with the first.
  EXPECT_EQ(at("strict", 1e9)["fewest_found_in_the_data"], 1);
  EXPECT_EQ(at("as printed", 1e9)["fewest_found_in_the_data"], 2);
}

TEST(ThresholdOverrun, ThePrintedWalkFindsMore) {
  // Clusters lie in a box of side 100 sigma: few points are 40 sigma from one another.
  const auto output = run_study(
      "threshold_overrun", {{"n", 500}, {"seeds", 10}, {"thresholds_in_sigma_squared", {1600}}});
  const auto of = [&](const char* rule) { return only_row(output, {{"rule", rule}}); };
  EXPECT_LE(of("strict")["ends_in_the_data"], of("as printed")["ends_in_the_data"]);
  EXPECT_GT(of("strict")["never_ends"], of("as printed")["never_ends"]);
}

TEST(PrintedStart, PutsTwoCentroidsIntoOneCluster) {
  const auto output =
      run_study("printed_start",
                {{"n", 300}, {"k", {5, 10}}, {"sigma", {5}}, {"seeds", 200}, {"iterations", 100}});
  const auto of = [&](std::int64_t k, const char* rule) {
    return only_row(output, {{"k", k}, {"rule", rule}});
  };
  for (const std::int64_t k : {5, 10}) {
    // Four standard deviations of a share of 200.
    const double expected = 1 - 1 / static_cast<double>(k);
    EXPECT_EQ(of(k, "as printed")["expected"], expected);
    EXPECT_NEAR(of(k, "as printed")["two_in_one_cluster"], expected,
                4 * std::sqrt(expected * (1 - expected) / 200));
    EXPECT_LT(of(k, "strict")["two_in_one_cluster"], 0.02);
    EXPECT_EQ(of(k, "strict")["centres_within_10_sigma"], 0);
  }
  EXPECT_LT(of(10, "as printed")["centres_within_10_sigma"], 0.5);
  EXPECT_GT(of(10, "as printed")["centres_within_10_sigma"], 0.05);
  EXPECT_LT(of(10, "strict")["largest_inertia_ratio"], 1.01);
  EXPECT_GT(of(10, "as printed")["inertia_above_1_percent"], 0.5);
  EXPECT_GT(of(10, "as printed")["median_iterations"], of(10, "strict")["median_iterations"]);
}

TEST(RunningSums, NeedMoreIterations) {
  const auto output =
      run_study("running_sums", {{"n", 500}, {"k", {5, 10}}, {"seeds", 3}, {"tolerances", {1e-2}}});
  ASSERT_EQ(output.rows.size(), 2U);
  for (const auto& row : output.rows) {
    EXPECT_GT(row["mean_iterations_running"], row["mean_iterations_right"]);
  }
}

TEST(FamilyChoice, ComparesWholeCallsAndLeavesOutWhoIsFarBehind) {
  const json parameters{{"chooser", {"openmp_best"}},
                        {"families", {"openmp_exact", "openmp_tree", "openmp_int8"}},
                        {"n", {500, 3000}},
                        {"d", {12, 2}},
                        {"k", {5, 40}},
                        {"iterations", {3, 12}},
                        {"threads", {1, 4096}},
                        {"seconds", 0.01}};
  const auto output = run_study("family_choice", parameters);
  EXPECT_EQ(output.wrong, "");
  ASSERT_EQ(output.rows.size(), 4U);
  int with_interval = 0;
  for (const json& row : output.rows) {
    EXPECT_GT(row.at("fastest_seconds"), row.at("fastest_setup_seconds"));
    EXPECT_GE(row.at("calls"), 3);
    EXPECT_NE(row.at("fastest"), "openmp_best");
    EXPECT_EQ(row.at("threads"), 1);
    if (row.at("over_at_least").is_null()) continue;
    with_interval += 1;
    EXPECT_LE(row.at("over_at_least"), row.at("over_fastest"));
    EXPECT_GE(row.at("over_at_most"), row.at("over_fastest"));
  }
  EXPECT_GT(with_interval, 0) << "calls of some microseconds";
  EXPECT_EQ(output.findings.at("shapes"), 2);
  const double first = only_row(output, {{"n", 500}, {"iterations", 3}}).at("over_fastest");
  const double second = only_row(output, {{"n", 3000}, {"iterations", 3}}).at("over_fastest");
  EXPECT_EQ(output.findings.at("most_behind_3"), std::max(first, second));
  EXPECT_LE(output.findings.at("most_surely_behind_3"), output.findings.at("most_behind_3"));
  EXPECT_NE(output.notes.back().find("4096 threads"), std::string::npos)
      << "of which the machine has fewer";
  json uneven = parameters;
  uneven["k"] = {5};
  EXPECT_THROW(run_study("family_choice", uneven), InputError);
}

/// Two iterations with bounds take longer than without; two hundred take a sixth.
TEST(FamilyChoice, BoundsGetACallWhereManyIterationsPayForThem) {
  const auto output = run_study("family_choice", {{"chooser", {"openmp_best"}},
                                                  {"families", {"openmp_exact", "openmp_hamerly"}},
                                                  {"n", {2000}},
                                                  {"d", {128}},
                                                  {"k", {50}},
                                                  {"iterations", {2, 200}},
                                                  {"threads", {1}},
                                                  {"seconds", 0.01}});
  EXPECT_EQ(output.wrong, "");
  const json& row = only_row(output, {{"iterations", 200}});
  EXPECT_EQ(row.at("fastest"), "openmp_hamerly") << row;
}

TEST(FamilyChoice, LeavesOutAChooserThatIsNotInThisBuildOrHasNoGpu) {
  std::vector<std::string> choosers;
  for (const auto& backend : missing_backends()) {
    choosers.insert(choosers.end(), backend.variants.begin(), backend.variants.end());
  }
  const RegisteredVariant* best = find_variant("cuda_best");
  if (best != nullptr && !availability(*best).ok) choosers.emplace_back("cuda_best");
  if (choosers.empty()) GTEST_SKIP() << "every variant can run here";
  for (const std::string& chooser : choosers) {
    const auto output =
        run_study("family_choice", {{"chooser", {chooser}}, {"n", {500}}, {"d", {2}}, {"k", {5}}});
    EXPECT_TRUE(output.rows.empty()) << chooser;
    EXPECT_NE(output.notes.back().find("Left out: " + chooser + " ("), std::string::npos)
        << chooser;
  }
  EXPECT_THROW(run_study("family_choice", {{"chooser", {"cuda_bset"}}}), InputError);
}

TEST(Ties, CpuClassTakesTheLastOfEqualDistances) {
  const auto output = run_study("ties", {{"n", 4000}, {"k", 8}});
  const auto cpu = [&](const char* data) {
    return only_row(output, {{"data", data}, {"way", "CPU class (<=)"}});
  };
  EXPECT_GT(cpu("grid of side 4")["labels_that_differ"], 0.1);
  EXPECT_EQ(cpu("continuous")["labels_that_differ"], 0);
  EXPECT_EQ(cpu("deviation 1000")["unlabelled"], 0);
  EXPECT_GT(cpu("deviation 20000")["unlabelled"], 0.05);
  // Every cluster that lost all its ties became NaN in the first update, and stayed so.
  const auto lost = cpu("8 distinct points");
  EXPECT_GT(lost["nan_at_the_end"], 0);
  EXPECT_EQ(lost["nan_at_the_end"], lost["empty_at_the_end"]);
  EXPECT_EQ(lost["first_nan_iteration"], 1);
  for (const auto& row : rows_with(output, {{"way", "lowest index"}})) {
    EXPECT_EQ(row["labels_that_differ"], 0);
    EXPECT_EQ(row["nan_at_the_end"], 0);
    EXPECT_EQ(row["unlabelled"], 0);
  }
}

TEST(SilentLimits, RightUpToThemAndWrongBeyond) {
  const auto output =
      run_study("silent_limits", {{"n", 300}, {"d", {128, 129, 256}}, {"k", {4, 200}}});
  const auto inside = only_row(output, {{"d", 128}, {"k", 4}});
  EXPECT_EQ(inside["fits"], true);
  EXPECT_EQ(inside["wrong_labels"], 0);
  EXPECT_NEAR(inside["inertia_ratio"].get<double>(), 1, 1e-12);
  const auto beyond = only_row(output, {{"d", 256}, {"k", 4}});
  EXPECT_EQ(beyond["features_left_out"], 128);
  EXPECT_EQ(beyond["coordinates_not_cleared"], 0);  // 4 * 256 is just 1024
  EXPECT_GT(beyond["wrong_labels"], only_row(output, {{"d", 129}, {"k", 4}})["wrong_labels"]);
  const auto many = only_row(output, {{"d", 128}, {"k", 200}});
  EXPECT_EQ(many["wrong_labels"], 0);  // the first labels are still right
  EXPECT_EQ(many["counts_not_cleared"], 72);
  EXPECT_EQ(many["streams_past_the_array"], 180);
  EXPECT_GT(many["inertia_ratio"], 1.05);
  EXPECT_EQ(output.findings["first_n_refused_at_100_features"], 5368710);
  // The last index of 21 474 836 points with 100 features is 2^31 - 49.
  EXPECT_EQ(output.findings["first_n_index_overflows_at_100_features"], 21474837);
}

TEST(LabelInFloat, FirstLabelThatIsLostIs2To24Plus1) {
  const auto output = run_study("label_in_float", {{"most_clusters", 1 << 25}});
  EXPECT_EQ(output.findings["first_label_not_exact"], (1 << 24) + 1);
  EXPECT_EQ(only_row(output, {{"k", 1 << 24}})["labels_kept"], 1 << 24);
  EXPECT_EQ(only_row(output, {{"k", 1 << 25}})["share_kept"], 0.75);
  EXPECT_EQ(only_row(output, {{"k", 1 << 25}})["share_kept_as_bits"], 1);
  EXPECT_EQ(output.wrong, "");
}

TEST(AlgorithmTwo, OnlyTheMendedReadingIsRight) {
  const auto output =
      run_study("algorithm_two", {{"n", 200}, {"k", 4}, {"threads", {1, 8}}, {"runs", 20}});
  EXPECT_EQ(output.wrong, "");
  const auto row = [&](const char* reading, int threads) {
    return only_row(output, {{"reading", reading}, {"threads", threads}});
  };
  for (const int threads : {1, 8}) {
    EXPECT_EQ(row("mended", threads)["right_runs"], 1);
    EXPECT_EQ(row("mended", threads)["largest_first_error"], 0);
    EXPECT_EQ(row("as printed", threads)["right_runs"], 0);
    EXPECT_EQ(row("second barrier", threads)["right_runs"], 0);
  }
  EXPECT_EQ(output.findings["largest_share_of_right_runs_as_printed"], 0);
  // A single thread has nobody to wait for, so that only the clearing matters.
  EXPECT_EQ(row("own sums", 1)["right_runs"], 1);
  EXPECT_EQ(row("cleared", 1)["largest_first_error"], 0);
  auto alone = row("as printed", 1);
  alone["reading"] = "second barrier";
  EXPECT_EQ(alone, row("second barrier", 1));
  // With a barrier the threads' speeds decide nothing; without one they do.
  EXPECT_EQ(row("second barrier", 8)["median_inertia_ratio"],
            row("second barrier", 1)["median_inertia_ratio"]);
  EXPECT_LT(row("own sums", 8)["right_runs"], 1);
  EXPECT_LT(row("cleared", 8)["right_runs"], row("own sums", 8)["right_runs"]);
}

// One cluster has no labels to get wrong: what is left is that nothing is cleared. Two points a and
// b from a: (a + a + b) / 2 in the first update, which is off by a / 2; then (that + a + b) / 4.
TEST(AlgorithmTwo, SumsThatAreNotClearedHaveAKnownAnswer) {
  const auto output =
      run_study("algorithm_two", {{"n", 2}, {"d", 1}, {"k", 1}, {"threads", {1, 2}}, {"runs", 1}});
  const auto points =
      generate(parse_dataset({{"generator", "blobs"}, {"n", 2}, {"d", 1}, {"k", 1}, {"seed", 1}}),
               ScalarType::f64);
  const double a = points.data<double>()[0];
  const double b = points.data<double>()[1];
  const double unit = std::abs(a - b) / 2;
  const auto ratio = [&](double first) {
    const double second = ((first + a + b) / 2 + a + b) / 4;
    return (std::pow(a - second, 2) + std::pow(b - second, 2)) / (2 * unit * unit);
  };
  for (const auto& row : rows_with(output, {{"reading", "as printed"}})) {
    const double error = row["largest_first_error"];
    const double first = std::abs(error - std::abs(a / 2 / unit)) < 1e-9 ? a : b;
    EXPECT_NEAR(error, std::abs(first / 2 / unit), 1e-9);
    EXPECT_EQ(row["mean_iterations"], 2);  // no label ever changes
    EXPECT_EQ(row["runs_that_stop"], 1);
    EXPECT_EQ(row["labels_that_differ"], 0);
    EXPECT_NEAR(row["largest_inertia_ratio"].get<double>(), ratio(first), 1e-9 * ratio(first));
  }
  for (const char* reading : {"cleared", "own sums", "mended"}) {
    for (const auto& row : rows_with(output, {{"reading", reading}})) {
      EXPECT_EQ(row["right_runs"], 1) << reading;
    }
  }
}

// 64 blocks of 128 threads that begin at block + thread come to the first 191 of each 8 192 points,
// to all of these but the first and the last several times.
TEST(ChunkIndex, PrintedIndicesOverlap) {
  const auto output =
      run_study("chunk_index", {{"n", {16384, 50000}}, {"blocks", {1, 8, 64, 512}}});
  EXPECT_EQ(output.wrong, "");
  const auto row = [&](int n, int blocks) {
    return only_row(output, {{"n", n}, {"blocks", blocks}});
  };
  EXPECT_EQ(row(16384, 64)["labelled_as_printed"], 191.0 / 8192);
  EXPECT_EQ(row(16384, 64)["labelled_several_times_as_printed"], 189.0 / 8192);
  EXPECT_EQ(row(16384, 64)["idle_blocks"], 0);  // 128 chunks
  EXPECT_EQ(row(16384, 64)["most_points_a_thread"], 2);
  EXPECT_EQ(row(16384, 1)["labelled_as_printed"], 1);
  EXPECT_EQ(row(50000, 8)["chunks"], 391);
  EXPECT_EQ(row(50000, 8)["idle_blocks"], 1);  // 391 = 48 * 8 + 7
  EXPECT_EQ(row(50000, 8)["idle_blocks_printed"], 8 - 391);
  EXPECT_EQ(row(50000, 8)["most_points_a_thread"], 49);
  EXPECT_EQ(row(50000, 8)["most_points_a_thread_printed"], 391);
  EXPECT_EQ(row(50000, 512)["idle_blocks"], 121);  // fewer chunks than blocks: as the text says
  EXPECT_EQ(row(50000, 512)["idle_blocks_printed"], 121);
  EXPECT_EQ(output.findings["rows_with_another_number_of_idle_blocks"], 2);  // 391 in 8 and in 64
}

TEST(OperationCount, Algorithm1TakesTheModelsOperationsKindByKind) {
  const auto output = run_study("operation_count", {{"n", {40}}, {"d", {3}}, {"k", {5}}});
  EXPECT_EQ(output.wrong, "");
  const auto counted = [&](const char* way, const char* operation) {
    return only_row(output, {{"way", way}, {"operation", operation}})["counted"]
        .get<std::int64_t>();
  };
  constexpr std::int64_t n = 40;
  constexpr std::int64_t d = 3;
  constexpr std::int64_t k = 5;
  EXPECT_EQ(counted("Algorithm 1", "subtract"), n * k * d);
  EXPECT_EQ(counted("Algorithm 1", "multiply"), n * k * d);
  EXPECT_EQ(counted("Algorithm 1", "add"), n * k * d + n * d);
  EXPECT_EQ(counted("Algorithm 1", "square root"), n * k);
  EXPECT_EQ(counted("Algorithm 1", "compare"), n * k);
  EXPECT_EQ(counted("Algorithm 1", "divide"), k * d);
  EXPECT_EQ(counted("Algorithm 1", "all"), n * k * (3 * d + 2) + d * (n + k));
  EXPECT_EQ(counted("lean", "square root"), 0);
  EXPECT_EQ(counted("lean", "compare"), n * (k - 1));
  EXPECT_EQ(counted("lean", "add"), n * k * (d - 1) + n * d);
  EXPECT_EQ(counted("expanded", "multiply"), n * k * d + k * d);
  EXPECT_EQ(counted("expanded", "subtract"), n * k);
}

}  // namespace
}  // namespace kmeans
