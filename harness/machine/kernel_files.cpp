// SPDX-License-Identifier: Apache-2.0
#include "harness/machine/kernel_files.h"

#include <charconv>
#include <fstream>
#include <system_error>

#include "harness/support/text.h"

namespace kmeans {

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r\n\"");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n\"") - begin + 1);
}

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (true) {
    const auto end = text.find(separator, begin);
    parts.push_back(trimmed(text.substr(begin, end - begin)));
    if (end == std::string::npos) return parts;
    begin = end + separator.size();
  }
}

std::optional<std::int64_t> parse_integer(const std::string& text) {
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc{}) return std::nullopt;
  return value;
}

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  line = trimmed(line);
  if (line.empty()) return std::nullopt;
  return valid_utf8(line);
}

std::optional<std::int64_t> integer_in(const std::string& path) {
  const auto line = first_line(path);
  return line ? parse_integer(*line) : std::nullopt;
}

std::set<int> parse_cpu_list(const std::string& text) {
  std::set<int> cpus;
  for (const auto& part : split(text, ",")) {
    const auto ends = split(part, "-");
    const auto first = parse_integer(ends.front());
    const auto last = parse_integer(ends.back());
    if (!first || !last || *last - *first > 100'000) continue;
    for (auto cpu = *first; cpu <= *last; ++cpu) cpus.insert(static_cast<int>(cpu));
  }
  return cpus;
}

}  // namespace kmeans
