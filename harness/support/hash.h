// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "harness/support/formatted.h"

namespace kmeans {

/// 64-bit FNV-1a as 16 hexadecimal digits.
inline std::string fnv1a_hex(const void* data, std::size_t bytes) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto* byte = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ byte[i]) * 0x100000001b3U;
  return formatted("%016llx", static_cast<unsigned long long>(hash));
}

}  // namespace kmeans
