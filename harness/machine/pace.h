// SPDX-License-Identifier: Apache-2.0
//
// How fast a core is at this moment. On a shared host the other hardware thread of the core may
// belong to a stranger, and the clock follows what strangers do: neither shows in any counter
// that a guest can read, and both make everything slower, a fixed computation too.
#pragma once

#include <vector>

namespace kmeans {

/// A process whose pace was slower than this times the best is worth another attempt. Nearly all
/// steps of the clock stay below it; a neighbour on the same core costs 15 % and more.
constexpr double kDisturbedPace = 1.10;
/// From here on a cell's times are noted. A clock that follows others and a neighbour on the same
/// core make up to 1.3 on a machine of which that is all the news; next to a sixth of the cells of
/// the reference machine's committed results it was more than this, and something ran there.
constexpr double kNotedPace = 1.5;

/// Seconds of a fixed computation (0.1 to 0.2 milliseconds) that so many threads do at once: each
/// one's fastest of a few, and of these the slowest. What takes a thread off its CPU for once, or
/// lasts for less than that, does not count.
double measure_pace(int threads);

/// Waits for moments in which the cores are as fast as they can be, and returns whether they were.
class QuietMoments {
 public:
  /// `best` is the best pace known; with 0 there is nothing to compare with, and no waiting.
  /// `patience` is the time in seconds that all waiting and repeating may take together.
  QuietMoments(int threads, double best, double patience);

  /// Is there something to wait for, and time left?
  [[nodiscard]] bool patient() const { return patience_ > 0; }

  /// Before something is timed: returns when the pace is good, or patience is at an end. Without
  /// any patience it looks but once.
  void wait();

  /// Was a step of so many seconds disturbed, and is there patience to do it again? If not, it
  /// counts, and so do the paces next to it.
  bool should_repeat(double seconds);

  /// After all that was timed: a last look, unless the last step had its own.
  void finish();

  /// The slowest paces before and after what counts; empty before any look.
  [[nodiscard]] std::vector<double> paces() const;

 private:
  [[nodiscard]] bool slow(double pace) const;
  void count(double after);

  int threads_;
  double best_;
  double patience_;
  double before_ = 0;
  double slowest_before_ = 0;
  double slowest_after_ = 0;
  bool pending_ = false;  // something was timed, and the pace after it is not known
};

}  // namespace kmeans
