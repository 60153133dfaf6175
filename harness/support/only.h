// SPDX-License-Identifier: Apache-2.0
//
// What --only chooses by: the names of experiments, and of their cells, traces, studies and fits.
#pragma once

#include <string>
#include <vector>

#include "harness/support/pattern.h"

namespace kmeans {

/// A cell by its key, a trace or a study by its name, and the experiment that it belongs to.
struct UnitName {
  std::string experiment;
  std::string name;

  /// "experiment/name".
  [[nodiscard]] std::string text() const { return experiment + "/" + name; }
};

/// Is the expression found in the experiment's name, in the unit's, or in "experiment/name"?
bool takes(const Pattern& only, const UnitName& unit);

/// Why nothing is left where `only`, the option's text, is found in none of these: what was searched,
/// and which of them come near, a dozen lines at most.
std::string takes_none(const std::string& only, const std::vector<UnitName>& units);

}  // namespace kmeans
