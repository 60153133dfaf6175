// SPDX-License-Identifier: Apache-2.0
//
// What cuda_best asks of a variant that it may have at work, besides the contract.
#pragma once

#include <cstdint>

#include "harness/variant.h"
#include "implementations/_stops.h"

namespace kmeans::cuda {

template <class T>
class Family : public Variant<T>, public Stops<T> {
 public:
  /// Instead of reset(): begins with the centroids of another family, which stays as it is; what its first iteration
  /// changes is compared with that one's labels.
  virtual void go_on_from(const Family& other) = 0;

  /// Before setup(): graphs of iterations are recorded once there are enough of them to pay for that.
  virtual void record_late() {}
  /// So many iterations are to come, in one step or several.
  virtual void expect(std::int64_t /*iterations*/) {}

  [[nodiscard]] virtual const T* dev_centroids() const = 0;
  [[nodiscard]] virtual const std::int32_t* dev_labels() const = 0;

  void label_again() override { this->step(1); }
};

}  // namespace kmeans::cuda
