// SPDX-License-Identifier: Apache-2.0
//
// Says how far a run is: a line that is rewritten on a terminal, plain lines elsewhere.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

namespace kmeans {

class ProgressLine {
 public:
  /// Errors of writing are ignored: a closed terminal must not cost results.
  explicit ProgressLine(std::FILE* stream);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  [[nodiscard]] bool rewrites() const { return terminal_; }

  /// Of a terminal: replaces the line. `seconds_left` below 0: unknown.
  void update(std::size_t done, std::size_t total, const std::string& what, double seconds_left);
  /// A line of its own that stays.
  void note(const std::string& text);

 private:
  void clear();

  std::FILE* stream_;
  bool terminal_;
  bool line_open_ = false;
};

/// "2 h 5 min", "3 min 20 s", "12 s".
std::string format_duration(double seconds);

}  // namespace kmeans
