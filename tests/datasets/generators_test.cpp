// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "datasets/catalogue.h"
#include "datasets/dataset.h"
#include "datasets/generators.h"
#include "harness/support/sha256.h"
#include "tests/datasets/test_tools.h"

namespace kmeans {
namespace {

using nlohmann::json;
using test::message_of;
using test::values_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

DatasetSpec spec_of(const std::string& text) {
  return parse_dataset(json::parse(text), "/datasets/0");
}

std::vector<double> doubles(const std::string& text) {
  return values_of<double>(generate(spec_of(text), ScalarType::f64));
}

std::string hash_of(const Points& points) {
  return sha256_hex(points.data<void>(),
                    static_cast<std::size_t>(points.n() * points.d() * size_of(points.scalar())));
}

void expect_near(const std::vector<double>& values, const std::vector<double>& expected,
                 double tolerance) {
  ASSERT_GE(values.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(values[i], expected[i], tolerance);
}

// The values below come from an independent implementation of docs/datasets.md in Python.
TEST(Generators, UniformIsKnown) {
  const auto spec = spec_of(R"({"generator": "uniform", "n": 3, "d": 2})");
  EXPECT_THAT(values_of<double>(generate(spec, ScalarType::f64)),
              ElementsAre(0.6935121390102292, 0.9717668398552313, 0.4265688115847973,
                          0.8062073084370032, 0.35901266185210323, 0.8453660391206353));
  EXPECT_EQ(hash_of(generate(spec, ScalarType::f64)),
            "4005c9ce416f2fe7cded6ff2200eb95b19afa753b282e4c0c687537068e6bffb");
  EXPECT_EQ(hash_of(generate(spec, ScalarType::f32)),
            "a2713fbbe94434946cfba67ac7c1943a0be2bd66bffc86443878481f9881e205");
}

TEST(Generators, UniformKeepsItsRange) {
  const auto values =
      doubles(R"({"generator": "uniform", "n": 10000, "d": 3, "low": -2, "high": 5, "seed": 9})");
  EXPECT_GE(*std::min_element(values.begin(), values.end()), -2);
  EXPECT_LT(*std::max_element(values.begin(), values.end()), 5);
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / 30000;
  EXPECT_NEAR(mean, 1.5, 5 * 7 / std::sqrt(12.0 * 30000));
}

TEST(Generators, OthersAreKnown) {
  const std::vector<double> z{0.5058303907210692, 1.9074192366859695,  -0.18511654713834488,
                              0.8640045644522513, -0.3610991566136526, 1.0167593553238758};
  expect_near(doubles(R"({"generator": "gaussian", "n": 3, "d": 2})"), z, 1e-14);
  expect_near(doubles(R"({"generator": "offset", "n": 3, "d": 2})"), {1e6 + z[0], 1e6 + z[1]},
              1e-9);
  expect_near(doubles(R"({"generator": "blobs", "n": 3, "d": 2})"),
              {2.916692525008189, 1.7165029934345082, -1.3237034536260424, -4.658584159719148,
               -1.072943856946217, 2.119796563014548},
              1e-13);
  expect_near(doubles(R"({"generator": "line", "n": 3})"),
              {10.50583039072107, 41.90741923668597, 29.814883452861654}, 1e-13);
  expect_near(doubles(R"({"generator": "embedding", "n": 2, "d": 3})"),
              {-0.8889846044179367, -1.6419649554774705, -0.4601754595390891, 0.13325099347973468,
               -0.8593394577803691, -0.035028147883717956},
              1e-13);
  expect_near(
      doubles(R"({"generator": "embedding", "n": 1, "d": 5, "k": 7, "sigma": 0.25, "seed": 9})"),
      {0.38822937112564493, -0.7280213291108173, -0.3529698670448554, 0.2037888321613958,
       -0.05884256456962769},
      1e-13);
  EXPECT_THAT(doubles(R"({"generator": "grid", "n": 4, "d": 2})"),
              ElementsAre(2, 3, 1, 3, 1, 3, 3, 1));
}

TEST(Generators, EmbeddingHasAPowerLawSpectrumWithoutAnAxis) {
  // Before the rotation, coordinate t has variance (1 + 1/4 + sigma^2) / (t + 1): in all, 1.5 H(d). With so
  // many clusters the drawn centres are near their expectation (deviations of a few percent).
  const std::int64_t n = 20000;
  const std::int64_t d = 16;
  const auto x = doubles(R"({"generator": "embedding", "n": 20000, "d": 16, "k": 10000})");
  double harmonic = 0;
  double total = 0;
  double largest = 0;
  for (std::int64_t t = 0; t < d; ++t) {
    double sum = 0;
    double squares = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      sum += x[i * d + t];
      squares += x[i * d + t] * x[i * d + t];
    }
    const double variance = squares / n - sum / n * (sum / n);
    harmonic += 1.0 / static_cast<double>(t + 1);
    total += variance;
    largest = std::max(largest, variance);
  }
  EXPECT_NEAR(total / (1.5 * harmonic), 1, 0.1);
  // No axis has the share of the first direction for itself.
  EXPECT_LT(largest, 0.9 / harmonic * total);
}

TEST(Generators, DirectionsAreEmbeddingsOfLengthOne) {
  const auto plain = doubles(R"({"generator": "embedding", "n": 3, "d": 4, "seed": 2})");
  const auto unit = doubles(R"({"generator": "directions", "n": 3, "d": 4, "seed": 2})");
  for (std::size_t i = 0; i < 12; i += 4) {
    const double length =
        std::hypot(std::hypot(plain[i], plain[i + 1]), plain[i + 2], plain[i + 3]);
    for (std::size_t t = i; t < i + 4; ++t) EXPECT_NEAR(unit[t] * length, plain[t], 1e-14);
  }
}

TEST(Generators, GlobularCentresAreSeparated) {
  // With a tiny spread about the centres, points of one cluster are near each other and all others
  // are at least ten standard deviations away.
  const auto points =
      generate(spec_of(R"({"generator": "globular", "n": 400, "d": 3, "k": 6, "sigma": 50})"),
               ScalarType::f64);
  const double* x = points.data<double>();
  std::vector<std::int64_t> centres;
  for (std::int64_t i = 0; i < points.n(); ++i) {
    const auto near = [&](std::int64_t c) {
      double sum = 0;
      for (int t = 0; t < 3; ++t) sum += std::pow(x[3 * i + t] - x[3 * c + t], 2);
      return std::sqrt(sum) < 10 * 50;
    };
    if (std::none_of(centres.begin(), centres.end(), near)) centres.push_back(i);
  }
  EXPECT_EQ(centres.size(), 6U);
}

double nearest_pair(const std::vector<double>& centres, std::int64_t d, std::int64_t apart) {
  const auto k = static_cast<std::int64_t>(centres.size()) / d;
  double nearest = INFINITY;
  for (std::int64_t j = 0; j < k; ++j) {
    for (std::int64_t other = j + apart; other < k; ++other) {
      double sum = 0;
      for (std::int64_t t = 0; t < d; ++t) {
        sum += std::pow(centres[j * d + t] - centres[other * d + t], 2);
      }
      nearest = std::min(nearest, std::sqrt(sum));
    }
  }
  return nearest;
}

TEST(Generators, GlobularAsPrintedNeverTestsTheLastCentre) {
  const auto centres = [](const std::string& generator, int seed) {
    const auto spec =
        spec_of(R"({"generator": ")" + generator +
                R"(", "n": 1, "d": 3, "k": 10, "sigma": 5, "seed": )" + std::to_string(seed) + "}");
    return globular_clusters(spec.json).centres;
  };
  int near = 0;
  for (int seed = 1; seed <= 100; ++seed) {
    const auto strict = centres("globular", seed);
    EXPECT_GT(nearest_pair(strict, 3, 1), 50) << seed;
    const auto printed = centres("globular-as-printed", seed);
    EXPECT_GT(nearest_pair(printed, 3, 2), 50) << seed;
    if (nearest_pair(printed, 3, 1) > 50) {
      EXPECT_EQ(printed, strict) << seed;  // the same candidates were kept
    } else {
      ++near;
    }
  }
  EXPECT_GT(near, 5);
  EXPECT_LT(near, 50);
}

TEST(Generators, GlobularPointsLieAboutTheCentreThatTheyAreSaidToHave) {
  const auto spec = spec_of(R"({"generator": "globular", "n": 500, "d": 3, "k": 6, "sigma": 50})");
  const auto clusters = globular_clusters(spec.json);
  const auto points = generate(spec, ScalarType::f64);
  ASSERT_EQ(clusters.centres.size(), 18U);
  for (std::int64_t i = 0; i < points.n(); ++i) {
    double sum = 0;
    for (std::int64_t t = 0; t < 3; ++t) {
      const double away =
          points.data<double>()[3 * i + t] - clusters.centres[3 * clusters.centre(i) + t];
      sum += away * away;
    }
    EXPECT_LT(std::sqrt(sum), 5.5 * 50) << i;
  }
}

TEST(Generators, GlobularRefusesWhatTheSourceTriesForEver) {
  const auto spec = spec_of(R"({"generator": "globular", "n": 10, "d": 2, "k": 10, "sigma": 1})");
  EXPECT_THAT(message_of([&] { generate(spec, ScalarType::f32); }),
              AllOf(HasSubstr("of 10 centres could be placed"), HasSubstr("larger sigma or d")));
}

TEST(Generators, GlobularCentresFarApartTakeNoTime) {
  // A fuzzer's find, in larger: comparing all centres in all coordinates would be 6.7e10
  // operations, and beyond 1e9 it is refused (below). The first coordinate separates nearly all of them
  // apart.
  const auto spec =
      spec_of(R"({"generator": "globular", "n": 1, "d": 334, "k": 20000, "sigma": 1})");
  EXPECT_EQ(generate(spec, ScalarType::f64).d(), 334);
}

TEST(Generators, GlobularRefusesWhatWouldTakeForEver) {
  // So narrow that no coordinate alone separates two centres: up to k^2 d / 2 = 3.4e10
  // operations.
  const auto spec =
      spec_of(R"({"generator": "globular", "n": 1, "d": 4096, "k": 4096, "sigma": 1.1e-4})");
  EXPECT_THAT(message_of([&] { generate(spec, ScalarType::f64); }),
              AllOf(HasSubstr("1 000 000 000 operations"), HasSubstr("smaller k or d")));
}

TEST(Generators, RefuseMoreCentresThanTheirPointsJustify) {
  // Memory is planned for the points; these centres would take 25 GiB for one point.
  for (const char* description :
       {R"({"generator": "blobs", "n": 1, "d": 3334, "k": 1000000})",
        R"({"generator": "globular", "n": 1, "d": 3334, "k": 1000000})",
        R"({"generator": "imbalanced", "n": 1, "d": 3334, "k": 1000000})",
        R"({"generator": "duplicates", "n": 1, "d": 3334, "distinct": 1000000})"}) {
    const auto spec = spec_of(description);
    EXPECT_THAT(message_of([&] { generate(spec, ScalarType::f64); }),
                AllOf(HasSubstr("1 000 000 centres of 3334 coordinates for 1 point are too many"),
                      HasSubstr("at most 5 032")))
        << description;
  }
}

TEST(Generators, ToyHasThreeClustersAndOutliers) {
  const auto points = generate(spec_of(R"({"generator": "toy", "n": 10000})"), ScalarType::f64);
  ASSERT_EQ(points.d(), 2);
  const double* x = points.data<double>();
  const double centres[3][2] = {{-4, -2}, {4, -3}, {0, 5}};
  int counts[3] = {};
  int far = 0;
  for (std::int64_t i = 0; i < points.n(); ++i) {
    bool found = false;
    for (int j = 0; j < 3; ++j) {
      const double squared =
          std::pow(x[2 * i] - centres[j][0], 2) + std::pow(x[2 * i + 1] - centres[j][1], 2);
      if (squared < 16) {  // four deviations: all but 0.03% of a cluster
        ++counts[j];
        found = true;
      }
    }
    far += found ? 0 : 1;
  }
  for (const int count : counts) EXPECT_NEAR(count, 3230, 250);
  // 4% are outliers in a square of side 24; three discs of radius 4 hide 26% of them.
  EXPECT_NEAR(far, 296, 90);
}

TEST(Generators, AwkwardSetsAreWhatTheySay) {
  const auto rows_of = [](const std::string& text) {
    const auto points = generate(spec_of(text), ScalarType::f64);
    std::set<std::vector<double>> rows;
    for (std::int64_t i = 0; i < points.n(); ++i) {
      const double* row = points.data<double>() + i * points.d();
      rows.emplace(row, row + points.d());
    }
    return rows.size();
  };
  EXPECT_EQ(rows_of(R"({"generator": "duplicates", "n": 1000, "d": 3})"), 7U);
  EXPECT_EQ(rows_of(R"({"generator": "identical", "n": 1000, "d": 3})"), 1U);
  EXPECT_EQ(rows_of(R"({"generator": "grid", "n": 1000, "d": 2, "side": 3})"), 9U);
  const auto outlier = doubles(R"({"generator": "outlier", "n": 1000, "d": 2, "distance": 500})");
  EXPECT_EQ(outlier[1998], 500);
  EXPECT_EQ(outlier[1999], 500);
  EXPECT_LT(*std::max_element(outlier.begin(), outlier.end() - 2), 6);

  const auto halves = doubles(R"({"generator": "imbalanced", "n": 4096, "d": 1, "sigma": 0})");
  std::vector<std::int64_t> sizes;
  for (const double value : std::set<double>(halves.begin(), halves.end())) {
    sizes.push_back(std::count(halves.begin(), halves.end(), value));
  }
  std::sort(sizes.rbegin(), sizes.rend());
  ASSERT_EQ(sizes.size(), 8U);
  EXPECT_NEAR(static_cast<double>(sizes[0]), 2048, 5 * 32);
  EXPECT_NEAR(static_cast<double>(sizes[1]), 1024, 5 * 28);
}

TEST(Generators, ThreadsDoNotMatter) {
  const auto spec = spec_of(R"({"generator": "blobs", "n": 50000, "d": 3, "k": 20})");
  const auto several = hash_of(generate(spec, ScalarType::f32));
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const auto single = hash_of(generate(spec, ScalarType::f32));
  sched_setaffinity(0, sizeof(before), &before);
  EXPECT_EQ(single, several);
}

TEST(Generators, Float32IsTheRoundedFloat64) {
  const auto spec = spec_of(R"({"generator": "gaussian", "n": 1000, "d": 3})");
  const auto wide = values_of<double>(generate(spec, ScalarType::f64));
  const auto narrow = values_of<float>(generate(spec, ScalarType::f32));
  for (std::size_t i = 0; i < wide.size(); ++i) ASSERT_EQ(narrow[i], static_cast<float>(wide[i]));
}

TEST(Generators, FewerRowsAreTheFirstOnes) {
  const auto many = doubles(R"({"generator": "blobs", "n": 1000, "d": 3})");
  const auto few = doubles(R"({"generator": "blobs", "n": 10, "d": 3})");
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
}

// ---- descriptions ----

TEST(Descriptions, AreCompletedAndSorted) {
  EXPECT_EQ(spec_of(R"({"seed": 1, "d": 2, "n": 1e3, "generator": "uniform"})").json.dump(),
            R"({"d":2,"generator":"uniform","high":1.0,"low":0.0,"n":1000,"seed":1})");
  EXPECT_EQ(spec_of(R"({"generator": "zhihu2023"})").json.dump(),
            R"({"d":100,"generator":"zhihu2023","n":1000000})");
  EXPECT_EQ(spec_of(R"({"generator": "digits"})").json.dump(),
            R"({"d":64,"generator":"digits","n":1797})");
  EXPECT_EQ(spec_of(R"({"generator": "photograph"})").json.dump(),
            R"({"d":3,"generator":"photograph","n":273280,"picture":1})");
  EXPECT_EQ(spec_of(R"({"generator": "patches"})").json.dump(),
            R"({"d":192,"generator":"patches","n":97564})");
}

TEST(Descriptions, LabelsAreShortAndTellSetsApart) {
  const auto label = [](const std::string& text) { return spec_of(text).label(); };
  EXPECT_EQ(label(R"({"generator": "uniform", "n": 1000, "d": 2})"), "uniform-1000x2-s1");
  EXPECT_EQ(label(R"({"generator": "globular", "n": 10, "d": 2, "k": 5})"), "globular-10x2-k5-s1");
  EXPECT_EQ(label(R"({"generator": "zhihu2023"})"), "zhihu2023-1000000x100");
  EXPECT_EQ(label(R"({"generator": "photograph"})"), "photograph-273280x3");
  EXPECT_THAT(label(R"({"generator": "photograph", "picture": 2})"),
              ::testing::MatchesRegex("photograph-273280x3-[0-9a-f]{6}"));
  const auto low = label(R"({"generator": "uniform", "n": 1000, "d": 2, "low": -1})");
  const auto high = label(R"({"generator": "uniform", "n": 1000, "d": 2, "high": 2})");
  EXPECT_THAT(low, ::testing::MatchesRegex("uniform-1000x2-s1-[0-9a-f]{6}"));
  EXPECT_NE(low, high);
  EXPECT_THAT(label(R"({"file": "/data/My Points.fvecs", "n": 5})"),
              ::testing::MatchesRegex("My_Points-first5-[0-9a-f]{6}"));
}

TEST(Descriptions, Refusals) {
  const auto refusal = [](const std::string& text) { return message_of([&] { spec_of(text); }); };
  EXPECT_THAT(refusal(R"({"generator": "unifrom", "n": 1, "d": 1})"),
              AllOf(HasSubstr("/datasets/0/generator"), HasSubstr("did you mean 'uniform'")));
  EXPECT_THAT(refusal(R"({"generator": "blobs", "n": 1, "d": 1, "sgima": 1})"),
              AllOf(HasSubstr("/datasets/0/sgima"), HasSubstr("did you mean 'sigma'")));
  EXPECT_THAT(refusal(R"({"generator": "uniform", "n": 0, "d": 1})"),
              HasSubstr("/datasets/0/n: 0 is not within [1, 1000000000000] (number of points)"));
  EXPECT_THAT(refusal(R"({"generator": "uniform", "n": 2.5, "d": 1})"),
              HasSubstr("2.5 must be an integer"));
  EXPECT_THAT(refusal(R"({"generator": "uniform", "n": "ten", "d": 1})"),
              HasSubstr("\"ten\" must be an integer"));
  EXPECT_THAT(refusal(R"({"generator": "uniform", "d": 1})"),
              HasSubstr("/datasets/0/n: is missing"));
  EXPECT_THAT(refusal(R"({"generator": "uniform", "n": 1, "d": 1, "low": 2})"),
              HasSubstr("less than high"));
  EXPECT_THAT(refusal(R"({"generator": "line", "n": 1, "d": 2})"),
              HasSubstr("2 is not within [1, 1]"));
  EXPECT_THAT(refusal(R"({"generator": "toy", "n": 1, "d": 2, "outliers": 1.5})"),
              HasSubstr("1.5 is not within [0, 1]"));
  EXPECT_THAT(refusal(R"({"generator": "uniform", "n": 1000000000000, "d": 1000000})"),
              HasSubstr("more than 2^62 bytes"));
  EXPECT_THAT(refusal(R"({"generator": "zhihu2023", "n": 1000001})"), HasSubstr("1000001 is not"));
  EXPECT_THAT(refusal(R"({"generator": "digits", "n": 1798})"), HasSubstr("1798 is not"));
  EXPECT_THAT(refusal(R"({"generator": "photograph", "picture": 3})"), HasSubstr("2: flower.jpg"));
  EXPECT_THAT(refusal(R"({"generator": "glove", "n": 400001})"), HasSubstr("400001 is not"));
  EXPECT_THAT(refusal(R"({"generator": "cities", "d": 3})"), HasSubstr("3 is not within [2, 2]"));
  EXPECT_THAT(refusal(R"({"n": 1})"), HasSubstr("either \"generator\" or \"file\""));
  EXPECT_THAT(refusal(R"([])"), HasSubstr("/datasets/0: must be an object"));
  EXPECT_THAT(refusal(R"({"file": "a.csv", "formt": "csv"})"), HasSubstr("did you mean 'format'"));
  EXPECT_THAT(refusal(R"({"file": "a.csv", "format": "cvs"})"), HasSubstr("did you mean 'csv'"));
  EXPECT_THAT(message_of([] {
                generate(parse_dataset({{"generator", "zhihu2023"}}), ScalarType::f32);
              }),
              HasSubstr("scikit-learn"));
  EXPECT_THAT(message_of([] {
                generate(parse_dataset({{"file", "a.npy"}}), ScalarType::f32);
              }),
              HasSubstr("is a file"));
}

// ---- catalogue ----

TEST(Catalogue, SmallSetsHaveTheirHashes) {
  int checked = 0;
  std::set<std::string> covered;
  for (const auto& entry : catalogue()) {
    const json& spec = entry.spec.json;
    covered.insert(spec.at("generator").get<std::string>());
    if (!require_generator(spec.at("generator")).prepare) continue;
    if (spec.at("n").get<std::int64_t>() * spec.at("d").get<std::int64_t>() > 2'000'000) continue;
    EXPECT_EQ(hash_of(generate(entry.spec, entry.scalar)), entry.sha256)
        << spec.dump() << " " << to_string(entry.scalar);
    ++checked;
  }
  EXPECT_GE(checked, 20);
  for (const auto& generator : generators()) {
    EXPECT_EQ(covered.count(generator.name), 1U) << generator.name;
  }
}

TEST(Catalogue, LandmarksReplaceTheHashWithinTheirTolerance) {
  CatalogueEntry entry;
  entry.sha256 = "another";
  entry.landmarks = Landmarks{1e-9, 5, {{0, 0, 1}, {0, 1, 2}}};
  const std::vector<double> good{1 + 1e-12, 2 - 1e-12};
  EXPECT_EQ(difference_from(entry, "this", make_points(good.data(), 1, 2)), "");
  const std::vector<double> bad{1, 2.001};
  EXPECT_THAT(difference_from(entry, "this", make_points(bad.data(), 1, 2)),
              HasSubstr("point 0, coordinate 1 is 2.001 instead of 2.0"));
  entry.landmarks.reset();
  EXPECT_THAT(difference_from(entry, "this", make_points(good.data(), 1, 2)),
              HasSubstr("SHA-256 this instead of another"));
}

}  // namespace
}  // namespace kmeans
