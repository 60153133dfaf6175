// SPDX-License-Identifier: Apache-2.0
#include "datasets/npy.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "datasets/points.h"
#include "datasets/readers.h"
#include "harness/support/atomic_file.h"

namespace kmeans {
namespace {

constexpr std::int64_t kLongestHeader = 10'000;  // NumPy's own limit

struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> shape;
};

/// Parses the one form of Python dictionary that npy headers consist of. Evaluates nothing.
class HeaderParser {
 public:
  HeaderParser(const FileBytes& file, std::string_view text, std::int64_t offset)
      : file_(file), text_(text), offset_(offset) {}

  Header parse() {
    Header header;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !header.descr) {
        if (peek() == '[') refuse("structured types are not read; save a plain numeric array");
        header.descr = quoted();
      } else if (key == "fortran_order" && !header.fortran_order) {
        header.fortran_order = boolean();
      } else if (key == "shape" && !header.shape) {
        header.shape = shape();
      } else {
        refuse("key '" + excerpt(key) +
               "' is repeated or unknown; an npy header has descr, fortran_order and shape");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (peek() != '\0') refuse("there is text after the header's dictionary");
    if (!header.descr || !header.fortran_order || !header.shape) {
      refuse("descr, fortran_order or shape is missing in the header");
    }
    return header;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    file_.refuse("byte " + std::to_string(offset_ + static_cast<std::int64_t>(position_)) + ": " +
                 what);
  }

  char peek() {
    while (position_ < text_.size() &&
           std::string_view(" \t\r\n").find(text_[position_]) != std::string_view::npos) {
      ++position_;
    }
    return position_ < text_.size() ? text_[position_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++position_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) refuse(std::string("the npy header is malformed: expected '") + c + "'");
  }
  std::string quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') refuse("the npy header is malformed: expected a string");
    const auto end = text_.find(quote, ++position_);
    if (end == std::string_view::npos) refuse("the npy header is malformed: a string has no end");
    std::string value(text_.substr(position_, end - position_));
    position_ = end + 1;
    return value;
  }
  bool boolean() {
    peek();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(position_, word.size()) == word) {
        position_ += word.size();
        return value;
      }
    }
    refuse("the npy header is malformed: fortran_order must be True or False");
  }
  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> lengths;
    expect('(');
    while (!accept(')')) {
      peek();
      std::int64_t length = 0;
      const char* begin = text_.data() + position_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), length);
      if (error != std::errc() || length < 0) {
        refuse("the npy header is malformed: lengths must be integers in [0, 2^63)");
      }
      position_ += static_cast<std::size_t>(end - begin);
      lengths.push_back(length);
      if (position_ < text_.size() && text_[position_] == 'L') ++position_;  // Python 2 wrote 3L
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return lengths;
  }

  const FileBytes& file_;
  std::string_view text_;
  std::int64_t offset_;
  std::size_t position_ = 0;
};

std::optional<Element> element_of(std::string_view type) {
  if (type == "f4") return Element::f32;
  if (type == "f8") return Element::f64;
  if (type == "f2") return Element::f16;
  if (type == "i1") return Element::i8;
  if (type == "i2") return Element::i16;
  if (type == "i4") return Element::i32;
  if (type == "i8") return Element::i64;
  if (type == "u1") return Element::u8;
  if (type == "u2") return Element::u16;
  if (type == "u4") return Element::u32;
  if (type == "u8") return Element::u64;
  return std::nullopt;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (const auto length : shape) text += std::to_string(length) + ",";
  if (shape.size() > 1) text.pop_back();
  return text + ")";
}

}  // namespace

MatrixLayout read_npy_layout(const FileBytes& file) {
  const std::string_view text = file.text();
  if (text.substr(0, 6) != "\x93NUMPY") {
    file.refuse("byte 0: is not an npy file (it does not begin with \\x93NUMPY)");
  }
  if (text.size() < 12) file.refuse("is cut short: it ends within the npy header");
  const auto byte = [&](std::size_t i) {
    return static_cast<std::int64_t>(static_cast<unsigned char>(text[i]));
  };
  const std::int64_t major = byte(6);
  if (major < 1 || major > 3) {
    file.refuse("byte 6: npy version " + std::to_string(major) +
                " is unknown; 1, 2 and 3 are read");
  }
  const std::int64_t prefix = major == 1 ? 10 : 12;
  std::int64_t length = byte(8) | byte(9) << 8;
  if (major > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > kLongestHeader) {
    file.refuse("byte 8: the header claims " + std::to_string(length) + " bytes; at most " +
                std::to_string(kLongestHeader) + " are accepted");
  }
  if (prefix + length > file.size()) {
    file.refuse("is cut short: the header needs " + std::to_string(prefix + length) +
                " bytes, the file has " + std::to_string(file.size()));
  }
  const Header header =
      HeaderParser(file,
                   text.substr(static_cast<std::size_t>(prefix), static_cast<std::size_t>(length)),
                   prefix)
          .parse();

  MatrixLayout layout;
  const std::string& descr = *header.descr;
  const char order = descr.empty() ? '\0' : descr[0];
  const auto element = order == '<' || order == '>' || order == '|' || order == '='
                           ? element_of(std::string_view(descr).substr(1))
                           : std::nullopt;
  if (!element || (order == '|' && size_of(*element) != 1)) {
    file.refuse("type '" + excerpt(descr) +
                "' is not read; save as float32 or float64 (integers and float16 are converted)");
  }
  layout.element = *element;
  layout.big_endian = order == '>' && size_of(*element) > 1;

  const auto& shape = *header.shape;
  if (shape.size() != 1 && shape.size() != 2) {
    file.refuse("shape " + shape_text(shape) +
                " is not a matrix; n x d points are (n, d), or (n,) for d = 1");
  }
  layout.n = shape[0];
  layout.d = shape.size() == 2 ? shape[1] : 1;
  if (layout.n == 0 || layout.d == 0) {
    file.refuse("shape " + shape_text(shape) + " has no points; n and d must be at least 1");
  }
  const std::int64_t size = size_of(layout.element);
  const auto count = checked_product(layout.n, layout.d);
  const auto bytes = count ? checked_product(*count, size) : std::nullopt;
  const std::string because = "shape " + shape_text(shape) + " of '" + descr + "'";
  if (!bytes) {
    file.refuse("is cut short: " + because + " need more than 2^62 bytes, the file has " +
                std::to_string(file.size()));
  }
  layout.offset = prefix + length;
  file.require_size(layout.offset + *bytes,
                    because + " and a header of " + std::to_string(layout.offset) + " bytes");
  layout.row_stride = *header.fortran_order ? size : layout.d * size;
  layout.column_stride = *header.fortran_order ? layout.n * size : size;
  return layout;
}

std::string npy_header(const std::string& descr, const std::vector<std::int64_t>& shape) {
  std::string dictionary = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (";
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    dictionary += (axis > 0 ? " " : "") + std::to_string(shape[axis]) + ",";
  }
  if (shape.size() > 1) dictionary.pop_back();
  dictionary += "), }";
  constexpr std::size_t kPrefix = 10;
  const std::size_t unpadded = kPrefix + dictionary.size() + 1;
  dictionary.append((64 - unpadded % 64) % 64, ' ');
  dictionary += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dictionary.size() & 255);
  header += static_cast<char>(dictionary.size() >> 8);
  return header + dictionary;
}

void write_npy(AtomicFile& out, const Points& points) {
  const std::string descr = points.scalar() == ScalarType::f32 ? "<f4" : "<f8";
  const std::string header = npy_header(descr, {points.n(), points.d()});
  out.write(header.data(), header.size());
  out.write(points.data<void>(),
            static_cast<std::size_t>(points.n() * points.d() * size_of(points.scalar())));
}

void write_npy(const std::filesystem::path& file, const Points& points) {
  AtomicFile out(file);
  write_npy(out, points);
  out.commit();
}

void write_npy_labels(AtomicFile& out, const std::int32_t* labels, std::int64_t n) {
  const std::string header = npy_header("<i4", {n});
  out.write(header.data(), header.size());
  out.write(labels, static_cast<std::size_t>(n * 4));
}

}  // namespace kmeans
