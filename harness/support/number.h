// SPDX-License-Identifier: Apache-2.0
//
// Decimal numbers in text, read the same under every locale and with every standard library.
#pragma once

#include <charconv>
#include <cstdint>
#include <limits>
#include <string_view>
#include <system_error>

namespace kmeans {

/// Whether a decimal number that a double cannot hold is too large (else it is too small).
inline bool exceeds_double(std::string_view text) {
  // Place of the first digit that is not 0, relative to the decimal point, plus the exponent.
  std::int64_t magnitude = 0;
  bool point = false;
  bool significant = false;
  std::size_t i = 0;
  for (; i < text.size() && text[i] != 'e' && text[i] != 'E'; ++i) {
    if (text[i] == '.') {
      point = true;
    } else if (text[i] >= '0' && text[i] <= '9') {
      significant = significant || text[i] != '0';
      if (significant && !point) ++magnitude;
      if (!significant && point) --magnitude;
    }
  }
  if (i + 1 < text.size()) {
    const bool negative = text[i + 1] == '-';
    const char* begin = text.data() + i + (negative || text[i + 1] == '+' ? 2 : 1);
    std::int64_t exponent = 0;
    const auto result = std::from_chars(begin, text.data() + text.size(), exponent);
    if (result.ec == std::errc::result_out_of_range) return !negative;
    magnitude += negative ? -exponent : exponent;
  }
  return magnitude > 0;
}

/// Reads the whole text as a number: "1", "-2.5e-3", "+4", "nan", "inf". What is too large becomes
/// infinite, what is too small 0 or subnormal. False when it is not a number.
inline bool parse_number(std::string_view text, double& value) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop != end) return false;
  if (error == std::errc::result_out_of_range) {
    const double magnitude = exceeds_double(text) ? std::numeric_limits<double>::infinity() : 0.0;
    value = text[0] == '-' ? -magnitude : magnitude;
    return true;
  }
  return error == std::errc();
}

}  // namespace kmeans
