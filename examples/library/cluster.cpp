// SPDX-License-Identifier: Apache-2.0
//
// cluster POINTS N D K LABELS: reads n x d float32 numbers and nothing else, point by point in the machine's
// byte order (numpy's x.tofile), writes n int32 labels.
#include <kmeans_exact.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "cluster POINTS N D K LABELS\n");
    return 2;
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
    return 2;
  }
  std::vector<float> points(n * d);
  std::vector<float> centroids(k * d);
  std::vector<std::int32_t> labels(n);
  std::ifstream(argv[1], std::ios::binary)
      .read(reinterpret_cast<char*>(points.data()), n * d * sizeof(float));
  try {
    kmeans_exact::seed_ward(points.data(), n, d, k, 1, centroids.data());
    const kmeans_exact::Result result = kmeans_exact::lloyd(
        points.data(), n, d, k, centroids.data(), labels.data(), 300, kmeans_exact::Stop::labels);
    std::printf("%s: %lld iterations, %s\n", kmeans_exact::instructions(),
                static_cast<long long>(result.iterations),
                result.converged ? "converged" : "not converged");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  std::ofstream(argv[5], std::ios::binary)
      .write(reinterpret_cast<const char*>(labels.data()), n * sizeof(std::int32_t));
}
