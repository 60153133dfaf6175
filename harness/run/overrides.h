// SPDX-License-Identifier: Apache-2.0
//
// An experiment with other variants or sizes than its file says, by options of `run`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/run/experiment.h"

namespace kmeans {

/// Empty lists change nothing.
struct Overrides {
  std::vector<std::string> add_variants;  ///< Besides those of the experiment.
  std::vector<std::string> variants;      ///< In their place.
  std::vector<std::int64_t> n, d, k;      ///< In place of these axes of the sweep.

  [[nodiscard]] bool any() const;
};

/// Another experiment of its own, named "<name>-changed", so that its results take the place of
/// nobody's; its document, and so the `spec` of its results, says what was run. Where variants or
/// axes were replaced it has no traces, studies, claims, published numbers and figures: these were
/// said of the experiment as it stands in its file. Throws InputError.
Experiment overridden(const Experiment& experiment, const Overrides& overrides);

}  // namespace kmeans
