// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "harness/variants/registry.h"

namespace kmeans {

/// The backend that this build lacks and that the variant belongs to; null where there is none.
const MissingBackend* missing_backend_of(const std::string& variant);

}  // namespace kmeans
