// SPDX-License-Identifier: Apache-2.0
#include "harness/support/json_file.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "harness/support/atomic_file.h"
#include "harness/support/errors.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

/// Walks over the text and reports how far it came: the parser's callbacks carry no position.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char* begin, std::size_t* read)
      : at_(at), begin_(begin), read_(read) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    if (read_ != nullptr) *read_ = static_cast<std::size_t>(at_ - begin_);
    return *this;
  }
  CountingIterator operator++(int) {
    auto before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char* begin_;
  std::size_t* read_;
};

std::string line_and_column(const std::string& text, std::size_t offset) {
  offset = std::min(offset, text.size());
  const auto begin = text.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(offset);
  const auto line = 1 + std::count(begin, end, '\n');
  const auto last_break = offset == 0 ? std::string::npos : text.rfind('\n', offset - 1);
  const auto column = offset - (last_break == std::string::npos ? 0 : last_break + 1) + 1;
  return std::to_string(line) + ":" + std::to_string(column);
}

/// Builds the document and notes where each value stood.
class Builder : public nlohmann::json_sax<json> {
 public:
  Builder(JsonDocument& document, const JsonLimits& limits, const std::size_t& read)
      : document_(document), limits_(limits), read_(read) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }

  bool start_object(std::size_t /*size*/) override { return open(json::object()); }
  bool start_array(std::size_t /*size*/) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    Level& level = levels_.back();
    const std::size_t begin = token();
    if (!level.keys.insert(name).second) {
      fail(begin, "key \"" + valid_utf8(name) + "\" is given twice in one object");
    }
    level.key = name;
    document_.offset[pointer_to(level.pointer, name)] = begin;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const json::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: reason"
    std::string reason = error.what();
    if (const auto bracket = reason.find("] "); bracket != std::string::npos) {
      reason.erase(0, bracket + 2);
    }
    if (reason.rfind("parse error at ", 0) == 0) {
      if (const auto colon = reason.find(": "); colon != std::string::npos) {
        reason.erase(0, colon + 2);
      }
    }
    fail(position == 0 ? 0 : position - 1, reason);
  }

 private:
  struct Level {
    json* value;
    std::string pointer;
    std::string key{};
    std::set<std::string> keys{};
  };

  /// Where the current token begins. The parser reports only how far it has read: the last character
  /// of the token, or, for a number, the one after it.
  std::size_t token() {
    const std::size_t begin = document_.text.find_first_not_of(" \t\r\n,:", after_last_);
    after_last_ = read_;
    return begin == std::string::npos ? 0 : begin;
  }

  [[noreturn]] void fail(std::size_t offset, const std::string& reason) const {
    throw InputError(document_.source + ":" + line_and_column(document_.text, offset) + ": " +
                     valid_utf8(reason));
  }

  json* place(json value, std::size_t begin, std::string& pointer) {
    if (levels_.empty()) {
      document_.value = std::move(value);
      pointer.clear();
      document_.offset[pointer] = begin;
      return &document_.value;
    }
    Level& level = levels_.back();
    if (level.value->is_array()) {
      pointer = pointer_to(level.pointer, level.value->size());
      document_.offset[pointer] = begin;
      level.value->push_back(std::move(value));
      return &level.value->back();
    }
    pointer = pointer_to(level.pointer, level.key);  // its offset is that of the key
    return &((*level.value)[level.key] = std::move(value));
  }

  bool add(json value) {
    std::string pointer;
    place(std::move(value), token(), pointer);
    return true;
  }

  bool open(json value) {
    const std::size_t begin = token();
    if (static_cast<int>(levels_.size()) >= limits_.depth) {
      fail(begin, "nested more than " + std::to_string(limits_.depth) + " levels deep");
    }
    std::string pointer;
    json* placed = place(std::move(value), begin, pointer);
    levels_.push_back({placed, pointer});
    return true;
  }

  bool close() {
    after_last_ = read_;
    levels_.pop_back();
    return true;
  }

  JsonDocument& document_;
  const JsonLimits& limits_;
  const std::size_t& read_;
  std::size_t after_last_ = 0;  ///< The token before the current one ends here, or one earlier.
  std::vector<Level> levels_;
};

/// No fewer values than the document holds, at the cost of looking at every byte once: one, and one
/// more for every comma and opening bracket outside of strings.
std::size_t most_values(const std::string& text) {
  std::size_t count = 1;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else {
      in_string = c == '"';
      count += c == ',' || c == '[' || c == '{' ? 1 : 0;
    }
  }
  return count;
}

}  // namespace

std::string JsonDocument::where(const std::string& pointer) const {
  std::string nearest = pointer;
  auto found = offset.find(nearest);
  while (found == offset.end() && !nearest.empty()) {
    nearest.erase(nearest.rfind('/'));
    found = offset.find(nearest);
  }
  return source + ":" + line_and_column(text, found == offset.end() ? 0 : found->second);
}

JsonDocument parse_json(std::string text, const std::string& source, const JsonLimits& limits) {
  JsonDocument document;
  document.source = valid_utf8(source);
  document.text = std::move(text);
  if (document.text.size() > limits.bytes) {
    throw InputError(document.source + ": larger than " +
                     format_bytes(static_cast<double>(limits.bytes)) + ", the most that is read");
  }
  if (most_values(document.text) > limits.values) {
    throw InputError(document.source + ": holds more than " +
                     format_count(static_cast<std::int64_t>(limits.values)) +
                     " values, the most that are read");
  }
  std::size_t read = 0;
  Builder builder(document, limits, read);
  const char* begin = document.text.data();
  const char* end = begin + document.text.size();
  json::sax_parse(CountingIterator(begin, begin, &read), CountingIterator(end, begin, nullptr),
                  &builder);
  return document;
}

JsonDocument read_json_document(const std::filesystem::path& file, const JsonLimits& limits) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status)) throw InputError(file.string() + ": there is no such file");
  if (!std::filesystem::is_regular_file(status)) {
    throw InputError(file.string() + ": not a regular file");
  }
  const auto size = std::filesystem::file_size(file, error);
  if (!error && size > limits.bytes) {
    throw InputError(file.string() + ": " + format_bytes(static_cast<double>(size)) +
                     " are more than " + format_bytes(static_cast<double>(limits.bytes)) +
                     ", the most that is read");
  }
  std::ifstream stream(file, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (!stream.is_open() || stream.bad()) {
    throw InputError(file.string() + ": cannot be read: " + std::strerror(errno));
  }
  return parse_json(std::move(text), file.string(), limits);
}

json read_json_file(const std::filesystem::path& file, const JsonLimits& limits) {
  return read_json_document(file, limits).value;
}

std::string pointer_to(const std::string& parent, const std::string& key) {
  std::string result = parent + "/";
  for (const char c : key) {
    if (c == '~') {
      result += "~0";
    } else if (c == '/') {
      result += "~1";
    } else {
      result += c;
    }
  }
  return result;
}

std::string pointer_to(const std::string& parent, std::size_t index) {
  return parent + "/" + std::to_string(index);
}

json presentable(const json& value) {
  if (value.is_string()) return valid_utf8(value.get_ref<const std::string&>());
  if (value.is_number_float() && !std::isfinite(value.get<double>())) return nullptr;
  if (value.is_array()) {
    json result = json::array();
    for (const auto& element : value) result.push_back(presentable(element));
    return result;
  }
  if (value.is_object()) {
    json result = json::object();
    for (const auto& item : value.items())
      result[valid_utf8(item.key())] = presentable(item.value());
    return result;
  }
  return value;
}

std::string to_line(const json& value) { return presentable(value).dump(); }

void write_file_atomically(const std::filesystem::path& file, std::string_view text) {
  write_atomically(file, text);
}

void write_json_file(const std::filesystem::path& file, const json& value) {
  write_file_atomically(file, presentable(value).dump(1) + "\n");
}

}  // namespace kmeans
