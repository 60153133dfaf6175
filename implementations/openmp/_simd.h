// SPDX-License-Identifier: Apache-2.0
//
// A register of float or double lanes, at the width this file is compiled for: AVX-512, AVX2 with
// FMA, or any other processor through the compiler's vector extensions.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace kmeans::openmp {

/// Calls f(integral_constant<int, 0>), ... f(integral_constant<int, kCount - 1>). Unlike a loop
/// with constant bounds, this leaves no array index for the compiler to resolve late, so a tile of
/// accumulators held in an array is sure to become registers.
template <int kCount, class F>
[[gnu::always_inline]] inline void unrolled(F&& f) {
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) __attribute__((always_inline)) {
    (f(std::integral_constant<int, kIndex>{}), ...);
  }
  (std::make_integer_sequence<int, kCount>{});
}

#if defined(__AVX512F__)

/// Vector registers to spend on the accumulators of a tile.
inline constexpr int kAccumulators = 24;

template <class T>
struct Lanes;

template <>
struct Lanes<float> {
  using V = __m512;
  using Mask = __mmask16;
  static constexpr int kCount = 16;
  static constexpr Mask kAll = 0xFFFF;  // the unmasked min and max warn in g++ 12: undefined lanes
  static V load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, V v) { _mm512_storeu_ps(p, v); }
  static void store_where(Mask where, float* p, V v) { _mm512_mask_storeu_ps(p, where, v); }
  static V set(float value) { return _mm512_set1_ps(value); }
  static V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
  static V min(V a, V b) { return _mm512_maskz_min_ps(kAll, a, b); }
  static V max(V a, V b) { return _mm512_maskz_max_ps(kAll, a, b); }
  static Mask less(V a, V b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  static Mask equal(V a, V b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
  static V select(Mask where, V yes, V no) { return _mm512_mask_mov_ps(no, where, yes); }
  static std::uint32_t bits(Mask mask) { return mask; }
};

template <>
struct Lanes<double> {
  using V = __m512d;
  using Mask = __mmask8;
  static constexpr int kCount = 8;
  static constexpr Mask kAll = 0xFF;
  static V load(const double* p) { return _mm512_loadu_pd(p); }
  static void store(double* p, V v) { _mm512_storeu_pd(p, v); }
  static void store_where(Mask where, double* p, V v) { _mm512_mask_storeu_pd(p, where, v); }
  static V set(double value) { return _mm512_set1_pd(value); }
  static V fma(V a, V b, V c) { return _mm512_fmadd_pd(a, b, c); }
  static V min(V a, V b) { return _mm512_maskz_min_pd(kAll, a, b); }
  static V max(V a, V b) { return _mm512_maskz_max_pd(kAll, a, b); }
  static Mask less(V a, V b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ); }
  static Mask equal(V a, V b) { return _mm512_cmp_pd_mask(a, b, _CMP_EQ_OQ); }
  static V select(Mask where, V yes, V no) { return _mm512_mask_mov_pd(no, where, yes); }
  static std::uint32_t bits(Mask mask) { return mask; }
};

#elif defined(__AVX2__) && defined(__FMA__)

inline constexpr int kAccumulators = 12;

template <class T>
struct Lanes;

template <>
struct Lanes<float> {
  using V = __m256;
  using Mask = __m256;
  static constexpr int kCount = 8;
  static V load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, V v) { _mm256_storeu_ps(p, v); }
  static void store_where(Mask where, float* p, V v) { store(p, select(where, v, load(p))); }
  static V set(float value) { return _mm256_set1_ps(value); }
  static V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
  static V min(V a, V b) { return _mm256_min_ps(a, b); }
  static V max(V a, V b) { return _mm256_max_ps(a, b); }
  static Mask less(V a, V b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
  static Mask equal(V a, V b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
  static V select(Mask where, V yes, V no) { return _mm256_blendv_ps(no, yes, where); }
  static std::uint32_t bits(Mask mask) { return _mm256_movemask_ps(mask); }
};

template <>
struct Lanes<double> {
  using V = __m256d;
  using Mask = __m256d;
  static constexpr int kCount = 4;
  static V load(const double* p) { return _mm256_loadu_pd(p); }
  static void store(double* p, V v) { _mm256_storeu_pd(p, v); }
  static void store_where(Mask where, double* p, V v) { store(p, select(where, v, load(p))); }
  static V set(double value) { return _mm256_set1_pd(value); }
  static V fma(V a, V b, V c) { return _mm256_fmadd_pd(a, b, c); }
  static V min(V a, V b) { return _mm256_min_pd(a, b); }
  static V max(V a, V b) { return _mm256_max_pd(a, b); }
  static Mask less(V a, V b) { return _mm256_cmp_pd(a, b, _CMP_LT_OQ); }
  static Mask equal(V a, V b) { return _mm256_cmp_pd(a, b, _CMP_EQ_OQ); }
  static V select(Mask where, V yes, V no) { return _mm256_blendv_pd(no, yes, where); }
  static std::uint32_t bits(Mask mask) { return _mm256_movemask_pd(mask); }
};

#else

inline constexpr int kAccumulators = 8;

/// 16 bytes of lanes, for SSE2, NEON and whatever else the compiler knows.
template <class T>
struct Lanes {
  static constexpr int kCount = 16 / sizeof(T);
  using Integer = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  typedef T V __attribute__((vector_size(16)));
  typedef Integer Mask __attribute__((vector_size(16)));
  static V load(const T* p) {
    V v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  static void store(T* p, V v) { __builtin_memcpy(p, &v, sizeof v); }
  static void store_where(Mask where, T* p, V v) { store(p, select(where, v, load(p))); }
  static V set(T value) { return V{} + value; }
  static V fma(V a, V b, V c) { return a * b + c; }
  static V min(V a, V b) { return select(a < b, a, b); }
  static V max(V a, V b) { return select(a > b, a, b); }
  static Mask less(V a, V b) { return a < b; }
  static Mask equal(V a, V b) { return a == b; }
  static V select(Mask where, V yes, V no) {
    return reinterpret_cast<V>((where & reinterpret_cast<Mask>(yes)) |
                               (~where & reinterpret_cast<Mask>(no)));
  }
  static std::uint32_t bits(Mask mask) {
    std::uint32_t result = 0;
    for (int lane = 0; lane < kCount; ++lane) result |= (mask[lane] != 0 ? 1U : 0U) << lane;
    return result;
  }
};

#endif

/// Bit i is set where a[i] differs from b[i], for i below count <= 16.
inline std::uint32_t different_labels(const std::int32_t* a, const std::int32_t* b, int count) {
#if defined(__AVX512F__)
  const auto valid = static_cast<__mmask16>((1U << count) - 1);
  return _mm512_mask_cmpneq_epi32_mask(valid, _mm512_maskz_loadu_epi32(valid, a),
                                       _mm512_maskz_loadu_epi32(valid, b));
#else
  std::uint32_t result = 0;
  for (int i = 0; i < count; ++i) result |= (a[i] != b[i] ? 1U : 0U) << i;
  return result;
#endif
}

}  // namespace kmeans::openmp
