// SPDX-License-Identifier: Apache-2.0
//
// Points: an n x d row-major matrix of float32 or float64, memory-mapped or owned.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kmeans {

class AtomicFile;

enum class ScalarType { f32, f64 };

inline const char* to_string(ScalarType scalar) {
  return scalar == ScalarType::f32 ? "f32" : "f64";
}
inline std::int64_t size_of(ScalarType scalar) { return scalar == ScalarType::f32 ? 4 : 8; }

template <class T>
inline constexpr ScalarType scalar_of = sizeof(T) == 4 ? ScalarType::f32 : ScalarType::f64;

/// A read-only matrix; cheap to copy (shares its memory).
class Points {
 public:
  Points() = default;
  /// `memory` keeps `data` alive: an owned buffer or a mapping.
  Points(std::shared_ptr<const void> memory, const void* data, std::int64_t n, std::int64_t d,
         ScalarType scalar)
      : memory_(std::move(memory)), data_(data), n_(n), d_(d), scalar_(scalar) {}

  [[nodiscard]] std::int64_t n() const { return n_; }
  [[nodiscard]] std::int64_t d() const { return d_; }
  [[nodiscard]] ScalarType scalar() const { return scalar_; }
  [[nodiscard]] bool empty() const { return data_ == nullptr; }

  /// The coordinates, n x d row-major. Precondition: T fits scalar().
  template <class T>
  [[nodiscard]] const T* data() const {
    return static_cast<const T*>(data_);
  }

 private:
  std::shared_ptr<const void> memory_;
  const void* data_ = nullptr;
  std::int64_t n_ = 0;
  std::int64_t d_ = 0;
  ScalarType scalar_ = ScalarType::f32;
};

/// File formats by extension: npy, csv/tsv/txt, fvecs, bvecs, fbin/u8bin/i8bin, idx (also
/// *-ubyte), libsvm/svm. `automatic` decides by the file's name, then by its first bytes.
enum class FileFormat { automatic, npy, csv, fvecs, bvecs, fbin, idx, libsvm };

/// Which columns of a CSV file are coordinates, and whether its first line is a header.
struct CsvColumns {
  enum class Header { automatic, yes, no };

  std::int64_t drop_first = 0;  ///< Columns to leave out at the beginning (row names, a label).
  std::int64_t drop_last = 0;   ///< Columns to leave out at the end.
  /// If any: these columns alone, in this order; first and last of each range, counted from 1.
  std::vector<std::pair<std::int64_t, std::int64_t>> kept;
  Header header = Header::automatic;

  /// Did somebody say which columns are coordinates? Then none is taken for row names.
  [[nodiscard]] bool chosen() const { return drop_first > 0 || drop_last > 0 || !kept.empty(); }
  [[nodiscard]] bool plain() const { return !chosen() && header == Header::automatic; }
};

/// "2-5,7": ranges of columns counted from 1. Throws InputError.
std::vector<std::pair<std::int64_t, std::int64_t>> parse_columns(const std::string& text);
/// The kept ranges as parse_columns() reads them.
std::string columns_text(const CsvColumns& csv);

struct LoadOptions {
  FileFormat format = FileFormat::automatic;
  /// Convert to this. Default: what holds every value of the file's type; text becomes float64.
  std::optional<ScalarType> scalar;
  std::int64_t max_points = 0;  ///< 0: all; else only the first ones.
  bool check_finite = true;     ///< Refuse NaN and infinity, naming the first one's place.
  /// Of a file that is mapped as it is, look for them in these rows alone (end 0: in all).
  std::int64_t checked_begin = 0;
  std::int64_t checked_end = 0;
  CsvColumns csv{};
  /// Leave out points with a coordinate that is NaN or infinite, instead of refusing the file.
  bool drop_nonfinite = false;
  std::int64_t* points_dropped = nullptr;  ///< If given: set to how many were left out.
  /// If given: set to the largest |coordinate| where all rows of a file that is mapped as it is are looked
  /// at for check_finite, so that nobody reads a large file again for it. Else left as it is.
  std::optional<double>* largest_abs = nullptr;
  /// If given: sentences on how the file was understood where it could have been meant otherwise.
  std::vector<std::string>* notes = nullptr;
  /// If given: set to a sentence on the first coordinate that float32 rounds (of a text, whose digits are not
  /// those of a float32), or the first integer of a text that float64 rounds. Else left as it is.
  std::string* rounded = nullptr;
};

/// Reads a regular file. Memory-maps float32 npy, float64 npy and fbin where no conversion is
/// asked. Throws InputError naming the file, the byte or line, what is wrong and what would be
/// right.
Points load_points(const std::filesystem::path& file, const LoadOptions& options = {});

/// A file that the suite made, and looked for what is not finite then.
inline Points load_made(const std::filesystem::path& file, ScalarType scalar) {
  return load_points(file, {.scalar = scalar, .check_finite = false});
}

/// Writes C-ordered little-endian npy 1.0 through a temporary file and a rename, so that a reader
/// never sees half a file. Throws OutputError.
void write_npy(const std::filesystem::path& file, const Points& points);
/// The same into a file that the caller commits.
void write_npy(AtomicFile& out, const Points& points);
/// n labels as a one-dimensional int32 npy.
void write_npy_labels(AtomicFile& out, const std::int32_t* labels, std::int64_t n);

/// Copies a buffer of n x d coordinates into Points that own it.
template <class T>
Points make_points(const T* data, std::int64_t n, std::int64_t d);

}  // namespace kmeans
