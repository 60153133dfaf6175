// SPDX-License-Identifier: Apache-2.0
//
// What takes all lanes of a register together.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "implementations/openmp/_simd.h"

namespace kmeans::openmp {

/// The lowest value, in all lanes.
inline Lanes<float>::V lowest_in_all(Lanes<float>::V v) {
  using L = Lanes<float>;
#if defined(__AVX512F__)
  auto lowest = L::min(v, _mm512_maskz_shuffle_f32x4(L::kAll, v, v, 0x4E));
  lowest = L::min(lowest, _mm512_maskz_shuffle_f32x4(L::kAll, lowest, lowest, 0xB1));
  lowest = L::min(lowest, _mm512_maskz_shuffle_ps(L::kAll, lowest, lowest, 0x4E));
  return L::min(lowest, _mm512_maskz_shuffle_ps(L::kAll, lowest, lowest, 0xB1));
#else
  alignas(64) std::array<float, L::kCount> lanes;
  L::store(lanes.data(), v);
  return L::set(*std::min_element(lanes.begin(), lanes.end()));
#endif
}

/// The first lane with the value that lowest_in_all() found.
inline int lane_of(Lanes<float>::V v, Lanes<float>::V lowest) {
  using L = Lanes<float>;
  return std::countr_zero(L::bits(L::equal(v, lowest)) | 1U << (L::kCount - 1));
}

/// Any lane of a register whose lanes are equal.
inline float any_lane(Lanes<float>::V v) {
  alignas(64) std::array<float, Lanes<float>::kCount> lanes;
  Lanes<float>::store(lanes.data(), v);
  return lanes[0];
}

/// |v|.
inline Lanes<float>::V magnitude(Lanes<float>::V v) {
#if defined(__AVX512F__)
  return _mm512_abs_ps(v);
#else
  return Lanes<float>::max(v, Lanes<float>::set(0) - v);
#endif
}

/// Writes the lanes whose bit is set to out, one after another, and anything behind them: kCount
/// floats are written.
inline void compact(std::uint32_t keep, Lanes<float>::V v, float* out) {
#if defined(__AVX512F__)
  _mm512_storeu_ps(out, _mm512_maskz_compress_ps(static_cast<__mmask16>(keep), v));
#else
  alignas(64) std::array<float, Lanes<float>::kCount> lanes;
  Lanes<float>::store(lanes.data(), v);
  for (; keep != 0; keep &= keep - 1) *out++ = lanes[std::countr_zero(keep)];
#endif
}

}  // namespace kmeans::openmp
