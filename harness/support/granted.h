// SPDX-License-Identifier: Apache-2.0
//
// How much memory the user lets the program have, which may be less than there is.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "harness/support/errors.h"
#include "harness/support/number.h"
#include "harness/support/text.h"

namespace kmeans {

inline constexpr const char* kGrantedMemory = "KMEANS_BENCH_MEMORY";
inline constexpr const char* kGrantedGpuMemory = "KMEANS_BENCH_GPU_MEMORY";

/// These bytes, or what the environment variable says if that is less. Throws InputError where that is not
/// an amount.
inline std::int64_t at_most_granted(const char* variable, std::int64_t bytes) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return bytes;
  static constexpr std::array<std::pair<std::string_view, double>, 6> kUnits{
      {{"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10}, {"B", 1}, {"", 1}}};
  for (const auto& [unit, size] : kUnits) {
    std::string_view number = text;
    if (!number.ends_with(unit)) continue;
    number.remove_suffix(unit.size());
    while (number.ends_with(' ')) number.remove_suffix(1);
    double value = 0;
    if (parse_number(number, value) && value >= 0 && value * size < 0x1p62) {
      return std::min(bytes, static_cast<std::int64_t>(value * size));
    }
    break;
  }
  throw InputError(
      std::string(variable) + "='" + printable(text) +
      "' is not an amount of memory; right would be 8GiB, 512MiB, or a number of bytes");
}

}  // namespace kmeans
