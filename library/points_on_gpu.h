// SPDX-License-Identifier: Apache-2.0
//
// Points that lie on a GPU, for the parts of the library that are given an address in the host's memory.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/support/points_elsewhere.h"
#include "library/gpu_engine.h"

namespace kmeans_exact_gpu {

/// Addresses of the host that can neither be read nor take memory until they are filled.
class Addresses {
 public:
  explicit Addresses(std::size_t bytes)
      : bytes_(bytes),
        first_(
            ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (first_ == MAP_FAILED) throw std::bad_alloc();
  }
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  ~Addresses() { ::munmap(first_, bytes_); }

  [[nodiscard]] float* first() const { return static_cast<float*>(first_); }
  void make_usable() const {
    if (::mprotect(first_, bytes_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  }

 private:
  std::size_t bytes_;
  void* first_;
};

/// Engines know the points by the address that a copy in the host's memory would have.
class PointsOnGpu final : public kmeans::PointsElsewhere<float> {
 public:
  /// A GPU can be used.
  explicit PointsOnGpu(const kmeans_exact::GpuPoints& points)
      : addresses_(sizeof(float) * static_cast<std::size_t>(points.n) *
                   static_cast<std::size_t>(points.d)) {
    std::string why_not;
    rows_ = take_rows(points, address(), why_not);
    if (rows_ == nullptr) throw std::invalid_argument("kmeans_exact: points " + why_not);
  }

  [[nodiscard]] const float* address() const { return addresses_.first(); }
  [[nodiscard]] const kmeans_exact::SentRows& rows() const { return *rows_; }

  void copy_rows(const std::vector<std::int64_t>& rows, std::int64_t first, std::int64_t count,
                 float* to) const override {
    rows_->copy_rows(rows, first, count, to);
  }

  [[nodiscard]] const float* host_copy() const override {
    std::call_once(once_, [this] {
      addresses_.make_usable();
      rows_->copy_all(addresses_.first());
    });
    return address();
  }

 private:
  Addresses addresses_;
  std::unique_ptr<kmeans_exact::SentRows> rows_;  // gone before anybody else has the addresses
  mutable std::once_flag once_;
};

}  // namespace kmeans_exact_gpu
