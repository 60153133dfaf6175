// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/json_mutator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>
#include <vector>

namespace kmeans::fuzz {
namespace {

using nlohmann::json;

/// Deeper texts are left to mutations of bytes: the walk below is recursive.
constexpr int kDeepest = 64;

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  /// 0 to count - 1; count > 0.
  std::size_t operator()(std::size_t count) { return engine_() % count; }

 private:
  std::mt19937 engine_;
};

/// A value in the tree and where it hangs.
struct Node {
  json* value = nullptr;
  json* parent = nullptr;  ///< Null for the root.
  std::string key;         ///< In an object.
  std::size_t index = 0;   ///< In an array.
};

bool too_deep(std::string_view text) {
  int depth = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kDeepest) return true;
  }
  return false;
}

json parse(std::string_view text) {
  if (too_deep(text)) return json(json::value_t::discarded);
  return json::parse(text, nullptr, false);
}

std::string write(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

void collect(json& value, json* parent, const std::string& key, std::size_t index,
             std::vector<Node>& nodes) {
  nodes.push_back({&value, parent, key, index});
  if (value.is_object()) {
    for (auto& item : value.items()) collect(item.value(), &value, item.key(), 0, nodes);
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) collect(value[i], &value, "", i, nodes);
  }
}

std::vector<Node> nodes_of(json& root) {
  std::vector<Node> nodes;
  collect(root, nullptr, "", 0, nodes);
  return nodes;
}

/// Values that code tends to forget.
json interesting(Dice& dice) {
  static const std::vector<json> values{
      nullptr,
      true,
      false,
      0,
      -1,
      1,
      2,
      1.5,
      -0.0,
      1e308,
      -1e308,
      5e-324,
      1e19,
      std::numeric_limits<std::int32_t>::max(),
      std::numeric_limits<std::int32_t>::min(),
      std::int64_t{1} << 32,
      std::int64_t{1} << 53,
      std::numeric_limits<std::int64_t>::max(),
      std::numeric_limits<std::int64_t>::min(),
      std::numeric_limits<std::uint64_t>::max(),
      "",
      "ok",
      "wrong",
      "skipped",
      "error",
      "*",
      "../../etc/passwd",
      "\x1b[2J",
      "\xc3\xa4\xe2\x82\xac",
      "%s%n",
      "</script>",
      std::string(300, 'x'),
      std::string(1, '\0'),
      json::array(),
      json::object(),
      json::array({json::array()}),
      json::array({1, 2, 3}),
      json::object({{"", nullptr}}),
  };
  return values[dice(values.size())];
}

void erase(const Node& node) {
  if (node.parent == nullptr) return;
  if (node.parent->is_object()) {
    node.parent->erase(node.key);
  } else {
    node.parent->erase(node.index);
  }
}

void change_number(json& value, Dice& dice) {
  const double number = value.get<double>();
  const std::array<json, 8> changed{-number,      number + 1, number - 1,  number * 2,
                                    number * 1e9, number / 3, number * .1, json(write(value))};
  // Whole numbers stay whole where they can: most fields want integers.
  const json& next = changed[dice(changed.size())];
  const bool whole = value.is_number_integer() && next.is_number() && std::abs(number) < 1e15 &&
                     next.get<double>() == static_cast<double>(static_cast<std::int64_t>(
                                               std::clamp(next.get<double>(), -1e18, 1e18)));
  value = whole ? json(static_cast<std::int64_t>(next.get<double>())) : next;
}

void change_text(std::string& text, Dice& dice) {
  const std::size_t at = dice(text.size() + 1);
  switch (dice(5)) {
    case 0: text.insert(at, 1, static_cast<char>(dice(128))); break;
    case 1: text.resize(at); break;
    case 2: text += text.substr(0, at); break;
    case 3:
      if (at < text.size()) text[at] = static_cast<char>(dice(256));
      break;
    default:
      if (at < text.size()) text.erase(at, 1);
  }
}

/// Changes one value of the tree. `node` may hang nowhere afterwards.
void change(const std::vector<Node>& nodes, const Node& node, Dice& dice) {
  const Node& other = nodes[dice(nodes.size())];
  switch (dice(9)) {
    case 0: *node.value = interesting(dice); break;
    case 1: erase(node); break;
    case 2: *node.value = json(*other.value); break;
    case 3:
      if (node.value->is_object()) {
        json list = json::array();
        for (const auto& item : node.value->items()) list.push_back(item.value());
        *node.value = std::move(list);
      } else {
        *node.value = json(other.value->is_string() ? *other.value : json(write(*other.value)));
      }
      break;
    case 4:
      if (node.parent != nullptr && node.parent->is_array()) {
        const json copy = *node.value;
        node.parent->insert(node.parent->begin() + static_cast<std::ptrdiff_t>(node.index), copy);
      } else if (node.parent != nullptr) {
        const json copy = *node.value;
        (*node.parent)[other.key.empty() ? node.key + "x" : other.key] = copy;
      }
      break;
    case 5: {
      json inner = std::move(*node.value);
      *node.value = json::array({std::move(inner)});
      break;
    }
    default:
      if (node.value->is_string()) {
        change_text(node.value->get_ref<std::string&>(), dice);
      } else if (node.value->is_number()) {
        change_number(*node.value, dice);
      } else {
        *node.value = interesting(dice);
      }
  }
}

std::string mutate_value(std::string_view text, Dice& dice) {
  json root = parse(text);
  if (root.is_discarded()) return "";
  for (std::size_t times = 1 + dice(3); times > 0; --times) {
    const auto nodes = nodes_of(root);
    change(nodes, nodes[dice(nodes.size())], dice);
  }
  return write(root);
}

std::string cross_value(std::string_view first, std::string_view second, Dice& dice) {
  json root = parse(first);
  json giver = parse(second);
  if (root.is_discarded() || giver.is_discarded()) return "";
  const auto nodes = nodes_of(root);
  const auto gifts = nodes_of(giver);
  const Node& node = nodes[dice(nodes.size())];
  std::vector<const Node*> fitting;
  for (const auto& gift : gifts) {
    if (gift.key == node.key) fitting.push_back(&gift);
  }
  if (fitting.empty() || dice(4) == 0) {
    *node.value = *gifts[dice(gifts.size())].value;
  } else {
    *node.value = *fitting[dice(fitting.size())]->value;
  }
  return write(root);
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string join(const std::vector<std::string>& lines, Dice& dice) {
  std::string text;
  for (const auto& line : lines) text += line + "\n";
  if (!text.empty() && dice(16) == 0) text.pop_back();  // as if torn
  return text;
}

}  // namespace

std::string mutate_json(std::string_view text, bool lines, unsigned seed) {
  Dice dice(seed);
  if (!lines) return mutate_value(text, dice);
  auto all = split(text);
  if (all.empty()) return "";
  const std::size_t at = dice(all.size());
  switch (dice(8)) {
    case 0: all.erase(all.begin() + static_cast<std::ptrdiff_t>(at)); break;
    case 1: all.push_back(all[at]); break;
    case 2: std::swap(all[at], all[dice(all.size())]); break;
    default: {
      std::string changed = mutate_value(all[at], dice);
      if (changed.empty()) return "";
      all[at] = std::move(changed);
    }
  }
  return join(all, dice);
}

std::string cross_json(std::string_view first, std::string_view second, bool lines, unsigned seed) {
  Dice dice(seed);
  if (!lines) return cross_value(first, second, dice);
  auto all = split(first);
  const auto others = split(second);
  if (all.empty() || others.empty()) return "";
  const std::size_t at = dice(all.size());
  const std::string& other = others[dice(others.size())];
  if (dice(2) == 0) {
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(at), other);
  } else {
    all[at] = cross_value(all[at], other, dice);
    if (all[at].empty()) return "";
  }
  return join(all, dice);
}

}  // namespace kmeans::fuzz
