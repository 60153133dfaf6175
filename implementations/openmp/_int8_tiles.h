// SPDX-License-Identifier: Apache-2.0
//
// The products of the int8 filter by AMX tiles: 16 centroids by 16 points, and up to 64 coordinates,
// at a time. The integers are those of the other instructions. A part of _int8_kernel.h, which
// includes it; no include guard for the same reason. KMEANS_INT8_TILE(operation, ...) is the
// instruction, or its emulation.
//
// Tiles 0, 1, 2: sums of 16 centroids (rows) and 16 points each; 3: centroids, a row each, signed
// bytes; 4, 5, 6: 16 points each, a word of each a row as they lie in the block, unsigned bytes.

/// A configuration as LDTILECFG reads it.
struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

/// Before the thread's first filter() with centroids of that tiling.
inline void open_tiles(const Int8Tiling& tiling) {
  TileConfiguration configuration;
  for (int tile = 0; tile < 3; ++tile) {
    configuration.row_bytes[tile] = 64;
    configuration.rows[tile] = kInt8TileRows;
    configuration.row_bytes[4 + tile] = 64;
    configuration.rows[4 + tile] = static_cast<std::uint8_t>(tiling.words);
  }
  configuration.row_bytes[3] = static_cast<std::uint16_t>(4 * tiling.words);
  configuration.rows[3] = kInt8TileRows;
  // The compiler does not know that the instruction reads all of it.
  __asm__ volatile("" ::"r"(&configuration) : "memory");
  KMEANS_INT8_TILE(loadconfig, &configuration);
}

/// After its last one: a thread with tiles in use is dearer to switch.
inline void close_tiles() { KMEANS_INT8_TILE(release); }

/// The sums of a pair of groups and all points of a block, 2 kInt8Group x kInt8Points.
[[gnu::always_inline]] inline void multiply_tiles(const Int8Task& task, std::int64_t pair,
                                                  std::int32_t* sums) {
  constexpr std::int64_t kRow = std::int64_t{4} * kInt8Points;  // bytes
  const std::uint32_t* centroids = task.tiles + pair * task.tiling.steps * kInt8TileWords;
  const std::uint32_t* points = task.points;
  KMEANS_INT8_TILE(zero, 0);
  KMEANS_INT8_TILE(zero, 1);
  KMEANS_INT8_TILE(zero, 2);
  for (std::int64_t step = 0; step < task.tiling.steps; ++step) {
    KMEANS_INT8_TILE(loadd, 3, centroids, 64);
    KMEANS_INT8_TILE(loadd, 4, points, kRow);
    KMEANS_INT8_TILE(dpbsud, 0, 3, 4);
    KMEANS_INT8_TILE(loadd, 5, points + 16, kRow);
    KMEANS_INT8_TILE(dpbsud, 1, 3, 5);
    KMEANS_INT8_TILE(loadd, 6, points + 32, kRow);
    KMEANS_INT8_TILE(dpbsud, 2, 3, 6);
    centroids += kInt8TileWords;
    points += task.tiling.words * kInt8Points;
  }
  KMEANS_INT8_TILE(stored, 0, sums, kRow);
  KMEANS_INT8_TILE(stored, 1, sums + 16, kRow);
  KMEANS_INT8_TILE(stored, 2, sums + 32, kRow);
}

/// What a group's sums, kInt8Group x kInt8Points, say of the points of a register, the first of which
/// is `first`.
[[gnu::always_inline]] inline void bound_group(const Int8Task& task, std::int64_t g, int first,
                                               const std::int32_t* sums, Int8Scratch& scratch,
                                               Floats& lower) {
  const Int8GroupTerms& group = task.groups[g];
  const Floats rate = load<Floats>(task.terms->rate + first);
  const auto sum = [&](std::int64_t c) __attribute__((always_inline)) {
    return start_of(rate, group.rate[c], group.offset[c]) +
           load<Ints>(sums + c * kInt8Points + first);
  };
  const Ints r0 = highest(highest(sum(0), sum(1)), highest(sum(2), sum(3)));
  const Ints r4 = highest(highest(sum(4), sum(5)), highest(sum(6), sum(7)));
  take_ends(highest(r0, r4), group, task.terms->norm + first, task.terms->residual + first,
            scratch.highest.data() + g * kInt8Points + first, lower);
}

/// As the names in _int8_kernel.h. Here the sums in memory are those of the products alone.
inline bool keeps_sums(const Int8Task& task) { return task.group_count < kInt8KeptTileGroups; }
inline constexpr bool kSumsAreWhole = false;

/// The sums of a group's centroids, a lane each, for point p of the block.
[[gnu::always_inline]] inline void load_kept_sums(const Int8Task& task, const Int8Scratch& scratch,
                                                  std::int64_t g, int p, EightInts& sums) {
  const Int8GroupTerms& group = task.groups[g];
  const std::int32_t* kept = scratch.sums.data() + g * kInt8Group * kInt8Points + p;
  constexpr std::int64_t kNext = kInt8Points;
  const EightInts products{kept[0],         kept[kNext],     kept[2 * kNext], kept[3 * kNext],
                           kept[4 * kNext], kept[5 * kNext], kept[6 * kNext], kept[7 * kNext]};
  const EightFloats start = kInt8Zero - load<EightFloats>(group.rate) * task.terms->rate[p];
  sums = (reinterpret_cast<EightInts>(start) + load<EightInts>(group.offset)) + products;
}

/// As the function of this name in _int8_kernel.h. The tiles multiply the next pair of groups while
/// registers reduce the one before.
inline void bound_groups(const Int8Task& task, Int8Scratch& scratch) {
  constexpr int kParts = kInt8Points / kLanes;
  constexpr std::int64_t kPair = std::int64_t{kInt8TileRows} * kInt8Points;
  const bool keep = keeps_sums(task);
  const auto sums = [&](std::int64_t pair) {
    return scratch.sums.data() + (keep ? pair : pair % 2) * kPair;
  };
  Floats lower[kParts];
  for (Floats& part : lower) part = Floats{} - __builtin_inff();
  const std::int64_t pairs = (task.group_count + 1) / 2;
  Fetching fetching(task, pairs);
  for (std::int64_t pair = 0; pair <= pairs; ++pair) {
    if (pair < pairs) multiply_tiles(task, pair, sums(pair));
    fetching.share(task);
    const std::int64_t end = pair * 2 < task.group_count ? pair * 2 : task.group_count;
    for (std::int64_t g = pair * 2 - 2; g >= 0 && g < end; ++g) {
      for (int part = 0; part < kParts; ++part) {
        bound_group(task, g, static_cast<int>(part * kLanes),
                    sums(pair - 1) + g % 2 * kInt8Group * kInt8Points, scratch, lower[part]);
      }
    }
  }
  for (int part = 0; part < kParts; ++part) store(scratch.threshold + part * kLanes, lower[part]);
}
