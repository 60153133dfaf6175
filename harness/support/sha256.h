// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 (FIPS 180-4) of data that arrives in pieces.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace kmeans {

class Sha256 {
 public:
  void add(const void* data, std::size_t bytes);
  /// Lower-case hexadecimal digest of everything added; the object is spent afterwards.
  std::string hex();

 private:
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> block_{};
  std::size_t used_ = 0;
  std::uint64_t total_ = 0;
};

/// Lower-case hexadecimal SHA-256.
std::string sha256_hex(const void* data, std::size_t bytes);
std::string sha256_file(const std::filesystem::path& file);

}  // namespace kmeans
