// SPDX-License-Identifier: Apache-2.0
//
// Variants whose longest stage can be ended from outside.
#pragma once

#include <functional>

namespace kmeans {

class Interruptible {
 public:
  virtual ~Interruptible() = default;

  /// As Stops::label_again(), but calls `between` some times a second, on the calling thread. What it throws ends this
  /// soon after, and is thrown on.
  virtual void label_with_breaks(const std::function<void()>& between) = 0;
};

}  // namespace kmeans
