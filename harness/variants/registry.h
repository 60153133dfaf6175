// SPDX-License-Identifier: Apache-2.0
//
// Every variant linked into this program, and every backend that was left out and why.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/variant.h"

namespace kmeans {

struct RegisteredVariant {
  Traits traits;
  Factory factory;
  std::string backend;  ///< "cpu", "openmp", "python", ...
  /// Can it run on this machine? Of GPU variants without looking at the GPU: ask availability().
  Support available = Support::yes();
};

/// A folder of implementations/ that this build does not contain.
struct MissingBackend {
  std::string name;
  std::string reason;                 ///< "Eigen3 was not found when the suite was configured"
  std::vector<std::string> variants;  ///< Names by file, so that `list` can still show them.
};

/// All variants, sorted by backend order (cpu, eigen, blas, openmp, ..., python) and name.
const std::vector<RegisteredVariant>& all_variants();

/// The variant of that name, or null.
const RegisteredVariant* find_variant(std::string_view name);

/// Where an exact engine computes. By its traits: gpu, parallel, or neither.
enum class EngineOn { one_thread, threads, gpu };

/// The variant that the harness asks for the exact Lloyd step: Traits::engine says which of the exact
/// ones may be asked. One thread: the definition of a right answer. Null where this build has none.
const RegisteredVariant* exact_engine(EngineOn where);

/// The exact variant that a fit takes where nobody chooses: it chooses among the families itself.
const RegisteredVariant& variant_of_fits();

/// Of one rank, or one GPU, what is written for several: others do the same without it.
bool shares_nothing(const RegisteredVariant& variant, int ranks, int gpus);

/// The definition of a right answer; no build is without it.
const RegisteredVariant& definition();

/// Backends whose dependency was missing at build time.
const std::vector<MissingBackend>& missing_backends();

/// Throws InputError (exit 2) naming the closest known names when `name` is unknown.
const RegisteredVariant& require_variant(std::string_view name);

/// Can the variant run on this machine, now? For GPU variants this looks for a usable GPU.
Support availability(const RegisteredVariant& variant);

/// Does the variant take this precision?
bool takes(const Traits& traits, Precision precision);

/// Adds variants that are found at run time (the Python backend calls this once).
void register_runtime_variants(std::vector<RegisteredVariant> variants);

}  // namespace kmeans
