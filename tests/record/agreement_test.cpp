// SPDX-License-Identifier: Apache-2.0
#include "harness/record/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "harness/record/measures.h"
#include "harness/run/results.h"
#include "harness/run/sampling.h"

namespace kmeans {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

TEST(Agreement, TakesTheLargestGroupAndOfEqualsTheFastest) {
  const auto agreement = agreement_of({2.0, 1.0, 1.3, 2.6});
  EXPECT_EQ(agreement.sorted, (std::vector<double>{1.0, 1.3, 2.0, 2.6}));
  EXPECT_EQ(agreement.first, 0U);
  EXPECT_EQ(agreement.count, 2U);
  EXPECT_FALSE(agreement.majority()) << "two of four";
  EXPECT_TRUE(agreement_of({1.0, 1.3, 5.0}).majority());
  EXPECT_FALSE(agreement_of({1.0, 1.31, 5.0}).majority());
  EXPECT_TRUE(agreement_of({1.0}).majority());
}

TEST(Agreement, IsSettledByThreeOrByAllThatWerePlanned) {
  EXPECT_FALSE(agreement_of({1.0, 1.1, 9.0}).settled(3)) << "two of three are few";
  EXPECT_TRUE(agreement_of({1.0, 1.1, 9.0, 1.2}).settled(3));
  EXPECT_FALSE(agreement_of({1.0, 1.1, 9.0, 1.2, 8.0, 9.5}).settled(3)) << "three of six";
  EXPECT_TRUE(agreement_of({1.0, 1.1}).settled(2));
  EXPECT_FALSE(agreement_of({1.0, 2.0}).settled(2));
  EXPECT_TRUE(agreement_of({1.0, 2.0, 1.1}).settled(2));
  EXPECT_TRUE(agreement_of({1.0}).settled(1));
}

TEST(Agreement, SaysTheGroups) {
  const auto split = agreement_of({9e-5, 1e-2, 9.2e-5, 1.01e-2});
  EXPECT_EQ(unsteadiness(split), "its processes disagree: 2 processes near 91 us, 2 near 10.1 ms");
  EXPECT_EQ(outlying_processes(split), "") << "of two halves neither lies apart";
  const auto majority = agreement_of({9e-5, 9e-5, 9e-5, 1e-2});
  EXPECT_EQ(unsteadiness(majority), "");
  EXPECT_EQ(outlying_processes(majority),
            "1 of 4 processes lies apart from the others: 3 processes near 90 us, 1 at 10 ms");
  EXPECT_EQ(outlying_processes(agreement_of({1.0, 1.1, 1.2})), "");
}

TEST(Agreement, NoHeadlineOfAMajorityLiesBetweenTwoClusters) {
  // Whatever the numbers of processes on either side, and of the samples in each.
  std::mt19937 random(7);
  std::uniform_real_distribution<double> wobble(1.0, 1.1);
  for (int near = 1; near <= 5; ++near) {
    for (int far = 0; far < near; ++far) {
      std::vector<std::vector<double>> samples;
      for (int process = 0; process < near + far; ++process) {
        const double level = process < near ? 1e-4 : 1e-2;
        std::vector<double> own(1 + static_cast<std::size_t>(process) % 4);
        for (double& sample : own) sample = level * wobble(random);
        samples.push_back(own);
      }
      std::shuffle(samples.begin(), samples.end(), random);
      const json summary = summarise_processes(samples);
      const double median = summary.at("median");
      EXPECT_GE(median, 1e-4) << near << " and " << far;
      EXPECT_LE(median, 1.1e-4) << near << " and " << far;
      if (!summary.at("ci95_low").is_null()) {
        EXPECT_LE(summary.at("ci95_low").get<double>(), median);
        EXPECT_GE(summary.at("ci95_high").get<double>(), median);
      }
    }
  }
  // The pooled samples of processes that disagree within themselves would say 10 ms.
  EXPECT_DOUBLE_EQ(
      headline_median(
          {{1e-4, 1e-4, 1e-2}, {1e-4, 1e-4, 1e-2}, {1e-4, 1e-2, 1e-4}, {1e-2, 1e-2, 1e-2}}),
      1e-4);
}

std::vector<ProcessRecord> records_of(const std::vector<double>& medians, double wall = 1) {
  std::vector<ProcessRecord> records;
  for (const double median : medians) {
    const auto process = static_cast<int>(records.size());
    JobResult result;
    result.status = "ok";
    result.samples = {median, median};
    records.push_back({"cell", process, result, wall, 0, 0});
  }
  return records;
}

bool wants(const std::vector<ProcessRecord>& records, int planned) {
  std::vector<const ProcessRecord*> processes;
  for (const auto& record : records) processes.push_back(&record);
  return wants_further_process(processes, planned);
}

TEST(FurtherProcesses, AreWantedUntilAMajorityAgrees) {
  EXPECT_FALSE(wants(records_of({1, 1.1, 1.2}), 3));
  EXPECT_TRUE(wants(records_of({1, 1.1, 5}), 3));
  EXPECT_FALSE(wants(records_of({1, 1.1, 5, 1.05}), 3));
  EXPECT_TRUE(wants(records_of({1, 1.1, 5, 5.2}), 3));
  EXPECT_TRUE(wants(records_of({1, 5, 30, 150, 800, 4000}), 3));
  EXPECT_FALSE(wants(records_of({1, 5, 30, 150, 800, 4000, 20000}), 3)) << "seven at most";
  EXPECT_FALSE(wants(records_of({1}), 1)) << "one was asked for";
  EXPECT_FALSE(wants(records_of({1, 5}), 3)) << "the planned ones come first";
}

TEST(FurtherProcesses, KeepToTheTimeOfThePlannedOnes) {
  auto records = records_of({1, 5, 30});
  records.push_back(records_of({150}, 7).front());
  records.back().process = 3;
  EXPECT_FALSE(wants(records, 3)) << "7 s beyond 3 s";
  records.back().wall_seconds = 5;
  EXPECT_TRUE(wants(records, 3));
  // Of a run: half of what the planned ones took, or half a minute.
  EXPECT_TRUE(affords_further_process(10, 29));
  EXPECT_FALSE(affords_further_process(10, 30));
  EXPECT_TRUE(affords_further_process(100, 49));
  EXPECT_FALSE(affords_further_process(100, 50));
}

TEST(FurtherProcesses, AFailureEndsThem) {
  auto records = records_of({1, 5, 30});
  records.back().result = unreported("error", "killed");
  EXPECT_FALSE(wants(records, 3));
}

}  // namespace
}  // namespace kmeans
