// SPDX-License-Identifier: Apache-2.0
#include "harness/support/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "harness/support/mapped_file.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace kmeans {
namespace {

using State = std::array<std::uint32_t, 8>;

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
alignas(16) constexpr std::array<std::uint32_t, 64> kRound{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void compress_portable(State& state, const unsigned char* data, std::size_t blocks) {
  for (; blocks > 0; --blocks, data += 64) {
    std::array<std::uint32_t, 64> w{};
    for (std::size_t t = 0; t < 16; ++t) {
      const unsigned char* word = data + 4 * t;
      w[t] = static_cast<std::uint32_t>(word[0]) << 24 | static_cast<std::uint32_t>(word[1]) << 16 |
             static_cast<std::uint32_t>(word[2]) << 8 | static_cast<std::uint32_t>(word[3]);
    }
    for (std::size_t t = 16; t < 64; ++t) {
      const auto s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
      const auto s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
      w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t t = 0; t < 64; ++t) {
      const auto s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const auto t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[t] + w[t];
      const auto s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const auto t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + t1;
      d = c;
      c = b;
      b = a;
      a = t1 + t2;
    }
    const State round{a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; ++i) state[i] += round[i];
  }
}

#if defined(__x86_64__)
// The processor's own SHA instructions: data sets have gigabytes.
__attribute__((target("sha,sse4.1,ssse3"))) void compress_sha_ni(State& state,
                                                                 const unsigned char* data,
                                                                 std::size_t blocks) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  // The instructions want the state as (a b e f) and (c d g h), highest word first.
  const __m128i dcba = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state.data()));
  const __m128i hgfe = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state.data() + 4));
  const __m128i cdab = _mm_shuffle_epi32(dcba, 0xB1);
  const __m128i efgh = _mm_shuffle_epi32(hgfe, 0x1B);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xF0);
  for (; blocks > 0; --blocks, data += 64) {
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    __m128i w[4];  // the last 16 words of the message schedule
    for (std::size_t i = 0; i < 4; ++i) {
      w[i] =
          _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data + 16 * i)), swap);
    }
    for (std::size_t group = 0; group < 16; ++group) {
      const auto* constants = reinterpret_cast<const __m128i*>(kRound.data() + 4 * group);
      const __m128i current = w[group % 4];
      const __m128i sum = _mm_add_epi32(current, _mm_load_si128(constants));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0E));
      if (group < 12) {
        const __m128i one = w[(group + 1) % 4];
        const __m128i two = w[(group + 2) % 4];
        const __m128i three = w[(group + 3) % 4];
        const __m128i partial =
            _mm_add_epi32(_mm_sha256msg1_epu32(current, one), _mm_alignr_epi8(three, two, 4));
        w[group % 4] = _mm_sha256msg2_epu32(partial, three);
      }
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1B);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xB1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state.data()), _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state.data() + 4), _mm_alignr_epi8(dchg, feba, 8));
}

bool has_sha_instructions() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (b & (1U << 29)) == 0) return false;
  return __builtin_cpu_supports("sse4.1") != 0 && __builtin_cpu_supports("ssse3") != 0;
}
#endif

void compress(State& state, const unsigned char* data, std::size_t blocks) {
#if defined(__x86_64__)
  static const bool fast = has_sha_instructions();
  if (fast) return compress_sha_ni(state, data, blocks);
#endif
  compress_portable(state, data, blocks);
}

}  // namespace

void Sha256::add(const void* data, std::size_t bytes) {
  if (bytes == 0) return;
  const auto* next = static_cast<const unsigned char*>(data);
  total_ += bytes;
  if (used_ > 0) {
    const std::size_t taken = std::min(bytes, block_.size() - used_);
    std::memcpy(block_.data() + used_, next, taken);
    used_ += taken;
    next += taken;
    bytes -= taken;
    if (used_ < block_.size()) return;
    compress(state_, block_.data(), 1);
    used_ = 0;
  }
  compress(state_, next, bytes / 64);
  used_ = bytes % 64;
  if (used_ > 0) std::memcpy(block_.data(), next + (bytes - used_), used_);
}

std::string Sha256::hex() {
  const std::uint64_t bits = total_ * 8;
  static constexpr std::array<unsigned char, 64> kPadding{0x80};
  add(kPadding.data(), (used_ < 56 ? 56 : 120) - used_);
  std::array<unsigned char, 8> length{};
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(bits >> (56 - 8 * i));
  add(length.data(), length.size());
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string digest;
  for (const auto word : state_) {
    for (int shift = 28; shift >= 0; shift -= 4) digest += kDigits[(word >> shift) & 15];
  }
  return digest;
}

std::string sha256_hex(const void* data, std::size_t bytes) {
  Sha256 hash;
  hash.add(data, bytes);
  return hash.hex();
}

std::string sha256_file(const std::filesystem::path& file) {
  const MappedFile mapped(file);
  return sha256_hex(mapped.bytes().data(), mapped.bytes().size());
}

}  // namespace kmeans
