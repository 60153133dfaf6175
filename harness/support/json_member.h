// SPDX-License-Identifier: Apache-2.0
//
// What JSON has at a place, where any part of it may be missing.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace kmeans {

/// Null where `value` is no object or lacks the key. It lives as long as `value`.
inline const nlohmann::json& member(const nlohmann::json& value, const std::string& key) {
  static const nlohmann::json kNull;
  if (!value.is_object()) return kNull;
  const auto found = value.find(key);
  return found == value.end() ? kNull : *found;
}

/// The same over several keys, from the outermost on.
inline const nlohmann::json& member(const nlohmann::json& value,
                                    std::initializer_list<const char*> keys) {
  const nlohmann::json* found = &value;
  for (const char* key : keys) found = &member(*found, key);
  return *found;
}

/// Absent where there is no number.
inline std::optional<double> number_in(const nlohmann::json& value, const std::string& key) {
  const nlohmann::json& found = member(value, key);
  return found.is_number() ? std::optional(found.get<double>()) : std::nullopt;
}

/// Empty where there is no text.
inline std::string text_in(const nlohmann::json& value, const std::string& key) {
  const nlohmann::json& found = member(value, key);
  return found.is_string() ? found.get<std::string>() : std::string();
}

}  // namespace kmeans
