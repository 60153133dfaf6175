// SPDX-License-Identifier: Apache-2.0
//
// From integers that are known at run time to template arguments.
#pragma once

#include <cstdint>
#include <type_traits>

namespace kmeans::cuda {

/// Calls use(std::integral_constant<int, V>()) with the V among kFirst, kMore... that equals `value`;
/// with the last of them if none does. Returns what `use` returns.
template <int kFirst, int... kMore, class Use>
decltype(auto) with_constant(std::int64_t value, const Use& use) {
  if constexpr (sizeof...(kMore) > 0) {
    if (value != kFirst) return with_constant<kMore...>(value, use);
  }
  return use(std::integral_constant<int, kFirst>());
}

/// The same for all V from kFirst to kLast.
template <int kFirst, int kLast, class Use>
decltype(auto) with_constant_in_range(std::int64_t value, const Use& use) {
  static_assert(kFirst <= kLast);
  if constexpr (kFirst < kLast) {
    if (value != kFirst) return with_constant_in_range<kFirst + 1, kLast>(value, use);
  }
  return use(std::integral_constant<int, kFirst>());
}

}  // namespace kmeans::cuda
