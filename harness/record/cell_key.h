// SPDX-License-Identifier: Apache-2.0
//
// What identifies a cell, from the plan to an export.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/variant.h"

namespace kmeans {

/// One variant on one data set: what ran, whoever measured it.
struct CellKey {
  std::string variant;
  std::string dataset;  ///< Label.
  Shape shape;
  std::int64_t iterations = 1;  ///< T
  int threads = 1;
  int ranks = 1;  ///< each with so many threads (docs/scaling.md)
  int gpus = 1;   ///< of one process

  /// "variant/precision/dataset/k4/T10/t2", as journals, result files and --only have it; with
  /// several ranks "/r4" follows, with several GPUs "/g2". n and d are the data set's.
  [[nodiscard]] std::string text() const;
  /// The same without the threads: the work, however many do it.
  [[nodiscard]] std::string work() const;
  /// Its points by their name in `context.datasets`.
  [[nodiscard]] std::string points() const;
};

/// `key` and its parts, by the names of result files and comparisons.
nlohmann::json to_json(const CellKey& key);

/// The name of a data set's points in `context.datasets`: those in float64 are a set of their own.
std::string points_name(const std::string& dataset, bool float64);

}  // namespace kmeans
