// SPDX-License-Identifier: Apache-2.0
//
// The end of the int8 filter: from the bounds of groups to the centroids that stay. A part of
// _int8_kernel.h, which includes it; no include guard for the same reason.

/// Lists the pairs of a point and a group that may hold its nearest centroid; returns their number.
inline std::int64_t list_pairs(const Int8Task& task, Int8Scratch& scratch) {
  std::uint32_t* pairs = scratch.pairs.data();
  std::int64_t count = 0;
  for (std::int64_t g = 0; g < task.group_count; ++g) {
    const float* upper = scratch.highest.data() + g * kInt8Points;
    for (int first = 0; first < kInt8Points; first += kLanes) {
      const std::uint32_t points =
          bits_at_least(load<Floats>(upper + first), load<Floats>(scratch.threshold + first));
      count += append_lanes(pairs + count, points,
                            static_cast<std::uint32_t>(g * kInt8PairPoints + first));
    }
  }
  return count;
}

/// The sums of a group's centroids, a lane each, for point p of the block.
[[gnu::always_inline]] inline void add_again(const Int8Task& task, std::int64_t g, int p,
                                             EightInts& sums) {
  const Int8GroupTerms& group = task.groups[g];
  const EightFloats start = kInt8Zero - load<EightFloats>(group.rate) * task.terms->rate[p];
  EightInts first = reinterpret_cast<EightInts>(start) + load<EightInts>(group.offset);
  EightInts second{};  // several: a product waits for the one before
  EightInts third{};
  EightInts fourth{};
  const std::uint32_t* point = task.points + p;
  const std::uint32_t* centroids = task.centroids + g * task.words * kInt8Group;
  const auto add = [&](EightInts & sum, std::int64_t word) __attribute__((always_inline)) {
    dot(sum, EightInts{} + static_cast<std::int32_t>(point[word * kInt8Points]),
        load<EightInts>(centroids + word * kInt8Group));
  };
  std::int64_t word = 0;
  for (; word + 4 <= task.words; word += 4) {
    add(first, word);
    add(second, word + 1);
    add(third, word + 2);
    add(fourth, word + 3);
  }
  for (; word < task.words; ++word) add(first, word);
  sums = (first + second) + (third + fourth);
}

/// The centroids of a group, a lane each, that may be nearest to point p of the block.
[[gnu::always_inline]] inline std::uint32_t survivors_of(const Int8Task& task, std::int64_t g,
                                                         int p, const EightInts& sums,
                                                         float threshold) {
  const Int8GroupTerms& group = task.groups[g];
  const EightFloats score = (reinterpret_cast<EightFloats>(sums) - kInt8Zero) * group.step;
  const EightFloats margin = load<EightFloats>(group.residual) * task.terms->norm[p] +
                             load<EightFloats>(group.norm) * task.terms->residual[p];
  return bits_at_least(score + margin, EightFloats{} + threshold) & ((1U << group.count) - 1);
}

/// Marks the centroids that stay, by their place in the groups, a register of points at a time: of kept
/// sums, with one margin for a group. `compared`: how many groups there were.
inline void mark_survivors(const Int8Task& task, Int8Scratch& scratch, std::int64_t& compared) {
  std::uint32_t* marks = scratch.marks.data();
  compared = 0;
  for (int first = 0; first < kInt8Points; first += kLanes) {
    const Floats threshold = load<Floats>(scratch.threshold + first);
    const Floats norm = load<Floats>(task.terms->norm + first);
    const Floats residual = load<Floats>(task.terms->residual + first);
    for (std::int64_t g = 0; g < task.group_count; ++g, marks += kInt8Group) {
      const Floats upper = load<Floats>(scratch.highest.data() + g * kInt8Points + first);
      if (bits_at_least(upper, threshold) == 0) {
        store(marks, EightInts{});
        continue;
      }
      ++compared;
      const Int8GroupTerms& group = task.groups[g];
      const Floats margin = norm * group.largest_residual + residual * group.largest_norm;
      Floats least;
      find_least_sum(threshold, margin, group, least);
      const std::int32_t* sums = scratch.sums.data() + g * kInt8Group * kInt8Points + first;
      const auto mark = [&](std::int64_t c) __attribute__((always_inline)) {
        marks[c] = bits_at_least(load<Floats>(sums + c * kInt8Points), least);
      };
      mark(0);
      mark(1);
      mark(2);
      mark(3);
      mark(4);
      mark(5);
      mark(6);
      mark(7);
      for (std::int64_t c = group.count; c < kInt8Group; ++c) marks[c] = 0;
    }
  }
}

/// Appends a centroid to those of point p of the block.
[[gnu::always_inline]] inline void append_survivor(Int8Survivors& survivors, int p,
                                                   std::int32_t centroid) {
  const std::int32_t count = survivors.count[p];
  survivors.few[p][count < kInt8Few ? count : kInt8Few] = centroid;
  survivors.count[p] = count + 1;
}

/// From kept sums.
inline void take_survivors(const Int8Task& task, Int8Scratch& scratch, Int8Survivors& survivors) {
  std::int64_t compared = 0;
  mark_survivors(task, scratch, compared);
  const std::int64_t places = task.group_count * kInt8Group;
  for (int first = 0; first < kInt8Points; first += kLanes) {
    const std::uint32_t* marks = scratch.marks.data() + first / kLanes * places;
    const std::int64_t marked = append_marks(scratch.marked.data(), marks, places);
    for (std::int64_t index = 0; index < marked; ++index) {
      const std::uint32_t mark = scratch.marked[index];
      const std::int32_t centroid = task.order[mark >> 16];
      const std::uint32_t lanes = mark & 0xFFFF;
      // One or two as a rule: both are written, no branch between them, one of them to no point's place.
      std::uint32_t others = lanes & (lanes - 1);
      append_survivor(survivors, first + __builtin_ctz(lanes), centroid);
      const int other = first + __builtin_ctz(others | 0x10000);
      append_survivor(survivors, others != 0 ? other : kInt8Points, centroid);
      for (others &= others - 1; others != 0; others &= others - 1) {
        append_survivor(survivors, first + __builtin_ctz(others), centroid);
      }
    }
  }
  std::int64_t pairs = 0;
  for (int p = 0; p < kInt8Points; ++p) pairs += survivors.count[p];
  survivors.operations = compared * 40 + pairs * 20;
}

/// From sums that are formed again, or that tiles have kept: pair by pair of a point and a group.
inline void take_survivors_of_pairs(const Int8Task& task, Int8Scratch& scratch,
                                    Int8Survivors& survivors) {
  const std::int64_t pairs = list_pairs(task, scratch);
  for (std::int64_t index = 0; index < pairs; ++index) {
    const std::uint32_t pair = scratch.pairs[index];
    const auto p = static_cast<int>(pair % kInt8PairPoints);
    const std::int64_t g = pair / kInt8PairPoints;
    EightInts sums;
#if defined(KMEANS_INT8_TILE)
    if (keeps_sums(task)) {
      load_kept_sums(task, scratch, g, p, sums);
    } else
#endif
      add_again(task, g, p, sums);
    const std::uint32_t left = survivors_of(task, g, p, sums, scratch.threshold[p]);
    std::int32_t& count = survivors.count[p];
    const int at = count < kInt8Few ? count : kInt8Few;  // beyond lies room for one group
    count += append_marked(survivors.few[p] + at, left, task.order + g * kInt8Group);
  }
  survivors.operations = pairs * (task.words + 30);
}

[[maybe_unused]] void filter(const Int8Task& task, Int8Scratch& scratch, Int8Survivors& survivors) {
  bound_groups(task, scratch);
  for (std::int64_t p = task.valid; p < kInt8Points; ++p) {
    scratch.threshold[p] = __builtin_inff();  // padding has no candidates
  }
  for (std::int32_t& count : survivors.count) count = 0;
  if (kSumsAreWhole && keeps_sums(task)) {
    take_survivors(task, scratch, survivors);
  } else {
    take_survivors_of_pairs(task, scratch, survivors);
  }
  survivors.open_count = 0;
  for (int p = 0; p < task.valid; ++p) {
    survivors.open[survivors.open_count] = p;
    survivors.open_count += survivors.count[p] != 1 ? 1 : 0;
  }
}
