// SPDX-License-Identifier: Apache-2.0
//
// The kernels of an iteration as one CUDA graph: launches cost a microsecond each, not four.
#pragma once

#include <utility>

#include "harness/machine/cuda/device.cuh"

namespace kmeans::cuda {

class IterationGraph {
 public:
  IterationGraph() = default;
  IterationGraph(const IterationGraph&) = delete;
  IterationGraph& operator=(const IterationGraph&) = delete;
  ~IterationGraph() {
    if (graph_ != nullptr) (void)cudaGraphExecDestroy(graph_);
  }

  /// launch(stream) puts the kernels of an iteration into the stream; called once, they do not run.
  template <class Launch>
  void record(Launch&& launch) {
    cudaStream_t stream = nullptr;
    KMEANS_CUDA(cudaDeviceSynchronize());
    KMEANS_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    KMEANS_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    std::forward<Launch>(launch)(stream);
    cudaGraph_t graph = nullptr;
    KMEANS_CUDA(cudaStreamEndCapture(stream, &graph));
    KMEANS_CUDA(cudaGraphInstantiate(&graph_, graph, 0));
    KMEANS_CUDA(cudaGraphDestroy(graph));
    KMEANS_CUDA(cudaStreamDestroy(stream));
  }

  /// They run, after what the default stream has before.
  void launch() const { KMEANS_CUDA(cudaGraphLaunch(graph_, nullptr)); }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

/// A stream beside the one that is being recorded, from here to join(), where that one waits for it. Where
/// nothing is recorded (a null stream), it is that one.
class Fork {
 public:
  explicit Fork(cudaStream_t stream) : stream_(stream), beside_(stream) {
    if (stream == nullptr) return;
    KMEANS_CUDA(cudaStreamCreateWithFlags(&beside_, cudaStreamNonBlocking));
    KMEANS_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    KMEANS_CUDA(cudaEventRecord(event_, stream_));
    KMEANS_CUDA(cudaStreamWaitEvent(beside_, event_));
  }
  [[nodiscard]] cudaStream_t beside() const { return beside_; }
  void join() {
    if (stream_ == nullptr) return;
    KMEANS_CUDA(cudaEventRecord(event_, beside_));
    KMEANS_CUDA(cudaStreamWaitEvent(stream_, event_));
    KMEANS_CUDA(cudaEventDestroy(event_));
    KMEANS_CUDA(cudaStreamDestroy(beside_));
  }

 private:
  cudaStream_t stream_;
  cudaStream_t beside_;
  cudaEvent_t event_ = nullptr;
};

}  // namespace kmeans::cuda
