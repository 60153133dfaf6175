// SPDX-License-Identifier: Apache-2.0
//
// What the readers of the file formats share. Each binary reader checks a header against the size
// of the file and describes where the coordinates lie; one function turns every such description
// into Points. Text readers parse into memory. Nothing here trusts a byte of the file: counts are
// multiplied with overflow checks and compared with the file's size before anything is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "datasets/points.h"
#include "harness/support/errors.h"

namespace kmeans {

/// A finite coordinate that float32 cannot hold, in points that were asked for in float32. Nothing is
/// wrong with the file.
class BeyondFloat32 : public InputError {
 public:
  using InputError::InputError;
};

/// The content of a file, and its name for messages.
struct FileBytes {
  std::string name;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> memory;  ///< Keeps `bytes` alive.

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(bytes.size()); }
  [[nodiscard]] std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  /// Throws InputError: "name: what".
  [[noreturn]] void refuse(const std::string& what) const;
  /// Throws BeyondFloat32; `where` and `value` are those of the coordinate.
  [[noreturn]] void refuse_range(const std::string& where, const std::string& value) const;
  /// Refuses unless the file has exactly so many bytes; `because` says where the number comes from.
  void require_size(std::int64_t expected, const std::string& because) const;
};

enum class Element { i8, u8, i16, u16, f16, i32, u32, f32, i64, u64, f64 };
std::int64_t size_of(Element element);
const char* to_string(Element element);
/// "float64", "int32", as NumPy calls them.
std::string long_name(Element element);

/// What LoadOptions::rounded becomes; `value` as the file has it. Points and columns count from 0.
std::string rounded_sentence(const FileBytes& file, const std::string& holds, std::int64_t point,
                             std::int64_t column, const std::string& value, double rounded,
                             ScalarType read_as = ScalarType::f32);
/// The same of a text.
std::string rounded_in_text(const FileBytes& file, std::int64_t point, std::int64_t column,
                            std::string_view cell, double rounded, ScalarType read_as);
/// Does a finite coordinate differ from the number in a text, whose nearest float64 is `value`? Digits by
/// which float32 is written do not: 0.1 is one, though no float is 0.1. Of float64, which text is read as by
/// default, only integers count.
template <class T>
bool is_rounded(std::string_view text, double value, T coordinate);
/// No line ends with LF, and there are several.
void refuse_lines_of_cr(const FileBytes& file, std::string_view text);

/// Where the coordinates of an n x d matrix lie in a file: coordinate (i, t) begins at byte
/// offset + i * row_stride + t * column_stride.
struct MatrixLayout {
  Element element = Element::f32;
  bool big_endian = false;
  std::int64_t n = 0;
  std::int64_t d = 0;
  std::int64_t offset = 0;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;
};

// Each throws InputError unless the file is a whole and valid one of its format. `most` > 0 lets a
// reader whose records each carry a header check only the first `most` of them.
MatrixLayout read_npy_layout(const FileBytes& file);
MatrixLayout read_vecs_layout(const FileBytes& file, Element element, std::int64_t most);
MatrixLayout read_bin_layout(const FileBytes& file, Element element);
MatrixLayout read_idx_layout(const FileBytes& file);
Points read_csv(const FileBytes& file, const LoadOptions& options);
Points read_libsvm(const FileBytes& file, const LoadOptions& options);

/// Maps or converts the first options.max_points points of the layout.
Points to_points(const FileBytes& file, const MatrixLayout& layout, const LoadOptions& options);

/// Reads a file that is in memory already; options.format and the name decide the format.
Points read_points(const FileBytes& file, const LoadOptions& options);

/// a * b, or nothing when that exceeds 2^62 (so that a further sum cannot overflow). a, b >= 0.
std::optional<std::int64_t> checked_product(std::int64_t a, std::int64_t b);

/// Memory for so many bytes, aligned for vector instructions, not initialised. Throws
/// EnvironmentError naming the amount when there is not enough.
std::shared_ptr<void> allocate_bytes(std::int64_t bytes);

/// Refuses NaN and infinity, naming the first one's place. `values` is n x d. Returns the largest |value|.
template <class T>
T require_finite(const FileBytes& file, const T* values, std::int64_t n, std::int64_t d,
                 std::int64_t first_row = 0);

/// At most 40 characters of a piece of a file, fit for a message.
std::string excerpt(std::string_view text);

}  // namespace kmeans
