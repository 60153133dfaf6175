// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

namespace kmeans {

/// A variant that is wrong in some cells of a run may be wrong unseen in the others: these get a
/// note. What an earlier call noted is replaced.
void mark_wrong_elsewhere(nlohmann::json& cells);

}  // namespace kmeans
