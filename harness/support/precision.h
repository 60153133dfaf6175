// SPDX-License-Identifier: Apache-2.0
//
// Precisions by name; to_string(Precision) belongs to the contract.
#pragma once

#include <string>

#include "harness/variant.h"

namespace kmeans {

/// Parses "f64", "f32", ...; throws InputError naming the admitted ones.
Precision parse_precision(const std::string& text);

}  // namespace kmeans
