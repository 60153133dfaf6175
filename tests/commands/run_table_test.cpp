// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/run_table.h"
#include "tests/support/says.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace kmeans {
namespace {

using nlohmann::json;
using test::Says;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// `samples`: a list for each process.
json measured_cell(const std::string& variant, const std::vector<std::vector<double>>& samples) {
  std::vector<double> all;
  for (const auto& process : samples) all.insert(all.end(), process.begin(), process.end());
  std::sort(all.begin(), all.end());
  return {{"variant", variant},
          {"dataset", "uniform-100x2-s1"},
          {"k", 3},
          {"iterations", 10},
          {"precision", "f32"},
          {"threads", 1},
          {"status", "ok"},
          {"unsteady", json::array()},
          {"computed_share", nullptr},
          {"samples_seconds_per_iteration", samples},
          {"seconds_per_iteration",
           {{"median", all[all.size() / 2]},
            {"p25", all[all.size() / 4]},
            {"p75", all[all.size() - 1 - all.size() / 4]}}}};
}

std::string run_table_of(json first, json second) {
  return run_table({{"cells", json::array({std::move(first), std::move(second)})}});
}

TEST(RunTable, APrecisionSaysOnHowManySamplesItRests) {
  EXPECT_THAT(run_table_of(measured_cell("cpu_a", {{1, 1.01, 1}, {1, 0.99, 1}}),
                           measured_cell("cpu_b", {{2, 2.02, 2.02}, {2, 1.98, 1.98}})),
              Says({"cpu_a", "2.00 ± 0.02 times faster", "cpu_b", "2 processes with 6 samples"}));
  EXPECT_THAT(run_table_of(measured_cell("cpu_a", {{1, 2, 3}, {1, 2, 3}}),
                           measured_cell("cpu_b", {{2, 3}, {2.5, 1}})),
              Says({"same time", "2 processes with 6 samples", "2 processes with 4 samples"}));
}

TEST(RunTable, OneProcessHasNoPrecision) {
  EXPECT_THAT(run_table_of(measured_cell("cpu_a", {{1}}), measured_cell("cpu_b", {{1.65}})),
              AllOf(Says({"cpu_b", "1.65 times", "cpu_a", "1 process with 1 sample", "too few"}),
                    Not(HasSubstr("±")), Not(HasSubstr("faster"))));
  EXPECT_THAT(
      run_table_of(measured_cell("cpu_a", {{1, 1, 1}}), measured_cell("cpu_b", {{3, 3}, {3, 3}})),
      AllOf(Says({"1 process with 3 samples", "2 processes with 4 samples"}), Not(HasSubstr("±"))));
}

}  // namespace
}  // namespace kmeans
