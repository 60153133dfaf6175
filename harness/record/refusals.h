// SPDX-License-Identifier: Apache-2.0
//
// Which shapes a variant does not take, by the reasons that its skipped cells have on file: what is recommended for
// one machine is decided by that machine's results, whatever GPU the program has.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/variant.h"

namespace kmeans {

/// Of one variant. What it refuses on file it refuses at larger shapes too.
class Refusals {
 public:
  /// A cell that was skipped, and why. Reasons that are not the shape's (a package that is missing, memory that was
  /// granted) say nothing here.
  void add(const Shape& shape, const std::string& reason);
  /// `taken`: coordinates that the variant was measured at. Others are refused on one side of them.
  void close(const std::vector<std::int64_t>& taken);

  /// Why it would not take the shape, by what is on file; empty if it might.
  [[nodiscard]] std::string reason_against(const Shape& shape) const;

  /// The rule, for pages: `d`, refused up to the first and from the second on (0: none); `dk`, pairs from both of
  /// which on; `chip`, bytes that are there, and the sum of factor n^a d^b k^c that is needed, or null.
  [[nodiscard]] nlohmann::json numbers() const;

 private:
  /// Points, labels, centroids and sums in the shared memory of all multiprocessors.
  struct OnChip {
    double bytes = 0;  ///< Of a multiprocessor.
    double multiprocessors = 0;
    /// What is needed over what points with labels, and centroids with sums, take by themselves.
    double points = 1;
    double centroids = 1;
  };
  struct Needed {
    Shape shape;
    double bytes = 0;
  };

  void fit_chip();
  [[nodiscard]] double chip_need(const Shape& shape) const;

  std::vector<std::int64_t> d_;
  std::int64_t d_most_ = 0;  ///< As a reason says it; 0: none does.
  std::int64_t d_below_ = 0;
  std::int64_t d_from_ = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> dk_;
  std::vector<Needed> needed_;
  std::optional<OnChip> chip_;
};

}  // namespace kmeans
