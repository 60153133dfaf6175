// SPDX-License-Identifier: Apache-2.0
//
// Small helpers for messages.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kmeans {

/// "did you mean 'cpu_naive'?" when one is near, else "known: a, b, c".
std::string closest_names(std::string_view name, const std::vector<std::string>& known);

/// Edit distance (insert, delete, replace, each 1).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The text as valid UTF-8: every invalid byte becomes U+FFFD, so that JSON output never throws.
std::string valid_utf8(std::string_view text);

/// The text as valid UTF-8 without control characters, which could move a terminal's cursor or hide
/// what was written: "\x1b[1m" is spelled out. Line breaks stay.
std::string printable(std::string_view text);

/// "1.5 ms", "320 ns", "12.3 s".
std::string format_seconds(double seconds);

/// "1.5 GiB".
std::string format_bytes(double bytes);

/// "12.3 %" of a share of 0.123.
std::string format_percent(double share);

/// UTC now, ISO 8601: "2026-11-21T08:40:00Z".
std::string utc_now();

/// "1 cell", "3 cells".
template <std::integral Count>
std::string counted(Count count, std::string_view one, std::string_view many) {
  return std::to_string(count).append(" ").append(count == 1 ? one : many);
}

/// "1 000 000" with thin grouping by plain spaces.
std::string format_count(std::int64_t count);

}  // namespace kmeans
