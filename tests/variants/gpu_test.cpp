// SPDX-License-Identifier: Apache-2.0
//
// Choosing a GPU and saying what is wrong with it (no GPU needed), and what only a GPU can show:
// suites named Gpu... skip themselves where there is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "harness/machine/gpu.h"
#include "harness/run/experiment.h"
#include "harness/run/sweep.h"
#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/verify/session.h"
#include "tests/support/message_of.h"
#include "tests/support/scoped.h"

namespace kmeans {
namespace {

using testing::AllOf;
using testing::HasSubstr;

GpuDevice device(int index, const std::string& uuid, int major, int minor) {
  GpuDevice result;
  result.index = index;
  result.name = "Test GPU";
  result.uuid = uuid;
  result.major = major;
  result.minor = minor;
  return result;
}

TEST(DeviceChoice, MachineCodeRunsOnLaterMinorVersionsAndPtxOnEverythingNewer) {
  EXPECT_TRUE(detail::runs_on({80, 90}, 0, 8, 0));
  EXPECT_TRUE(detail::runs_on({80, 90}, 0, 8, 6));
  EXPECT_FALSE(detail::runs_on({86}, 0, 8, 0)) << "code for 8.6 does not run on 8.0";
  EXPECT_FALSE(detail::runs_on({80, 90}, 0, 10, 0)) << "nor does 9.0's on another major version";
  EXPECT_TRUE(detail::runs_on({80}, 90, 10, 0));
  EXPECT_FALSE(detail::runs_on({}, 90, 8, 9)) << "PTX for 9.0 is too new for 8.9";
  EXPECT_FALSE(detail::runs_on({}, 0, 9, 0));
}

TEST(DeviceChoice, FindsByNumberByUuidAndByItsBeginning) {
  const std::vector<GpuDevice> devices{device(0, "GPU-aa11-2233", 9, 0),
                                       device(1, "GPU-aa99-2233", 9, 0),
                                       device(2, "GPU-bb00-4455", 9, 0)};
  std::string problem;
  EXPECT_EQ(detail::find_gpu(devices, "1", problem), 1U);
  EXPECT_EQ(detail::find_gpu(devices, "GPU-bb00-4455", problem), 2U);
  EXPECT_EQ(detail::find_gpu(devices, "GPU-b", problem), 2U);
  EXPECT_EQ(detail::find_gpu(devices, "aa1", problem), 0U);
  EXPECT_EQ(problem, "");
  EXPECT_EQ(detail::find_gpu(devices, "aa", problem), std::nullopt);
  EXPECT_THAT(problem, HasSubstr("several GPUs: 0 (Test GPU, GPU-aa11-2233), 1"));
  EXPECT_EQ(detail::find_gpu(devices, "7", problem), std::nullopt);
  EXPECT_THAT(problem, HasSubstr("no GPU '7'; visible: 0 (Test GPU"));
  EXPECT_EQ(detail::find_gpu(devices, "", problem), std::nullopt);
}

TEST(DeviceChoice, SaysWhatWasFoundAndWhatIsNeeded) {
  GpuStatus status;
  status.driver_version = 12020;
  status.runtime_version = 13000;
  EXPECT_THAT(detail::device_count_problem(true, false, "", status),
              testing::AllOf(HasSubstr("supports CUDA 12.2"), HasSubstr("needs 13.0")));
  EXPECT_THAT(detail::device_count_problem(false, false, "out of luck", status),
              HasSubstr("out of luck"));
  status.built_for = {75, 90};
  status.devices = {device(0, "GPU-a", 7, 0), device(1, "GPU-b", 9, 0)};
  EXPECT_THAT(detail::problem_with(status, 0),
              testing::AllOf(HasSubstr("compute capability 7.5, 9.0;"), HasSubstr("has 7.0")));
  EXPECT_EQ(detail::problem_with(status, 1), "");
  EXPECT_EQ(detail::problem_with(status, 2), "no GPU is visible");
}

TEST(DeviceChoice, SeveralGpusMustBeThereAndAlike) {
  GpuStatus status;
  status.devices = {device(0, "GPU-a", 9, 0), device(1, "GPU-b", 9, 0), device(2, "GPU-c", 8, 0)};
  EXPECT_EQ(detail::problem_with_many(status, 2, false), "");
  EXPECT_EQ(detail::problem_with_many(status, 1, true), "");
  EXPECT_THAT(detail::problem_with_many(status, 2, true), HasSubstr("--device chooses one"));
  EXPECT_THAT(detail::problem_with_many(status, 3, false),
              AllOf(HasSubstr("must be of one kind"), HasSubstr("2 (Test GPU, GPU-c)")));
  EXPECT_THAT(detail::problem_with_many(status, 4, false),
              HasSubstr("3 visible here: 0 (Test GPU"));
  status.problem = "no GPU is visible";
  EXPECT_EQ(detail::problem_with_many(status, 2, false), "no GPU is visible");
}

/// Puts CUDA_VISIBLE_DEVICES back at the end.
class DeviceChoiceEnvironment : public testing::Test {
 protected:
  GpuStatus status_{.built = true,
                    .driver_version = 13000,
                    .runtime_version = 13000,
                    .built_for = {90},
                    .built_ptx = 0,
                    .devices = {device(0, "GPU-a", 7, 0), device(1, "GPU-b", 9, 0)},
                    .problem = "GPU 0 is too old"};

 private:
  const test::ScopedVariable unset_{"CUDA_VISIBLE_DEVICES", std::nullopt};
};

TEST_F(DeviceChoiceEnvironment, NoVisibleGpuIsToldWithTheVariable) {
  const auto problem = [&] {
    return detail::device_count_problem(false, true, "no CUDA-capable device", status_);
  };
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(problem(), "no GPU is visible");
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_EQ(problem(), "no GPU is visible (CUDA_VISIBLE_DEVICES is '')");
  setenv("CUDA_VISIBLE_DEVICES", "7,MIG-1", 1);
  EXPECT_EQ(problem(), "no GPU is visible (CUDA_VISIBLE_DEVICES is '7,MIG-1')");
  setenv("CUDA_VISIBLE_DEVICES", "a\xFF", 1);
  EXPECT_EQ(problem(), "no GPU is visible (CUDA_VISIBLE_DEVICES is 'a\xEF\xBF\xBD')");
  // Of no avail where it is the driver's fault.
  EXPECT_EQ(detail::device_count_problem(true, true, "", status_),
            "the NVIDIA driver supports CUDA 13.0, this build needs 13.0: a newer driver, or a "
            "build with an older CUDA Toolkit, would do");
  EXPECT_EQ(detail::device_count_problem(false, false, "out of luck", status_),
            "CUDA cannot be initialised: out of luck");

  // As --device gives it.
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  GpuStatus none;
  none.problem = problem();
  EXPECT_EQ(test::message_of<EnvironmentError>([&] { detail::choose_gpu(none, "0"); }),
            "--device 0: no GPU is visible (CUDA_VISIBLE_DEVICES is '')");
}

TEST_F(DeviceChoiceEnvironment, OtherProcessesSeeTheChosenGpuAlone) {
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(detail::choose_gpu(status_, "1"), 1U);
  EXPECT_STREQ(std::getenv("CUDA_VISIBLE_DEVICES"), "GPU-b");
  EXPECT_EQ(status_.problem, "") << "what was wrong with the first GPU does not matter now";
}

TEST_F(DeviceChoiceEnvironment, KeepsTheNameThatTheUserGaveAPartOfAGpu) {
  setenv("CUDA_VISIBLE_DEVICES", "MIG-1,MIG-2", 1);
  detail::choose_gpu(status_, "GPU-b");
  EXPECT_STREQ(std::getenv("CUDA_VISIBLE_DEVICES"), "MIG-2");
}

TEST_F(DeviceChoiceEnvironment, RefusesAGpuThatNoKernelFits) {
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_THAT(test::message_of<EnvironmentError>([&] { detail::choose_gpu(status_, "0"); }),
              HasSubstr("--device 0: the kernels of this build"));
  EXPECT_EQ(std::getenv("CUDA_VISIBLE_DEVICES"), nullptr);
}

TEST_F(DeviceChoiceEnvironment, WithoutAGpuAskingForOneIsAnError) {
  GpuStatus none;
  none.problem = "no NVIDIA driver is installed here";
  EXPECT_THROW(detail::choose_gpu(none, "0"), EnvironmentError);
}

#define SKIP_WITHOUT_GPU() \
  if (current_gpu() == nullptr) GTEST_SKIP() << gpu_status().problem

struct Data {
  std::vector<float> points;
  Problem<float> problem;
  std::vector<float> centroids;
};

Data random_data(std::int64_t n, std::int64_t d, std::int64_t k) {
  Data data;
  std::mt19937 random(static_cast<unsigned>(n + d + k));
  std::normal_distribution<float> normal(0.5F, 1.0F);
  data.points.resize(n * d);
  for (float& x : data.points) x = normal(random);
  data.problem.shape = {n, d, k, Precision::f32};
  data.problem.points = data.points.data();
  data.problem.max_abs = largest_abs(data.points.data(), n * d, 2);
  data.problem.threads = 4;
  data.centroids.assign(data.points.begin(), data.points.begin() + k * d);
  return data;
}

}  // namespace

// Shown when a test fails; the default would be the object's bytes.
void PrintTo(const Shape& shape, std::ostream* stream) {
  *stream << "n " << shape.n << ", d " << shape.d << ", k " << shape.k;
}

namespace {

/// Labels and centroids after one iteration and so many more. In two calls: what is kept from one to the next counts.
std::string outcome_of(const RegisteredVariant& variant, const Data& data, int more) {
  Session<float> session(variant, data.problem, data.centroids.data());
  session.reset();
  session.step(1);
  session.step(more);
  const auto outcome = session.fetch();
  return outcome.label_hash() + ":" + outcome.centroid_hash();
}

std::string name_of_shape(const testing::TestParamInfo<Shape>& shape) {
  return "n" + std::to_string(shape.param.n) + "_d" + std::to_string(shape.param.d) + "_k" +
         std::to_string(shape.param.k);
}

class GpuExact : public testing::TestWithParam<Shape> {};

TEST_P(GpuExact, EqualsTheFastExactVariantOfTheCpuBitForBit) {
  SKIP_WITHOUT_GPU();
  const auto data = random_data(GetParam().n, GetParam().d, GetParam().k);
  const std::string right = outcome_of(require_variant("openmp_exact"), data, 2);
  for (const RegisteredVariant& variant : all_variants()) {
    if (!variant.traits.gpu || !variant.traits.exact) continue;
    if (!supports(variant, data.problem.shape).ok) continue;  // or lacks a library, as NCCL
    EXPECT_EQ(outcome_of(variant, data, 2), right) << variant.traits.name;
  }
}

TEST_P(GpuExact, SaysHowManyLabelsChangedToWhoAsksAfterEveryIteration) {
  SKIP_WITHOUT_GPU();
  const auto data = random_data(GetParam().n, GetParam().d, GetParam().k);
  for (const RegisteredVariant& variant : all_variants()) {
    if (!variant.traits.gpu || !variant.traits.exact) continue;
    if (!supports(variant, data.problem.shape).ok) continue;
    SCOPED_TRACE(variant.traits.name);
    Session<float> session(variant, data.problem, data.centroids.data());
    for (int repetition = 0; repetition < 2; ++repetition) {  // reset starts over
      session.reset();
      std::vector<std::int32_t> before(data.problem.shape.n, -1);
      const auto expect_count = [&] {
        session.step(1);
        const auto labels = session.fetch().labels;
        std::int64_t count = 0;
        for (std::size_t i = 0; i < labels.size(); ++i) count += labels[i] != before[i];
        EXPECT_EQ(session.variant().progress().changed, count);
        EXPECT_EQ(session.variant().progress().changed, count) << "asked again";
        before = labels;
      };
      for (int step = 0; step < 4; ++step) expect_count();
      session.step(2);
      EXPECT_EQ(session.variant().progress().changed, std::nullopt) << "two iterations at once";
      before = session.fetch().labels;
      expect_count();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuExact,
                         testing::Values(Shape{99991, 1, 7}, Shape{99991, 2, 5},
                                         Shape{20011, 131, 509}, Shape{2003, 4000, 13},
                                         Shape{30011, 3, 20000}, Shape{5003, 509, 1021},
                                         Shape{6007, 701, 301}, Shape{4099, 790, 150},
                                         Shape{20011, 1039, 500}, Shape{3001, 2050, 1300},
                                         Shape{65537, 17, 33}, Shape{1, 1, 1}),
                         name_of_shape);

/// Who builds the update, and how the points lie, changes no bit.
TEST(GpuHybrid, UpdatesAndLayoutsGiveTheSameBits) {
  SKIP_WITHOUT_GPU();
  for (const Shape& shape : {Shape{99991, 2, 5}, Shape{20011, 131, 509}, Shape{2003, 4000, 13},
                             Shape{129, 3, 128}, Shape{1, 1, 1}}) {
    const auto data = random_data(shape.n, shape.d, shape.k);
    const std::string right = outcome_of(require_variant("cuda_hybrid"), data, 3);
    for (const char* name : {"cuda_hybrid_scalar", "cuda_hybrid_rows", "cuda_hybrid_row_major"}) {
      EXPECT_EQ(outcome_of(require_variant(name), data, 3), right) << name << ", n = " << shape.n;
    }
  }
}

class GpuTensor : public testing::TestWithParam<Shape> {};

/// So many points that a block takes several tiles for each of its groups of warps, which share buffers for them
/// and may be tiles apart where they take no turns.
TEST_P(GpuTensor, GroupsOfABlockThatGetAheadOfOthersTakeTheirOwnPoints) {
  SKIP_WITHOUT_GPU();
  const auto data = random_data(GetParam().n, GetParam().d, GetParam().k);
  const std::string right = outcome_of(require_variant("openmp_exact"), data, 3);
  for (const char* name : {"cuda_tensor", "cuda_hamerly", "cuda_int8"}) {
    const RegisteredVariant& variant = require_variant(name);
    if (!supports(variant, data.problem.shape).ok) continue;
    for (int repetition = 0; repetition < 3; ++repetition) {
      EXPECT_EQ(outcome_of(variant, data, 3), right) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuTensor,
                         testing::Values(Shape{300007, 300, 12}, Shape{400009, 128, 130},
                                         Shape{400009, 30, 400}, Shape{150001, 139, 3300},
                                         Shape{150001, 128, 1000}, Shape{150001, 200, 100}),
                         name_of_shape);

Outcome<float> after_one_iteration(const std::string& name, const Data& data) {
  Session<float> session(require_variant(name), data.problem, data.centroids.data());
  session.reset();
  session.step(1);
  return session.fetch();
}

/// Points and first centroids are whole numbers: distances, and sums in any order, are exact.
TEST(GpuBlockSerial, EveryBlockSizeGivesTheSameBits) {
  SKIP_WITHOUT_GPU();
  for (const Shape& shape : {Shape{31, 1, 5}, Shape{4099, 7, 130}, Shape{99991, 2, 65}}) {
    auto data = random_data(shape.n, shape.d, shape.k);
    for (auto* values : {&data.points, &data.centroids}) {
      for (float& x : *values) x = std::round(4 * x);
    }
    data.problem.max_abs = largest_abs(data.points.data(), shape.n * shape.d, 2);
    const auto right = after_one_iteration("openmp_exact", data).labels;
    const auto centroids = after_one_iteration("cuda_block_serial", data).centroids;
    for (const char* more : {"", "_64", "_128", "_256", "_512", "_1024", "_shared"}) {
      const std::string name = std::string("cuda_block_serial") + more;
      SCOPED_TRACE(name + ", n " + std::to_string(shape.n));
      const auto outcome = after_one_iteration(name, data);
      EXPECT_EQ(outcome.labels, right);
      EXPECT_EQ(outcome.centroids, centroids);
    }
  }
}

TEST(GpuBlockSerial, ThePrintedKernelsAreRightInOneFullBlockAlone) {
  SKIP_WITHOUT_GPU();
  for (const std::int64_t blocks : {1, 1 << 15}) {  // of the latter no GPU holds all at a time
    Data data;
    for (std::int64_t i = 0; i < 32 * blocks; ++i) {
      data.points.push_back(static_cast<float>(i * 7 % 32));
    }
    data.problem.shape = {32 * blocks, 1, 3, Precision::f32};
    data.problem.points = data.points.data();
    data.problem.max_abs = 31;
    data.centroids = {0, 7, 14};
    const auto right = after_one_iteration("cuda_block_serial", data);
    const auto printed = after_one_iteration("cuda_block_serial_as_printed", data);
    EXPECT_EQ(printed.labels, right.labels);
    EXPECT_EQ(printed.centroids == right.centroids, blocks == 1);
  }
}

TEST(GpuInt8, PointsThatBytesHoldBadlyAreDecidedByTheRest) {
  SKIP_WITHOUT_GPU();
  if (const Support takes = supports(require_variant("cuda_int8"), {9001, 40, 200}); !takes.ok) {
    GTEST_SKIP() << takes.reason;
  }
  // Long tails: some coordinates reach a thousand times as far as most. And duplicates by the hundred, which
  // exceed every list.
  auto data = random_data(9001, 40, 200);
  for (float& x : data.points) x = x * x * x * x * x;
  const std::int64_t d = data.problem.shape.d;
  for (std::int64_t i = 5000; i < 5300; ++i) {
    std::copy_n(data.points.begin(), d, data.points.begin() + i * d);
  }
  data.centroids.assign(data.points.begin() + 5100 * d, data.points.begin() + 5300 * d);
  std::copy_n(data.points.begin() + 17 * d, 60 * d, data.centroids.begin() + 100 * d);
  data.problem.max_abs = largest_abs(data.points.data(), std::ssize(data.points), 2);
  EXPECT_EQ(outcome_of(require_variant("cuda_int8"), data, 4),
            outcome_of(require_variant("openmp_exact"), data, 4));
}

/// What cuda_blocks and openmp_exact come to after three iterations, and how the former had the points.
struct ByBlocks {
  std::string found;
  std::string right;
  std::string way;
};

ByBlocks by_blocks(const Data& data, const Problem<float>& problem) {
  ByBlocks result;
  for (const char* name : {"cuda_blocks", "openmp_exact"}) {
    const bool blocks = std::string(name) == "cuda_blocks";
    Session<float> session(require_variant(name), blocks ? problem : data.problem,
                           data.centroids.data());
    session.reset();
    session.step(2);
    session.step(1);
    const auto outcome = session.fetch();
    (blocks ? result.found : result.right) = outcome.label_hash() + ":" + outcome.centroid_hash();
    if (!blocks) continue;
    for (const auto& [key, value] : session.variant().library_info()) {
      if (key == "points read") result.way = value;
    }
  }
  return result;
}

TEST(GpuBlocks, PointsThatAreNotPageLockedWhereTheyLieAreCopiedByThreads) {
  SKIP_WITHOUT_GPU();
  const auto data = random_data(20011, 37, 70);
  const ByBlocks alone = by_blocks(data, data.problem);
  EXPECT_EQ(alone.found, alone.right);
  EXPECT_EQ(alone.way, "page-locked where they lie");
  // Nothing is page-locked twice.
  const Session<float> first(require_variant("cuda_blocks"), data.problem, data.centroids.data());
  const ByBlocks second = by_blocks(data, data.problem);
  EXPECT_EQ(second.found, second.right);
  EXPECT_THAT(second.way, AllOf(HasSubstr("copied by 4 threads, since "), HasSubstr("cudaError")));
}

TEST(GpuBlocks, AFileIsReadIntoPageLockedBuffers) {
  SKIP_WITHOUT_GPU();
  const auto data = random_data(20011, 37, 70);
  const test::TemporaryFolder folder;
  Problem<float> problem = data.problem;
  problem.points_file =
      folder.write("points", std::string(128, ' ') +
                                 std::string(reinterpret_cast<const char*>(data.points.data()),
                                             data.points.size() * sizeof(float)));
  problem.beyond_memory = true;
  for (const char* bytes : {"1000", "100000", "4000000"}) {
    const test::ScopedVariable block("KMEANS_BENCH_BLOCK_BYTES", bytes);
    const ByBlocks result = by_blocks(data, problem);
    EXPECT_EQ(result.found, result.right) << bytes;
    EXPECT_THAT(result.way, HasSubstr("the page cache"));
    // A reader that fails ends the step with its reason.
    Session<float> session(require_variant("cuda_blocks"), problem, data.centroids.data());
    session.reset();
    session.step(1);
    std::filesystem::resize_file(problem.points_file, 1000);
    EXPECT_THROW(session.step(1), std::runtime_error);
    problem.points_file =
        folder.write("points", std::string(128, ' ') +
                                   std::string(reinterpret_cast<const char*>(data.points.data()),
                                               data.points.size() * sizeof(float)));
  }
}

TEST(GpuSession, DeviceEventsAgreeWithTheHostsClockOnALongStep) {
  SKIP_WITHOUT_GPU();
  const auto data = random_data(200000, 16, 256);
  Session<float> session(require_variant("cuda_exact"), data.problem, data.centroids.data());
  session.reset();
  session.step(1);
  // Other work on the host may come between the two clocks, but not every time.
  double difference = 1;
  for (int attempt = 0; attempt < 50 && difference > 0.1; ++attempt) {
    session.reset();
    const double host = session.step(50);
    ASSERT_TRUE(session.device_seconds());
    difference = std::abs(*session.device_seconds() / host - 1);
  }
  EXPECT_LE(difference, 0.1);
}

TEST(GpuPlan, MoreMemoryThanTheGpuHasIsSkippedWithNeedAndHave) {
  SKIP_WITHOUT_GPU();
  auto value = nlohmann::json::parse(R"({
    "name": "demo", "title": "Demo", "init": "random:1",
    "data": {"generator": "uniform", "seed": 1}, "variants": ["cuda_atomic"],
    "scales": {"quick": {"sweep": {"n": [100], "d": [2], "k": [3]}, "iterations": 4}}
  })");
  PlanOptions options;
  options.threads = 1;
  options.memory_bytes = 1e12;
  const auto skip_reason = [&](std::optional<double> device_memory_bytes) {
    options.device_memory_bytes = device_memory_bytes;
    const auto experiment = parse_experiment(parse_json(value.dump(1), "demo.json"));
    return plan_experiment(experiment, options).cells.at(0).skip_reason;
  };
  EXPECT_EQ(skip_reason(1e9), "");
  EXPECT_THAT(skip_reason(100), AllOf(HasSubstr("needs "), HasSubstr(" of GPU memory, has 100 B")));
  // Where points alone are too much, the one that is sent them runs.
  value["variants"] = {"cuda_blocks"};
  value["scales"]["quick"]["sweep"] = {{"n", {10000000}}, {"d", {30}}, {"k", {3}}};
  EXPECT_EQ(skip_reason(5e8), "");
  value["variants"] = {"cuda_exact"};
  EXPECT_THAT(skip_reason(5e8), HasSubstr(" of GPU memory, has 477 MiB"));
  const Shape huge{2000000000, 1000, 5, Precision::f32};
  EXPECT_GT(device_memory_need(require_variant("cuda_atomic"), huge), 4.0 * 2e9 * 1e3);
}

}  // namespace
}  // namespace kmeans
