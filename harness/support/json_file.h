// SPDX-License-Identifier: Apache-2.0
//
// JSON from and to files: read strictly, with the place of every value; written whole or not at
// all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kmeans {

/// What a document may cost before it is refused.
struct JsonLimits {
  std::size_t bytes = std::size_t{16} << 20;
  int depth = 32;
  /// A parsed value takes up to 300 bytes, two in the text. No experiment of the suite has 5 000.
  std::size_t values = 250'000;
};

/// Of a file that the suite itself has written, however long.
inline constexpr JsonLimits kNoJsonLimits{std::numeric_limits<std::size_t>::max(),
                                          JsonLimits{}.depth,
                                          std::numeric_limits<std::size_t>::max()};

/// A parsed document that remembers where its values stood.
struct JsonDocument {
  nlohmann::json value;
  std::string source;                         ///< File name, for messages.
  std::map<std::string, std::size_t> offset;  ///< JSON pointer -> byte in the text.
  std::string text;

  /// "file:line:column" of the value at `pointer`, or of its nearest ancestor.
  [[nodiscard]] std::string where(const std::string& pointer) const;
};

/// Parses one JSON value. Duplicate keys, trailing text, comments, and documents beyond the limits
/// throw InputError with "source:line:column: reason".
JsonDocument parse_json(std::string text, const std::string& source, const JsonLimits& limits = {});

/// Reads and parses a regular file.
JsonDocument read_json_document(const std::filesystem::path& file, const JsonLimits& limits = {});

/// The same for its value alone.
nlohmann::json read_json_file(const std::filesystem::path& file, const JsonLimits& limits = {});

/// Appends a key or an index to a JSON pointer, escaped as RFC 6901 wants.
std::string pointer_to(const std::string& parent, const std::string& key);
std::string pointer_to(const std::string& parent, std::size_t index);

/// The value with every string made valid UTF-8 and every NaN or infinity made null, so that it can
/// always be written.
nlohmann::json presentable(const nlohmann::json& value);

/// One line, without a line break. Never throws: the value is made presentable.
std::string to_line(const nlohmann::json& value);

/// write_atomically of harness/support/atomic_file.h. Throws OutputError; the old file then stands.
void write_file_atomically(const std::filesystem::path& file, std::string_view text);

/// The same for a JSON value, indented, presentable, with a final line break.
void write_json_file(const std::filesystem::path& file, const nlohmann::json& value);

}  // namespace kmeans
