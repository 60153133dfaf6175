// SPDX-License-Identifier: Apache-2.0
//
// Numbers separated by commas, tabs, semicolons or blanks, one point to a line. Strict: a line with
// another number of columns, or a cell that is not a number, is refused with its line number.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "datasets/readers.h"
#include "harness/support/number.h"
#include "harness/support/parallel.h"

namespace kmeans {
namespace {

constexpr std::int64_t kBytesPerRange = std::int64_t{1} << 20;

bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

/// Takes the first line off `rest`, without its line ending.
std::string_view take_line(std::string_view& rest) {
  const auto* newline = static_cast<const char*>(std::memchr(rest.data(), '\n', rest.size()));
  const auto length =
      newline != nullptr ? static_cast<std::size_t>(newline - rest.data()) : rest.size();
  std::string_view line = rest.substr(0, length);
  rest.remove_prefix(std::min(rest.size(), length + 1));
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

/// The cells of a line, one after another.
class Cells {
 public:
  Cells(std::string_view line, char separator)
      : rest_(separator == ' ' ? trimmed(line) : line), separator_(separator) {}

  [[nodiscard]] bool more() const { return more_; }
  std::string_view next() {
    std::size_t length = 0;
    if (separator_ == ' ') {
      while (length < rest_.size() && !is_blank(rest_[length])) ++length;
    } else {
      length = std::min(rest_.find(separator_), rest_.size());
    }
    const std::string_view cell = trimmed(rest_.substr(0, length));
    more_ = length < rest_.size();
    rest_.remove_prefix(std::min(rest_.size(), length + 1));
    if (separator_ == ' ') rest_ = trimmed(rest_);
    return cell;
  }

 private:
  std::string_view rest_;
  char separator_;
  bool more_ = true;
};

std::int64_t count_cells(std::string_view line, char separator) {
  std::int64_t count = 0;
  for (Cells cells(line, separator); cells.more(); ++count) cells.next();
  return count;
}

char find_separator(std::string_view line) {
  for (const char separator : {'\t', ';', ','}) {
    if (line.find(separator) != std::string_view::npos) return separator;
  }
  return ' ';
}

const char* name_of(char separator) {
  switch (separator) {
    case '\t': return "tabs";
    case ';': return "semicolons";
    case ',': return "commas";
    default: return "blanks";
  }
}

class CsvReader {
 public:
  CsvReader(const FileBytes& file, const LoadOptions& options) : file_(file), options_(options) {}

  Points read() {
    std::string_view text = file_.text();
    if (text.substr(0, 2) == "\xFF\xFE" || text.substr(0, 2) == "\xFE\xFF") {
      file_.refuse("is UTF-16; save it as UTF-8 or ASCII");
    }
    if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
    while (!text.empty() && (is_blank(text.back()) || text.back() == '\n' || text.back() == '\r')) {
      text.remove_suffix(1);  // empty lines at the end
    }
    if (text.empty()) file_.refuse("has no points");
    find_columns(text);
    if (text.empty()) file_.refuse("has a header but no points");
    if (options_.max_points > 0) keep_first_lines(text, options_.max_points);
    return options_.scalar.value_or(ScalarType::f64) == ScalarType::f32 ? parse<float>(text)
                                                                        : parse<double>(text);
  }

 private:
  [[noreturn]] void refuse(std::int64_t line, const std::string& what) const {
    file_.refuse("line " + std::to_string(line) + ": " + what);
  }

  [[noreturn]] void refuse_value(std::int64_t line, std::int64_t column, std::string_view cell,
                                 bool finite) const {
    const std::string where = "column " + std::to_string(column + 1);
    const std::string value = "'" + excerpt(cell) + "'";
    if (finite) file_.refuse_range("line " + std::to_string(line) + ": " + where, value);
    refuse(line, where + ": " + value + " is not a finite number that a float64 can hold");
  }

  // Decides separator, columns and d by the first line, and takes it off the text if it is a
  // header: a line in which no cell is a number.
  void find_columns(std::string_view& text) {
    std::string_view rest = text;
    std::string_view line = take_line(rest);
    separator_ = find_separator(line);
    if (trimmed(line).empty()) refuse(1, "is empty; the first line has a header or a point");
    if (const std::int64_t drop = options_.csv_drop_last; drop < 0) {
      file_.refuse("the number of columns to drop must not be negative");
    }
    columns_ = count_cells(line, separator_);
    bool header = !rest.empty();
    Cells cells(line, separator_);
    const std::int64_t kept = std::max<std::int64_t>(1, columns_ - options_.csv_drop_last);
    for (std::int64_t column = 0; header && column < kept; ++column) {
      double ignored = 0;
      header = !parse_number(cells.next(), ignored);
    }
    if (header) {
      text = rest;
      first_line_ = 2;
      const std::string_view second = take_line(rest);
      // Headers such as "# x y" or '"a, b",c' need not split into as many cells as there are
      // columns.
      if (separator_ == ' ' || line.find('"') != std::string_view::npos) {
        separator_ = find_separator(second);
        columns_ = count_cells(second, separator_);
      }
    }
    d_ = columns_ - options_.csv_drop_last;
    if (d_ < 1) {
      refuse(first_line_, "has " + std::to_string(columns_) + " columns; after dropping " +
                              std::to_string(options_.csv_drop_last) + " nothing is left");
    }
  }

  static void keep_first_lines(std::string_view& text, std::int64_t count) {
    std::string_view rest = text;
    for (std::int64_t i = 0; i < count && !rest.empty(); ++i) take_line(rest);
    text.remove_suffix(rest.size());
  }

  // Parses one line; writes its d coordinates if `out` is not null.
  template <class T>
  void parse_line(std::string_view line, std::int64_t number, T* out) const {
    if (trimmed(line).empty()) {
      refuse(number,
             "is empty; every line holds a point of " + std::to_string(columns_) + " columns");
    }
    Cells cells(line, separator_);
    std::int64_t column = 0;
    for (; cells.more() && column < columns_; ++column) {
      const std::string_view cell = cells.next();
      if (column >= d_) continue;
      double value = 0;
      if (!parse_number(cell, value)) refuse_cell(number, column, cell);
      const T coordinate = static_cast<T>(value);
      if (options_.check_finite && !std::isfinite(coordinate)) {
        refuse_value(number, column, cell, std::isfinite(value));
      }
      if (out != nullptr) out[column] = coordinate;
    }
    if (column < columns_ || cells.more()) {
      refuse(number, "has " + std::to_string(count_cells(line, separator_)) + " columns, line " +
                         std::to_string(first_line_) + " has " + std::to_string(columns_) +
                         " (separated by " + name_of(separator_) + ")");
    }
  }

  [[noreturn]] void refuse_cell(std::int64_t line, std::int64_t column,
                                std::string_view cell) const {
    std::string hint = "a number was expected";
    if (cell.empty()) {
      hint = "the cell is empty; " + hint;
    } else if (cell.find(',') != std::string_view::npos) {
      hint = "numbers are written with a decimal point, not a comma";
    } else if (cell.find(' ') != std::string_view::npos) {
      hint =
          "columns are separated by " + std::string(name_of(separator_)) + ", decimals by a point";
    }
    refuse(line, "column " + std::to_string(column + 1) + ": '" + excerpt(cell) +
                     "' is not a number: " + hint);
  }

  template <class T>
  Points parse(std::string_view text) const {
    // Ranges of whole lines; the lines before a range tell where its first row goes.
    std::vector<std::string_view> ranges;
    for (std::string_view rest = text; !rest.empty();) {
      auto length = std::min(rest.size(), static_cast<std::size_t>(kBytesPerRange));
      const auto newline = rest.find('\n', length - 1);
      length = newline == std::string_view::npos ? rest.size() : newline + 1;
      ranges.push_back(rest.substr(0, length));
      rest.remove_prefix(length);
    }
    const auto count = static_cast<std::int64_t>(ranges.size());
    std::vector<std::int64_t> lines(ranges.size());
    parallel_ranges(count, 1, [&](std::int64_t r, std::int64_t) {
      const auto range = ranges[static_cast<std::size_t>(r)];
      lines[static_cast<std::size_t>(r)] =
          std::count(range.begin(), range.end(), '\n') + (range.back() == '\n' ? 0 : 1);
    });
    std::vector<std::int64_t> first_row(ranges.size());
    std::exclusive_scan(lines.begin(), lines.end(), first_row.begin(), std::int64_t{0});
    const std::int64_t n = first_row.back() + lines.back();

    // Every cell takes at least one character and a separator or line ending, so a text too short
    // for n * d of them has a ragged line: nothing is allocated, and parsing finds that line.
    const auto cells = checked_product(n, columns_);
    const bool plausible = cells && *cells <= (static_cast<std::int64_t>(text.size()) + 1) / 2;
    std::shared_ptr<void> memory;
    if (plausible) memory = allocate_bytes(n * d_ * static_cast<std::int64_t>(sizeof(T)));
    T* coordinates = static_cast<T*>(memory.get());
    parallel_ranges(count, 1, [&](std::int64_t r, std::int64_t) {
      std::string_view rest = ranges[static_cast<std::size_t>(r)];
      for (std::int64_t i = first_row[static_cast<std::size_t>(r)]; !rest.empty(); ++i) {
        parse_line<T>(take_line(rest), first_line_ + i, plausible ? coordinates + i * d_ : nullptr);
      }
    });
    if (!plausible) file_.refuse("has lines with missing columns");
    return {memory, coordinates, n, d_, scalar_of<T>};
  }

  const FileBytes& file_;
  const LoadOptions& options_;
  char separator_ = ',';
  std::int64_t columns_ = 0;  // in the file
  std::int64_t d_ = 0;        // of them kept
  std::int64_t first_line_ = 1;
};

}  // namespace

Points read_csv(const FileBytes& file, const LoadOptions& options) {
  return CsvReader(file, options).read();
}

}  // namespace kmeans
