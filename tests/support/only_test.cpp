// SPDX-License-Identifier: Apache-2.0
#include "harness/support/only.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace kmeans {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const UnitName kCell{"zechner2009", "cpu_scalar/f32/uniform-500x2-s1/k4/T5/t1"};

TEST(Only, IsFoundInExperimentInNameAndInBoth) {
  for (const char* text : {"zechner", "^zechner2009$", "^cpu_scalar/", "/t1$", "zechner2009.*/k4/",
                           "^zechner2009/cpu_scalar/f32/uniform-500x2-s1/k4/T5/t1$"}) {
    EXPECT_TRUE(takes(Pattern(text), kCell)) << text;
  }
  for (const char* text : {"marinai", "^scalar", "k4.*zechner2009", "zechner2009/k4"}) {
    EXPECT_FALSE(takes(Pattern(text), kCell)) << text;
  }
}

std::vector<UnitName> many() {
  std::vector<UnitName> units;
  for (const char* variant : {"cpu_naive", "cpu_scalar", "openmp_simd"}) {
    for (int k = 2; k < 200; ++k) {
      const std::string k_text = std::to_string(k);
      units.push_back({"zechner2009", variant + ("/f32/uniform-500x2-s1/k" + k_text) + "/T5/t1"});
    }
  }
  units.push_back({"marinai2023", "fig11"});
  return units;
}

TEST(Only, SaysInAFewLinesWhatItMatchedAgainst) {
  const std::string text = takes_none("zechner2009.*cpu_scaler/", many());
  EXPECT_THAT(text, HasSubstr("--only 'zechner2009.*cpu_scaler/' matches nothing"));
  EXPECT_THAT(text, AllOf(HasSubstr("595 names"), HasSubstr("2 experiments")));
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 7);
  // What it nearly says, not what comes first.
  EXPECT_THAT(text, HasSubstr("the nearest are\n  zechner2009/cpu_scalar/f32/"));
  EXPECT_THAT(text, Not(HasSubstr("openmp_simd")));
  EXPECT_THAT(text, HasSubstr("\nexperiments: marinai2023, zechner2009"));
}

TEST(Only, ShowsOneNameOfEachVariantBeforeAnother) {
  const std::string text = takes_none("zechner2009/k7777", many());
  for (const char* variant : {"cpu_naive", "cpu_scalar", "openmp_simd"}) {
    EXPECT_THAT(text,
                HasSubstr("zechner2009/" + std::string(variant) + "/f32/uniform-500x2-s1/k2/"));
  }
}

TEST(Only, ShowsTheFirstNamesWhereNoneIsNear) {
  EXPECT_THAT(takes_none("^$", many()),
              HasSubstr("the first of them are\n  zechner2009/cpu_naive/f32/uniform-500x2-s1/k2/"));
  EXPECT_THAT(takes_none("qqqq", {kCell}), HasSubstr("the first of them is\n  zechner2009/cpu_s"));
  EXPECT_THAT(takes_none("qqqq", {}), HasSubstr("0 names"));
  EXPECT_LT(takes_none(std::string(60000, 'a'), {kCell}).size(), 400U);
}

}  // namespace
}  // namespace kmeans
