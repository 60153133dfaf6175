// SPDX-License-Identifier: Apache-2.0
//
// Points by which openmp_best sees what a problem is like.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "harness/support/parallel.h"
#include "harness/variant.h"
#include "implementations/openmp/_kept_memory.h"
#include "implementations/openmp/_range.h"

namespace kmeans::openmp {

/// `count` points, evenly spaced over all; `between`: those halfway to the next ones.
inline KeptVector<float> evenly_spaced(const Problem<float>& problem, std::int64_t count,
                                       bool between = false) {
  const auto [n, d, k, precision] = problem.shape;
  KeptVector<float> points;
  points.reserve(count * d);
  for (std::int64_t place = 0; place < count; ++place) {
    const float* row = problem.points + (2 * place + (between ? 1 : 0)) * n / (2 * count) * d;
    points.insert(points.end(), row, row + d);
  }
  return points;
}

/// As many centres of neighbourhoods at most: their distances to a point fill a register.
inline constexpr std::int64_t kMaxPlaces = 8;

/// Of each centre, a row, the `wanted` points nearest to it, the nearest first, of equally near ones the first; all if
/// there are no more. Takes memory for twice as many of each thread, however many are equally near.
/// in_team: as _crew.h has it, whose threads share the points.
template <class Team>
std::vector<std::vector<std::int64_t>> nearest_rows(const Problem<float>& problem,
                                                    const std::vector<std::int64_t>& centres,
                                                    std::int64_t wanted, const Team& in_team) {
  using Distances = std::array<float, kMaxPlaces>;
  using Near = std::pair<float, std::int64_t>;
  const auto [n, d, k, precision] = problem.shape;
  const float* const points = problem.points;
  const auto places = centres.size();
  std::vector<float> packed(d * kMaxPlaces);
  for (std::int64_t t = 0; t < d; ++t) {
    for (std::size_t place = 0; place < places; ++place) {
      packed[t * kMaxPlaces + static_cast<std::int64_t>(place)] = points[centres[place] * d + t];
    }
  }
  // In a register, which an array of sums is not.
  using Lanes = float __attribute__((vector_size(kMaxPlaces * sizeof(float))));
  using Flags = std::int32_t __attribute__((vector_size(kMaxPlaces * sizeof(float))));
  const auto form_distances = [points, table = packed.data(), d = d](std::int64_t i, Lanes& sums) {
    sums = Lanes{};
    for (std::int64_t t = 0; t < d; ++t) {
      Lanes row;
      std::memcpy(&row, table + t * kMaxPlaces, sizeof row);
      const Lanes difference = points[i * d + t] - row;
      sums += difference * difference;
    }
  };
  // Only points that are as near as the nearest of a sample need be compared: a few of a thousand.
  const std::int64_t stride = std::max<std::int64_t>(1, n / 1024);
  std::array<std::vector<float>, kMaxPlaces> sample;
  for (std::int64_t i = 0; i < n; i += stride) {
    Lanes here;
    form_distances(i, here);
    for (std::size_t place = 0; place < places; ++place) {
      sample[place].push_back(std::bit_cast<Distances>(here)[place]);
    }
  }
  const std::int64_t rank = std::min(std::ssize(sample[0]) - 1, 2 * wanted / stride + 8);
  constexpr float kNobody = -1;
  Distances limits;
  limits.fill(kNobody);
  for (std::size_t place = 0; place < places; ++place) {
    const auto nearest = sample[place].begin() + rank;
    std::nth_element(sample[place].begin(), nearest, sample[place].end());
    limits[place] = *nearest;
  }
  wanted = std::min(wanted, n);
  using Found = std::vector<std::vector<Near>>;
  Found found(places);
  // Many points may be as near as the limit, such as equal ones, so what is found is cut to what is wanted.
  const auto keep_nearest = [wanted](std::vector<Near>& near) {
    if (std::ssize(near) <= wanted) return;
    std::nth_element(near.begin(), near.begin() + wanted - 1, near.end());
    near.resize(wanted);
  };
  const auto take = [&](std::int64_t i, const Distances& here, Distances& own, Found& to) {
    for (std::size_t place = 0; place < places; ++place) {
      if (here[place] > own[place]) continue;
      to[place].emplace_back(here[place], i);
      if (std::ssize(to[place]) < 2 * wanted) continue;
      keep_nearest(to[place]);
      // Of equally near ones the first are taken, and those that follow are not.
      own[place] = std::nextafter(to[place][wanted - 1].first, kNobody);
    }
  };
  const auto look_at = [&](Range range, Found& to) {
    Distances own = limits;
    Lanes nearest;
    std::memcpy(&nearest, own.data(), sizeof nearest);
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      Lanes here;
      form_distances(i, here);
      const Flags nearer = here <= nearest;
      // Most points are near no place.
      const auto pairs = std::bit_cast<std::array<std::int64_t, kMaxPlaces / 2>>(nearer);
      if ((pairs[0] | pairs[1] | pairs[2] | pairs[3]) == 0) continue;
      take(i, std::bit_cast<Distances>(here), own, to);
      std::memcpy(&nearest, own.data(), sizeof nearest);
    }
    for (std::vector<Near>& near : to) keep_nearest(near);
  };
  constexpr double kWorth = 4096;  // points of a thread
  const int threads = worth_threads(static_cast<double>(n), kWorth, problem.threads);
  while (std::ranges::any_of(limits, [](float limit) { return limit != kNobody; })) {
    std::vector<Found> of_threads(threads, Found(places));
    std::atomic<bool> out_of_memory{false};  // no exception may leave a team
    in_team(threads, [&, n = n](int thread, int present) {
      try {
        look_at(part_of(n, thread, present), of_threads[thread]);
      } catch (const std::bad_alloc&) {
        out_of_memory = true;
      }
    });
    if (out_of_memory) throw std::bad_alloc();
    for (std::size_t place = 0; place < places; ++place) {
      for (Found& own : of_threads) {
        found[place].insert(found[place].end(), own[place].begin(), own[place].end());
      }
      keep_nearest(found[place]);
      // Once more where the sample was misleading: with all points.
      const bool enough = std::ssize(found[place]) >= wanted;
      if (limits[place] != kNobody && !enough) found[place].clear();
      limits[place] = enough ? kNobody : std::numeric_limits<float>::infinity();
    }
  }
  std::vector<std::vector<std::int64_t>> rows(places);
  for (std::size_t place = 0; place < places; ++place) {
    keep_nearest(found[place]);
    std::ranges::sort(found[place]);  // whatever the threads
    for (const auto& [distance, row] : found[place]) rows[place].push_back(row);
  }
  return rows;
}

/// Neighbourhoods of four to eight points, 128 points each: the boxes about few of the points are as small there as
/// those about all. Every point that is looked through costs a distance.
template <class Team>
KeptVector<float> neighbourhoods(const Problem<float>& problem, const Team& in_team) {
  constexpr std::int64_t kNeighbours = 128;
  const auto [n, d, k, precision] = problem.shape;
  const std::int64_t count =
      std::clamp<std::int64_t>(n / (128 * kNeighbours), kMaxPlaces / 2, kMaxPlaces);
  std::vector<std::int64_t> centres;
  for (std::int64_t place = 0; place < count; ++place) {
    centres.push_back((2 * place + 1) * n / (2 * count));
  }
  KeptVector<float> points;
  for (const auto& rows : nearest_rows(problem, centres, kNeighbours, in_team)) {
    for (const std::int64_t near : rows) {
      const float* row = problem.points + near * d;
      points.insert(points.end(), row, row + d);
    }
  }
  return points;
}

}  // namespace kmeans::openmp
