// SPDX-License-Identifier: Apache-2.0
//
// The engine of a GPU, from a shared library that is loaded when it is first asked for, so that nobody needs
// CUDA who does not want it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "harness/support/seed_distances.h"
#include "implementations/_batch.h"
#include "library/engine.h"
#include "library/kmeans_exact.h"

// Names with the version: a library of another one is refused, since only one build's parts fit together.
#define KMEANS_EXACT_JOIN_(a, b) a##b
#define KMEANS_EXACT_JOIN(a, b) KMEANS_EXACT_JOIN_(a, b)
#define KMEANS_EXACT_GPU_PROBLEM \
  KMEANS_EXACT_JOIN(kmeans_exact_gpu_problem, KMEANS_EXACT_VERSION_NAME)
#define KMEANS_EXACT_GPU_PART KMEANS_EXACT_JOIN(kmeans_exact_gpu_part, KMEANS_EXACT_VERSION_NAME)
#define KMEANS_EXACT_GPU_ENGINE \
  KMEANS_EXACT_JOIN(kmeans_exact_gpu_engine, KMEANS_EXACT_VERSION_NAME)
#define KMEANS_EXACT_GPU_BOARD KMEANS_EXACT_JOIN(kmeans_exact_gpu_board, KMEANS_EXACT_VERSION_NAME)
#define KMEANS_EXACT_GPU_BATCH KMEANS_EXACT_JOIN(kmeans_exact_gpu_batch, KMEANS_EXACT_VERSION_NAME)
#define KMEANS_EXACT_GPU_ROWS KMEANS_EXACT_JOIN(kmeans_exact_gpu_rows, KMEANS_EXACT_VERSION_NAME)
#define KMEANS_EXACT_GPU_TAKE KMEANS_EXACT_JOIN(kmeans_exact_gpu_take, KMEANS_EXACT_VERSION_NAME)
#define KMEANS_EXACT_GPU_UNIT KMEANS_EXACT_JOIN(kmeans_exact_gpu_unit, KMEANS_EXACT_VERSION_NAME)
#define KMEANS_EXACT_GPU_OF KMEANS_EXACT_JOIN(kmeans_exact_gpu_of, KMEANS_EXACT_VERSION_NAME)
#define KMEANS_EXACT_GPU_ENTER KMEANS_EXACT_JOIN(kmeans_exact_gpu_enter, KMEANS_EXACT_VERSION_NAME)
#define KMEANS_EXACT_GPU_LEAVE KMEANS_EXACT_JOIN(kmeans_exact_gpu_leave, KMEANS_EXACT_VERSION_NAME)
#define KMEANS_EXACT_GPU_ALLOCATE \
  KMEANS_EXACT_JOIN(kmeans_exact_gpu_allocate, KMEANS_EXACT_VERSION_NAME)
#define KMEANS_EXACT_GPU_FREE KMEANS_EXACT_JOIN(kmeans_exact_gpu_free, KMEANS_EXACT_VERSION_NAME)
#define KMEANS_EXACT_GPU_COPY KMEANS_EXACT_JOIN(kmeans_exact_gpu_copy, KMEANS_EXACT_VERSION_NAME)
#define KMEANS_EXACT_GPU_RELEASE \
  KMEANS_EXACT_JOIN(kmeans_exact_gpu_release, KMEANS_EXACT_VERSION_NAME)

namespace kmeans_exact_gpu {

/// Of a thread, as CUDA counts.
struct Before {
  int current;  ///< CUDA's current GPU.
  int in_use;   ///< The suite's; -1: that of the process.
};

}  // namespace kmeans_exact_gpu

extern "C" {
/// Why no GPU can be used; empty: one can.
const char* KMEANS_EXACT_GPU_PROBLEM();
/// What kmeans_exact::gpu_part() returns.
void KMEANS_EXACT_GPU_PART(kmeans_exact::GpuPart& part);
/// An engine, or none and why the GPU does not take this problem.
void KMEANS_EXACT_GPU_ENGINE(const kmeans::Problem<float>& problem, kmeans_exact::MadeEngine& made,
                             std::string& why_not);
/// Many problems at once, to be deleted by the caller, or null and why one after the other is right.
kmeans::BatchAtWork* KMEANS_EXACT_GPU_BATCH(const kmeans::BatchTask& task, std::string& why_not);
/// n x d points, which stay as they are while this lives, sent to the GPU; to be deleted by the caller. Null: they do
/// not fit.
kmeans_exact::SentRows* KMEANS_EXACT_GPU_ROWS(const float* points, std::int64_t n, std::int64_t d);
/// Points that lie on the GPU, for engines that are given `known_by` as the address of the points; to be deleted by the
/// caller. Null, and why not: they are not in that GPU's memory.
kmeans_exact::SentRows* KMEANS_EXACT_GPU_TAKE(const kmeans_exact::GpuPoints& points,
                                              const float* known_by, std::string& why_not);
/// Writes n x d rows scaled to length one; or why not, as above.
void KMEANS_EXACT_GPU_UNIT(const kmeans_exact::GpuPoints& rows, float* dev_unit,
                           std::string& why_not);
/// Number, as CUDA counts, of the GPU that has this memory; -1: none.
int KMEANS_EXACT_GPU_OF(const void* memory);
/// Makes a GPU the calling thread's, as all other functions need it, and returns what that had; and that again.
/// `gpu`: that number; -1: the first.
kmeans_exact_gpu::Before KMEANS_EXACT_GPU_ENTER(int gpu);
void KMEANS_EXACT_GPU_LEAVE(kmeans_exact_gpu::Before before);
/// The GPU's memory, and copies from and to it and the host's.
void* KMEANS_EXACT_GPU_ALLOCATE(std::size_t bytes);
void KMEANS_EXACT_GPU_FREE(void* memory);
void KMEANS_EXACT_GPU_COPY(void* to, const void* from, std::size_t bytes, void* stream);
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

/// As kmeans_exact::gpu_part().
kmeans_exact::GpuPart part();

/// The number that OnGpu takes for what lies in this memory; -1: on no GPU, or none can be used.
int gpu_of(const void* memory);

/// While it lives, that GPU is the calling thread's, if one can be used; afterwards the caller's is again. -1: the
/// first.
class OnGpu {
 public:
  explicit OnGpu(bool wanted, int gpu = -1);
  ~OnGpu();
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

 private:
  std::optional<Before> before_;
};

/// False, and why the GPU does not take this problem.
bool make_engine(const kmeans::Problem<float>& problem, kmeans_exact::MadeEngine& made,
                 std::string& why_not);

/// As the function of the GPU's part; a GPU can be used.
std::unique_ptr<kmeans::BatchAtWork> make_batch(const kmeans::BatchTask& task,
                                                std::string& why_not);

/// Likewise.
std::unique_ptr<kmeans_exact::SentRows> send_rows(const float* points, std::int64_t n,
                                                  std::int64_t d);

/// Likewise.
std::unique_ptr<kmeans_exact::SentRows> take_rows(const kmeans_exact::GpuPoints& points,
                                                  const float* known_by, std::string& why_not);
void unit_rows(const kmeans_exact::GpuPoints& rows, float* dev_unit, std::string& why_not);
void* allocate(std::size_t bytes);
void free(void* memory);
void copy(void* to, const void* from, std::size_t bytes, void* stream);

/// Nothing where the GPU's part was not loaded.
void release_memory();

/// As kmeans::GpuBoardFactory.
std::unique_ptr<kmeans::SeedingBoard<float>> make_board(
    const kmeans::SeedingProblem<float>& problem, std::int64_t most_seeds, std::string& why_not);

}  // namespace kmeans_exact_gpu
