// SPDX-License-Identifier: Apache-2.0
//
// What openmp_best asks of a variant that it may have at work, next to the contract.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "harness/variant.h"
#include "implementations/_stops.h"

namespace kmeans::openmp {

/// What one family hands to the next: a label a point, and the clusters' sums that follow from them, as
/// FixedPointSums has them.
struct Standing {
  std::span<const std::int32_t> labels;
  std::span<const std::int64_t> sums;
  bool at_rest = false;  ///< No centroid will move.
};

template <class T>
struct Frame;

using kmeans::Stopped;
using kmeans::Stopping;
using kmeans::Stops;

template <class T>
class Family : public Variant<T>, public Stops<T> {
 public:
  [[nodiscard]] virtual std::optional<Standing> standing() { return std::nullopt; }

  /// After reset(): points need not be summed again. A family that has no use for it begins without.
  virtual void take_over(const Standing& /*other*/) {}

  /// The change of coordinates that it has formed in setup(), or null; and one of the same problem that another has,
  /// before setup().
  [[nodiscard]] virtual const Frame<T>* frame() const { return nullptr; }
  virtual void take_frame(const Frame<T>& /*other*/) {}

  /// Of a filter before float32: the share of the points that it left open in the last iteration.
  [[nodiscard]] virtual std::optional<double> open_share() const { return std::nullopt; }
};

/// The squares of what a centroid moved by, as the exact step forms distances; defined with openmp_exact,
/// since not all that includes this is compiled without fused multiply-adds.
double moved_squares(const float* before, const float* after, std::int64_t d);

/// The instructions that openmp_int8 has on this processor for rows of d coordinates; defined with it.
std::string int8_instructions(std::int64_t d);

}  // namespace kmeans::openmp
