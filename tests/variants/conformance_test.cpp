// SPDX-License-Identifier: Apache-2.0
//
// Every variant of the registry over the battery of awkward problems. A new variant is tested here
// without being named anywhere.
#include <gtest/gtest.h>

#include "harness/run/job.h"
#include "harness/verify/battery.h"

namespace kmeans {
namespace {

struct Conformance {
  std::string variant;
  Precision precision;
  int threads;
};

std::vector<Conformance> all_configurations() {
  std::vector<Conformance> configurations;
  for (const auto& variant : all_variants()) {
    if (variant.backend == "tests") continue;  // wrong on purpose
    for (const Precision precision : variant.traits.precisions) {
      for (const int threads : {1, 2, 7}) {
        if (threads > 1 && !variant.traits.parallel) continue;
        configurations.push_back({variant.traits.name, precision, threads});
      }
    }
  }
  return configurations;
}

class EveryVariant : public testing::TestWithParam<Conformance> {};

TEST_P(EveryVariant, SurvivesTheBattery) {
  const auto& variant = require_variant(GetParam().variant);
  if (const Support available = availability(variant); !available.ok) {
    GTEST_SKIP() << available.reason;
  }
  const bool kept_wrong = !variant.traits.wrong_because.empty();
  int passed = 0;
  int failed = 0;
  for (const auto& test : make_battery()) {
    const auto result = run_battery_case(variant, test, GetParam().precision, GetParam().threads);
    if (result.verdict == Verdict::skipped) continue;
    if (kept_wrong) {
      EXPECT_NE(result.verdict, Verdict::error) << test.name << ": " << result.detail;
      failed += result.verdict == Verdict::failed;
      continue;
    }
    EXPECT_STREQ(to_string(result.verdict), "passed") << test.name << ": " << result.detail;
    passed += result.verdict == Verdict::passed;
  }
  if (kept_wrong) {
    EXPECT_GT(failed, 0) << "no problem shows that " << variant.traits.wrong_because;
    return;
  }
  EXPECT_GT(passed, 10) << "the variant takes hardly any shape";
}

// Shown when a test fails; the default would be the object's bytes.
void PrintTo(const Conformance& configuration, std::ostream* stream) {
  *stream << configuration.variant << " " << to_string(configuration.precision) << ", "
          << configuration.threads << " threads";
}

INSTANTIATE_TEST_SUITE_P(Battery, EveryVariant, testing::ValuesIn(all_configurations()),
                         [](const testing::TestParamInfo<Conformance>& configuration) {
                           return configuration.param.variant + "_" +
                                  to_string(configuration.param.precision) + "_t" +
                                  std::to_string(configuration.param.threads);
                         });

}  // namespace
}  // namespace kmeans
