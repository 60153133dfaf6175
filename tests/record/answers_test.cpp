// SPDX-License-Identifier: Apache-2.0
#include "harness/record/answers.h"

#include <gtest/gtest.h>

namespace kmeans {
namespace {

using nlohmann::json;

std::vector<std::string> named(const std::vector<AnswerDifference>& differences) {
  std::vector<std::string> names;
  for (const auto& one : differences) names.push_back(one.what);
  return names;
}

TEST(Answers, AreHeldAgainstEachOtherBitForBit) {
  const Answer before{0.1, "aa", "bb", 0};
  EXPECT_TRUE(answer_differences(before, before).empty());
  const Answer after{0.1 + 1e-16 + 1e-17, "ab", std::nullopt, 1};  // the next double
  const auto differences = answer_differences(before, after);
  EXPECT_EQ(named(differences),
            (std::vector<std::string>{"labels", "centroids", "inertia", "empty clusters"}));
  EXPECT_EQ(differences[0].before, "aa");
  EXPECT_EQ(differences[0].after, "ab");
  EXPECT_TRUE(differences[1].after.is_null());
  EXPECT_EQ(differences[3].after, 1);
}

TEST(Answers, OfATraceTheFirstIterationsThatDifferAreNamed) {
  const auto trace = [](std::initializer_list<double> inertias, const char* hash) {
    json iterations = json::array();
    for (const double inertia : inertias) {
      iterations.push_back({{"inertia", inertia}, {"centroids", {{1.0, inertia}}}});
    }
    return json{{"iterations", iterations}, {"label_hash", hash}};
  };
  const json before = trace({5, 4, 3, 2}, "aa");
  EXPECT_TRUE(trace_differences(before, before).empty());
  EXPECT_EQ(
      named(trace_differences(before, trace({5, 4.5, 3.5, 2.5}, "ab"))),
      (std::vector<std::string>{"inertia of iteration 2", "inertia of iteration 3", "labels"}));
  EXPECT_EQ(named(trace_differences(before, trace({5, 4}, "aa"))),
            std::vector<std::string>{"iterations"});
  json kept_without = before;
  for (auto& iteration : kept_without["iterations"]) iteration.erase("centroids");
  EXPECT_TRUE(trace_differences(kept_without, before).empty());
  EXPECT_EQ(named(trace_differences(before, kept_without)).front(), "centroids of iteration 1");
}

}  // namespace
}  // namespace kmeans
