// SPDX-License-Identifier: Apache-2.0
//
// What options accept as numbers: decimal, finite and within their range; nothing is cut to fit,
// and no leading zero makes a number octal.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

namespace kmeans {

/// More threads than any machine has, and fewer than what makes an OpenMP runtime give up.
inline constexpr int kMaxThreads = 4096;

/// Seeds up to 2^53 survive every reader of JSON.
inline constexpr std::int64_t kLargestSeed = std::int64_t{1} << 53;

/// For Option::transform: digits with an optional sign, rewritten without leading zeros.
CLI::Validator whole_number(std::int64_t least,
                            std::int64_t most = std::numeric_limits<std::int64_t>::max());

/// The same for sizes, which may have a power of ten too, "2e6"; at most 2^53.
CLI::Validator whole_size(std::int64_t least);

/// For Option::check: a finite decimal number within [least, most].
CLI::Validator number_within(double least, double most);

/// The same within (0, infinity).
CLI::Validator positive_number();

}  // namespace kmeans
