// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/rounded_points.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "datasets/points.h"
#include "harness/support/formatted.h"

namespace kmeans {

std::string lost_by_float32(const std::filesystem::path& file) {
  if (file.extension() != ".npy") return "";
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
