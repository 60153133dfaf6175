// SPDX-License-Identifier: Apache-2.0
//
// What a JSON file says of many once.
#pragma once

#include "harness/support/json_file.h"

namespace kmeans {

/// An object in a list that has `each`, a list of objects, stands for all of these, each with what else it has:
/// {"n": 5, "each": [{"k": 1}, {"k": 2}]} for {"n": 5, "k": 1}, {"n": 5, "k": 2}. Values keep their places in
/// the text. Throws InputError for another `each`, or for more values than `limits` allows.
void expand_each(JsonDocument& document, const JsonLimits& limits = {});

}  // namespace kmeans
