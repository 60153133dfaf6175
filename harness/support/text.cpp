// SPDX-License-Identifier: Apache-2.0
#include "harness/support/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <numeric>

#include "harness/support/formatted.h"

namespace kmeans {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

namespace {
std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  return result;
}
}  // namespace

std::string closest_names(std::string_view name, const std::vector<std::string>& known) {
  if (known.empty()) return "there is none";
  // In halves: a letter of the other case is less of a slip than another letter.
  const auto distance = [&](const std::string& other) {
    return std::min(2 * edit_distance(name, other),
                    2 * edit_distance(lower_case(name), lower_case(other)) + 1);
  };
  const auto best =
      *std::min_element(known.begin(), known.end(),
                        [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  if (distance(best) <= 2 * std::max<std::size_t>(2, name.size() / 3)) {
    return "did you mean '" + best + "'?";
  }
  std::string list = "known:";
  for (const auto& other : known) list += (&other == &known.front() ? " " : ", ") + other;
  return list;
}

std::string valid_utf8(std::string_view text) {
  static constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string result;
  result.reserve(text.size());
  std::size_t i = 0;
  while (i < text.size()) {
    const auto byte = static_cast<unsigned char>(text[i]);
    std::size_t length = 0;
    std::uint32_t code = 0;
    if (byte < 0x80) {
      length = 1;
      code = byte;
    } else if ((byte & 0xE0) == 0xC0) {
      length = 2;
      code = byte & 0x1F;
    } else if ((byte & 0xF0) == 0xE0) {
      length = 3;
      code = byte & 0x0F;
    } else if ((byte & 0xF8) == 0xF0) {
      length = 4;
      code = byte & 0x07;
    }
    bool valid = length > 0 && i + length <= text.size();
    for (std::size_t j = 1; valid && j < length; ++j) {
      const auto next = static_cast<unsigned char>(text[i + j]);
      valid = (next & 0xC0) == 0x80;
      code = (code << 6) | (next & 0x3F);
    }
    static constexpr std::array<std::uint32_t, 5> kSmallest{0, 0, 0x80, 0x800, 0x10000};
    valid = valid && code >= kSmallest[length] && code <= 0x10FFFF &&
            !(code >= 0xD800 && code <= 0xDFFF);
    if (valid) {
      result.append(text.substr(i, length));
      i += length;
    } else {
      result.append(kReplacement);
      i += 1;
    }
  }
  return result;
}

namespace {
/// The code of a character that turns the direction of what follows, or shows nothing at all; 0 for
/// any other. Such a one makes a name look like another. `valid` is UTF-8.
unsigned invisible_at(std::string_view valid, std::size_t i) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(valid[at]); };
  if (byte(i) == 0xD8 && byte(i + 1) == 0x9C) return 0x061C;
  if (byte(i) != 0xE2 && byte(i) != 0xEF) return 0;
  const unsigned code =
      (byte(i) & 0x0Fu) << 12 | (byte(i + 1) & 0x3Fu) << 6 | (byte(i + 2) & 0x3Fu);
  const bool invisible = (code >= 0x200B && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
                         (code >= 0x2060 && code <= 0x2069) || code == 0xFEFF;
  return invisible ? code : 0;
}
}  // namespace

std::string printable(std::string_view text) {
  const std::string valid = valid_utf8(text);
  std::string result;
  result.reserve(valid.size());
  const auto spell_out = [&](unsigned code) { result += formatted("\\x%02x", code); };
  for (std::size_t i = 0; i < valid.size(); ++i) {
    const auto byte = static_cast<unsigned char>(valid[i]);
    const auto next = i + 1 < valid.size() ? static_cast<unsigned char>(valid[i + 1]) : 0U;
    if ((byte < 0x20 && byte != '\n') || byte == 0x7F) {
      spell_out(byte);
    } else if (byte == 0xC2 && next < 0xA0) {  // U+0080 to U+009F control terminals as well
      spell_out(next);
      ++i;
    } else if (const auto code = invisible_at(valid, i); code != 0) {
      result += formatted("\\u%04x", code);
      i += code < 0x800 ? 1 : 2;
    } else {
      result += valid[i];
    }
  }
  return result;
}

std::string format_seconds(double seconds) {
  const double magnitude = std::abs(seconds);
  if (magnitude >= 100) return formatted("%.0f s", seconds);
  if (magnitude >= 1) return formatted("%.3g s", seconds);
  if (magnitude >= 1e-3) return formatted("%.3g ms", seconds * 1e3);
  if (magnitude >= 1e-6) return formatted("%.3g us", seconds * 1e6);
  return formatted("%.3g ns", seconds * 1e9);
}

std::string format_bytes(double bytes) {
  static constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  while (std::abs(bytes) >= 1000 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return formatted("%.3g %s", bytes, kUnits[unit]);
}

std::string format_count(std::int64_t count) {
  std::string digits = std::to_string(count);
  const std::size_t first = digits[0] == '-' ? 1 : 0;
  for (std::size_t i = digits.size(); i > first + 3;) {
    i -= 3;
    digits.insert(i, 1, ' ');
  }
  return digits;
}

std::string format_percent(double share) { return formatted("%.3g %%", 100 * share); }

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

}  // namespace kmeans
