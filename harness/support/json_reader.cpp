// SPDX-License-Identifier: Apache-2.0
#include "harness/support/json_reader.h"

#include <algorithm>
#include <cmath>

#include "harness/support/text.h"

namespace kmeans {

using nlohmann::json;

std::string shortened(const json& value) {
  std::string text = to_line(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return valid_utf8(text);
}

namespace {

/// "3600" for 3600.0: bounds are meant, not what was written.
std::string bound(double value) {
  std::string text = json(value).dump();
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

/// 1e6 is an integer to who reads the file, though not to the parser.
bool is_integer(const json& value) {
  if (!value.is_number_float()) return value.is_number_integer();
  const double number = value.get<double>();
  return std::trunc(number) == number && std::abs(number) <= 0x1p53;
}

}  // namespace

void JsonReader::fail(const std::string& reason) const {
  const std::string place = pointer_.empty() ? "" : valid_utf8(pointer_) + ": ";
  throw InputError((document_ != nullptr ? document_->where(pointer_) + ": " : "") + place +
                   reason);
}

void JsonReader::fail_type(const std::string& what) const {
  if (present()) fail(shortened(*value_) + " must be " + what);
  const auto slash = pointer_.rfind('/');
  JsonReader(document_, pointer_.substr(0, slash), nullptr)
      .fail("lacks \"" + valid_utf8(pointer_.substr(slash + 1)) + "\", " + what);
}

const json& JsonReader::value() const {
  if (!present()) fail_type("any value");
  return *value_;
}

void JsonReader::require_object() const {
  if (!present() || !value_->is_object()) fail_type("an object {...}");
}

void JsonReader::allow_only(const std::vector<std::string>& keys, const std::string& whose) const {
  for (const auto& [key, member] : members()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    member.fail("unknown key" + (whose.empty() ? "" : " of " + whose) + "; " +
                closest_names(key, keys));
  }
}

JsonReader JsonReader::operator[](const std::string& key) const {
  require_object();
  const auto found = value_->find(key);
  return {document_, pointer_to(pointer_, key), found == value_->end() ? nullptr : &*found};
}

std::vector<std::pair<std::string, JsonReader>> JsonReader::members() const {
  require_object();
  std::vector<std::pair<std::string, JsonReader>> all;
  for (const auto& item : value_->items()) all.emplace_back(item.key(), (*this)[item.key()]);
  return all;
}

std::vector<JsonReader> JsonReader::elements() const {
  if (!present() || !value_->is_array()) fail_type("a list [...]");
  std::vector<JsonReader> all;
  all.reserve(value_->size());
  for (const json& element : *value_) {
    all.push_back({document_, pointer_to(pointer_, all.size()), &element});
  }
  return all;
}

const JsonReader& JsonReader::filled(const std::string& advice) const {
  if (elements().empty()) fail("the list is empty; " + advice);
  return *this;
}

std::string JsonReader::text(const std::optional<std::string>& fallback) const {
  if (!present() && fallback) return *fallback;
  if (!present() || !value_->is_string()) fail_type("a string");
  return value_->get<std::string>();
}

std::string JsonReader::nonempty_text() const {
  std::string result = text();
  if (result.empty()) fail("must not be empty");
  return result;
}

bool JsonReader::boolean(std::optional<bool> fallback) const {
  if (!present() && fallback) return *fallback;
  if (!present() || !value_->is_boolean()) fail_type("true or false");
  return value_->get<bool>();
}

double JsonReader::number(double least, double most, std::optional<double> fallback) const {
  if (!present() && fallback) return *fallback;
  if (!present() || !value_->is_number() || !std::isfinite(value_->get<double>())) {
    fail_type("a number");
  }
  const auto result = value_->get<double>();
  if (result < least || result > most) {
    fail(shortened(*value_) + " is not within [" + bound(least) + ", " + bound(most) + "]");
  }
  return result;
}

double JsonReader::positive() const {
  const double result = number();
  if (!(result > 0)) fail_type("a positive number");
  return result;
}

double JsonReader::not_negative() const {
  const double result = number();
  if (!(result >= 0)) fail_type("a number that is not negative");
  return result;
}

std::int64_t JsonReader::whole_number(std::int64_t least, std::int64_t most) const {
  if (!present() || !is_integer(*value_)) fail_type("an integer");
  // An unsigned number may be beyond what the signed type holds.
  const bool beyond =
      value_->is_number_unsigned() && !std::in_range<std::int64_t>(value_->get<std::uint64_t>());
  const auto result = beyond ? 0 : value_->get<std::int64_t>();
  if (beyond || result < least || result > most) {
    fail(shortened(*value_) + " is not within [" + std::to_string(least) + ", " +
         std::to_string(most) + "]");
  }
  return result;
}

std::string JsonReader::one_of(const std::vector<std::string>& known) const {
  std::string result = text();
  if (std::find(known.begin(), known.end(), result) == known.end()) {
    fail("unknown value " + shortened(*value_) + "; " + closest_names(result, known));
  }
  return result;
}

}  // namespace kmeans
