// SPDX-License-Identifier: Apache-2.0
//
// Streams and events that destroy themselves.
#pragma once

#include <memory>

#include "harness/machine/cuda/device.cuh"

namespace kmeans::cuda {

struct DestroyStream {
  void operator()(cudaStream_t stream) const { (void)cudaStreamDestroy(stream); }
};
using Stream = std::unique_ptr<CUstream_st, DestroyStream>;

/// The default stream waits for it, and it for the default stream.
inline Stream make_stream() {
  cudaStream_t stream = nullptr;
  KMEANS_CUDA(cudaStreamCreate(&stream));
  return Stream(stream);
}

struct DestroyEvent {
  void operator()(cudaEvent_t event) const { (void)cudaEventDestroy(event); }
};
using Event = std::unique_ptr<CUevent_st, DestroyEvent>;

/// Whom nobody asks for the time.
inline Event make_event() {
  cudaEvent_t event = nullptr;
  KMEANS_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return Event(event);
}

}  // namespace kmeans::cuda
