// SPDX-License-Identifier: Apache-2.0
#include "harness/machine/ceilings_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace kmeans {
namespace {

volatile float volatile_half = 0.5F;
volatile float volatile_one = 1.0F;

#if defined(__x86_64__)
namespace avx512 {
using F32 = __m512;
using F64 = __m512d;
using Words = long long __attribute__((vector_size(64), may_alias));
constexpr int kAccumulators = 24;
#define KMEANS_TARGET __attribute__((target("avx512f")))
#define KMEANS_FMA_F32(a, b, c) _mm512_fmadd_ps(a, b, c)
#define KMEANS_FMA_F64(a, b, c) _mm512_fmadd_pd(a, b, c)
#define KMEANS_STREAM(to, words) \
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), reinterpret_cast<__m512i>(words))
#include "harness/machine/ceilings_kernels.inc"
#undef KMEANS_TARGET
#undef KMEANS_FMA_F32
#undef KMEANS_FMA_F64
#undef KMEANS_STREAM
}  // namespace avx512

namespace avx2 {
using F32 = __m256;
using F64 = __m256d;
using Words = long long __attribute__((vector_size(32), may_alias));
constexpr int kAccumulators = 12;
#define KMEANS_TARGET __attribute__((target("avx2,fma")))
#define KMEANS_FMA_F32(a, b, c) _mm256_fmadd_ps(a, b, c)
#define KMEANS_FMA_F64(a, b, c) _mm256_fmadd_pd(a, b, c)
#define KMEANS_STREAM(to, words) \
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<__m256i>(words))
#include "harness/machine/ceilings_kernels.inc"
#undef KMEANS_TARGET
#undef KMEANS_FMA_F32
#undef KMEANS_FMA_F64
#undef KMEANS_STREAM
}  // namespace avx2

// SSE2 has no fused multiply-add: the peak is that of a multiplication and an addition.
namespace sse2 {
using F32 = __m128;
using F64 = __m128d;
using Words = long long __attribute__((vector_size(16), may_alias));
constexpr int kAccumulators = 12;
#define KMEANS_TARGET
#define KMEANS_FMA_F32(a, b, c) _mm_add_ps(_mm_mul_ps(a, b), c)
#define KMEANS_FMA_F64(a, b, c) _mm_add_pd(_mm_mul_pd(a, b), c)
#define KMEANS_STREAM(to, words) \
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), reinterpret_cast<__m128i>(words))
#include "harness/machine/ceilings_kernels.inc"
#undef KMEANS_TARGET
#undef KMEANS_FMA_F32
#undef KMEANS_FMA_F64
#undef KMEANS_STREAM
}  // namespace sse2

#else

namespace portable {
using F32 = float __attribute__((vector_size(16)));
using F64 = double __attribute__((vector_size(16)));
using Words = long long __attribute__((vector_size(16), may_alias));
constexpr int kAccumulators = 24;
#define KMEANS_TARGET
#if defined(__aarch64__)
#define KMEANS_FMA_F32(a, b, c) \
  (F32) vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b))
#define KMEANS_FMA_F64(a, b, c) \
  (F64) vfmaq_f64((float64x2_t)(c), (float64x2_t)(a), (float64x2_t)(b))
#else
#define KMEANS_FMA_F32(a, b, c) ((a) * (b) + (c))
#define KMEANS_FMA_F64(a, b, c) ((a) * (b) + (c))
#endif
#include "harness/machine/ceilings_kernels.inc"
#undef KMEANS_TARGET
#undef KMEANS_FMA_F32
#undef KMEANS_FMA_F64
}  // namespace portable
#endif

std::vector<CeilingKernels> runnable_kernels() {
  std::vector<CeilingKernels> found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) found.push_back(avx512::kernels("avx512"));
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    found.push_back(avx2::kernels("avx2"));
  }
  found.push_back(sse2::kernels("sse2"));
#elif defined(__aarch64__)
  found.push_back(portable::kernels("neon"));
#else
  found.push_back(portable::kernels("portable"));
#endif
  return found;
}

}  // namespace

const std::vector<CeilingKernels>& ceiling_kernels() {
  static const std::vector<CeilingKernels> kernels = runnable_kernels();
  return kernels;
}

}  // namespace kmeans
