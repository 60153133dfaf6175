// SPDX-License-Identifier: Apache-2.0
//
// Ranks that talk through MPI. Its counts are `int`, so longer calls are divided.
#include <mpi.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>

#include "harness/machine/ranks.h"
#include "harness/support/errors.h"

namespace kmeans {
namespace {

static_assert(sizeof(int) == 4);

/// Elements of one call of MPI; tests have fewer.
std::int64_t most_of_a_call() {
  std::int64_t most = std::numeric_limits<int>::max() / 2;
  if (const char* text = std::getenv("KMEANS_BENCH_MPI_MOST")) {
    std::from_chars(text, text + std::strlen(text), most);
  }
  return std::clamp<std::int64_t>(most, 1, std::numeric_limits<int>::max() / 2);
}

/// A rank whose launcher dies while MPI begins would wait for it without end (Open MPI 4.1 does); later MPI sees it.
class EndsWithLauncher {
 public:
  EndsWithLauncher() {
    ::prctl(PR_GET_PDEATHSIG, &before_);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  }
  EndsWithLauncher(const EndsWithLauncher&) = delete;
  EndsWithLauncher& operator=(const EndsWithLauncher&) = delete;
  ~EndsWithLauncher() { ::prctl(PR_SET_PDEATHSIG, before_); }

 private:
  int before_ = 0;
};

class MpiRanks final : public Communicator {
 public:
  MpiRanks() {
    const EndsWithLauncher beginning;
    int provided = 0;
    // An OpenMP team calls through one of its threads.
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    check(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(world_, &rank_);
    MPI_Comm_size(world_, &size_);
    MPI_Comm here = MPI_COMM_NULL;
    check(MPI_Comm_split_type(world_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here),
          "MPI_Comm_split_type");
    MPI_Comm_size(here, &ranks_here_);
    MPI_Comm_free(&here);
    if (provided < MPI_THREAD_SERIALIZED) {
      throw EnvironmentError("this MPI cannot be called from the threads of a program (" +
                             ranks_library() + ")");
    }
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] int ranks_here() const override { return ranks_here_; }
  [[nodiscard]] std::string engine() const override { return ranks_library(); }

  void barrier() override { check(MPI_Barrier(world_), "MPI_Barrier"); }

  void all_reduce_sum(std::int64_t* values, std::int64_t count) override {
    in_calls(count, [&](std::int64_t at, int part) {
      check(MPI_Allreduce(MPI_IN_PLACE, values + at, part, MPI_INT64_T, MPI_SUM, world_),
            "MPI_Allreduce");
    });
  }
  double all_reduce_max(double value) override { return reduced(value, MPI_MAX); }
  double all_reduce_min(double value) override { return reduced(value, MPI_MIN); }

  void reduce_scatter_sum(const std::int64_t* values, const std::vector<std::int64_t>& counts,
                          std::int64_t* own) override {
    if (fit(counts)) {
      const std::vector<int> short_counts(counts.begin(), counts.end());
      check(MPI_Reduce_scatter(values, own, short_counts.data(), MPI_INT64_T, MPI_SUM, world_),
            "MPI_Reduce_scatter");
      return;
    }
    for (int r = 0; r < size_; values += counts[r++]) {
      in_calls(counts[r], [&](std::int64_t at, int part) {
        check(MPI_Reduce(values + at, r == rank_ ? own + at : nullptr, part, MPI_INT64_T, MPI_SUM,
                         r, world_),
              "MPI_Reduce");
      });
    }
  }

  void all_gather(void* values, const std::vector<std::int64_t>& bytes) override {
    if (fit(bytes)) {
      const Blocks blocks(bytes);
      check(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_BYTE, values, blocks.lengths.data(),
                           blocks.places.data(), MPI_BYTE, world_),
            "MPI_Allgatherv");
      return;
    }
    auto* block = static_cast<char*>(values);
    for (int r = 0; r < size_; block += bytes[r++]) {
      in_calls(bytes[r], [&](std::int64_t at, int part) {
        check(MPI_Bcast(block + at, part, MPI_BYTE, r, world_), "MPI_Bcast");
      });
    }
  }

  void gather(const void* own, const std::vector<std::int64_t>& bytes, void* all) override {
    if (fit(bytes)) {
      const Blocks blocks(bytes);
      check(MPI_Gatherv(own, blocks.lengths[rank_], MPI_BYTE, all, blocks.lengths.data(),
                        blocks.places.data(), MPI_BYTE, 0, world_),
            "MPI_Gatherv");
      return;
    }
    auto* block = static_cast<char*>(all);
    if (rank_ == 0) std::memcpy(block, own, bytes[0]);
    for (int r = 1; r < size_; ++r) {
      if (rank_ == 0) block += bytes[r - 1];
      send(r, 0, own, block, bytes[r]);
    }
  }

  void scatter(const void* all, const std::vector<std::int64_t>& bytes, void* own) override {
    if (fit(bytes)) {
      const Blocks blocks(bytes);
      check(MPI_Scatterv(all, blocks.lengths.data(), blocks.places.data(), MPI_BYTE, own,
                         blocks.lengths[rank_], MPI_BYTE, 0, world_),
            "MPI_Scatterv");
      return;
    }
    const auto* block = static_cast<const char*>(all);
    if (rank_ == 0) std::memcpy(own, block, bytes[0]);
    for (int r = 1; r < size_; ++r) {
      if (rank_ == 0) block += bytes[r - 1];
      send(0, r, block, own, bytes[r]);
    }
  }

  void broadcast(void* values, std::int64_t bytes, Wait wait = Wait::busy) override {
    in_calls(bytes, [&](std::int64_t at, int part) {
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Ibcast(static_cast<char*>(values) + at, part, MPI_BYTE, 0, world_, &request),
            "MPI_Ibcast");
      if (wait == Wait::idle) leave_processor_until_done(request);
      check(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    });
  }

  [[noreturn]] void abort(const std::string& reason, int exit_code) override {
    std::fprintf(stderr, "kmeans-bench: rank %d of %d: %s\n", rank_, size_, reason.c_str());
    std::fflush(stderr);
    MPI_Abort(world_, exit_code);
    std::_Exit(exit_code);
  }

  void end() {
    MPI_Comm_free(&world_);
    MPI_Finalize();
  }

 private:
  struct Blocks {
    explicit Blocks(const std::vector<std::int64_t>& bytes)
        : lengths(bytes.begin(), bytes.end()), places(bytes.size()) {
      std::exclusive_scan(lengths.begin(), lengths.end(), places.begin(), 0);
    }
    std::vector<int> lengths;
    std::vector<int> places;
  };

  [[nodiscard]] bool fit(const std::vector<std::int64_t>& counts) const {
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) <= most_;
  }

  template <class Call>
  void in_calls(std::int64_t count, const Call& call) const {
    for (std::int64_t at = 0; at < count; at += most_) {
      call(at, static_cast<int>(std::min(most_, count - at)));
    }
  }

  /// From one rank to another; the rest have nothing to do with it.
  void send(int from, int to, const void* values, void* received, std::int64_t bytes) {
    in_calls(bytes, [&](std::int64_t at, int part) {
      if (rank_ == from) {
        check(MPI_Send(static_cast<const char*>(values) + at, part, MPI_BYTE, to, 0, world_),
              "MPI_Send");
      } else if (rank_ == to) {
        check(MPI_Recv(static_cast<char*>(received) + at, part, MPI_BYTE, from, 0, world_,
                       MPI_STATUS_IGNORE),
              "MPI_Recv");
      }
    });
  }

  void leave_processor_until_done(MPI_Request& request) const {
    constexpr useconds_t kMicroseconds = 200;
    for (int done = 0;;) {
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done != 0) return;
      ::usleep(kMicroseconds);
    }
  }

  double reduced(double value, MPI_Op operation) {
    check(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, operation, world_), "MPI_Allreduce");
    return value;
  }

  void check(int code, const char* call) const {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    throw CommunicationError("rank " + std::to_string(rank_) + " of " + std::to_string(size_) +
                             ": " + call + " failed: " + std::string(text, length));
  }

  MPI_Comm world_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  int ranks_here_ = 1;
  std::int64_t most_ = most_of_a_call();
};

MpiRanks& mpi_ranks() {
  static auto* ranks = new MpiRanks;  // never destroyed: MPI ends before what is static
  return *ranks;
}

}  // namespace

Communicator& begin_ranks(const Launched& launched) {
  MpiRanks& ranks = mpi_ranks();
  if (ranks.size() == launched.size) return ranks;
  throw EnvironmentError("the launcher started " + std::to_string(launched.size) +
                         " ranks, but MPI knows of " + std::to_string(ranks.size()) +
                         ": it must be the launcher of the MPI that this program was built with (" +
                         ranks_library() + ")");
}

void end_ranks_library() { mpi_ranks().end(); }

std::string ranks_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string version(text, length);
  // "Open MPI v4.1.4, package: ..."; MPICH's has lines, and a tab in each.
  std::replace(version.begin(), version.end(), '\t', ' ');
  return version.substr(0, version.find_first_of(",\n"));
}

}  // namespace kmeans
