// SPDX-License-Identifier: Apache-2.0
//
// The GPUs of a clustering, each with its thread and its rank of NCCL: all of one process, or one of
// each rank's (docs/scaling.md). Made once a process: that takes longer than many a clustering.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "harness/communicator.h"
#include "harness/machine/nccl.h"
#include "implementations/nccl/_gpu_team.h"

namespace kmeans::cuda {

class Gpus {
 public:
  /// Those in use of this process, or with `ranks` one of each rank's. All ranks call.
  static Gpus& of_process(Communicator* ranks);

  [[nodiscard]] int here() const { return team_.size(); }
  /// Of this process's GPU `member`.
  [[nodiscard]] NcclRank& rank(int member) { return *ranks_.at(static_cast<std::size_t>(member)); }

  /// work(member) on each GPU's thread. What a GPU waits for ends where another one fails; then none
  /// of them is of any more use.
  void run(const std::function<void(int)>& work) { team_.run(work); }

  /// Something that may fail on some rank, before all wait for each other: then it throws on all.
  static void agreed(Communicator* ranks, const std::function<void()>& work);

 private:
  explicit Gpus(std::vector<int> devices);
  void connect(const NcclId& id, int size, int first_rank);
  void abort();

  std::mutex mutex_;
  bool broken_ = false;
  std::vector<std::unique_ptr<NcclRank>> ranks_;
  GpuTeam team_;
};

}  // namespace kmeans::cuda
