// SPDX-License-Identifier: Apache-2.0
//
// The one strict reader of JSON. A value knows its place, so whatever is asked of it is answered,
// or refused with InputError: "file:line:column: /place: reason".
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/support/errors.h"
#include "harness/support/json_file.h"

namespace kmeans {

/// The value in a line, cut off where it is long: for messages.
std::string shortened(const nlohmann::json& value);

/// A value of a document, or one that is absent: object["key"] never fails for a missing key, what
/// is asked of it then does, unless there is a fallback. Refers to document and value.
class JsonReader {
 public:
  explicit JsonReader(const JsonDocument& document)
      : document_(&document), value_(&document.value) {}
  /// `place` begins messages. With a document, they show what stands there in the file.
  JsonReader(const nlohmann::json& value, std::string place, const JsonDocument* document = nullptr)
      : document_(document), pointer_(std::move(place)), value_(&value) {}

  [[noreturn]] void fail(const std::string& reason) const;
  /// 'VALUE must be WHAT', or 'lacks "KEY", WHAT'.
  [[noreturn]] void fail_type(const std::string& what) const;

  /// JSON pointer.
  [[nodiscard]] const std::string& pointer() const { return pointer_; }
  [[nodiscard]] bool present() const { return value_ != nullptr; }
  /// Present and not null.
  explicit operator bool() const { return present() && !value_->is_null(); }
  /// Of any type.
  [[nodiscard]] const nlohmann::json& value() const;

  // --- Objects and lists

  void require_object() const;
  /// Refuses other keys with the nearest of these. `whose`: "generator 'uniform'".
  void allow_only(const std::vector<std::string>& keys, const std::string& whose = "") const;
  [[nodiscard]] JsonReader operator[](const std::string& key) const;
  [[nodiscard]] std::vector<std::pair<std::string, JsonReader>> members() const;

  [[nodiscard]] std::vector<JsonReader> elements() const;
  /// Itself, if it is a list that is not empty.
  [[nodiscard]] const JsonReader& filled(
      const std::string& advice = "give at least one value") const;
  /// What `read` makes of every element.
  template <class Read>
  [[nodiscard]] auto each(const Read& read) const {
    std::vector<decltype(read(*this))> results;
    for (const JsonReader& element : elements()) results.push_back(read(element));
    return results;
  }

  // --- Plain values. A fallback stands for an absent value, never for null.

  std::string text(const std::optional<std::string>& fallback = {}) const;
  std::string nonempty_text() const;
  bool boolean(std::optional<bool> fallback = {}) const;
  double number(double least = -std::numeric_limits<double>::infinity(),
                double most = std::numeric_limits<double>::infinity(),
                std::optional<double> fallback = {}) const;
  double positive() const;
  double not_negative() const;
  /// Whole numbers with an exponent or fraction (1e6) are integers too, up to 2^53.
  template <class T = std::int64_t>
  T integer(std::type_identity_t<T> least,
            std::type_identity_t<T> most = std::numeric_limits<T>::max(),
            std::optional<std::type_identity_t<T>> fallback = {}) const {
    static_assert(std::is_signed_v<T>);
    return !present() && fallback ? *fallback : static_cast<T>(whole_number(least, most));
  }
  std::string one_of(const std::vector<std::string>& known) const;
  /// What `parse` makes of the text; its InputError is reported with the place.
  template <class Parse>
  auto parsed(const Parse& parse) const -> decltype(parse(std::string())) {
    const std::string own = text();
    try {
      return parse(own);
    } catch (const InputError& error) {
      fail(error.what());
    }
  }

 private:
  JsonReader(const JsonDocument* document, std::string pointer, const nlohmann::json* value)
      : document_(document), pointer_(std::move(pointer)), value_(value) {}
  [[nodiscard]] std::int64_t whole_number(std::int64_t least, std::int64_t most) const;

  const JsonDocument* document_ = nullptr;
  std::string pointer_;
  const nlohmann::json* value_;
};

}  // namespace kmeans
