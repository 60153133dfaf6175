// SPDX-License-Identifier: Apache-2.0
//
// A file that appears under its name complete or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kmeans {

/// Writes to a temporary neighbour; commit() flushes it to disk and renames it. Without commit()
/// the temporary file is removed. A symbolic link stays, and what it leads to is replaced. What is
/// no regular file (a device, a pipe, /dev/stdout) is written through as the bytes come. All
/// functions throw OutputError with the system's reason.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path file);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  /// All bytes are on disk under the temporary name: what is left of commit() needs no room. So several files
  /// that belong together are flushed first, and then committed, and a full disk leaves the old ones.
  void flush();
  void commit();

 private:
  std::filesystem::path file_;
  std::filesystem::path temporary_;  ///< Empty: written through.
  int descriptor_ = -1;
};

/// Replaces `file` by `text` as AtomicFile does: a reader sees the old or the new text, also after
/// a power cut.
void write_atomically(const std::filesystem::path& file, std::string_view text);

/// A file of a command, with what to call it in a message: "--out", "the points".
struct NamedFile {
  std::string name;
  std::filesystem::path file;
};

/// Throws InputError where an output is one of the inputs, or two outputs are one file.
void check_outputs(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs);

/// Removes what killed processes left of temporary neighbours of `file`. Only where a lock makes
/// sure that nobody is writing it.
void remove_stale_temporaries(const std::filesystem::path& file);

/// For files of the cache: where `file` is to lie, nothing but a regular file may stay. A link that
/// leads to none and a pipe are removed, a folder is moved aside, and a sentence on standard error
/// says so.
void make_way(const std::filesystem::path& file);

/// An advisory lock on `file` (created if missing), held until destruction. Waits for its turn, and
/// says so on standard error after a second. Throws EnvironmentError when a signal ends the wait
/// (an InterruptGuard must live for that).
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
