// SPDX-License-Identifier: Apache-2.0
//
// What the library refuses, and how it says so.
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <string>

#include "harness/support/whole_weights.h"
#include "harness/variant.h"
#include "library/kmeans_exact.h"
#include "library/surroundings.h"

// A namespace that the library's users do not see.
namespace kmeans_exact_checks {

/// Throws std::invalid_argument.
void require(bool good, const std::string& what);

void check_sizes(std::int64_t n, std::int64_t d, std::int64_t k);
void check_clusters(std::int64_t k, std::int64_t n);
void check_label(std::int64_t i, std::int64_t label, std::int64_t clusters);
void check_labels(const std::int32_t* labels, std::int64_t n, std::int64_t clusters);
void check_options(const kmeans_exact::Options& options);
void check_weights(const std::int64_t* weights, std::int64_t n);
/// The same for any numbers.
kmeans::WholeWeights checked_weights(const double* weights, std::int64_t n);
/// How many: 0 stands for all.
int checked_threads(int threads);

/// Threads to start: starting one takes as long as reading so many coordinates.
int worth_a_thread(std::int64_t coordinates, int threads);

/// The largest |coordinate|; refuses what is not finite.
float largest_of(const char* what, const float* values, std::int64_t rows, std::int64_t d,
                 int threads);

/// All are of length one, or of zeros.
void check_unit_rows(const float* rows, std::int64_t n, std::int64_t d, int threads);

[[noreturn]] void refuse_gpu(const std::string& why_not);
void require_gpu();

/// Says how much memory is needed, if that is known, and how much is free.
class OutOfMemory final : public std::bad_alloc {
 public:
  OutOfMemory(double needed, const std::string& sizes)
      : what_("kmeans_exact: out of memory: " + sizes + need(needed) + "; " +
              megabytes(kmeans_exact_surroundings::free_memory()) + " are free") {}
  OutOfMemory(const kmeans::Shape& shape, double needed) : OutOfMemory(needed, sizes(shape)) {}
  [[nodiscard]] const char* what() const noexcept override { return what_.c_str(); }

 private:
  static std::string sizes(const kmeans::Shape& shape) {
    return "n = " + std::to_string(shape.n) + ", d = " + std::to_string(shape.d) +
           ", k = " + std::to_string(shape.k);
  }
  static std::string need(double bytes) {
    return bytes > 0 ? " needs up to " + megabytes(bytes) + " besides the points" : "";
  }
  static std::string megabytes(double bytes) {
    return std::to_string(static_cast<std::int64_t>(std::min(bytes, 1e18) / 1e6) + 1) + " MB";
  }

  std::string what_;
};

/// Does work(), which takes at most so much memory, or 0 if that is little.
template <class Work>
auto with_sizes(const kmeans::Shape& shape, double bytes, const Work& work) {
  try {
    return work();
  } catch (const OutOfMemory&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(shape, bytes);
  }
}

}  // namespace kmeans_exact_checks
