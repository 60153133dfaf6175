// SPDX-License-Identifier: Apache-2.0
//
// LIBSVM's text format, "label index:value index:value ...", into a dense matrix. Indices count
// from 1 and ascend within a line; what a line leaves out is 0. The label is checked and dropped.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "datasets/readers.h"
#include "harness/support/number.h"

namespace kmeans {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::string_view take_word(std::string_view& rest) {
  while (!rest.empty() && is_space(rest.front())) rest.remove_prefix(1);
  const auto end = std::find_if(rest.begin(), rest.end(), is_space);
  const auto word = rest.substr(0, static_cast<std::size_t>(end - rest.begin()));
  rest.remove_prefix(word.size());
  return word;
}

class LibsvmReader {
 public:
  LibsvmReader(const FileBytes& file, const LoadOptions& options)
      : file_(file), options_(options), text_(file.text()) {
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") text_.remove_prefix(3);
    while (!text_.empty() && (is_space(text_.back()) || text_.back() == '\n')) {
      text_.remove_suffix(1);
    }
  }

  template <class T>
  Points read() {
    if (text_.empty()) file_.refuse("has no points");
    refuse_lines_of_cr(file_, text_);
    std::int64_t d = 0;
    const std::int64_t n = for_each_entry<T>(
        [&](std::int64_t, std::int64_t t, T, double, std::string_view) { d = std::max(d, t + 1); });
    if (d == 0) file_.refuse("has no index:value pair in any line");
    // A sparse file may describe a dense matrix of any size. This bound lets a line in four
    // thousand entries be set, and keeps a few bytes from asking for all memory.
    const auto count = checked_product(n, d);
    if (!count || *count > (std::int64_t{1} << 20) + 1000 * file_.size()) {
      file_.refuse("is too sparse to be read as a dense matrix: " + std::to_string(n) + " x " +
                   std::to_string(d) + " coordinates from " + std::to_string(file_.size()) +
                   " bytes; at most 1000 coordinates a byte are accepted");
    }
    const auto memory = allocate_bytes(*count * static_cast<std::int64_t>(sizeof(T)));
    T* coordinates = static_cast<T*>(memory.get());
    std::fill_n(coordinates, *count, T{0});
    bool noted = false;
    for_each_entry<T>(
        [&](std::int64_t i, std::int64_t t, T value, double written, std::string_view text) {
          coordinates[i * d + t] = value;
          if (noted || options_.rounded == nullptr || !std::isfinite(value)) return;
          if (!is_rounded(text, written, value)) return;
          noted = true;
          *options_.rounded =
              rounded_in_text(file_, i, t, text, static_cast<double>(value), scalar_of<T>);
        });
    return {memory, coordinates, n, d, scalar_of<T>};
  }

 private:
  // Calls visit(point, coordinate, value, its float64, its text) for every entry; returns the number of
  // points.
  template <class T, class Visit>
  std::int64_t for_each_entry(Visit visit) const {
    std::int64_t i = 0;
    for (std::string_view rest = text_; !rest.empty(); ++i) {
      if (options_.max_points > 0 && i == options_.max_points) break;
      std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      line = line.substr(0, line.find('#'));
      const std::string_view label = take_word(line);
      double value = 0;
      if (label.empty()) refuse(i, "is empty; a line begins with a label");
      if (!parse_number(label, value)) {
        refuse(i, "'" + excerpt(label) + "' is not a label: a number was expected");
      }
      std::int64_t before = 0;
      for (auto entry = take_word(line); !entry.empty(); entry = take_word(line)) {
        const std::int64_t index = parse_entry(i, entry, before, value);
        const T coordinate = static_cast<T>(value);
        if (options_.check_finite && !std::isfinite(coordinate)) {
          const std::string text = "'" + excerpt(entry) + "'";
          if (std::isfinite(value)) file_.refuse_range("line " + std::to_string(i + 1), text);
          refuse(i, text + " is not a finite number that a float64 can hold");
        }
        visit(i, index - 1, coordinate, value, entry.substr(entry.find(':') + 1));
        before = index;
      }
    }
    return i;
  }

  std::int64_t parse_entry(std::int64_t i, std::string_view entry, std::int64_t before,
                           double& value) const {
    const auto colon = entry.find(':');
    std::int64_t index = 0;
    const bool split = colon != std::string_view::npos;
    const char* end = entry.data() + (split ? colon : entry.size());
    const auto [stop, error] = std::from_chars(entry.data(), end, index);
    constexpr std::int64_t kLargest = 0x7FFFFFFF;
    if (!split || stop != end || error != std::errc() || index > kLargest) {
      refuse(i, "'" + excerpt(entry) + "' is not an index:value pair with an index in [1, 2^31)");
    }
    if (index < 1) {
      refuse(i,
             "'" + excerpt(entry) + "': index " + std::to_string(index) + "; indices count from 1");
    }
    if (index <= before) {
      refuse(i, "'" + excerpt(entry) + "': index " + std::to_string(index) + " follows " +
                    std::to_string(before) + "; indices must ascend");
    }
    if (!parse_number(entry.substr(colon + 1), value)) {
      refuse(i, "'" + excerpt(entry) + "': the value is not a number");
    }
    return index;
  }

  [[noreturn]] void refuse(std::int64_t i, const std::string& what) const {
    file_.refuse("line " + std::to_string(i + 1) + ": " + what);
  }

  const FileBytes& file_;
  const LoadOptions& options_;
  std::string_view text_;
};

}  // namespace

Points read_libsvm(const FileBytes& file, const LoadOptions& options) {
  LibsvmReader reader(file, options);
  return options.scalar.value_or(ScalarType::f64) == ScalarType::f32 ? reader.read<float>()
                                                                     : reader.read<double>();
}

}  // namespace kmeans
