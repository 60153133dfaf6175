// SPDX-License-Identifier: Apache-2.0
#include "harness/support/json_each.h"

#include <utility>
#include <vector>

#include "harness/support/errors.h"

namespace kmeans {
namespace {

using nlohmann::json;

constexpr const char* kEach = "each";

class Expansion {
 public:
  Expansion(const JsonDocument& document, const JsonLimits& limits)
      : document_(document), left_(limits.values) {}

  /// Pointers into the text that a value may be from: the first that has a part of it is that part's.
  using Origins = std::vector<std::string>;

  json expanded(const json& value, const Origins& from, const std::string& to) {
    if (left_-- == 0) refuse(from.front(), "stands for too many values");
    if (const auto found = document_.offset.find(from.front()); found != document_.offset.end()) {
      offset[to] = found->second;
    }
    if (value.is_object()) {
      json object = json::object();
      for (const auto& [key, part] : value.items()) {
        object[key] = expanded(part, below(from, key), pointer_to(to, key));
      }
      return object;
    }
    if (!value.is_array()) return value;
    json list = json::array();
    for (std::size_t i = 0; i < value.size(); ++i) add(value[i], below(from, i), to, list);
    return list;
  }

  std::map<std::string, std::size_t> offset;

 private:
  void add(const json& element, const Origins& from, const std::string& to, json& list) {
    if (!element.is_object() || !element.contains(kEach)) {
      list.push_back(expanded(element, from, pointer_to(to, list.size())));
      return;
    }
    json shared = element;
    shared.erase(kEach);
    const json& each = element.at(kEach);
    const Origins places = below(from, kEach);
    if (!each.is_array() || each.empty()) refuse(places.front(), "must be a list of objects");
    for (std::size_t i = 0; i < each.size(); ++i) {
      Origins own = below(places, i);
      if (!each[i].is_object()) refuse(own.front(), "must be an object {...}");
      json merged = shared;
      merged.update(each[i]);
      own.insert(own.end(), from.begin(), from.end());
      list.push_back(expanded(merged, own, pointer_to(to, list.size())));
    }
  }

  template <class Part>
  [[nodiscard]] Origins below(const Origins& from, const Part& part) const {
    Origins parts;
    for (const std::string& one : from) {
      std::string pointer = pointer_to(one, part);
      if (document_.offset.count(pointer) > 0) parts.push_back(std::move(pointer));
    }
    if (parts.empty()) parts.push_back(pointer_to(from.front(), part));
    return parts;
  }

  [[noreturn]] void refuse(const std::string& pointer, const char* reason) const {
    throw InputError(document_.where(pointer) + ": " + pointer + ": " + reason);
  }

  const JsonDocument& document_;
  std::size_t left_;
};

}  // namespace

void expand_each(JsonDocument& document, const JsonLimits& limits) {
  Expansion expansion(document, limits);
  document.value = expansion.expanded(document.value, {""}, "");
  document.offset = std::move(expansion.offset);
}

}  // namespace kmeans
