// SPDX-License-Identifier: Apache-2.0
//
// Of ceilings with round numbers.
#include "harness/record/limit.h"

#include <gtest/gtest.h>

namespace kmeans {
namespace {

using nlohmann::json;

json ceilings() {
  return json::parse(R"({
    "read_gbytes_per_second": 10, "read_gbytes_per_second_cache": 100,
    "fma_gflops": {"f32_one_thread": 50, "f32_all_threads": 100, "f64_one_thread": 25,
                   "f64_all_threads": 50},
    "gpu": {"read_gbytes_per_second": 1000, "read_gbytes_per_second_l2": 4000,
            "fma_gflops": {"f32": 10000, "f64": 5000}, "gemm_gflops": {"f16": 100000, "f64": null},
            "host_to_device_gbytes_per_second": {"pinned": 50, "pageable": 10},
            "grid_barrier_seconds": 1e-6, "details": {"bytes": {"l2": 1000000}}}})");
}

// 2 n k d = 2e9 and about 4e7 bytes.
constexpr Shape kShape{1000000, 10, 100, Precision::f32};

double bytes(const Shape& shape) {
  const double scalar = shape.precision == Precision::f64 ? 8 : 4;
  const auto n = static_cast<double>(shape.n);
  return scalar * n * 10 + 4 * n + 2 * scalar * static_cast<double>(shape.k) * 10;
}

TEST(Limit, OfTheProcessorIsTheSlowerOfItsCeilings) {
  const auto arithmetic = machine_limit(ceilings(), 1e6, kShape, 2, false);
  ASSERT_TRUE(arithmetic);
  EXPECT_EQ(arithmetic->binds, "arithmetic");
  EXPECT_DOUBLE_EQ(arithmetic->seconds, 0.02);
  EXPECT_DOUBLE_EQ(machine_limit(ceilings(), 1e6, kShape, 1, false)->seconds, 0.04);
  Shape few = kShape;
  few.k = 1;
  const auto bandwidth = machine_limit(ceilings(), 1e6, few, 2, false);
  EXPECT_EQ(bandwidth->binds, "bandwidth");
  EXPECT_DOUBLE_EQ(bandwidth->seconds, bytes(few) / 10e9);
  EXPECT_DOUBLE_EQ(machine_limit(ceilings(), 1e8, few, 2, false)->seconds, bytes(few) / 100e9)
      << "points that fit the cache";
  Shape wide = kShape;
  wide.precision = Precision::f64;
  EXPECT_DOUBLE_EQ(machine_limit(ceilings(), 1e6, wide, 2, false)->seconds, 0.04);
}

TEST(Limit, OfPointsFromADiskIsTheDisksWhereThatIsSlower) {
  json streamed{{"bytes_per_iteration", 4000000000}, {"disk_gbytes_per_second", 2.0}};
  const auto disk = machine_limit(ceilings(), 1e6, kShape, 2, false, streamed);
  EXPECT_EQ(disk->binds, "the disk");
  EXPECT_DOUBLE_EQ(disk->seconds, 2);
  streamed["disk_gbytes_per_second"] = 2000;
  EXPECT_EQ(machine_limit(ceilings(), 1e6, kShape, 2, false, streamed)->binds, "arithmetic");
  streamed["disk_gbytes_per_second"] = nullptr;
  EXPECT_EQ(machine_limit(ceilings(), 1e6, kShape, 2, false, streamed)->binds, "arithmetic");
}

TEST(Limit, OfPointsSentToAGpuIsTheLinksUnlessADiskIsSlower) {
  json streamed{{"bytes_per_iteration", 4000000000}, {"disk_gbytes_per_second", nullptr}};
  const auto link = machine_limit(ceilings(), 1e6, kShape, 2, true, streamed);
  EXPECT_EQ(link->binds, "the link to the GPU");
  EXPECT_DOUBLE_EQ(link->seconds, 0.08);
  streamed["disk_gbytes_per_second"] = 2.0;
  EXPECT_EQ(machine_limit(ceilings(), 1e6, kShape, 2, true, streamed)->binds, "the disk");
}

TEST(Limit, OfAGpuTakesItsFastestUnitsItsCacheAndABarrier) {
  const auto arithmetic = machine_limit(ceilings(), 1e6, kShape, 2, true);
  ASSERT_TRUE(arithmetic);
  EXPECT_EQ(arithmetic->binds, "bandwidth");
  EXPECT_DOUBLE_EQ(arithmetic->seconds, bytes(kShape) / 1000e9) << "more than 2e9 / 1e14 s";
  Shape wide = kShape;
  wide.precision = Precision::f64;
  EXPECT_EQ(machine_limit(ceilings(), 1e6, wide, 2, true)->binds, "arithmetic");
  EXPECT_DOUBLE_EQ(machine_limit(ceilings(), 1e6, wide, 2, true)->seconds, 2e9 / 5e12);
  EXPECT_DOUBLE_EQ(machine_limit(ceilings(), 1e6, wide, 2, true, {}, 4)->seconds, 2e9 / 4 / 5e12)
      << "of four GPUs";
  json no_barrier = ceilings();
  no_barrier["gpu"].erase("grid_barrier_seconds");
  const Shape shared{90000, 10, 1, Precision::f32};  // a GPU's half of the points fits its cache
  EXPECT_DOUBLE_EQ(machine_limit(no_barrier, 1e6, shared, 2, true, {}, 2)->seconds,
                   bytes(shared) / (2 * 4000e9));
  const Shape cached{20000, 10, 2, Precision::f32};
  EXPECT_EQ(machine_limit(ceilings(), 1e6, cached, 2, true)->binds, "a grid barrier");
  EXPECT_DOUBLE_EQ(machine_limit(ceilings(), 1e6, cached, 2, true)->seconds, 1e-6);
}

TEST(Limit, OfAGpuCountsBytesWhereTheirProductsWereMeasured) {
  json of_gpu = ceilings();
  json& rates = of_gpu["gpu"]["gemm_gflops"];
  Shape many = kShape;
  many.k = 10000;  // 2 n k d = 2e11
  const auto limit = [&](Precision precision) {
    many.precision = precision;
    const auto found = machine_limit(of_gpu, 1e6, many, 2, true);
    EXPECT_EQ(found->binds, "arithmetic");
    return found->seconds;
  };
  EXPECT_DOUBLE_EQ(limit(Precision::f32), 2e11 / 1e14) << "a file of before";
  rates["int8"] = nullptr;
  EXPECT_DOUBLE_EQ(limit(Precision::f32), 2e11 / 1e14) << "a product that failed";
  rates["int8"] = 200000;
  EXPECT_DOUBLE_EQ(limit(Precision::f32), 2e11 / 2e14);
  EXPECT_DOUBLE_EQ(limit(Precision::f64), 2e11 / 5e12);
}

TEST(Limit, IsAbsentWhereNothingWasMeasured) {
  EXPECT_FALSE(machine_limit(json(), std::nullopt, kShape, 2, false));
  EXPECT_FALSE(machine_limit(json{{"gpu", nullptr}}, std::nullopt, kShape, 2, true));
  EXPECT_FALSE(machine_limit(json{{"read_gbytes_per_second", nullptr}}, 1.0, kShape, 1, false));
}

}  // namespace
}  // namespace kmeans
