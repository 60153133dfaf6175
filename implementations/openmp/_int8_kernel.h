// SPDX-License-Identifier: Apache-2.0
//
// The loops of the int8 filter for one instruction set. Deliberately without an include guard:
// _int8_dispatch.h includes this once an instruction set, in a namespace and a region compiled for
// it, after the types Floats, Ints, EightFloats and EightInts, the functions that the compiler has no
// common words for (dot, minus_product, highest, bits_at_least, append_lanes, append_marked,
// append_marks), and either KMEANS_INT8_REGISTERS (1 or 3), how many registers hold points, or
// KMEANS_INT8_TILE, which makes a tile instruction of its name. What cannot be guessed has no branch.
//
// A centroid's score for a point is -(|z|^2 - 2 p.z) / (2a): the highest is the nearest. It is known
// but for a margin. A centroid stays while the upper end of its score reaches the highest lower end.

inline constexpr std::int64_t kLanes = sizeof(Floats) / sizeof(float);

template <class V, class T>
[[gnu::always_inline]] inline V load(const T* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof v);  // not std::memcpy: see implementations/cpu/_simd_kernel.h
  return v;
}

template <class V, class T>
[[gnu::always_inline]] inline void store(T* to, const V& v) {
  __builtin_memcpy(to, &v, sizeof v);
}

/// Not Floats{} + value, which would make 0 of -0 and is an addition.
[[gnu::always_inline]] inline Floats all_lanes(float value) { return value - Floats{}; }

[[gnu::always_inline]] inline Ints start_of(const Floats& rate, float centroid_rate,
                                            std::int32_t offset) {
  return reinterpret_cast<Ints>(
             minus_product(all_lanes(kInt8Zero), rate, all_lanes(centroid_rate))) +
         offset;
}

/// Of a group's highest sums: the upper ends of the scores are stored, the lower ends raise `lower`.
[[gnu::always_inline]] inline void take_ends(const Ints& sum, const Int8GroupTerms& group,
                                             const float* norm, const float* residual, float* upper,
                                             Floats& lower) {
  const Floats score = (reinterpret_cast<Floats>(sum) - kInt8Zero) * group.step;
  const Floats margin =
      load<Floats>(norm) * group.largest_residual + load<Floats>(residual) * group.largest_norm;
  const Floats partly = minus_product(score, load<Floats>(norm), all_lanes(group.lower_residual));
  lower =
      highest(lower, minus_product(partly, load<Floats>(residual), all_lanes(group.lower_norm)));
  store(upper, score + margin);
}

/// Has memory send the next block, the rows that the block before left open, and those that move: a
/// share at a time, between groups, so that memory has time for all of it.
class Fetching {
 public:
  Fetching(const Int8Task& task, std::int64_t shares)
      : lines_(task.words * (kInt8Points / 16)),
        lines_each_((lines_ + shares - 1) / shares),
        rows_each_((task.fetch.count + shares - 1) / shares),
        row_(task.fetch.bytes < kMaxRow ? task.fetch.bytes : kMaxRow),
        moved_each_((task.moved.count + shares - 1) / shares),
        moved_row_(task.moved.bytes < kMaxRow ? task.moved.bytes : kMaxRow) {}

  [[gnu::always_inline]] void share(const Int8Task& task) {
    for (std::int64_t left = lines_each_; left > 0 && line_ < lines_; --left, ++line_) {
      __builtin_prefetch(task.next + line_ * 16, 0, 2);
    }
    for (std::int64_t left = rows_each_; left > 0 && at_ < task.fetch.count; --left, ++at_) {
      fetch(task.fetch.rows + task.fetch.some[at_] * task.fetch.bytes, row_);
    }
    for (std::int64_t left = moved_each_; left > 0 && moved_ < task.moved.count; --left, ++moved_) {
      fetch(reinterpret_cast<const char*>(task.moved.rows[moved_]), moved_row_);
    }
  }

 private:
  [[gnu::always_inline]] static void fetch(const char* row, std::int64_t bytes) {
    for (std::int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at, 0, 2);
  }

  static constexpr std::int64_t kMaxRow = 2048;  // the processor itself follows a longer one
  std::int64_t lines_;
  std::int64_t lines_each_;
  std::int64_t rows_each_;
  std::int64_t row_;
  std::int64_t moved_each_;
  std::int64_t moved_row_;
  std::int64_t line_ = 0;
  std::int64_t at_ = 0;
  std::int64_t moved_ = 0;
};

#if defined(KMEANS_INT8_TILE)
#include "implementations/openmp/_int8_tiles.h"
#else

/// Something of the points at work. Named members, not an array: they are sure to be registers.
template <class V>
struct Row {
  V a;
#if KMEANS_INT8_REGISTERS == 3
  V b;
  V c;
#endif
};

template <class V, class T>
[[gnu::always_inline]] inline void load_row(Row<V>& row, const T* from) {
  row.a = load<V>(from);
#if KMEANS_INT8_REGISTERS == 3
  row.b = load<V>(from + kLanes);
  row.c = load<V>(from + 2 * kLanes);
#endif
}

/// A centroid's sums before the first product: |z|^2 below a score of 0.
[[gnu::always_inline]] inline void start(Row<Ints>& sums, const Row<Floats>& rate,
                                         const Int8GroupTerms& group, int c) {
  sums.a = start_of(rate.a, group.rate[c], group.offset[c]);
#if KMEANS_INT8_REGISTERS == 3
  sums.b = start_of(rate.b, group.rate[c], group.offset[c]);
  sums.c = start_of(rate.c, group.rate[c], group.offset[c]);
#endif
}

[[gnu::always_inline]] inline void add_products(Row<Ints>& sums, const Row<Ints>& points,
                                                std::uint32_t centroid) {
  const Ints word = Ints{} + static_cast<std::int32_t>(centroid);
  dot(sums.a, points.a, word);
#if KMEANS_INT8_REGISTERS == 3
  dot(sums.b, points.b, word);
  dot(sums.c, points.c, word);
#endif
}

[[gnu::always_inline]] inline void raise(Row<Ints>& sums, const Row<Ints>& other) {
  sums.a = highest(sums.a, other.a);
#if KMEANS_INT8_REGISTERS == 3
  sums.b = highest(sums.b, other.b);
  sums.c = highest(sums.c, other.c);
#endif
}

[[gnu::always_inline]] inline void store_row(std::int32_t* to, const Row<Ints>& sums) {
  store(to, sums.a);
#if KMEANS_INT8_REGISTERS == 3
  store(to + kLanes, sums.b);
  store(to + 2 * kLanes, sums.c);
#endif
}

/// The highest sums of a group's centroids: `centroid` is words x kInt8Group, `point` words x
/// kInt8Points. All sums go to `kept`, kInt8Group x kInt8Points, if that is not null.
[[gnu::always_inline]] inline Row<Ints> highest_sums(const std::uint32_t* point,
                                                     const std::uint32_t* centroid,
                                                     std::int64_t words, const Row<Floats>& rate,
                                                     const Int8GroupTerms& group,
                                                     std::int32_t* kept) {
  Row<Ints> r0, r1, r2, r3, r4, r5, r6, r7;
  start(r0, rate, group, 0);
  start(r1, rate, group, 1);
  start(r2, rate, group, 2);
  start(r3, rate, group, 3);
  start(r4, rate, group, 4);
  start(r5, rate, group, 5);
  start(r6, rate, group, 6);
  start(r7, rate, group, 7);
  for (std::int64_t word = 0; word < words; ++word) {
    Row<Ints> points;
    load_row(points, point);
    add_products(r0, points, centroid[0]);
    add_products(r1, points, centroid[1]);
    add_products(r2, points, centroid[2]);
    add_products(r3, points, centroid[3]);
    add_products(r4, points, centroid[4]);
    add_products(r5, points, centroid[5]);
    add_products(r6, points, centroid[6]);
    add_products(r7, points, centroid[7]);
    point += kInt8Points;
    centroid += kInt8Group;
  }
  if (kept != nullptr) {
    store_row(kept, r0);
    store_row(kept + kInt8Points, r1);
    store_row(kept + std::int64_t{2} * kInt8Points, r2);
    store_row(kept + std::int64_t{3} * kInt8Points, r3);
    store_row(kept + std::int64_t{4} * kInt8Points, r4);
    store_row(kept + std::int64_t{5} * kInt8Points, r5);
    store_row(kept + std::int64_t{6} * kInt8Points, r6);
    store_row(kept + std::int64_t{7} * kInt8Points, r7);
  }
  Row<Ints> all = r0;  // what is returned lies in memory: not r0, which the loop needs
  raise(all, r1);
  raise(r2, r3);
  raise(r4, r5);
  raise(r6, r7);
  raise(all, r2);
  raise(r4, r6);
  raise(all, r4);
  return all;
}

/// Are the sums of few groups kept, since to find them again costs more than to store them?
inline bool keeps_sums(const Int8Task& task) {
  return task.group_count <= kInt8KeptGroups && task.words >= kInt8KeptWords;
}
inline constexpr bool kSumsAreWhole = true;  // |z|^2 and offset are part of them

/// For the points from `first` on: the upper ends of all groups, and the highest lower end.
inline void bound_part(const Int8Task& task, int first, Int8Scratch& scratch) {
  Row<Floats> rate;
  load_row(rate, task.terms->rate + first);
  const float* norm = task.terms->norm + first;
  const float* residual = task.terms->residual + first;
  Row<Floats> lower;
  lower.a = Floats{} - __builtin_inff();
#if KMEANS_INT8_REGISTERS == 3
  lower.b = lower.a;
  lower.c = lower.a;
#endif
  const bool keep = keeps_sums(task);
  Fetching fetching(task, task.group_count);
  for (std::int64_t g = 0; g < task.group_count; ++g) {
    if (first == 0) fetching.share(task);
    const Int8GroupTerms& group = task.groups[g];
    std::int32_t* kept =
        keep ? scratch.sums.data() + g * kInt8Group * kInt8Points + first : nullptr;
    const Row<Ints> sums =
        highest_sums(task.points + first, task.centroids + g * task.words * kInt8Group, task.words,
                     rate, group, kept);
    float* upper = scratch.highest.data() + g * kInt8Points + first;
    take_ends(sums.a, group, norm, residual, upper, lower.a);
#if KMEANS_INT8_REGISTERS == 3
    take_ends(sums.b, group, norm + kLanes, residual + kLanes, upper + kLanes, lower.b);
    take_ends(sums.c, group, norm + 2 * kLanes, residual + 2 * kLanes, upper + 2 * kLanes, lower.c);
#endif
  }
  store(scratch.threshold + first, lower.a);
#if KMEANS_INT8_REGISTERS == 3
  store(scratch.threshold + first + kLanes, lower.b);
  store(scratch.threshold + first + 2 * kLanes, lower.c);
#endif
}

/// The upper ends of all groups for all points of a block, and the highest lower ends.
inline void bound_groups(const Int8Task& task, Int8Scratch& scratch) {
  for (int first = 0; first < kInt8Points; first += KMEANS_INT8_REGISTERS * kLanes) {
    bound_part(task, first, scratch);
  }
}

#endif

#include "implementations/openmp/_int8_survivors.h"
