// SPDX-License-Identifier: Apache-2.0
//
// A library with the calls of NCCL that the suite uses, between threads and on the host's memory, for
// tests of harness/machine/nccl.cpp. Written from NCCL's own header, not from the suite's declarations.
// FAKE_NCCL_VERSION, FAKE_NCCL_FAILS (the name of a call) and FAKE_NCCL_ASYNC (a code) change what it says.
// The build makes a second one that lacks a function (FAKE_NCCL_INCOMPLETE).
#include <algorithm>
#include <barrier>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

enum Result { kSuccess = 0, kInvalidArgument = 4, kInvalidUsage = 5, kRemoteError = 6 };

struct Clique {
  explicit Clique(int size) : barrier(size), sent(static_cast<std::size_t>(size)) {}
  std::barrier<> barrier;
  std::vector<const void*> sent;
};

struct Communicator {
  std::shared_ptr<Clique> clique;
  int size;
  int rank;
};

bool fails(const char* call) {
  const char* chosen = std::getenv("FAKE_NCCL_FAILS");
  return chosen != nullptr && std::strcmp(chosen, call) == 0;
}

/// Calls read(sent) when all ranks have said what they send, and returns when all have read.
template <class Read>
int together(void* communicator, const void* send, const Read& read) {
  if (communicator == nullptr) return kInvalidArgument;
  auto* own = static_cast<Communicator*>(communicator);
  own->clique->sent[static_cast<std::size_t>(own->rank)] = send;
  own->clique->barrier.arrive_and_wait();
  read(*own);
  own->clique->barrier.arrive_and_wait();
  return kSuccess;
}

std::vector<std::int64_t> sums_of(const Communicator& own, std::size_t first, std::size_t count) {
  std::vector<std::int64_t> sums(count);
  for (const void* sent : own.clique->sent) {
    const auto* values = static_cast<const std::int64_t*>(sent) + first;
    for (std::size_t i = 0; i < count; ++i) sums[i] += values[i];
  }
  return sums;
}

constexpr int kInt64 = 4;
constexpr int kFloat32 = 7;
constexpr int kSum = 0;

}  // namespace

extern "C" {

struct UniqueId {
  char internal[128];
};

int ncclGetVersion(int* version) {
  const char* told = std::getenv("FAKE_NCCL_VERSION");
  *version = told != nullptr ? std::atoi(told) : 22707;
  return fails("ncclGetVersion") ? kInvalidUsage : kSuccess;
}

int ncclGetUniqueId(UniqueId* id) {
  static int made = 0;
  std::memset(id->internal, 'x', sizeof(id->internal));
  id->internal[127] = static_cast<char>('a' + made++);
  return fails("ncclGetUniqueId") ? kInvalidUsage : kSuccess;
}

int ncclCommInitRank(void** communicator, int size, UniqueId id, int rank) {
  if (fails("ncclCommInitRank") || rank < 0 || rank >= size) return kInvalidUsage;
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<Clique>> cliques;
  std::shared_ptr<Clique> clique;
  {
    const std::lock_guard lock(mutex);
    auto& known = cliques[std::string(id.internal, sizeof(id.internal))];
    if (!known) known = std::make_shared<Clique>(size);
    clique = known;
  }
  clique->barrier.arrive_and_wait();
  *communicator = new Communicator{clique, size, rank};
  return kSuccess;
}

int ncclCommDestroy(void* communicator) {
  delete static_cast<Communicator*>(communicator);
  return kSuccess;
}

int ncclCommAbort(void* communicator) { return ncclCommDestroy(communicator); }

int ncclCommGetAsyncError(void* /*communicator*/, int* code) {
  const char* told = std::getenv("FAKE_NCCL_ASYNC");
  *code = told != nullptr ? std::atoi(told) : kSuccess;
  return kSuccess;
}

const char* ncclGetErrorString(int code) {
  if (code == kInvalidUsage) return "invalid usage";
  if (code == kRemoteError) return "remote process exited or there was a network error";
  return "unknown result code";
}

const char* ncclGetLastError(void* /*communicator*/) { return "in its own words"; }

int ncclAllReduce(const void* send, void* receive, std::size_t count, int type, int operation,
                  void* communicator, void* /*stream*/) {
  if (fails("ncclAllReduce") || type != kInt64 || operation != kSum) return kInvalidUsage;
  std::vector<std::int64_t> sums;
  const int code =
      together(communicator, send, [&](const Communicator& own) { sums = sums_of(own, 0, count); });
  std::copy(sums.begin(), sums.end(), static_cast<std::int64_t*>(receive));
  return code;
}

#ifndef FAKE_NCCL_INCOMPLETE
int ncclReduceScatter(const void* send, void* receive, std::size_t count, int type, int operation,
                      void* communicator, void* /*stream*/) {
  if (type != kInt64 || operation != kSum) return kInvalidUsage;
  std::vector<std::int64_t> sums;
  const int code = together(communicator, send, [&](const Communicator& own) {
    sums = sums_of(own, count * static_cast<std::size_t>(own.rank), count);
  });
  std::copy(sums.begin(), sums.end(), static_cast<std::int64_t*>(receive));
  return code;
}
#endif

int ncclAllGather(const void* send, void* receive, std::size_t count, int type, void* communicator,
                  void* /*stream*/) {
  if (type != kFloat32) return kInvalidUsage;
  std::vector<float> all;
  const int code = together(communicator, send, [&](const Communicator& own) {
    for (const void* sent : own.clique->sent) {
      const auto* values = static_cast<const float*>(sent);
      all.insert(all.end(), values, values + count);
    }
  });
  std::copy(all.begin(), all.end(), static_cast<float*>(receive));
  return code;
}

}  // extern "C"
