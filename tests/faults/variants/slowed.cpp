// SPDX-License-Identifier: Apache-2.0
//
// KMEANS_FAULTS_SLOWDOWN=0.1: every timed step takes 10 % longer. tools/selftest.sh calibrates `compare`
// with it.
#include <cstdlib>
#include <memory>

#include "harness/verify/around_steps.h"
#include "tests/faults/variants/_slowed_steps.h"

namespace kmeans::faults {
namespace {

template <class T>
std::unique_ptr<Variant<T>> slowed(Variant<T>& variant) {
  const char* const share = std::getenv("KMEANS_FAULTS_SLOWDOWN");
  if (share == nullptr) return nullptr;
  return std::make_unique<SlowedSteps<T>>(variant, std::strtod(share, nullptr));
}

[[maybe_unused]] const bool planted = [] {
  around_steps<float> = slowed<float>;
  around_steps<double> = slowed<double>;
  return true;
}();

}  // namespace
}  // namespace kmeans::faults
