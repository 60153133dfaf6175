// SPDX-License-Identifier: Apache-2.0
#include "harness/support/pattern.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/support/errors.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

// Room for a list of hundreds of keys of cells, as tools/ci_gate.sh makes one.
constexpr std::size_t kLongest = std::size_t{64} << 10;  // bytes
constexpr int kDeepest = 50;                             // parentheses within parentheses
constexpr std::size_t kMaxRepeated = 5000;               // instructions that repetitions add

using Bytes = std::bitset<256>;

struct Instruction {
  enum class Op : std::uint8_t { byte, split, jump, begin, end, boundary, no_boundary } op;
  /// Relative: of split, where the second way leads (the first is the next); of jump, where to.
  /// Of byte, which of the program's sets.
  std::int32_t argument = 0;
};
using Code = std::vector<Instruction>;
using Op = Instruction::Op;

Bytes range(unsigned char low, unsigned char high) {
  Bytes set;
  for (unsigned c = low; c <= high; ++c) set.set(c);
  return set;
}

Bytes class_of(char letter) {
  switch (letter) {
    case 'd': return range('0', '9');
    case 'D': return ~class_of('d');
    case 'w': return range('a', 'z') | range('A', 'Z') | range('0', '9') | range('_', '_');
    case 'W': return ~class_of('w');
    case 's': return range('\t', '\r') | range(' ', ' ');
    case 'S': return ~class_of('s');
    default: return {};
  }
}

Bytes named_class(std::string_view name) {
  if (name == "alpha") return range('a', 'z') | range('A', 'Z');
  if (name == "digit") return range('0', '9');
  if (name == "alnum") return named_class("alpha") | named_class("digit");
  if (name == "upper") return range('A', 'Z');
  if (name == "lower") return range('a', 'z');
  if (name == "space") return class_of('s');
  if (name == "punct") return range('!', '~') & ~named_class("alnum");
  return {};
}

std::int32_t distance(std::size_t instructions) { return static_cast<std::int32_t>(instructions); }

void append(Code& code, const Code& more) { code.insert(code.end(), more.begin(), more.end()); }

/// From the text to a program, one function a level of the grammar.
class Compiler {
 public:
  Compiler(std::string_view text, std::vector<Bytes>& sets) : text_(text), sets_(sets) {}

  /// Throws InputError that says what is wrong and where.
  Code compile() {
    if (text_.size() > kLongest) {
      throw InputError("it is longer than " + std::to_string(kLongest) +
                       " bytes, the most that is read");
    }
    Code code = alternatives(0);
    if (at_ < text_.size()) refuse("a ) without a (");
    return code;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw InputError("at character " + std::to_string(at_ + 1) + ": " + what);
  }

  [[nodiscard]] bool next_is(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool accept(char c) {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }

  Code alternatives(int depth) {
    std::vector<Code> branches{sequence(depth)};
    while (accept('|')) branches.push_back(sequence(depth));
    std::size_t size = branches.back().size();
    for (std::size_t i = 0; i + 1 < branches.size(); ++i) size += branches[i].size() + 2;
    Code code;
    code.reserve(size);
    for (std::size_t i = 0; i < branches.size(); ++i) {
      if (i + 1 == branches.size()) {
        append(code, branches[i]);
        break;
      }
      code.push_back({Op::split, distance(branches[i].size() + 2)});
      append(code, branches[i]);
      code.push_back({Op::jump, distance(size - code.size())});
    }
    return code;
  }

  Code sequence(int depth) {
    Code code;
    while (at_ < text_.size() && text_[at_] != '|' && text_[at_] != ')') {
      append(code, repeated(atom(depth)));
    }
    return code;
  }

  Code atom(int depth) {
    const char c = text_[at_];
    switch (c) {
      case '(': return group(depth);
      case '[': return byte(bracket());
      case '\\': return escape();
      case '^': ++at_; return {{Op::begin}};
      case '$': ++at_; return {{Op::end}};
      case '.': ++at_; return byte(~range('\n', '\n'));
      case '*':
      case '+':
      case '?':
        refuse(std::string("nothing stands before ") + c + "; write \\" + c + " for itself");
      case '{': refuse("nothing that can be repeated stands before {; write \\{ for itself");
      default: ++at_; return byte(single(c));
    }
  }

  static Bytes single(char c) {
    const auto code = static_cast<unsigned char>(c);
    return range(code, code);
  }

  Code byte(const Bytes& set) {
    auto known = std::find(sets_.begin(), sets_.end(), set);
    if (known == sets_.end()) known = sets_.insert(known, set);
    return {{Op::byte, distance(static_cast<std::size_t>(known - sets_.begin()))}};
  }

  Code group(int depth) {
    if (depth == kDeepest) {
      refuse("parentheses within parentheses more than " + std::to_string(kDeepest) + " deep");
    }
    ++at_;
    if (next_is('?')) {
      if (text_.substr(at_, 2) != "?:") refuse("look-around and flags, (?, are not supported");
      at_ += 2;
    }
    Code code = alternatives(depth + 1);
    if (!accept(')')) refuse("a ( without its )");
    return code;
  }

  /// The set of an escape that stands for bytes; `at_` is behind the backslash.
  Bytes escaped() {
    if (at_ == text_.size()) refuse("a backslash with nothing behind it");
    const char c = text_[at_];
    if (const Bytes set = class_of(c); set.any()) {
      ++at_;
      return set;
    }
    static constexpr std::array<std::pair<char, char>, 3> kControl{
        {{'n', '\n'}, {'r', '\r'}, {'t', '\t'}}};
    for (const auto& [letter, control] : kControl) {
      if (c != letter) continue;
      ++at_;
      return single(control);
    }
    if (class_of('d')[static_cast<unsigned char>(c)]) refuse("back-references are not supported");
    if (c != '_' && class_of('w')[static_cast<unsigned char>(c)]) {
      refuse(std::string("\\") + c + " means nothing here");
    }
    ++at_;
    return single(c);
  }

  Code escape() {
    ++at_;
    if (accept('b')) return {{Op::boundary}};
    if (accept('B')) return {{Op::no_boundary}};
    return byte(escaped());
  }

  /// One member of [...], or the low end of a range.
  Bytes member() {
    if (text_.substr(at_, 2) == "[:") {
      const auto end = text_.find(":]", at_ + 2);
      const std::string_view name =
          end == std::string_view::npos ? "" : text_.substr(at_ + 2, end - at_ - 2);
      const Bytes set = named_class(name);
      if (set.none())
        refuse("[: is not followed by alpha, digit, alnum, upper, lower, space or punct");
      at_ = end + 2;
      return set;
    }
    if (accept('\\')) return escaped();
    return single(text_[at_++]);
  }

  static int only_byte(const Bytes& set) {
    if (set.count() != 1) return -1;
    int code = 0;
    while (!set[static_cast<std::size_t>(code)]) ++code;
    return code;
  }

  Bytes bracket() {
    ++at_;
    const bool others = accept('^');
    Bytes set;
    for (bool first = true; first || !next_is(']'); first = false) {
      if (at_ >= text_.size()) refuse("a [ without its ]");
      const Bytes low = member();
      const bool is_range = next_is('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
      if (!is_range) {
        set |= low;
        continue;
      }
      ++at_;
      const int from = only_byte(low);
      const int to = only_byte(member());
      if (from < 0 || to < from) refuse("a range in [...] must go up, from one letter to another");
      set |= range(static_cast<unsigned char>(from), static_cast<unsigned char>(to));
    }
    ++at_;
    return others ? ~set : set;
  }

  struct Count {
    std::size_t least = 0;
    std::size_t most = 0;
    bool unbounded = false;
  };

  std::size_t number() {
    std::size_t value = 0;
    const char* begin = text_.data() + at_;
    const auto [stop, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (stop == begin) refuse("{ must be followed by a count, {2} or {2,5}; write \\{ for itself");
    if (error != std::errc() || value > kMaxRepeated) {
      refuse("more than " + std::to_string(kMaxRepeated) + " repetitions");
    }
    at_ += static_cast<std::size_t>(stop - begin);
    return value;
  }

  Count count() {
    if (accept('*')) return {0, 0, true};
    if (accept('+')) return {1, 1, true};
    if (accept('?')) return {0, 1, false};
    ++at_;
    Count count;
    count.most = count.least = number();
    if (accept(',')) {
      count.unbounded = next_is('}');
      if (!count.unbounded) count.most = number();
    }
    if (!accept('}')) refuse("a count in {...} must end with }");
    if (count.most < count.least) refuse("a count in {...} must go up");
    return count;
  }

  [[nodiscard]] bool at_repetition() const {
    return next_is('*') || next_is('+') || next_is('?') || next_is('{');
  }

  Code repeated(Code once) {
    if (!at_repetition()) return once;
    const Count times = count();
    accept('?');  // as few as possible: whether something is found does not depend on it
    if (at_repetition()) refuse("two repetitions in a row; put the first in parentheses");
    const std::size_t copies = times.most + (times.unbounded ? 1 : 0);
    repeated_ += copies * (once.size() + 2);
    if (repeated_ > kMaxRepeated && copies > 1) {
      refuse("it repeats too much: written out it has more than " + std::to_string(kMaxRepeated) +
             " parts");
    }
    Code code;
    for (std::size_t i = 0; i < times.least; ++i) append(code, once);
    for (std::size_t i = times.least; i < times.most; ++i) {
      code.push_back({Op::split, distance(once.size() + 1)});
      append(code, once);
    }
    if (times.unbounded) {
      code.push_back({Op::split, distance(once.size() + 2)});
      append(code, once);
      code.push_back({Op::jump, -distance(once.size() + 1)});
    }
    return code;
  }

  std::string_view text_;
  std::vector<Bytes>& sets_;
  std::size_t at_ = 0;
  std::size_t repeated_ = 0;
};

}  // namespace

struct Pattern::Program {
  Code code;  ///< Its end is the match.
  std::vector<Bytes> sets;
};

namespace {

/// The places in a program that a text may have led to, all at once.
class States {
 public:
  States(const Code& code, const std::string& text) : code_(code), text_(text) {
    seen_.resize(code.size() + 1);
  }

  /// Follows what needs no byte. True once the program's end is reached.
  bool add(std::size_t place, std::size_t position, std::vector<std::size_t>& waiting) {
    pending_.assign(1, place);
    while (!pending_.empty()) {
      const std::size_t at = pending_.back();
      pending_.pop_back();
      if (seen_[at] == position + 1) continue;
      seen_[at] = position + 1;
      if (at == code_.size()) return true;
      const Instruction& one = code_[at];
      const auto target = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(at) + one.argument);
      if (one.op == Op::byte) {
        waiting.push_back(at);
      } else if (one.op == Op::split) {
        pending_.push_back(target);
        pending_.push_back(at + 1);
      } else if (one.op == Op::jump) {
        pending_.push_back(target);
      } else if (holds(one.op, position)) {
        pending_.push_back(at + 1);
      }
    }
    return false;
  }

 private:
  [[nodiscard]] bool is_word(std::size_t position) const {
    static const Bytes kWord = class_of('w');
    return position < text_.size() && kWord[static_cast<unsigned char>(text_[position])];
  }

  [[nodiscard]] bool holds(Op op, std::size_t position) const {
    if (op == Op::begin) return position == 0;
    if (op == Op::end) return position == text_.size();
    const bool boundary = (position > 0 && is_word(position - 1)) != is_word(position);
    return boundary == (op == Op::boundary);
  }

  const Code& code_;
  const std::string& text_;
  std::vector<std::size_t> seen_;  ///< 1 + the position at which a place was last reached.
  std::vector<std::size_t> pending_;
};

}  // namespace

Pattern::Pattern(const std::string& text, const std::string& option) {
  if (text.empty()) return;
  auto program = std::make_shared<Program>();
  try {
    program->code = Compiler(text, program->sets).compile();
  } catch (const InputError& error) {
    constexpr std::size_t kShown = 100;
    const std::string shown = text.substr(0, kShown) + (text.size() > kShown ? "..." : "");
    throw InputError(option + " '" + printable(shown) +
                     "' is not a regular expression: " + error.what());
  }
  program_ = std::move(program);
}

bool Pattern::found_in(const std::string& text) const {
  if (program_ == nullptr) return true;
  States states(program_->code, text);
  std::vector<std::size_t> now;
  std::vector<std::size_t> next;
  for (std::size_t position = 0; position <= text.size(); ++position) {
    // It may begin anywhere.
    if (states.add(0, position, now)) return true;
    if (position == text.size()) break;
    const auto byte = static_cast<unsigned char>(text[position]);
    next.clear();
    for (const std::size_t at : now) {
      const auto set = static_cast<std::size_t>(program_->code[at].argument);
      if (program_->sets[set][byte] && states.add(at + 1, position + 1, next)) return true;
    }
    std::swap(now, next);
  }
  return false;
}

}  // namespace kmeans
