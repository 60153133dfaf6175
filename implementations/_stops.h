// SPDX-License-Identifier: Apache-2.0
//
// Variants that stop by themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace kmeans {

/// When to stop before the iterations that are asked for are made.
struct Stopping {
  bool settled = false;  ///< After one that changed no label.
  std::optional<double>
      shift{};  ///< After one that moved the centroids by no more (docs/exact-step.md).

  [[nodiscard]] bool looks_at_shift() const { return shift.has_value(); }
};

/// What was made, and why no more.
struct Stopped {
  std::int64_t iterations = 0;
  bool settled = false;
  bool within_shift = false;

  [[nodiscard]] bool early() const { return settled || within_shift; }
};

/// A variant that stops by itself, without a word to its caller in between.
template <class T>
class Stops {
 public:
  virtual ~Stops() = default;

  /// As step(), but at most so many.
  virtual Stopped step_until(const Stopping& when, std::int64_t iterations) = 0;

  /// The centroids (k x d) after the last iteration, until the next call. fetch() also copies n labels, which for
  /// few clusters takes as long as an iteration.
  [[nodiscard]] virtual const T* centroids() const = 0;

  /// The labels of centroids() and nothing else: no sums, no means. Only reset() may follow.
  virtual void label_again() = 0;

  /// The same. Calls `between` some times a second, on the calling thread, if the variant can do that: what it throws
  /// ends this soon after, and is thrown on. It may be empty.
  virtual void label_with_breaks(const std::function<void()>& /*between*/) { label_again(); }
};

}  // namespace kmeans
