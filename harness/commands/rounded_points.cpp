// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/rounded_points.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <limits>
#include <system_error>
#include <vector>

#include "datasets/points.h"
#include "harness/support/formatted.h"
#include "harness/support/parallel.h"

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

bool is_text(const std::filesystem::path& file) {
  std::error_code error;
  const std::string extension = file.extension().string();
  return (extension == ".csv" || extension == ".tsv" || extension == ".txt") &&
         std::filesystem::is_regular_file(file, error);
}

/// Are the digits of a number in a text those by which float32 is told? 0.1 is, though no float is 0.1.
bool has_the_digits(float rounded, double written) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), rounded);
  double back = 0;
  return std::from_chars(text.data(), end, back).ec == std::errc() && back == written;
}

/// Where the first coordinate is that float32 does not hold; the number of all if it holds all.
std::int64_t first_lost(const double* coordinates, std::int64_t count, bool text) {
  std::vector<std::int64_t> firsts(static_cast<std::size_t>(block_count(count)), count);
  for_blocks(
      count, usable_processors(), [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
        const auto* lost = std::find_if(coordinates + begin, coordinates + end, [&](double x) {
          const auto rounded = static_cast<float>(x);
          return std::abs(x) <= std::numeric_limits<float>::max() &&
                 x != static_cast<double>(rounded) && !(text && has_the_digits(rounded, x));
        });
        if (lost != coordinates + end) firsts[block] = lost - coordinates;
      });
  return *std::min_element(firsts.begin(), firsts.end());
}

}  // namespace

std::string lost_by_float32(const std::filesystem::path& file, std::int64_t csv_drop_last) {
  const bool text = is_text(file);
  if (!text && !is_float64_npy(file)) return "";
  LoadOptions options;  // npy is mapped: no more of the file is read than is looked at
  options.check_finite = false;
  options.csv_drop_last = csv_drop_last;
  const Points points = load_points(file, options);
  if (points.scalar() != ScalarType::f64) return "";
  const auto* coordinates = points.data<double>();
  const std::int64_t count = points.n() * points.d();
  const std::int64_t place = first_lost(coordinates, count, text);
  if (place == count) return "";
  const double lost = coordinates[place];
  return formatted(
      "%s holds %s, and is read as float32: point %lld has %.17g in column %lld, rounded to "
      "%.9g; exact answers are exact for the rounded points (--precision f64 rounds none)",
      file.filename().c_str(), text ? "more digits than float32" : "float64",
      static_cast<long long>(place / points.d()), lost, static_cast<long long>(place % points.d()),
      static_cast<double>(static_cast<float>(lost)));
}

}  // namespace kmeans
