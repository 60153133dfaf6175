// SPDX-License-Identifier: Apache-2.0
#include "harness/variants/missing_backend.h"

#include <algorithm>

namespace kmeans {

const MissingBackend* missing_backend_of(const std::string& variant) {
  for (const auto& backend : missing_backends()) {
    if (std::find(backend.variants.begin(), backend.variants.end(), variant) !=
        backend.variants.end()) {
      return &backend;
    }
  }
  return nullptr;
}

}  // namespace kmeans
