// SPDX-License-Identifier: Apache-2.0
//
// Regular expressions of users, matched in bounded time and memory.
#pragma once

#include <memory>
#include <string>

namespace kmeans {

/// A regular expression that is found anywhere in a text, in the common dialect: . [...] (...) (?:)
/// | * + ? {m,n} ^ $ \d \w \s \b and their opposites. All states are followed at once, so the time
/// is that of the expression's size times the text's, whatever it says; back-references and
/// look-around, which would need more, are refused, and so is what is too large.
class Pattern {
 public:
  /// Found in everything.
  Pattern() = default;

  /// `option` is what the expression was given for, "--only". Throws InputError with the place and
  /// what would be right.
  explicit Pattern(const std::string& text, const std::string& option = "--only");

  [[nodiscard]] bool found_in(const std::string& text) const;

 private:
  struct Program;
  std::shared_ptr<const Program> program_;  ///< Null: found in everything.
};

}  // namespace kmeans
