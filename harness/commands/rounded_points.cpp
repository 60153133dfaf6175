// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/rounded_points.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <system_error>

#include "datasets/points.h"
#include "harness/support/formatted.h"

namespace kmeans {
namespace {

/// By its header alone: of other types a look would read, and convert, the whole file.
bool is_float64_npy(const std::filesystem::path& file) {
  constexpr std::size_t kBegin = 256;
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return false;  // a pipe would be waited for
  std::ifstream in(file, std::ios::binary);
  std::string header(kBegin, '\0');
  in.read(header.data(), static_cast<std::streamsize>(header.size()));
  return header.rfind("\x93NUMPY", 0) == 0 && header.find("f8'") != std::string::npos;
}

}  // namespace

std::string lost_by_float32(const std::filesystem::path& file) {
  if (!is_float64_npy(file)) return "";
  LoadOptions options;  // mapped: no more of the file is read than is looked at
  options.check_finite = false;
  const Points points = load_points(file, options);
  if (points.scalar() != ScalarType::f64) return "";
  const auto* begin = points.data<double>();
  const auto* end = begin + points.n() * points.d();
  const auto* lost = std::find_if(begin, end, [](double x) {
    return std::abs(x) <= std::numeric_limits<float>::max() &&
           x != static_cast<double>(static_cast<float>(x));
  });
  if (lost == end) return "";
  const std::int64_t place = lost - begin;
  return formatted(
      "%s holds float64, and is read as float32: point %lld has %.17g in column %lld, rounded to "
      "%.9g; exact answers are exact for the rounded points (--precision f64 rounds none)",
      file.filename().c_str(), static_cast<long long>(place / points.d()), *lost,
      static_cast<long long>(place % points.d()), static_cast<double>(static_cast<float>(*lost)));
}

}  // namespace kmeans
