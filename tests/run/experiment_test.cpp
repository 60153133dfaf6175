// SPDX-License-Identifier: Apache-2.0
#include "harness/run/experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/support/process.h"
#include "tests/support/message_of.h"
#include "tests/support/scoped.h"

namespace kmeans {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

json minimal() {
  return json::parse(R"({
    "name": "demo",
    "title": "Demo",
    "data": {"generator": "uniform", "seed": 1},
    "init": "random:1",
    "variants": ["reference"],
    "scales": {"quick": {"sweep": {"n": [100, 200], "d": [2], "k": [3, 5]}}}
  })");
}

Experiment parse(const json& value) {
  return parse_experiment(parse_json(value.dump(1), "demo.json"));
}

std::string refusal(const std::string& text) {
  return test::message_of([&] { parse_experiment(parse_json(text, "demo.json")); });
}

std::string refusal(const json& value) { return refusal(value.dump(1)); }

/// The minimal experiment with one value replaced or added.
std::string refusal_with(const char* pointer, const json& value) {
  json changed = minimal();
  changed[json::json_pointer(pointer)] = value;
  return refusal(changed);
}

TEST(StrictJson, ErrorsTellFileLineAndColumn) {
  const auto message = [](const std::string& text) {
    return test::message_of([&] { parse_json(text, "x.json"); });
  };
  EXPECT_THAT(message("{\n  \"a\": 1,\n  \"b\": ]\n}"), StartsWith("x.json:3:8: "));
  EXPECT_THAT(message(""), StartsWith("x.json:1:1: "));
  EXPECT_THAT(message("{} x"), StartsWith("x.json:1:4: "));
  EXPECT_THAT(message("[1,\n 2,\n"), StartsWith("x.json:"));
  EXPECT_THAT(message("{\"a\": NaN}"), StartsWith("x.json:1:"));
  EXPECT_THAT(message("// no comments\n{}"), StartsWith("x.json:1:"));
  EXPECT_THAT(message("[1e999]"), StartsWith("x.json:1:"));
  EXPECT_THAT(message("[\"\xff\"]"), StartsWith("x.json:1:"));
}

TEST(StrictJson, RefusesDuplicateKeys) {
  const char* text = "{\"a\": {\"b\": 1},\n \"c\": {\"d\": 1,\n  \"d\": 2}}";
  EXPECT_THAT(test::message_of([&] { parse_json(text, "x.json"); }),
              StartsWith("x.json:3:3: key \"d\""));
  // The same key in two objects, and in a list of objects, is not a duplicate.
  EXPECT_NO_THROW(parse_json(R"([{"a": 1}, {"a": {"a": 2}}])", "x.json"));
}

TEST(StrictJson, CapsDepthAndSize) {
  EXPECT_NO_THROW(parse_json(std::string(32, '[') + std::string(32, ']'), "x.json"));
  EXPECT_THROW(parse_json(std::string(33, '[') + std::string(33, ']'), "x.json"), InputError);
  EXPECT_THROW(parse_json(std::string(100000, '['), "x.json"), InputError);
  EXPECT_THROW(parse_json("[" + std::string(200, ' ') + "]", "x.json", {100, 32}), InputError);
}

TEST(StrictJson, KnowsWhereValuesStand) {
  const auto document = parse_json("{\n  \"a\": [\n    1,\n    {\"b\": 2}\n  ]\n}", "x.json");
  EXPECT_EQ(document.where(""), "x.json:1:1");
  EXPECT_EQ(document.where("/a"), "x.json:2:3");
  EXPECT_EQ(document.where("/a/0"), "x.json:3:5");
  EXPECT_EQ(document.where("/a/1"), "x.json:4:5");
  EXPECT_EQ(document.where("/a/1/b"), "x.json:4:6");
  EXPECT_EQ(document.where("/a/1/missing"), "x.json:4:5");
  EXPECT_EQ(document.value, json::parse(R"({"a": [1, {"b": 2}]})"));
}

TEST(StrictJson, PlacesAreWhereTokensBegin) {
  // Every kind of value before every kind, with blanks and without.
  const std::string values[] = {"17", "\"a,]\"", "true", "null", "-1.5e3", "[]", "{}", "[1,[2]]"};
  for (const auto& first : values) {
    for (const auto& second : values) {
      for (const char* between : {",", " ,\n  "}) {
        const std::string text = "[" + first + between + second + "]";
        const auto document = parse_json(text, "x");
        EXPECT_EQ(document.offset.at("/0"), 1U) << text;
        EXPECT_EQ(document.offset.at("/1"), 1 + first.size() + std::string(between).size()) << text;
      }
    }
  }
}

TEST(StrictJson, AgreesWithTheLibraryOnGoodText) {
  const std::string text =
      R"({"a": [1, -2, 3.5, true, null, "x\u00e4\n", {}, []], "b~/": {"c": 1}})";
  EXPECT_EQ(parse_json(text, "x").value, json::parse(text));
}

TEST(Experiment, ReadsAllOfIt) {
  json value = minimal();
  value["scales"]["paper"] = json::parse(R"({
    "sweep": [{"n": 1000, "d": 2, "k": 7}], "iterations": 300, "processes": 5, "repetitions": 4,
    "min_seconds": 0.1, "max_seconds": 60, "timeout_seconds": 900,
    "variants": [{"variant": "reference", "precision": "f32", "threads": 2}]})");
  value["traces"] = json::parse(R"([
    {"name": "path", "variant": "reference", "n": 50, "d": 2, "k": 4, "iterations": 3,
     "init": "rows:1,3,6,8", "scales": ["paper"],
     "expected": {"inertia": [3, 2, 1], "relative_tolerance": 1e-9, "labels_begin": [0, 3]}}])");
  value["published"] = json::parse(R"([
    {"label": "CPU", "quantity": "total_seconds", "value": 1.5, "machine": "a", "where": "1"}])");
  value["figures"] = json::parse(R"([{"id": "time", "kind": "time", "title": "Time", "x": "n"}])");
  const Experiment experiment = parse(value);
  EXPECT_EQ(experiment.name, "demo");
  const Scale& quick = experiment.scale("quick");
  ASSERT_EQ(quick.shapes.size(), 4U);
  EXPECT_EQ(quick.shapes[1].n, 100);
  EXPECT_EQ(quick.shapes[1].k, 5);
  EXPECT_EQ(quick.shapes[2].n, 200);
  EXPECT_EQ(quick.iterations, 10);
  EXPECT_EQ(quick.sampling.processes, 3);
  EXPECT_EQ(quick.sampling.timeout_seconds, 300);
  const Scale& paper = experiment.scale("paper");
  EXPECT_EQ(paper.iterations, 300);
  EXPECT_EQ(paper.sampling.repetitions, 4);
  EXPECT_EQ(paper.sampling.max_seconds, 60);
  EXPECT_EQ(paper.variants.at(0).threads, 2);
  ASSERT_EQ(experiment.traces.size(), 1U);
  EXPECT_EQ(experiment.traces[0].init, "rows:1,3,6,8");
  EXPECT_THAT(experiment.traces[0].scales, ElementsAre("paper"));
  EXPECT_TRUE(experiment.traces[0].keep_centroids);
}

TEST(Experiment, RefusesUnknownKeysWithTheNearest) {
  json value = minimal();
  value["scales"]["quick"]["iteration"] = 5;
  const std::string message = refusal(value);
  EXPECT_THAT(message, StartsWith("demo.json:"));
  EXPECT_THAT(message, HasSubstr("/scales/quick/iteration: unknown key"));
  EXPECT_THAT(message, HasSubstr("did you mean 'iterations'?"));
  EXPECT_THAT(refusal_with("/scales/papre", 5), HasSubstr("did you mean 'paper'?"));
  // Nothing is near: all that there are.
  EXPECT_THAT(refusal_with("/colour", 1),
              EndsWith("/colour: unknown key; known: $schema, name, title, description, source, "
                       "data, init, variants, baseline, scales, traces, studies, fits, "
                       "published, claims, figures"));
}

TEST(Experiment, TellsTheLineOfAFault) {
  const std::string text =
      "{\n\"name\": \"demo\",\n\"title\": \"x\",\n\"data\": {\"generator\": \"uniform\"},\n"
      "\"init\": \"first\",\n\"variants\": [\"reference\"],\n"
      "\"scales\": {\"quick\": {\n\"sweep\": {\"n\": [10], \"d\": [2],\n\"k\": [2.5]}}}}";
  EXPECT_THAT(refusal(text), StartsWith("demo.json:9:"));
  EXPECT_THAT(refusal(text), HasSubstr("/scales/quick/sweep/k/0: 2.5 must be an integer"));
}

TEST(Experiment, RefusesWrongTypesAndRanges) {
  const char* const k = "/scales/quick/sweep/k";
  EXPECT_THAT(refusal_with(k, "ten"), HasSubstr("\"ten\" must be a list"));
  EXPECT_THAT(refusal_with(k, {"ten"}), HasSubstr("\"ten\" must be an integer"));
  EXPECT_THAT(refusal_with(k, {nullptr}), HasSubstr("null must be an integer"));
  EXPECT_THAT(refusal_with("/scales/quick/max_seconds", {1}), HasSubstr("[1] must be a number"));
  EXPECT_THAT(refusal_with("/data", "uniform"), HasSubstr("must be an object"));
  EXPECT_THAT(refusal_with(k, {0}), HasSubstr("0 is not within [1,"));
  EXPECT_THAT(refusal_with(k, {-3}), HasSubstr("-3 is not within [1,"));
  EXPECT_THAT(refusal_with(k, {18446744073709551615U}), HasSubstr("is not within [1,"));
  EXPECT_THAT(refusal_with(k, json::array()), HasSubstr("the list is empty"));
  EXPECT_THAT(refusal_with("/scales/quick/sweep/n", {0}), HasSubstr("0 is not within"));
  EXPECT_THAT(refusal_with("/scales/quick/sweep/d", {0}), HasSubstr("0 is not within"));
  EXPECT_THAT(refusal_with("/scales/quick/sweep", json::array()), HasSubstr("empty"));
  EXPECT_THAT(refusal_with("/scales/quick/sweep", 3), HasSubstr("/scales/quick/sweep"));
  EXPECT_THAT(refusal_with("/scales", json::object()), HasSubstr("names no scale"));
  EXPECT_THAT(refusal_with("/scales/quick/processes", 0), HasSubstr("0 is not within"));
  EXPECT_THAT(refusal_with("/scales/quick/max_seconds", -1), HasSubstr("-1 is not within"));
  EXPECT_THAT(refusal_with("/variants", json::array()), HasSubstr("the list is empty"));
  EXPECT_THAT(refusal_with("/title", 3), HasSubstr("3 must be a string"));
  EXPECT_THAT(refusal_with("/init", "sometimes:3"), HasSubstr("/init"));
  EXPECT_THAT(refusal_with("/data", json::object()), HasSubstr("generator"));
  EXPECT_THAT(refusal_with("/data/n", 10), HasSubstr("given by the sweep"));
  EXPECT_THAT(refusal(json::array()), HasSubstr("must be an object"));
}

TEST(Experiment, RefusesMoreClustersThanPointsInAShape) {
  EXPECT_THAT(refusal_with("/scales/quick/sweep", json::array({{{"n", 4}, {"d", 2}, {"k", 5}}})),
              HasSubstr("5 clusters of n = 4 points"));
}

TEST(Experiment, AcceptsIntegersWithAnExponent) {
  json value = minimal();
  const std::string text = value.dump();
  std::string changed = text;
  changed.replace(changed.find("[100,200]"), 9, "[1e2,2e2]");
  const auto experiment = parse_experiment(parse_json(changed, "demo.json"));
  EXPECT_EQ(experiment.scale("quick").shapes.front().n, 100);
}

TEST(Experiment, RefusesUnknownVariants) {
  const std::string message = refusal_with("/variants", {"referense"});
  EXPECT_THAT(message, HasSubstr("/variants/0: unknown variant 'referense'"));
  EXPECT_THAT(message, HasSubstr("did you mean 'reference'?"));
  EXPECT_THAT(refusal_with("/baseline", "nothing"), HasSubstr("/baseline"));
  EXPECT_THAT(
      refusal_with("/variants", json::array({{{"variant", "reference"}, {"precision", "f31"}}})),
      HasSubstr("/variants/0/precision"));
}

TEST(Experiment, RefusesNamesThatLeaveTheFolder) {
  for (const char* name :
       {"../etc", "/etc/demo", "a/b", "", ".", "..", ".hidden", "a b", "a\nb", "\xC3\xA4"}) {
    EXPECT_THAT(refusal_with("/name", name), HasSubstr("/name")) << name;
  }
  EXPECT_THAT(refusal_with("/name", std::string(101, 'a')), HasSubstr("/name"));
}

TEST(Experiment, RefusesFaultyTraces) {
  const json trace{{"name", "t"}, {"variant", "reference"}, {"n", 9}, {"d", 1},
                   {"k", 2},      {"iterations", 2}};
  EXPECT_THAT(refusal_with("/traces", {trace, trace}), HasSubstr("two traces are named \"t\""));
  json changed = trace;
  changed["expected"] = {{"inertia", {1, 2}}};
  EXPECT_THAT(refusal_with("/traces", json::array({changed})), HasSubstr("relative_tolerance"));
  changed["expected"] = {{"labels_begin", {2}}};
  EXPECT_THAT(refusal_with("/traces", json::array({changed})),
              HasSubstr("labels_begin/0: 2 is not within [0, 1]"));
  changed["expected"] = {{"inertia", {3, 2, 1}}, {"relative_tolerance", 0.1}};
  EXPECT_THAT(refusal_with("/traces", json::array({changed})), HasSubstr("more values than"));
  changed = trace;
  changed.erase("n");
  EXPECT_THAT(refusal_with("/traces", json::array({changed})), HasSubstr("lacks \"n\""));
}

TEST(Experiment, ReadsStudiesStopRulesAndIterationsOfAShape) {
  json value = minimal();
  value["scales"]["quick"]["sweep"] =
      json::parse(R"([{"n": 9, "d": 2, "k": 3, "iterations": 7}, {"n": 8, "d": 2, "k": 3}])");
  value["traces"] = json::parse(R"([{"name": "t", "variant": "reference", "n": 9, "d": 1, "k": 2,
                                     "iterations": 50, "stop": "movement:1e-6"}])");
  value["studies"] = json::parse(R"([
    {"name": "a", "study": "test_echo", "parameters": {"x": 1}, "scales": ["paper"]},
    {"name": "b", "study": "test_echo", "n": 20, "d": 3, "k": 4, "init": "random:7",
     "data": {"generator": "gaussian", "seed": 5}, "timeout_seconds": 20}])");
  const Experiment experiment = parse(value);
  EXPECT_EQ(experiment.scale("quick").shapes[0].iterations, 7);
  EXPECT_FALSE(experiment.scale("quick").shapes[1].iterations.has_value());
  EXPECT_EQ(experiment.traces[0].stop, "movement:1e-6");
  ASSERT_EQ(experiment.studies.size(), 2U);
  EXPECT_FALSE(experiment.studies[0].shape.has_value());
  EXPECT_EQ(experiment.studies[0].parameters.at("x"), 1);
  EXPECT_EQ(experiment.studies[1].shape.value().k, 4);
  EXPECT_EQ(experiment.studies[1].init, "random:7");
  EXPECT_EQ(experiment.studies[1].data.at("generator"), "gaussian");
  EXPECT_EQ(experiment.studies[1].timeout_seconds, 20);
}

TEST(Experiment, ReadsAFitForEachK) {
  json value = minimal();
  value["fits"] = json::parse(R"([
    {"name": "a", "n": 50, "d": 3, "k": [4, 8], "estimators": ["faiss", "mine/own.py"], "seeds": 12,
     "data": {"generator": "gaussian", "seed": 5}, "max_seconds": 3},
    {"name": "b", "n": 50, "d": 3, "k": 4, "estimators": ["faiss"], "from": "random",
     "iterations": 6, "scales": ["paper"], "known_inertia": 2.5}])");
  const Experiment experiment = parse(value);
  ASSERT_EQ(experiment.fits.size(), 3U);
  EXPECT_EQ(experiment.fits[0].name, "a-k4");
  EXPECT_EQ(experiment.fits[1].name, "a-k8");
  EXPECT_EQ(experiment.fits[1].shape.k, 8);
  EXPECT_EQ(experiment.fits[1].seeds, 12);
  EXPECT_EQ(experiment.fits[1].estimators[1], "mine/own.py");
  EXPECT_EQ(experiment.fits[2].from, "random");
  EXPECT_EQ(experiment.fits[2].iterations, 6);
  EXPECT_EQ(experiment.fits[2].known_inertia, 2.5);
  EXPECT_EQ(experiment.fits[2].scales, std::vector<std::string>{"paper"});
}

TEST(Experiment, CarriesWhatPythonAloneReadsUnharmed) {
  json value = minimal();
  value["published"] = json::parse(R"([{"label": "of tomorrow", "value": 1e2}])");
  value["claims"] = json::parse(R"([{"id": "c", "tests": [{"quantity": "of tomorrow"}]}])");
  value["figures"] = json::parse(R"([{"id": "a", "kind": "pie", "slices": [1, 2.5, "x"]}])");
  EXPECT_EQ(parse(value).document.value, value);
  EXPECT_THAT(refusal_with("/figures", "many"), HasSubstr("/figures: \"many\" must be a list"));
}

TEST(Experiment, ASweepMayListGridsBesideShapes) {
  json value = minimal();
  value["scales"]["quick"]["sweep"] = json::parse(R"([
    {"n": [9, 8], "d": [2], "k": [3, 4], "iterations": 2}, {"n": 5, "d": 1, "k": 1}])");
  const auto shapes = parse(value).scale("quick").shapes;
  ASSERT_EQ(shapes.size(), 5U);
  EXPECT_EQ(shapes[1].n, 9);
  EXPECT_EQ(shapes[1].k, 4);
  EXPECT_EQ(shapes[3].iterations, 2);
  EXPECT_EQ(shapes[4].n, 5);
  EXPECT_FALSE(shapes[4].iterations.has_value());
}

TEST(Experiment, RefusesFaultyStudiesAndExpectations) {
  const json study{{"name", "a"}, {"study", "test_echo"}};
  EXPECT_THAT(refusal_with("/studies", {study, study}), HasSubstr("two studies are named \"a\""));
  EXPECT_THAT(refusal_with("/studies", json::array({{{"name", "a"}, {"study", "test_ecko"}}})),
              HasSubstr("test_echo"));
  EXPECT_THAT(refusal_with("/studies", json::array({{{"name", "a"}, {"study", "test_with_data"}}})),
              HasSubstr("needs data"));
  EXPECT_THAT(
      refusal_with("/studies", json::array({{{"name", "a"}, {"study", "test_echo"}, {"k", 3}}})),
      HasSubstr("lacks \"n\""));
  const json trace{{"name", "t"}, {"variant", "reference"}, {"n", 9},        {"d", 1},
                   {"k", 2},      {"iterations", 2},        {"stop", "soon"}};
  EXPECT_THAT(refusal_with("/traces", json::array({trace})), HasSubstr("movement:E"));
  json known = trace;
  known.erase("stop");
  known["expected"] =
      json::parse(R"({"centroids": [{"iteration": 2, "values": [[1]], "absolute_tolerance": 1}]})");
  EXPECT_THAT(refusal_with("/traces", json::array({known})), HasSubstr("k lists of d numbers"));
  known["expected"]["centroids"][0]["values"] = {{1}, {2}};
  known["expected"]["centroids"][0]["iteration"] = 3;
  EXPECT_THAT(refusal_with("/traces", json::array({known})), HasSubstr("iteration"));
}

TEST(Experiment, MissingScaleNamesTheOthers) {
  EXPECT_THROW(static_cast<void>(parse(minimal()).scale("paper")), InputError);
}

TEST(LoadExperiment, NameMustBeTheStem) {
  const test::TemporaryFolder folder;
  folder.write("demo.json", minimal().dump(1));
  folder.write("other.json", minimal().dump(1));
  EXPECT_EQ(load_experiment((folder / "demo.json").string()).name, "demo");
  EXPECT_THROW(load_experiment((folder / "other.json").string()), InputError);
  EXPECT_THROW(load_experiment((folder / "absent.json").string()), InputError);
  EXPECT_THROW(load_experiment(folder.path().string()), InputError);
  EXPECT_THROW(load_experiment("no_such_experiment"), InputError);
}

TEST(LoadExperiment, TheProgramPlansEveryExperimentOfTheSuite) {
  const auto names = known_experiments();
  EXPECT_FALSE(names.empty());
  ProcessRequest request;
  request.command = {KMEANS_BENCH_PROGRAM, "run", "--dry-run"};
  request.command.insert(request.command.end(), names.begin(), names.end());
  const auto outcome = run_process(request);
  EXPECT_TRUE(outcome.succeeded()) << outcome.output;
}

TEST(WriteJson, ReplacesWholeFilesOnly) {
  const test::TemporaryFolder folder;
  write_json_file(folder / "a.json", {{"x", 1}});
  write_json_file(folder / "a.json", {{"x", std::nan("")}, {"y", "\xFF"}});
  EXPECT_EQ(read_json_file(folder / "a.json"), json({{"x", nullptr}, {"y", "\xEF\xBF\xBD"}}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  EXPECT_THROW(write_json_file(folder / "missing" / "a.json", 1), OutputError);
}

}  // namespace
}  // namespace kmeans
