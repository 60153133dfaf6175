// SPDX-License-Identifier: Apache-2.0
#include "harness/variants/registry.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <stdexcept>

#include "harness/machine/gpu.h"
#include "harness/machine/machine.h"
#include "harness/machine/nccl.h"
#include "harness/support/errors.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

// Order of first reading: from the plainest to the most involved; others follow by name.
constexpr std::array kBackendOrder{"cpu", "eigen", "blas", "openmp",
                                   "mpi", "cuda",  "nccl", "python"};

std::vector<RegisteredVariant>& storage() {
  static std::vector<RegisteredVariant> variants;  // filled by static initialisers of all variants
  return variants;
}

std::size_t backend_rank(const std::string& backend) {
  return static_cast<std::size_t>(std::distance(
      kBackendOrder.begin(), std::find(kBackendOrder.begin(), kBackendOrder.end(), backend)));
}

[[noreturn]] void refuse(const std::string& message) {
  std::fprintf(stderr, "kmeans-bench: %s\n", message.c_str());
  std::exit(kExitUnusableEnvironment);
}

std::string backend_of(const std::string& file) {
  const auto end = file.find_last_of('/');
  if (end == std::string::npos) return "local";
  const auto begin = file.find_last_of('/', end - 1);
  return file.substr(begin + 1, end - begin - 1);
}

bool is_engine_on(EngineOn where, const Traits& traits) {
  if (!traits.engine || traits.gpu) return traits.engine && where == EngineOn::gpu;
  return where == (traits.parallel ? EngineOn::threads : EngineOn::one_thread);
}

void check_name(const std::string& name, const char* where) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (name.empty() || !std::all_of(name.begin(), name.end(), allowed)) {
    refuse("variant name '" + name + "' in " + where + " must match [a-z0-9_]+");
  }
  for (const auto& other : storage()) {
    if (other.traits.name == name) {
      refuse("two variants are named '" + name + "'; the second is in " + where);
    }
  }
}

}  // namespace

bool register_variant(Traits traits, Factory factory, const char* file) {
  check_name(traits.name, file);
  const std::string backend = backend_of(file);
  if (backend == "cuda" || backend == "nccl") traits.gpu = true;
  if (traits.engine && !traits.exact) refuse("engine '" + traits.name + "' is not exact");
  storage().push_back({std::move(traits), std::move(factory), backend, Support::yes()});
  return true;
}

void register_runtime_variants(std::vector<RegisteredVariant> variants) {
  for (auto& variant : variants) {
    check_name(variant.traits.name, variant.backend.c_str());
    storage().push_back(std::move(variant));
  }
}

const std::vector<RegisteredVariant>& all_variants() {
  auto& variants = storage();
  const auto before = [](const RegisteredVariant& a, const RegisteredVariant& b) {
    const auto rank_a = backend_rank(a.backend);
    const auto rank_b = backend_rank(b.backend);
    if (rank_a != rank_b) return rank_a < rank_b;
    if (a.backend != b.backend) return a.backend < b.backend;
    // The definition of the right answer comes first.
    if (is_engine_on(EngineOn::one_thread, a.traits) !=
        is_engine_on(EngineOn::one_thread, b.traits)) {
      return is_engine_on(EngineOn::one_thread, a.traits);
    }
    return a.traits.name < b.traits.name;
  };
  if (!std::is_sorted(variants.begin(), variants.end(), before)) {
    std::sort(variants.begin(), variants.end(), before);
  }
  return variants;
}

const RegisteredVariant* exact_engine(EngineOn where) {
  for (const auto& variant : all_variants()) {
    if (is_engine_on(where, variant.traits)) return &variant;
  }
  return nullptr;
}

const RegisteredVariant& definition() {
  const auto* variant = exact_engine(EngineOn::one_thread);
  if (variant == nullptr) throw std::logic_error("no variant defines the exact Lloyd step");
  return *variant;
}

const RegisteredVariant& variant_of_fits() {
  if (const auto* best = find_variant("openmp_best")) return *best;
  const auto* threads = exact_engine(EngineOn::threads);
  return threads != nullptr ? *threads : definition();
}

bool shares_nothing(const RegisteredVariant& variant, int ranks, int gpus) {
  return (variant.backend == "mpi" && ranks == 1) || (variant.backend == "nccl" && gpus == 1);
}

const RegisteredVariant* find_variant(std::string_view name) {
  for (const auto& variant : all_variants()) {
    if (variant.traits.name == name) return &variant;
  }
  return nullptr;
}

Registration registered_variant(const std::string& name) {
  const auto* variant = find_variant(name);
  if (variant == nullptr) throw std::logic_error("no variant '" + name + "' is in this program");
  return {variant->traits, variant->factory};
}

const RegisteredVariant& require_variant(std::string_view name) {
  if (const auto* variant = find_variant(name)) return *variant;
  for (const auto& backend : missing_backends()) {
    if (std::find(backend.variants.begin(), backend.variants.end(), name) !=
        backend.variants.end()) {
      throw EnvironmentError("variant '" + std::string(name) +
                             "' is not in this build: " + backend.reason);
    }
  }
  std::vector<std::string> names;
  for (const auto& variant : all_variants()) names.push_back(variant.traits.name);
  throw InputError("unknown variant '" + std::string(name) + "'; " + closest_names(name, names) +
                   " (`kmeans-bench list` shows all)");
}

Support availability(const RegisteredVariant& variant) {
  if (!variant.available.ok || !variant.traits.gpu) return variant.available;
  const GpuStatus& gpu = gpu_status();
  if (variant.backend == "nccl" && !nccl_problem().empty()) return Support::no(nccl_problem());
  if (gpu.built || variant.backend == "cuda") {
    return gpu.problem.empty() ? Support::yes() : Support::no(gpu.problem);
  }
  // A library with kernels of its own, in a build of ours without any.
  static const bool any = !query_gpus().gpus.empty();
  return any ? Support::yes() : Support::no("no NVIDIA GPU was found (nvidia-smi lists none)");
}

bool takes(const Traits& traits, Precision precision) {
  return std::find(traits.precisions.begin(), traits.precisions.end(), precision) !=
         traits.precisions.end();
}

}  // namespace kmeans
