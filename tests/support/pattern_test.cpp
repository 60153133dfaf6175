// SPDX-License-Identifier: Apache-2.0
#include "harness/support/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/message_of.h"

namespace kmeans {
namespace {

using testing::HasSubstr;

const std::string kKey = "openmp_simd/f32/uniform-100000x8-s1/k256/T10/t2";

std::string refusal(const std::string& text) {
  return test::message_of([&] { Pattern pattern(text); });
}

TEST(Pattern, IsFoundAnywhere) {
  EXPECT_TRUE(Pattern().found_in(""));
  EXPECT_TRUE(Pattern("").found_in("x"));
  for (const char* text :
       {"simd",         "^openmp_simd/", "/t2$",        "k(128|256)/", "x8-",
        "\\d{6}x8",     "[0-9]+x",       ".*",          "^",           "openmp_simd\\/f32",
        "(?:f16|f32)/", "[[:digit:]]x8", "[\\w]+/f",    "k2.?6",       "uniform\\b",
        "T1*0",         "_s{1,2}i",      "[^a-z]f32",   "[]u]",        "a|openmp",
        "x8\\-s1",      ".+?/k",         "^openmp.*t2$"}) {
    EXPECT_TRUE(Pattern(text).found_in(kKey)) << text;
  }
  for (const char* text : {"SIMD", "^simd", "t$", "k(12|25)/", "\\d{7}", "x{2}", "^$", "uni\\b",
                           "[^a-z0-9_/A-Z-]", "\\s", "f16|f64$x", "(f64){1}", "[[:upper:]]{2}"}) {
    EXPECT_FALSE(Pattern(text).found_in(kKey)) << text;
  }
  EXPECT_TRUE(Pattern("^(|a)*$").found_in("aaa"));
  EXPECT_TRUE(Pattern("^a{2,3}$").found_in("aaa"));
  EXPECT_FALSE(Pattern("^a{2,3}$").found_in("aaaa"));
  EXPECT_TRUE(Pattern("^a{2,}$").found_in("aaaa"));
  EXPECT_FALSE(Pattern("^a{2,}$").found_in("a"));
}

TEST(Pattern, SaysWhatIsWrong) {
  EXPECT_THAT(refusal("ab("), HasSubstr("--only 'ab(' is not a regular expression: "));
  EXPECT_THAT(refusal("a\x1b("), HasSubstr("'a\\x1b('"));
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"ab(c", "character 3: a ( without its )"},
      {"a(b(c)", "character 2: a ( without its )"},
      {"cpu)", "character 4: a ) without its ("},
      {"[a", "character 1: a [ without its ]"},
      {"ab[]", "character 3: a [ without its ]"},
      {"[[:alpha]", "character 2: a [: without its :]"},
      {"x[[:odd:]]", "character 3: [:odd:] is none of alnum, "},
      {"[z-a]", "a range in [...] ends before it begins"},
      {"*a", "character 1: a * with nothing to repeat"},
      {"a|+b", "character 3: a + with nothing to repeat"},
      {"(?:{2})", "character 4: a { with nothing to repeat"},
      {"a{3,2}", "character 2: {3,2} is not {2}, {2,}, {,5} or {2,5}"},
      {"a{b}", "character 2: {b} is not"},
      {"a{}", "character 2: {} is not"},
      {"a{2", "character 2: a { without its }"},
      {"(a)\\1", "character 4: back-references are not supported"},
      {"b(?=a)", "character 2: look-around and flags, (?, are not supported"},
      {"b\\", "character 2: a backslash with nothing behind it"},
      {"\\x63pu", "character 1: \\x means nothing here; "},
      {"\xc3\xa4\\tcpu", "character 2: \\t means nothing here; "},
      {"[a\\D]", "character 3: \\D means nothing in [...]; "}};
  for (const auto& [text, why] : wrong) {
    EXPECT_THAT(refusal(text), HasSubstr(" is not a regular expression: " + why)) << text;
  }
}

TEST(Pattern, IsBoundedInSizeAndDepth) {
  std::string choices;
  for (int i = 0; i < 5000; ++i) choices += "a|";
  for (const std::string& text :
       {std::string(20000, '('), std::string(70000, 'a'), choices, std::string("(a{100}){100}"),
        std::string("a{9999999999}"), std::string("a{100}{100}"), std::string("((ab){9}c{90}){90}"),
        "(" + std::string(100, 'a') + "){100}"}) {
    EXPECT_NE(refusal(text), "") << text.substr(0, 20);
  }
  // One after the other they add up.
  EXPECT_TRUE(Pattern("^x{100}y{100}(ab){90}$")
                  .found_in(std::string(100, 'x') + std::string(100, 'y') + [] {
                    std::string pairs;
                    for (int i = 0; i < 90; ++i) pairs += "ab";
                    return pairs;
                  }()));
  EXPECT_FALSE(Pattern("x{100}y{100}").found_in(std::string(100, 'x') + std::string(99, 'y')));
  EXPECT_EQ(refusal("(a{50}){50}"), "");
  std::string keys = "^(";
  for (int i = 0; i < 900; ++i) keys += "cpu_simd/f32/uniform-" + std::to_string(i) + "x8/k2/t1|";
  const Pattern list(keys + kKey + ")$");
  EXPECT_TRUE(list.found_in(kKey));
  EXPECT_TRUE(list.found_in("cpu_simd/f32/uniform-899x8/k2/t1"));
  EXPECT_FALSE(list.found_in("cpu_simd/f32/uniform-900x8/k2/t1"));
}

/// Each of these keeps a matcher busy that tries one way after the other, some for ever: then the
/// time limit of CTest ends it. All of them take a tenth of a second.
TEST(Pattern, TakesNoLongForHostileExpressions) {
  std::string nested = "a";
  for (int i = 0; i < 49; ++i) nested = "(" + nested + "|b?)*";
  std::string optional;
  for (int i = 0; i < 1000; ++i) optional += "a?";
  for (const std::string& text : std::vector<std::string>{
           "(.+)+!", "([a-z0-9_/-]+)+!", "(.*)*(.*)*(.*)*x!", "((((){1,9}){2}){2})*b!",
           nested + "!", optional + "!", "(a|b)*a(a|b){60}!", "((a{1,9}){1,9}){1,9}!"}) {
    for (int repeated = 0; repeated < 10; ++repeated) {
      EXPECT_FALSE(Pattern(text).found_in(kKey + std::string(100, 'a'))) << text;
    }
  }
}

}  // namespace
}  // namespace kmeans
