// SPDX-License-Identifier: Apache-2.0
//
// What the programs here read and write: PROGRAM POINTS N D K LABELS. POINTS has n x d float32 numbers and
// nothing else, point by point in the machine's byte order (numpy's x.tofile), LABELS gets n int32 numbers.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

struct Problem {
  std::int64_t n = 0;
  std::int64_t d = 0;
  std::int64_t k = 0;
  std::vector<float> points;  // n x d
  const char* labels = nullptr;
};

/// False, and a message: the arguments are wrong.
inline bool read_problem(int argc, char** argv, Problem& problem) {
  if (argc != 6) {
    std::fprintf(stderr, "%s POINTS N D K LABELS\n", argv[0]);
    return false;
  }
  const std::int64_t n = std::atoll(argv[2]);
  const std::int64_t d = std::atoll(argv[3]);
  const std::int64_t k = std::atoll(argv[4]);
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(argv[1], error);
  // Of whatever else is in the file, such as the header of a .npy, coordinates would be made.
  if (error || n < 1 || d < 1 || k < 1 ||
      bytes / sizeof(float) / n != static_cast<std::uintmax_t>(d) ||
      bytes % (n * sizeof(float)) != 0) {
    std::fprintf(stderr, "%s: is not a file of exactly N x D x 4 bytes; it has %lld\n", argv[1],
                 error ? -1LL : static_cast<long long>(bytes));
    return false;
  }
  problem = {n, d, k, std::vector<float>(n * d), argv[5]};
  std::ifstream(argv[1], std::ios::binary)
      .read(reinterpret_cast<char*>(problem.points.data()), n * d * sizeof(float));
  return true;
}

inline void write_labels(const Problem& problem, const std::vector<std::int32_t>& labels) {
  std::ofstream(problem.labels, std::ios::binary)
      .write(reinterpret_cast<const char*>(labels.data()), problem.n * sizeof(std::int32_t));
}
