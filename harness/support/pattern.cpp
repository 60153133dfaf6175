// SPDX-License-Identifier: Apache-2.0
#include "harness/support/pattern.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#include "harness/support/errors.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

// Room for a list of hundreds of keys of cells, as tools/ci_gate.sh makes one.
constexpr std::size_t kLongest = std::size_t{64} << 10;  // bytes
constexpr int kDeepest = 50;                             // parentheses within parentheses
constexpr int kMostChoices = 4000;                       // of the signs | * + ? {
constexpr double kMostRepeated = 5000;                   // counts of {m,n} multiplied

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// The same in the extended syntax of POSIX.
class Translation {
 public:
  explicit Translation(const std::string& text) : text_(text) {
    if (text.size() > kLongest) {
      throw InputError("it is longer than " + std::to_string(kLongest) + " bytes");
    }
    while (at_ < text_.size()) {
      if (text_[at_] == '\\') {
        posix_ += escape();
      } else if (text_[at_] == '[') {
        bracket();
      } else {
        sign();
      }
    }
  }

  [[nodiscard]] const std::string& posix() const { return posix_; }

 private:
  [[nodiscard]] bool next_is(const char* words) const {
    return text_.compare(at_, std::string(words).size(), words) == 0;
  }

  /// Letters of a class without its brackets; empty for other letters.
  static std::string class_of(char letter) {
    switch (letter) {
      case 'd': return "0-9";
      case 'w': return "_[:alnum:]";
      case 's': return "[:space:]";
      default: return "";
    }
  }

  char escaped() {
    if (++at_ == text_.size()) throw InputError("a backslash with nothing behind it");
    return text_[at_++];
  }

  std::string escape() {
    const char c = escaped();
    if (is_digit(c)) throw InputError("back-references are not supported");
    if (c == 'D') return "[^0-9]";
    if (c == 'd') return "[0-9]";
    if (std::isalpha(static_cast<unsigned char>(c)) != 0 &&
        std::string_view("wWsSbB").find(c) == std::string_view::npos) {
      throw InputError(std::string("\\") + c +
                       " means nothing here; \\d \\D \\w \\W \\s \\S \\b \\B do");
    }
    return std::string("\\") + c;
  }

  void bracket() {
    const std::size_t begin = at_++;
    if (next_is("^")) ++at_;
    posix_.append(text_, begin, at_ - begin);
    for (bool first = true; at_ < text_.size() && (first || !next_is("]")); first = false) {
      if (next_is("\\")) {
        const char c = escaped();
        const std::string letters = class_of(c);
        if (letters.empty() && std::isalpha(static_cast<unsigned char>(c)) != 0) {
          throw InputError(std::string("\\") + c + " means nothing in [...]; \\d \\w \\s do");
        }
        posix_ += letters.empty() ? std::string("[.") + c + ".]" : letters;
      } else if (next_is("[:")) {
        const std::size_t end = std::min(text_.find(":]", at_), text_.size() - 2) + 2;
        posix_.append(text_, at_, end - at_);
        at_ = end;
      } else {
        posix_ += text_[at_++];
      }
    }
    if (at_ == text_.size()) throw InputError("a [ without its ]");
    posix_ += text_[at_++];
  }

  void sign() {
    const char c = text_[at_++];
    posix_ += c;
    if (c == '(' && next_is("?")) {
      if (!next_is("?:")) throw InputError("look-around and flags, (?, are not supported");
      at_ += 2;
    }
    if (c == '(' && ++depth_ > kDeepest) {
      throw InputError("more than " + std::to_string(kDeepest) + " ( within one another");
    }
    if (c == ')' && --depth_ < 0) throw InputError("a ) without its (; \\) is the sign itself");
    if (std::string_view("|*+?{").find(c) != std::string_view::npos && ++choices_ > kMostChoices) {
      throw InputError("more than " + std::to_string(kMostChoices) + " of the signs | * + ? {");
    }
    if (c == '{') repeats();
    // As few as possible: whether something is found does not depend on it.
    const bool repetition = c == '*' || c == '+' || c == '?' || c == '}';
    if (repetition && next_is("?")) ++at_;
  }

  void repeats() {
    const std::size_t end = std::min(text_.find('}', at_), text_.size());
    const std::size_t comma = std::min(text_.find(',', at_), end);
    const double least = std::atof(text_.substr(at_, comma - at_).c_str());
    const double most = comma < end ? std::atof(text_.substr(comma + 1, end - comma).c_str()) : 0;
    repeated_ *= std::max({least, most, 1.0});
    if (repeated_ > kMostRepeated) throw InputError("it repeats too much");
  }

  const std::string& text_;
  std::string posix_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int choices_ = 0;
  double repeated_ = 1;
};

std::shared_ptr<const regex_t> compiled(const std::string& posix) {
  auto compiled = std::make_unique<regex_t>();
  if (const int error = regcomp(compiled.get(), posix.c_str(), REG_EXTENDED | REG_NOSUB)) {
    std::array<char, 200> why{};
    regerror(error, compiled.get(), why.data(), why.size());
    throw InputError(why.data());
  }
  return {compiled.release(), [](regex_t* one) {
            regfree(one);
            delete one;
          }};
}

}  // namespace

Pattern::Pattern(const std::string& text, const std::string& option) {
  if (text.empty()) return;
  try {
    compiled_ = compiled(Translation(text).posix());
  } catch (const InputError& error) {
    constexpr std::size_t kShown = 100;
    const std::string shown = text.substr(0, kShown) + (text.size() > kShown ? "..." : "");
    throw InputError(option + " '" + printable(shown) +
                     "' is not a regular expression: " + error.what());
  }
}

bool Pattern::found_in(const std::string& text) const {
  return compiled_ == nullptr || regexec(compiled_.get(), text.c_str(), 0, nullptr, 0) == 0;
}

}  // namespace kmeans
