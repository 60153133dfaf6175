// SPDX-License-Identifier: Apache-2.0
//
// The frame of a CUDA variant whose iterations are launched as CUDA graphs: it gives the kernels of one.
#pragma once

#include <algorithm>
#include <cstdint>

#include "implementations/cuda/_iteration_graph.cuh"
#include "implementations/cuda/_lloyd.cuh"
#include "implementations/cuda/tuning.h"

namespace kmeans::cuda {

/// The first iteration since restart(): the kernels of the others; recorded with kernels of its own; or launched
/// without a graph.
enum class FirstIteration { alike, recorded, launched };

class GraphLloyd : public CudaLloyd<float> {
 public:
  void record_late() override { late_ = true; }
  void expect(std::int64_t iterations) override {
    expected_ = iterations;
    if (looked_at_ >= tuning::kWorthRecording) record_looks();
  }

 protected:
  using CudaLloyd<float>::CudaLloyd;

  /// Puts the kernels of an iteration into the stream. first: since restart().
  virtual void launch(bool first, cudaStream_t stream) = 0;

  /// At the end of prepare(): graphs are as `first` says from now on.
  void record_iterations(FirstIteration first) {
    first_ = first;
    recorded_ = looks_recorded_ = false;
    launched_ = looked_at_ = 0;
    if (late_) return;
    KMEANS_CUDA(cudaDeviceSynchronize());
    record();
  }

 private:
  void iterate() final { iterate_times(1); }

  void iterate_times(std::int64_t iterations) final {
    if (profiled()) return launch_times(iterations);
    std::int64_t made = 0;
    if (!recorded_) {
      const bool worth_it = std::max({launched_, expected_, iterations}) >= tuning::kWorthRecording;
      made = worth_it ? std::min(iterations, tuning::kIterationsOfGraph) : iterations;
      launch_times(made);
      launched_ += made;
      if (!worth_it) return;
      record();  // while these are at work
    }
    if (iterations_ + made == 0 && made < iterations && first_ != FirstIteration::alike) {
      if (first_ == FirstIteration::recorded) {
        first_graph_.launch(1);
      } else {
        launch(true, nullptr);
      }
      ++made;
    }
    graph_.launch(iterations - made);
  }

  void begin_iteration() final {
    launch_times(1);
    ++iterations_;
  }

  /// A run that stops by itself is not known to be long before it has been.
  void make_looked(std::int64_t iterations) final {
    if (looked_at_ >= 2 * tuning::kWorthRecording) record_looks();  // of those who expect nothing
    looked_at_ += iterations;
    constexpr std::int64_t kSome = tuning::kIterationsOfGraph;
    while (iterations > 0) {
      const bool alike = iterations_ > 0 || first_ == FirstIteration::alike;
      if (looks_recorded_ && alike && iterations >= kSome && !profiled()) {
        looked_graph_.launch(kSome);
        iterations_ += kSome;
        iterations -= kSome;
        continue;
      }
      begin_iteration();
      look(nullptr);
      --iterations;
    }
  }
  [[nodiscard]] std::int64_t launched_together() const final {
    return looks_recorded_ ? tuning::kIterationsOfGraph : 1;
  }

  void launch_times(std::int64_t iterations) {
    for (std::int64_t made = 0; made < iterations; ++made) launch(iterations_ + made == 0, nullptr);
  }

  void record_looks() {
    if (looks_recorded_ || profiled() || most_looked_at(shape()) < tuning::kIterationsOfGraph)
      return;
    looked_graph_.record_some([this](cudaStream_t stream) {
      launch(false, stream);
      look(stream);
    });
    looks_recorded_ = true;
  }

  void record() {
    if (first_ == FirstIteration::recorded) {
      first_graph_.record([this](cudaStream_t stream) { launch(true, stream); }, false);
    }
    graph_.record([this](cudaStream_t stream) { launch(false, stream); });
    recorded_ = true;
  }

  FirstIteration first_ = FirstIteration::alike;
  IterationGraph first_graph_;
  IterationGraph graph_;
  IterationGraph looked_graph_;  // of iterations, each looked at
  bool late_ = false;
  bool recorded_ = false;
  bool looks_recorded_ = false;
  std::int64_t launched_ = 0;   // iterations without a graph
  std::int64_t looked_at_ = 0;  // iterations of runs that stop by themselves
  std::int64_t expected_ = 0;   // iterations, when it was last said
};

}  // namespace kmeans::cuda
