// SPDX-License-Identifier: Apache-2.0
//
// GPUs that talk through NCCL (docs/scaling.md). The library is loaded when it is first needed: few machines
// have several GPUs, and one without it runs everything else. No header of NCCL takes part in the build;
// the few C functions that are used are declared in nccl.cpp, and have been the same since NCCL 2.13.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "harness/communicator.h"

namespace kmeans {

/// Why NCCL cannot be used, as one clause; empty: it can. The first call loads the library; no CUDA
/// context is made.
const std::string& nccl_problem();

/// "2.32.3", or empty where it cannot be used.
const std::string& nccl_version();

/// What the ranks of one clustering have in common before they can talk: rank 0 makes it, all get it.
using NcclId = std::array<char, 128>;
NcclId make_nccl_id();

struct NcclLibrary;  // what is used of it, nccl.cpp

/// One rank: the calling thread's GPU at the time of construction, which waits until all ranks are there.
/// Errors are CommunicationError, with the rank, the call, and NCCL's own words.
class NcclRank final : public DeviceCommunicator {
 public:
  NcclRank(const NcclId& id, int size, int rank);
  NcclRank(const NcclLibrary& library, const NcclId& id, int size, int rank);
  ~NcclRank() override;
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  void all_reduce_sum(const std::int64_t* dev_values, std::int64_t* dev_sums, std::int64_t count,
                      void* stream) override;
  void reduce_scatter_sum(const std::int64_t* dev_values, std::int64_t* dev_own, std::int64_t count,
                          void* stream) override;
  void all_gather(float* dev_values, std::int64_t count, void* stream) override;

  /// While muted, calls do nothing: a first run for what must be loaded before ranks wait for each other.
  void mute(bool muted) { muted_ = muted; }
  [[nodiscard]] bool muted() const override { return muted_; }

  /// Throws what went wrong since in work that was enqueued, here or on another rank.
  void check_enqueued() const;

  /// Ends what this rank waits for on its GPU; from any thread, when another rank has failed. It is of
  /// no more use then.
  void abort();

 private:
  void check(int code, const char* call) const;

  const NcclLibrary& library_;
  std::atomic<void*> communicator_{nullptr};  // another thread may abort it
  int size_;
  int rank_;
  bool muted_ = false;
};

namespace detail {
/// Loads the first of these that there is. For tests; the suite's own is loaded once.
std::unique_ptr<NcclLibrary, void (*)(NcclLibrary*)> load_nccl(
    const std::vector<std::string>& names);
const std::string& problem_of(const NcclLibrary& library);
const std::string& version_of(const NcclLibrary& library);
NcclId make_id(const NcclLibrary& library);
}  // namespace detail

}  // namespace kmeans
