// SPDX-License-Identifier: Apache-2.0
//
// The engine of a GPU, from a shared library that is loaded when it is first asked for, so that nobody needs
// CUDA who does not want it.
#pragma once

#include <memory>
#include <string>

#include "library/engine.h"

// Names with the version: a library of another one is refused, since only one build's parts fit together.
#define KMEANS_EXACT_JOIN_(a, b) a##b
#define KMEANS_EXACT_JOIN(a, b) KMEANS_EXACT_JOIN_(a, b)
#define KMEANS_EXACT_GPU_PROBLEM \
  KMEANS_EXACT_JOIN(kmeans_exact_gpu_problem, KMEANS_EXACT_VERSION_NAME)
#define KMEANS_EXACT_GPU_ENGINE \
  KMEANS_EXACT_JOIN(kmeans_exact_gpu_engine, KMEANS_EXACT_VERSION_NAME)

extern "C" {
/// Why no GPU can be used; empty: one can.
const char* KMEANS_EXACT_GPU_PROBLEM();
/// An engine, to be deleted by the caller, or null and why the GPU does not take this shape.
kmeans_exact::Engine* KMEANS_EXACT_GPU_ENGINE(const kmeans::Shape& shape, std::string& problem);
}

// A namespace that the library's users do not see.
namespace kmeans_exact_gpu {

/// Why no GPU can be used, or why its library cannot be loaded; empty: one can.
std::string problem();

/// Null, and why the GPU does not take this shape.
std::unique_ptr<kmeans_exact::Engine> make_engine(const kmeans::Shape& shape, std::string& problem);

}  // namespace kmeans_exact_gpu
