// SPDX-License-Identifier: Apache-2.0
//
// Question:  zechner2009 saw its centroids vary with the multiply-add of its GPU and left open by
//            how much. How many labels does an arithmetic change, and how far do centroids and
//            inertia move, from that multiply-add to bfloat16 on matrix units?
// How:       Lloyd's algorithm from the same first centroids in each arithmetic (_precision.h),
//            next to the exact step (docs/exact-step.md). Only the distances differ: sums and means
//            are the exact step's, so that nothing else moves a centroid. Variants that take these
//            precisions run next to their emulation, with their own sums, where they can run
// Rows:      docs/precision.md
// Source:    zechner2009, sections VI and VII
#include "experiments/studies/_precision.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/exact_step.h"
#include "harness/study.h"
#include "harness/support/json_reader.h"
#include "harness/support/or_null.h"
#include "harness/support/parallel.h"
#include "harness/support/precision.h"
#include "harness/variants/registry.h"
#include "harness/verify/session.h"

namespace {

using namespace kmeans;  // NOLINT: a study is a file of its own
using nlohmann::json;
using Labels = std::vector<std::int32_t>;
using Centroids = std::vector<double>;  // k x d; float32 values unless the arithmetic is float64

constexpr std::int64_t kLanes = 64;  // points that pass over the centroids together

/// The points of one offset: row-major, and in tiles of kLanes points, d x kLanes each, padded with
/// zeros.
struct Cloud {
  std::int64_t n = 0;
  std::int64_t d = 0;
  std::int64_t k = 0;
  int threads = 1;
  const float* rows = nullptr;  // n x d
  std::vector<float> moved;     // what `rows` points to, if there is an offset
  std::vector<float> tiles;
  float max_abs = 0;
  double deviation = 0;  // root of the mean squared distance from the mean

  [[nodiscard]] std::int64_t tile_count() const { return (n + kLanes - 1) / kLanes; }
};

/// Sum over the points of value(i), in an order that the number of threads does not change.
template <class Value>
double ordered_sum(const Cloud& cloud, const Value& value) {
  std::vector<double> parts(block_count(cloud.n), 0.0);
  for_blocks(cloud.n, cloud.threads, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    double sum = 0;
    for (std::int64_t i = begin; i < end; ++i) sum += value(i);
    parts[block] = sum;
  });
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}

/// Root of the mean squared distance of n points from their mean.
double deviation_of(const StudyInput& input) {
  const auto [n, d] = std::pair{input.n, input.d};
  std::vector<double> mean(d, 0.0);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t t = 0; t < d; ++t) mean[t] += input.points[i * d + t];
  }
  for (double& coordinate : mean) coordinate /= static_cast<double>(n);
  double squares = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    squares += exact::squared_distance(input.points + i * d, mean.data(), d);
  }
  return std::sqrt(squares / static_cast<double>(n));
}

/// The points moved by `shift` in every coordinate, rounded to float32.
Cloud make_cloud(const StudyInput& input, double deviation, double shift) {
  Cloud cloud;
  cloud.n = input.n;
  cloud.d = input.d;
  cloud.k = input.k;
  cloud.threads = input.threads;
  cloud.rows = input.points;
  cloud.deviation = deviation;
  const std::int64_t nd = input.n * input.d;
  if (shift != 0) {
    cloud.moved.resize(nd);
    for (std::int64_t e = 0; e < nd; ++e) {
      cloud.moved[e] = static_cast<float>(input.points[e] + shift);
    }
    cloud.rows = cloud.moved.data();
  }
  for (std::int64_t e = 0; e < nd; ++e) {
    cloud.max_abs = std::max(cloud.max_abs, std::abs(cloud.rows[e]));
  }
  cloud.tiles.assign(cloud.tile_count() * cloud.d * kLanes, 0.0F);
  for_each_part(cloud.tile_count(), cloud.threads, [&](std::int64_t tile) {
    const std::int64_t count = std::min(kLanes, cloud.n - tile * kLanes);
    float* out = cloud.tiles.data() + tile * cloud.d * kLanes;
    for (std::int64_t lane = 0; lane < count; ++lane) {
      const float* row = cloud.rows + (tile * kLanes + lane) * cloud.d;
      for (std::int64_t t = 0; t < cloud.d; ++t) out[t * kLanes + lane] = row[t];
    }
  });
  return cloud;
}

/// Labels of all points, and the value that each label won with.
struct Pass {
  Labels labels;
  std::vector<double> values;
};

/// The nearest of k centroids to each point of a tile, in the arithmetic A; ties to the lowest.
template <class A>
void label_tile(const typename A::Real* tile, const typename A::Real* centroids,
                const typename A::Real* norms, std::int64_t d, std::int64_t k,
                typename A::Real* best, std::int32_t* labels) {
  using Real = typename A::Real;
  std::array<Real, kLanes> sums;
  std::fill(best, best + kLanes, std::numeric_limits<Real>::infinity());
  std::fill(labels, labels + kLanes, 0);
  for (std::int64_t j = 0; j < k; ++j) {
    sums.fill(0);
    for (std::int64_t t = 0; t < d; ++t) {
      const Real c = centroids[j * d + t];
      const Real* x = tile + t * kLanes;
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        sums[lane] = A::add(sums[lane], x[lane], c);
      }
    }
    const Real norm = norms[j];
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const Real value = A::kExpanded ? norm - 2 * sums[lane] : sums[lane];
      const bool nearer = value < best[lane];
      best[lane] = nearer ? value : best[lane];
      labels[lane] = nearer ? static_cast<std::int32_t>(j) : labels[lane];
    }
  }
}

/// What scales a cloud for half precision: a power of two that brings the largest coordinate into
/// [2^14, 2^15), as cuda_cublas does it. 1 for all other arithmetics.
template <class A>
float scale_of(const Cloud& cloud) {
  if (!std::is_same_v<A, precision::F16> || cloud.max_abs == 0) return 1;
  return std::ldexp(1.0F, 14 - std::ilogb(cloud.max_abs));
}

template <class A>
void label_all(const Cloud& cloud, const Centroids& centroids, Pass& pass) {
  using Real = typename A::Real;
  const std::int64_t n = cloud.n;
  const std::int64_t d = cloud.d;
  const std::int64_t k = cloud.k;
  const float scale = scale_of<A>(cloud);
  std::vector<Real> operands(k * d);
  std::vector<Real> norms(k, 0);
  for (std::int64_t j = 0; j < k; ++j) {
    for (std::int64_t t = 0; t < d; ++t) {
      const Real c = static_cast<Real>(centroids[j * d + t]) * static_cast<Real>(scale);
      // Norms are of the centroids as they are, in the sums' precision; products are of operands.
      norms[j] = std::fma(c, c, norms[j]);
      if constexpr (std::is_same_v<Real, double>) {
        operands[j * d + t] = c;
      } else {
        operands[j * d + t] = A::operand(c);
      }
    }
  }
  pass.labels.resize(n);
  pass.values.resize(n);
  constexpr std::int64_t kTilesOfPart = 16;
  const std::int64_t tiles = cloud.tile_count();
  for_each_part((tiles + kTilesOfPart - 1) / kTilesOfPart, cloud.threads, [&](std::int64_t part) {
    std::vector<Real> tile_operands(d * kLanes);
    std::array<Real, kLanes> best;
    std::array<std::int32_t, kLanes> labels;
    for (std::int64_t tile = part * kTilesOfPart; tile < std::min(tiles, (part + 1) * kTilesOfPart);
         ++tile) {
      const float* source = cloud.tiles.data() + tile * d * kLanes;
      for (std::int64_t e = 0; e < d * kLanes; ++e) {
        tile_operands[e] = A::operand(source[e] * scale);
      }
      label_tile<A>(tile_operands.data(), operands.data(), norms.data(), d, k, best.data(),
                    labels.data());
      const std::int64_t count = std::min(kLanes, n - tile * kLanes);
      std::copy_n(labels.data(), count, pass.labels.data() + tile * kLanes);
      std::copy_n(best.data(), count, pass.values.data() + tile * kLanes);
    }
  });
}

struct Arithmetic {
  const char* name;
  void (*label)(const Cloud&, const Centroids&, Pass&);
  bool float32_centroids;
};

/// In the order of the rows. float32 comes first: others are compared with its path too.
constexpr std::array kArithmetics{
    Arithmetic{"f32", label_all<precision::Float32>, true},
    Arithmetic{"f32_fma", label_all<precision::Float32Fused>, true},
    Arithmetic{"f32_madd_2009", label_all<precision::Float32Madd2009>, true},
    Arithmetic{"f32_expanded", label_all<precision::Float32Expanded>, true},
    Arithmetic{"tf32", label_all<precision::Tf32>, true},
    Arithmetic{"f16", label_all<precision::F16>, true},
    Arithmetic{"bf16", label_all<precision::Bf16>, true},
    Arithmetic{"f64", label_all<precision::Float64>, false},
    Arithmetic{"f64_expanded", label_all<precision::Float64Expanded>, false},
};

std::vector<std::string> arithmetic_names() {
  std::vector<std::string> names;
  for (const Arithmetic& arithmetic : kArithmetics) names.emplace_back(arithmetic.name);
  return names;
}

/// Sums in fixed point, which only points whose label changed have to touch: integers are exact.
class Means {
 public:
  Means(const Cloud& cloud, bool float32)
      : cloud_(&cloud),
        float32_(float32),
        exponent_(exact::sum_exponent(cloud.n, cloud.max_abs)),
        sums_(cloud.k * cloud.d, 0),
        counts_(cloud.k, 0) {}

  /// Moves `centroids` to the means of the clusters; an empty one stays.
  void update(const Labels& labels, Centroids& centroids) {
    const std::int64_t n = cloud_->n;
    const std::int64_t d = cloud_->d;
    const std::int64_t k = cloud_->k;
    const double scale = exact::power_of_two(exponent_);
    const std::int64_t parts = std::clamp<std::int64_t>(cloud_->threads, 1, block_count(n));
    std::vector<std::vector<std::int64_t>> changes(parts);  // k x (d + 1): sums and count
    for_each_part(parts, cloud_->threads, [&](std::int64_t part) {
      auto& change = changes[part];
      change.assign(k * (d + 1), 0);
      const auto add = [&](std::int32_t j, std::int64_t i, std::int64_t sign) {
        std::int64_t* cluster = change.data() + j * (d + 1);
        const float* row = cloud_->rows + i * d;
        for (std::int64_t t = 0; t < d; ++t) {
          cluster[t] += sign * exact::to_fixed_point(row[t], scale);
        }
        cluster[d] += sign;
      };
      for (std::int64_t i = n * part / parts; i < n * (part + 1) / parts; ++i) {
        if (!labels_.empty() && labels_[i] == labels[i]) continue;
        if (!labels_.empty()) add(labels_[i], i, -1);
        add(labels[i], i, 1);
      }
    });
    labels_ = labels;
    for (const auto& change : changes) {
      for (std::int64_t j = 0; j < k; ++j) {
        const std::int64_t* cluster = change.data() + j * (d + 1);
        for (std::int64_t t = 0; t < d; ++t) sums_[j * d + t] += cluster[t];
        counts_[j] += cluster[d];
      }
    }
    const double inverse = exact::power_of_two(-exponent_);
    for (std::int64_t j = 0; j < k; ++j) {
      if (counts_[j] == 0) continue;
      for (std::int64_t t = 0; t < d; ++t) {
        const std::int64_t sum = sums_[j * d + t];
        centroids[j * d + t] =
            float32_ ? static_cast<double>(exact::mean_of(sum, counts_[j], inverse))
                     : static_cast<double>(sum) / static_cast<double>(counts_[j]) * inverse;
      }
    }
  }

 private:
  const Cloud* cloud_;
  bool float32_;
  int exponent_;
  std::vector<std::int64_t> sums_;    // k x d
  std::vector<std::int64_t> counts_;  // k
  Labels labels_;                     // that the sums are of
};

/// Something that makes Lloyd steps.
class Walker {
 public:
  Walker(std::string arithmetic, std::string by, Centroids first)
      : centroids_(std::move(first)), arithmetic_(std::move(arithmetic)), by_(std::move(by)) {}
  virtual ~Walker() = default;
  Walker(const Walker&) = delete;
  Walker& operator=(const Walker&) = delete;

  /// One step: fills labels() by centroids(), then moves these.
  virtual void step() = 0;

  [[nodiscard]] const std::string& arithmetic() const { return arithmetic_; }
  [[nodiscard]] const std::string& by() const { return by_; }
  [[nodiscard]] const Centroids& centroids() const { return centroids_; }
  [[nodiscard]] const Labels& labels() const { return pass_.labels; }
  [[nodiscard]] const Pass& pass() const { return pass_; }

 protected:
  Centroids centroids_;
  Pass pass_;

 private:
  std::string arithmetic_;
  std::string by_;
};

class Emulated final : public Walker {
 public:
  Emulated(const Cloud& cloud, const Arithmetic& arithmetic, const char* name, Centroids first)
      : Walker(name, "emulated", std::move(first)),
        cloud_(&cloud),
        label_(arithmetic.label),
        means_(cloud, arithmetic.float32_centroids) {}

  void step() override {
    if (centroids_ == labelled_by_) return;  // settled: the same labels, the same means
    labelled_by_ = centroids_;
    label_(*cloud_, centroids_, pass_);
    means_.update(pass_.labels, centroids_);
  }

 private:
  const Cloud* cloud_;
  void (*label_)(const Cloud&, const Centroids&, Pass&);
  Means means_;
  Centroids labelled_by_;
};

/// A registered variant, with its own labels, sums and means.
template <class T>
class Registered final : public Walker {
 public:
  Registered(const Cloud& cloud, const RegisteredVariant& variant, Precision precision,
             const std::string& arithmetic, const Centroids& first)
      : Walker(arithmetic, variant.traits.name, first) {
    const std::int64_t nd = cloud.n * cloud.d;
    const T* points = nullptr;
    if constexpr (std::is_same_v<T, float>) {
      points = cloud.rows;
    } else {
      points_.assign(cloud.rows, cloud.rows + nd);
      points = points_.data();
    }
    const std::vector<T> start(first.begin(), first.end());
    const Problem<T> problem{.shape = {cloud.n, cloud.d, cloud.k, precision},
                             .points = points,
                             .max_abs = cloud.max_abs,
                             .threads = cloud.threads};
    session_ = std::make_unique<Session<T>>(variant, problem, start.data());
    session_->reset();
  }

  void step() override {
    session_->step(1);
    Outcome<T> outcome = session_->fetch();
    centroids_.assign(outcome.centroids.begin(), outcome.centroids.end());
    pass_.labels = std::move(outcome.labels);
  }

 private:
  std::vector<T> points_;
  std::unique_ptr<Session<T>> session_;
};

/// A variant to run next to an emulation.
struct Companion {
  std::string variant;
  Precision precision = Precision::f32;
  std::string arithmetic;
};

struct Parameters {
  std::int64_t iterations = 0;
  std::vector<double> offsets{0};
  std::vector<const Arithmetic*> arithmetics;
  std::vector<Companion> companions;
  std::vector<std::int64_t> record;
  std::vector<std::array<std::int64_t, 3>> sizes;  // n, d, k
  std::string data;
};

const Arithmetic& read_arithmetic(const JsonReader& value) {
  const std::string name = value.one_of(arithmetic_names());
  return *std::find_if(kArithmetics.begin(), kArithmetics.end(),
                       [&](const Arithmetic& one) { return name == one.name; });
}

/// Those on a GPU whose distances are formed as an emulation forms them.
std::vector<Companion> usual_companions() {
  return {
      {"cuda_atomic", Precision::f32, "f32_fma"}, {"cuda_cublas", Precision::f32, "f32_expanded"},
      {"cuda_cublas", Precision::tf32, "tf32"},   {"cuda_cublas", Precision::f16, "f16"},
      {"cuda_cublas", Precision::bf16, "bf16"},   {"cuda_cublas", Precision::f64, "f64_expanded"}};
}

/// The iterations whose rows are kept.
std::vector<std::int64_t> usual_record(std::int64_t iterations) {
  std::vector<std::int64_t> record;
  for (const std::int64_t iteration : {1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000}) {
    if (iteration <= iterations) record.push_back(iteration);
  }
  return record;
}

Companion read_companion(const JsonReader& entry) {
  entry.allow_only({"variant", "precision", "arithmetic"});
  return {entry["variant"].text(), entry["precision"].parsed(parse_precision),
          read_arithmetic(entry["arithmetic"]).name};
}

/// Of a part of the problem.
std::array<std::int64_t, 3> read_size(const JsonReader& size, const StudyInput& whole) {
  const auto axes = size.elements();
  if (axes.size() != 3) size.fail_type("a list [n, d, k]");
  const std::array<std::int64_t, 3> chosen{axes[0].integer(1, whole.n), axes[1].integer(1, whole.d),
                                           axes[2].integer(1, whole.k)};
  if (chosen[2] > chosen[0]) size.fail("has a k larger than its n");
  return chosen;
}

Parameters parse(const StudyInput& input) {
  const JsonReader given(input.parameters, "parameters");
  given.allow_only({"arithmetics", "data", "iterations", "offsets", "record", "sizes", "variants"});
  Parameters parameters;
  parameters.iterations = given["iterations"].integer(1, 100000);
  if (const auto offsets = given["offsets"]; offsets.present()) {  // in deviations
    parameters.offsets =
        offsets.filled().each([](const JsonReader& offset) { return offset.number(-1e6, 1e6); });
  }
  auto& chosen = parameters.arithmetics;
  if (const auto names = given["arithmetics"]; names.present()) {
    chosen = names.filled().each([](const JsonReader& name) { return &read_arithmetic(name); });
    // float32 first, as in the table.
    std::sort(chosen.begin(), chosen.end());
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  } else {
    for (const Arithmetic& arithmetic : kArithmetics) chosen.push_back(&arithmetic);
  }
  const auto variants = given["variants"];
  parameters.companions = variants.present() ? variants.each(read_companion) : usual_companions();
  const auto record = given["record"];
  parameters.record = record.present() ? record.filled().each([&](const JsonReader& iteration) {
    return iteration.integer(1, parameters.iterations);
  })
                                       : usual_record(parameters.iterations);
  parameters.record.push_back(parameters.iterations);
  parameters.sizes = {{input.n, input.d, input.k}};
  if (const auto sizes = given["sizes"]; sizes.present()) {
    parameters.sizes =
        sizes.filled().each([&](const JsonReader& size) { return read_size(size, input); });
  }
  parameters.data = given["data"].text("");
  return parameters;
}

/// Share of labels that differ.
double differing(const Labels& a, const Labels& b) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i] ? 1 : 0;
  return static_cast<double>(count) / static_cast<double>(a.size());
}

/// Root of the mean squared distance between k centroids of two sets, in deviations of the data.
double centroid_distance(const Cloud& cloud, const Centroids& a, const Centroids& b) {
  double sum = 0;
  for (std::size_t e = 0; e < a.size(); ++e) sum += (a[e] - b[e]) * (a[e] - b[e]);
  const double distance = std::sqrt(sum / static_cast<double>(cloud.k));
  return cloud.deviation > 0 ? distance / cloud.deviation : distance;
}

/// A walker, and what was seen of it.
struct Track {
  std::unique_ptr<Walker> walker;
  Centroids starting;   // that the last step began with
  Centroids judged_by;  // the centroids of `exact`
  Pass exact;           // exact labels and distances for `judged_by`
  Labels previous;
  double inertia = 0;
  double previous_inertia = 0;
  double labels_wrong = 0;
  double labels_wrong_sum = 0;
  double wasted = 0;
  std::optional<std::int64_t> unchanged_after;
  std::optional<std::int64_t> settled_after;
  std::string failure;
  std::vector<json> rows;
};

// Inertia has settled when an iteration changes it by no more than this share.
constexpr double kSettled = 1e-6;

/// Labels by the definition, for given centroids.
constexpr auto kExactLabels = label_all<precision::Float64>;

/// Steps, and compares with the exact labels for the same centroids. `path` is the exact
/// trajectory after the same number of steps.
void advance(const Cloud& cloud, const Track* path, std::int64_t iteration, Track& track) {
  Walker& walker = *track.walker;
  track.starting = walker.centroids();
  walker.step();
  const Labels& labels = walker.labels();
  for (const std::int32_t label : labels) {
    if (label < 0 || label >= cloud.k) throw std::runtime_error("a label is out of range");
  }

  const Pass* exact = &track.exact;
  if (path != nullptr && track.starting == path->starting) {
    exact = &path->walker->pass();  // the same centroids: the same exact labels
  } else if (track.judged_by != track.starting) {
    kExactLabels(cloud, track.starting, track.exact);
    track.judged_by = track.starting;
  }
  track.labels_wrong = differing(labels, exact->labels);
  track.labels_wrong_sum += track.labels_wrong;

  const double best = ordered_sum(cloud, [&](std::int64_t i) { return exact->values[i]; });
  track.previous_inertia = track.inertia;
  track.inertia = ordered_sum(cloud, [&](std::int64_t i) {
    if (labels[i] == exact->labels[i]) return exact->values[i];
    return exact::squared_distance(cloud.rows + i * cloud.d,
                                   track.starting.data() + labels[i] * cloud.d, cloud.d);
  });
  track.wasted = best > 0 ? (track.inertia - best) / best : 0;

  if (!track.unchanged_after && labels == track.previous) track.unchanged_after = iteration;
  if (!track.settled_after && iteration > 1 &&
      std::abs(track.previous_inertia - track.inertia) <= kSettled * track.previous_inertia) {
    track.settled_after = iteration;
  }
  track.previous = labels;
}

json row_of(const Cloud& cloud, const Parameters& parameters, double offset, const Track& path,
            const Track* f32, std::int64_t iteration, const Track& track) {
  const Walker& walker = *track.walker;
  const Walker& exact = *path.walker;
  const double change =
      path.inertia > 0 ? (track.inertia - path.inertia) / path.inertia : track.inertia;
  return {{"n", cloud.n},
          {"d", cloud.d},
          {"k", cloud.k},
          {"data", parameters.data},
          {"offset", offset},
          {"arithmetic", walker.arithmetic()},
          {"by", walker.by()},
          {"series", walker.by() == "emulated" ? walker.arithmetic()
                                               : walker.arithmetic() + ", " + walker.by()},
          {"iteration", iteration},
          {"last", iteration == parameters.iterations},
          {"labels_wrong", track.labels_wrong},
          {"labels_wrong_mean", track.labels_wrong_sum / static_cast<double>(iteration)},
          {"labels_off_path", differing(walker.labels(), exact.labels())},
          {"labels_off_f32",
           f32 != nullptr ? json(differing(walker.labels(), f32->walker->labels())) : nullptr},
          {"inertia", track.inertia},
          {"inertia_change", change},
          {"inertia_error", std::abs(change)},
          {"inertia_wasted", track.wasted},
          {"centroid_error", centroid_distance(cloud, walker.centroids(), exact.centroids())},
          {"centroid_error_f32", f32 != nullptr ? json(centroid_distance(cloud, walker.centroids(),
                                                                         f32->walker->centroids()))
                                                : nullptr}};
}

/// How a track ended, into all of its rows.
void add_ends(const Parameters& parameters, Track& track) {
  const std::string limit = "not within " + std::to_string(parameters.iterations);
  for (json& row : track.rows) {
    row["unchanged_after"] = or_null(track.unchanged_after);
    row["settled_after"] = or_null(track.settled_after);
    row["convergence"] = track.unchanged_after ? std::to_string(*track.unchanged_after) : limit;
    row["settling"] = track.settled_after ? std::to_string(*track.settled_after) : limit;
  }
}

/// Variants that were left out, by reason.
using LeftOut = std::map<std::string, std::vector<std::string>>;

/// The variant as a walker; null where it cannot run.
std::unique_ptr<Walker> make_companion(const Cloud& cloud, const Companion& companion,
                                       const Centroids& first, LeftOut& left_out) {
  const std::string name = companion.variant + " " + to_string(companion.precision);
  const auto leave_out = [&](const std::string& why) {
    left_out[why].push_back(name);
    return nullptr;
  };
  const RegisteredVariant* variant = find_variant(companion.variant);
  if (variant == nullptr) {
    for (const MissingBackend& backend : missing_backends()) {
      if (std::find(backend.variants.begin(), backend.variants.end(), companion.variant) !=
          backend.variants.end()) {
        return leave_out(backend.reason);
      }
    }
    require_variant(companion.variant);  // throws
  }
  const Support support = supports(*variant, {cloud.n, cloud.d, cloud.k, companion.precision});
  if (!support.ok) return leave_out(support.reason);
  if (variant->traits.labels_of == LabelsOf::returned) {
    return leave_out("its labels belong to the centroids after the step");
  }
  try {
    if (companion.precision == Precision::f64) {
      return std::make_unique<Registered<double>>(cloud, *variant, companion.precision,
                                                  companion.arithmetic, first);
    }
    return std::make_unique<Registered<float>>(cloud, *variant, companion.precision,
                                               companion.arithmetic, first);
  } catch (const std::exception& failure) {
    return leave_out(failure.what());
  }
}

void run_offset(const StudyInput& input, const Parameters& parameters, double deviation,
                double offset, StudyOutput& output) {
  const double shift = offset * deviation / std::sqrt(static_cast<double>(input.d));
  const Cloud cloud = make_cloud(input, deviation, shift);
  Centroids first(input.k * input.d);
  for (std::size_t e = 0; e < first.size(); ++e) {
    first[e] = shift == 0 ? input.centroids[e] : static_cast<float>(input.centroids[e] + shift);
  }

  static constexpr Arithmetic kExact{"exact", kExactLabels, true};
  Track path;
  path.walker = std::make_unique<Emulated>(cloud, kExact, "exact", first);
  std::vector<Track> tracks;
  const Track* f32 = nullptr;
  for (const Arithmetic* arithmetic : parameters.arithmetics) {
    tracks.emplace_back().walker =
        std::make_unique<Emulated>(cloud, *arithmetic, arithmetic->name, first);
  }
  const std::size_t emulated = tracks.size();
  LeftOut left_out;
  std::vector<std::string> notes;
  for (const Companion& companion : parameters.companions) {
    if (auto walker = make_companion(cloud, companion, first, left_out)) {
      tracks.emplace_back().walker = std::move(walker);
    }
  }
  for (Track& track : tracks) {
    if (track.walker->arithmetic() == "f32" && track.walker->by() == "emulated") f32 = &track;
  }

  for (std::int64_t iteration = 1; iteration <= parameters.iterations; ++iteration) {
    const bool kept = std::find(parameters.record.begin(), parameters.record.end(), iteration) !=
                      parameters.record.end();
    advance(cloud, nullptr, iteration, path);
    for (std::size_t index = 0; index < tracks.size(); ++index) {
      Track& track = tracks[index];
      if (!track.failure.empty()) continue;
      try {
        advance(cloud, &path, iteration, track);
      } catch (const std::exception& failure) {
        if (index < emulated) throw;
        track.failure = failure.what();
        notes.push_back(track.walker->by() + " (" + track.walker->arithmetic() +
                        ") failed in iteration " + std::to_string(iteration) + ": " +
                        track.failure);
        continue;
      }
      if (kept) {
        track.rows.push_back(row_of(cloud, parameters, offset, path, f32, iteration, track));
      }
      if (track.wasted < -1e-12) {
        output.wrong = track.walker->arithmetic() + " found labels better than the exact ones";
      }
      if (track.walker->arithmetic() == "f64" && track.walker->by() == "emulated" &&
          track.labels_wrong != 0) {
        output.wrong = "float64 labels differ from the exact ones for the same centroids";
      }
    }
  }

  path.rows.push_back(row_of(cloud, parameters, offset, path, f32, parameters.iterations, path));
  add_ends(parameters, path);
  output.rows.push_back(path.rows.back());
  for (Track& track : tracks) {
    add_ends(parameters, track);
    output.rows.insert(output.rows.end(), track.rows.begin(), track.rows.end());
  }
  for (const auto& [reason, names] : left_out) {
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    notes.push_back("Left out: " + all + " (" + reason + ")");
  }
  for (const std::string& note : notes) {
    if (std::find(output.notes.begin(), output.notes.end(), note) == output.notes.end()) {
      output.notes.push_back(note);
    }
  }
}

/// A smaller problem: the first n points, d coordinates and k centroids.
struct Part {
  std::vector<float> points;
  std::vector<float> centroids;
  StudyInput input;

  Part(const StudyInput& whole, const std::array<std::int64_t, 3>& size) : input(whole) {
    const auto [n, d, k] = size;
    const auto cut = [&whole, d = d](const float* rows, std::int64_t count,
                                     std::vector<float>& out) {
      if (d == whole.d) return rows;
      for (std::int64_t i = 0; i < count; ++i) {
        out.insert(out.end(), rows + i * whole.d, rows + i * whole.d + d);
      }
      return static_cast<const float*>(out.data());
    };
    input.points = cut(whole.points, n, points);
    input.centroids = cut(whole.centroids, k, centroids);
    input.n = n;
    input.d = d;
    input.k = k;
  }
};

/// What the source left open: the multiply-add against float32 without one, at its worst over the
/// sizes and offsets, after all iterations.
json findings_of(const std::vector<json>& rows) {
  json findings = json::object();
  const auto largest = [&](const std::string& finding, const json& row, const char* key) {
    if (row[key].is_null()) return;
    const double value = row[key];
    if (!findings.contains(finding) || findings[finding] < value) findings[finding] = value;
  };
  for (const json& row : rows) {
    if (row["last"] != true || row["by"] != "emulated") continue;
    if (row["arithmetic"] == "f32") largest("f32_labels_wrong", row, "labels_wrong_mean");
    if (row["arithmetic"] != "f32_madd_2009") continue;
    largest("madd_labels_wrong", row, "labels_wrong_mean");
    largest("madd_inertia_error", row, "inertia_error");
    largest("madd_centroids_from_exact", row, "centroid_error");
    largest("madd_centroids_from_f32", row, "centroid_error_f32");
  }
  return findings;
}

StudyOutput run(const StudyInput& input) {
  const Parameters parameters = parse(input);
  StudyOutput output;
  for (const auto& size : parameters.sizes) {
    const Part part(input, size);
    const double deviation = deviation_of(part.input);
    for (const double offset : parameters.offsets) {
      run_offset(part.input, parameters, deviation, offset, output);
    }
  }
  output.findings = findings_of(output.rows);
  return output;
}

}  // namespace

KMEANS_STUDY(.name = "precision",
             .summary =
                 "How many labels an arithmetic changes, and how far centroids and inertia move",
             .source = "zechner2009", .needs_data = true, .run = run);
