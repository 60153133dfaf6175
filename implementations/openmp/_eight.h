// SPDX-License-Identifier: Apache-2.0
//
// Eight numbers in float64 at a time, in as few registers as they fit. A compiler that is given a wider vector than the
// processor has keeps it in memory.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace kmeans::openmp {

class EightDoubles {
 public:
#if defined(__AVX512F__)
  static constexpr std::int64_t kLanes = 8;
#elif defined(__AVX__)
  static constexpr std::int64_t kLanes = 4;
#else
  static constexpr std::int64_t kLanes = 2;
#endif
  static constexpr std::int64_t kParts = 8 / kLanes;
  typedef double Part __attribute__((vector_size(kLanes * sizeof(double))));

  EightDoubles() = default;  ///< Zeros.

  /// The next of `left` numbers; zeros behind the last, which add nothing to anything.
  [[gnu::always_inline]] static EightDoubles load(const double* numbers, std::int64_t left) {
    EightDoubles eight;
    if (left >= 8) return eight.each([&](Part& x, std::int64_t i) { load(numbers, i, x); });
#if defined(__AVX512F__)
    const auto lanes = static_cast<__mmask8>((1U << left) - 1);
    return eight.each([&](Part& x, std::int64_t /*i*/) {
      x = reinterpret_cast<Part>(_mm512_maskz_loadu_pd(lanes, numbers));
    });
#else
    alignas(64) double some[8] = {};
    for (std::int64_t i = 0; i < left; ++i) some[i] = numbers[i];
    return eight.each([&](Part& x, std::int64_t i) { load(some, i, x); });
#endif
  }

  [[gnu::always_inline]] friend EightDoubles operator+(EightDoubles a, const EightDoubles& b) {
    return a.each([&](Part& x, std::int64_t i) { x += b.parts_[i]; });
  }
  [[gnu::always_inline]] friend EightDoubles operator-(EightDoubles a, const EightDoubles& b) {
    return a.each([&](Part& x, std::int64_t i) { x -= b.parts_[i]; });
  }
  [[gnu::always_inline]] friend EightDoubles operator*(EightDoubles a, double b) {
    return a.each([&](Part& x, std::int64_t /*i*/) { x *= b; });
  }
  /// Adds the square of each.
  [[gnu::always_inline]] void add_squares(const EightDoubles& of) {
    each([&](Part& x, std::int64_t i) { x += of.parts_[i] * of.parts_[i]; });
  }

  [[gnu::always_inline]] static EightDoubles larger(EightDoubles a, const EightDoubles& b) {
    return a.each([&](Part& x, std::int64_t i) { x = b.parts_[i] > x ? b.parts_[i] : x; });
  }
  [[gnu::always_inline]] EightDoubles magnitude() const {
    return EightDoubles(*this).each([](Part& x, std::int64_t /*i*/) { x = x < 0 ? -x : x; });
  }
  /// Within [-most, most].
  [[gnu::always_inline]] EightDoubles within(double most) const {
    return EightDoubles(*this).each([&](Part& x, std::int64_t /*i*/) {
      const Part highest = most - Part{};
      x = x > highest ? highest : x;
      x = x < -highest ? -highest : x;
    });
  }
  /// To the nearest integers, ties to even; of numbers below 2^50.
  [[gnu::always_inline]] EightDoubles rounded() const {
    constexpr double kLastBitIsOne = 0x1.8p52;
    return EightDoubles(*this).each(
        [&](Part& x, std::int64_t /*i*/) { x = (x + kLastBitIsOne) - kLastBitIsOne; });
  }

  /// ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)).
  [[gnu::always_inline]] double sum() const {
    return folded([](double a, double b) { return a + b; });
  }
  [[gnu::always_inline]] double largest() const {
    return folded([](double a, double b) { return a > b ? a : b; });
  }

  /// Integers of 32 bits as the lower bytes of so many each, in their order: 4 or 8 of an Integer.
  template <class Integer>
  [[gnu::always_inline]] void put(Integer* to, std::int32_t offset = 0) const {
    typedef std::int32_t Ints __attribute__((vector_size(kLanes * sizeof(std::int32_t))));
    typedef Integer Narrow __attribute__((vector_size(kLanes * sizeof(Integer))));
    for (std::int64_t i = 0; i < kParts; ++i) {
      const Ints integers = __builtin_convertvector(parts_[i], Ints) + offset;
#if defined(__AVX512F__)
      const Narrow narrow = __builtin_convertvector(integers, Narrow);
#elif defined(__AVX__)
      typedef Integer Bytes __attribute__((vector_size(16)));
      constexpr int kStep = sizeof(std::int32_t) / sizeof(Integer);
      const auto all = reinterpret_cast<Bytes>(integers);
      const auto narrow = __builtin_shufflevector(all, all, 0, kStep, 2 * kStep, 3 * kStep);
#else
      const Narrow narrow{static_cast<Integer>(integers[0]), static_cast<Integer>(integers[1])};
#endif
      static_assert(sizeof narrow == sizeof(Narrow));
      std::memcpy(to + i * kLanes, &narrow, sizeof narrow);
    }
  }

 private:
  /// Part by part: 64 bytes at once would go through memory.
  [[gnu::always_inline]] static void load(const double* numbers, std::int64_t part, Part& to) {
    std::memcpy(&to, numbers + part * kLanes, sizeof to);
  }

  template <class Change>
  [[gnu::always_inline]] EightDoubles& each(const Change& change) {
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < kParts; ++i) change(parts_[i], i);
    return *this;
  }

  template <class Join>
  [[gnu::always_inline]] double folded(const Join& join) const {
    const auto x = [&](std::int64_t i) { return parts_[i / kLanes][i % kLanes]; };
    return join(join(join(x(0), x(4)), join(x(2), x(6))), join(join(x(1), x(5)), join(x(3), x(7))));
  }

  Part parts_[kParts] = {};
};

}  // namespace kmeans::openmp
