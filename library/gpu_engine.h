// SPDX-License-Identifier: Apache-2.0
//
// The engine of a GPU, from a shared library that is loaded when it is first asked for, so that nobody needs
// CUDA who does not want it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "harness/support/seed_distances.h"
#include "library/engine.h"

// Names with the version: a library of another one is refused, since only one build's parts fit together.
#define KMEANS_EXACT_JOIN_(a, b) a##b
#define KMEANS_EXACT_JOIN(a, b) KMEANS_EXACT_JOIN_(a, b)
#define KMEANS_EXACT_GPU_PROBLEM \
  KMEANS_EXACT_JOIN(kmeans_exact_gpu_problem, KMEANS_EXACT_VERSION_NAME)
#define KMEANS_EXACT_GPU_ENGINE \
  KMEANS_EXACT_JOIN(kmeans_exact_gpu_engine, KMEANS_EXACT_VERSION_NAME)
#define KMEANS_EXACT_GPU_BOARD KMEANS_EXACT_JOIN(kmeans_exact_gpu_board, KMEANS_EXACT_VERSION_NAME)
#define KMEANS_EXACT_GPU_ROWS KMEANS_EXACT_JOIN(kmeans_exact_gpu_rows, KMEANS_EXACT_VERSION_NAME)
#define KMEANS_EXACT_GPU_RELEASE \
  KMEANS_EXACT_JOIN(kmeans_exact_gpu_release, KMEANS_EXACT_VERSION_NAME)

extern "C" {
/// Why no GPU can be used; empty: one can.
const char* KMEANS_EXACT_GPU_PROBLEM();
/// An engine, or none and why the GPU does not take this shape.
void KMEANS_EXACT_GPU_ENGINE(const kmeans::Shape& shape, kmeans_exact::MadeEngine& made,
                             std::string& problem);
/// n x d points, which stay as they are while this lives, sent to the GPU; to be deleted by the caller. Null: they do
/// not fit.
kmeans_exact::SentRows* KMEANS_EXACT_GPU_ROWS(const float* points, std::int64_t n, std::int64_t d);
/// Gives back memory that is kept from call to call.
void KMEANS_EXACT_GPU_RELEASE();
/// A board for the choice of seeds, to be deleted by the caller, or null and why (harness/support/gpu_seeding.h).
kmeans::SeedingBoard<float>* KMEANS_EXACT_GPU_BOARD(const kmeans::SeedingProblem<float>& problem,
                                                    std::int64_t most_seeds, std::string& why_not);
}

// A namespace that the library's users do not see.
namespace kmeans_exact_gpu {

/// Why no GPU can be used, or why its library cannot be loaded; empty: one can.
std::string problem();

/// False, and why the GPU does not take this shape.
bool make_engine(const kmeans::Shape& shape, kmeans_exact::MadeEngine& made, std::string& problem);

/// As the function of the GPU's part; a GPU can be used.
std::unique_ptr<kmeans_exact::SentRows> send_rows(const float* points, std::int64_t n,
                                                  std::int64_t d);

/// Likewise; nothing where the GPU's part was not loaded.
void release_memory();

/// As kmeans::GpuBoardFactory.
std::unique_ptr<kmeans::SeedingBoard<float>> make_board(
    const kmeans::SeedingProblem<float>& problem, std::int64_t most_seeds, std::string& why_not);

}  // namespace kmeans_exact_gpu
