// SPDX-License-Identifier: Apache-2.0
//
// What openmp_best asks of a variant that it may have at work, beside the contract.
#pragma once

#include "harness/variant.h"

namespace kmeans::openmp {

template <class T>
class Family : public Variant<T> {
 public:
  /// The centroids (k x d) after the last iteration, in place. fetch() also copies n labels, which for
  /// few clusters takes as long as an iteration.
  [[nodiscard]] virtual const T* centroids() const = 0;
};

}  // namespace kmeans::openmp
