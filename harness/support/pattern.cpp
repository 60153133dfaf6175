// SPDX-License-Identifier: Apache-2.0
#include "harness/support/pattern.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "harness/support/errors.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

// Room for a list of hundreds of keys of cells, as tools/ci_gate.sh makes one.
constexpr std::size_t kLongest = std::size_t{64} << 10;  // bytes
constexpr std::size_t kDeepest = 50;                     // parentheses within parentheses
constexpr int kMostChoices = 4000;                       // of the signs | * + ? {
constexpr double kMostRepeated = 5000;                   // signs that {m,n} add

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

constexpr std::array kClasses{"alnum", "alpha", "blank", "cntrl", "digit", "graph",
                              "lower", "print", "punct", "space", "upper", "xdigit"};

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
        add_item(1);
      } else if (text_[at_] == '[') {
        bracket();
        add_item(1);
      } else {
        sign();
      }
    }
    if (groups_.size() > 1) refuse("a ( without its )", groups_.back().begin);
    const double all = groups_.back().items + groups_.back().last;
    if (all > kMostRepeated + static_cast<double>(text_.size())) {
      throw InputError("it repeats too much");
    }
  }

  [[nodiscard]] const std::string& posix() const { return posix_; }

 private:
  /// What stands in parentheses, in signs with all repetitions of {m,n}.
  struct Group {
    std::size_t begin = 0;
    double items = 0;  // but the last one
    double last = 0;
    bool empty = true;  // nothing that can be repeated
  };

  [[noreturn]] void refuse(const std::string& what, std::size_t at) const {
    const auto is_first_byte = [](char c) {
      return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    };
    const auto before = std::count_if(
        text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at), is_first_byte);
    throw InputError("character " + std::to_string(before + 1) + ": " + what);
  }

  void add_item(double size) {
    Group& group = groups_.back();
    group.items += group.last;
    group.last = size;
    group.empty = false;
  }

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
    if (++at_ == text_.size()) refuse("a backslash with nothing behind it", at_ - 1);
    return text_[at_++];
  }

  std::string escape() {
    const std::size_t begin = at_;
    const char c = escaped();
    if (is_digit(c)) refuse("back-references are not supported", begin);
    if (c == 'D') return "[^0-9]";
    if (c == 'd') return "[0-9]";
    if (std::isalpha(static_cast<unsigned char>(c)) != 0 &&
        std::string_view("wWsSbB").find(c) == std::string_view::npos) {
      refuse(std::string("\\") + c + " means nothing here; \\d \\D \\w \\W \\s \\S \\b \\B do",
             begin);
    }
    return std::string("\\") + c;
  }

  void bracket() {
    const std::size_t begin = at_++;
    if (next_is("^")) ++at_;
    posix_.append(text_, begin, at_ - begin);
    for (bool first = true; at_ < text_.size() && (first || !next_is("]")); first = false) {
      const std::size_t here = at_;
      if (next_is("\\")) {
        const char c = escaped();
        const std::string letters = class_of(c);
        if (letters.empty() && std::isalpha(static_cast<unsigned char>(c)) != 0) {
          refuse(std::string("\\") + c + " means nothing in [...]; \\d \\w \\s do", here);
        }
        posix_ += letters.empty() ? std::string("[.") + c + ".]" : letters;
      } else if (next_is("[:")) {
        named_class();
      } else {
        posix_ += text_[at_++];
      }
    }
    if (at_ == text_.size()) refuse("a [ without its ]", begin);
    posix_ += text_[at_++];
  }

  void named_class() {
    const std::size_t begin = at_;
    const std::size_t end = text_.find(":]", begin + 2);
    if (end == std::string::npos) refuse("a [: without its :]", begin);
    const std::string name = text_.substr(begin + 2, end - begin - 2);
    if (std::find(kClasses.begin(), kClasses.end(), name) == kClasses.end()) {
      refuse("[:" + printable(name) + ":] is none of alnum, alpha, blank, cntrl, digit, graph, " +
                 "lower, print, punct, space, upper, xdigit",
             begin);
    }
    at_ = end + 2;
    posix_.append(text_, begin, at_ - begin);
  }

  void sign() {
    const std::size_t begin = at_;
    const char c = text_[at_++];
    posix_ += c;
    const bool repeats = std::string_view("*+?{").find(c) != std::string_view::npos;
    if ((repeats || c == '|') && ++choices_ > kMostChoices) {
      throw InputError("more than " + std::to_string(kMostChoices) + " of the signs | * + ? {");
    }
    if (repeats) {
      if (groups_.back().empty) refuse(std::string("a ") + c + " with nothing to repeat", begin);
      if (c == '{') counts(begin);
      // As few as possible: whether something is found does not depend on it.
      if (next_is("?")) ++at_;
    } else if (c == '(') {
      if (next_is("?")) {
        if (!next_is("?:")) refuse("look-around and flags, (?, are not supported", begin);
        at_ += 2;
      }
      if (groups_.size() > kDeepest) {
        throw InputError("more than " + std::to_string(kDeepest) + " ( within one another");
      }
      groups_.push_back({.begin = begin});
    } else if (c == ')') {
      if (groups_.size() == 1) refuse("a ) without its (; \\) is the sign itself", begin);
      const Group group = groups_.back();
      groups_.pop_back();
      add_item(1 + group.items + group.last);
    } else {
      add_item(1);
      groups_.back().empty = c == '|';
    }
  }

  /// Behind the brace.
  void counts(std::size_t begin) {
    const std::size_t end = text_.find('}', at_);
    if (end == std::string::npos) refuse("a { without its }; \\{ is the sign itself", begin);
    const std::string inside = text_.substr(at_, end - at_);
    const std::size_t comma = std::min(inside.find(','), inside.size());
    const std::string least = inside.substr(0, comma);
    const std::string most = comma < inside.size() ? inside.substr(comma + 1) : least;
    const bool numbers = std::all_of(least.begin(), least.end(), is_digit) &&
                         std::all_of(most.begin(), most.end(), is_digit) &&
                         !(least.empty() && most.empty());
    if (!numbers || (!most.empty() && std::atof(least.c_str()) > std::atof(most.c_str()))) {
      refuse("{" + printable(inside) + "} is not {2}, {2,}, {,5} or {2,5}", begin);
    }
    groups_.back().last *= std::max({std::atof(least.c_str()), std::atof(most.c_str()), 1.0});
    posix_.append(text_, at_, end + 1 - at_);
    at_ = end + 1;
  }

  const std::string& text_;
  std::string posix_;
  std::size_t at_ = 0;
  int choices_ = 0;
  std::vector<Group> groups_{1};  // that are open, and the whole
};

/// What is left for the C library to find.
std::string sentence_of(int error) {
  switch (error) {
    case REG_ERANGE: return "a range in [...] ends before it begins";
    case REG_ECOLLATE: return "[. .] or [= =] names no character";
    case REG_EBRACK: return "a [ without its ]";
    case REG_BADRPT: return "one of the signs * + ? { has nothing to repeat";
    case REG_ESPACE: return "it takes too much memory";
    default: return "it is none of POSIX";
  }
}

std::shared_ptr<const regex_t> compiled(const std::string& posix) {
  auto compiled = std::make_unique<regex_t>();
  if (const int error = regcomp(compiled.get(), posix.c_str(), REG_EXTENDED | REG_NOSUB)) {
    throw InputError(sentence_of(error));
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
