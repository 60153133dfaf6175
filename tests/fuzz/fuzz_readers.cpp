// SPDX-License-Identifier: Apache-2.0
//
// Feeds arbitrary bytes to one reader (KMEANS_FUZZ_FORMAT). A file may be read or refused with a
// message; anything else, a crash, an access beyond its bytes, memory out of proportion, is a
// fault.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "datasets/readers.h"
#include "harness/errors.h"

namespace {

// Touches every coordinate, so that a mapping beyond the bytes is noticed.
template <class T>
void require_points(const kmeans::Points& points, bool finite) {
  const T* x = points.data<T>();
  for (std::int64_t i = 0; i < points.n() * points.d(); ++i) {
    if (!std::isfinite(x[i]) && finite) {
      std::fputs("a coordinate that is not finite was let through\n", stderr);
      std::abort();
    }
  }
}

void read_once(const kmeans::FileBytes& file, const kmeans::LoadOptions& options) {
  try {
    const kmeans::Points points = kmeans::read_points(file, options);
    if (points.n() < 1 || points.d() < 1) std::abort();
    if (options.max_points > 0 && points.n() > options.max_points) std::abort();
    if (points.scalar() == kmeans::ScalarType::f32) {
      require_points<float>(points, options.check_finite);
    } else {
      require_points<double>(points, options.check_finite);
    }
  } catch (const kmeans::InputError&) {
    // Refused, as a bad file should be.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A block of exactly the right size lets the address sanitizer see the first byte too far.
  const std::shared_ptr<std::byte[]> bytes(new std::byte[size]);
  if (size > 0) std::memcpy(bytes.get(), data, size);
  const kmeans::FileBytes file{"fuzz", {bytes.get(), size}, bytes};

  kmeans::LoadOptions options;
  options.format = kmeans::FileFormat::KMEANS_FUZZ_FORMAT;
  read_once(file, options);
  options.scalar = kmeans::ScalarType::f32;
  options.max_points = 2;
  read_once(file, options);
  options.scalar = kmeans::ScalarType::f64;
  options.check_finite = false;
  options.csv_drop_last = options.format == kmeans::FileFormat::csv ? 1 : 0;
  read_once(file, options);
  return 0;
}
