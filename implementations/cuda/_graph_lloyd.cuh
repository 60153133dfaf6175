// SPDX-License-Identifier: Apache-2.0
//
// The frame of a CUDA variant whose iterations are launched as CUDA graphs: it gives the kernels of one.
#pragma once

#include <cstdint>

#include "implementations/cuda/_iteration_graph.cuh"
#include "implementations/cuda/_lloyd.cuh"

namespace kmeans::cuda {

/// The first iteration since restart(): the kernels of the others; recorded with kernels of its own; or launched
/// without a graph.
enum class FirstIteration { alike, recorded, launched };

class GraphLloyd : public CudaLloyd<float> {
 protected:
  using CudaLloyd<float>::CudaLloyd;

  /// Puts the kernels of an iteration into the stream. first: since restart().
  virtual void launch(bool first, cudaStream_t stream) = 0;

  /// At the end of prepare(): the kernels are recorded, and do not run.
  void record_iterations(FirstIteration first) {
    first_ = first;
    if (first == FirstIteration::recorded) {
      first_graph_.record([this](cudaStream_t stream) { launch(true, stream); }, false);
    }
    graph_.record([this](cudaStream_t stream) { launch(false, stream); });
  }

 private:
  void iterate() final { iterate_times(1); }

  void iterate_times(std::int64_t iterations) final {
    std::int64_t made = 0;
    if (profiled()) {
      for (; made < iterations; ++made) launch(iterations_ + made == 0, nullptr);
      return;
    }
    if (iterations_ == 0 && iterations > 0 && first_ != FirstIteration::alike) {
      if (first_ == FirstIteration::recorded) {
        first_graph_.launch(1);
      } else {
        launch(true, nullptr);
      }
      made = 1;
    }
    graph_.launch(iterations - made);
  }

  FirstIteration first_ = FirstIteration::alike;
  IterationGraph first_graph_;
  IterationGraph graph_;
};

}  // namespace kmeans::cuda
