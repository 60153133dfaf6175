// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of one clustering exchange. A rank holds a contiguous part of the points (Shard,
// harness/variant.h); what it needs of the others are sums of integers, which do not depend on their
// order. So labels and centroids have the same bits for every number of ranks (docs/scaling.md).
//
// An engine (MPI, threads of a test) implements the calls below. All ranks make the same calls in the
// same order, each from one thread at a time. Counts and sizes are 64-bit; an engine whose own are not
// divides the work.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace kmeans {

/// A call that failed: which rank's, which call, and what the engine says of it.
class CommunicationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Communicator {
 public:
  /// How to wait for others: at once when they are there, or leaving the processor to them.
  enum class Wait { busy, idle };

  virtual ~Communicator() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// Of these, how many run on this rank's machine.
  [[nodiscard]] virtual int ranks_here() const = 0;
  /// "Open MPI 4.1.4, ..." as results name it.
  [[nodiscard]] virtual std::string engine() const = 0;

  virtual void barrier() = 0;

  /// `values` of all ranks added element by element, in place, on every rank.
  virtual void all_reduce_sum(std::int64_t* values, std::int64_t count) = 0;
  /// The largest or least of all ranks' values.
  virtual double all_reduce_max(double value) = 0;
  virtual double all_reduce_min(double value) = 0;

  /// `values` consist of one block a rank, `counts[r]` long. Every rank gets the sum of its own block.
  virtual void reduce_scatter_sum(const std::int64_t* values,
                                  const std::vector<std::int64_t>& counts, std::int64_t* own) = 0;

  /// `values` consist of one block a rank, `bytes[r]` long, of which the rank has filled its own.
  /// Afterwards all are filled on every rank.
  virtual void all_gather(void* values, const std::vector<std::int64_t>& bytes) = 0;
  /// The same with blocks that lie elsewhere, on rank 0 alone; others may give null for `all`.
  virtual void gather(const void* own, const std::vector<std::int64_t>& bytes, void* all) = 0;
  /// The other way round.
  virtual void scatter(const void* all, const std::vector<std::int64_t>& bytes, void* own) = 0;
  /// Rank 0's bytes to all.
  virtual void broadcast(void* values, std::int64_t bytes, Wait wait = Wait::busy) = 0;

  /// Ends all ranks at once with this exit code, after a line with rank and reason on standard error.
  [[noreturn]] virtual void abort(const std::string& reason, int exit_code) = 0;

  /// Every rank's text, on every rank.
  std::vector<std::string> all_gather_texts(const std::string& own) {
    std::vector<std::int64_t> lengths(size());
    lengths[rank()] = static_cast<std::int64_t>(own.size());
    all_gather(lengths.data(), std::vector<std::int64_t>(size(), sizeof(std::int64_t)));
    std::int64_t before = 0;
    std::int64_t total = 0;
    for (int r = 0; r < size(); ++r) {
      if (r < rank()) before += lengths[r];
      total += lengths[r];
    }
    std::string all(total, '\0');
    own.copy(all.data() + before, own.size());
    all_gather(all.data(), lengths);
    std::vector<std::string> texts;
    for (std::size_t at = 0; const std::int64_t length : lengths) {
      texts.push_back(all.substr(at, length));
      at += length;
    }
    return texts;
  }
};

/// What the GPUs of one clustering exchange, each of which holds a part of the points: the calls
/// that an iteration makes, on addresses of the rank's own GPU. They are enqueued on `stream`, a
/// cudaStream_t, in the same order on every rank, and wait for nothing; a graph may record them.
class DeviceCommunicator {
 public:
  virtual ~DeviceCommunicator() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  /// dev_sums becomes the sum of all ranks' dev_values, element by element.
  virtual void all_reduce_sum(const std::int64_t* dev_values, std::int64_t* dev_sums,
                              std::int64_t count, void* stream) = 0;
  /// dev_values consist of one block a rank, all of `count`. Every rank gets the sum of its own block.
  virtual void reduce_scatter_sum(const std::int64_t* dev_values, std::int64_t* dev_own,
                                  std::int64_t count, void* stream) = 0;
  /// `dev_values` consist of one block a rank, all of `count`, of which the rank has filled its own.
  /// Afterwards all are filled on every rank.
  virtual void all_gather(float* dev_values, std::int64_t count, void* stream) = 0;

  /// Calls do nothing now, and leave what they should write as it is.
  [[nodiscard]] virtual bool muted() const { return false; }
};

/// One rank alone: nobody to exchange with.
class SingleRank final : public Communicator {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] int ranks_here() const override { return 1; }
  [[nodiscard]] std::string engine() const override { return "none"; }
  void barrier() override {}
  void all_reduce_sum(std::int64_t* /*values*/, std::int64_t /*count*/) override {}
  double all_reduce_max(double value) override { return value; }
  double all_reduce_min(double value) override { return value; }
  void reduce_scatter_sum(const std::int64_t* values, const std::vector<std::int64_t>& counts,
                          std::int64_t* own) override {
    std::memcpy(own, values, counts.at(0) * sizeof(std::int64_t));
  }
  void all_gather(void* /*values*/, const std::vector<std::int64_t>& /*bytes*/) override {}
  void gather(const void* own, const std::vector<std::int64_t>& bytes, void* all) override {
    copy(all, own, bytes.at(0));
  }
  void scatter(const void* all, const std::vector<std::int64_t>& bytes, void* own) override {
    copy(own, all, bytes.at(0));
  }
  void broadcast(void* /*values*/, std::int64_t /*bytes*/, Wait /*wait*/) override {}
  [[noreturn]] void abort(const std::string& reason, int /*exit_code*/) override {
    throw CommunicationError(reason);
  }

 private:
  static void copy(void* to, const void* from, std::int64_t bytes) {
    if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
};

/// The rows of a rank: as equal parts of n as there can be.
inline std::int64_t first_row(std::int64_t n, int rank, int size) {
  return static_cast<std::int64_t>(static_cast<__int128>(n) * rank / size);
}

/// What each rank has of n things of `each` bytes (or elements), divided as rows are.
inline std::vector<std::int64_t> parts_of_ranks(std::int64_t n, int size, std::int64_t each) {
  std::vector<std::int64_t> parts(size);
  for (int r = 0; r < size; ++r) {
    parts[r] = (first_row(n, r + 1, size) - first_row(n, r, size)) * each;
  }
  return parts;
}

}  // namespace kmeans
