// SPDX-License-Identifier: Apache-2.0
//
// Whom `advise` would name for this machine, for `best` to agree with or to say why not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "harness/variant.h"

namespace kmeans {

struct ExpectedHere {
  std::string variant;
  double fit = 0;  ///< Seconds.
};

/// The exact variant with the quickest fit by the results of this machine, of those whose name matches `only` and that
/// need no second GPU; absent where there are none, or no results that can be read. `kind`: of the data; empty: any.
std::optional<ExpectedHere> advised_here(const Shape& shape, const std::string& kind,
                                         std::int64_t iterations, const std::string& only);

}  // namespace kmeans
