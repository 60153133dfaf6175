// SPDX-License-Identifier: Apache-2.0
#include "harness/machine/cuda/cublas_library.h"

#include <dlfcn.h>

#include <limits>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace kmeans::cuda {
namespace {

/// What is used of the library, looked up by name.
struct Cublas {
  std::string problem;
  std::string version;
  cublasStatus_t (*create)(cublasHandle_t*) = nullptr;
  cublasStatus_t (*destroy)(cublasHandle_t) = nullptr;
  cublasStatus_t (*set_stream)(cublasHandle_t, cudaStream_t) = nullptr;
  cublasStatus_t (*get_property)(libraryPropertyType, int*) = nullptr;
  const char* (*status_name)(cublasStatus_t) = nullptr;
  const char* (*status_text)(cublasStatus_t) = nullptr;
  cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                         const void*, const void*, cudaDataType, int, const void*, cudaDataType,
                         int, const void*, void*, cudaDataType, int, cublasComputeType_t,
                         cublasGemmAlgo_t) = nullptr;
};

/// The library by the name that the loader knows, else where it was when the suite was configured.
void* open_library(std::string& problem) {
  const std::string soname = "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR);
  std::vector<std::string> names{soname};
#ifdef KMEANS_CUBLAS_LIBRARY
  const std::string configured = KMEANS_CUBLAS_LIBRARY;
  if (!configured.empty() && configured.front() == '/') names.push_back(configured);
#endif
  for (const auto& name : names) {
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    // The first refusal says more: a library may be installed and yet not fit.
    if (problem.empty()) problem = std::string("cuBLAS cannot be loaded: ") + dlerror();
  }
  return nullptr;
}

Cublas load() {
  Cublas cublas;
  void* library = open_library(cublas.problem);
  if (library == nullptr) return cublas;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr && cublas.problem.empty()) {
      cublas.problem = std::string("the cuBLAS found here has no ") + name;
    }
  };
  find(cublas.create, "cublasCreate_v2");
  find(cublas.destroy, "cublasDestroy_v2");
  find(cublas.set_stream, "cublasSetStream_v2");
  find(cublas.get_property, "cublasGetProperty");
  find(cublas.status_name, "cublasGetStatusName");
  find(cublas.status_text, "cublasGetStatusString");
  find(cublas.gemm, "cublasGemmEx");
  if (!cublas.problem.empty()) return cublas;

  int parts[3] = {0, 0, 0};
  const libraryPropertyType kinds[3] = {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL};
  for (int part = 0; part < 3; ++part) {
    if (cublas.get_property(kinds[part], &parts[part]) != CUBLAS_STATUS_SUCCESS) {
      cublas.problem = "the cuBLAS found here does not report its version";
      return cublas;
    }
  }
  cublas.version =
      std::to_string(parts[0]) + "." + std::to_string(parts[1]) + "." + std::to_string(parts[2]);
  if (parts[0] != CUBLAS_VER_MAJOR) {
    cublas.problem = "the cuBLAS found here is version " + cublas.version +
                     ", this program needs version " + std::to_string(CUBLAS_VER_MAJOR);
    cublas.version.clear();
  }
  return cublas;
}

const Cublas& cublas() {
  static const Cublas library = load();
  return library;
}

void check(cublasStatus_t status, const std::string& call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(call + " failed: " + cublas().status_text(status) + " (" +
                           cublas().status_name(status) + ")");
}

/// cuBLAS's plain interface counts in int.
int as_int(std::int64_t size, const char* name) {
  if (size < 0 || size > std::numeric_limits<int>::max()) {
    throw std::runtime_error("cublasGemmEx takes " + std::string(name) + " from 0 to " +
                             std::to_string(std::numeric_limits<int>::max()) + ", not " +
                             std::to_string(size));
  }
  return static_cast<int>(size);
}

struct GemmTypes {
  cudaDataType factors;
  cudaDataType product;
  cublasComputeType_t compute;
};

GemmTypes types_of(Precision precision, GemmOutput output) {
  const bool wide = output == GemmOutput::wide;
  switch (precision) {
    case Precision::f64: return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case Precision::f32: return {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case Precision::tf32: return {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32};
    case Precision::f16: return {CUDA_R_16F, wide ? CUDA_R_32F : CUDA_R_16F, CUBLAS_COMPUTE_32F};
    case Precision::bf16: return {CUDA_R_16BF, wide ? CUDA_R_32F : CUDA_R_16BF, CUBLAS_COMPUTE_32F};
  }
  throw std::logic_error("no such precision");
}

struct GemmSizes {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  std::int64_t lda;
  std::int64_t ldb;
  std::int64_t ldc;
};

/// `alpha` and `beta` have the type in which sums are formed; `name` says what is multiplied.
void call_gemm(cublasHandle_t handle, const char* name, const GemmTypes& types,
               cublasOperation_t op_a, cublasOperation_t op_b, const GemmSizes& sizes,
               const void* alpha, const void* dev_a, const void* dev_b, const void* beta,
               void* dev_c) {
  const auto& [m, n, k, lda, ldb, ldc] = sizes;
  const auto status = cublas().gemm(
      handle, op_a, op_b, as_int(m, "m"), as_int(n, "n"), as_int(k, "k"), alpha, dev_a,
      types.factors, as_int(lda, "lda"), dev_b, types.factors, as_int(ldb, "ldb"), beta, dev_c,
      types.product, as_int(ldc, "ldc"), types.compute, CUBLAS_GEMM_DEFAULT);
  if (status == CUBLAS_STATUS_SUCCESS) return;
  check(status, std::string("cublasGemmEx (") + name + ", m = " + std::to_string(m) +
                    ", n = " + std::to_string(n) + ", k = " + std::to_string(k) +
                    ", lda = " + std::to_string(lda) + ", ldb = " + std::to_string(ldb) +
                    ", ldc = " + std::to_string(ldc) + ")");
}

}  // namespace

const std::string& cublas_problem() { return cublas().problem; }

const std::string& cublas_version() { return cublas().version; }

CublasHandle::CublasHandle(cudaStream_t stream) {
  if (!cublas_problem().empty()) throw std::runtime_error(cublas_problem());
  check(cublas().create(&handle_), "cublasCreate");
  try {
    set_stream(stream);
  } catch (...) {
    cublas().destroy(handle_);
    throw;
  }
}

CublasHandle::~CublasHandle() { cublas().destroy(handle_); }

void CublasHandle::set_stream(cudaStream_t stream) {
  check(cublas().set_stream(handle_, stream), "cublasSetStream");
}

void CublasHandle::gemm(Precision precision, cublasOperation_t op_a, cublasOperation_t op_b,
                        std::int64_t m, std::int64_t n, std::int64_t k, double alpha,
                        const void* dev_a, std::int64_t lda, const void* dev_b, std::int64_t ldb,
                        double beta, void* dev_c, std::int64_t ldc, GemmOutput output) {
  const float alpha_f32 = static_cast<float>(alpha);
  const float beta_f32 = static_cast<float>(beta);
  const bool f64 = precision == Precision::f64;
  call_gemm(handle_, to_string(precision), types_of(precision, output), op_a, op_b,
            {m, n, k, lda, ldb, ldc}, f64 ? static_cast<const void*>(&alpha) : &alpha_f32, dev_a,
            dev_b, f64 ? static_cast<const void*>(&beta) : &beta_f32, dev_c);
}

void CublasHandle::gemm_int8(cublasOperation_t op_a, cublasOperation_t op_b, std::int64_t m,
                             std::int64_t n, std::int64_t k, std::int32_t alpha,
                             const std::int8_t* dev_a, std::int64_t lda, const std::int8_t* dev_b,
                             std::int64_t ldb, std::int32_t beta, std::int32_t* dev_c,
                             std::int64_t ldc) {
  call_gemm(handle_, "int8", {CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I}, op_a, op_b,
            {m, n, k, lda, ldb, ldc}, &alpha, dev_a, dev_b, &beta, dev_c);
}

}  // namespace kmeans::cuda
