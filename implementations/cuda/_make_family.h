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
  if (dynamic_cast<Family<float>*>(variant.get()) == nullptr) {
    throw std::logic_error(registration.traits.name + " is not a family of exact variants");
  }
  std::unique_ptr<Family<float>> family(static_cast<Family<float>*>(variant.release()));
  return problem.is_counted() ? counted_family(std::move(family)) : std::move(family);
}

}  // namespace kmeans::cuda
