// SPDX-License-Identifier: Apache-2.0
//
// The kernels of iterations as CUDA graphs: launches cost a microsecond each, not four.
#pragma once

#include <cstdint>

#include "harness/machine/cuda/device.cuh"
#include "implementations/cuda/tuning.h"

namespace kmeans::cuda {

class IterationGraph {
 public:
  IterationGraph() = default;
  IterationGraph(const IterationGraph&) = delete;
  IterationGraph& operator=(const IterationGraph&) = delete;
  ~IterationGraph() {
    for (cudaGraphExec_t graph : {one_, some_}) {
      if (graph != nullptr) (void)cudaGraphExecDestroy(graph);
    }
  }

  /// launch(stream) puts the kernels of an iteration into the stream; they do not run. `repeats`: more than one are
  /// launched at a time. Kernels may be at work meanwhile.
  template <class Launch>
  void record(const Launch& launch, bool repeats = true) {
    replace(one_, recorded(launch, 1));
    if (repeats) record_some(launch);
  }
  /// Only for as many iterations as a graph has, or multiples.
  template <class Launch>
  void record_some(const Launch& launch) {
    replace(some_, recorded(launch, kSome));
  }

  /// They run so often, after what the default stream has before.
  void launch(std::int64_t iterations) const {
    for (; some_ != nullptr && iterations >= kSome; iterations -= kSome) {
      KMEANS_CUDA(cudaGraphLaunch(some_, nullptr));
    }
    for (; iterations > 0; --iterations) KMEANS_CUDA(cudaGraphLaunch(one_, nullptr));
  }

 private:
  static constexpr std::int64_t kSome = tuning::kIterationsOfGraph;

  static void replace(cudaGraphExec_t& graph, cudaGraphExec_t by) {
    if (graph != nullptr) KMEANS_CUDA(cudaGraphExecDestroy(graph));
    graph = by;
  }

  template <class Launch>
  static cudaGraphExec_t recorded(const Launch& launch, std::int64_t iterations) {
    cudaStream_t stream = nullptr;
    KMEANS_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    KMEANS_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (std::int64_t iteration = 0; iteration < iterations; ++iteration) launch(stream);
    cudaGraph_t graph = nullptr;
    KMEANS_CUDA(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t executable = nullptr;
    KMEANS_CUDA(cudaGraphInstantiate(&executable, graph, 0));
    KMEANS_CUDA(cudaGraphDestroy(graph));
    KMEANS_CUDA(cudaStreamDestroy(stream));
    return executable;
  }

  cudaGraphExec_t one_ = nullptr;   // of an iteration
  cudaGraphExec_t some_ = nullptr;  // of kSome
};

/// A stream parallel to the one that is being recorded, from here to join(), where that one waits for it. Where
/// nothing is recorded (a null stream), it is that one.
class Fork {
 public:
  explicit Fork(cudaStream_t stream) : stream_(stream), branch_(stream) {
    if (stream == nullptr) return;
    KMEANS_CUDA(cudaStreamCreateWithFlags(&branch_, cudaStreamNonBlocking));
    KMEANS_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    KMEANS_CUDA(cudaEventRecord(event_, stream_));
    KMEANS_CUDA(cudaStreamWaitEvent(branch_, event_));
  }
  [[nodiscard]] cudaStream_t branch() const { return branch_; }
  void join() {
    if (stream_ == nullptr) return;
    KMEANS_CUDA(cudaEventRecord(event_, branch_));
    KMEANS_CUDA(cudaStreamWaitEvent(stream_, event_));
    KMEANS_CUDA(cudaEventDestroy(event_));
    KMEANS_CUDA(cudaStreamDestroy(branch_));
  }

 private:
  cudaStream_t stream_;
  cudaStream_t branch_;
  cudaEvent_t event_ = nullptr;
};

}  // namespace kmeans::cuda
