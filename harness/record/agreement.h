// SPDX-License-Identifier: Apache-2.0
//
// Do the processes of a cell agree? On a machine with neighbours a process may be slow as a whole:
// the median of samples from two such clusters is a time that nobody saw.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace kmeans {

/// Process medians agree when the largest is at most this times the smallest. A fixed computation
/// (harness/machine/pace.h) takes up to 1.30 times its best next to three quarters of the cells of the
/// reference machine's committed results: processes that differ by less differ no more than the
/// cores did.
inline constexpr double kAgreeingProcesses = 1.30;

/// So many agreeing processes settle a cell, or all of them where it was to have fewer.
inline constexpr std::size_t kSettlingProcesses = 3;

/// A cell's headline number: the median of the medians of its processes. Neither the list nor any
/// process may be empty.
double headline_median(const std::vector<std::vector<double>>& samples);

struct Agreement {
  std::vector<double> sorted;  ///< Process medians, ascending.
  std::size_t first = 0;       ///< Of the largest group that agrees; of equals the fastest.
  std::size_t count = 0;       ///< Its size.

  /// More than half of the processes agree, so their median is one of the group or between two of
  /// it, and never between two clusters.
  [[nodiscard]] bool majority() const { return 2 * count > sorted.size(); }
  /// Enough of them to measure no further, of a cell that was to have so many processes.
  [[nodiscard]] bool settled(std::size_t planned) const;
  /// "2 processes near 0.09 ms, 2 near 10 ms"
  [[nodiscard]] std::string groups() const;
};

Agreement agreement_of(const std::vector<double>& medians);

/// Why the cell has no headline number; empty if it has one.
std::string unsteadiness(const Agreement& agreement);

/// Which processes lie apart from the majority; empty if none does or there is no majority.
std::string outlying_processes(const Agreement& agreement);

}  // namespace kmeans
