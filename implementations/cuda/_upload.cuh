// SPDX-License-Identifier: Apache-2.0
//
// Points on their way to the GPU: at the link's speed wherever they lie, and once for all families that are tried.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "harness/machine/cuda/device.cuh"
#include "harness/support/parallel.h"
#include "harness/variant.h"
#include "implementations/cuda/_pinned.cuh"
#include "implementations/cuda/_streams.cuh"
#include "implementations/cuda/_upload_threads.h"
#include "implementations/cuda/tuning.h"

namespace kmeans::cuda {

/// Page-locked memory, and the stream in which it travels.
struct UploadPiece {
  PinnedBuffer<char> memory{tuning::kUploadPiece};
  Stream stream = make_stream();
};

/// Pieces that calls use one after the other: to lock memory takes longer than to send it.
class UploadPieces {
 public:
  static UploadPieces& of_process() {
    static auto* const pieces = new UploadPieces;  // no destructor: CUDA may have ended before
    return *pieces;
  }

  /// For the current GPU.
  UploadPiece take(int device) {
    {
      const std::lock_guard lock(mutex_);
      auto& free = free_[device];
      if (!free.empty()) {
        UploadPiece piece = std::move(free.back());
        free.pop_back();
        return piece;
      }
    }
    return {};
  }
  void give_back(int device, UploadPiece piece) {
    const std::lock_guard lock(mutex_);
    free_[device].push_back(std::move(piece));
  }
  void release() {
    const std::lock_guard lock(mutex_);
    free_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<UploadPiece>> free_;  // by GPU
};

/// Is this memory from which CUDA copies without staging: page-locked, or a GPU's?
inline bool copied_directly(const void* data) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, data) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  return attributes.type != cudaMemoryTypeUnregistered;
}

/// Copies to the GPU, after everything that the legacy default stream has before; returns when all has arrived. Of
/// pageable memory threads copy pieces to page-locked ones while earlier ones travel: small ones at first, since the
/// link waits for them.
inline void upload_bytes(const void* host, void* dev_data, std::int64_t bytes) {
  if (bytes < 2 * tuning::kFirstPiece || copied_directly(host)) {
    KMEANS_CUDA(cudaMemcpy(dev_data, host, static_cast<std::size_t>(bytes), cudaMemcpyDefault));
    return;
  }
  int device = 0;
  KMEANS_CUDA(cudaGetDevice(&device));
  std::atomic<std::int64_t> next{0};
  const auto send_some = [&] {
    if (next.load() >= bytes) return;
    KMEANS_CUDA(cudaSetDevice(device));
    // One is filled while the other travels.
    std::array<UploadPiece, 2> travelling{UploadPieces::of_process().take(device),
                                          UploadPieces::of_process().take(device)};
    std::int64_t size = tuning::kFirstPiece;
    for (std::size_t turn = 0;; turn = (turn + 1) % travelling.size()) {
      const std::int64_t first = next.fetch_add(size);
      if (first >= bytes) break;
      const auto count = static_cast<std::size_t>(std::min(size, bytes - first));
      const UploadPiece& own = travelling[turn];
      KMEANS_CUDA(cudaStreamSynchronize(own.stream.get()));
      std::memcpy(own.memory.data(), static_cast<const char*>(host) + first, count);
      KMEANS_CUDA(cudaMemcpyAsync(static_cast<char*>(dev_data) + first, own.memory.data(), count,
                                  cudaMemcpyHostToDevice, own.stream.get()));
      size = std::min(2 * size, tuning::kUploadPiece);
    }
    for (UploadPiece& own : travelling) {
      KMEANS_CUDA(cudaStreamSynchronize(own.stream.get()));
      UploadPieces::of_process().give_back(device, std::move(own));
    }
  };
  const auto threads = std::min<std::int64_t>(
      {tuning::kMostUploaders, usable_processors(), bytes / tuning::kFirstPiece});
  UploadThreads::of_process().call(static_cast<int>(threads) - 1, send_some);
}

/// Rows that are on the GPU already, and whose copy they are.
struct KnownRows {
  const float* host;
  int device;
  std::shared_ptr<DeviceBuffer<float>> rows;
  bool kept = false;  // until their array is given up
};

/// Rows that are on the GPU already: while a scope lives, who sets up the same points on that GPU does not send them.
class SharedRows {
 public:
  using Rows = std::shared_ptr<DeviceBuffer<float>>;

  static Rows send(const float* host, std::int64_t count) {
    auto rows = std::make_shared<DeviceBuffer<float>>(count);
    upload_bytes(host, rows->data(), static_cast<std::int64_t>(rows->bytes()));
    const std::lock_guard lock(mutex());
    if (is_kept(host, count) && there_is_room(2 * rows->bytes())) {
      all().push_back({host, current_device(), rows, true});
    }
    return rows;
  }

  /// What is sent of this array stays on the GPU until it is given up; until then the array stays as it is.
  static void keep(const float* host, std::int64_t count) {
    const std::lock_guard lock(mutex());
    arrays().emplace_back(host, count);
  }
  static void give_up(const float* host) {
    const std::lock_guard lock(mutex());
    const auto array = std::find_if(arrays().begin(), arrays().end(),
                                    [&](const auto& one) { return one.first == host; });
    if (array == arrays().end()) return;
    const auto [first, count] = *array;
    arrays().erase(array);
    std::erase_if(all(), [&](const KnownRows& known) {
      return known.kept && !std::less<>()(known.host, first) &&
             std::less<>()(known.host, first + count);
    });
  }

  /// Null: they have to be sent.
  static Rows of(const float* host, std::int64_t count) {
    const std::lock_guard lock(mutex());
    for (const KnownRows& known : all()) {
      if (known.host == host && known.device == current_device() && known.rows->size() == count)
        return known.rows;
    }
    return nullptr;
  }

  /// The host's points stay as they are while it lives.
  class Scope {
   public:
    Scope(const float* host, Rows rows) {
      const std::lock_guard lock(mutex());
      own_ = all().insert(all().end(), {host, current_device(), std::move(rows), false});
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() {
      const std::lock_guard lock(mutex());
      all().erase(own_);
    }

   private:
    std::list<KnownRows>::iterator own_;
  };

 private:
  friend class Scope;
  /// The caller holds the lock.
  static bool is_kept(const float* host, std::int64_t count) {
    return std::any_of(arrays().begin(), arrays().end(), [&](const auto& one) {
      return !std::less<>()(host, one.first) &&
             !std::less<>()(one.first + one.second, host + count);
    });
  }
  static bool there_is_room(std::size_t bytes) {
    std::size_t unused = 0;
    std::size_t total = 0;
    KMEANS_CUDA(cudaMemGetInfo(&unused, &total));
    // What is kept for later is given back where it is needed.
    return unused + DeviceMemory::of_process().kept(current_device()) > bytes;
  }
  static std::vector<std::pair<const float*, std::int64_t>>& arrays() {
    static std::vector<std::pair<const float*, std::int64_t>> kept;
    return kept;
  }
  static int current_device() {
    int device = 0;
    KMEANS_CUDA(cudaGetDevice(&device));
    return device;
  }
  static std::mutex& mutex() {
    static std::mutex all_rows;
    return all_rows;
  }
  static std::list<KnownRows>& all() {
    static std::list<KnownRows> rows;
    return rows;
  }
};

}  // namespace kmeans::cuda
