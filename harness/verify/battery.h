// SPDX-License-Identifier: Apache-2.0
//
// Awkward clustering problems that every variant must survive: `kmeans-bench verify` and the
// conformance tests run them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/variants/registry.h"
#include "harness/verify/verify.h"

namespace kmeans {

struct BatteryCase {
  std::string name;
  std::int64_t n = 0;
  std::int64_t d = 0;
  std::int64_t k = 0;
  std::int64_t iterations = 4;
  std::vector<float> points;     ///< n x d
  std::vector<float> centroids;  ///< k x d
};

/// All cases, small enough that the reference takes well under a second for each.
std::vector<BatteryCase> make_battery();

/// Other problems of one shape, by seed: points that are uniform, overlapping clusters, and small ones of
/// what random points hold none of: ties, duplicates, empty clusters, a large offset.
std::vector<BatteryCase> make_fresh_cases(std::int64_t n, std::int64_t d, std::int64_t k,
                                          std::uint64_t seed);

enum class Verdict { passed, failed, skipped, error };
const char* to_string(Verdict verdict);

struct BatteryResult {
  Verdict verdict = Verdict::passed;
  std::string detail;  ///< why it failed, was skipped, or broke
  Certificate certificate;
};

/// Certifies one variant on one case: first and last iteration, the trajectory against the
/// reference's, reset() after other centroids, and that a second run gives the same bits where the
/// variant is deterministic. Exact variants must equal the reference bit for bit.
BatteryResult run_battery_case(const RegisteredVariant& variant, const BatteryCase& test,
                               Precision precision, int threads);

}  // namespace kmeans
