// SPDX-License-Identifier: Apache-2.0
//
// Files in which the kernel describes the machine: /proc and /sys.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace kmeans {

/// Without blanks and quotes around it.
std::string trimmed(const std::string& text);

/// The parts between separators, trimmed; one at least.
std::vector<std::string> split(const std::string& text, const std::string& separator);

/// The integer that a text begins with.
std::optional<std::int64_t> parse_integer(const std::string& text);

/// The first line of a file, trimmed, as valid UTF-8; nothing if it cannot be read or is empty.
std::optional<std::string> first_line(const std::string& path);

/// The integer that the first line begins with.
std::optional<std::int64_t> integer_in(const std::string& path);

/// "0-3,8" as {0, 1, 2, 3, 8}.
std::set<int> parse_cpu_list(const std::string& text);

}  // namespace kmeans
