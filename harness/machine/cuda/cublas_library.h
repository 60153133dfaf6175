// SPDX-License-Identifier: Apache-2.0
//
// cuBLAS, loaded when it is first needed: it is large, few variants use it, and a machine without
// it can run all the others. Only its header takes part in the build; nothing links with it.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "harness/variant.h"

namespace kmeans::cuda {

/// Why cuBLAS cannot be used, as one clause; empty: it can. The first call loads the library; no
/// CUDA context is made.
const std::string& cublas_problem();

/// "13.1.0", or empty where it cannot be used.
const std::string& cublas_version();

/// In what the product is written: float64 for f64; else float32, or for f16 and bf16 the type of
/// the factors on request.
enum class GemmOutput { wide, as_factors };

/// A cuBLAS context of the current device. Errors are std::runtime_error with the call, what it was
/// given, and cuBLAS's own words.
class CublasHandle {
 public:
  /// Work goes to this stream, by default the legacy default stream.
  explicit CublasHandle(cudaStream_t stream = nullptr);
  ~CublasHandle();
  CublasHandle(const CublasHandle&) = delete;
  CublasHandle& operator=(const CublasHandle&) = delete;

  void set_stream(cudaStream_t stream);

  /// C = alpha op(A) op(B) + beta C, all column-major in device memory: op(A) is m x k, op(B) k x
  /// n, C m x n; a leading dimension is the distance of columns as stored. Does not wait.
  ///
  ///   precision   A, B            products and sums   C
  ///   f64         double          float64             double
  ///   f32         float           float32             float
  ///   tf32        float           TF32, float32       float
  ///   f16, bf16   __half, bf16    float32             float, or as A and B
  void gemm(Precision precision, cublasOperation_t op_a, cublasOperation_t op_b, std::int64_t m,
            std::int64_t n, std::int64_t k, double alpha, const void* dev_a, std::int64_t lda,
            const void* dev_b, std::int64_t ldb, double beta, void* dev_c, std::int64_t ldc,
            GemmOutput output = GemmOutput::wide);

  /// The same of bytes, with products and sums in int32: exact, for k below 2^17. Matrix units are
  /// fastest at it where op(A) is A^T, op(B) is B, and sizes and leading dimensions are multiples of
  /// 16.
  void gemm_int8(cublasOperation_t op_a, cublasOperation_t op_b, std::int64_t m, std::int64_t n,
                 std::int64_t k, std::int32_t alpha, const std::int8_t* dev_a, std::int64_t lda,
                 const std::int8_t* dev_b, std::int64_t ldb, std::int32_t beta, std::int32_t* dev_c,
                 std::int64_t ldc);

 private:
  cublasHandle_t handle_ = nullptr;
};

}  // namespace kmeans::cuda
