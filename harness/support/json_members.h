// SPDX-License-Identifier: Apache-2.0
//
// Messages between processes as JSON objects. A message type names its members once, in a function
//   template <IsA<Message> M, class Visit> void members(M& message, const Visit& visit)
// that calls visit("key", message.member) for each; writing and reading both go through it.
#pragma once

#include <cmath>
#include <concepts>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/support/json_integer.h"
#include "harness/support/precision.h"
#include "harness/support/text.h"

namespace kmeans {

/// A message that is written, or one that is read.
template <class M, class Message>
concept IsA = std::same_as<std::remove_const_t<M>, Message>;

// What the C++ type of a member becomes. Types with members of their own have overloads next to them.
template <class T>
nlohmann::json member_to_json(const T& value) {
  return value;
}
inline nlohmann::json member_to_json(const std::string& text) { return valid_utf8(text); }
inline nlohmann::json member_to_json(Precision precision) { return to_string(precision); }
template <class T>
nlohmann::json member_to_json(const std::optional<T>& value) {
  return value ? member_to_json(*value) : nullptr;
}
inline nlohmann::json member_to_json(
    const std::vector<std::pair<std::string, std::string>>& texts) {
  nlohmann::json object = nlohmann::json::object();
  for (const auto& [key, text] : texts) object[valid_utf8(key)] = valid_utf8(text);
  return object;
}

inline void member_from_json(const nlohmann::json& json, const char* /*key*/, std::string& text) {
  json.get_to(text);
}
inline void member_from_json(const nlohmann::json& json, const char* /*key*/, bool& truth) {
  json.get_to(truth);
}
inline void member_from_json(const nlohmann::json& json, const char* /*key*/, nlohmann::json& any) {
  any = json;
}
/// Null is what became of a NaN or an infinity.
inline void member_from_json(const nlohmann::json& json, const char* /*key*/, double& number) {
  number = json.is_null() ? std::nan("") : json.get<double>();
}
template <class T>
requires std::is_integral_v<T>
void member_from_json(const nlohmann::json& json, const char* key, T& number) {
  number = integer_of<T>(json, key);
}
inline void member_from_json(const nlohmann::json& json, const char* /*key*/,
                             Precision& precision) {
  precision = parse_precision(json.get<std::string>());
}
template <class T>
void member_from_json(const nlohmann::json& json, const char* key, std::optional<T>& value) {
  value.reset();
  if (!json.is_null()) member_from_json(json, key, value.emplace());
}
template <class T>
void member_from_json(const nlohmann::json& json, const char* key, std::vector<T>& values) {
  values.clear();
  if (json.is_null()) return;
  for (const auto& value : json.get_ref<const nlohmann::json::array_t&>()) {
    member_from_json(value, key, values.emplace_back());
  }
}
inline void member_from_json(const nlohmann::json& json, const char* /*key*/,
                             std::vector<std::pair<std::string, std::string>>& texts) {
  texts.clear();
  for (const auto& [key, text] : json.items()) texts.emplace_back(key, text.get<std::string>());
}
/// What is not a number is left out.
inline void member_from_json(const nlohmann::json& json, const char* /*key*/,
                             std::map<std::string, double>& numbers) {
  numbers.clear();
  for (const auto& [key, number] : json.items()) {
    if (number.is_number()) numbers[key] = number.get<double>();
  }
}

/// A third argument of visit is for members without which a message is read as well: they then keep their
/// defaults.
struct MayLack {};
inline constexpr MayLack kMayLack;

class MemberWriter {
 public:
  explicit MemberWriter(nlohmann::json& object) : object_(object) {}
  template <class T, class... Hint>
  void operator()(const char* key, const T& value, Hint... /*may_lack*/) const {
    object_[key] = member_to_json(value);
  }

 private:
  nlohmann::json& object_;
};

/// Throws InputError and json::exception for what a MemberWriter does not write.
class MemberReader {
 public:
  explicit MemberReader(const nlohmann::json& object) : object_(object) {}
  template <class T>
  void operator()(const char* key, T& value) const {
    member_from_json(object_.at(key), key, value);
  }
  template <class T>
  void operator()(const char* key, T& value, MayLack /*hint*/) const {
    if (object_.contains(key)) (*this)(key, value);
  }

 private:
  const nlohmann::json& object_;
};

template <class Message>
nlohmann::json message_to_json(const Message& message) {
  nlohmann::json object = nlohmann::json::object();
  members(message, MemberWriter(object));
  return object;
}

template <class Message>
Message message_from_json(const nlohmann::json& object) {
  Message message;
  members(message, MemberReader(object));
  return message;
}

}  // namespace kmeans
