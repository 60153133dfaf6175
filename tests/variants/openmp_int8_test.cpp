// SPDX-License-Identifier: Apache-2.0
//
// openmp_int8: the same bits as the reference by every kind of instruction, and bounds that hold,
// which are seen not to hold as soon as an error is planted in them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "harness/exact_step.h"
#include "harness/support/errors.h"
#include "harness/variant.h"
#include "harness/variants/registry.h"
#include "implementations/openmp/_int16_rows.h"
#include "implementations/openmp/_int8_centroids.h"
#include "implementations/openmp/_int8_choice.h"
#include "implementations/openmp/_int8_differences.h"
#include "implementations/openmp/_int8_quantise.h"
#include "implementations/openmp/_nearest_of_few.h"
#include "tests/support/message_of.h"

namespace kmeans {
namespace {

using openmp::Int8Choice;
using openmp::Int8GroupTerms;
using openmp::Int8PointTerms;
using openmp::Int8Rounding;
using openmp::Int8Tiling;
using openmp::kInt8Group;
using openmp::kInt8Points;

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }  // [0, 1)
  double bell() { return uniform() + uniform() + uniform() + uniform() - 2; }
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(bound));
  }

 private:
  std::mt19937_64 engine_;
};

class Environment {
 public:
  explicit Environment(const std::string& value) { setenv("KMEANS_BENCH_INT8", value.c_str(), 1); }
  ~Environment() { unsetenv("KMEANS_BENCH_INT8"); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
};

struct Case {
  std::int64_t n, d, k;
  std::vector<float> points;
  std::vector<float> centroids;
};

/// A coordinate of point i, of one of nine kinds of data.
double coordinate(Random& random, int kind, std::int64_t i, std::int64_t t) {
  switch (kind) {
    case 0: return random.bell();
    case 1: return static_cast<double>(random.below(5));  // ties
    case 2: return static_cast<double>(i % 7 * (t + 1)) + 0.01 * random.bell();
    case 3: return 1e4 + random.bell();
    case 4: return random.bell() * std::exp(8 * random.uniform());  // heavy tails
    case 5: return static_cast<double>(i % 11 * 31 % 17) + 0.1 * static_cast<double>(t);
    case 6: return 1e-40 * random.bell();
    case 7: return i == 0 ? 1e20 : random.bell();  // an outlier
    default: return 1e30 * random.bell();
  }
}

Case make_case(Random& random, std::int64_t n, std::int64_t d, std::int64_t k, int kind) {
  Case data{n, d, k, {}, {}};
  for (std::int64_t at = 0; at < n * d; ++at) {
    data.points.push_back(static_cast<float>(coordinate(random, kind, at / d, at % d)));
  }
  const bool far = random.below(8) == 0;  // centroids beyond the points
  for (std::int64_t j = 0; j < k; ++j) {
    const float scale = far && j % 3 == 1 ? static_cast<float>(random.below(9)) : 1.0F;
    for (std::int64_t t = 0; t < d; ++t) {
      data.centroids.push_back(scale * data.points[random.below(far ? n : j * n / k + 1) * d + t]);
    }
  }
  return data;
}

struct State {
  std::vector<float> centroids;
  std::vector<std::int32_t> labels;
  bool operator==(const State& other) const = default;
};

std::vector<State> run(const char* name, const Case& data, int threads, int iterations) {
  auto instance = find_variant(name)->factory.make_float(Precision::f32);
  Problem<float> problem;
  problem.shape = {data.n, data.d, data.k, Precision::f32};
  problem.points = data.points.data();
  for (const float x : data.points) problem.max_abs = std::max(problem.max_abs, std::abs(x));
  problem.threads = threads;
  instance->setup(problem);
  instance->reset(data.centroids.data());
  std::vector<State> states;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    instance->step(1);
    State state{std::vector<float>(data.k * data.d), std::vector<std::int32_t>(data.n, -7)};
    instance->fetch(state.centroids.data(), state.labels.data());
    states.push_back(std::move(state));
  }
  return states;
}

/// By every kind of instruction and number of threads, in every iteration.
void expect_equal(const Case& data, int kind, int iterations) {
  const auto expected = run("reference", data, 1, iterations);
  for (const Int8Choice& choice : openmp::int8_choices()) {
    const Environment forced(choice.name);
    for (const int threads : {1, 2, 7}) {
      ASSERT_TRUE(run("openmp_int8", data, threads, iterations) == expected)
          << choice.name << " threads=" << threads << " n=" << data.n << " d=" << data.d
          << " k=" << data.k << " kind=" << kind;
    }
  }
}

TEST(OpenmpInt8, EqualsTheReferenceOnRandomProblems) {
  // KMEANS_INT8_PROBLEMS=1000 for more.
  const char* wanted = std::getenv("KMEANS_INT8_PROBLEMS");
  const int problems = wanted != nullptr ? std::atoi(wanted) : 45;
  Random random(17);
  for (int problem = 0; problem < problems; ++problem) {
    const std::int64_t n = 1 + random.below(problem % 9 == 0 ? 3000 : 300);
    const std::int64_t d = 1 + random.below(problem % 5 == 0 ? 300 : 40);
    const std::int64_t k = 1 + random.below(std::min<std::int64_t>(n, 60));
    const int kind = problem % 9;
    expect_equal(make_case(random, n, d, k, kind), kind, 4);
    if (HasFatalFailure()) return;
  }
}

TEST(OpenmpInt8, EqualsTheReferenceAtEdgesOfBlocksGroupsAndWords) {
  Random random(18);
  for (const std::int64_t n : {1, 47, 48, 49, 97, 1009}) {
    for (const std::int64_t k : {1, 2, 7, 8, 9, 16, 17}) {
      const std::int64_t d = std::vector{1, 3, 4, 5, 63, 64, 65}[(n + k) % 7];
      if (k <= n) expect_equal(make_case(random, n, d, k, 0), 0, 3);
      if (HasFatalFailure()) return;
    }
  }
  expect_equal(make_case(random, 211, 2100, 20, 0), 0, 2);
  expect_equal(make_case(random, 9011, 24, 31, 0), 0, 4);  // enough for seven threads
  // Sums of all groups are kept, or of none, and so with tiles.
  for (const std::int64_t k : {128, 129, 2040, 2041}) {
    expect_equal(make_case(random, 2100, 6, k, 0), 0, 2);
    if (k < 2040) expect_equal(make_case(random, 400, 36, k, 0), 0, 2);
  }
}

/// So many points for each centroid that lower ends are brought closer.
TEST(OpenmpInt8, EqualsTheReferenceWhereLowerEndsAreCloser) {
  Random random(31);
  for (int kind = 0; kind < 9; ++kind) {
    const std::int64_t k = std::vector{1, 2, 9}[kind % 3];
    const Case data = make_case(random, 1024 * k + 17, 1 + random.below(40), k, kind);
    ASSERT_TRUE(openmp::Int8Differences::pay(Shape{data.n, data.d, data.k, Precision::f32}));
    expect_equal(data, kind, 3);
    if (HasFatalFailure()) return;
  }
}

TEST(OpenmpInt8, FarAndEqualCentroids) {
  Random random(19);
  Case data = make_case(random, 1003, 12, 30, 0);
  for (std::int64_t j = 0; j < 30; ++j) {
    for (std::int64_t t = 0; t < 12; ++t) {
      float& z = data.centroids[j * 12 + t];
      if (j >= 20) z = data.centroids[(j - 20) * 12 + t];  // equal
      if (j % 10 == 5) z = std::ldexp(1.0F + static_cast<float>(t), 12 * static_cast<int>(j / 5));
    }
  }
  expect_equal(data, 0, 5);
  for (float& z : data.centroids) z = 1e30F + 1e24F * std::round(z);  // all of them far away
  expect_equal(data, 0, 3);
}

/// More groups than sums are kept of, of which fewer are in use.
TEST(OpenmpInt8, MostCentroidsFarAway) {
  Random random(20);
  constexpr std::int64_t kNear = 80;
  Case data = make_case(random, 1003, 40, 200, 0);
  std::fill(data.centroids.begin() + kNear * 40, data.centroids.end(), 1e30F);
  ASSERT_GT(data.k, openmp::kInt8KeptGroups * openmp::kInt8Group);
  ASSERT_LE(kNear, openmp::kInt8KeptGroups * openmp::kInt8Group);
  for (const std::int64_t groups : {1, 16, 17, 1000}) {
    const std::int64_t kept = std::min(groups, openmp::kInt8KeptGroups);
    EXPECT_GE(openmp::Int8Scratch::most_marks(groups),
              kept * openmp::kInt8Group * openmp::kInt8Points / 4);
  }
  expect_equal(data, 0, 5);
  for (std::int64_t j = kNear; j < data.k; ++j) {  // some come back, among all others
    if (j % 3 == 0) {
      std::copy_n(data.points.begin() + j * 40, 40, data.centroids.begin() + j * 40);
    }
  }
  expect_equal(data, 0, 5);
}

/// All stages, a thread's part after another's.
void make_anew(openmp::Int8Centroids& bytes, const Case& data, const openmp::Frame<float>& frame,
               int threads) {
  const float* centroids = data.centroids.data();
  const auto for_all = [&](auto stage) {
    for (int thread = 0; thread < threads; ++thread) stage(thread);
  };
  for_all([&](int thread) {
    bytes.measure(thread, centroids, frame, openmp::part_of(data.k, thread, threads));
  });
  for_all([&](int thread) { bytes.rank(thread, threads); });
  bytes.count(threads);
  for_all([&](int thread) {
    bytes.pack(threads, centroids, frame, openmp::part_of(bytes.groups(), thread, threads));
  });
  for_all(
      [&](int thread) { bytes.bring_closer(openmp::part_of(bytes.groups(), thread, threads)); });
}

TEST(Int8Centroids, AreOrderedByStepAndIndexByAnyNumberOfThreads) {
  Random random(26);
  Case data = make_case(random, 80, 5, 77, 0);
  for (std::int64_t j = 0; j < data.k; ++j) {
    const std::int64_t other = random.below(j + 1);  // a third have steps that others have as well
    for (std::int64_t t = 0; t < data.d; ++t) {
      float& z = data.centroids[j * data.d + t];
      if (j % 3 == 0) z = data.centroids[other * data.d + t];
      if (j % 11 == 4) z = 1e4F;  // far
    }
  }
  Problem<float> problem;
  problem.shape = {data.n, data.d, data.k, Precision::f32};
  problem.points = data.points.data();
  problem.max_abs = 4;
  const openmp::Frame<float> frame(problem);
  const double radius = 6 * frame.scale;
  std::vector<std::pair<double, std::int32_t>> expected;
  for (std::int64_t j = 0; j < data.k; ++j) {
    std::vector<double> centroid(data.d);
    openmp::to_frame(data.centroids.data() + j * data.d, frame, data.d, centroid.data());
    const openmp::Int8Extent extent = openmp::extent_of(centroid.data(), data.d);
    if (extent.norm > openmp::kInt8Far * radius) continue;  // left out
    expected.emplace_back(openmp::int8_step(extent, data.d, openmp::least_centroid_step(radius)),
                          j);
  }
  std::sort(expected.begin(), expected.end());
  ASSERT_LE(expected.size(), 70U);
  ASSERT_GE(expected.size(), 40U);
  const Case earlier = make_case(random, data.k, data.d, data.k, 0);
  std::vector<std::pair<float, float>> lower_ends;
  for (const int threads : {1, 2, 3, 7, 90}) {
    openmp::Int8Centroids bytes(data.k, data.d, radius, threads, openmp::kInt8Unsigned, false,
                                true);
    make_anew(bytes, earlier, frame, 1);  // as where a run begins
    make_anew(bytes, data, frame, threads);
    EXPECT_TRUE(bytes.usable());
    openmp::Int8Task task;
    bytes.give_to(task);
    ASSERT_EQ(static_cast<std::size_t>(task.group_count), (expected.size() + 7) / 8);
    for (std::size_t place = 0; place < expected.size(); ++place) {
      EXPECT_EQ(task.order[place], expected[place].second) << threads << ' ' << place;
    }
    for (std::size_t g = 0; g < static_cast<std::size_t>(task.group_count); ++g) {
      const std::size_t end = std::min((g + 1) * kInt8Group, expected.size());
      EXPECT_EQ(static_cast<std::size_t>(task.groups[g].count), end - g * kInt8Group);
      const auto& last = expected[end - 1];
      EXPECT_FLOAT_EQ(task.groups[g].step, static_cast<float>(last.first)) << threads << ' ' << g;
      const std::pair lower{task.groups[g].lower_residual, task.groups[g].lower_norm};
      if (threads == 1) lower_ends.push_back(lower);
      EXPECT_EQ(lower, lower_ends[g]) << threads << ' ' << g;
    }
  }
}

TEST(OpenmpInt8, SaysWhichInstructionsThereAre) {
  Random random(20);
  const Case data = make_case(random, 9, 3, 2, 0);
  const Environment forced("avx1024");
  const std::string message =
      test::message_of<EnvironmentError>([&] { run("openmp_int8", data, 1, 1); });
  EXPECT_NE(message.find("avx1024"), std::string::npos);
  EXPECT_NE(message.find("plain"), std::string::npos);
}

TEST(OpenmpInt8, TakesTilesForLongRowsAndNeverAnEmulation) {
  const auto tiles = [](const openmp::Int8Tiling&) {};
  const std::vector<Int8Choice> with_amx{
      {"amx-emulated", nullptr, tiles}, {"plain"}, {"avx512vnni"}, {"amx", nullptr, tiles}};
  EXPECT_EQ(openmp::best_int8_choice(with_amx, 32).name, "avx512vnni");
  EXPECT_EQ(openmp::best_int8_choice(with_amx, 64).name, "avx512vnni");
  EXPECT_EQ(openmp::best_int8_choice(with_amx, 65).name, "amx");
  const std::vector<Int8Choice> without{{"amx-emulated", nullptr, tiles}, {"plain"}};
  EXPECT_EQ(openmp::best_int8_choice(without, 3).name, "plain");
  EXPECT_EQ(openmp::best_int8_choice(without, 300).name, "plain");
  for (const std::int64_t d : {3, 300}) {
    const std::string name = openmp::choose_int8_filter(d).name;
    EXPECT_EQ(name.find("emulated"), std::string::npos) << name;
  }
}

/// A block of points and groups of centroids as the filter has them, and as they are.
struct Quantised {
  Quantised(std::vector<std::vector<double>> the_points,
            std::vector<std::vector<double>> the_centroids, double radius,
            const Int8Rounding& rounding, const openmp::Int8Bytes& bytes = openmp::kInt8Unsigned)
      : points(std::move(the_points)), centroids(std::move(the_centroids)), zero(bytes.zero) {
    const auto d = static_cast<std::int64_t>(points[0].size());
    words = (d + 3) / 4;
    point_words.assign(words * kInt8Points + Int8Tiling::kBeyond, 0);
    // What tiles read beyond the points does not count.
    std::fill(point_words.end() - Int8Tiling::kBeyond, point_words.end(), 0xA7A7A7A7U);
    for (std::size_t p = 0; p < kInt8Points; ++p) {
      const double* const point = points[std::min(p, points.size() - 1)].data();
      openmp::quantise_point(point, d, openmp::extent_of(point, d), radius, static_cast<int>(p),
                             point_words.data(), terms, rounding, bytes);
    }
    groups.resize((centroids.size() + kInt8Group - 1) / kInt8Group);
    group_words.assign(groups.size() * words * kInt8Group, 0);
    tiling = Int8Tiling::of(words);
    tiles.assign((groups.size() + 1) / 2 * tiling.steps * openmp::kInt8TileWords, 0);
    for (std::size_t g = 0; g < groups.size(); ++g) fill_group(g, d, radius, rounding, bytes);
  }

  /// The lower ends of all groups, by a share of the differences.
  void bring_closer(double share) {
    const auto d = static_cast<std::int64_t>(points[0].size());
    const auto count = static_cast<std::int64_t>(groups.size());
    openmp::Int8Differences differences(static_cast<std::int64_t>(centroids.size()), d);
    for (std::size_t j = 0; j < centroids.size(); ++j) {
      const std::size_t g = j / kInt8Group;
      differences.put(static_cast<std::int64_t>(g), static_cast<int>(j % kInt8Group),
                      centroids[j].data(), groups[g], group_words.data() + g * words * kInt8Group);
    }
    differences.bring_closer(groups.data(), count, {0, count}, share);
  }

  void fill_group(std::size_t g, std::int64_t d, double radius, const Int8Rounding& rounding,
                  const openmp::Int8Bytes& bytes) {
    Int8GroupTerms& group = groups[g];
    const std::size_t first = g * kInt8Group;
    group.count =
        static_cast<std::int32_t>(std::min<std::size_t>(kInt8Group, centroids.size() - first));
    double step = 0;
    for (int c = 0; c < group.count; ++c) {
      step = std::max(step, openmp::int8_step(openmp::extent_of(centroids[first + c].data(), d), d,
                                              openmp::least_centroid_step(radius)));
    }
    group.step = static_cast<float>(step * 1.0000002);
    for (int c = 0; c < kInt8Group; ++c) {
      if (c < group.count) {
        openmp::quantise_centroid(centroids[first + c].data(), d, c,
                                  group_words.data() + g * words * kInt8Group, group, rounding,
                                  bytes);
      } else {
        openmp::pad_centroid(c, group);
      }
    }
    openmp::copy_to_tiles(group_words.data() + g * words * kInt8Group, words, tiling,
                          static_cast<std::int64_t>(g), tiles.data());
  }

  /// A task without the indices of the centroids.
  openmp::Int8Task task() const {
    openmp::Int8Task task;
    task.points = task.next = point_words.data();
    task.terms = &terms;
    task.valid = static_cast<std::int64_t>(points.size());
    task.centroids = group_words.data();
    task.groups = groups.data();
    task.group_count = static_cast<std::int64_t>(groups.size());
    task.words = words;
    task.tiles = tiles.data();
    task.tiling = tiling;
    return task;
  }

  /// The integer that the filter finds for a point and a centroid, as a float.
  double sum_of(int p, std::size_t j) const {
    const Int8GroupTerms& group = groups[j / kInt8Group];
    const int c = static_cast<int>(j % kInt8Group);
    const float start = openmp::kInt8Zero - group.rate[c] * terms.rate[p];
    double sum = start + static_cast<double>(group.offset[c]);
    for (std::int64_t t = 0; t < words * 4; ++t) {
      const std::uint32_t u = point_words[t / 4 * kInt8Points + p] >> (t % 4 * 8) & 255;
      const std::uint32_t q =
          group_words[(j / kInt8Group * words + t / 4) * kInt8Group + c] >> (t % 4 * 8) & 255;
      const int factor = zero == 0 ? static_cast<std::int8_t>(u) : static_cast<int>(u);
      sum += static_cast<double>(factor) * static_cast<std::int8_t>(q);
    }
    return sum;
  }

  /// By how much the score of a point and a centroid is too high.
  long double error(int p, std::size_t j) const {
    const Int8GroupTerms& group = groups[j / kInt8Group];
    const float score = (static_cast<float>(sum_of(p, j)) - openmp::kInt8Zero) * group.step;
    long double value = 0;
    for (std::size_t t = 0; t < points[p].size(); ++t) {
      const long double z = centroids[j][t];
      value += z * z - 2 * z * static_cast<long double>(points[p][t]);
    }
    return static_cast<long double>(score) + value * terms.rate[p];
  }

  double margin(int p, std::size_t j) const {
    const Int8GroupTerms& group = groups[j / kInt8Group];
    const int c = static_cast<int>(j % kInt8Group);
    return static_cast<double>(terms.norm[p]) * group.residual[c] +
           static_cast<double>(terms.residual[p]) * group.norm[c];
  }

  /// By how much the score of a point and a centroid is off, as a share of its margin.
  double error_of_margin(int p, std::size_t j) const {
    return static_cast<double>(std::abs(error(p, j))) / margin(p, j);
  }

  /// By how much more the score of centroid i is too high than that of j, as a share of what there is
  /// between the lower end of i and the upper end of j where the scores are equal.
  double difference_of_margins(int p, std::size_t i, std::size_t j) const {
    const Int8GroupTerms& group = groups[i / kInt8Group];
    const double below = static_cast<double>(terms.norm[p]) * group.lower_residual +
                         static_cast<double>(terms.residual[p]) * group.lower_norm;
    return static_cast<double>(error(p, i) - error(p, j)) / (below + margin(p, j));
  }

  std::vector<std::vector<double>> points;
  std::vector<std::vector<double>> centroids;
  int zero = 0;
  std::int64_t words = 0;
  std::vector<std::uint32_t> point_words;
  Int8PointTerms terms{};
  std::vector<Int8GroupTerms> groups;
  std::vector<std::uint32_t> group_words;
  Int8Tiling tiling;
  std::vector<std::uint32_t> tiles;
};

std::vector<std::vector<double>> vectors(Random& random, std::size_t count, std::int64_t d,
                                         double scale) {
  std::vector<std::vector<double>> result(count, std::vector<double>(d));
  for (auto& row : result) {
    for (double& x : row) x = scale * random.bell();
  }
  return result;
}

double norm_of(const std::vector<double>& x) {
  return openmp::extent_of(x.data(), static_cast<std::int64_t>(x.size())).norm;
}

double radius_of(const std::vector<std::vector<double>>& points) {
  double radius = 0;
  for (const auto& point : points) radius = std::max(radius, norm_of(point));
  return radius;
}

/// One of many problems. In one dimension, every third, Cauchy and Schwarz give an equality, so that margins
/// are nearly reached.
Quantised drawn(Random& random, int round, const Int8Rounding& rounding) {
  const std::int64_t d = round % 3 == 0 ? 1 : 1 + random.below(round % 10 == 1 ? 900 : 12);
  const auto points = vectors(random, kInt8Points, d, 1);
  // From centroids near the origin to such as are just not left out.
  const auto centroids = vectors(random, 13, d, 1.5 * random.uniform());
  return {points, centroids, radius_of(points), rounding};
}

/// The largest error of a score as a share of its margin.
double largest_error(const Int8Rounding& rounding) {
  Random random(21);
  double largest = 0;
  for (int round = 0; round < 300; ++round) {
    const Quantised data = drawn(random, round, rounding);
    for (int p = 0; p < kInt8Points; ++p) {
      for (std::size_t j = 0; j < data.centroids.size(); ++j) {
        largest = std::max(largest, data.error_of_margin(p, j));
      }
    }
  }
  return largest;
}

TEST(Int8Bound, CoversEveryScore) {
  EXPECT_LE(largest_error({}), 1.0);
  EXPECT_GT(largest_error({}), 0.8);  // and is no wider than it has to be
}

TEST(Int8Bound, PlantedErrorsAreFound) {
  EXPECT_GT(largest_error({.residual = 0.9}), 1.0);
  EXPECT_GT(largest_error({.up = 0.9}), 1.0);
}

/// The same of two centroids and lower ends by a share of the differences.
double largest_difference(double share, double* closest) {
  Random random(30);
  double largest = 0;
  *closest = 1;
  for (int round = 0; round < 150; ++round) {
    Quantised data = drawn(random, round, {});
    data.bring_closer(share);
    for (const Int8GroupTerms& group : data.groups) {
      EXPECT_LE(group.lower_norm, group.largest_norm);
      EXPECT_LE(group.lower_residual, group.largest_residual);
      *closest = std::min<double>(*closest, group.lower_norm / group.largest_norm);
    }
    for (int p = 0; p < kInt8Points; ++p) {
      for (std::size_t i = 0; i < data.centroids.size(); ++i) {
        for (std::size_t j = 0; j < data.centroids.size(); ++j) {
          largest = std::max(largest, data.difference_of_margins(p, i, j));
        }
      }
    }
  }
  return largest;
}

TEST(Int8Bound, LowerEndsCoverDifferencesUnlessAnErrorIsPlanted) {
  double closest = 1;
  const double largest = largest_difference(1, &closest);
  EXPECT_LE(largest, 1.0);
  EXPECT_GT(largest, 0.8);
  EXPECT_LT(closest, 0.7);  // and are closer than upper ends
  EXPECT_GT(largest_difference(0.8, &closest), 1.0);
}

/// Points and centroids that are multiples of their steps lose nothing to the bytes. What remains is
/// the rounding of |z|^2 / (2ab) to an integer, for which only the room in the margin allows.
TEST(Int8Bound, RoomForRoundingIsNeeded) {
  const auto error = [](double room) {
    double largest = 0;
    for (int z = 1; z <= 127; ++z) {
      const std::vector<std::vector<double>> points{{127.0}, {-127.0}};
      const std::vector<std::vector<double>> centroids{{static_cast<double>(z)}, {127.0}};
      const Quantised data(points, centroids, 127.0, {.room = room});
      largest = std::max(largest, data.error_of_margin(0, 0));
    }
    return largest;
  };
  EXPECT_LE(error(Int8Rounding{}.room), 1.0);
  EXPECT_GT(error(0), 1.0);
}

/// Sums keep within [2^23, 2^24), where a float's last bit is worth 1, for the longest vectors and
/// the smallest steps that there can be.
TEST(Int8Bound, SumsStayExact) {
  for (const std::int64_t d : {1, 4, 60, 111, 128, 768, 4096}) {
    const double edge = 1 / std::sqrt(static_cast<double>(d));  // the radius is 1
    std::vector<std::vector<double>> points;
    std::vector<std::vector<double>> centroids;
    for (const double sign : {1.0, -1.0}) {
      points.emplace_back(d, sign * edge);
      points.emplace_back(d, sign * edge * 1e-6);
      for (const double scale : {1e-9, 0.5, 1.0, openmp::kInt8Far}) {
        centroids.emplace_back(d, sign * edge * scale);
      }
    }
    for (std::size_t j = 0; j < centroids.size(); ++j) {
      const Quantised data(points, {centroids[j]}, 1, {});  // each with a step of its own
      for (int p = 0; p < 4; ++p) {
        EXPECT_GE(data.sum_of(p, 0), 0x1p23) << d << ' ' << p << ' ' << j;
        EXPECT_LT(data.sum_of(p, 0), 0x1p24) << d << ' ' << p << ' ' << j;
      }
    }
  }
}

/// Of points half-way between two centroids: how often the filter loses the nearest.
int lost_nearest(const Int8Choice& choice, const Int8Rounding& rounding, double share = 1) {
  Random random(22);
  std::vector<std::int32_t> order(21);
  std::iota(order.begin(), order.end(), 0);
  int lost = 0;
  for (int round = 0; round < 60; ++round) {
    const std::int64_t d = 1 + random.below(round % 2 == 0 ? 2 : 40);
    const auto centroids = vectors(random, 21, d, 1);
    std::vector<std::vector<double>> points(41, std::vector<double>(d));
    for (auto& point : points) {
      const auto i = random.below(21);
      const auto j = random.below(21);
      for (std::int64_t t = 0; t < d; ++t) {
        point[t] = (centroids[i][t] + centroids[j][t]) / 2 + 1e-4 * random.bell();
      }
    }
    Quantised data(points, centroids, std::max(radius_of(points), radius_of(centroids)), rounding,
                   choice.bytes);
    if (round % 3 != 0) data.bring_closer(share);
    openmp::Int8Scratch scratch(3);
    openmp::Int8Survivors survivors;
    openmp::Int8Task task = data.task();
    task.order = order.data();
    const openmp::Int8Session session(choice, task.tiling);
    choice.filter(task, scratch, survivors);
    for (int p = 0; p < 41; ++p) {
      std::int32_t nearest = 0;
      double lowest = INFINITY;
      for (std::int32_t j = 0; j < 21; ++j) {
        const double distance = exact::squared_distance(points[p].data(), centroids[j].data(), d);
        if (distance < lowest) nearest = j;
        lowest = std::min(lowest, distance);
      }
      const std::int32_t count = survivors.count[p];
      const std::int32_t* few = survivors.few[p];
      const auto* end = few + std::min(count, openmp::kInt8Few);
      if (count <= openmp::kInt8Few && std::find(few, end, nearest) == end) ++lost;
    }
    for (int p = 41; p < kInt8Points; ++p) EXPECT_EQ(survivors.count[p], 0);
  }
  return lost;
}

TEST(Int8Filter, KeepsTheNearestUnlessAnErrorIsPlanted) {
  for (const Int8Choice& choice : openmp::int8_choices()) {
    EXPECT_EQ(lost_nearest(choice, {}), 0) << choice.name;
    EXPECT_GT(lost_nearest(choice, {.residual = 0.2}), 0) << choice.name;
    EXPECT_GT(lost_nearest(choice, {}, 0.2), 0) << choice.name;
  }
}

/// Of sums whose upper ends just reach a threshold, in real numbers: how many are missed.
int missed_sums(float slack) {
  Random random(29);
  int missed = 0;
  for (int round = 0; round < 100000; ++round) {
    Int8GroupTerms group;
    group.step = static_cast<float>(std::exp2(-20 * random.uniform()));
    group.inverse = 1 / group.step;
    const auto sum = static_cast<float>(0x1p23 + std::floor(0x1p23 * random.uniform()));
    const auto margin = static_cast<float>(group.step * 1e5 * random.uniform());
    const double upper = (static_cast<double>(sum) - openmp::kInt8Zero) * group.step + margin;
    auto threshold = static_cast<float>(upper);
    if (threshold > upper) threshold = std::nextafter(threshold, -INFINITY);
    float least = 0;
    openmp::find_least_sum(threshold, margin, group, least, slack);
    missed += sum < least ? 1 : 0;
  }
  return missed;
}

TEST(Int8Filter, MarksEverySumThatReachesTheThresholdUnlessAnErrorIsPlanted) {
  EXPECT_EQ(missed_sums(2), 0);
  EXPECT_GT(missed_sums(0), 0);
}

/// The survivors of every kind of instruction for the same points and centroids: all kinds form the
/// same integers, and floats from them by the same operations but for contraction.
TEST(Int8Filter, EveryKindOfInstructionSeesTheSame) {
  Random random(24);
  for (const std::int64_t d : {1, 3, 4, 5, 61, 64, 65, 128, 129, 200, 300}) {
    for (const std::size_t k : {1, 8, 9, 16, 17, 40}) {
      const auto points = vectors(random, 1 + random.below(kInt8Points), d, 1);
      const auto centroids = vectors(random, k, d, 1);
      // Bytes that only some kinds can take, or all.
      const openmp::Int8Bytes bytes =
          random.below(2) == 0 ? openmp::kInt8Unsigned : openmp::kInt8OfPairs;
      const double radius = std::max(radius_of(points), radius_of(centroids));
      const Quantised data(points, centroids, radius, {}, bytes);
      const Quantised with_signs(points, centroids, radius, {}, {bytes.most, 0});
      std::vector<std::int32_t> order(k);
      std::iota(order.begin(), order.end(), 0);
      std::vector<std::vector<float>> bounds;
      for (const Int8Choice& choice : openmp::int8_choices()) {
        if (choice.bytes.most < bytes.most) continue;
        openmp::Int8Task task = choice.bytes.zero == 0 ? with_signs.task() : data.task();
        task.order = order.data();
        openmp::Int8Scratch scratch(task.group_count);
        openmp::Int8Survivors survivors;
        const openmp::Int8Session session(choice, task.tiling);
        choice.filter(task, scratch, survivors);
        bounds.emplace_back(scratch.highest.data(),
                            scratch.highest.data() + task.group_count * kInt8Points);
        for (std::size_t at = 0; at < bounds[0].size(); ++at) {
          const float allowed =
              1e-5F * std::abs(bounds[0][at]) + 2 * task.groups[at / kInt8Points].step;
          ASSERT_NEAR(bounds.back()[at], bounds[0][at], allowed)
              << choice.name << " d=" << d << " k=" << k << " at=" << at;
        }
      }
    }
  }
}

/// The emulated instruction against the sum that it stands for, on shapes less than a whole tile.
TEST(EmulatedTiles, MultiplySignedByUnsignedBytes) {
  namespace tiles = openmp::emulated_tiles;
  Random random(25);
  std::uint8_t a[4][64];
  std::uint8_t b[16][64];
  for (auto& row : a) std::generate(row, row + 64, [&] { return random.below(256); });
  for (auto& row : b) std::generate(row, row + 64, [&] { return random.below(256); });
  std::uint8_t configuration[64] = {1};
  configuration[16] = 64;  // tile 0, the sums: 3 rows of 64 bytes
  configuration[48] = 3;
  configuration[16 + 2] = 20;  // tile 1, 3 rows of 5 words
  configuration[48 + 1] = 3;
  configuration[16 + 4] = 64;  // tile 2, 5 words of 16 columns
  configuration[48 + 2] = 5;
  tiles::loadconfig(configuration);
  tiles::zero(0);
  tiles::loadd(1, a, 64);
  tiles::loadd(2, b, 64);
  tiles::dpbsud(0, 1, 2);
  tiles::dpbsud(0, 1, 2);  // adds
  std::int32_t sums[4][16] = {};
  tiles::stored(0, sums, 64);
  tiles::release();
  for (int row = 0; row < 4; ++row) {
    for (int column = 0; column < 16; ++column) {
      std::int32_t expected = 0;
      for (int at = 0; row < 3 && at < 20; ++at) {
        expected += 2 * static_cast<std::int8_t>(a[row][at]) * b[at / 4][4 * column + at % 4];
      }
      EXPECT_EQ(sums[row][column], expected) << row << ' ' << column;
    }
  }
}

TEST(EmulatedTiles, RefuseWhatTheProcessorRefuses) {
  namespace tiles = openmp::emulated_tiles;
  EXPECT_THROW(tiles::zero(0), std::logic_error);  // no configuration
  std::uint8_t configuration[64] = {1};
  configuration[16] = configuration[16 + 2] = configuration[16 + 4] = 64;
  configuration[48] = configuration[48 + 1] = 3;
  configuration[48 + 2] = 5;
  tiles::loadconfig(configuration);
  EXPECT_THROW(tiles::dpbsud(0, 1, 2), std::logic_error);  // 16 words by 5
  tiles::release();
}

/// Rows of 16-bit integers, as the stage after the bytes has them, and what they stand for.
struct Rows {
  Rows(const std::vector<std::vector<double>>& the_points,
       const std::vector<std::vector<double>>& the_centroids, double the_radius,
       const openmp::Int16Rounding& rounding)
      : points(the_points), centroids(the_centroids), radius(the_radius) {
    const auto d = static_cast<std::int64_t>(points[0].size());
    const auto k = static_cast<std::int64_t>(centroids.size());
    const auto n = static_cast<std::int64_t>(points.size());
    rows = openmp::Int16Centroids(k, d);
    point_rows = openmp::Int16Centroids(n, d);  // for its layout
    terms.resize(n);
    for (std::int64_t i = 0; i < n; ++i) {
      openmp::quantise_int16_point(points[i].data(), d, norm_of(points[i]), radius,
                                   point_rows.row(i), terms[i], rounding);
    }
    for (std::int64_t j = 0; j < k; ++j) {
      openmp::quantise_int16_centroid(centroids[j].data(), d, norm_of(centroids[j]), radius,
                                      rows.row(j), rows.terms(j), rounding);
    }
    room = openmp::int16_room(d, radius);
  }

  /// By how much a score is off, as a share of its margin. Both as keep_of_few() has them.
  double error_of_margin(std::size_t i, std::size_t j) const {
    const auto point = static_cast<std::int64_t>(i);
    const auto centroid = static_cast<std::int64_t>(j);
    std::array<std::int32_t, 4> products;
    const std::int16_t* row = rows.row(centroid);
    openmp::int16_products({point_rows.row(point), point_rows.row(point)}, {row, row, row, row},
                           rows.stride(), products.data());
    const openmp::Int16CentroidTerms& of = rows.terms(centroid);
    const double rate = terms[i].rate;
    const long double score = of.step * products[3] - of.half * rate;
    const double margin = of.margin + terms[i].residual * of.norm + room * rate;
    long double value = 0;
    for (std::size_t t = 0; t < points[i].size(); ++t) {
      const long double z = centroids[j][t];
      value += z * z - 2 * z * static_cast<long double>(points[i][t]);
    }
    return static_cast<double>(std::abs(score + value * rate / 2) / margin);
  }

  std::vector<std::vector<double>> points;
  std::vector<std::vector<double>> centroids;
  double radius;
  openmp::Int16Centroids rows;
  openmp::Int16Centroids point_rows;
  std::vector<openmp::Int16PointTerms> terms;
  double room = 0;
};

double largest_int16_error(const openmp::Int16Rounding& rounding) {
  Random random(27);
  double largest = 0;
  for (int round = 0; round < 100; ++round) {
    const std::int64_t d = round % 3 == 0 ? 1 : 1 + random.below(round % 10 == 1 ? 900 : 70);
    auto points = vectors(random, 20, d, 1);
    for (double& x : points[0]) x *= 1e-12;  // far below the least step
    const auto centroids = vectors(random, 13, d, 1.5 * random.uniform());
    const Rows rows(points, centroids, radius_of(points), rounding);
    for (std::size_t i = 0; i < points.size(); ++i) {
      for (std::size_t j = 0; j < centroids.size(); ++j) {
        largest = std::max(largest, rows.error_of_margin(i, j));
      }
    }
  }
  return largest;
}

TEST(Int16Bound, CoversEveryScore) {
  EXPECT_LE(largest_int16_error({}), 1.0);
  EXPECT_GT(largest_int16_error({}), 0.8);  // in one dimension it is nearly reached
}

TEST(Int16Bound, PlantedErrorsAreFound) {
  EXPECT_GT(largest_int16_error({.residual = 0.9}), 1.0);
  EXPECT_GT(largest_int16_error({.up = 0.9}), 1.0);
}

/// The longest vectors that there are, all in one coordinate or spread: no integer and no sum of products
/// is beyond what its bits hold.
TEST(Int16Bound, ProductsFit) {
  for (const std::int64_t d : {1, 2, 31, 32, 33, 64, 200, 4096, 1 << 18}) {
    for (const bool spread : {false, true}) {
      std::vector<std::vector<double>> longest(2, std::vector<double>(d));
      const double each = spread ? 1 / std::sqrt(static_cast<double>(d)) : 1;
      for (std::int64_t t = 0; t < (spread ? d : 1); ++t) {
        longest[0][t] = each;
        longest[1][t] = -each;
      }
      const Rows rows(longest, longest, 1, {});
      for (std::int64_t i = 0; i < 2; ++i) {
        double squares = 0;
        for (std::int64_t t = 0; t < d; ++t) squares += std::pow(rows.point_rows.row(i)[t], 2);
        EXPECT_LE(squares, 0x1p30) << d;
        EXPECT_GT(squares, 0x1p29) << d;  // and the bits are used
        for (std::size_t j = 0; j < 2; ++j) EXPECT_LE(rows.error_of_margin(i, j), 1.0) << d;
      }
    }
  }
}

/// Of points half-way between two centroids: how often the nearest is lost, and how many stay.
int lost_by_int16(const openmp::Int16Rounding& rounding, std::int64_t* stay) {
  Random random(28);
  int lost = 0;
  *stay = 0;
  for (int round = 0; round < 300; ++round) {
    const std::int64_t d = 1 + random.below(round % 2 == 0 ? 2 : 70);
    const auto k = static_cast<std::int32_t>(2 + random.below(31));
    const auto centroids = vectors(random, k, d, 1);
    std::vector<std::vector<double>> points(10, std::vector<double>(d));
    for (auto& point : points) {
      const auto i = random.below(k);
      const auto j = random.below(k);
      for (std::int64_t t = 0; t < d; ++t) {
        point[t] = (centroids[i][t] + centroids[j][t]) / 2 + 1e-6 * random.bell();
      }
    }
    const Rows rows(points, centroids, std::max(radius_of(points), radius_of(centroids)), rounding);
    std::int32_t all_few[kInt8Points][openmp::kInt8Few + kInt8Group];
    std::int32_t counts[kInt8Points];
    auto list = std::make_unique<openmp::Int16List>();
    list->begin(rows.point_rows.row(0), rows.terms.data());
    list->keep(rows.room, rows.rows, all_few, counts);  // of an empty list nothing
    for (std::int32_t i = 0; i < 10; ++i) {
      std::iota(all_few[i], all_few[i] + k, 0);
      if (i != 3) list->add(i, all_few[i], k);
      counts[i] = -7;
    }
    list->keep(rows.room, rows.rows, all_few, counts);
    EXPECT_EQ(counts[3], -7);  // not listed
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (i == 3) continue;
      const std::int32_t* few = all_few[i];
      const std::int32_t left = counts[i];
      std::int32_t nearest = 0;
      double lowest = INFINITY;
      for (std::int32_t j = 0; j < k; ++j) {
        const double distance = exact::squared_distance(points[i].data(), centroids[j].data(), d);
        if (distance < lowest) nearest = j;
        lowest = std::min(lowest, distance);
      }
      *stay += left;
      lost += std::find(few, few + left, nearest) == few + left ? 1 : 0;
      EXPECT_EQ(std::set<std::int32_t>(few, few + left).size(), static_cast<std::size_t>(left));
    }
  }
  return lost;
}

TEST(Int16Rows, KeepTheNearestUnlessAnErrorIsPlanted) {
  std::int64_t stay = 0;
  EXPECT_EQ(lost_by_int16({}, &stay), 0);
  EXPECT_LT(stay, 3000 * 3);  // of 17 on average; both of the nearest nearly always
  EXPECT_GT(lost_by_int16({.residual = 0.1}, &stay), 0);
}

/// Pairs of centroids whose distances differ by little: how often the float32 answer is wrong.
int wrong_of_few(double share, int* open) {
  Random random(23);
  int wrong = 0;
  *open = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::int64_t d = 1 + random.below(70);
    std::vector<float> point(d);
    std::vector<float> centroids(2 * d);
    for (std::int64_t t = 0; t < d; ++t) {
      point[t] = static_cast<float>(random.bell());
      const auto difference = static_cast<float>(random.bell());
      centroids[t] = point[t] + difference;
      centroids[d + t] = point[t] - difference * (1 + 1e-7F * static_cast<float>(random.bell()));
    }
    const std::int32_t few[]{0, 1};
    const auto nearest = openmp::nearest_of_few(point.data(), centroids.data(), d, few, 2, share);
    const double first = exact::squared_distance(point.data(), centroids.data(), d);
    const double second = exact::squared_distance(point.data(), centroids.data() + d, d);
    *open += nearest < 0 ? 1 : 0;
    wrong += nearest >= 0 && nearest != (second < first ? 1 : 0) ? 1 : 0;
  }
  return wrong;
}

TEST(NearestOfFew, IsNeverWrongUnlessAnErrorIsPlanted) {
  int open = 0;
  EXPECT_EQ(wrong_of_few(1, &open), 0);
  EXPECT_GT(open, 0);
  EXPECT_GT(wrong_of_few(0, &open), 0);
}

/// What float32_distances() loses, as a share of its bound: squares that all round down when they are
/// added, next to random ones.
double largest_float32_loss(double share) {
  Random random(26);
  double largest = 0;
  for (const std::int64_t d : {1, 7, 16, 33, 100, 200, 768, 4099}) {
    for (int kind = 0; kind < 40; ++kind) {
      std::vector<float> point(d);
      const std::vector<float> centroid(d);
      for (std::int64_t t = 0; t < d; ++t) {
        // After a 1 each later square is a little less than half a last digit, or more, and is lost
        // or doubled.
        const double small = 0x1p-12 * (1 + (kind - 20) * 0.01);
        point[t] = static_cast<float>(kind == 0 ? random.bell() : t < 64 ? 1.0 : small);
      }
      std::array<float, 1> distance;
      openmp::float32_distances<1>(point.data(), {centroid.data()}, d, distance);
      const double exact = exact::squared_distance(point.data(), centroid.data(), d);
      const double unit = static_cast<double>(openmp::float32_roundings(d)) * share * 0x1p-24;
      largest = std::max(largest, std::abs(distance[0] - exact) / (exact * unit));
    }
  }
  return largest;
}

TEST(NearestOfFew, RoundsNoMoreThanItsBoundSays) {
  EXPECT_LE(largest_float32_loss(1), 1.0);
  EXPECT_GT(largest_float32_loss(0.1), 1.0);
}

/// Ties among few, in any order: the lowest index, as the reference has it.
TEST(NearestOfFew, Float64TakesTheLowestIndexOfATie) {
  const std::vector<float> centroids{3, 1, -1, 1, 5};  // of d = 1
  const float point = 0;
  const std::int32_t few[]{3, 0, 2, 1};
  EXPECT_EQ(openmp::nearest_of_few(&point, centroids.data(), 1, few, 4), -1);
  EXPECT_EQ(openmp::float64_nearest_of_few(&point, centroids.data(), 1, few, 4), 1);
  EXPECT_EQ(openmp::float64_nearest_of_few(&point, centroids.data(), 1, few, 2), 3);
}

/// The upper end of the only centroid's score, by one kind of instructions, where all bytes are the largest.
float upper_end(const Int8Choice& choice, const openmp::Int8Bytes& bytes) {
  const std::vector<std::vector<double>> ones(1, std::vector<double>(4, 1.0));
  const Quantised data(ones, ones, 2, {}, bytes);
  const std::vector<std::int32_t> order{0};
  openmp::Int8Task task = data.task();
  task.order = order.data();
  openmp::Int8Scratch scratch(1);
  openmp::Int8Survivors survivors;
  const openmp::Int8Session session(choice, task.tiling);
  choice.filter(task, scratch, survivors);
  return scratch.highest[0];
}

TEST(Int8Filter, EachKindOfInstructionWantsItsOwnBytes) {
  const Int8Choice plain{"plain", openmp::int8_plain::filter};
  for (const Int8Choice& choice : openmp::int8_choices()) {
    const float right = upper_end(plain, {choice.bytes.most, choice.bytes.most + 1});
    EXPECT_NEAR(upper_end(choice, choice.bytes), right, 1e-4 * std::abs(right)) << choice.name;
    if (choice.bytes == openmp::kInt8Unsigned) continue;
    const float full = upper_end(plain, openmp::kInt8Unsigned);
    EXPECT_GT(std::abs(upper_end(choice, openmp::kInt8Unsigned) - full), 0.1 * std::abs(full))
        << choice.name << " neither saturates nor takes a sign, so it need not have its own bytes";
  }
}

}  // namespace
}  // namespace kmeans
