// SPDX-License-Identifier: Apache-2.0
//
// Architectures: 90a-real
//
// The nearest of many seeds on Hopper's matrix units: the assignment of cuda_tensor, of which only
// the labels are wanted.
#include <cstdint>
#include <memory>

#include "implementations/cuda/_centred.cuh"
#include "implementations/cuda/_half_filter.cuh"
#include "implementations/cuda/_nearest_seeds.h"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code

class HopperSeeds final : public NearestSeeds {
 public:
  HopperSeeds(const float* dev_points, const kmeans::Shape& most, float max_abs)
      : dev_points_(dev_points),
        most_(most),
        streams_(half_plan(most, *kmeans::current_gpu()).streams_points),
        filter_(filter_for(most.k)),
        frame_(frame_of(dev_points, most.n, most.d, max_abs)),
        dev_copy_(filter_.copy_elements()),
        dev_lengths_(most.n),
        dev_labels_(most.n) {
    bias_ = filter_.copy_points(dev_points, frame_, dev_copy_, dev_lengths_);
    dev_labels_.fill_bytes(0xff);
  }

  void find(float* dev_seeds, std::int64_t count, std::int32_t* dev_nearest) override {
    if (streams_) {  // in parts, which their number decides
      filter_ = filter_for(count);
      filter_.set_bias(bias_);
    } else {
      filter_.narrow(count);
    }
    filter_.restart();
    filter_.move_centroids(nullptr, 1, dev_seeds, frame_, nullptr);
    const HalfRows rows{.dev_copy = dev_copy_.data(), .dev_lengths = dev_lengths_.data()};
    filter_.find(rows, dev_labels_.data(), dev_nearest, nullptr);
    filter_.decide_undecided(rows, dev_points_, dev_seeds, dev_nearest, true, nullptr);
  }

 private:
  [[nodiscard]] HalfFilter filter_for(std::int64_t k) const {
    return {{most_.n, most_.d, k, most_.precision}, {.rows = most_.n}, *kmeans::current_gpu()};
  }

  const float* dev_points_;
  kmeans::Shape most_;
  bool streams_;
  HalfFilter filter_;
  CopyFrame frame_;
  Bias bias_;
  DeviceBuffer<__half> dev_copy_;
  DeviceBuffer<float2> dev_lengths_;
  DeviceBuffer<std::int32_t> dev_labels_;  // all -1: none is known before
};

std::unique_ptr<NearestSeeds> make(const float* dev_points, std::int64_t n, std::int64_t d,
                                   float max_abs, std::int64_t most) {
  const kmeans::Shape shape{n, d, most, kmeans::Precision::f32};
  if (!runs_on_hopper(shape, {half_plan}).ok) return nullptr;
  return std::make_unique<HopperSeeds>(dev_points, shape, max_abs);
}

[[maybe_unused]] const bool said = [] {
  matrix_unit_seeds() = make;
  return true;
}();

}  // namespace
