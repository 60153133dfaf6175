// SPDX-License-Identifier: Apache-2.0
//
// The frame of a CUDA variant: points, centroids and labels on the device, and the calls of the
// contract around `iterate()`, which is what a variant is about.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/machine/cuda/device.cuh"
#include "harness/machine/gpu.h"
#include "harness/variant.h"
#include "implementations/_limits.h"
#include "implementations/cuda/_changed_labels.cuh"
#include "implementations/cuda/_columns.cuh"
#include "implementations/cuda/_family.h"
#include "implementations/cuda/_moved_centroids.cuh"
#include "implementations/cuda/_upload.cuh"
#include "implementations/cuda/tuning.h"

namespace kmeans::cuda {

/// How points lie in device memory: row-major (n x d, a point's coordinates together) or
/// column-major (d x n, a coordinate of all points together: neighbouring threads that own
/// neighbouring points then read neighbouring addresses).
enum class Layout { rows, columns };

/// 13000 as "13.0".
inline std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// For library_info().
inline std::vector<std::pair<std::string, std::string>> cuda_versions() {
  const GpuStatus& gpu = gpu_status();
  return {{"CUDA runtime", version_text(gpu.runtime_version)},
          {"CUDA version of the driver", version_text(gpu.driver_version)}};
}

/// Scalar bytes of the points of a shape.
inline double scalar_bytes(const Shape& shape) {
  return shape.precision == Precision::f64 ? 8.0 : 4.0;
}

/// Iterations between two looks of the host, at most.
inline std::int64_t most_looked_at(const Shape& shape) {
  return MovedCentroids::room(IterationNumbers::kMost, shape.k, shape.d);
}

/// Device bytes of points, labels, centroids, sums (in columns or not) and counts: what a plain
/// variant needs.
inline double plain_device_bytes(const Shape& shape) {
  const double n = static_cast<double>(shape.n);
  const double d = static_cast<double>(shape.d);
  const double k = static_cast<double>(shape.k);
  // Column-major points are made from row-major pieces of at most 64 MiB.
  // Labels twice: those before are kept once somebody asks for the progress. A run that stops by itself also keeps the
  // centroids before some iterations.
  const auto looked_at = static_cast<double>(most_looked_at(shape));
  return scalar_bytes(shape) * (n * d + (looked_at + 3) * k * d + 64 * d) + 8 * n +
         (looked_at + 1) * 8 * k + 64 * 1024 * 1024;
}

template <class T>
class CudaLloyd : public Family<T> {
 public:
  explicit CudaLloyd(Layout layout) : layout_(layout) {}

  void setup(const Problem<T>& problem) override {
    problem_ = problem;
    const std::int64_t n = problem.shape.n;
    const std::int64_t d = problem.shape.d;
    const std::int64_t k = problem.shape.k;
    bring_points();
    dev_labels_ = DeviceBuffer<std::int32_t>(n);
    dev_centroids_ = DeviceBuffer<T>(k * d);
    prepare();
    KMEANS_CUDA(cudaDeviceSynchronize());
    // A family that orders its points has its own by now.
    if (shared_rows_ != nullptr && !is_shared(dev_points_.data())) shared_rows_.reset();
  }

  void reset(const T* centroids) override {
    dev_centroids_.upload(centroids);
    dev_labels_.fill_bytes(0xff);  // label -1: a point that is never labelled is seen
    changed_labels_.restart();
    iterations_ = 0;
    restart();
    KMEANS_CUDA(cudaDeviceSynchronize());
  }

  void go_on_from(const Family<T>& other) override {
    KMEANS_CUDA(cudaMemcpyAsync(dev_centroids_.data(), other.dev_centroids(),
                                dev_centroids_.bytes(), cudaMemcpyDeviceToDevice));
    dev_labels_.fill_bytes(0xff);
    changed_labels_.restart(other.dev_labels(), dev_labels_.size());
    iterations_ = 0;
    restart();
    KMEANS_CUDA(cudaDeviceSynchronize());
  }

  void step(std::int64_t iterations) override {
    iterate_times(iterations);
    KMEANS_CUDA(cudaDeviceSynchronize());
    iterations_ += iterations;
  }

  /// Some iterations go to the GPU before it is asked what became of them. Those behind one that changed no label
  /// change nothing; those behind one that moved the centroids by little are taken back.
  Stopped step_until(const Stopping& when, std::int64_t iterations) override {
    Stopped all;
    while (all.iterations < iterations && !all.early()) {
      const std::int64_t now = std::min(at_once(), iterations - all.iterations);
      const auto begin = std::chrono::steady_clock::now();
      const Stopped some = make_some(when, now);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
      seconds_ = taken.count() / static_cast<double>(now);
      all = {all.iterations + some.iterations, some.settled, some.within_shift};
    }
    return all;
  }

  void label_again() override {
    begin_iteration();
    KMEANS_CUDA(cudaDeviceSynchronize());
  }

  [[nodiscard]] const T* centroids() const override {
    host_centroids_.resize(dev_centroids_.size());
    dev_centroids_.download(host_centroids_.data());
    return host_centroids_.data();
  }
  [[nodiscard]] const T* dev_centroids() const override { return dev_centroids_.data(); }
  [[nodiscard]] const std::int32_t* dev_labels() const override { return dev_labels_.data(); }

  Progress progress() override {
    return {.movement = {}, .changed = changed_labels_.count(dev_labels_, iterations_), .loss = {}};
  }

  /// `labels` may be null, within this backend: cuda_best goes on from centroids alone. Both may be in a GPU's memory.
  void fetch(T* centroids, std::int32_t* labels) override {
    KMEANS_CUDA(
        cudaMemcpy(centroids, dev_centroids_.data(), dev_centroids_.bytes(), cudaMemcpyDefault));
    if (labels == nullptr) return;
    KMEANS_CUDA(cudaMemcpy(labels, dev_labels_.data(), dev_labels_.bytes(), cudaMemcpyDefault));
    KMEANS_CUDA(cudaStreamSynchronize(nullptr));  // within the GPU a copy is not waited for
  }

  std::vector<std::pair<std::string, std::string>> library_info() const override {
    return cuda_versions();
  }

 protected:
  /// One Lloyd iteration from dev_centroids_ to dev_labels_ and dev_centroids_. Need not wait for
  /// the device at its end.
  virtual void iterate() = 0;
  /// So many of them, for variants that launch several at once.
  virtual void iterate_times(std::int64_t iterations) {
    for (std::int64_t iteration = 0; iteration < iterations; ++iteration) iterate();
  }
  /// One iteration, counted; need not wait for the device at its end.
  virtual void begin_iteration() {
    iterate_times(1);
    ++iterations_;
  }
  /// So many, each counted and looked at; need not wait for the device at its end.
  virtual void make_looked(std::int64_t iterations) {
    for (std::int64_t own = 0; own < iterations; ++own) {
      begin_iteration();
      look(nullptr);
    }
  }
  /// So many of them, if not fewer, are sooner at work than by themselves.
  [[nodiscard]] virtual std::int64_t launched_together() const { return 1; }
  /// Behind an iteration in the stream: its changed labels and how far it moved the centroids.
  void look(cudaStream_t stream) const {
    changed_labels_.look(dev_labels_, moved_.movement(), stream);
  }
  /// Allocates what the variant needs besides points, centroids and labels.
  virtual void prepare() {}
  /// Forgets what was kept between iterations.
  virtual void restart() {}

  [[nodiscard]] const Shape& shape() const { return problem_.shape; }

  /// An iteration's end: update(), then divide(add_up()), a stage; where GPUs share the points (`shared`), what
  /// add_up() sends to the others is a stage of its own.
  template <class Update, class AddUp, class Divide>
  void update_in_stages(bool shared, const Update& update, const AddUp& add_up,
                        const Divide& divide) {
    {
      const auto timed = this->stage("update");
      update();
      if (!shared) return divide(add_up());
    }
    const auto dev_totals = [&] {
      const auto timed = this->stage("communication");
      return add_up();
    }();
    const auto timed = this->stage("copy centroids");
    divide(dev_totals);
  }

  ChangedLabels changed_labels_;
  Problem<T> problem_;
  DeviceBuffer<T> dev_points_;             // n x d or d x n, see Layout
  DeviceBuffer<T> dev_centroids_;          // k x d, row-major
  DeviceBuffer<std::int32_t> dev_labels_;  // n
  std::int64_t iterations_ = 0;            // since reset(), before this step()

 private:
  [[nodiscard]] bool is_shared(const void* dev_points) const {
    return dev_points == static_cast<const void*>(shared_rows_->data());
  }

  /// So many that to ask, and what is made in vain behind the last, take the least time together if as many are to come
  /// as were made.
  [[nodiscard]] std::int64_t at_once() const {
    if (seconds_ == 0) return 1;
    const double fit = std::sqrt(2 * static_cast<double>(iterations_) * tuning::kAsking / seconds_);
    const auto now = std::clamp<std::int64_t>(std::llround(fit), 1, most_looked_at(shape()));
    return now > launched_together() ? now - now % launched_together() : now;
  }

  Stopped make_some(const Stopping& when, std::int64_t iterations) {
    if (!changed_labels_.up_to_date(iterations_)) (void)progress();
    const bool moves = when.looks_at_shift() && std::is_same_v<T, float>;
    changed_labels_.begin(dev_labels_.size());
    if constexpr (std::is_same_v<T, float>) {
      moved_.begin(dev_centroids_, shape().k, most_looked_at(shape()));
    }
    make_looked(iterations);
    if (moves) moved_.add_up(iterations, changed_labels_.dev_moved());
    const IterationNumbers numbers = changed_labels_.finish(iterations, iterations_);
    Stopped made;
    while (made.iterations < iterations && !made.early()) {
      const std::int64_t own = made.iterations++;
      made.settled = when.settled && numbers.changed[own] == 0;
      made.within_shift = moves && numbers.moved[own] <= *when.shift;
    }
    if constexpr (std::is_same_v<T, float>) {
      const std::int64_t last = made.iterations - 1;
      if (made.within_shift && !made.settled && made.iterations < iterations) {
        reset(moved_.before(last).data());
        begin_iteration();
        changed_labels_.take_back(dev_labels_, iterations_, numbers.changed[last]);
        KMEANS_CUDA(cudaDeviceSynchronize());
      }
    }
    return made;
  }

  void bring_points() {
    const auto [n, d, k, precision] = shape();
    if constexpr (std::is_same_v<T, float>) {
      shared_rows_ = SharedRows::of(problem_.points, n * d);
      if (shared_rows_ != nullptr && layout_ == Layout::rows) {
        dev_points_ = DeviceBuffer<float>::borrowed(shared_rows_->data(), n * d);
        return;
      }
      if (shared_rows_ != nullptr) {
        dev_points_ = DeviceBuffer<float>(n * d);
        transpose_rows(shared_rows_->data(), n, std::int64_t{0}, n, d, dev_points_.data());
        KMEANS_CUDA(cudaDeviceSynchronize());
        shared_rows_.reset();
        return;
      }
    }
    dev_points_ = DeviceBuffer<T>(n * d);
    if (layout_ == Layout::rows) {
      upload_bytes(problem_.points, dev_points_.data(),
                   static_cast<std::int64_t>(dev_points_.bytes()));
    } else {
      upload_columns(problem_.points, n, d, dev_points_);
    }
  }

  Layout layout_;
  std::shared_ptr<DeviceBuffer<float>> shared_rows_;  // of which dev_points_ is a view, or null
  mutable std::vector<T> host_centroids_;             // k x d, for centroids()
  MovedCentroids moved_;                              // in runs that stop by themselves
  double seconds_ = 0;                                // of an iteration of step_until()
};

}  // namespace kmeans::cuda
