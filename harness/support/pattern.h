// SPDX-License-Identifier: Apache-2.0
//
// Regular expressions of users.
#pragma once

#include <regex.h>

#include <memory>
#include <string>

namespace kmeans {

/// A POSIX regular expression that is found anywhere in a text, with the common \d, (?:) and lazy
/// repetitions. Back-references and look-around are refused, and so is what repeats or says so much
/// that it takes more than moments.
class Pattern {
 public:
  /// Found in everything.
  Pattern() = default;

  /// `option` is what the expression was given for, "--only". Throws InputError.
  explicit Pattern(const std::string& text, const std::string& option = "--only");

  [[nodiscard]] bool found_in(const std::string& text) const;

 private:
  std::shared_ptr<const regex_t> compiled_;  ///< Null: found in everything.
};

}  // namespace kmeans
