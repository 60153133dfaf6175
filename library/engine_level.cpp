// SPDX-License-Identifier: Apache-2.0
//
// The variants compiled for one level of x86-64, all in one source: nothing here runs before
// KMEANS_EXACT_ENGINE is called, so that a program that holds all levels begins on every processor.
// library/CMakeLists.txt hides all other names of the object.
#include <stdexcept>
#include <string>

#include "library/choose_engine.h"
#include "library/engine.h"

#undef KMEANS_VARIANT
#define KMEANS_VARIANT(Class, ...)                                             \
  namespace {                                                                  \
  kmeans::Registration registration_of_##Class() {                             \
    using namespace kmeans; /* NOLINT: lets the initialisers say Sums::wide */ \
    return {Traits{__VA_ARGS__}, ::kmeans::detail::factory_of<Class>()};       \
  }                                                                            \
  }

// NOLINTBEGIN(bugprone-suspicious-include)
#include "implementations/openmp/openmp_exact.cpp"
#include "implementations/openmp/openmp_hamerly.cpp"
#include "implementations/openmp/openmp_int8.cpp"
#include "implementations/openmp/openmp_tree.cpp"
#include "implementations/openmp/openmp_yinyang.cpp"
// After those that it has at work.
#include "implementations/openmp/_seed_distances.h"
#include "implementations/openmp/openmp_best.cpp"
// NOLINTEND(bugprone-suspicious-include)

kmeans::Registration kmeans::registered_variant(const std::string& name) {
  if (name == "openmp_exact") return registration_of_OpenmpExact();
  if (name == "openmp_hamerly") return registration_of_OpenmpHamerly();
  if (name == "openmp_int8") return registration_of_OpenmpInt8();
  if (name == "openmp_tree") return registration_of_OpenmpTree();
  if (name == "openmp_yinyang") return registration_of_OpenmpYinyang();
  if (name == "openmp_best") return registration_of_OpenmpBest();
  throw std::logic_error("no variant '" + name + "' is in this library");
}

void KMEANS_EXACT_ENGINE(const kmeans::Shape& shape, std::int64_t iterations, bool weighted,
                         int threads, kmeans_exact::MadeEngine& made) {
  made = kmeans_exact::make_engine(shape, iterations, weighted, threads);
}

void KMEANS_EXACT_SQUARES(const float* points, std::int64_t n, std::int64_t d,
                          const float* centroids, std::int64_t k, double* squares) {
  kmeans_exact::squares_between(points, n, d, centroids, k, squares);
}

void KMEANS_EXACT_RELEASE() { kmeans::openmp::KeptMemory::of_process().give_back(); }

kmeans::FasterSeeding KMEANS_EXACT_SEEDING() { return kmeans::openmp::seeding(); }
