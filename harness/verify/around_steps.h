// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "harness/variant.h"

namespace kmeans {

/// For tests: whose steps a session times in place of the variant's, which it calls. Null, or returning
/// null, in every program that measures.
template <class T>
inline std::unique_ptr<Variant<T>> (*around_steps)(Variant<T>& variant) = nullptr;

}  // namespace kmeans
