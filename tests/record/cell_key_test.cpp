// SPDX-License-Identifier: Apache-2.0
#include "harness/record/cell_key.h"

#include <gtest/gtest.h>

namespace kmeans {
namespace {

TEST(CellKey, NamesWhatRan) {
  CellKey key{"cpu_naive", "blobs-100x2-k4-s1", {100, 2, 4, Precision::f32}, 10, 3};
  EXPECT_EQ(key.text(), "cpu_naive/f32/blobs-100x2-k4-s1/k4/T10/t3");
  EXPECT_EQ(key.work(), "cpu_naive/f32/blobs-100x2-k4-s1/k4/T10");
  EXPECT_EQ(key.points(), "blobs-100x2-k4-s1");
  key.shape.precision = Precision::f64;
  EXPECT_EQ(key.points(), "blobs-100x2-k4-s1/f64");
  key.shape.precision = Precision::tf32;  // of float32 points
  EXPECT_EQ(key.points(), "blobs-100x2-k4-s1");
}

TEST(CellKey, NamesSeveralRanks) {
  CellKey key{"mpi_exact", "uniform", {1000, 3, 7, Precision::f32}, 5, 2, 1};
  EXPECT_FALSE(to_json(key).contains("ranks"));
  key.ranks = 4;
  EXPECT_EQ(key.text(), "mpi_exact/f32/uniform/k7/T5/t2/r4");
  EXPECT_EQ(to_json(key)["ranks"], 4);
}

TEST(CellKey, NamesSeveralGpus) {
  CellKey key{"nccl_exact", "uniform", {1000, 3, 7, Precision::f32}, 5, 1};
  EXPECT_FALSE(to_json(key).contains("gpus"));
  key.gpus = 2;
  EXPECT_EQ(key.text(), "nccl_exact/f32/uniform/k7/T5/t1/g2");
  EXPECT_EQ(to_json(key)["gpus"], 2);
}

TEST(CellKey, ItsPartsHaveTheNamesOfResultFiles) {
  const CellKey key{"cuda_cublas", "uniform", {1000, 3, 7, Precision::bf16}, 5, 1};
  EXPECT_EQ(to_json(key), nlohmann::json({{"key", "cuda_cublas/bf16/uniform/k7/T5/t1"},
                                          {"variant", "cuda_cublas"},
                                          {"precision", "bf16"},
                                          {"dataset", "uniform"},
                                          {"n", 1000},
                                          {"d", 3},
                                          {"k", 7},
                                          {"iterations", 5},
                                          {"threads", 1}}));
}

}  // namespace
}  // namespace kmeans
