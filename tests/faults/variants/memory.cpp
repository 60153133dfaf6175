// SPDX-License-Identifier: Apache-2.0
//
// Variants that take memory without end, or write where they must not.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/faults/variants/_well_behaved.h"

namespace {

using kmeans::faults::WellBehaved;

class Leaks final : public WellBehaved {
  void step(std::int64_t /*iterations*/) override {
    constexpr std::size_t kBytes = std::size_t{64} << 20;
    // Touched, so that they are really taken. The test bounds the process: nothing here does.
    while (true) kept_.emplace_back(kBytes, '\1');
  }
  std::vector<std::vector<char>> kept_;
};

class WritesItsPoints final : public WellBehaved {
  void step(std::int64_t iterations) override {
    WellBehaved::step(iterations);
    const_cast<float*>(problem_.points)[0] += 1;  // NOLINT: that is the fault
  }
};

class WritesItsFile final : public WellBehaved {
  void step(std::int64_t iterations) override {
    WellBehaved::step(iterations);
    if (timed()) return;
    const int file = ::open(problem_.points_file.c_str(), O_WRONLY | O_CLOEXEC);
    const float value = 1e6F;
    [[maybe_unused]] const auto written = ::pwrite(file, &value, sizeof value, 128 + 4 * 100);
    ::close(file);
  }
};

class WritesItsCentroids final : public WellBehaved {
  void reset(const float* centroids) override {
    WellBehaved::reset(centroids);
    for (std::int64_t i = 0; i < problem_.shape.k * problem_.shape.d; ++i) {
      const_cast<float*>(centroids)[i] = 1e6F;  // NOLINT: that is the fault
    }
  }
};

class WritesPastItsLabels final : public WellBehaved {
  void fetch(float* centroids, std::int32_t* labels) override {
    WellBehaved::fetch(centroids, labels);
    std::memset(labels + problem_.shape.n, 0x5A, 1 << 16);
  }
};

}  // namespace

KMEANS_VARIANT(Leaks, .name = "fault_leaks", .summary = "takes memory without end")
KMEANS_VARIANT(WritesItsPoints, .name = "fault_writes_its_points",
               .summary = "writes into the points it was given")
KMEANS_VARIANT(WritesItsFile, .name = "fault_writes_its_file",
               .summary = "writes into the file of the points")
KMEANS_VARIANT(WritesItsCentroids, .name = "fault_writes_its_centroids",
               .summary = "writes into the initial centroids it was given")
KMEANS_VARIANT(WritesPastItsLabels, .name = "fault_writes_past_its_labels",
               .summary = "writes beyond the end of the labels")
