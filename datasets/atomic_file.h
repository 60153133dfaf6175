// SPDX-License-Identifier: Apache-2.0
//
// A file that appears under its name complete or not at all.
#pragma once

#include <cstddef>
#include <filesystem>

namespace kmeans {

/// Writes to a temporary neighbour; commit() flushes it to disk and renames it. Without commit()
/// the temporary file is removed. All functions throw OutputError with the system's reason.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path file);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void commit();

 private:
  std::filesystem::path file_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

/// Removes what killed processes left of temporary neighbours of `file`. Only where a lock makes
/// sure that nobody is writing it.
void remove_stale_temporaries(const std::filesystem::path& file);

/// For files of the cache: where `file` is to lie, nothing but a regular file may stay. A link that
/// leads to none and a pipe are removed, a folder is moved aside, and a sentence on standard error
/// says so.
void make_way(const std::filesystem::path& file);

/// An advisory lock on `file` (created if missing), held until destruction. Waits for its turn.
class FileLock {
 public:
  explicit FileLock(const std::filesystem::path& file);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace kmeans
