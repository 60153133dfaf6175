// SPDX-License-Identifier: Apache-2.0
//
// What an iteration of each exact family on a GPU takes, by shape, from what the GPU's units do in a clock, and
// which families are near enough to the cheapest for the model not to decide. Points without structure, the mean of
// ten iterations. docs/gpu.md has where the constants come from.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "harness/machine/gpu.h"
#include "harness/variant.h"
#include "implementations/cuda/tuning.h"

namespace kmeans::cuda {

/// What a GPU could do, as it reports it: units times clock.
struct GpuLimits {
  double multiprocessors;
  double clock;          ///< Hertz.
  double float_lanes;    ///< Of a multiprocessor.
  double double_lanes;   ///< The same.
  double half_products;  ///< Multiply-adds of float16 by its matrix units in a clock.
  double bytes_per_second;

  /// Operations a second of all lanes; products a second of all matrix units.
  [[nodiscard]] double float_rate() const { return multiprocessors * clock * float_lanes; }
  [[nodiscard]] double double_rate() const { return multiprocessors * clock * double_lanes; }
  [[nodiscard]] double product_rate() const { return multiprocessors * clock * half_products; }
};

/// Units of a multiprocessor are not reported; they go by the compute capability. Where a virtual GPU reports no
/// clock, a slow one stands for it.
inline GpuLimits limits_of(const GpuDevice& gpu) {
  const int capability = 10 * gpu.major + gpu.minor;
  const bool wide = capability >= 86;  // twice the float32 lanes
  const bool for_science = capability == 80 || capability == 90 || capability == 100;
  return {.multiprocessors = std::max(1.0, static_cast<double>(gpu.multiprocessors)),
          .clock = std::max(gpu.clock_hertz, 5e8),
          .float_lanes = wide ? 128.0 : 64.0,
          .double_lanes = for_science ? (capability == 80 ? 32.0 : 64.0) : 2.0,
          .half_products = capability == 90 ? 2048.0 : 1024.0,
          .bytes_per_second = std::max(gpu.memory_bytes_per_second, 1e11)};
}

/// Seconds of an iteration.
class FamilyTimes {
 public:
  FamilyTimes(const Shape& shape, const GpuLimits& limits) : s_(shape), gpu_(limits) {}

  [[nodiscard]] double of(const std::string& family) const {
    if (family == "cuda_tensor") return tensor();
    if (family == "cuda_hamerly") return hamerly(1);
    if (family == "cuda_int8") return int8();
    if (family == "cuda_resident") return resident();
    if (family == "cuda_onepass") return onepass();
    if (family == "cuda_tree") return tree(s_.d);
    return exact();
  }

  /// Five launches. Sixteen centroids at a time, three float64 operations a coordinate and 4.6 a pair; blocks
  /// that have a multiprocessor for themselves reach 0.6 of what several reach. Then an atomic addition a
  /// coordinate: few clusters make them queue, and one thread's follow each other.
  [[nodiscard]] double exact() const {
    const double pairs = up(s_.n, 256) * up(s_.k, 16);
    const double alone = std::ceil(std::ceil(s_.n / 256) / gpu_.multiprocessors) *
                         gpu_.multiprocessors * 256 * up(s_.k, 16);
    const double rate = gpu_.double_rate() / (3 * s_.d + 4.6);
    const double assign =
        std::max(pairs / (0.91 * rate), fills_twice() ? 0 : alone / (0.55 * rate));
    const double queues = 1310 * std::min(1.0, (s_.d + 1) / 4) / (1 + s_.k / 200);
    const double update = s_.n * (queues + 30 * (s_.d + 1)) / 1000 / gpu_.clock;
    return 14e-6 + assign + std::max(update, 370 * s_.d / gpu_.clock);
  }

  /// A graph of eleven nodes. The product, at two thirds of its rate where half as many warps share a tile, with what
  /// is done again for undecided points; few coordinates leave more of them. Then a look at the labels and what moved.
  [[nodiscard]] double tensor() const {
    const double rest = s_.n * (44 + 1.7 * s_.d) / 1000 / gpu_.clock;
    return 32e-6 + tensor_pairs() + rest;
  }
  [[nodiscard]] double tensor_pairs() const {
    const double turns = tensor_turns();
    const double points = 256 * gpu_.multiprocessors * (turns < 8 ? std::ceil(turns) : turns);
    const double rate = (s_.d > 332 ? 0.64 : 0.94) * gpu_.product_rate();
    const double pair =
        std::max(up(s_.d + 4, 16) / rate + 4 / gpu_.float_rate(), 5.8 / gpu_.float_rate());
    const double copy = s_.n * 2 * up(s_.d + 4, 16) / gpu_.bytes_per_second;
    return std::max(points * up(s_.k, 128) * pair, copy) + made_again(15);
  }

  /// Tiles of points for each multiprocessor.
  [[nodiscard]] double tensor_turns() const { return std::ceil(s_.n / 256) / gpu_.multiprocessors; }

  /// tensor(), whose pairs are those of all points in the first of ten iterations, then of `open` of them, but of one
  /// tile for each multiprocessor at least; and a look at the bounds.
  [[nodiscard]] double hamerly(double open) const {
    const double test = 8e-6 + s_.n * 70 / gpu_.bytes_per_second;
    const double left = std::max(open, 1 / std::ceil(tensor_turns()));
    const double saved = 0.9 * (1 - left) * tensor_pairs();
    return test + 1.06 * (tensor() - saved);
  }

  /// The first of ten iterations is that of tensor(). Of the others the product, at twice the rate, or the minima; what
  /// is written down; pairs that few coordinates leave; and rows of points and of the centroids that bytes leave them.
  [[nodiscard]] double int8() const {
    const double product = up(s_.d + 19, 32) / (0.68 * 2 * gpu_.product_rate());
    const double pair = std::max(product, 7.7 / gpu_.float_rate());
    const double open = s_.n * (0.15e-9 + 12 * s_.d / gpu_.bytes_per_second);
    const double rest = s_.n * (170 + 5 * s_.d) / 1000 / gpu_.clock;
    return tensor() / 10 +
           0.9 * (56e-6 + up(s_.n, 256) * up(s_.k, 128) * pair + made_again(44) + open + rest);
  }

  /// Two launches. A warp's 32 points take some 230 instructions, and for each centroid 2.5 per 16 coordinates, or 3.3
  /// where a warp group multiplies; somewhat less than every second clock issues one, or every sixth where a warp is
  /// alone. Or the copy takes longer. And shared memory for what moves.
  [[nodiscard]] double onepass() const {
    const double columns = s_.k <= 8 ? 8 : (s_.k <= 16 ? 16 : (s_.k <= 32 ? 32 : up(s_.k, 64)));
    const double steps = up(s_.d, 16) / 16;
    const bool by_groups = gpu_.half_products > 1024 && s_.k > 64 && s_.d <= 64;
    const double instructions = 230 + columns * (by_groups ? 3.3 : 2.5 * steps);
    const double issued = 0.44 * 4 * gpu_.multiprocessors * gpu_.clock;
    const double copy = (32 * steps + 8) / (0.7 * gpu_.bytes_per_second);
    const double moves = 0.088 * s_.d / gpu_.multiprocessors / gpu_.clock;
    const double pass =
        std::max(s_.n * std::max(instructions / 32 / issued, copy), 6 * instructions / gpu_.clock);
    return 8.7e-6 + pass + s_.n * moves;
  }

  /// Two operations a coordinate and four a pair, by as many blocks as there are points for, and as many threads as
  /// a block's points keep busy, some points a thread; shared memory for what moves; each block brings its sums to the
  /// L2 cache, reads all of them and divides. Little work is one block's.
  [[nodiscard]] double resident() const {
    const double operations = s_.n * s_.k * (2 * s_.d + 4);
    if (operations <= static_cast<double>(tuning::kOperationsOfOneBlock)) {
      return 1.8e-6 + operations / (0.23 * gpu_.float_rate() / gpu_.multiprocessors);
    }
    const double share = s_.d > 16 ? 0.2 : 0.63;  // of the lanes' rate: registers are few
    const double blocks = std::clamp(s_.n / tuning::kResidentPoints, 1.0, gpu_.multiprocessors);
    const double held = s_.n / gpu_.multiprocessors;
    const double at_a_time = s_.d <= 4 ? 4 : s_.d <= 8 ? 2 : 1;
    const double busy = held > 1024 ? std::min(1.0, held / at_a_time / 1024) : 1;
    const double moves = s_.n * (s_.d + 1) * 0.26 / gpu_.multiprocessors / gpu_.clock;
    return 4.4e-6 +
           operations / (share * busy * gpu_.float_rate() * blocks / gpu_.multiprocessors) +
           resident_sums() + moves;
  }
  [[nodiscard]] double resident_sums() const {
    return s_.k * (s_.d + 1) * 0.08 * gpu_.multiprocessors / gpu_.clock;
  }

  /// Four launches, and an order in the first iteration. `dimensions`: of the space that the points fill. With the
  /// distance of neighbouring centroids as the unit, the box of 32 points has a side of (32 k / n)^(1/d), and the
  /// centroids less than about half of one from it are looked at, one after the other by the same warp.
  [[nodiscard]] double tree(double dimensions) const {
    const double side = tree_side(dimensions);
    const double looked_at = std::min(s_.k, std::pow(1 + side, dimensions));
    const double operations = std::pow(looked_at, 0.985) * 36.4 * (s_.d + 12);
    const double alone = looked_at * 7 * (s_.d + 12) / gpu_.clock;
    const double boxes = std::min(7.3 * s_.k, 15e3) / gpu_.clock;  // of the centroids
    const double copy = s_.n * (4 * s_.d + 8) / gpu_.bytes_per_second;
    return 10.6e-6 + s_.n * operations / gpu_.float_rate() + alone + boxes + copy;
  }

  /// Of a run of so many iterations, with what the families' setups and first iterations differ by: copies of the
  /// points, graphs, an order.
  [[nodiscard]] double run(const std::string& family, std::int64_t iterations) const {
    const auto all = static_cast<double>(iterations);
    const double early = std::min(10.0, all);
    const double begun = start(family) + early * of(family);
    if (family != "cuda_hamerly") return begun + (all - early) * later(family);
    const double between =
        std::min(40.0, all - early);  // bounds hold from iteration to iteration better
    return begun + between * hamerly(0.7) + (all - early - between) * later(family);
  }
  /// From the tenth iteration on: few points move, the tree is in order, and the run's start counts no more.
  [[nodiscard]] double later(const std::string& family) const {
    const double early = of(family);
    if (family == "cuda_hamerly") return hamerly(0.3);
    if (family == "cuda_onepass") return 1.3e-6 + 0.69 * early;
    if (family == "cuda_tree") return (tree_side(s_.d) < 0.3 ? 0.55 : 0.8) * early;
    if (family != "cuda_resident") return early - 1.2e-6;
    const bool settles = s_.n >= 10000 && s_.d <= 12;
    return std::max(0.5 * early, early - 1.2e-6 - (settles ? 0.6 : 0.25) * resident_sums());
  }
  [[nodiscard]] double start(const std::string& family) const {
    if (family == "cuda_tensor") return 550e-6;
    if (family == "cuda_hamerly") return 800e-6;
    if (family == "cuda_int8") return 1100e-6 + 38e-12 * s_.n * s_.d;
    if (family == "cuda_resident") return 0;
    if (family == "cuda_onepass") return 160e-6;
    if (family == "cuda_tree") return 300e-6;
    return 120e-6;
  }

  [[nodiscard]] double tree_side(double dimensions) const {
    return std::pow(32 * s_.k / s_.n, 1 / dimensions);
  }

  /// The least that a family may take where points have structure: boxes part them as if their dimensions were
  /// fewer, and bounds leave few of them open.
  [[nodiscard]] double least_of(const std::string& family) const {
    if (family == "cuda_tree") return tree(std::min(s_.d, 3.0));
    return family == "cuda_hamerly" ? hamerly(0.1) : of(family);
  }

 private:
  /// Pairs of undecided points, of which two coordinates leave many: operations a pair there.
  [[nodiscard]] double made_again(double operations) const {
    return s_.d > 8 ? 0 : s_.n * s_.k * operations * std::pow(2 / s_.d, 4.35) / gpu_.float_rate();
  }
  static double up(double value, double step) { return std::ceil(value / step) * step; }
  /// Has every multiprocessor two of cuda_exact's blocks?
  [[nodiscard]] bool fills_twice() const {
    return std::ceil(s_.n / 256) > 2 * gpu_.multiprocessors;
  }

  Sizes s_;
  GpuLimits gpu_;
};

/// Its bounds save little in ten iterations, and more in each later one.
inline constexpr const char* kKeepsBounds = "cuda_hamerly";

/// Changed labels of an iteration, from the tenth on: with no more, the family's bounds leave few points open from
/// then on; -1: it keeps none.
inline std::int64_t holds_below(const std::string& family, const Shape& shape) {
  return family == kKeepsBounds ? shape.n / 200 : -1;
}

/// No prediction is off by a larger factor where the model was fitted (tests/variants/gpu_choice_test.cpp).
inline constexpr double kMostOff = 2;
/// So two of them may mistake the faster of two families that lie this factor apart.
inline constexpr double kUnsure = kMostOff * kMostOff;

/// An iteration of the family takes no less, even if the model is off. Bounds save pairs alone, and what is left is
/// predicted well.
inline double surely_least(const std::string& family, const FamilyTimes& times) {
  return times.least_of(family) / (family == kKeepsBounds ? 1 : kMostOff);
}

/// Of the copies that a family makes of points that are on the GPU: they are read some times, written once or sorted.
/// And of what its first iteration takes beyond two: graphs are recorded in it.
inline double setup_seconds(const std::string& family, const Shape& shape,
                            const GpuLimits& limits) {
  const auto n = static_cast<double>(shape.n);
  const auto d = static_cast<double>(shape.d);
  const double sorted = family == "cuda_tree" ? 2e-9 * n : 0;
  const double recorded = family == "cuda_int8" ? 1500e-6 : 500e-6;
  return recorded + sorted + n * (16 * d + 64) / (0.5 * limits.bytes_per_second);
}

/// Of one that this process has not used, to load its kernels: no less than was seen (docs/lab/gpu.md).
inline double load_seconds(const std::string& family) {
  if (family == "cuda_onepass") return 7e-3;
  return family == kKeepsBounds ? 3e-3 : 5e-3;
}

/// A few iterations of a family that is tried are timed.
inline constexpr std::int64_t kTimedIterations = 4;
/// After as many bounds begin to hold.
inline constexpr std::int64_t kIterationsBeforeBounds = 10;

/// What trials may cost, of all time: so much, or where bounds hold and will save much more.
inline constexpr double kTrialShare = 0.04;
inline constexpr double kTrialShareIfBoundsHold = 0.25;

/// Seconds that a trial is charged for loading the family: 0 once a share of the time spent so far pays for it and for
/// the `loads` before. Else a problem that is set up again and again would never try the family.
inline double load_in_trial(const std::string& family, double spent, double loads) {
  const double load = load_seconds(family);
  return loads + load > kTrialShare * spent ? load : 0;
}

/// Can a trial of `other` pay within so many iterations of `first`, if both predictions are as wrong as they may be?
/// Those of bounds and of cuda_tensor, whose kernels are the same, are wrong together.
inline bool trial_may_pay(const std::string& other, const std::string& first, const Shape& shape,
                          const GpuLimits& limits, std::int64_t iterations) {
  const FamilyTimes times(shape, limits);
  const bool bounds = other == kKeepsBounds;
  const double off = bounds && first == "cuda_tensor" ? 1 : kMostOff;
  const double now = off * times.of(first);
  const double least = surely_least(other, times);
  const double cost = setup_seconds(other, shape, limits) + least;
  const double share = bounds ? kTrialShareIfBoundsHold : kTrialShare;
  const std::int64_t before = 1 + kTimedIterations + (bounds ? kIterationsBeforeBounds : 0);
  return static_cast<double>(iterations - before) * (now - least) > 2 * cost &&
         cost < share * static_cast<double>(iterations) * now;
}

/// Are bounds the fastest over the whole run, with no other that structure in the points could make faster?
/// The others would be ahead in the few iterations that a trial times. Families by the seconds of a run.
inline bool bounds_alone(const std::vector<std::string>& families, const FamilyTimes& times) {
  if (families.size() < 2 || families.front() != kKeepsBounds) return false;
  return std::none_of(families.begin() + 1, families.end(), [&](const std::string& family) {
    return times.least_of(family) < times.later(kKeepsBounds);
  });
}

/// Are bounds the fastest in a run of so many iterations, if the points have no structure?
inline bool bounds_ahead(const std::vector<std::string>& families, const FamilyTimes& times,
                         std::int64_t iterations) {
  if (iterations == 0) return false;
  const double bounds = times.run(kKeepsBounds, iterations);
  return std::all_of(families.begin(), families.end(), [&](const std::string& family) {
    return family == kKeepsBounds || bounds < times.run(family, iterations);
  });
}

/// The families that may be the fastest, the likeliest first; the one that keeps bounds last, since what it saves is
/// seen after the others, or alone. iterations: of the run to come; 0: nobody knows how many.
inline std::vector<std::string> worth_trying(std::vector<std::string> families, const Shape& shape,
                                             const GpuLimits& limits, std::int64_t iterations = 0) {
  const FamilyTimes times(shape, limits);
  std::map<std::string, double> seconds;
  for (const auto& family : families) {
    seconds[family] = iterations > 0 ? times.run(family, iterations) : times.of(family);
  }
  std::sort(families.begin(), families.end(), [&](const std::string& a, const std::string& b) {
    return seconds.at(a) < seconds.at(b);
  });
  const double most = families.empty() ? 0 : kUnsure * times.of(families.front());
  std::erase_if(families, [&](const std::string& family) { return times.least_of(family) > most; });
  if (iterations > 0 && bounds_alone(families, times)) return {families.front()};
  std::stable_partition(families.begin(), families.end(),
                        [](const std::string& family) { return family != kKeepsBounds; });
  if (iterations > 0 && families.size() > 1) {
    const std::string first = families.front();
    std::erase_if(families, [&](const std::string& family) {
      return family != first && !trial_may_pay(family, first, shape, limits, iterations);
    });
  }
  return families;
}

}  // namespace kmeans::cuda
