// SPDX-License-Identifier: Apache-2.0
//
// A regular file mapped into memory, read-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace kmeans {

class MappedFile {
 public:
  /// Throws InputError when the file is missing, unreadable or no regular file (a pipe or device
  /// would block or never end). A symbolic link to a regular file is fine. An empty file gives no
  /// bytes.
  explicit MappedFile(const std::filesystem::path& file);

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Keeps the bytes alive.
  [[nodiscard]] const std::shared_ptr<const void>& memory() const { return memory_; }
  /// Time of the last change, in nanoseconds since the epoch.
  [[nodiscard]] std::int64_t modified() const { return modified_; }

 private:
  std::shared_ptr<const void> memory_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::int64_t modified_ = 0;
};

}  // namespace kmeans
