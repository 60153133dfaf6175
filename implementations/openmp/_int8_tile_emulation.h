// SPDX-License-Identifier: Apache-2.0
//
// The tile instructions of AMX that the int8 filter uses, in plain C++ by Intel's description of
// them: so that code written for tiles is tested on every processor. What the processor refuses is
// an error here too.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace kmeans::openmp::emulated_tiles {

struct Tile {
  std::uint8_t bytes[16][64];
};

/// A thread's registers.
struct TileRegisters {
  Tile tiles[8] = {};
  std::uint8_t rows[8] = {};
  std::uint16_t row_bytes[8] = {};
};

inline TileRegisters& registers() {
  thread_local TileRegisters of_this_thread;
  return of_this_thread;
}

/// #UD and #GP of a processor.
inline void require(bool valid) {
  if (!valid) throw std::logic_error("a tile instruction that the processor would refuse");
}

inline void loadconfig(const void* configuration) {
  std::uint8_t bytes[64];
  std::memcpy(bytes, configuration, sizeof bytes);
  require(bytes[0] == 1 && bytes[1] == 0);
  for (int at = 2; at < 16; ++at) require(bytes[at] == 0);
  TileRegisters& all = registers();
  for (std::int64_t tile = 0; tile < 8; ++tile) {
    std::memcpy(&all.row_bytes[tile], bytes + 16 + 2 * tile, 2);
    all.rows[tile] = bytes[48 + tile];
    require(all.row_bytes[tile] <= 64 && all.rows[tile] <= 16);
    require((all.row_bytes[tile] == 0) == (all.rows[tile] == 0));
    all.tiles[tile] = {};
  }
  for (std::int64_t tile = 8; tile < 16; ++tile) require(bytes[48 + tile] == 0);
}

inline void release() { registers() = {}; }

inline void zero(int tile) {
  require(registers().rows[tile] != 0);
  registers().tiles[tile] = {};
}

inline void loadd(int tile, const void* base, std::int64_t stride) {
  TileRegisters& all = registers();
  require(all.rows[tile] != 0);
  all.tiles[tile] = {};
  for (int row = 0; row < all.rows[tile]; ++row) {
    std::memcpy(all.tiles[tile].bytes[row], static_cast<const std::uint8_t*>(base) + row * stride,
                all.row_bytes[tile]);
  }
}

inline void stored(int tile, void* base, std::int64_t stride) {
  const TileRegisters& all = registers();
  require(all.rows[tile] != 0);
  for (int row = 0; row < all.rows[tile]; ++row) {
    std::memcpy(static_cast<std::uint8_t*>(base) + row * stride, all.tiles[tile].bytes[row],
                all.row_bytes[tile]);
  }
}

/// Adds to the sums the products of the signed bytes of a (rows x words) and the unsigned ones of b
/// (words x columns), four bytes a word. Wraps.
inline void dpbsud(int sums, int a, int b) {
  TileRegisters& all = registers();
  require(sums != a && sums != b && a != b && all.rows[sums] == all.rows[a]);
  require(all.row_bytes[sums] == all.row_bytes[b] && all.row_bytes[a] == 4 * all.rows[b]);
  require(all.row_bytes[sums] % 4 == 0 && all.rows[sums] != 0 && all.rows[b] != 0);
  for (int row = 0; row < all.rows[sums]; ++row) {
    std::uint32_t row_sums[16];
    std::memcpy(row_sums, all.tiles[sums].bytes[row], sizeof row_sums);
    for (int at = 0; at < all.row_bytes[a]; ++at) {
      const auto factor = static_cast<std::int8_t>(all.tiles[a].bytes[row][at]);
      const std::uint8_t* other = all.tiles[b].bytes[at / 4] + at % 4;
      for (std::int64_t column = 0; column < all.row_bytes[sums] / 4; ++column) {
        row_sums[column] += static_cast<std::uint32_t>(factor * other[4 * column]);
      }
    }
    std::memcpy(all.tiles[sums].bytes[row], row_sums, sizeof row_sums);
  }
}

}  // namespace kmeans::openmp::emulated_tiles
