// SPDX-License-Identifier: Apache-2.0
//
// Question:  which points does a grid label if its threads begin at block.id + thread.id, how many
//            of its blocks are idle, and how many points does a thread get at most?
// Method:    b blocks of t threads walk through n points, t b at a time: from the printed first
//            index, and from t block.id + thread.id. Idle blocks and points a thread are counted on
//            the latter and compared with what the text says of them
// Source:    zechner2009, section V-B
#include "experiments/studies/_common.h"

namespace kmeans::studies::chunk_index {
namespace {

struct Walk {
  std::int64_t labelled = 0;     // points that some thread comes to
  std::int64_t repeated = 0;     // points that several come to
  std::int64_t most = 0;         // points of one thread
  std::int64_t idle_blocks = 0;  // in the last round
};

Walk walk(std::int64_t n, std::int64_t threads, std::int64_t blocks, std::int64_t block_stride) {
  std::vector<std::int64_t> visits(static_cast<std::size_t>(n));
  const std::int64_t step = threads * blocks;
  const std::int64_t rounds = (n + step - 1) / step;
  Walk result;
  for (std::int64_t block = 0; block < blocks; ++block) {
    std::int64_t in_the_last = 0;
    for (std::int64_t thread = 0; thread < threads; ++thread) {
      std::int64_t points = 0;
      for (std::int64_t i = block_stride * block + thread; i < n; i += step) {
        visits[i] += 1;
        points += 1;
      }
      result.most = std::max(result.most, points);
      in_the_last += points == rounds ? 1 : 0;
    }
    result.idle_blocks += in_the_last == 0 ? 1 : 0;
  }
  for (const auto count : visits) {
    result.labelled += count > 0 ? 1 : 0;
    result.repeated += count > 1 ? 1 : 0;
  }
  return result;
}

StudyOutput run(const StudyInput& input) {
  Parameters parameters(input);
  const auto ns = parameters.integers("n", {500, 5000, 50000, 500000}, 1, 10000000);
  const auto threads = parameters.integer("threads_per_block", 128, 1, 1024);
  const auto block_counts = parameters.integers("blocks", {1, 8, 64, 512}, 1, 100000);
  parameters.finish();

  StudyOutput output;
  double largest_share_left_out = 0;
  std::int64_t wrong_idle = 0;
  for (const auto n : ns) {
    for (const auto blocks : block_counts) {
      const std::int64_t chunks = (n + threads - 1) / threads;
      const auto printed = walk(n, threads, blocks, 1);
      const auto right = walk(n, threads, blocks, threads);
      const std::int64_t printed_idle = chunks % blocks == 0 ? 0 : blocks - chunks;
      const auto share = [&](std::int64_t count) {
        return static_cast<double>(count) / static_cast<double>(n);
      };
      output.rows.push_back({{"n", n},
                             {"threads_per_block", threads},
                             {"blocks", blocks},
                             {"chunks", chunks},
                             {"idle_blocks", right.idle_blocks},
                             {"idle_blocks_printed", printed_idle},
                             {"most_points_a_thread", right.most},
                             {"most_points_a_thread_printed", chunks},
                             {"labelled_as_printed", share(printed.labelled)},
                             {"labelled_several_times_as_printed", share(printed.repeated)}});
      largest_share_left_out = std::max(largest_share_left_out, 1 - share(printed.labelled));
      wrong_idle += printed_idle != right.idle_blocks ? 1 : 0;
      const std::int64_t idle = chunks % blocks == 0 ? 0 : blocks - chunks % blocks;
      if (right.labelled != n || right.repeated > 0 || right.idle_blocks != idle ||
          right.most != (chunks + blocks - 1) / blocks) {
        output.wrong =
            "threads that begin at t block.id + thread.id label each point once, "
            "b - n_chunks mod b blocks are idle in the last round, and none has more "
            "than n_chunks / b points, rounded up";
      }
    }
  }
  output.findings = {{"largest_share_left_out", largest_share_left_out},
                     {"rows_with_another_number_of_idle_blocks", wrong_idle}};
  output.notes = {
      "idle_blocks: blocks without a point in the last round; a negative printed number "
      "is what the formula gives."};
  return output;
}

}  // namespace

KMEANS_STUDY(.name = "chunk_index",
             .summary =
                 "points that a grid labels from the printed first index, and its idle blocks",
             .source = "zechner2009", .run = run);

}  // namespace kmeans::studies::chunk_index
