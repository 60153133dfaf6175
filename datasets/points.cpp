// SPDX-License-Identifier: Apache-2.0
#include "datasets/points.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "datasets/arrow.h"
#include "datasets/npy.h"
#include "datasets/readers.h"
#include "harness/support/errors.h"
#include "harness/support/formatted.h"
#include "harness/support/mapped_file.h"
#include "harness/support/memory_left.h"
#include "harness/support/parallel.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the readers map little-endian files into memory as they are");

constexpr std::int64_t kCoordinatesPerRange = std::int64_t{1} << 18;

std::int64_t rows_per_range(std::int64_t d) {
  return std::max<std::int64_t>(1, kCoordinatesPerRange / d);
}

/// IEEE 754 binary16; exact in float32.
struct Half {
  std::uint16_t bits;

  explicit operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits >> 15) << 31;
    const std::uint32_t exponent = (bits >> 10) & 31U;
    const std::uint32_t fraction = bits & 1023U;
    if (exponent == 0) {  // zero or subnormal: fraction * 2^-24
      const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
      return sign != 0 ? -magnitude : magnitude;
    }
    const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
    return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
  }
  explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }
};

template <class Source, bool big_endian>
Source load_element(const std::byte* place) {
  std::array<std::byte, sizeof(Source)> bytes;
  std::memcpy(bytes.data(), place, sizeof(Source));
  if constexpr (big_endian) std::reverse(bytes.begin(), bytes.end());
  return std::bit_cast<Source>(bytes);
}

std::string place_of(std::int64_t index, std::int64_t d) {
  return "point " + std::to_string(index / d) + ", coordinate " + std::to_string(index % d) +
         " (both counted from 0)";
}

[[noreturn]] void refuse_range(const FileBytes& file, std::int64_t index, std::int64_t d,
                               double value) {
  file.refuse_range(place_of(index, d), formatted("%.6g", value));
}

/// The smallest index reported, whichever thread comes first.
class FirstIndex {
 public:
  void report(std::int64_t index) {
    std::int64_t known = first_;
    while (index < known && !first_.compare_exchange_weak(known, index)) {
    }
  }
  [[nodiscard]] bool any() const { return first_ != kNone; }
  [[nodiscard]] std::int64_t get() const { return first_; }

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::atomic<std::int64_t> first_{kNone};
};

template <class T>
bool all_finite(const T* values, std::int64_t count) {
  // The exponent field of NaN and infinity is all ones. Without a branch in the loop it vectorises.
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits kExponent = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
  Bits bad = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<Bits>(values[i]);
    bad |= static_cast<Bits>((bits & kExponent) == kExponent);
  }
  return bad == 0;
}

/// The largest magnitude, NaN being more than all others. Compared as integers, whose order is that of the
/// magnitudes: without a branch in the loop it vectorises.
template <class T>
T largest_magnitude(const T* values, std::int64_t count) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  Bits largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<Bits>(values[i]) & std::numeric_limits<Bits>::max();
    largest = std::max(largest, static_cast<Bits>(bits));
  }
  return std::bit_cast<T>(largest);
}

/// Is an integer of 64 bits a float64, too? Its highest and lowest bits set are within 53 then.
template <class Source>
bool is_double(Source value) {
  if constexpr (std::is_integral_v<Source> && sizeof(Source) == 8) {
    if (value == 0) return true;
    const auto bits = static_cast<std::uint64_t>(value);
    const std::uint64_t magnitude = value < 0 ? 0 - bits : bits;
    return std::bit_width(magnitude >> std::countr_zero(magnitude)) <=
           std::numeric_limits<double>::digits;
  }
  return true;
}

/// Does the scalar hold the value of the file? NaN and infinity, and what becomes infinite, are looked at
/// elsewhere.
template <class T, class Source>
bool holds(T scalar, Source value) {
  if constexpr (std::is_same_v<T, double>) {
    return is_double(value);
  } else if constexpr (sizeof(Source) < 4 || std::is_same_v<Source, float>) {
    return true;
  } else if constexpr (std::is_floating_point_v<Source>) {
    return !std::isfinite(scalar) || static_cast<Source>(scalar) == value;
  } else {
    return static_cast<double>(scalar) == static_cast<double>(value) && is_double(value);
  }
}

template <class Source>
std::string digits_of(Source value) {
  if constexpr (std::is_same_v<Source, Half>) {
    return formatted("%.9g", static_cast<double>(value));
  } else if constexpr (std::is_integral_v<Source>) {
    return std::to_string(value);
  } else {
    return formatted("%.17g", static_cast<double>(value));
  }
}

template <class Source, class T, bool big_endian>
void convert_rows(const FileBytes& file, const MatrixLayout& layout, const LoadOptions& options,
                  T* out) {
  FirstIndex unfit;
  FirstIndex rounded;
  const std::int64_t d = layout.d;
  parallel_ranges(layout.n, rows_per_range(d), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::byte* row = file.bytes.data() + layout.offset + i * layout.row_stride;
      for (std::int64_t t = 0; t < d; ++t) {
        const auto value = load_element<Source, big_endian>(row + t * layout.column_stride);
        out[i * d + t] = static_cast<T>(value);
        if (!holds(out[i * d + t], value)) rounded.report(i * d + t);
      }
    }
    if (options.check_finite && !all_finite(out + begin * d, (end - begin) * d))
      unfit.report(begin);
  });
  // float64 was not asked for: it is taken because it holds every value.
  if (rounded.any() && std::is_same_v<T, double>) {
    file.refuse(place_of(rounded.get(), d) +
                ": an integer that float64 cannot hold (beyond 2^53); round the points as you want "
                "them, and store them as float64");
  }
  if (rounded.any() && options.rounded != nullptr) {
    const std::int64_t index = rounded.get();
    const auto value = load_element<Source, big_endian>(file.bytes.data() + layout.offset +
                                                        index / d * layout.row_stride +
                                                        index % d * layout.column_stride);
    *options.rounded =
        rounded_sentence(file, std::string("holds ") + long_name(layout.element), index / d,
                         index % d, digits_of(value), static_cast<float>(out[index]));
  }
  if (!unfit.any()) return;
  // A float64 beyond float32's range has become infinite; that deserves a message of its own.
  for (std::int64_t index = unfit.get() * d; index < layout.n * d; ++index) {
    const T value = out[index];
    if (std::isfinite(value)) continue;
    const std::byte* source = file.bytes.data() + layout.offset + index / d * layout.row_stride +
                              index % d * layout.column_stride;
    const auto given = static_cast<double>(load_element<Source, big_endian>(source));
    if (std::isfinite(given)) refuse_range(file, index, d, given);
    file.refuse(place_of(index, d) + " is " + (std::isnan(value) ? "NaN" : "infinite") +
                "; all coordinates must be finite");
  }
}

template <class Source, class T>
void convert(const FileBytes& file, const MatrixLayout& layout, const LoadOptions& options,
             T* out) {
  if (layout.big_endian) {
    convert_rows<Source, T, true>(file, layout, options, out);
  } else {
    convert_rows<Source, T, false>(file, layout, options, out);
  }
}

template <class T>
void convert_element(const FileBytes& file, const MatrixLayout& layout, const LoadOptions& options,
                     T* out) {
  switch (layout.element) {
    case Element::i8: return convert<std::int8_t>(file, layout, options, out);
    case Element::u8: return convert<std::uint8_t>(file, layout, options, out);
    case Element::i16: return convert<std::int16_t>(file, layout, options, out);
    case Element::u16: return convert<std::uint16_t>(file, layout, options, out);
    case Element::f16: return convert<Half>(file, layout, options, out);
    case Element::i32: return convert<std::int32_t>(file, layout, options, out);
    case Element::u32: return convert<std::uint32_t>(file, layout, options, out);
    case Element::f32: return convert<float>(file, layout, options, out);
    case Element::i64: return convert<std::int64_t>(file, layout, options, out);
    case Element::u64: return convert<std::uint64_t>(file, layout, options, out);
    case Element::f64: return convert<double>(file, layout, options, out);
  }
}

// The narrowest scalar that holds every value of the element type, if there is one.
ScalarType natural_scalar(Element element) {
  switch (element) {
    case Element::i32:
    case Element::u32:
    case Element::i64:
    case Element::u64:
    case Element::f64: return ScalarType::f64;
    default: return ScalarType::f32;
  }
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

struct Format {
  FileFormat format;
  Element element = Element::f32;  ///< fbin and its relatives
};

constexpr const char* kKnownFormats =
    "known formats: .npy, .csv, .tsv, .txt, .fvecs, .bvecs, .fbin, .u8bin, .i8bin, .idx, *-ubyte, "
    ".libsvm, .svm, .parquet, .feather, .arrow";

std::optional<Format> format_by_name(const FileBytes& file) {
  std::string name = std::filesystem::path(file.name).filename().string();
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : char(c); });
  if (ends_with(name, ".npy")) return Format{FileFormat::npy};
  if (ends_with(name, ".csv") || ends_with(name, ".tsv") || ends_with(name, ".txt")) {
    return Format{FileFormat::csv};
  }
  if (ends_with(name, ".fvecs")) return Format{FileFormat::fvecs};
  if (ends_with(name, ".bvecs")) return Format{FileFormat::bvecs};
  if (ends_with(name, ".fbin")) return Format{FileFormat::fbin, Element::f32};
  if (ends_with(name, ".u8bin")) return Format{FileFormat::fbin, Element::u8};
  if (ends_with(name, ".i8bin")) return Format{FileFormat::fbin, Element::i8};
  if (ends_with(name, ".idx") || ends_with(name, "-ubyte") || ends_with(name, "-ubyte.idx")) {
    return Format{FileFormat::idx};
  }
  if (ends_with(name, ".libsvm") || ends_with(name, ".svm")) return Format{FileFormat::libsvm};
  for (const char* packed : {".gz", ".bz2", ".xz", ".zst", ".zip", ".tar", ".npz"}) {
    if (ends_with(name, packed)) {
      file.refuse(std::string("is a ") + packed + " archive; unpack it first");
    }
  }
  for (const char* hdf5 : {".h5", ".hdf5"}) {
    if (ends_with(name, hdf5)) {
      file.refuse("HDF5 is not read; save its data set with numpy.save and load the .npy");
    }
  }
  return std::nullopt;
}

Format format_by_content(const FileBytes& file) {
  const std::string_view text = file.text();
  const auto begins_with = [&](std::string_view magic) {
    return text.substr(0, magic.size()) == magic;
  };
  if (begins_with("\x93NUMPY")) return {FileFormat::npy};
  if (begins_with("\x89HDF")) {
    file.refuse("HDF5 is not read; save its data set with numpy.save and load the .npy");
  }
  if (begins_with("PAR1") || begins_with("ARROW1")) {
    file.refuse(
        "is a Parquet or Arrow file; its name has to end with .parquet, .feather or .arrow");
  }
  if (begins_with("\x1f\x8b")) file.refuse("is gzip-compressed; unpack it first");
  if (text.size() >= 4 && text[0] == 0 && text[1] == 0 && text[2] >= 8 && text[2] <= 14 &&
      text[3] >= 1) {
    return {FileFormat::idx};
  }
  const std::string_view line = text.substr(0, std::min(text.find('\n'), std::size_t{4096}));
  const bool printable = std::all_of(line.begin(), line.end(), [](unsigned char c) {
    return c == '\t' || c == '\r' || c >= 0x20;
  });
  if (!printable) {
    file.refuse(
        std::string("the format is recognised neither by the name nor by the first bytes; ") +
        kKnownFormats);
  }
  return {line.find(':') != std::string_view::npos ? FileFormat::libsvm : FileFormat::csv};
}

// The name also distinguishes fbin's relatives when the format is given.
Format decide_format(const FileBytes& file, FileFormat asked) {
  if (asked == FileFormat::automatic) {
    const auto named = format_by_name(file);
    return named ? *named : format_by_content(file);
  }
  if (asked == FileFormat::fbin) {
    const auto named = format_by_name(file);
    if (named && named->format == FileFormat::fbin) return *named;
  }
  return {asked};
}

}  // namespace

void FileBytes::refuse(const std::string& what) const { throw InputError(name + ": " + what); }

void FileBytes::refuse_range(const std::string& where, const std::string& value) const {
  throw BeyondFloat32(
      name + ": " + where + ": " + value +
      " is outside the range of float32 (at most 3.4e38 in magnitude); load it as f64");
}

void FileBytes::require_size(std::int64_t expected, const std::string& because) const {
  if (size() == expected) return;
  refuse((size() < expected ? "is cut short: " : "has bytes too many: ") + because + " need " +
         std::to_string(expected) + " bytes, the file has " + std::to_string(size()));
}

std::int64_t size_of(Element element) {
  switch (element) {
    case Element::i8:
    case Element::u8: return 1;
    case Element::i16:
    case Element::u16:
    case Element::f16: return 2;
    case Element::i32:
    case Element::u32:
    case Element::f32: return 4;
    case Element::i64:
    case Element::u64:
    case Element::f64: return 8;
  }
  return 0;
}

const char* to_string(Element element) {
  static constexpr std::array kNames{"i8",  "u8",  "i16", "u16", "f16", "i32",
                                     "u32", "f32", "i64", "u64", "f64"};
  return kNames[static_cast<std::size_t>(element)];
}

std::string long_name(Element element) {
  const std::string name = to_string(element);
  const char* kind = name[0] == 'f' ? "float" : name[0] == 'u' ? "uint" : "int";
  return kind + name.substr(1);
}

std::string rounded_sentence(const FileBytes& file, const std::string& holds, std::int64_t point,
                             std::int64_t column, const std::string& value, double rounded,
                             ScalarType read_as) {
  const bool narrow = read_as == ScalarType::f32;
  const bool whole = std::abs(rounded) < (narrow ? 1e15 : 1e21) && rounded == std::floor(rounded);
  return std::filesystem::path(file.name).filename().string() + " " + holds + ", and is read as " +
         (narrow ? "float32" : "float64") + ": point " + std::to_string(point) + " has " + value +
         " in column " + std::to_string(column) + ", rounded to " +
         formatted(whole    ? "%.0f"
                   : narrow ? "%.9g"
                            : "%.17g",
                   rounded) +
         "; exact answers are exact for the rounded points" +
         (narrow ? " (--precision f64, with a variant that takes it, rounds none)" : "");
}

std::string rounded_in_text(const FileBytes& file, std::int64_t point, std::int64_t column,
                            std::string_view cell, double rounded, ScalarType read_as) {
  return rounded_sentence(file,
                          read_as == ScalarType::f32
                              ? "holds more digits than float32"
                              : "holds an integer that float64 cannot hold (beyond 2^53)",
                          point, column, excerpt(cell), rounded, read_as);
}

namespace {

/// An integer that float64 cannot hold, by other digits than those by which float64 is written.
bool is_rounded_integer(std::string_view text, double value) {
  constexpr double kAllBelow = 0x1p53;
  value = std::abs(value);
  if (value < kAllBelow || !std::isfinite(value)) return false;
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  if (text.find_first_not_of("0123456789") != std::string_view::npos) return false;
  text.remove_prefix(std::min(text.find_first_not_of('0'), text.size()));
  std::array<char, 400> room{};
  const auto written = [&](auto... format) {
    const auto end = std::to_chars(room.data(), room.data() + room.size(), value, format...).ptr;
    return std::string(room.data(), end);
  };
  if (written(std::chars_format::fixed, 0) == text) return false;
  // The fewest digits that distinguish it from its neighbours, and zeros.
  std::string fewest = written(std::chars_format::scientific);
  fewest.resize(fewest.find('e'));
  std::erase(fewest, '.');
  return text.substr(0, text.find_last_not_of('0') + 1) != fewest;
}

}  // namespace

template <class T>
bool is_rounded(std::string_view text, double value, T coordinate) {
  if constexpr (sizeof(T) == 4) {
    if (value != static_cast<double>(coordinate)) {
      std::array<char, 32> digits{};
      const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), coordinate).ptr;
      double back = 0;
      return std::from_chars(digits.data(), end, back).ec != std::errc() || back != value;
    }
  }
  return is_rounded_integer(text, value);
}
template bool is_rounded(std::string_view, double, float);
template bool is_rounded(std::string_view, double, double);

void refuse_lines_of_cr(const FileBytes& file, std::string_view text) {
  if (text.find('\r') == std::string_view::npos || text.find('\n') != std::string_view::npos)
    return;
  file.refuse(
      "lines end in CR alone; they have to end in LF or CR LF (tr '\\r' '\\n' <old >new makes them "
      "so)");
}

std::optional<std::int64_t> checked_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > (std::int64_t{1} << 62)) return {};
  return product;
}

std::shared_ptr<void> allocate_bytes(std::int64_t bytes) {
  constexpr std::size_t kAlignment = 64;
  const auto rounded = (static_cast<std::size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, std::max(rounded, kAlignment));
  if (memory == nullptr) {
    throw EnvironmentError("not enough memory: the points need " +
                           format_bytes(static_cast<double>(bytes)) + ", but only " +
                           memory_left() + " are left");
  }
  return {memory, [](void* owned) { std::free(owned); }};
}

template <class T>
T require_finite(const FileBytes& file, const T* values, std::int64_t n, std::int64_t d,
                 std::int64_t first_row) {
  const std::int64_t first = first_row * d;
  FirstIndex unfit;
  std::atomic<T> largest{0};
  parallel_ranges((n - first_row) * d, kCoordinatesPerRange,
                  [&](std::int64_t begin, std::int64_t end) {
                    const T own = largest_magnitude(values + first + begin, end - begin);
                    if (!std::isfinite(own)) unfit.report(begin);
                    T known = largest;
                    while (own > known && !largest.compare_exchange_weak(known, own)) {
                    }
                  });
  if (!unfit.any()) return largest;
  std::int64_t index = first + unfit.get();
  while (std::isfinite(values[index])) ++index;
  file.refuse(place_of(index, d) + " is " + (std::isnan(values[index]) ? "NaN" : "infinite") +
              "; all coordinates must be finite");
}

template float require_finite(const FileBytes&, const float*, std::int64_t, std::int64_t,
                              std::int64_t);
template double require_finite(const FileBytes&, const double*, std::int64_t, std::int64_t,
                               std::int64_t);

std::string excerpt(std::string_view text) {
  std::string result;
  for (const char c : text.substr(0, 40)) result += c >= 0x20 && c < 0x7F ? c : '?';
  return text.size() > 40 ? result + "..." : result;
}

Points to_points(const FileBytes& file, const MatrixLayout& whole, const LoadOptions& options) {
  MatrixLayout layout = whole;
  if (options.max_points > 0) layout.n = std::min(layout.n, options.max_points);
  const ScalarType scalar = options.scalar.value_or(natural_scalar(layout.element));
  const std::int64_t size = size_of(scalar);

  const bool same_element =
      layout.element == (scalar == ScalarType::f32 ? Element::f32 : Element::f64);
  const std::byte* data = file.bytes.data() + layout.offset;
  if (same_element && !layout.big_endian && layout.column_stride == size &&
      layout.row_stride == layout.d * size && reinterpret_cast<std::uintptr_t>(data) % 8 == 0) {
    if (options.check_finite) {
      const std::int64_t begin = std::min(options.checked_begin, layout.n);
      const std::int64_t end =
          options.checked_end > 0 ? std::min(options.checked_end, layout.n) : layout.n;
      const double largest =
          scalar == ScalarType::f32
              ? require_finite(file, reinterpret_cast<const float*>(data), end, layout.d, begin)
              : require_finite(file, reinterpret_cast<const double*>(data), end, layout.d, begin);
      if (options.largest_abs != nullptr && begin == 0 && end == layout.n) {
        *options.largest_abs = largest;
      }
    }
    return {file.memory, data, layout.n, layout.d, scalar};
  }

  const auto memory = allocate_bytes(layout.n * layout.d * size);
  if (scalar == ScalarType::f32) {
    convert_element(file, layout, options, static_cast<float*>(memory.get()));
  } else {
    convert_element(file, layout, options, static_cast<double*>(memory.get()));
  }
  return {memory, memory.get(), layout.n, layout.d, scalar};
}

namespace {

/// The points whose coordinates are all finite, in their order.
template <class Source, class T>
Points finite_rows(const FileBytes& file, const Points& all, std::int64_t kept) {
  const std::int64_t d = all.d();
  const auto memory = allocate_bytes(kept * d * static_cast<std::int64_t>(sizeof(T)));
  T* out = static_cast<T*>(memory.get());
  for (std::int64_t i = 0; i < all.n(); ++i) {
    const Source* row = all.data<Source>() + i * d;
    if (!all_finite(row, d)) continue;
    for (std::int64_t t = 0; t < d; ++t, ++out) {
      *out = static_cast<T>(row[t]);
      if (!std::isfinite(*out)) refuse_range(file, i * d + t, d, static_cast<double>(row[t]));
    }
  }
  return {memory, memory.get(), kept, d, scalar_of<T>};
}

template <class Source>
Points without_nonfinite(const FileBytes& file, const Points& all, const LoadOptions& options) {
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < all.n(); ++i) {
    kept += all_finite(all.data<Source>() + i * all.d(), all.d()) ? 1 : 0;
  }
  if (kept == 0) file.refuse("every point has a coordinate that is NaN or infinite; none is left");
  if (options.points_dropped != nullptr) *options.points_dropped = all.n() - kept;
  const ScalarType scalar = options.scalar.value_or(all.scalar());
  if (kept == all.n() && scalar == all.scalar()) return all;
  return scalar == ScalarType::f32 ? finite_rows<Source, float>(file, all, kept)
                                   : finite_rows<Source, double>(file, all, kept);
}

}  // namespace

Points read_points(const FileBytes& file, const LoadOptions& options) {
  if (options.points_dropped != nullptr) *options.points_dropped = 0;
  if (options.drop_nonfinite) {
    // As the file's own type, which no conversion makes infinite: both scalars drop the same
    // points.
    LoadOptions as_written = options;
    as_written.drop_nonfinite = false;
    as_written.check_finite = false;
    as_written.scalar.reset();
    const Points all = read_points(file, as_written);
    return all.scalar() == ScalarType::f32 ? without_nonfinite<float>(file, all, options)
                                           : without_nonfinite<double>(file, all, options);
  }
  if (file.bytes.empty()) file.refuse("is empty");
  if (options.max_points < 0) {
    throw InputError("the number of points to read must not be negative");
  }
  const Format format = decide_format(file, options.format);
  if (!options.csv.plain() && format.format != FileFormat::csv) {
    file.refuse("columns can only be chosen, and headers only be named, of CSV files");
  }
  switch (format.format) {
    case FileFormat::npy: return to_points(file, read_npy_layout(file), options);
    case FileFormat::fvecs:
      return to_points(file, read_vecs_layout(file, Element::f32, options.max_points), options);
    case FileFormat::bvecs:
      return to_points(file, read_vecs_layout(file, Element::u8, options.max_points), options);
    case FileFormat::fbin: return to_points(file, read_bin_layout(file, format.element), options);
    case FileFormat::idx: return to_points(file, read_idx_layout(file), options);
    case FileFormat::libsvm: return read_libsvm(file, options);
    case FileFormat::csv:
    case FileFormat::automatic: break;
  }
  return read_csv(file, options);
}

Points load_points(const std::filesystem::path& file, const LoadOptions& options) {
  if (is_arrow(file)) {
    if (options.format != FileFormat::automatic) {
      throw InputError(file.string() +
                       ": its name is that of a Parquet or Arrow file, and \"format\" asks for "
                       "another; leave \"format\" out, or name the file as what it is");
    }
    LoadOptions converted = options;
    converted.format = FileFormat::npy;
    return read_points(arrow_as_npy(file), converted);
  }
  if (file == "-") {
    throw InputError(
        "-: points are read from a file, not from standard input; save what a pipe brings first");
  }
  const MappedFile mapped(file);
  return read_points({file.string(), mapped.bytes(), mapped.memory()}, options);
}

template <class T>
Points make_points(const T* data, std::int64_t n, std::int64_t d) {
  const std::int64_t bytes = n * d * static_cast<std::int64_t>(sizeof(T));
  const auto memory = allocate_bytes(bytes);
  if (bytes > 0) std::memcpy(memory.get(), data, static_cast<std::size_t>(bytes));
  return {memory, memory.get(), n, d, scalar_of<T>};
}

template Points make_points(const float*, std::int64_t, std::int64_t);
template Points make_points(const double*, std::int64_t, std::int64_t);

}  // namespace kmeans
