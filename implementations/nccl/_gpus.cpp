// SPDX-License-Identifier: Apache-2.0
#include "implementations/nccl/_gpus.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>

#include "harness/machine/gpu.h"

namespace kmeans::cuda {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  (void)::gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// Of this rank's host the GPU that is its own: ranks of a host take one after the other, unless each
/// sees but one, as some launchers arrange it.
int device_of_rank(Communicator& ranks) {
  const auto hosts = ranks.all_gather_texts(host_name());
  const auto here = hosts.begin() + ranks.rank();
  const auto before = std::count(hosts.begin(), here, *here);
  const auto visible = static_cast<std::ptrdiff_t>(gpu_status().devices.size());
  const std::ptrdiff_t device = visible == 1 ? 0 : before;
  std::string own;  // empty: there is none
  if (current_gpu() != nullptr && device < visible) {
    own = *here + " " + gpu_status().devices[static_cast<std::size_t>(device)].uuid;
  }
  const auto all = ranks.all_gather_texts(own);
  for (std::size_t r = 0; r < all.size(); ++r) {
    const std::string who = "rank " + std::to_string(r) + " of " + std::to_string(all.size());
    if (all[r].empty()) {
      throw std::runtime_error(who + " has no GPU of its own on " + hosts[r] +
                               ": as many ranks as GPUs are wanted there");
    }
    if (std::count(all.begin(), all.end(), all[r]) > 1) {
      throw std::runtime_error(who + " shares its GPU (" + all[r] +
                               ") with another rank: as many ranks as GPUs are wanted there");
    }
  }
  return static_cast<int>(device);
}

std::vector<int> devices_of_process() {
  if (gpus_in_use() == 1) return {current_gpu()->index};
  std::vector<int> devices(static_cast<std::size_t>(gpus_in_use()));
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

}  // namespace

Gpus& Gpus::of_process(Communicator* ranks) {
  // Never destroyed: what NCCL and CUDA have is gone when static objects are.
  static std::vector<Gpus*> made;
  const int size = ranks != nullptr ? ranks->size() : gpus_in_use();
  for (Gpus* gpus : made) {
    if (!gpus->broken_ && gpus->ranks_.front()->size() == size) return *gpus;
  }
  NcclId id{};
  std::vector<int> devices;
  if (ranks == nullptr) {
    devices = devices_of_process();
    id = make_nccl_id();
  } else {
    devices = {device_of_rank(*ranks)};
    agreed(ranks, [&] {
      if (ranks->rank() == 0) id = make_nccl_id();
      if (!nccl_problem().empty()) throw CommunicationError(nccl_problem());
    });
    ranks->broadcast(id.data(), static_cast<std::int64_t>(id.size()));
  }
  auto* gpus = new Gpus(devices);
  agreed(ranks, [&] {
    gpus->run([](int /*member*/) { KMEANS_CUDA(cudaFree(nullptr)); });  // makes the context
  });
  gpus->connect(id, size, ranks != nullptr ? ranks->rank() : 0);
  made.push_back(gpus);
  return *gpus;
}

void Gpus::agreed(Communicator* ranks, const std::function<void()>& work) {
  if (ranks == nullptr) return work();
  std::string problem;
  try {
    work();
  } catch (const std::exception& error) {
    problem = error.what();
    if (problem.empty()) problem = "an error without words";
  }
  const auto all = ranks->all_gather_texts(problem);
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].empty()) continue;
    throw std::runtime_error("rank " + std::to_string(r) + " of " + std::to_string(all.size()) +
                             ": " + all[r]);
  }
}

Gpus::Gpus(std::vector<int> devices)
    : ranks_(devices.size()), team_(std::move(devices), [this] { abort(); }) {}

void Gpus::connect(const NcclId& id, int size, int first_rank) {
  run([&](int member) {
    auto rank = std::make_unique<NcclRank>(id, size, first_rank + member);
    const std::lock_guard lock(mutex_);
    ranks_[static_cast<std::size_t>(member)] = std::move(rank);
  });
}

void Gpus::abort() {
  const std::lock_guard lock(mutex_);
  broken_ = true;
  for (const auto& rank : ranks_) {
    if (rank) rank->abort();
  }
}

}  // namespace kmeans::cuda
