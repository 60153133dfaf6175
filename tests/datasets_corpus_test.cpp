// SPDX-License-Identifier: Apache-2.0
//
// Replays the fuzz corpus: every file through every reader, without clang.
#include <cmath>
#include <filesystem>

#include "datasets/points.h"
#include "datasets_test_tools.h"

namespace kmeans {
namespace {

TEST(FuzzCorpus, EveryReaderReadsOrRefusesEveryFile) {
  const std::filesystem::path corpus =
      std::filesystem::path(KMEANS_SOURCE_DIR) / "tests" / "fuzz" / "corpus";
  int files = 0;
  int read = 0;
  int refused = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(corpus)) {
    if (!entry.is_regular_file()) continue;
    ++files;
    for (const auto format :
         {FileFormat::automatic, FileFormat::npy, FileFormat::csv, FileFormat::fvecs,
          FileFormat::bvecs, FileFormat::fbin, FileFormat::idx, FileFormat::libsvm}) {
      for (const std::int64_t drop : {0, 1}) {
        if (drop > 0 && format != FileFormat::csv) continue;
        LoadOptions options;
        options.format = format;
        options.scalar = ScalarType::f64;
        options.csv_drop_last = drop;
        try {
          const Points points = load_points(entry.path(), options);
          ++read;
          for (const double value : test::values_of<double>(points)) {
            ASSERT_TRUE(std::isfinite(value)) << entry.path();
          }
        } catch (const InputError& error) {
          ++refused;
          EXPECT_NE(std::string(error.what()).find(entry.path().string()), std::string::npos);
        }
      }
    }
  }
  EXPECT_GE(files, 50);
  EXPECT_GE(read, 20);
  EXPECT_GE(refused, files);
}

}  // namespace
}  // namespace kmeans
