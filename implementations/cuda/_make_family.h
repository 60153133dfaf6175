// SPDX-License-Identifier: Apache-2.0
//
// For variants that have a family at work.
#pragma once

#include <memory>
#include <stdexcept>
#include <utility>

#include "harness/variant.h"
#include "implementations/cuda/_counted_family.h"
#include "implementations/cuda/_family.h"

namespace kmeans::cuda {

/// What is registered as a family, not set up; for a problem that is counted with the sums for it.
inline std::unique_ptr<Family<float>> make_family(const Registration& registration,
                                                  const Problem<float>& problem) {
  auto variant = registration.factory.make_float(problem.shape.precision);
  auto* const family = dynamic_cast<Family<float>*>(variant.get());
  if (family == nullptr) {
    throw std::logic_error(registration.traits.name + " is not a family of exact variants");
  }
  (void)variant.release();
  std::unique_ptr<Family<float>> own(family);
  return problem.is_counted() ? counted_family(std::move(own)) : std::move(own);
}

}  // namespace kmeans::cuda
