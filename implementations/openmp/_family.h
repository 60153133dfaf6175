// SPDX-License-Identifier: Apache-2.0
//
// What openmp_best asks of a variant that it may have at work, beside the contract.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "harness/variant.h"

namespace kmeans::openmp {

template <class T>
class FixedPointSums;

/// What one family hands to the next: a label a point, and the sums that follow from them.
template <class T>
struct Standing {
  const std::int32_t* labels = nullptr;
  const FixedPointSums<T>* sums = nullptr;
};

template <class T>
class Family : public Variant<T> {
 public:
  /// The centroids (k x d) after the last iteration, in place. fetch() also copies n labels, which for
  /// few clusters takes as long as an iteration.
  [[nodiscard]] virtual const T* centroids() const = 0;

  [[nodiscard]] virtual std::optional<Standing<T>> standing() const { return std::nullopt; }

  /// After reset(): points need not be summed anew. A family that has no use for it begins without.
  virtual void take_over(const Standing<T>& /*other*/) {}

  /// Of a filter before float32: the share of the points that it left open in the last iteration.
  [[nodiscard]] virtual std::optional<double> open_share() const { return std::nullopt; }
};

/// The instructions that openmp_int8 has on this processor for rows of d coordinates; defined with it.
std::string int8_instructions(std::int64_t d);

}  // namespace kmeans::openmp
