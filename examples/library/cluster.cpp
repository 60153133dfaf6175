// SPDX-License-Identifier: Apache-2.0
//
// Clusters points in the host's memory; arguments as in points_file.h.
#include <kmeans_exact.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

#include "points_file.h"

int main(int argc, char** argv) {
  Problem problem;
  if (!read_problem(argc, argv, problem)) return 2;
  const auto& [n, d, k, points, file] = problem;
  std::vector<float> centroids(k * d);
  std::vector<std::int32_t> labels(n);
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
  write_labels(problem, labels);
}
