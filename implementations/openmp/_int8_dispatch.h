// SPDX-License-Identifier: Apache-2.0
//
// The int8 filter for every processor: by the instructions that multiply bytes and add up 32-bit
// integers, in tiles (AMX) or four at a time (AVX512-VNNI, also at half the width, AVX-VNNI, and NEON's, of
// signed bytes), by those that add two products up in 16 bits (AVX2, points of seven bits), or by ordinary
// ones that give the same integers. The answers are the same everywhere; only scores may round otherwise,
// which their margins cover.
#pragma once

#include <cstddef>
#include <cstdint>

#include "implementations/_target.h"
#include "implementations/openmp/_int8_layout.h"
#include "implementations/openmp/_int8_tile_emulation.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
// Dot products of bytes, where the compiler uses them anyway or compiles for every processor. For those in between,
// what the region below calls may be compiled for more than the region, and is then not inlined.
#if defined(__aarch64__) && defined(__linux__)
#if defined(__ARM_FEATURE_DOTPROD)
#define KMEANS_INT8_DOTPROD
#elif !defined(__ARM_FEATURE_CRC32) && !defined(__ARM_FEATURE_ATOMICS) && \
    !defined(__ARM_FEATURE_AES)
#define KMEANS_INT8_DOTPROD
#define KMEANS_INT8_DOTPROD_TARGET "arch=armv8.2-a+dotprod"
#endif
#endif
#if defined(KMEANS_INT8_DOTPROD)
#include <arm_neon.h>
#endif

namespace kmeans::openmp {
// Unnamed on purpose: variants are compiled with different options (implementations/cpu/_lloyd.h).
namespace {

typedef float EightFloats __attribute__((vector_size(32)));
typedef std::int32_t EightInts __attribute__((vector_size(32)));

/// Writes base + i for every bit i that is set; returns their number.
[[gnu::always_inline]] inline int append_lanes(std::uint32_t* to, std::uint32_t bits,
                                               std::uint32_t base) {
  int count = 0;
  for (; bits != 0; bits &= bits - 1) to[count++] = base + __builtin_ctz(bits);
  return count;
}

/// Writes the values of a group whose bits are set; returns their number.
[[gnu::always_inline]] inline int append_marked(std::int32_t* to, std::uint32_t bits,
                                                const std::int32_t* values) {
  int count = 0;
  for (; bits != 0; bits &= bits - 1) to[count++] = values[__builtin_ctz(bits)];
  return count;
}

/// Writes those of `count` marks, a multiple of 8, that are not 0, each with its number above bit 16; returns
/// how many.
[[gnu::always_inline]] inline std::int64_t append_marks(std::uint32_t* to,
                                                        const std::uint32_t* marks,
                                                        std::int64_t count) {
  std::int64_t marked = 0;
  for (std::int64_t at = 0; at < count; ++at) {
    to[marked] = marks[at] | static_cast<std::uint32_t>(at) << 16;
    marked += marks[at] != 0 ? 1 : 0;
  }
  return marked;
}

// Registers of 32 bytes that the processor may not have: the compiler says that functions would pass
// them otherwise than those compiled for AVX. These functions are all inline.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
namespace int8_plain {
typedef float Floats __attribute__((vector_size(16)));
typedef std::int32_t Ints __attribute__((vector_size(16)));

/// One byte of each word, with its sign.
template <class V>
[[gnu::always_inline]] inline void take_signed_byte(const V& words, int byte, V& taken) {
  typedef std::uint32_t Words __attribute__((vector_size(sizeof(V))));
  taken = reinterpret_cast<V>(reinterpret_cast<Words>(words) << (24 - 8 * byte)) >> 24;
}

/// Adds the products of the unsigned bytes of `points` and the signed ones of `centroids`, lane by
/// lane. Unsigned arithmetic, so that it wraps as the instructions do.
template <class V>
[[gnu::always_inline]] inline void dot(V& sums, const V& points, const V& centroids) {
  typedef std::uint32_t Words __attribute__((vector_size(sizeof(V))));
  const Words words = reinterpret_cast<Words>(points);
  Words sum = reinterpret_cast<Words>(sums);
  for (int byte = 0; byte < 4; ++byte) {
    V factor;
    take_signed_byte(centroids, byte, factor);
    sum += ((words >> (8 * byte)) & 255) * reinterpret_cast<Words>(factor);
  }
  sums = reinterpret_cast<V>(sum);
}

/// a - b c. Where it is rounded twice, the margin covers that as well.
template <class V>
[[gnu::always_inline]] inline V minus_product(const V& a, const V& b, const V& c) {
  return a - b * c;
}

template <class V>
[[gnu::always_inline]] inline V highest(const V& a, const V& b) {
  return a > b ? a : b;
}

template <class V>
[[gnu::always_inline]] inline std::uint32_t bits_at_least(const V& a, const V& b) {
  // Not a[lane]: with -fsanitize=undefined g++ 12 takes all lanes of a vector by reference for 0.
  constexpr std::size_t kCount = sizeof(V) / sizeof(float);
  float left[kCount];
  float right[kCount];
  __builtin_memcpy(left, &a, sizeof a);
  __builtin_memcpy(right, &b, sizeof b);
  std::uint32_t bits = 0;
  for (std::size_t lane = 0; lane < kCount; ++lane) {
    bits |= (left[lane] >= right[lane] ? 1U : 0U) << lane;
  }
  return bits;
}

#define KMEANS_INT8_REGISTERS 1
#include "implementations/openmp/_int8_kernel.h"
#undef KMEANS_INT8_REGISTERS
}  // namespace int8_plain

/// The code for AMX with its instructions emulated: far slower than the plain one, for tests.
namespace int8_amx_emulated {
using int8_plain::bits_at_least;
using int8_plain::dot;
using int8_plain::Floats;
using int8_plain::highest;
using int8_plain::Ints;
using int8_plain::minus_product;
#define KMEANS_INT8_TILE(operation, ...) emulated_tiles::operation(__VA_ARGS__)
#include "implementations/openmp/_int8_kernel.h"
#undef KMEANS_INT8_TILE
}  // namespace int8_amx_emulated

/// The code for NEON's products of signed bytes, in plain vectors, for tests.
namespace int8_dotprod_emulated {
using int8_plain::bits_at_least;
using int8_plain::Floats;
using int8_plain::highest;
using int8_plain::Ints;
using int8_plain::minus_product;

template <class V>
[[gnu::always_inline]] inline void dot(V& sums, const V& points, const V& centroids) {
  for (int byte = 0; byte < 4; ++byte) {
    V point;
    V centroid;
    int8_plain::take_signed_byte(points, byte, point);
    int8_plain::take_signed_byte(centroids, byte, centroid);
    sums += point * centroid;
  }
}
#define KMEANS_INT8_REGISTERS 3
#include "implementations/openmp/_int8_kernel.h"
#undef KMEANS_INT8_REGISTERS
}  // namespace int8_dotprod_emulated

#if defined(KMEANS_INT8_DOTPROD)
#if defined(KMEANS_INT8_DOTPROD_TARGET)
KMEANS_BEGIN_TARGET(KMEANS_INT8_DOTPROD_TARGET)
#endif
namespace int8_dotprod {
using int8_plain::Floats;
using int8_plain::highest;
using int8_plain::Ints;
using int8_plain::minus_product;

[[gnu::always_inline]] inline void dot(Ints& sums, const Ints& points, const Ints& centroids) {
  sums = reinterpret_cast<Ints>(vdotq_s32(reinterpret_cast<int32x4_t>(sums),
                                          reinterpret_cast<int8x16_t>(points),
                                          reinterpret_cast<int8x16_t>(centroids)));
}

[[gnu::always_inline]] inline std::uint32_t bits_at_least(const Floats& a, const Floats& b) {
  const Ints bits = (a >= b) & Ints{1, 2, 4, 8};
  return vaddvq_u32(reinterpret_cast<uint32x4_t>(bits));
}

/// A register's half of eight lanes.
template <class Half, class V>
[[gnu::always_inline]] inline Half half_of(const V& eight, int half) {
  Half four;
  __builtin_memcpy(&four, reinterpret_cast<const char*>(&eight) + half * sizeof four, sizeof four);
  return four;
}

[[gnu::always_inline]] inline void dot(EightInts& sums, const EightInts& points,
                                       const EightInts& centroids) {
  Ints halves[2];
  for (int half = 0; half < 2; ++half) {
    halves[half] = half_of<Ints>(sums, half);
    dot(halves[half], half_of<Ints>(points, half), half_of<Ints>(centroids, half));
  }
  __builtin_memcpy(&sums, halves, sizeof sums);
}

[[gnu::always_inline]] inline std::uint32_t bits_at_least(const EightFloats& a,
                                                          const EightFloats& b) {
  return bits_at_least(half_of<Floats>(a, 0), half_of<Floats>(b, 0)) |
         bits_at_least(half_of<Floats>(a, 1), half_of<Floats>(b, 1)) << 4;
}

#define KMEANS_INT8_REGISTERS 3
#include "implementations/openmp/_int8_kernel.h"
#undef KMEANS_INT8_REGISTERS
}  // namespace int8_dotprod
#if defined(KMEANS_INT8_DOTPROD_TARGET)
KMEANS_END_TARGET
#endif
#endif
#pragma GCC diagnostic pop

#if defined(__x86_64__)

// The unmasked forms of some intrinsics warn in g++ 12: undefined lanes.
#define KMEANS_INT8_EIGHT                                                                         \
  [[gnu::always_inline]] inline EightInts highest(const EightInts& a, const EightInts& b) {       \
    return reinterpret_cast<EightInts>(                                                           \
        _mm256_max_epi32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));            \
  }                                                                                               \
  [[gnu::always_inline]] inline EightFloats highest(const EightFloats& a, const EightFloats& b) { \
    return _mm256_max_ps(a, b);                                                                   \
  }                                                                                               \
  [[gnu::always_inline]] inline EightFloats minus_product(                                        \
      const EightFloats& a, const EightFloats& b, const EightFloats& c) {                         \
    return _mm256_fnmadd_ps(b, c, a);                                                             \
  }                                                                                               \
  [[gnu::always_inline]] inline std::uint32_t bits_at_least(const EightFloats& a,                 \
                                                            const EightFloats& b) {               \
    return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GE_OQ)));       \
  }

#define KMEANS_INT8_EIGHT_DOT(intrinsic)                                                 \
  [[gnu::always_inline]] inline void dot(EightInts& sums, const EightInts& points,       \
                                         const EightInts& centroids) {                   \
    sums = reinterpret_cast<EightInts>(intrinsic(reinterpret_cast<__m256i>(sums),        \
                                                 reinterpret_cast<__m256i>(points),      \
                                                 reinterpret_cast<__m256i>(centroids))); \
  }

KMEANS_BEGIN_TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,popcnt")
namespace int8_avx512vnni {
typedef float Floats __attribute__((vector_size(64)));
typedef std::int32_t Ints __attribute__((vector_size(64)));
KMEANS_INT8_EIGHT
KMEANS_INT8_EIGHT_DOT(_mm256_dpbusd_epi32)

[[gnu::always_inline]] inline void dot(Ints& sums, const Ints& points, const Ints& centroids) {
  sums = reinterpret_cast<Ints>(_mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sums),
                                                    reinterpret_cast<__m512i>(points),
                                                    reinterpret_cast<__m512i>(centroids)));
}

[[gnu::always_inline]] inline Ints highest(const Ints& a, const Ints& b) {
  return reinterpret_cast<Ints>(
      _mm512_maskz_max_epi32(0xFFFF, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}

[[gnu::always_inline]] inline Floats highest(const Floats& a, const Floats& b) {
  return _mm512_maskz_max_ps(0xFFFF, a, b);
}

[[gnu::always_inline]] inline Floats minus_product(const Floats& a, const Floats& b,
                                                   const Floats& c) {
  return _mm512_fnmadd_ps(b, c, a);
}

[[gnu::always_inline]] inline std::uint32_t bits_at_least(const Floats& a, const Floats& b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ);
}

[[gnu::always_inline]] inline int append_lanes(std::uint32_t* to, std::uint32_t bits,
                                               std::uint32_t base) {
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i all = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<std::int32_t>(base)));
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(static_cast<__mmask16>(bits), all));
  return __builtin_popcount(bits);
}

[[gnu::always_inline]] inline int append_marked(std::int32_t* to, std::uint32_t bits,
                                                const std::int32_t* values) {
  const auto marked = static_cast<__mmask8>(bits);
  const __m256i all = _mm256_maskz_loadu_epi32(marked, values);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_maskz_compress_epi32(marked, all));
  return __builtin_popcount(bits);
}

[[gnu::always_inline]] inline std::int64_t append_marks(std::uint32_t* to,
                                                        const std::uint32_t* marks,
                                                        std::int64_t count) {
  const __m256i lanes = _mm256_slli_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), 16);
  std::int64_t marked = 0;
  for (std::int64_t at = 0; at < count; at += 8) {
    const __m256i eight = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(marks + at));
    const __mmask8 set = _mm256_test_epi32_mask(eight, eight);
    const __m256i numbers =
        _mm256_add_epi32(lanes, _mm256_set1_epi32(static_cast<std::int32_t>(at << 16)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + marked),
                        _mm256_maskz_compress_epi32(set, _mm256_or_si256(eight, numbers)));
    marked += __builtin_popcount(set);
  }
  return marked;
}

#define KMEANS_INT8_REGISTERS 3
#include "implementations/openmp/_int8_kernel.h"
#undef KMEANS_INT8_REGISTERS
}  // namespace int8_avx512vnni

namespace int8_avx512vnni_256 {
using Floats = EightFloats;
using Ints = EightInts;
KMEANS_INT8_EIGHT
KMEANS_INT8_EIGHT_DOT(_mm256_dpbusd_epi32)
#define KMEANS_INT8_REGISTERS 1
#include "implementations/openmp/_int8_kernel.h"
#undef KMEANS_INT8_REGISTERS
}  // namespace int8_avx512vnni_256
KMEANS_END_TARGET

// Every processor with AMX has AVX512-VNNI.
KMEANS_BEGIN_TARGET(
    "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,popcnt,amx-tile,amx-int8")
namespace int8_amx {
using int8_avx512vnni::append_lanes;
using int8_avx512vnni::append_marked;
using int8_avx512vnni::append_marks;
using int8_avx512vnni::bits_at_least;
using int8_avx512vnni::dot;
using int8_avx512vnni::Floats;
using int8_avx512vnni::highest;
using int8_avx512vnni::Ints;
using int8_avx512vnni::minus_product;
#define KMEANS_INT8_TILE(operation, ...) _tile_##operation(__VA_ARGS__)
#include "implementations/openmp/_int8_kernel.h"
#undef KMEANS_INT8_TILE
}  // namespace int8_amx
KMEANS_END_TARGET

KMEANS_BEGIN_TARGET("avx2,fma")
namespace int8_avx2 {
using Floats = EightFloats;
using Ints = EightInts;
KMEANS_INT8_EIGHT
[[gnu::always_inline]] inline __m256i add_products_of_pairs(__m256i sums, __m256i points,
                                                            __m256i centroids) {
  const __m256i pairs = _mm256_maddubs_epi16(points, centroids);  // saturates beyond seven bits
  return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
KMEANS_INT8_EIGHT_DOT(add_products_of_pairs)
#define KMEANS_INT8_REGISTERS 1
#include "implementations/openmp/_int8_kernel.h"
#undef KMEANS_INT8_REGISTERS
}  // namespace int8_avx2
KMEANS_END_TARGET

#if !defined(__clang__)  // clang 14 cannot ask a processor for it
#define KMEANS_INT8_AVXVNNI
KMEANS_BEGIN_TARGET("avxvnni,avx2,fma")
namespace int8_avxvnni {
using Floats = EightFloats;
using Ints = EightInts;
KMEANS_INT8_EIGHT
KMEANS_INT8_EIGHT_DOT(_mm256_dpbusd_avx_epi32)
#define KMEANS_INT8_REGISTERS 1
#include "implementations/openmp/_int8_kernel.h"
#undef KMEANS_INT8_REGISTERS
}  // namespace int8_avxvnni
KMEANS_END_TARGET
#endif

#endif

}  // namespace
}  // namespace kmeans::openmp
