// SPDX-License-Identifier: Apache-2.0
//
// Blocks of points in page-locked host memory, from which the GPU copies at the link's full rate:
// page-locked where they lie, or read into page-locked buffers by threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "implementations/_block_reader.h"
#include "implementations/cuda/_lloyd.cuh"
#include "implementations/cuda/_pinned.cuh"

namespace kmeans::cuda {

/// The points in page-locked memory, one block after the other.
class PinnedBlocks {
 public:
  PinnedBlocks(const Problem<float>& problem, std::int64_t rows)
      : points_(problem.points), n_(problem.shape.n), d_(problem.shape.d), rows_(rows) {
    if (!problem.beyond_memory) {
      try {
        locked_.emplace_back(points_, n_ * d_ * static_cast<std::int64_t>(sizeof(float)),
                             PageLocked::Use::read);
        return;
      } catch (const Error& error) {
        refusal_ = cudaGetErrorName(error.code());
      }
    }
    reader_ = std::make_unique<BlockReader>(problem, rows, readers(problem));
    reader_->each_buffer([&](char* data, std::int64_t bytes) {
      locked_.emplace_back(data, bytes, PageLocked::Use::write);
    });
  }

  /// Begins to read the blocks of so many iterations.
  void start(std::int64_t iterations) {
    if (reader_) reader_->start(iterations * ceil_div(n_, rows_));
  }
  /// The block of rows from `first` on, valid until release(); null after a failure, which finish()
  /// reports.
  const float* take(std::int64_t first) { return reader_ ? reader_->next() : points_ + first * d_; }
  /// Of the oldest block that was taken.
  void release() {
    if (reader_) reader_->release();
  }
  void finish() {
    if (reader_) reader_->finish();
  }
  [[nodiscard]] bool in_place() const { return reader_ == nullptr; }

  /// For library_info().
  [[nodiscard]] std::string way() const {
    if (in_place()) return "page-locked where they lie";
    return reader_->way() + (refusal_.empty() ? "" : ", since page-locking them: " + refusal_);
  }

  /// Host bytes, where the points cannot be page-locked.
  static double bytes(double bytes_of_block, int threads) {
    return BlockReader::bytes(bytes_of_block,
                              std::max(copiers(threads), BlockReader::kReadersOfDisk));
  }

 private:
  // Threads that fill blocks from memory: one copies some 10 GB/s, less than the link carries.
  static constexpr int kMaxCopiers = 12;
  static int copiers(int threads) { return std::min(threads, kMaxCopiers); }
  static int readers(const Problem<float>& problem) {
    return problem.beyond_memory ? BlockReader::kReadersOfDisk : copiers(problem.threads);
  }

  const float* points_;
  std::int64_t n_;
  std::int64_t d_;
  std::int64_t rows_;
  std::string refusal_;
  std::unique_ptr<BlockReader> reader_;  // unless the points are page-locked themselves
  std::vector<PageLocked> locked_;  // the points or the reader's buffers: unlocked before these go
};

}  // namespace kmeans::cuda
