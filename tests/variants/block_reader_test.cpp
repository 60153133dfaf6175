// SPDX-License-Identifier: Apache-2.0
#include "implementations/_block_reader.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/scoped.h"

namespace kmeans {
namespace {

constexpr Shape kShape{500, 3, 1, Precision::f32};

/// Two rounds of all rows, as one who gives a block back only when he has the next one.
void check_rows(const Problem<float>& problem, std::int64_t rows, int readers) {
  BlockReader reader(problem, rows, readers);
  const std::int64_t blocks = (kShape.n + rows - 1) / rows;
  for (int round = 0; round < 2; ++round) {
    reader.start(2 * blocks);
    for (std::int64_t block = 0; block < 2 * blocks; ++block) {
      const std::int64_t first = block % blocks * rows;
      const float* got = reader.next();
      ASSERT_NE(got, nullptr);
      const std::vector<float> found(got, got + std::min(rows, kShape.n - first) * kShape.d);
      for (std::size_t at = 0; at < found.size(); ++at) {
        ASSERT_EQ(found[at], problem.points[first * kShape.d + static_cast<std::int64_t>(at)])
            << rows << " rows, " << readers << " readers, block " << block;
      }
      if (block > 0) reader.release();
    }
    reader.finish();
  }
  int buffers = 0;
  reader.each_buffer([&](const char* /*data*/, std::int64_t bytes) {
    ++buffers;
    EXPECT_GE(bytes, rows * row_bytes(kShape));
  });
  EXPECT_EQ(buffers, BlockReader::buffers(readers));
}

TEST(BlockReader, GivesAllRowsInOrderFromMemoryAndFromAFile) {
  std::vector<float> points(static_cast<std::size_t>(kShape.n * kShape.d));
  std::iota(points.begin(), points.end(), 1.0F);
  const test::TemporaryFolder folder;
  const std::string bytes(reinterpret_cast<const char*>(points.data()),
                          points.size() * sizeof(float));
  Problem<float> problem;
  problem.shape = kShape;
  problem.points = points.data();
  problem.points_file = folder.write("points", "a header of some bytes" + bytes);
  for (const bool from_file : {false, true}) {
    problem.beyond_memory = from_file;
    for (const std::int64_t rows : {1, 7, 250, 500}) {
      for (const int readers : {1, 2, 5}) check_rows(problem, rows, readers);
    }
  }
  EXPECT_EQ(BlockReader(problem, 7, 3).way().find("the page cache") != std::string::npos, true);
  problem.beyond_memory = false;
  EXPECT_EQ(BlockReader(problem, 7, 3).way(), "copied by 3 threads");
}

TEST(BlockReader, RowsOfABlockAreAtLeastOneAndAtMostAll) {
  const test::ScopedVariable unset("KMEANS_BENCH_BLOCK_BYTES", std::nullopt);
  EXPECT_EQ(rows_of_block(kShape, 1), 1);
  EXPECT_EQ(rows_of_block(kShape, 12 * 7 + 11), 7);
  EXPECT_EQ(rows_of_block(kShape, 1 << 20), 500);
  const test::ScopedVariable few("KMEANS_BENCH_BLOCK_BYTES", "24");
  EXPECT_EQ(rows_of_block(kShape, 1 << 20), 2);
}

}  // namespace
}  // namespace kmeans
