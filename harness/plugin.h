// SPDX-License-Identifier: Apache-2.0
//
// What a variant in a shared library hands to the suite (docs/plugins.md). A plugin's own sources include
// harness/variant.h alone; plugin/plugin.cpp, which is compiled into every plugin, gives this.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/variant.h"

namespace kmeans {

/// The number of the contract in harness/variant.h. Plugins are compiled with their copy of that header, so
/// it rises with every change of a type or of a function in there.
inline constexpr std::int32_t kContract = 6;

/// The one function that a plugin exports: `const PluginInterface* kmeans_bench_plugin()`, as of C.
inline constexpr const char* kPluginFunction = "kmeans_bench_plugin";

/// Differs where the same contract has another layout in memory: by another standard library, or by
/// options such as _GLIBCXX_DEBUG.
inline constexpr std::int32_t kContractLayout = static_cast<std::int32_t>(
    sizeof(Registration) + 3 * sizeof(Traits) + 5 * sizeof(Problem<float>) +
    7 * sizeof(Problem<double>) + 11 * sizeof(Progress) + 13 * sizeof(Variant<float>));

struct PluginInterface {
  std::int32_t contract;  ///< kContract when it was compiled. First in all contracts.
  std::int32_t layout;    ///< kContractLayout, the same; second in all contracts.
  const char* compiler;   ///< "GCC 12.2.0"; from here on a suite reads its own contract's alone.
  const std::vector<Registration>* variants;
};

}  // namespace kmeans
