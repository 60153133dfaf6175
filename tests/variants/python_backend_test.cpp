// SPDX-License-Identifier: Apache-2.0
#include "harness/variants/python_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "datasets/points.h"
#include "harness/machine/gpu.h"
#include "harness/support/python_process.h"
#include "tests/support/message_of.h"
#include "tests/support/scoped.h"

namespace kmeans {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

/// A folder of its own for each test, with the variants that the test writes into it.
class PythonBackend : public testing::Test {
 protected:
  void SetUp() override { location_ = find_python(); }

  /// The interpreter with numpy, without which no variant can be served.
  [[nodiscard]] std::string why_no_numpy() const {
    for (const auto& variant : describe_python_variants(location_)) {
      if (variant.traits.name == "python_numpy") return variant.available.reason;
    }
    return "implementations/python/python_numpy.py is not there";
  }

  void write(const std::string& file, const std::string& text) const {
    std::ofstream(folder_ / file) << text;
  }

  void write_program(const std::string& file, const std::string& text) const {
    write(file, text);
    fs::permissions(folder_ / file, fs::perms::owner_all);
  }

  [[nodiscard]] PythonLocation here() const {
    return {location_.interpreter, location_.worker, folder_.string()};
  }

  /// A variant that returns its points as they are, except that `step` runs the given statement.
  void write_variant(const std::string& name, const std::string& step_statement,
                     const std::string& traits = "'summary': 'for a test'") const {
    write(name + ".py", "import contract\nTRAITS = {" + traits + "}\n" +
                            "class Odd(contract.Variant):\n"
                            "    def setup(self, points, k, threads):\n"
                            "        import numpy\n"
                            "        self.labels = numpy.zeros(len(points), dtype=numpy.int64)\n"
                            "    def reset(self, centroids):\n"
                            "        self.centroids = centroids\n"
                            "    def step(self, iterations):\n"
                            "        " +
                            step_statement +
                            "\n"
                            "    def fetch(self):\n"
                            "        return self.centroids, self.labels\n");
  }

  PythonLocation location_;
  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

/// Points of three groups on a coarse grid, far from any tie.
template <class T>
struct Sample {
  static constexpr std::int64_t kN = 301;
  static constexpr std::int64_t kD = 7;
  static constexpr std::int64_t kK = 3;
  std::vector<T> points;
  std::vector<T> centroids;

  Sample() {
    for (std::int64_t i = 0; i < kN; ++i) {
      for (std::int64_t t = 0; t < kD; ++t) {
        const auto noise = static_cast<double>((i * 37 + t * 11 + i * t) % 19) / 19.0;
        points.push_back(static_cast<T>(static_cast<double>(20 * (i % kK)) + noise));
      }
    }
    centroids.assign(points.begin(), points.begin() + kK * kD);
  }
  [[nodiscard]] Problem<T> problem(Precision precision) const {
    return {.shape = {kN, kD, kK, precision}, .points = points.data(), .max_abs = 41};
  }
};

template <class T>
struct Answered {
  std::vector<T> centroids;
  std::vector<std::int32_t> labels;
};

template <class T>
Answered<T> fetch(Variant<T>& variant) {
  Answered<T> outcome{std::vector<T>(Sample<T>::kK * Sample<T>::kD),
                      std::vector<std::int32_t>(Sample<T>::kN, -1)};
  variant.fetch(outcome.centroids.data(), outcome.labels.data());
  return outcome;
}

Answered<float> reference_outcome(std::int64_t iterations) {
  const Sample<float> sample;
  const auto reference = require_variant("reference").factory.make_float(Precision::f32);
  reference->setup(sample.problem(Precision::f32));
  reference->reset(sample.centroids.data());
  reference->step(iterations);
  return fetch(*reference);
}

template <class T>
void expect_agreement(const RegisteredVariant& registered, Precision precision, bool from_file,
                      const fs::path& folder) {
  SCOPED_TRACE(registered.traits.name + (sizeof(T) == 4 ? " f32" : " f64"));
  const Sample<T> sample;
  auto problem = sample.problem(precision);
  if (!registered.traits.supports(problem.shape).ok) return;
  if (from_file) {
    problem.points_file = (folder / "points.npy").string();
    write_npy(problem.points_file, make_points(sample.points.data(), sample.kN, sample.kD));
  }
  std::unique_ptr<Variant<T>> variant;
  if constexpr (sizeof(T) == 4) {
    variant = registered.factory.make_float(precision);
  } else {
    variant = registered.factory.make_double(precision);
  }
  variant->setup(problem);
  variant->reset(sample.centroids.data());
  const auto begin = std::chrono::steady_clock::now();
  variant->step(4);
  const std::chrono::duration<double> call = std::chrono::steady_clock::now() - begin;
  // Far from ties and converged: labels agree whichever centroids they belong to.
  const auto expected = reference_outcome(4);
  const auto outcome = fetch(*variant);
  EXPECT_EQ(outcome.labels, expected.labels);
  for (std::size_t i = 0; i < outcome.centroids.size(); ++i) {
    // A mean of 100 coordinates of at most 41 rounds by at most 100 * 41 * 2^-24, thrice for a move
    // of the origin and back.
    EXPECT_NEAR(outcome.centroids[i], expected.centroids[i], 1e-3);
  }
  ASSERT_TRUE(variant->remote_step_seconds().has_value());
  EXPECT_GT(*variant->remote_step_seconds(), 0);
  EXPECT_LE(*variant->remote_step_seconds(), call.count());

  variant->reset(sample.centroids.data());
  variant->step(4);
  EXPECT_EQ(fetch(*variant).labels, expected.labels) << "after a second reset";

  bool knows_numpy = false;
  for (const auto& [key, value] : variant->library_info()) {
    knows_numpy = knows_numpy || (key == "numpy" && !value.empty());
  }
  EXPECT_TRUE(knows_numpy);
}

TEST_F(PythonBackend, EveryVariantAgreesWithTheReference) {
  const auto variants = describe_python_variants(location_);
  ASSERT_GE(variants.size(), 5U);
  int ran = 0;
  std::string reasons;
  for (const auto& variant : variants) {
    if (const auto available = availability(variant); !available.ok) {
      reasons += variant.traits.name + ": " + available.reason + "\n";
      continue;
    }
    ++ran;
    for (const auto precision : variant.traits.precisions) {
      if (precision == Precision::f64) {
        expect_agreement<double>(variant, precision, ran % 2 == 0, folder_);
      } else {
        expect_agreement<float>(variant, precision, ran % 2 == 1, folder_);
      }
    }
  }
  if (ran == 0) GTEST_SKIP() << reasons;
}

TEST_F(PythonBackend, DescribesVariantsWithTheirTraits) {
  if (location_.interpreter.empty()) GTEST_SKIP() << "there is no Python interpreter";
  write_variant("python_described", "pass",
                "'summary': 'an idea', 'precisions': ['f64', 'f32'], 'distance': 'expanded', "
                "'labels_of': 'returned', 'empty_clusters': 'relocate', 'skips_work': True, "
                "'memory_bytes': {'n*k*scalar': 2, '1': 5}, "
                "'limits': [{'terms': {'k': 1, 'n': -1}, 'at_most': -1, 'reason': 'k = n'}]");
  const auto variants = describe_python_variants(here());
  ASSERT_EQ(variants.size(), 1U);
  const auto& traits = variants[0].traits;
  EXPECT_TRUE(variants[0].available.ok) << variants[0].available.reason;
  EXPECT_EQ(variants[0].backend, "python");
  EXPECT_EQ(traits.name, "python_described");
  EXPECT_EQ(traits.summary, "an idea");
  EXPECT_EQ(traits.precisions, (std::vector{Precision::f64, Precision::f32}));
  EXPECT_EQ(traits.distance, Distance::expanded);
  EXPECT_EQ(traits.labels_of, LabelsOf::returned);
  EXPECT_EQ(traits.empty_clusters, EmptyClusters::relocate);
  EXPECT_TRUE(traits.skips_work);
  EXPECT_TRUE(traits.supports({.n = 4, .d = 1, .k = 3}).ok);
  EXPECT_EQ(traits.supports({.n = 4, .d = 1, .k = 4}).reason, "k = n");
  // Only what depends on the scalar: 2 n k + n d + k d scalars of 4 bytes more.
  const double difference =
      traits.memory_bytes({.n = 1000, .d = 3, .k = 10, .precision = Precision::f64}, 1) -
      traits.memory_bytes({.n = 1000, .d = 3, .k = 10, .precision = Precision::f32}, 1);
  EXPECT_DOUBLE_EQ(difference, 4.0 * (2 * 1000 * 10 + 1000 * 3 + 10 * 3));
  EXPECT_FALSE(traits.gpu);
  EXPECT_FALSE(traits.device_bytes) << "no terms: the harness's own estimate";
}

TEST_F(PythonBackend, DescribesGpuVariants) {
  if (location_.interpreter.empty()) GTEST_SKIP() << "there is no Python interpreter";
  write_variant("python_device", "pass",
                "'summary': 'x', 'gpu': True, 'many_gpus': True, 'precisions': ['f32', 'f16'], "
                "'device_bytes': {'n*d*scalar': 1.5, 'k': 2, '1': 7}, "
                "'limits': [{'terms': {'k': 1}, 'multiple_of': 128, 'precisions': ['f16'], "
                "'reason': 'tiles'}, {'terms': {'d': 1}, 'at_most': 64, 'reason': 'd'}]");
  write_variant("python_lacking", "pass",
                "'summary': 'x', 'gpu': True, 'requires': ['no-such-distribution']");
  const auto variants = describe_python_variants(here());
  ASSERT_EQ(variants.size(), 2U);
  const auto& traits = variants[0].traits;
  EXPECT_TRUE(variants[0].available.ok) << variants[0].available.reason;
  EXPECT_TRUE(traits.gpu);
  EXPECT_TRUE(traits.many_gpus);
  EXPECT_FALSE(variants[1].traits.many_gpus);
  ASSERT_TRUE(traits.device_bytes);
  EXPECT_DOUBLE_EQ(traits.device_bytes({.n = 10, .d = 3, .k = 5}), 1.5 * 10 * 3 * 4 + 2 * 5 + 7);
  const auto supports = [&](std::int64_t d, std::int64_t k, Precision precision) {
    return traits.supports({.n = 1000, .d = d, .k = k, .precision = precision}).reason;
  };
  EXPECT_EQ(supports(64, 256, Precision::f16), "");
  EXPECT_EQ(supports(64, 200, Precision::f16), "tiles");
  EXPECT_EQ(supports(64, 200, Precision::f32), "");
  EXPECT_EQ(supports(65, 200, Precision::f32), "d");
  EXPECT_TRUE(variants[1].traits.gpu);
  EXPECT_THAT(variants[1].available.reason, HasSubstr("lacks no-such-distribution"));
  EXPECT_THAT(variants[1].available.reason, HasSubstr("requirements-gpu.txt"));
}

TEST_F(PythonBackend, APluginIsNotGivenSeveralGpus) {
  if (location_.interpreter.empty()) GTEST_SKIP() << "there is no Python interpreter";
  write_variant("python_many", "pass", "'summary': 'x', 'gpu': True, 'many_gpus': True");
  auto location = here();
  location.plugin = (folder_ / "python_many.py").string();
  const auto variant = describe_plugin(location, "python_many");
  EXPECT_FALSE(variant.available.ok);
  EXPECT_FALSE(variant.traits.many_gpus);
  EXPECT_THAT(variant.available.reason, HasSubstr("several GPUs, which plugins are not given"));
}

TEST_F(PythonBackend, NamesTheCuvsThatHasSeveralGpus) {
  if (location_.interpreter.empty()) GTEST_SKIP() << "there is no Python interpreter";
  for (const auto& variant : describe_python_variants(location_)) {
    if (variant.traits.name != "python_cuvs_mg") continue;
    EXPECT_TRUE(variant.traits.many_gpus);
    if (!variant.available.ok) {
      EXPECT_THAT(variant.available.reason,
                  HasSubstr("cuvs-cu13 26.8 or newer has cuvs.cluster.mg"));
    }
    return;
  }
  FAIL() << "it is not listed";
}

TEST_F(PythonBackend, ListsTheGpuPeers) {
  if (location_.interpreter.empty()) GTEST_SKIP() << "there is no Python interpreter";
  int peers = 0;
  for (const auto& variant : describe_python_variants(location_)) {
    if (!variant.traits.gpu) continue;
    ++peers;
    EXPECT_TRUE(variant.traits.device_bytes) << variant.traits.name;
    EXPECT_TRUE(variant.available.ok ||
                variant.available.reason.find("requirements-gpu.txt") != std::string::npos)
        << variant.available.reason;
  }
  EXPECT_GE(peers, 3);
}

TEST_F(PythonBackend, ABrokenFileDoesNotTakeTheOthersWithIt) {
  if (location_.interpreter.empty()) GTEST_SKIP() << "there is no Python interpreter";
  write_variant("python_good", "pass");
  write("python_syntax.py", "def broken(:\n");
  write_variant("python_typo", "pass", "'sumary': 'x'");
  write_variant("python_needy", "pass", "'summary': 'x', 'requires': ['no-such-distribution']");
  write("python_BadName.py", "");
  const auto variants = describe_python_variants(here());
  ASSERT_EQ(variants.size(), 4U);
  EXPECT_TRUE(variants[0].available.ok);
  EXPECT_THAT(variants[1].available.reason, HasSubstr("lacks no-such-distribution"));
  EXPECT_THAT(variants[2].available.reason, HasSubstr("SyntaxError"));
  EXPECT_THAT(variants[3].available.reason, HasSubstr("did you mean 'summary'?"));
}

TEST_F(PythonBackend, WithoutAnInterpreterVariantsAreListedByFile) {
  write("python_a.py", "");
  write("helper.py", "");
  auto location = here();
  location.interpreter = "";
  location.missing = "nobody installed one";
  const auto variants = describe_python_variants(location);
  ASSERT_EQ(variants.size(), 1U);
  EXPECT_EQ(variants[0].traits.name, "python_a");
  EXPECT_FALSE(variants[0].traits.summary.empty());
  EXPECT_FALSE(variants[0].available.ok);
  EXPECT_EQ(variants[0].available.reason, "nobody installed one");

  location.interpreter = (folder_ / "missing").string();
  EXPECT_THAT(describe_python_variants(location)[0].available.reason,
              HasSubstr("No such file or directory"));
  location.folder = (folder_ / "nowhere").string();
  EXPECT_TRUE(describe_python_variants(location).empty());
}

TEST_F(PythonBackend, AnInterpreterThatIsNoneGivesAReason) {
  write("python_a.py", "");
  auto location = here();
  const auto reason_of = [&](const std::string& program) {
    write_program("interpreter", "#!/bin/sh\n" + program + "\n");
    location.interpreter = (folder_ / "interpreter").string();
    const auto variants = describe_python_variants(location);
    return variants.size() == 1 ? variants[0].available.reason : "not one variant";
  };
  EXPECT_THAT(reason_of("echo starting; echo 'No module named x' >&2; exit 3"),
              HasSubstr("ended with exit code 3: No module named x"));
  // The descriptor to answer on is the sixth argument.
  EXPECT_THAT(reason_of("eval \"printf '\\377{garbage' >&$6\""),
              HasSubstr("is not a description: '\xEF\xBF\xBD{garbage'"));
  EXPECT_THAT(reason_of("eval \"echo '{\\\"variants\\\": [3]}' >&$6\""),
              HasSubstr("interpreter cannot be used: "));
  EXPECT_THAT(reason_of("eval \"echo '{\\\"variants\\\": []}' >&$6\""),
              HasSubstr("did not describe it"));
  EXPECT_THAT(reason_of("kill -9 $$"), HasSubstr("signal 9"));
}

class PythonFaults : public PythonBackend {
 protected:
  void SetUp() override {
    PythonBackend::SetUp();
    if (const auto reason = why_no_numpy(); !reason.empty()) GTEST_SKIP() << reason;
  }

  /// Set up and reset, ready for its first step.
  std::unique_ptr<Variant<float>> ready(const std::string& step_statement) {
    write_variant("python_odd", step_statement);
    auto variant = make_python_variant<float>(here(), "python_odd", Precision::f32);
    variant->setup(sample_.problem(Precision::f32));
    variant->reset(sample_.centroids.data());
    return variant;
  }

  static std::string message_of(const std::function<void()>& action) {
    return test::message_of<std::runtime_error>(action);
  }

  Sample<float> sample_;
};

TEST_F(PythonFaults, AnExceptionTellsTypeMessageAndLine) {
  const auto variant = ready("raise ValueError('no such luck')");
  const auto message = message_of([&] { variant->step(1); });
  EXPECT_THAT(message, HasSubstr("python_odd: ValueError in step: no such luck"));
  EXPECT_THAT(message, HasSubstr("python_odd.py:10: raise ValueError"));
  EXPECT_FALSE(variant->remote_step_seconds().has_value());
  variant->reset(sample_.centroids.data());  // the process is still there
  EXPECT_EQ(fetch(*variant).centroids, sample_.centroids);
}

TEST_F(PythonFaults, AVariantKnowsHowManyGpusAreInUse) {
  for (const int gpus : {1, 2}) {
    if (gpus > 1 && !problem_with_gpus(gpus).empty()) break;  // on a machine with two
    use_gpus(gpus);
    const auto variant = ready("raise ValueError(f'{self.gpus} in use')");
    EXPECT_THAT(message_of([&] { variant->step(1); }), HasSubstr(std::to_string(gpus) + " in use"));
    use_gpus(1);
  }
}

TEST_F(PythonFaults, SecondsOfADeviceClockArePassedOn) {
  const auto without = ready("pass");
  without->step(1);
  EXPECT_FALSE(without->remote_device_seconds().has_value());

  // Its clock counts if the step ran between begin and end.
  write_variant("python_clocked", "self.stepped = self.begun; assert iterations != 13");
  std::ofstream(folder_ / "python_clocked.py", std::ios::app)
      << "    def device_clock(self):\n"
         "        return Clock(self)\n"
         "class Clock(contract.DeviceClock):\n"
         "    def __init__(self, variant):\n"
         "        self.variant = variant\n"
         "    def begin(self):\n"
         "        self.variant.begun, self.variant.stepped = True, False\n"
         "    def end(self):\n"
         "        return 0.125 if self.variant.stepped else -1.0\n";
  const auto variant = make_python_variant<float>(here(), "python_clocked", Precision::f32);
  variant->setup(sample_.problem(Precision::f32));
  variant->reset(sample_.centroids.data());
  variant->step(2);
  ASSERT_TRUE(variant->remote_device_seconds().has_value());
  EXPECT_EQ(*variant->remote_device_seconds(), 0.125);
  EXPECT_NE(message_of([&] { variant->step(13); }), "");
  EXPECT_FALSE(variant->remote_device_seconds().has_value()) << "of the step before";
}

TEST_F(PythonFaults, SystemExitIsAnErrorToo) {
  const auto variant = ready("raise SystemExit(0)");
  EXPECT_THAT(message_of([&] { variant->step(1); }), HasSubstr("SystemExit in step"));
}

TEST_F(PythonFaults, ADeadProcessIsReportedWithItsSignalOrExitCode) {
  const auto killed = ready("import os, signal; os.kill(os.getpid(), signal.SIGKILL)");
  EXPECT_THAT(message_of([&] { killed->step(1); }), HasSubstr("signal 9 (Killed) in step"));
  EXPECT_THAT(message_of([&] { killed->step(1); }), HasSubstr("has ended"));
  const auto left = ready("import os; os._exit(5)");
  EXPECT_THAT(message_of([&] { left->step(1); }), HasSubstr("exit code 5 in step"));
}

TEST_F(PythonFaults, WhatALibraryPrintsDisturbsNothing) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();  // where the process writes, from its start
  const auto variant = ready("print('{\"ok\": false}')");
  variant->step(1);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("{\"ok\": false}"));
  EXPECT_TRUE(variant->remote_step_seconds().has_value());
}

TEST_F(PythonFaults, TheClockIsAroundTheStepAlone) {
  const auto variant = ready("import time; time.sleep(0.05); return 1");
  variant->step(3);
  EXPECT_GE(variant->remote_step_seconds().value(), 0.05);
  EXPECT_EQ(variant->executed_iterations(), 1);
}

TEST_F(PythonFaults, AResetCollectsGarbageOfStepsAndPassesOverLibraries) {
  const auto variant = ready(
      "import gc, weakref; assert gc.get_freeze_count() > 1000; "
      "assert getattr(self, 'last', lambda: None)() is None; "
      "last = type('InACircle', (), {})(); last.me = last; self.last = weakref.ref(last); return "
      "1");
  variant->step(1);
  variant->reset(sample_.centroids.data());
  variant->step(1);
  EXPECT_EQ(variant->executed_iterations(), 1);
}

TEST_F(PythonFaults, ResultsOfAWrongShapeAreRefused) {
  const auto variant = ready("self.labels = self.labels[1:]");
  variant->step(1);
  EXPECT_THAT(message_of([&] { fetch(*variant); }),
              HasSubstr("labels (300,), not (3, 7) and (301,)"));
}

TEST_F(PythonFaults, AFileOfOtherPointsIsRefused) {
  write_variant("python_odd", "pass");
  auto problem = sample_.problem(Precision::f32);
  problem.points_file = (folder_ / "points.npy").string();
  write_npy(problem.points_file, make_points(sample_.points.data(), 10, sample_.kD));
  const auto variant = make_python_variant<float>(here(), "python_odd", Precision::f32);
  EXPECT_THAT(message_of([&] { variant->setup(problem); }),
              HasSubstr("points of shape (10, 7), not float32 (301, 7)"));
  problem.points_file = (folder_ / "none.npy").string();
  EXPECT_THAT(message_of([&] { variant->setup(problem); }),
              HasSubstr("FileNotFoundError in setup"));
}

TEST_F(PythonFaults, PointsCannotBeWrittenTo) {
  write("python_odd.py",
        "import contract\nTRAITS = {'summary': 'x'}\n"
        "class Odd(contract.Variant):\n"
        "    def setup(self, points, k, threads):\n"
        "        points[0] = 1\n"
        "    def reset(self, centroids): pass\n"
        "    def step(self, iterations): pass\n"
        "    def fetch(self): pass\n");
  const auto variant = make_python_variant<float>(here(), "python_odd", Precision::f32);
  EXPECT_THAT(message_of([&] { variant->setup(sample_.problem(Precision::f32)); }),
              HasSubstr("read-only"));
}

TEST_F(PythonFaults, TheProcessDoesNotOutliveItsProxy) {
  auto variant = ready("open(__file__ + '.pid', 'w').write(str(__import__('os').getpid()))");
  variant->step(1);
  pid_t id = 0;
  std::ifstream(folder_ / "python_odd.py.pid") >> id;
  ASSERT_GT(id, 1);
  EXPECT_EQ(kill(id, 0), 0);
  variant.reset();
  EXPECT_EQ(kill(id, 0), -1);
}

TEST(FindPython, AnInterpreterAskedForByNameHasNoSubstitute) {
  const test::ScopedVariable named("KMEANS_BENCH_PYTHON", "/no/such/python");
  const auto location = find_python();
  EXPECT_EQ(location.interpreter, "");
  EXPECT_THAT(location.missing, HasSubstr("'/no/such/python', which is not a program"));
}

TEST(FindExecutable, LooksOnThePathAndAtPaths) {
  EXPECT_EQ(find_executable("/bin/sh"), "/bin/sh");
  EXPECT_THAT(find_executable("sh"), HasSubstr("/sh"));
  EXPECT_EQ(find_executable("/etc/passwd"), "") << "not executable";
  EXPECT_EQ(find_executable("/"), "") << "a folder";
  EXPECT_EQ(find_executable("no-such-program-of-this-name"), "");
}

TEST(DiscoverPythonVariants, AddsThemToTheRegistryOnce) {
  discover_python_variants();
  const auto count = all_variants().size();
  discover_python_variants();
  EXPECT_EQ(all_variants().size(), count);
  const auto* variant = find_variant("python_numpy");
  ASSERT_NE(variant, nullptr);
  EXPECT_EQ(variant->backend, "python");
  EXPECT_TRUE(takes(variant->traits, Precision::f64));
}

}  // namespace
}  // namespace kmeans
