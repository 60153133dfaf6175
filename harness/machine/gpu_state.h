// SPDX-License-Identifier: Apache-2.0
//
// What the GPU was doing around a measurement: clocks, power, throttling, other users. Asked of the
// driver's management library (NVML), which is loaded when it is first needed; no CUDA header and
// no CUDA context takes part.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kmeans {

/// The state now of the GPU with this UUID, as nvidia-smi prints it (docs/machine.md):
///   {sm_mhz, memory_mhz, max_sm_mhz, power_watts, power_limit_watts, temperature_celsius,
///    throttle_reasons, throttled, utilisation_percent, other_processes, ecc_uncorrected}
/// each null where it is not known. null without NVML and without such a GPU. Never throws. The
/// first call of a process also loads and starts NVML.
nlohmann::json gpu_state(const std::string& uuid);

/// Sentences for a result's `noted` list, from the states before and after its measurement;
/// either may be null. A slow clock alone is not a reason: a GPU without work lowers it.
std::vector<std::string> gpu_state_doubts(const nlohmann::json& before,
                                          const nlohmann::json& after);

namespace detail {
/// Settings that the state does not hold, each null where it is not known:
/// {default_power_limit_watts, persistence_mode, slowdown_celsius}; null without NVML.
nlohmann::json gpu_settings(const std::string& uuid);
/// The names that nvidia-smi gives to NVML's clock event reasons; an unknown bit becomes "0x200".
std::vector<std::string> clock_event_names(unsigned long long reasons);
/// The names under throttle_reasons of a state.
std::vector<std::string> throttle_reasons_in(const nlohmann::json& state);
/// Does one of these names mean that clocks are lower under load than they would be?
bool is_throttle(const std::string& clock_event_name);
}  // namespace detail

}  // namespace kmeans
