// SPDX-License-Identifier: Apache-2.0
//
// Numbers separated by commas, tabs, semicolons or blanks, one point to a line, in quotes or not. Strict: a
// line with another number of columns, or a cell that is not a number, is refused with its line number.
// Headers and row names as pandas and R write them are recognised; what could have been meant otherwise is
// said in a note.
#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
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
    const auto quote = rest_.find_first_not_of(" \t");
    if (quote != std::string_view::npos && rest_[quote] == '"' && separator_ != '\t') {
      // Separators within quotes belong to the cell; what follows the second quote is refused as a number.
      const auto end = rest_.find('"', quote + 1);
      if (end != std::string_view::npos) length = end + 1;
    }
    if (separator_ == ' ') {
      while (length < rest_.size() && !is_blank(rest_[length])) ++length;
    } else {
      length = std::min(rest_.find(separator_, length), rest_.size());
    }
    std::string_view cell = trimmed(rest_.substr(0, length));
    if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"') {
      cell = trimmed(cell.substr(1, cell.size() - 2));
    }
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

std::vector<std::string_view> cells_of(std::string_view line, char separator) {
  std::vector<std::string_view> found;
  for (Cells cells(line, separator); cells.more();) found.push_back(cells.next());
  return found;
}

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

bool is_number(std::string_view cell) {
  double ignored = 0;
  return parse_number(cell, ignored);
}

/// Are these 0, 1, 2, ..., as pandas names columns that have no names?
bool counts_up(std::span<const std::string_view> cells) {
  for (std::size_t at = 0; at < cells.size(); ++at) {
    if (cells[at] != std::to_string(at)) return false;
  }
  return !cells.empty();
}

bool is_whole(std::string_view cell) {
  return cell.find_first_of(".eEnN") == std::string_view::npos;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return result;
}

/// Names under which files keep what is no coordinate.
bool names_no_coordinate(std::string_view name) {
  static constexpr std::array kNames{"label", "labels", "class",      "target", "species",
                                     "id",    "index",  "unnamed: 0", "cluster"};
  return std::find(kNames.begin(), kNames.end(), lower(name)) != kNames.end();
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
    refuse_lines_of_cr(file_, text);
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

  // Decides separator, columns and d by the first line, and takes it off the text if it is a header.
  void find_columns(std::string_view& text) {
    std::string_view rest = text;
    const std::string_view line = take_line(rest);
    std::string_view after = rest;
    const std::string_view second = take_line(after);
    separator_ = find_separator(line);
    if (trimmed(line).empty()) refuse(1, "is empty; the first line has a header or a point");
    columns_ = count_cells(line, separator_);
    if (is_header(line, second, !rest.empty())) {
      text = rest;
      first_line_ = 2;
      const auto names = cells_of(line, separator_);
      const char separator = find_separator(second);
      const std::int64_t below = count_cells(second, separator);
      const bool comment = trimmed(line).front() == '#' || trimmed(line).front() == '%';
      const bool one_less = !comment && separator == separator_ &&
                            below == static_cast<std::int64_t>(names.size()) + 1;
      // Headers such as "# x y" or '"a, b",c' need not split into as many cells as there are columns.
      const bool loose = separator_ == ' ' || line.find('"') != std::string_view::npos;
      if (loose) separator_ = separator;
      if (loose || one_less) columns_ = below;
      find_row_names(names, one_less);
      note_what_is_no_coordinate(names);
    }
    note_quoted_names(text);
    choose_columns();
  }

  [[nodiscard]] bool is_kept(std::int64_t column) const {
    const CsvColumns& csv = options_.csv;
    if (csv.kept.empty()) return column >= csv.drop_first && column < columns_ - csv.drop_last;
    return std::any_of(csv.kept.begin(), csv.kept.end(), [&](const auto& range) {
      return column + 1 >= range.first && column + 1 <= range.second;
    });
  }

  // A first line in which no cell that is kept is a number; or pandas' numbers of columns.
  bool is_header(std::string_view line, std::string_view second, bool more) {
    if (options_.csv.header == CsvColumns::Header::yes) {
      if (!more) file_.refuse("has a header but no points");
      return true;
    }
    if (options_.csv.header == CsvColumns::Header::no) return false;
    const auto names = cells_of(line, separator_);
    bool any_number = false;
    bool any_kept = false;
    for (std::size_t column = 0; column < names.size(); ++column) {
      const bool kept = is_kept(static_cast<std::int64_t>(column));
      any_kept = any_kept || kept;
      any_number = any_number || (kept && is_number(names[column]));
    }
    if (!any_kept) return false;  // which is refused with the number of columns
    if (!any_number && !more && line.find_first_of("0123456789") == std::string_view::npos) {
      file_.refuse("has no points: no cell of its only line is a number, as in a header ('" +
                   excerpt(line) + "')");
    }
    if (!any_number && more) return true;
    if (!more) return false;
    // ",0,1,2" stands above an index, whose name is empty.
    if (names.size() > 1 && names[0].empty()) return counts_up(std::span(names).subspan(1));
    if (!counts_up(names)) return false;
    const auto below = cells_of(second, find_separator(second));
    const bool fractions = std::any_of(below.begin(), below.end(), [](std::string_view cell) {
      return is_number(cell) && !is_whole(cell);
    });
    if (names.size() == 1) {
      // 0 is a likely point, too, and labels begin with it.
      if (fractions) {
        note(
            "line 1 reads 0, as pandas numbers a column without a name, and numbers with fractions "
            "follow; it is taken for a point (--header yes: it is a header)");
      }
      return false;
    }
    note("line 1 reads 0 to " + std::to_string(names.size() - 1) +
         ", as pandas numbers columns without names; " +
         (fractions ? "it is taken for a header, since numbers with fractions follow (--header no: "
                      "it is a point)"
                    : "it is taken for a point (--header yes: it is a header)"));
    return fractions;
  }

  // Row names stand in a first column without a name (pandas, R's write.csv), or before the first name where
  // the header has one cell fewer than the points (R's write.table).
  void find_row_names(const std::vector<std::string_view>& names, bool one_less) {
    if (options_.csv.chosen() || columns_ < 2) return;
    const bool unnamed = !names.empty() && names[0].empty() && names.size() > 1 && !one_less;
    if (!unnamed && !one_less) return;
    row_names_ = 1;
    note(std::string(unnamed ? "column 1 has no name in the header"
                             : "the header has one name fewer than there are columns") +
         ": column 1 is taken for row names and left out (--columns 1-" + std::to_string(columns_) +
         " reads all columns)");
  }

  void note_what_is_no_coordinate(const std::vector<std::string_view>& names) {
    if (options_.csv.chosen() || row_names_ > 0) return;
    if (static_cast<std::int64_t>(names.size()) != columns_ || columns_ < 2) return;
    const auto hint = [&](std::size_t column, const char* option) {
      if (!names_no_coordinate(names[column])) return;
      note("column " + std::to_string(column + 1) + " is called '" + excerpt(names[column]) +
           "' and is read as a coordinate (" + option + " leaves it out)");
    };
    hint(0, "--drop-first 1");
    hint(names.size() - 1, "--drop-last 1");
  }

  // R quotes row names, not numbers: without a header, only quotes show that "1" is no coordinate.
  void note_quoted_names(std::string_view text) {
    if (options_.csv.chosen() || row_names_ > 0 || columns_ < 2) return;
    const std::string_view line = trimmed(take_line(text));
    if (!line.starts_with('"') || std::count(line.begin(), line.end(), '"') != 2) return;
    if (!is_number(cells_of(line, separator_).front())) return;  // which is refused
    note(
        "column 1 alone stands in quotes, as R writes row names, and is read as a coordinate "
        "(--drop-first 1 leaves it out)");
  }

  // place_: for each column of the file where its value goes in a point, or -1.
  void choose_columns() {
    const CsvColumns& csv = options_.csv;
    if (csv.drop_first < 0 || csv.drop_last < 0) {
      file_.refuse("the number of columns to drop must not be negative");
    }
    place_.assign(static_cast<std::size_t>(columns_), -1);
    d_ = 0;
    if (csv.kept.empty()) {
      const std::int64_t first = std::max(csv.drop_first, row_names_);
      for (std::int64_t column = first; column < columns_ - csv.drop_last; ++column) {
        place_[static_cast<std::size_t>(column)] = d_++;
      }
      if (d_ < 1) {
        refuse(first_line_, "has " + std::to_string(columns_) + " columns; after dropping " +
                                std::to_string(first + csv.drop_last) + " nothing is left");
      }
      return;
    }
    for (const auto& [first, last] : csv.kept) {
      for (std::int64_t column = first; column <= last; ++column) {
        if (column > columns_) {
          refuse(first_line_, "has " + std::to_string(columns_) + " columns; column " +
                                  std::to_string(column) + " was asked for");
        }
        auto& place = place_[static_cast<std::size_t>(column - 1)];
        if (place >= 0) file_.refuse("column " + std::to_string(column) + " is asked for twice");
        place = d_++;
      }
    }
  }

  void note(const std::string& what) const {
    if (options_.notes != nullptr) options_.notes->push_back(file_.name + ": " + what);
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
      const std::int64_t place = place_[static_cast<std::size_t>(column)];
      if (place < 0) continue;
      double value = 0;
      if (!parse_number(cell, value)) refuse_cell(number, column, cell);
      const T coordinate = static_cast<T>(value);
      if (options_.check_finite && !std::isfinite(coordinate)) {
        refuse_value(number, column, cell, std::isfinite(value));
      }
      if (out != nullptr) out[place] = coordinate;
      if (std::isfinite(coordinate) && is_rounded(cell, value, coordinate)) {
        report_rounded((number - first_line_) * d_ + place);
      }
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
    } else if (cell.find('"') != std::string_view::npos) {
      hint = "quotes surround a whole cell, or nothing";
    } else if (cell.find(' ') != std::string_view::npos) {
      hint =
          "columns are separated by " + std::string(name_of(separator_)) + ", decimals by a point";
    } else if (column == 0 && columns_ > 1) {
      hint += "; --drop-first 1 leaves out a first column of names or labels";
    } else if (column == columns_ - 1 && columns_ > 1) {
      hint += "; --drop-last 1 leaves out a last column of names or labels";
    }
    refuse(line, "column " + std::to_string(column + 1) + ": '" + excerpt(cell) +
                     "' is not a number: " + hint);
  }

  template <class T>
  Points parse(std::string_view text) const {
    // Ranges of whole lines; the lines before a range say where its first row goes.
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
    say_rounded(text, coordinates);
    return {memory, coordinates, n, d_, scalar_of<T>};
  }

  void report_rounded(std::int64_t index) const {
    std::int64_t known = first_rounded_;
    while (index < known && !first_rounded_.compare_exchange_weak(known, index)) {
    }
  }

  // The first coordinate that is rounded, with the digits of the file.
  template <class T>
  void say_rounded(std::string_view text, const T* coordinates) const {
    const std::int64_t index = first_rounded_;
    if (index == kNone || options_.rounded == nullptr) return;
    std::string_view line;
    for (std::int64_t i = 0; i <= index / d_; ++i) line = take_line(text);
    const auto cells = cells_of(line, separator_);
    const auto column = std::find(place_.begin(), place_.end(), index % d_) - place_.begin();
    *options_.rounded =
        rounded_in_text(file_, index / d_, index % d_, cells[static_cast<std::size_t>(column)],
                        static_cast<double>(coordinates[index]), scalar_of<T>);
  }

  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

  const FileBytes& file_;
  const LoadOptions& options_;
  char separator_ = ',';
  std::int64_t columns_ = 0;  // in the file
  std::int64_t d_ = 0;        // of them kept
  std::int64_t first_line_ = 1;
  std::int64_t row_names_ = 0;       // columns of them
  std::vector<std::int64_t> place_;  // of each column of the file in a point; -1: left out
  mutable std::atomic<std::int64_t> first_rounded_{kNone};
};

}  // namespace

std::vector<std::pair<std::int64_t, std::int64_t>> parse_columns(const std::string& text) {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  const auto refuse = [&](std::string_view part) {
    throw InputError("columns: '" + excerpt(part) +
                     "' is neither a column nor a range; columns count from 1, as in 2-5,7");
  };
  std::string_view rest = text;
  while (true) {
    const auto comma = std::min(rest.find(','), rest.size());
    const std::string_view part = trimmed(rest.substr(0, comma));
    const auto dash = std::min(part.find('-'), part.size());
    const auto whole = [&](std::string_view digits) {
      std::int64_t value = 0;
      const char* end = digits.data() + digits.size();
      const auto [stop, error] = std::from_chars(digits.data(), end, value);
      if (stop != end || error != std::errc() || value < 1 || value > 100'000'000) refuse(part);
      return value;
    };
    const std::int64_t first = whole(part.substr(0, dash));
    const std::int64_t last = dash < part.size() ? whole(part.substr(dash + 1)) : first;
    if (last < first) refuse(part);
    ranges.emplace_back(first, last);
    if (comma == rest.size()) return ranges;
    rest.remove_prefix(comma + 1);
  }
}

std::string columns_text(const CsvColumns& csv) {
  std::string text;
  for (const auto& [first, last] : csv.kept) {
    text += (text.empty() ? "" : ",") + std::to_string(first);
    if (last != first) text += "-" + std::to_string(last);
  }
  return text;
}

Points read_csv(const FileBytes& file, const LoadOptions& options) {
  return CsvReader(file, options).read();
}

}  // namespace kmeans
