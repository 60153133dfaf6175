// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "datasets/dataset.h"
#include "harness/commands/commands.h"
#include "tests/datasets/test_tools.h"

namespace kmeans {
namespace {

using test::message_of;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

int run_program(std::vector<std::string> arguments) {
  CLI::App app;
  std::function<int()> action;
  add_data_command(app, action);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them last first
  app.parse(arguments);
  return action();
}

std::string output_of(const std::vector<std::string>& arguments) {
  ::testing::internal::CaptureStdout();
  const int code = run_program(arguments);
  auto text = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, kExitOk) << text;
  return text;
}

TEST(DataCommand, GeneratesAndInspects) {
  const TemporaryFolder folder;
  const std::string file = (folder / "u.npy").string();
  output_of({"data", "uniform", "--n", "3", "--d", "2", "--out", file, "--precision", "f64"});
  EXPECT_THAT(output_of({"data", "inspect", file}),
              AllOf(HasSubstr("n       3\nd       2\nscalar  f64\nmin     0.35901266185210323\n"),
                    HasSubstr("4005c9ce416f2fe7cded6ff2200eb95b19afa753b282e4c0c687537068e6bffb")));
}

TEST(DataCommand, InspectsCsvWithLabels) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.csv", "1,2,x\n3,4,y\n");
  EXPECT_THAT(output_of({"data", "inspect", file.string(), "--drop-last", "1"}),
              HasSubstr("d       2"));
}

TEST(DataCommand, ListsEveryGeneratorWithItsParameters) {
  EXPECT_THAT(output_of({"data", "--list"}),
              AllOf(HasSubstr("globular: "), HasSubstr("--sigma"), HasSubstr("zhihu2023: "),
                    HasSubstr("digits: "), HasSubstr("photograph: "), HasSubstr("--picture")));
}

// A source of float64 that stands in for scikit-learn, and a tree without a catalogue to hold it
// to.
TEST(DataCommand, WritesThePrecisionOfTheSourceOrSaysThatItRounds) {
  const TemporaryFolder folder;
  const std::vector<double> source{0.1, 0.2, 0.3, 0.4};
  write_npy(folder / "source.npy", make_points(source.data(), 2, 2));
  const auto python =
      folder.write("python", "#!/bin/sh\ncp '" + (folder / "source.npy").string() + "' \"$4\"\n");
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  const auto said = [&](const std::string& name, const std::string& options) {
    const std::string command =
        "KMEANS_BENCH_ROOT='" + folder.path().string() + "' KMEANS_BENCH_CACHE='" +
        (folder / "cache").string() + "' KMEANS_BENCH_PYTHON='" + python.string() + "' '" +
        KMEANS_BENCH_PROGRAM + "' data " + options + " --out '" + (folder / name).string() +
        "' > '" + (folder / "out").string() + "' 2> '" + (folder / "err").string() + "'";
    EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), kExitOk);
    return test::content_of(folder / "err");
  };
  EXPECT_EQ(said("a.npy", "zhihu2023"), "");
  const Points as_made = load_points(folder / "a.npy");
  ASSERT_EQ(as_made.scalar(), ScalarType::f64);
  EXPECT_EQ(test::values_of<double>(as_made), source);
  EXPECT_EQ(said("b.npy", "zhihu2023 --precision f64"), "");
  EXPECT_EQ(load_points(folder / "b.npy").scalar(), ScalarType::f64);
  EXPECT_THAT(said("c.npy", "zhihu2023 --precision f32"),
              HasSubstr("the source of zhihu2023 is float64; these points are rounded to float32"));
  EXPECT_EQ(load_points(folder / "c.npy").scalar(), ScalarType::f32);
  // What is generated here has no precision of its own.
  EXPECT_EQ(said("d.npy", "uniform --n 3 --d 2"), "");
  EXPECT_EQ(load_points(folder / "d.npy").scalar(), ScalarType::f32);
}

// In a process of its own: a program reads its catalogue once.
TEST(DataCommand, WrongCatalogueIsNoticed) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "datasets");
  folder.write("datasets/catalogue.json",
               R"({"entries": [{"spec": {"generator": "uniform", "n": 3, "d": 2}, "scalar": "f64",
                   "sha256": "4005c9ce416f2fe7cded6ff2200eb95b19afa753b282e4c0c687537068e6bffb"},
                  {"spec": {"generator": "uniform", "n": 3, "d": 2}, "scalar": "f32",
                   "sha256": "4005c9ce416f2fe7cded6ff2200eb95b19afa753b282e4c0c687537068e6bffb"}]})");
  const std::string command = "KMEANS_BENCH_ROOT='" + folder.path().string() + "' '" +
                              KMEANS_BENCH_PROGRAM + "' data --catalogue > '" +
                              (folder / "out").string() + "'";
  const int status = std::system(command.c_str());
  EXPECT_EQ(WEXITSTATUS(status), kExitUnusableEnvironment);
  const auto text = test::content_of(folder / "out");
  EXPECT_THAT(text, HasSubstr("uniform-3x2-s1 f64"));
  EXPECT_THAT(text, HasSubstr("WRONG: SHA-256 a2713fbbe944"));
  EXPECT_THAT(text, HasSubstr("1 of 2 catalogue entries are right, 1 wrong, 0 skipped"));
}

TEST(DataCommand, Refusals) {
  const auto refusal = [](std::vector<std::string> arguments) {
    return message_of([&] { run_program(std::move(arguments)); });
  };
  EXPECT_THAT(refusal({"data"}), HasSubstr("name a generator"));
  EXPECT_THAT(refusal({"data", "uniform", "--n", "3", "--d", "2"}), HasSubstr("--out FILE.npy"));
  EXPECT_THAT(refusal({"data", "unifrom", "--n", "3", "--d", "2", "--out", "x"}),
              HasSubstr("did you mean 'uniform'"));
  EXPECT_THAT(refusal({"data", "uniform", "--n", "3.5", "--d", "2", "--out", "x"}),
              HasSubstr("3.5 must be an integer"));
  EXPECT_THAT(refusal({"data", "uniform", "--n", "many", "--d", "2", "--out", "x"}),
              HasSubstr("\"many\" must be an integer"));
  EXPECT_THAT(refusal({"data", "uniform", "--n", "3", "--d", "2", "--sigma", "2", "--out", "x"}),
              HasSubstr("/sigma: unknown key of generator 'uniform'"));
  EXPECT_THAT(refusal({"data", "blobs", "--n", "3", "--d", "2", "--sgima", "2", "--out", "x"}),
              HasSubstr("unknown option '--sgima'; did you mean '--sigma'"));
  EXPECT_THAT(refusal({"data", "inspect", "/no/such/file.npy"}), HasSubstr("cannot be opened"));
}

}  // namespace
}  // namespace kmeans
