// SPDX-License-Identifier: Apache-2.0
//
// Readers of the binary formats of nearest-neighbour research: fvecs/bvecs, fbin and relatives,
// IDX.
#include <cstring>
#include <vector>

#include "datasets/readers.h"

namespace kmeans {
namespace {

std::int64_t little_u32(const FileBytes& file, std::int64_t offset) {
  std::uint32_t value = 0;
  std::memcpy(&value, file.bytes.data() + offset, sizeof(value));
  return value;
}

std::uint64_t little_u64(const FileBytes& file, std::int64_t offset) {
  std::uint64_t value = 0;
  std::memcpy(&value, file.bytes.data() + offset, sizeof(value));
  return value;
}

// n * d * size bytes, or nothing when that is more than any file has.
std::optional<std::int64_t> matrix_bytes(std::int64_t n, std::int64_t d, std::int64_t size) {
  const auto count = checked_product(n, d);
  return count ? checked_product(*count, size) : std::nullopt;
}

MatrixLayout dense_layout(Element element, std::int64_t n, std::int64_t d, std::int64_t offset) {
  return {element, false, n, d, offset, d * size_of(element), size_of(element)};
}

}  // namespace

// Every record is an int32 d followed by d coordinates.
MatrixLayout read_vecs_layout(const FileBytes& file, Element element, std::int64_t most) {
  if (file.size() < 4) file.refuse("is cut short: a record begins with 4 bytes that give d");
  const std::int64_t d = little_u32(file, 0);
  constexpr std::int64_t kLargest = 0x7FFFFFFF;
  if (d == 0 || d > kLargest) {
    file.refuse("byte 0: record 0 gives d = " + std::to_string(static_cast<std::int32_t>(d)) +
                "; d must be at least 1");
  }
  const std::int64_t record = 4 + d * size_of(element);
  if (file.size() < record) {
    file.refuse("is cut short: a record with d = " + std::to_string(d) + " needs " +
                std::to_string(record) + " bytes, the file has " + std::to_string(file.size()));
  }
  const std::int64_t n = file.size() / record;
  const std::int64_t checked = most > 0 && most < n ? most : n;
  for (std::int64_t i = 1; i < checked; ++i) {
    const std::int64_t other = little_u32(file, i * record);
    if (other != d) {
      file.refuse("byte " + std::to_string(i * record) + ": record " + std::to_string(i) +
                  " gives d = " + std::to_string(static_cast<std::int32_t>(other)) +
                  ", the records before it d = " + std::to_string(d));
    }
  }
  if (file.size() % record != 0) {
    file.refuse("is cut short or has bytes too many: records with d = " + std::to_string(d) +
                " have " + std::to_string(record) + " bytes each, and after " + std::to_string(n) +
                " of them (" + std::to_string(n * record) + " bytes) " +
                std::to_string(file.size() % record) + " bytes are left over");
  }
  return {element, false, n, d, 4, record, size_of(element)};
}

namespace {

/// One reading of an fbin file's header.
struct BinHeader {
  const char* name;
  std::int64_t bytes;  // of the header
  std::uint64_t n;
  std::uint64_t d;

  [[nodiscard]] std::optional<std::int64_t> file_bytes(std::int64_t element) const {
    constexpr std::uint64_t kLargest = std::uint64_t{1} << 48;
    if (n == 0 || d == 0 || n >= kLargest || d >= kLargest) return std::nullopt;
    const auto matrix =
        matrix_bytes(static_cast<std::int64_t>(n), static_cast<std::int64_t>(d), element);
    return matrix ? std::optional(*matrix + bytes) : std::nullopt;
  }

  [[nodiscard]] std::string described(std::int64_t element) const {
    const std::string text =
        "as two " + std::string(name) + " " + std::to_string(n) + " x " + std::to_string(d);
    if (n == 0 || d == 0) return text + ", which are no points";
    const auto need = file_bytes(element);
    return text + ", which need " +
           (need ? std::to_string(*need) + " bytes" : "more bytes than a file can have");
  }
};

}  // namespace

// uint32 n, uint32 d (some writers: uint64 n, uint64 d), then n x d coordinates.
MatrixLayout read_bin_layout(const FileBytes& file, Element element) {
  if (file.size() < 8) file.refuse("is cut short: it begins with 8 bytes that give n and d");
  const std::int64_t size = size_of(element);
  std::vector<BinHeader> readings{{"uint32", 8, static_cast<std::uint64_t>(little_u32(file, 0)),
                                   static_cast<std::uint64_t>(little_u32(file, 4))}};
  if (file.size() >= 16) {
    readings.push_back({"uint64", 16, little_u64(file, 0), little_u64(file, 8)});
  }
  std::string said;
  for (const auto& reading : readings) {
    if (reading.file_bytes(size) == file.size()) {
      return dense_layout(element, static_cast<std::int64_t>(reading.n),
                          static_cast<std::int64_t>(reading.d), reading.bytes);
    }
    said += reading.described(size) + "; ";
  }
  file.refuse("is cut short, has bytes too many, or its header is damaged: n and d of " +
              std::string(to_string(element)) + " are " + said + "the file has " +
              std::to_string(file.size()));
}

// Two zero bytes, the type, the number of axes, each axis as big-endian uint32; all big-endian.
// The first axis counts the points; the others are flattened (28 x 28 pictures have d = 784).
MatrixLayout read_idx_layout(const FileBytes& file) {
  if (file.size() < 4) file.refuse("is cut short: an IDX file begins with 4 bytes of magic");
  const auto byte = [&](std::int64_t i) {
    return static_cast<std::int64_t>(file.bytes[static_cast<std::size_t>(i)]);
  };
  if (byte(0) != 0 || byte(1) != 0) {
    file.refuse("byte 0: is not an IDX file (it does not begin with two zero bytes)");
  }
  MatrixLayout layout;
  layout.big_endian = true;
  switch (byte(2)) {
    case 0x08: layout.element = Element::u8; break;
    case 0x09: layout.element = Element::i8; break;
    case 0x0B: layout.element = Element::i16; break;
    case 0x0C: layout.element = Element::i32; break;
    case 0x0D: layout.element = Element::f32; break;
    case 0x0E: layout.element = Element::f64; break;
    default:
      file.refuse("byte 2: IDX type " + std::to_string(byte(2)) +
                  " is unknown; known are 8, 9, 11, 12, 13 and 14");
  }
  const std::int64_t axes = byte(3);
  if (axes == 0) file.refuse("byte 3: an IDX file needs at least one axis");
  layout.offset = 4 + 4 * axes;
  if (file.size() < layout.offset) {
    file.refuse("is cut short: a header with " + std::to_string(axes) + " axes needs " +
                std::to_string(layout.offset) + " bytes, the file has " +
                std::to_string(file.size()));
  }
  std::string shape;
  std::optional<std::int64_t> d = 1;
  for (std::int64_t axis = 0; axis < axes; ++axis) {
    std::int64_t length = 0;
    for (std::int64_t i = 0; i < 4; ++i) length = length << 8 | byte(4 + 4 * axis + i);
    shape += (axis > 0 ? " x " : "") + std::to_string(length);
    if (axis == 0) {
      layout.n = length;
    } else if (d) {
      d = checked_product(*d, length);
    }
  }
  if (layout.n == 0 || d == std::int64_t{0}) {
    file.refuse("byte 4: shape " + shape + " has no points; every axis must be at least 1");
  }
  const std::int64_t size = size_of(layout.element);
  const auto bytes = d ? matrix_bytes(layout.n, *d, size) : std::nullopt;
  const std::string because = "shape " + shape + " of " + to_string(layout.element) +
                              " after a header of " + std::to_string(layout.offset) + " bytes";
  if (!bytes) {
    file.refuse("is cut short: " + because + " need more than 2^62 bytes, the file has " +
                std::to_string(file.size()));
  }
  file.require_size(layout.offset + *bytes, because);
  layout.d = *d;
  layout.row_stride = layout.d * size;
  layout.column_stride = size;
  layout.big_endian = size > 1;
  return layout;
}

}  // namespace kmeans
