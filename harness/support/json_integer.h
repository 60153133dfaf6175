// SPDX-License-Identifier: Apache-2.0
//
// Integers from JSON, strictly.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "harness/support/errors.h"

namespace kmeans {

/// The integer that stands under a key. nlohmann's own conversions let fractions and numbers beyond T's
/// range through, the latter undefined. Throws InputError for them.
template <class T>
T integer_of(const nlohmann::json& value, const char* key) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (std::in_range<T>(number)) return static_cast<T>(number);
  } else if (value.is_number_integer()) {
    const auto number = value.get<std::int64_t>();
    if (std::in_range<T>(number)) return static_cast<T>(number);
  }
  throw InputError("\"" + std::string(key) + "\" must be an integer within [" +
                   std::to_string(std::numeric_limits<T>::min()) + ", " +
                   std::to_string(std::numeric_limits<T>::max()) + "]");
}

/// The same of an object, json::exception where there is none.
template <class T>
T integer_at(const nlohmann::json& object, const char* key) {
  return integer_of<T>(object.at(key), key);
}

}  // namespace kmeans
