// SPDX-License-Identifier: Apache-2.0
#include "harness/support/option_checks.h"

#include <charconv>
#include <cmath>
#include <string>

#include "harness/support/formatted.h"
#include "harness/support/number.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

std::string short_number(double value) { return formatted("%g", value); }

std::string as_given(const std::string& text) { return "'" + printable(text.substr(0, 60)) + "'"; }

CLI::Validator finite_number(const std::string& range, double least, double most, bool open) {
  return {[=](std::string& text) {
            double value = 0;
            const bool fits = parse_number(text, value) && std::isfinite(value) && value <= most &&
                              (open ? value > least : value >= least);
            return fits ? std::string() : as_given(text) + " is not a number " + range;
          },
          ""};
}

}  // namespace

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  std::string range = "from " + std::to_string(least) + " to " + std::to_string(most);
  if (most == std::numeric_limits<std::int64_t>::max()) {
    range = least == std::numeric_limits<std::int64_t>::min()
                ? "below 2^63"
                : "from " + std::to_string(least) + " to 2^63 - 1";
  }
  return {[=](std::string& text) {
            std::string_view digits = text;
            if (digits.size() > 1 && digits[0] == '+' && digits[1] != '-') digits.remove_prefix(1);
            std::int64_t value = 0;
            const char* end = digits.data() + digits.size();
            const auto [stop, error] = std::from_chars(digits.data(), end, value);
            if (stop != end || error != std::errc() || value < least || value > most) {
              return as_given(text) + " is not a whole number " + range;
            }
            text = std::to_string(value);
            return std::string();
          },
          ""};
}

CLI::Validator whole_size(std::int64_t least) {
  return {[=](std::string& text) {
            double value = 0;
            // Up to here every whole number is a float64 of its own.
            constexpr double kMax = 9007199254740992.0;
            const bool fits = parse_number(text, value) && std::floor(value) == value &&
                              value >= static_cast<double>(least) && value <= kMax;
            if (!fits) {
              return as_given(text) + " is not a whole number from " + std::to_string(least) +
                     " to 2^53 (2e6 is one)";
            }
            text = std::to_string(static_cast<std::int64_t>(value));
            return std::string();
          },
          ""};
}

CLI::Validator number_within(double least, double most) {
  return finite_number("from " + short_number(least) + " to " + short_number(most), least, most,
                       false);
}

CLI::Validator positive_number() {
  return finite_number("above 0", 0, std::numeric_limits<double>::max(), true);
}

}  // namespace kmeans
