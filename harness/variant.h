// SPDX-License-Identifier: Apache-2.0
//
// The contract between the suite and a k-means variant: the only header that a variant needs.
//
// A variant gets points and initial centroids, advances Lloyd's algorithm by whole iterations, and hands
// back what follows from these alone. In setup it may ask a clock which of several ways to the same bits to take.
//
//   template <class T>                               // T = float or double, the points' scalar
//   class CpuFoo final : public kmeans::Variant<T> {
//     void setup(const kmeans::Problem<T>& problem) override;
//     void reset(const T* centroids) override;
//     void step(std::int64_t iterations) override;
//     void fetch(T* centroids, std::int32_t* labels) override;
//   };
//   KMEANS_VARIANT(CpuFoo, .name = "cpu_foo", .summary = "...", .precisions = {Precision::f32});
//
// One file in implementations/<backend>/ is all that a new variant takes: no list, enum, switch or
// build file names variants.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kmeans {

/// Arithmetic of the distance computation. The points are float64 for f64, float32 for all others.
enum class Precision { f64, f32, tf32, f16, bf16 };

/// "f64", "f32", ... as written in experiments and results.
const char* to_string(Precision precision);

/// Size of a clustering problem. n points of d coordinates, k clusters; all at least 1 and k <= n.
struct Shape {
  std::int64_t n = 0;
  std::int64_t d = 0;
  std::int64_t k = 0;
  Precision precision = Precision::f32;
};

/// A shape for the arithmetic of traits, which counts bytes and operations: as float64 no product of
/// sizes overflows, and none needs a cast. Functions of traits may take it where a Shape is given.
struct Sizes {
  double n;
  double d;
  double k;
  double scalar;  ///< Bytes of one coordinate.

  Sizes(const Shape& shape)  // NOLINT(google-explicit-constructor)
      : n(static_cast<double>(shape.n)),
        d(static_cast<double>(shape.d)),
        k(static_cast<double>(shape.k)),
        scalar(shape.precision == Precision::f64 ? 8 : 4) {}
};

/// Bytes that a variant needs, by the shape and the CPU threads that it is given. Made of a function of
/// the shape, or of shape and threads where every thread has memory of its own.
class MemoryModel {
 public:
  MemoryModel() = default;
  template <class F>
  MemoryModel(F bytes) {  // NOLINT(google-explicit-constructor): traits are given a lambda
    if constexpr (std::is_invocable_r_v<double, F&, const Shape&, int>) {
      bytes_ = std::move(bytes);
    } else {
      bytes_ = [bytes = std::move(bytes)](const Shape& shape, int) { return bytes(shape); };
    }
  }
  explicit operator bool() const { return static_cast<bool>(bytes_); }
  double operator()(const Shape& shape, int threads) const { return bytes_(shape, threads); }

 private:
  std::function<double(const Shape&, int)> bytes_;
};

class Communicator;        // harness/communicator.h
class DeviceCommunicator;  // the same

/// Of which whole the points are a part (docs/scaling.md). Only variants with the trait `shards` or
/// `gpu_shards` are given one.
struct Shard {
  Communicator* communicator = nullptr;   ///< To the ranks with the other parts, or null.
  std::int64_t first = 0;                 ///< The points' first row, in the whole.
  std::int64_t n = 0;                     ///< Points of the whole.
  DeviceCommunicator* devices = nullptr;  ///< To the GPUs with the other parts, or null.
};

/// How much each point counts (docs/exact-step.md). Only variants with the trait `weights` are given any.
template <class T>
struct CountedPoints {
  const std::int64_t* weights = nullptr;  ///< n, none below 0; null: every point counts once.
  std::int64_t scale_n = 0;  ///< What the sums' scale goes by in place of the number of points.
  T max_abs = 0;             ///< Largest |coordinate| of the points that count.
  const double* given =
      nullptr;  ///< n, of which the weights were made, for sums of distances; or null.

  [[nodiscard]] std::int64_t weight(std::int64_t i) const {
    return weights == nullptr ? 1 : weights[i];
  }
  [[nodiscard]] bool counts(std::int64_t i) const { return weight(i) > 0; }
};

/// What a variant is given once, before any iteration. All memory outlives the variant.
template <class T>
struct Problem {
  Shape shape;                ///< Of a shard n may be 0, and less than k.
  const T* points = nullptr;  ///< n x d, row-major, finite, read-only (a write is a fault).
  T max_abs = 0;              ///< Largest |coordinate| of the points; of a shard, of the whole.
  int threads = 1;            ///< CPU threads the variant may use; at least 1.
  std::string points_file{};  ///< A .npy file that holds exactly these points, or empty.
  /// Memory does not hold the points: `points` is a mapping of points_file, C-ordered and in T. Only
  /// variants with the trait `streams` are given such.
  bool beyond_memory = false;
  Shard shard{};
  CountedPoints<T> counted{};
  /// Points and first centroids have length one, or are zeros, and new centroids are sums scaled to length
  /// one (docs/exact-step.md). Only variants with the trait `spherical` are given such.
  bool spherical = false;
  /// Of the one run to come, where it is known: a variant that chooses may leave out what so few do not pay
  /// for. 0: not known, or there are several.
  std::int64_t iterations = 0;

  /// Are sums weighted, or scaled to length one?
  [[nodiscard]] bool is_counted() const { return counted.weights != nullptr || spherical; }

  /// Points of the whole: what the scale of the exact step goes by.
  [[nodiscard]] std::int64_t whole_n() const {
    return shard.communicator != nullptr || shard.devices != nullptr ? shard.n : shape.n;
  }
};

/// Answer of a capability query: supported, or why not ("k*d = 70000 exceeds shared memory ...").
struct Support {
  bool ok = true;
  std::string reason;
  static Support yes() { return {}; }
  static Support no(std::string why) { return {false, std::move(why)}; }
};

/// Bytes that one iteration moves between memory and the processor *as the variant is written*:
/// a model derived from its loops, never a measurement. Cache reuse that the code does not arrange
/// for itself is not credited.
struct Traffic {
  double read_bytes = 0;
  double written_bytes = 0;
  double atomic_bytes = 0;  ///< Updated by atomic read-modify-write operations.
};

/// What one stage of an iteration does, for the rates of that stage alone. A model, as Traffic is.
struct StageWork {
  std::string stage{};    ///< As given to stage(): "assign", "update", ...
  double operations = 0;  ///< Of the operation model (docs/metrics.md).
  Traffic traffic{};
  bool gpu = false;  ///< Runs on a GPU; decides whose ceilings the rates are held against.
};

/// What a variant can say cheaply about the last iteration of the last step(); absent fields are
/// computed by the harness from fetched results.
struct Progress {
  std::optional<double> movement;       ///< Sum over centroids of squared movement.
  std::optional<std::int64_t> changed;  ///< Labels that differ from the iteration before.
  std::optional<double> loss;           ///< Sum over points of the distance to their centroid.
};

/// How distances are formed; decides which rounding bound the verifier grants (docs/exact-step.md).
enum class Distance {
  direct,    ///< sum of (x_t - c_t)^2
  expanded,  ///< |x|^2 - 2 x.c + |c|^2 in any arrangement, e.g. through a matrix product
};

/// In what the coordinates of a cluster are summed; decides the bound on centroids.
enum class Sums {
  working,  ///< The points' scalar, in any order: the error may grow with the cluster's size.
  wide,     ///< float64 (for float32 points), compensated, or fixed point.
};

/// To which centroids do the labels handed out by fetch() belong?
enum class LabelsOf {
  starting,  ///< Those that the last iteration started from (plain Lloyd).
  returned,  ///< Those that fetch() returns: the library assigns once more after its last update.
};

/// What happens to a cluster that no point is nearest to?
enum class EmptyClusters {
  keep,      ///< It keeps its centroid: the suite's own rule.
  relocate,  ///< The library moves it; trajectories with empty clusters are not compared.
};

/// Everything the suite knows about a variant without running it.
struct Traits {
  std::string name{};     ///< Unique, [a-z0-9_]+, begins with its backend: "cpu_naive".
  std::string summary{};  ///< One line: the idea.
  std::string source{};   ///< Source id ("goldsborough2017"), library, or empty.
  std::vector<Precision> precisions{Precision::f32};  ///< The first one is the default.
  bool exact = false;         ///< Equals the exact Lloyd step (docs/exact-step.md) bit for bit.
  bool engine = false;        ///< Exact, and asked by the harness for right answers (exact_engine).
  bool deterministic = true;  ///< Same bits on every run on one machine with one thread count.
  bool parallel = false;      ///< Uses more than one CPU thread.
  bool shards = false;        ///< Takes a Shard: exact, and its sums go through the communicator.
  bool gpu_shards = false;    ///< On a GPU: exact, and its sums go through the Shard's `devices`.
  bool streams = false;       ///< Takes points that memory does not hold (Problem::beyond_memory).
  bool weights = false;       ///< Takes weights of points (Problem::counted).
  bool spherical = false;     ///< Takes Problem::spherical.
  bool many_gpus = false;     ///< Shares its points among gpus_in_use() (harness/machine/gpu.h).
  bool skips_work = false;    ///< Uses bounds or an index: modelled FLOPs are "effective" only.
  Distance distance = Distance::direct;
  bool centres = false;  ///< Subtracts a common shift, within one root-mean-square radius of the
                         ///< data's mean, from points and centroids before it forms distances;
                         ///< if its sums are of these, the shift is the mean.
  Sums sums = Sums::working;
  LabelsOf labels_of = LabelsOf::starting;
  EmptyClusters empty_clusters = EmptyClusters::keep;
  std::string timing_note{};  ///< What an iteration's time contains beyond Lloyd's two steps.
  std::string setup_note{};   ///< What setup contains beyond allocating and arranging its data.
  bool gpu = false;           ///< Runs on a GPU. Set by the registry for backends cuda and nccl.
  /// Not empty: kept although its answers are wrong, and why ("the second launch reads ..."). It is
  /// run and reported as wrong, never timed, and no failure of the suite.
  std::string wrong_because{};
  /// Shapes the technique admits; the reason of a "no" is shown to users. Default: all.
  std::function<Support(const Shape&)> supports{};
  /// Host bytes needed besides the points, for the check before allocation: a function of the shape,
  /// or of shape and CPU threads. Default: n labels.
  MemoryModel memory_bytes{};
  /// GPU variants: bytes of device memory needed, points included, for the check before allocation.
  /// Default: points, labels, and two sets of centroids.
  std::function<double(const Shape&)> device_bytes{};
  /// The same of problems with weights or of length one. Default: as of others.
  std::function<double(const Shape&)> counted_device_bytes{};
  /// Traffic of one iteration. Default: unknown (no as-written GB/s is shown).
  std::function<Traffic(const Shape&)> traffic{};
  /// Work of single stages of one iteration. Default: unknown (no rate of a stage is shown).
  std::function<std::vector<StageWork>(const Shape&)> stage_work{};
};

/// Accumulates seconds per named stage in the profiling pass; headline timings run without it.
class StageRecorder {
 public:
  virtual ~StageRecorder() = default;
  virtual void begin(const char* stage) = 0;
  virtual void end() = 0;
};

/// Marks the enclosing block as a stage ("assign", "update", "upload", ...); free when not
/// profiling.
class StageScope {
 public:
  StageScope(StageRecorder* recorder, const char* stage) : recorder_(recorder) {
    if (recorder_ != nullptr) recorder_->begin(stage);
  }
  ~StageScope() {
    if (recorder_ != nullptr) recorder_->end();
  }
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;

 private:
  StageRecorder* recorder_;
};

/// One clustering of one set of points. Calls come in the order setup, then any number of
/// reset / step / fetch, always reset before the first step. Errors are thrown as std::exception.
template <class T>
class Variant {
 public:
  using Scalar = T;

  virtual ~Variant() = default;

  /// Allocates, transposes, uploads: outside the timing of iterations, timed on its own.
  virtual void setup(const Problem<T>& problem) = 0;

  /// Back to the given initial centroids (k x d, row-major); forgets all state of earlier steps.
  virtual void reset(const T* centroids) = 0;

  /// Runs this many Lloyd iterations (assignment, then update); this is what is timed. Never stops
  /// early. Returns only when the work is done.
  virtual void step(std::int64_t iterations) = 0;

  /// Writes the current centroids (k x d) and the labels (n) of the last iteration.
  virtual void fetch(T* centroids, std::int32_t* labels) = 0;

  virtual Progress progress() { return {}; }

  /// Only for variants whose step runs in another process: the seconds that process's own clock
  /// (harness code, not the variant) measured around the last step, without the way there and back.
  virtual std::optional<double> remote_step_seconds() const { return std::nullopt; }

  /// Only with remote_step_seconds(), on a GPU: the seconds between device events around the step.
  virtual std::optional<double> remote_device_seconds() const { return std::nullopt; }

  /// Only for libraries that can stop before the requested count: iterations that the last step()
  /// really ran. Times per iteration divide by them.
  virtual std::optional<std::int64_t> executed_iterations() const { return std::nullopt; }

  /// Only for variants that can leave distances out: those between a point and a centroid that the
  /// last step() formed, in whatever arithmetic; counted as it went, never modelled (docs/metrics.md).
  virtual std::optional<std::int64_t> computed_distances() const { return std::nullopt; }

  /// Versions, BLAS, thread counts of the library behind the variant, as (key, value) pairs.
  virtual std::vector<std::pair<std::string, std::string>> library_info() const { return {}; }

  void set_stage_recorder(StageRecorder* recorder) { recorder_ = recorder; }

 protected:
  [[nodiscard]] StageScope stage(const char* name) { return StageScope(recorder_, name); }
  /// Whether stages are recorded: in the profiling pass alone.
  [[nodiscard]] bool profiled() const { return recorder_ != nullptr; }
  /// For a variant that has others at work: theirs may be its own.
  [[nodiscard]] StageRecorder* stage_recorder() const { return recorder_; }

 private:
  StageRecorder* recorder_ = nullptr;
};

/// Makes a variant for a precision; null when the points' scalar does not fit that precision.
struct Factory {
  std::function<std::unique_ptr<Variant<float>>(Precision)> make_float;
  std::function<std::unique_ptr<Variant<double>>(Precision)> make_double;
};

/// Adds a variant to the registry. `file` says which backend: the folder under implementations/.
/// Ends the program with a message if the name is taken or malformed.
bool register_variant(Traits traits, Factory factory, const char* file);

/// What is registered under a name.
struct Registration {
  Traits traits;
  Factory factory;
};

/// For a variant that has others at work: the compiled one of that name. Throws std::logic_error if
/// there is none. Only once main() has begun: before, some are not yet registered.
Registration registered_variant(const std::string& name);

namespace detail {
template <template <class> class V>
Factory factory_of() {
  return {
      [](Precision) -> std::unique_ptr<Variant<float>> { return std::make_unique<V<float>>(); },
      [](Precision) -> std::unique_ptr<Variant<double>> { return std::make_unique<V<double>>(); }};
}
template <class V>
Factory factory_of() {
  Factory factory;
  if constexpr (std::is_same_v<typename V::Scalar, float>) {
    factory.make_float = [](Precision) { return std::make_unique<V>(); };
  } else {
    factory.make_double = [](Precision) { return std::make_unique<V>(); };
  }
  return factory;
}
}  // namespace detail

}  // namespace kmeans

/// Registers class `Class` (a class, or a class template over the scalar) with designated
/// initialisers of Traits, in the order in which Traits declares them.
#define KMEANS_VARIANT(Class, ...)                                                                 \
  namespace {                                                                                      \
  [[maybe_unused]] const bool registered_##Class = [] {                                            \
    using namespace kmeans; /* NOLINT: lets the initialisers say Precision::f32 */                 \
    return register_variant(Traits{__VA_ARGS__}, ::kmeans::detail::factory_of<Class>(), __FILE__); \
  }();                                                                                             \
  }
