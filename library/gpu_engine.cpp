// SPDX-License-Identifier: Apache-2.0
#include "library/gpu_engine.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <vector>

namespace kmeans_exact_gpu {
namespace {

constexpr const char* kFile = "libkmeans_exact_gpu.so";
constexpr const char* kVariable = "KMEANS_EXACT_GPU";

/// The folder of the program or module that this library is linked into, with a slash; empty: not known.
std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || !info.dli_fname) return "";
  const std::string path = info.dli_fname;
  const auto slash = path.find_last_of('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

/// Where it may be, the likeliest first.
std::vector<std::string> places() {
  if (const char* given = std::getenv(kVariable); given != nullptr && *given != '\0')
    return {given};
  std::vector<std::string> found;
  if (const std::string folder = own_folder(); !folder.empty()) found.push_back(folder + kFile);
  found.push_back(std::string(KMEANS_EXACT_LIBRARY_FOLDER) + "/" + kFile);
  found.emplace_back(kFile);  // as the system looks for it
  return found;
}

struct GpuLibrary {
  pid_t loaded_in = ::getpid();
  std::string problem;  // why it cannot be used
  decltype(&KMEANS_EXACT_GPU_PROBLEM) gpu_problem = nullptr;
  decltype(&KMEANS_EXACT_GPU_PART) part = nullptr;
  decltype(&KMEANS_EXACT_GPU_ENGINE) engine = nullptr;
  decltype(&KMEANS_EXACT_GPU_BOARD) board = nullptr;
  decltype(&KMEANS_EXACT_GPU_BATCH) batch = nullptr;
  decltype(&KMEANS_EXACT_GPU_ROWS) rows = nullptr;
  decltype(&KMEANS_EXACT_GPU_TAKE) take = nullptr;
  decltype(&KMEANS_EXACT_GPU_UNIT) unit = nullptr;
  decltype(&KMEANS_EXACT_GPU_OF) of = nullptr;
  decltype(&KMEANS_EXACT_GPU_ENTER) enter = nullptr;
  decltype(&KMEANS_EXACT_GPU_LEAVE) leave = nullptr;
  decltype(&KMEANS_EXACT_GPU_ALLOCATE) allocate = nullptr;
  decltype(&KMEANS_EXACT_GPU_FREE) free = nullptr;
  decltype(&KMEANS_EXACT_GPU_COPY) copy = nullptr;
  decltype(&KMEANS_EXACT_GPU_RELEASE) release = nullptr;
};

std::atomic<bool> is_loaded = false;

#define KMEANS_EXACT_TEXT_(name) #name
#define KMEANS_EXACT_TEXT(name) KMEANS_EXACT_TEXT_(name)

/// Of a library that was not loaded: whether it was built, if there is none.
std::string not_loaded(const std::string& reason, bool there_is_one) {
  const std::string hint = std::string(" (") + kVariable + " may say where it is)";
#ifdef KMEANS_EXACT_NO_GPU
  if (!there_is_one) return "the library has no part for GPUs: " KMEANS_EXACT_NO_GPU + hint;
#endif
  (void)there_is_one;
  return "the GPU's part of the library was not loaded: " + reason + hint;
}

GpuLibrary load() {
  GpuLibrary library;
  void* handle = nullptr;
  bool there_is_one = std::getenv(kVariable) != nullptr;
  for (const std::string& place : places()) {
    handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) break;
    const std::string reason = dlerror();
    // One that is there and does not fit says more than one that is not there.
    const bool is_there = reason.find("No such file") == std::string::npos;
    if (library.problem.empty() || is_there) library.problem = reason;
    there_is_one = there_is_one || is_there;
  }
  if (handle == nullptr) {
    library.problem = not_loaded(library.problem, there_is_one);
    return library;
  }
  bool fits = true;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    fits = fits && function != nullptr;
  };
  find(KMEANS_EXACT_TEXT(KMEANS_EXACT_GPU_PROBLEM), library.gpu_problem);
  find(KMEANS_EXACT_TEXT(KMEANS_EXACT_GPU_PART), library.part);
  find(KMEANS_EXACT_TEXT(KMEANS_EXACT_GPU_ENGINE), library.engine);
  find(KMEANS_EXACT_TEXT(KMEANS_EXACT_GPU_BOARD), library.board);
  find(KMEANS_EXACT_TEXT(KMEANS_EXACT_GPU_BATCH), library.batch);
  find(KMEANS_EXACT_TEXT(KMEANS_EXACT_GPU_ROWS), library.rows);
  find(KMEANS_EXACT_TEXT(KMEANS_EXACT_GPU_TAKE), library.take);
  find(KMEANS_EXACT_TEXT(KMEANS_EXACT_GPU_UNIT), library.unit);
  find(KMEANS_EXACT_TEXT(KMEANS_EXACT_GPU_OF), library.of);
  find(KMEANS_EXACT_TEXT(KMEANS_EXACT_GPU_ENTER), library.enter);
  find(KMEANS_EXACT_TEXT(KMEANS_EXACT_GPU_LEAVE), library.leave);
  find(KMEANS_EXACT_TEXT(KMEANS_EXACT_GPU_ALLOCATE), library.allocate);
  find(KMEANS_EXACT_TEXT(KMEANS_EXACT_GPU_FREE), library.free);
  find(KMEANS_EXACT_TEXT(KMEANS_EXACT_GPU_COPY), library.copy);
  find(KMEANS_EXACT_TEXT(KMEANS_EXACT_GPU_RELEASE), library.release);
  is_loaded = fits;
  library.problem =
      fits ? "" : std::string(kFile) + " is of another version than " + KMEANS_EXACT_VERSION;
  return library;  // stays loaded
}

const GpuLibrary& gpu_library() {
  static const GpuLibrary library = load();
  return library;
}

/// Why it cannot be used; empty: it can. CUDA does not outlive a fork.
std::string problem_of(const GpuLibrary& library) {
  if (!library.problem.empty() || library.loaded_in == ::getpid()) return library.problem;
  return "this process was forked from one that has used the GPU; start it in another way, as "
         "multiprocessing does with \"spawn\"";
}

}  // namespace

std::string problem() {
  const GpuLibrary& library = gpu_library();
  const std::string problem = problem_of(library);
  return problem.empty() ? library.gpu_problem() : problem;
}

kmeans_exact::GpuPart part() {
  kmeans_exact::GpuPart found;
  const GpuLibrary& library = gpu_library();
  if (problem_of(library).empty()) library.part(found);
  return found;
}

int gpu_of(const void* memory) { return problem().empty() ? gpu_library().of(memory) : -1; }

OnGpu::OnGpu(bool wanted, int gpu) {
  if (wanted && problem().empty()) before_ = gpu_library().enter(gpu);
}
OnGpu::~OnGpu() {
  if (before_) gpu_library().leave(*before_);
}

bool make_engine(const kmeans::Problem<float>& problem, kmeans_exact::MadeEngine& made,
                 std::string& why_not) {
  const GpuLibrary& library = gpu_library();
  why_not = problem_of(library);
  if (why_not.empty()) library.engine(problem, made, why_not);
  return why_not.empty();
}

std::unique_ptr<kmeans::BatchAtWork> make_batch(const kmeans::BatchTask& task,
                                                std::string& why_not) {
  return std::unique_ptr<kmeans::BatchAtWork>(gpu_library().batch(task, why_not));
}

std::unique_ptr<kmeans_exact::SentRows> send_rows(const float* points, std::int64_t n,
                                                  std::int64_t d) {
  return std::unique_ptr<kmeans_exact::SentRows>(gpu_library().rows(points, n, d));
}

std::unique_ptr<kmeans_exact::SentRows> take_rows(const kmeans_exact::GpuPoints& points,
                                                  const float* known_by, std::string& why_not) {
  return std::unique_ptr<kmeans_exact::SentRows>(gpu_library().take(points, known_by, why_not));
}

void unit_rows(const kmeans_exact::GpuPoints& rows, float* dev_unit, std::string& why_not) {
  gpu_library().unit(rows, dev_unit, why_not);
}

void* allocate(std::size_t bytes) { return gpu_library().allocate(bytes); }
void free(void* memory) { gpu_library().free(memory); }
void copy(void* to, const void* from, std::size_t bytes, void* stream) {
  gpu_library().copy(to, from, bytes, stream);
}

void release_memory() {
  if (is_loaded && problem_of(gpu_library()).empty()) gpu_library().release();
}

std::unique_ptr<kmeans::SeedingBoard<float>> make_board(
    const kmeans::SeedingProblem<float>& problem, std::int64_t most_seeds, std::string& why_not) {
  const GpuLibrary& library = gpu_library();
  why_not = problem_of(library);
  if (!why_not.empty()) return nullptr;
  return std::unique_ptr<kmeans::SeedingBoard<float>>(library.board(problem, most_seeds, why_not));
}

}  // namespace kmeans_exact_gpu
