// SPDX-License-Identifier: Apache-2.0
#include "harness/machine/nccl.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <type_traits>

namespace kmeans {

// Named, since NcclLibrary's members have it: g++ 13 crashes on a type of an unnamed namespace there
// when several sources are compiled as one.
struct NcclUniqueId {  // ncclUniqueId
  char internal[128];
};
static_assert(sizeof(NcclUniqueId) == sizeof(NcclId));

namespace {

// What nccl.h says, of which only this is used.
using Result = int;                // ncclResult_t, an enum
constexpr Result kSuccess = 0;     // ncclSuccess
constexpr Result kInProgress = 7;  // ncclInProgress
constexpr int kSum = 0;            // ncclSum
constexpr int kInt64 = 4;          // ncclInt64
constexpr int kFloat32 = 7;        // ncclFloat32

/// Since when it has ncclGetLastError; recording in graphs is older.
constexpr int kOldest = 21300;

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

}  // namespace

struct NcclLibrary {
  std::string problem;
  std::string version;
  Result (*get_version)(int*) = nullptr;
  Result (*get_unique_id)(NcclUniqueId*) = nullptr;
  Result (*init_rank)(void**, int, NcclUniqueId, int) = nullptr;
  Result (*destroy)(void*) = nullptr;
  Result (*abort)(void*) = nullptr;
  Result (*get_async_error)(void*, Result*) = nullptr;
  const char* (*error_text)(Result) = nullptr;
  const char* (*last_error)(void*) = nullptr;
  Result (*all_reduce)(const void*, void*, std::size_t, int, int, void*, void*) = nullptr;
  Result (*reduce_scatter)(const void*, void*, std::size_t, int, int, void*, void*) = nullptr;
  Result (*all_gather)(const void*, void*, std::size_t, int, void*, void*) = nullptr;
};

namespace {

void* open_library(const std::vector<std::string>& names, std::string& problem) {
  for (const auto& name : names) {
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const std::string reason = dlerror();
    // The first refusal says more: a library may be installed and yet not fit.
    if (!problem.empty()) continue;
    const bool absent = reason.find("No such file") != std::string::npos;
    problem = absent ? name +
                           " was not found; NCCL comes with its package libnccl2 or the wheel "
                           "nvidia-nccl-cu13, and KMEANS_BENCH_NCCL can say where it is"
                     : "NCCL cannot be loaded: " + reason;
  }
  return nullptr;
}

void find_functions(void* handle, NcclLibrary& library) {
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    if (function == nullptr && library.problem.empty()) {
      library.problem = std::string("the NCCL found here has no ") + name;
    }
  };
  find(library.get_version, "ncclGetVersion");
  find(library.get_unique_id, "ncclGetUniqueId");
  find(library.init_rank, "ncclCommInitRank");
  find(library.destroy, "ncclCommDestroy");
  find(library.abort, "ncclCommAbort");
  find(library.get_async_error, "ncclCommGetAsyncError");
  find(library.error_text, "ncclGetErrorString");
  find(library.all_reduce, "ncclAllReduce");
  find(library.reduce_scatter, "ncclReduceScatter");
  find(library.all_gather, "ncclAllGather");
  // Last: where it alone is missing, the version says why.
  library.last_error =
      reinterpret_cast<decltype(library.last_error)>(dlsym(handle, "ncclGetLastError"));
}

void check_version(NcclLibrary& library) {
  int version = 0;
  if (library.get_version(&version) != kSuccess) {
    library.problem = "the NCCL found here does not report its version";
    return;
  }
  // Until 2.8 the minor version had three digits: 2804.
  const std::string text = version < 10000 ? version_text(version / 1000 * 10000 + version % 1000)
                                           : version_text(version);
  if (version < kOldest) {
    library.problem = "the NCCL found here is version " + text + ", at least " +
                      version_text(kOldest) + " is needed";
  } else if (library.last_error == nullptr) {
    library.problem = "the NCCL found here has no ncclGetLastError";
  } else {
    library.version = text;
  }
}

void load(const std::vector<std::string>& names, NcclLibrary& library) {
  // Programs that use NVLink multicast have put GPUs of shared hosts out of service. Read by NCCL when
  // a communicator is made; whoever wants it says so.
  ::setenv("NCCL_NVLS_ENABLE", "0", 0);
  // What a graph sends would be made known to all GPUs when it is recorded, where each waits for all:
  // also for one whose setup has failed.
  ::setenv("NCCL_GRAPH_REGISTER", "0", 0);
  void* handle = open_library(names, library.problem);  // never closed: threads of it may run
  if (handle == nullptr) return;
  find_functions(handle, library);
  if (library.problem.empty()) check_version(library);
}

const NcclLibrary& nccl() {
  static const NcclLibrary library = [] {
    const char* chosen = std::getenv("KMEANS_BENCH_NCCL");
    NcclLibrary loaded;
    load({chosen != nullptr ? chosen : "libnccl.so.2"}, loaded);
    return loaded;
  }();
  return library;
}

const NcclLibrary& usable(const NcclLibrary& library) {
  if (!library.problem.empty()) throw CommunicationError(library.problem);
  return library;
}

std::string failure(const NcclLibrary& library, const void* communicator, Result code,
                    const char* call) {
  std::string text = std::string(call) + " failed: " + library.error_text(code);
  const char* last = library.last_error(const_cast<void*>(communicator));
  if (last != nullptr && *last != '\0') text += std::string(" (") + last + ")";
  return text;
}

}  // namespace

namespace detail {

std::unique_ptr<NcclLibrary, void (*)(NcclLibrary*)> load_nccl(
    const std::vector<std::string>& names) {
  auto* library = new NcclLibrary;
  load(names, *library);
  return {library, [](NcclLibrary* loaded) { delete loaded; }};
}

const std::string& problem_of(const NcclLibrary& library) { return library.problem; }
const std::string& version_of(const NcclLibrary& library) { return library.version; }

NcclId make_id(const NcclLibrary& library) {
  NcclUniqueId made{};
  const Result code = usable(library).get_unique_id(&made);
  if (code != kSuccess)
    throw CommunicationError(failure(library, nullptr, code, "ncclGetUniqueId"));
  NcclId id{};
  std::copy(std::begin(made.internal), std::end(made.internal), id.begin());
  return id;
}

}  // namespace detail

const std::string& nccl_problem() { return nccl().problem; }

const std::string& nccl_version() { return nccl().version; }

NcclId make_nccl_id() { return detail::make_id(nccl()); }

NcclRank::NcclRank(const NcclId& id, int size, int rank) : NcclRank(nccl(), id, size, rank) {}

NcclRank::NcclRank(const NcclLibrary& library, const NcclId& id, int size, int rank)
    : library_(usable(library)), size_(size), rank_(rank) {
  NcclUniqueId given{};
  std::copy(id.begin(), id.end(), std::begin(given.internal));
  void* made = nullptr;
  check(library_.init_rank(&made, size, given, rank), "ncclCommInitRank");
  communicator_ = made;
}

NcclRank::~NcclRank() {
  if (void* communicator = communicator_.exchange(nullptr)) (void)library_.destroy(communicator);
}

void NcclRank::all_reduce_sum(const std::int64_t* dev_values, std::int64_t* dev_sums,
                              std::int64_t count, void* stream) {
  if (muted_) return;
  check(library_.all_reduce(dev_values, dev_sums, static_cast<std::size_t>(count), kInt64, kSum,
                            communicator_, stream),
        "ncclAllReduce");
}

void NcclRank::reduce_scatter_sum(const std::int64_t* dev_values, std::int64_t* dev_own,
                                  std::int64_t count, void* stream) {
  if (muted_) return;
  check(library_.reduce_scatter(dev_values, dev_own, static_cast<std::size_t>(count), kInt64, kSum,
                                communicator_, stream),
        "ncclReduceScatter");
}

void NcclRank::all_gather(float* dev_values, std::int64_t count, void* stream) {
  if (muted_) return;
  check(library_.all_gather(dev_values + rank_ * count, dev_values, static_cast<std::size_t>(count),
                            kFloat32, communicator_, stream),
        "ncclAllGather");
}

void NcclRank::check_enqueued() const {
  Result code = kSuccess;
  check(library_.get_async_error(communicator_, &code), "ncclCommGetAsyncError");
  if (code != kInProgress) check(code, "a call of NCCL that was under way");
}

void NcclRank::abort() {
  if (void* communicator = communicator_.exchange(nullptr)) (void)library_.abort(communicator);
}

void NcclRank::check(int code, const char* call) const {
  if (code == kSuccess) return;
  throw CommunicationError("rank " + std::to_string(rank_) + " of " + std::to_string(size_) + ": " +
                           failure(library_, communicator_, code, call));
}

}  // namespace kmeans
