// SPDX-License-Identifier: Apache-2.0
#include "harness/support/json_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/support/json_each.h"
#include "tests/support/message_of.h"

namespace kmeans {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::EndsWith;

constexpr const char* kText = R"({
 "n": 3, "large": 1e6, "fraction": 2.5, "huge": 18446744073709551615, "least": -9223372036854775808,
 "name": "x", "empty": "", "nothing": null, "yes": true, "a/b": {"c~": 1},
 "list": [4, 5, "six"], "none": []
})";

class Reader : public ::testing::Test {
 protected:
  static std::string refusal(const std::function<void()>& ask) { return test::message_of(ask); }

  JsonDocument document_ = parse_json(kText, "f.json");
  JsonReader root_{document_};
};

TEST_F(Reader, TellsFileLineColumnAndPointer) {
  EXPECT_EQ(refusal([&] { return root_["name"].integer(1); }),
            "f.json:3:2: /name: \"x\" must be an integer");
  EXPECT_EQ(refusal([&] { return root_["list"].elements()[2].number(); }),
            "f.json:4:17: /list/2: \"six\" must be a number");
  EXPECT_EQ(refusal([&] { return root_["a/b"]["c~"].text(); }),
            "f.json:3:66: /a~1b/c~0: 1 must be a string");
  EXPECT_EQ(refusal([&] { return root_.elements(); }).rfind("f.json:1:1: {", 0), 0U);
}

TEST_F(Reader, AMissingKeyIsToldByWhatLacksIt) {
  EXPECT_EQ(refusal([&] { return root_["a/b"]["d"].integer(0); }),
            "f.json:3:58: /a~1b: lacks \"d\", an integer");
  EXPECT_EQ(refusal([&] { return root_["d"]["e"].text(); }),
            "f.json:1:1: lacks \"d\", an object {...}");
  EXPECT_FALSE(root_["d"].present());
}

TEST_F(Reader, AFallbackStandsForAnAbsentValueAndNotForNull) {
  EXPECT_EQ(root_["d"].integer(1, 9, 7), 7);
  EXPECT_EQ(root_["d"].number(1, 9, 0.5), 0.5);
  EXPECT_EQ(root_["d"].text("other"), "other");
  EXPECT_TRUE(root_["d"].boolean(true));
  EXPECT_EQ(root_["n"].integer(1, 9, 7), 3);
  EXPECT_THAT(refusal([&] { return root_["nothing"].integer(1, 9, 7); }),
              EndsWith("null must be an integer"));
  EXPECT_TRUE(root_["nothing"].present());
  EXPECT_FALSE(root_["nothing"]);
}

TEST_F(Reader, IntegersAreWholeAndWithinTheirRange) {
  EXPECT_EQ(root_["large"].integer(1), 1000000);
  EXPECT_EQ(root_["least"].integer(INT64_MIN), INT64_MIN);
  EXPECT_THAT(refusal([&] { return root_["fraction"].integer(1); }),
              EndsWith("2.5 must be an integer"));
  EXPECT_THAT(refusal([&] { return root_["huge"].integer(1); }),
              EndsWith("18446744073709551615 is not within [1, 9223372036854775807]"));
  EXPECT_THAT(refusal([&] { return root_["n"].integer(4, 5); }),
              EndsWith("3 is not within [4, 5]"));
  EXPECT_EQ(root_["n"].integer<int>(3, 3), 3);
  EXPECT_THAT(refusal([&] { return root_["huge"].integer<int>(1); }),
              EndsWith("is not within [1, 2147483647]"));
}

TEST_F(Reader, NumbersAreWithinTheirRange) {
  EXPECT_EQ(root_["fraction"].number(2.5, 2.5), 2.5);
  EXPECT_THAT(refusal([&] { return root_["fraction"].number(0.1, 2); }),
              EndsWith("2.5 is not within [0.1, 2]"));
  EXPECT_THAT(refusal([&] { return root_["yes"].number(); }), EndsWith("true must be a number"));
  EXPECT_THAT(refusal([&] { return root_["least"].positive(); }),
              EndsWith("must be a positive number"));
}

TEST_F(Reader, UnknownKeysAndValuesComeWithTheNearest) {
  EXPECT_THAT(refusal([&] {
                return root_["a/b"].allow_only({"c", "d"}), 0;
              }),
              EndsWith("/a~1b/c~0: unknown key; did you mean 'c'?"));
  EXPECT_THAT(refusal([&] {
                return root_["a/b"].allow_only({"k", "iterations"}, "a shape"), 0;
              }),
              EndsWith("unknown key of a shape; did you mean 'k'?"));
  EXPECT_THAT(refusal([&] {
                return root_["name"].one_of({"uniform", "blobs"});
              }),
              EndsWith("/name: unknown value \"x\"; known: uniform, blobs"));
  EXPECT_EQ(root_["name"].one_of({"y", "x"}), "x");
}

TEST_F(Reader, ListsAreReadElementByElement) {
  const auto integer = [](const JsonReader& element) { return element.integer(1); };
  EXPECT_THAT(refusal([&] { return root_["list"].each(integer); }),
              EndsWith("/list/2: \"six\" must be an integer"));
  EXPECT_TRUE(root_["none"].each(integer).empty());
  EXPECT_THAT(refusal([&] { return root_["none"].filled().each(integer); }),
              EndsWith("/none: the list is empty; give at least one value"));
  const json numbers{2, 3};
  EXPECT_THAT(JsonReader(numbers, "x").filled().each(integer), ElementsAre(2, 3));
}

TEST_F(Reader, WhatAParserOfTextSaysComesWithThePlace) {
  const auto parse = [](const std::string& text) -> int {
    throw InputError("no '" + text + "' here");
  };
  EXPECT_EQ(refusal([&] { return root_["name"].parsed(parse); }), "f.json:3:2: /name: no 'x' here");
  EXPECT_THAT(refusal([&] { return root_["empty"].nonempty_text(); }),
              EndsWith("/empty: must not be empty"));
}

TEST_F(Reader, WithoutADocumentThePlaceBeginsTheMessage) {
  const json value{{"k", "x"}};
  const JsonReader reader(value, "parameters");
  EXPECT_EQ(refusal([&] { return reader["k"].integer(1); }),
            "parameters/k: \"x\" must be an integer");
  EXPECT_EQ(refusal([&] { return reader["n"].integer(1); }), "parameters: lacks \"n\", an integer");
  EXPECT_EQ(refusal([&] { return JsonReader(value, "").text(); }),
            "{\"k\":\"x\"} must be a string");
}

TEST(JsonEach, StandsForItsObjectsWhoseValuesKeepTheirPlaces) {
  JsonDocument document = parse_json(
      "{\"fits\": [{\"k\": 9},\n {\"n\": 5, \"k\": 0,\n  \"each\": [{\"k\": 1},\n  {\"k\": 2, "
      "\"in\": [{\"each\": "
      "[{\"x\": 3}]}]}]}]}",
      "e.json");
  expand_each(document);
  EXPECT_EQ(document.value, json::parse(R"({"fits": [{"k": 9}, {"n": 5, "k": 1},
                                     {"n": 5, "k": 2, "in": [{"x": 3}]}]})"));
  EXPECT_EQ(document.where("/fits/1/n"), "e.json:2:3");
  EXPECT_EQ(document.where("/fits/1/k"), "e.json:3:13");
  EXPECT_EQ(document.where("/fits/2/k"), "e.json:4:4");
  EXPECT_EQ(document.where("/fits/2/in/0/x"), "e.json:4:30");
}

TEST(JsonEach, RefusesWhatIsNoListOfObjects) {
  const auto refusal = [](const char* text, std::size_t values = 100) {
    JsonDocument document = parse_json(text, "e.json");
    return test::message_of([&] { expand_each(document, {1000, 32, values}); });
  };
  EXPECT_EQ(refusal(R"([{"each": 3}])"), "e.json:1:3: /0/each: must be a list of objects");
  EXPECT_EQ(refusal(R"([{"each": []}])"), "e.json:1:3: /0/each: must be a list of objects");
  EXPECT_EQ(refusal(R"([{"each": [{}, 3]}])"), "e.json:1:16: /0/each/1: must be an object {...}");
  EXPECT_NE(refusal(R"([{"a": [1, 2], "each": [{}, {}, {}]}])", 9).find("too many values"),
            std::string::npos);
}

}  // namespace
}  // namespace kmeans
