// SPDX-License-Identifier: Apache-2.0
//
// Clusters points that a stream of the caller brings to a GPU; arguments as in points_file.h.
#include <cuda_runtime_api.h>
#include <kmeans_exact.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <vector>

#include "points_file.h"

namespace {

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

}  // namespace

int main(int argc, char** argv) {
  Problem problem;
  if (!read_problem(argc, argv, problem)) return 2;
  const auto& [n, d, k, points, file] = problem;
  std::vector<std::int32_t> labels(n);
  try {
    cudaStream_t stream = nullptr;
    void* dev_points = nullptr;
    void* dev_centroids = nullptr;
    check(cudaStreamCreate(&stream));
    check(cudaMalloc(&dev_points, n * d * sizeof(float)));
    check(cudaMalloc(&dev_centroids, k * d * sizeof(float)));
    check(cudaMemcpyAsync(dev_points, points.data(), n * d * sizeof(float), cudaMemcpyHostToDevice,
                          stream));
    // Used where they lie, after what the stream holds now. Answers may lie on either side.
    kmeans_exact::Points on_gpu({.dev_points = dev_points, .n = n, .d = d, .stream = stream});
    auto* const centroids = static_cast<float*>(dev_centroids);
    on_gpu.seed_ward(k, 1, centroids);
    const kmeans_exact::Result result = on_gpu.lloyd(k, centroids, labels.data());
    std::printf("GPU: %lld iterations, %s\n", static_cast<long long>(result.iterations),
                result.converged ? "converged" : "not converged");
    check(cudaFree(dev_centroids));
    check(cudaFree(dev_points));
    check(cudaStreamDestroy(stream));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  write_labels(problem, labels);
}
