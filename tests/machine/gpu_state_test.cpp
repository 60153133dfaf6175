// SPDX-License-Identifier: Apache-2.0
#include "harness/machine/gpu_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "harness/machine/gpu.h"

namespace kmeans {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

json calm_state() {
  return {{"sm_mhz", 1980},
          {"memory_mhz", 3201},
          {"max_sm_mhz", 1980},
          {"power_watts", 320.5},
          {"power_limit_watts", 700.0},
          {"temperature_celsius", 45},
          {"throttle_reasons", json::array()},
          {"throttled", false},
          {"utilisation_percent", 100},
          {"other_processes", 0},
          {"ecc_uncorrected", 0}};
}

json with(const json& changes) {
  auto state = calm_state();
  state.update(changes);
  return state;
}

TEST(DeviceStateTest, ClockEventsHaveTheirUsualNames) {
  EXPECT_THAT(detail::clock_event_names(0), IsEmpty());
  EXPECT_THAT(detail::clock_event_names(0x1), ElementsAre("gpu_idle"));
  EXPECT_THAT(detail::clock_event_names(0x4 | 0x40),
              ElementsAre("sw_power_cap", "hw_thermal_slowdown"));
  EXPECT_THAT(detail::clock_event_names(0x1ff),
              ElementsAre("gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown",
                          "sync_boost", "sw_thermal_slowdown", "hw_thermal_slowdown",
                          "hw_power_brake_slowdown", "display_clock_setting"));
  EXPECT_THAT(detail::clock_event_names(0x8000000000000202ULL),
              ElementsAre("applications_clocks_setting", "0x200", "0x8000000000000000"));
}

TEST(DeviceStateTest, OnlyWhatLowersClocksUnderLoadIsAThrottle) {
  for (const char* name : {"sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal_slowdown",
                           "hw_thermal_slowdown", "hw_power_brake_slowdown"}) {
    EXPECT_TRUE(detail::is_throttle(name)) << name;
  }
  for (const char* name :
       {"gpu_idle", "applications_clocks_setting", "display_clock_setting", "0x200", ""}) {
    EXPECT_FALSE(detail::is_throttle(name)) << name;
  }
}

TEST(DeviceStateTest, CalmAndUnknownStatesAreNotADoubt) {
  EXPECT_THAT(gpu_state_doubts(calm_state(), calm_state()), IsEmpty());
  EXPECT_THAT(gpu_state_doubts(nullptr, nullptr), IsEmpty());
  EXPECT_THAT(gpu_state_doubts(calm_state(), nullptr), IsEmpty());
  auto unknown = calm_state();
  for (auto& value : unknown) value = nullptr;
  EXPECT_THAT(gpu_state_doubts(unknown, unknown), IsEmpty());
  EXPECT_THAT(gpu_state_doubts(json::object(), json::object()), IsEmpty());
}

TEST(DeviceStateTest, AnIdleGpuMayBeSlow) {
  const auto idle = with({{"sm_mhz", 345},
                          {"utilisation_percent", 0},
                          {"throttle_reasons", json::array({"gpu_idle"})}});
  EXPECT_THAT(gpu_state_doubts(idle, calm_state()), IsEmpty());
  EXPECT_THAT(gpu_state_doubts(calm_state(), idle), IsEmpty());
  // The utilisation is that of the last second: the clock may have fallen since.
  EXPECT_THAT(
      gpu_state_doubts(calm_state(),
                       with({{"sm_mhz", 345}, {"throttle_reasons", json::array({"gpu_idle"})}})),
      IsEmpty());
}

TEST(DeviceStateTest, ThrottlingIsTold) {
  const auto capped =
      with({{"throttle_reasons", json::array({"gpu_idle", "sw_power_cap"})}, {"throttled", true}});
  EXPECT_THAT(gpu_state_doubts(calm_state(), capped),
              ElementsAre(HasSubstr("throttled (sw_power_cap) after")));
  EXPECT_THAT(gpu_state_doubts(capped, calm_state()),
              ElementsAre(HasSubstr("throttled (sw_power_cap) before the")));
  EXPECT_THAT(gpu_state_doubts(capped, capped),
              ElementsAre(HasSubstr("throttled (sw_power_cap) before and after")));
  const auto hot =
      with({{"throttle_reasons", json::array({"hw_slowdown", "hw_thermal_slowdown"})}});
  EXPECT_THAT(gpu_state_doubts(capped, hot),
              ElementsAre(HasSubstr("throttled (sw_power_cap) before"),
                          HasSubstr("throttled (hw_slowdown, hw_thermal_slowdown) after")));
}

TEST(DeviceStateTest, AClockThatNothingExplainsIsTold) {
  EXPECT_THAT(gpu_state_doubts(calm_state(), with({{"sm_mhz", 1200}})),
              ElementsAre(HasSubstr("1200 of 1980 MHz")));
  EXPECT_THAT(gpu_state_doubts(calm_state(), with({{"sm_mhz", 1755}})), IsEmpty());
  EXPECT_THAT(
      gpu_state_doubts(calm_state(),
                       with({{"sm_mhz", 1200},
                             {"throttle_reasons", json::array({"applications_clocks_setting"})}})),
      IsEmpty());
  // Before the measurement there was nothing to do.
  EXPECT_THAT(gpu_state_doubts(with({{"sm_mhz", 345}}), calm_state()), IsEmpty());
}

TEST(DeviceStateTest, OtherUsersAndMemoryErrorsAreTold) {
  EXPECT_THAT(gpu_state_doubts(with({{"other_processes", 1}}), calm_state()),
              ElementsAre("1 other process used the GPU"));
  EXPECT_THAT(gpu_state_doubts(with({{"other_processes", 1}}), with({{"other_processes", 3}})),
              ElementsAre("3 other processes used the GPU"));
  EXPECT_THAT(gpu_state_doubts(with({{"ecc_uncorrected", 2}}), with({{"ecc_uncorrected", 5}})),
              ElementsAre(HasSubstr("3 uncorrectable errors")));
  // Older ones concern nobody.
  EXPECT_THAT(gpu_state_doubts(with({{"ecc_uncorrected", 2}}), with({{"ecc_uncorrected", 2}})),
              IsEmpty());
}

TEST(DeviceStateTest, WithoutSuchAGpuThereIsNoState) {
  EXPECT_TRUE(gpu_state("GPU-00000000-0000-0000-0000-000000000000").is_null());
  EXPECT_TRUE(gpu_state("").is_null());
}

TEST(DeviceStateTest, AGpuInUseTellsItsState) {
  const auto* gpu = current_gpu();
  if (gpu == nullptr) GTEST_SKIP() << gpu_status().problem;
  auto state = gpu_state(gpu->uuid);
  if (state.is_null()) GTEST_SKIP() << "no NVML, or a part of a GPU";
  const auto expected = calm_state();
  for (const auto& [key, ignored] : expected.items()) EXPECT_TRUE(state.contains(key)) << key;
  EXPECT_EQ(state.size(), expected.size());
  if (state["sm_mhz"].is_number()) {
    EXPECT_GE(state["sm_mhz"], 50);
    EXPECT_LE(state["sm_mhz"], 10'000);
  }
  if (state["power_watts"].is_number()) {
    EXPECT_GE(state["power_watts"], 0.5);
    EXPECT_LE(state["power_watts"], 5000);
  }
  if (state["temperature_celsius"].is_number()) {
    EXPECT_GE(state["temperature_celsius"], 1);
    EXPECT_LE(state["temperature_celsius"], 130);
  }
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(gpu_state(gpu->uuid).size(), expected.size());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  RecordProperty("seconds_of_a_second_look", std::to_string(took.count()));
}

}  // namespace
}  // namespace kmeans
