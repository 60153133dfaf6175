// SPDX-License-Identifier: Apache-2.0
#include "harness/run/best.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <limits>

#include "harness/support/errors.h"
#include "harness/variants/registry.h"

namespace kmeans {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// Cells with what is known of them, and a clock that a test moves.
class BudgetTest : public ::testing::Test {
 protected:
  const Cell* add(const std::string& variant, const std::string& backend, std::int64_t n,
                  bool exact = true) {
    Cell cell;
    cell.key.variant = variant;
    cell.key.iterations = 10;
    cell.key.threads = 2;
    cell.key.shape = {n, 16, 40, Precision::f32};
    cell.task.shape = cell.key.shape;
    cell.backend = backend;
    cell.exact = exact;
    cells_.push_back(cell);
    news_.push_back({&cells_.back(), {}, false});
    return &cells_.back();
  }

  CellNews& news_of(const Cell* cell) {
    for (auto& one : news_) {
      if (one.cell == cell) return one;
    }
    throw std::logic_error("no such cell");
  }

  /// One more process of a cell, with so many seconds an iteration.
  void measure(const Cell* cell, double seconds, double wall = 0.2) {
    ProcessRecord record;
    record.result.status = "ok";
    record.result.samples = {seconds};
    record.wall_seconds = wall;
    records_.push_back(record);
    news_of(cell).processes.push_back(&records_.back());
  }

  /// Asks for processes, each of which takes half a second of the budget, until all cells have one, and
  /// gives the order of the first ones.
  std::vector<std::string> order_of_first() {
    std::vector<std::string> order;
    while (order.size() < cells_.size()) {
      const auto choice = chooser_.next(news_);
      if (!choice || choice->leave) break;
      if (news_of(choice->cell).processes.empty()) order.push_back(choice->cell->key.variant);
      measure(choice->cell, 0.01);
      left_ -= 0.5;
    }
    return order;
  }

  double left_ = 30;
  BudgetChooser chooser_{30, 10, 2, [this] { return left_; }};
  std::deque<Cell> cells_;
  std::deque<ProcessRecord> records_;
  std::vector<CellNews> news_;
};

TEST_F(BudgetTest, BeginsWithWhatIsExpectedToBeQuickAndSoonTheBaseline) {
  // Plain code of larger problems is expected to take longer; Python begins slowly.
  add(kBestBaseline, "python", 1000);
  add("cpu_naive", "cpu", 4000);
  add("cpu_fused", "cpu", 3000);
  add("cpu_scalar", "cpu", 2000);
  add("openmp_exact", "openmp", 2000);
  EXPECT_THAT(order_of_first(),
              ElementsAre("openmp_exact", "cpu_scalar", "cpu_fused", kBestBaseline, "cpu_naive"));
}

TEST_F(BudgetTest, WithoutTheBaselineTheOrderIsThatOfExpectations) {
  for (const std::int64_t n : {5, 4, 3, 2, 1}) add("v" + std::to_string(n), "cpu", n * 100000);
  EXPECT_THAT(order_of_first(), ElementsAre("v1", "v2", "v3", "v4", "v5"));
}

TEST_F(BudgetTest, TheFirstOfAllMayTakeHalfOfTheBudget) {
  add("cpu_naive", "cpu", 1000);
  EXPECT_EQ(chooser_.next(news_)->timeout_seconds, 15) << "one row is better than none";
}

TEST_F(BudgetTest, NoProcessOutlastsTheBudgetNorTakesMoreThanAQuarterOfIt) {
  measure(add("openmp_exact", "openmp", 1), 0.01, 100);
  add("cpu_naive", "cpu", 1000);
  auto choice = chooser_.next(news_);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->timeout_seconds, 7.5);
  EXPECT_EQ(choice->reason, "given up after 7.5 s of --seconds 30");
  left_ = 2;
  choice = chooser_.next(news_);
  ASSERT_TRUE(choice);
  EXPECT_FALSE(choice->leave);
  EXPECT_EQ(choice->timeout_seconds, 2);
  EXPECT_EQ(choice->reason, "given up after 2 s, at the end of --seconds 30");
}

TEST_F(BudgetTest, WhatIsNotReachedIsLeftWithAReason) {
  const Cell* quick = add("cpu_naive", "cpu", 1000);
  const Cell* slow = add("cpu_scalar", "cpu", 2000);
  left_ = 0.1;
  for (const Cell* cell : {quick, slow}) {
    const auto choice = chooser_.next(news_);
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->cell, cell);
    EXPECT_TRUE(choice->leave);
    EXPECT_EQ(choice->reason, "not reached within --seconds 30");
    news_of(cell).stopped = true;
  }
  EXPECT_FALSE(chooser_.next(news_));
}

TEST_F(BudgetTest, WhatIsHopelessIsNotBegun) {
  add("python_numpy", "python", 1000000000);
  const auto choice = chooser_.next(news_);
  ASSERT_TRUE(choice);
  EXPECT_TRUE(choice->leave);
  EXPECT_THAT(choice->reason, HasSubstr("not begun: expected to take roughly"));
  EXPECT_THAT(choice->reason, HasSubstr("with 30 s of --seconds 30 left"));
}

TEST_F(BudgetTest, FurtherProcessesGoToTheFrontOfEachKindAndTheBaseline) {
  const Cell* best = add("a_best", "cpu", 1000);
  const Cell* near = add("b_near", "cpu", 1000);
  const Cell* far = add("c_far", "cpu", 1000);
  const Cell* other = add("d_other", "cpu", 1000, false);
  const Cell* baseline = add(kBestBaseline, "python", 1000, false);
  measure(best, 0.010);
  measure(near, 0.014);
  measure(far, 0.016);
  measure(other, 0.030);
  measure(baseline, 0.300);
  std::map<const Cell*, int> further;
  while (const auto choice = chooser_.next(news_)) {
    ASSERT_FALSE(choice->leave);
    ++further[choice->cell];
    measure(choice->cell, news_of(choice->cell).processes.front()->result.samples.front());
  }
  EXPECT_EQ(further, (std::map<const Cell*, int>{{best, 2}, {near, 2}, {other, 2}, {baseline, 2}}))
      << "three processes of each at the front, one of what takes over 1.5 times as long";
}

TEST_F(BudgetTest, CertaintyAboutTheFrontComesBeforeSlowFirstLooks) {
  const Cell* quick = add("openmp_exact", "openmp", 1000);
  const Cell* slow = add("python_numpy", "python", 1000, false);
  measure(quick, 0.01, 0.1);
  for (int further = 0; further < 2; ++further) {
    const auto choice = chooser_.next(news_);
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->cell, quick) << "a tenth of a second, next to Python's two";
    measure(quick, 0.01, 0.1);
  }
  EXPECT_EQ(chooser_.next(news_)->cell, slow);
}

TEST_F(BudgetTest, WhoIsUnsteadyLeadsByItsSlowestProcess) {
  const Cell* unsteady = add("a_unsteady", "cpu", 1000);
  const Cell* second = add("b_second", "cpu", 1000);
  measure(unsteady, 0.001);
  measure(unsteady, 0.002);
  measure(unsteady, 0.004);
  measure(second, 0.010);
  EXPECT_EQ(chooser_.next(news_)->cell, unsteady) << "all of it is before the other";
  measure(unsteady, 0.008);
  EXPECT_EQ(chooser_.next(news_)->cell, second) << "now it is within 1.5 times of the slowest";
}

TEST_F(BudgetTest, ProcessesThatDisagreeGetUpToSeven) {
  const Cell* cell = add("cpu_naive", "cpu", 1000);
  const std::deque<double> seconds{1e-2, 2e-2, 4e-2, 8e-2, 16e-2, 32e-2, 64e-2, 128e-2};
  measure(cell, seconds[0]);
  while (chooser_.next(news_)) measure(cell, seconds[news_of(cell).processes.size()]);
  EXPECT_EQ(news_of(cell).processes.size(), 7U);
}

TEST_F(BudgetTest, NothingFurtherIsBegunThatTheBudgetHasNoTimeFor) {
  const Cell* cell = add("cpu_naive", "cpu", 1000);
  measure(cell, 0.01, 3);
  left_ = 2;
  EXPECT_FALSE(chooser_.next(news_));
  left_ = 4;
  EXPECT_TRUE(chooser_.next(news_));
}

TEST_F(BudgetTest, AFurtherProcessThatNeverFinishesIsNotAskedForForEver) {
  add("cpu_naive", "cpu", 1000);
  measure(&cells_.front(), 0.01);
  int asked = 0;
  while (chooser_.next(news_)) ++asked;
  EXPECT_EQ(asked, 7);
}

TEST_F(BudgetTest, AWrongCellIsDoneWith) {
  const Cell* cell = add("cpu_naive", "cpu", 1000);
  ProcessRecord record;
  record.result.status = "wrong";
  records_.push_back(record);
  news_of(cell).processes.push_back(&records_.back());
  news_of(cell).stopped = true;
  EXPECT_FALSE(chooser_.next(news_));
}

/// Cells of a fit's first iterations, and of all 300.
class WholeFits : public BudgetTest {
 protected:
  WholeFits() {
    chooser_ = BudgetChooser(30, 300, 2, [this] { return left_; });
  }
  const Cell* whole(const Cell* first) {
    Cell cell = *first;
    cell.key.iterations = 300;
    cells_.push_back(cell);
    news_.push_back({&cells_.back(), {}, false});
    return &cells_.back();
  }
};

TEST_F(WholeFits, ComeAfterAllFirstIterationsTheQuickestFirst) {
  const Cell* quick = add("a_quick", "cpu", 1000);
  const Cell* slow = add("openmp_hamerly", "cpu", 1000);  // skips work
  const Cell* far = add("c_far", "cpu", 1000);
  const Cell* all_of_slow = whole(slow);
  const Cell* all_of_quick = whole(quick);
  const Cell* all_of_far = whole(far);
  measure(quick, 1e-5);
  measure(slow, 3e-5);
  EXPECT_EQ(chooser_.next(news_)->cell, far);
  measure(far, 2e-5);
  // What bounds save shows in later iterations; others take as long in these.
  const auto left_out = chooser_.next(news_);
  EXPECT_EQ(left_out->cell, all_of_far);
  EXPECT_TRUE(left_out->leave);
  EXPECT_THAT(left_out->reason, HasSubstr("far behind"));
  news_of(all_of_far).stopped = true;
  const auto first = chooser_.next(news_);
  EXPECT_EQ(first->cell, all_of_quick);
  EXPECT_FALSE(first->leave);
  measure(all_of_quick, 2e-5);
  EXPECT_EQ(chooser_.next(news_)->cell, all_of_slow);
  measure(all_of_slow, 1e-5);
  // Then the front is that of whole fits.
  EXPECT_EQ(chooser_.next(news_)->cell, all_of_slow);
}

TEST_F(WholeFits, ThatAreWrongLeadNobody) {
  const Cell* wrong = add("a_wrong", "cpu", 1000);
  const Cell* right = add("b_right", "cpu", 1000);
  const Cell* all_of_wrong = whole(wrong);
  const Cell* all_of_right = whole(right);
  measure(wrong, 1e-5);
  measure(right, 3e-5);
  const auto far = chooser_.next(news_);
  EXPECT_EQ(far->cell, all_of_right);
  EXPECT_TRUE(far->leave) << "by three times, of who does not skip work";
  news_of(all_of_right).stopped = true;
  EXPECT_EQ(chooser_.next(news_)->cell, all_of_wrong);
  records_.push_back({});
  records_.back().result.status = "wrong";
  news_of(all_of_wrong).processes.push_back(&records_.back());
  news_of(all_of_wrong).stopped = true;
  // The first iterations of the other are the front now, and those of the wrong one get nothing.
  for (int further = 0; further < 2; ++further) {
    const auto choice = chooser_.next(news_);
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->cell, right);
    measure(right, 3e-5);
  }
  EXPECT_FALSE(chooser_.next(news_));
}

TEST_F(WholeFits, AreTimedOfTheBaselineToo) {
  const Cell* quick = add("a_quick", "cpu", 1000, false);
  const Cell* baseline = add(kBestBaseline, "python", 1000, false);
  const Cell* all_of_baseline = whole(baseline);
  measure(quick, 1e-5);
  measure(baseline, 1e-3);
  const auto choice = chooser_.next(news_);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->cell, all_of_baseline) << "a hundred times behind";
  EXPECT_FALSE(choice->leave);
}

TEST_F(WholeFits, AreNotBegunWithoutTimeForThem) {
  const Cell* first = add("a", "cpu", 1000);
  const Cell* all = whole(first);
  measure(first, 0.01, 0.5);
  // Four passes over 290 iterations of 10 ms: 11.6 s, and half a second.
  left_ = 12;
  const auto choice = chooser_.next(news_);
  EXPECT_EQ(choice->cell, all);
  EXPECT_TRUE(choice->leave);
  EXPECT_THAT(choice->reason, HasSubstr("expected to take 12.1 s, with 12 s left"));
  left_ = 13;
  EXPECT_FALSE(chooser_.next(news_)->leave);
}

TEST_F(WholeFits, AreNotBegunOfWhoHasNoFirstIterations) {
  const Cell* first = add("a", "cpu", 1000);
  const Cell* all = whole(first);
  news_of(first).stopped = true;
  const auto choice = chooser_.next(news_);
  EXPECT_EQ(choice->cell, all);
  EXPECT_TRUE(choice->leave);
}

TEST(BestVariants, AreAllButFloat64AndThoseKeptWrong) {
  const json variants = best_variants(Pattern(), {});
  EXPECT_THAT(variants, Contains(json{{"variant", "openmp_exact"}, {"precision", "f32"}}));
  EXPECT_THAT(variants, Contains(json{{"variant", "cpu_naive"}, {"precision", "f32"}}));
  EXPECT_THAT(variants, Not(Contains(json{{"variant", "cpu_naive"}, {"precision", "f64"}})));
  for (const auto& one : variants) {
    const auto* variant = find_variant(one.at("variant").get<std::string>());
    ASSERT_NE(variant, nullptr);
    EXPECT_TRUE(variant->traits.wrong_because.empty()) << variant->traits.name;
  }
}

TEST(BestVariants, AreNotThoseOfSeveralRanksWhereThereIsOne) {
  const json variants = best_variants(Pattern("mpi_exact|nccl_exact|openmp_best"), {});
  EXPECT_EQ(variants, json::parse(R"([{"variant": "openmp_best", "precision": "f32"}])"));
}

TEST(BestVariants, FollowNamesAndPrecisionsThatWereAskedFor) {
  EXPECT_EQ(best_variants(Pattern("^cpu_(naive|fused)$"), {Precision::f64}),
            json::parse(R"([{"variant": "cpu_fused", "precision": "f64"},
                            {"variant": "cpu_naive", "precision": "f64"}])"));
  EXPECT_TRUE(best_variants(Pattern("^openmp_exact$"), {Precision::f16}).empty());
}

BestProblem small_problem() {
  BestProblem problem;
  problem.n = 1000;
  problem.d = 3;
  problem.k = 7;
  problem.init = "random:1";
  return problem;
}

TEST(BestExperiment, IsOneThatRunTakes) {
  const BestProblem problem = small_problem();
  const Experiment experiment =
      best_experiment(problem, best_variants(Pattern("^cpu_naive$"), {}), 30);
  EXPECT_EQ(experiment.data, json::parse(R"({"generator": "blobs", "seed": 1, "k": "sweep",
                                             "low": -1.75, "high": 1.75})"));
  const Scale& scale = experiment.scale("quick");
  EXPECT_EQ(scale.iterations, 10);
  ASSERT_EQ(scale.shapes.size(), 1U);
  EXPECT_EQ(scale.shapes.front().k, 7);
  EXPECT_EQ(scale.sampling.max_seconds, 3) << "a tenth of the budget";
}

TEST(BestExperiment, HasAllIterationsOfAFitNextToTheFirst) {
  BestProblem problem = small_problem();
  problem.whole = 77;
  const auto experiment = best_experiment(problem, best_variants(Pattern("^cpu_naive$"), {}), 30);
  const Scale& scale = experiment.scale("quick");
  ASSERT_EQ(scale.shapes.size(), 2U);
  EXPECT_FALSE(scale.shapes[0].iterations);
  EXPECT_EQ(scale.shapes[1].iterations, 77);
}

TEST(BestExperiment, TakesPointsFromAFileOrAnyGenerator) {
  BestProblem problem;
  problem.file = "points.csv";
  problem.csv.drop_last = 1;
  EXPECT_EQ(best_data(problem), json::parse(R"({"file": "points.csv", "csv_drop_last": 1})"));
  problem = BestProblem{};
  problem.data = "uniform";
  EXPECT_EQ(best_data(problem), json::parse(R"({"generator": "uniform", "seed": 1})"));
  problem.data = "embedding";
  EXPECT_EQ(best_data(problem).at("k"), "sweep");
  problem.data = "unifrom";
  EXPECT_THROW(best_data(problem), InputError);
}

TEST(BestKinds, AreNotMixed) {
  EXPECT_EQ(answer_kind(true, Precision::f32), AnswerKind::exact);
  EXPECT_EQ(answer_kind(false, Precision::f32), AnswerKind::certified);
  EXPECT_EQ(answer_kind(false, Precision::f64), AnswerKind::certified);
  EXPECT_EQ(answer_kind(false, Precision::tf32), AnswerKind::approximate);
  EXPECT_EQ(answer_kind(false, Precision::f16), AnswerKind::approximate);
}

}  // namespace
}  // namespace kmeans
